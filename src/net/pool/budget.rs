//! Budget: how many blocks of which class are guaranteed, as a sum of named terms.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::{CLASSES, Term, UNIT, block_bytes, class_of};
use crate::error::Error;
use core::fmt;

/// The sum of some [`Term`]s and a shared rest: what a pool of that shape takes. Prints itself line
/// by line, so that a host can read where its memory goes.
#[derive(Clone, Copy, Debug)]
pub struct Budget<'a> {
    terms: &'a [Term],
    blocks: [u32; CLASSES],
    shared_units: u32,
    total: usize,
}

/// A pool is smaller than this: 1 TiB in smallest blocks.
const MOST_UNITS: usize = 1 << 28;

impl<'a> Budget<'a> {
    /// Adds up `terms` and `shared` bytes besides (rounded up to the smallest block).
    ///
    /// # Errors
    /// [`Error::Invalid`] if a term's block is larger than the largest class, if there is no block
    /// at all, or if the sum is beyond what can be addressed.
    pub fn of(terms: &'a [Term], shared: usize) -> Result<Self, Error> {
        const TOO_MUCH: Error = Error::Invalid("the memory budget is beyond what can be addressed");
        let mut blocks = [0u32; CLASSES];
        let mut units = shared.div_ceil(UNIT);
        for term in terms {
            let class = class_of(term.size)
                .ok_or(Error::Invalid("a memory term asks for a block over the largest class"))?;
            let count = u32::try_from(term.blocks).map_err(|_| TOO_MUCH)?;
            blocks[class] = blocks[class].checked_add(count).ok_or(TOO_MUCH)?;
            let more = term.blocks.checked_shl(class as u32).ok_or(TOO_MUCH)?;
            units = units.checked_add(more).ok_or(TOO_MUCH)?;
        }
        if units == 0 {
            return Err(Error::Invalid("a pool without a block"));
        }
        // A pool's tables are 15 bytes a unit, and touched: more would be beyond any machine.
        if units >= MOST_UNITS {
            return Err(TOO_MUCH);
        }
        let total = units.checked_mul(UNIT).ok_or(TOO_MUCH)?;
        let shared_units = shared.div_ceil(UNIT) as u32;
        Ok(Budget { terms, blocks, shared_units, total })
    }

    /// Bytes of the whole arena.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Bytes that all classes share.
    pub fn shared(&self) -> usize {
        self.shared_units as usize * UNIT
    }

    /// Guaranteed blocks of the class that holds `size` bytes; 0 for a size over the largest.
    pub fn guaranteed(&self, size: usize) -> usize {
        class_of(size).map_or(0, |class| self.blocks[class] as usize)
    }

    pub(super) fn blocks(&self) -> [u32; CLASSES] {
        self.blocks
    }

    pub(super) fn shared_units(&self) -> u32 {
        self.shared_units
    }
}

impl fmt::Display for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for term in self.terms.iter().filter(|term| term.blocks > 0) {
            let block = class_of(term.size).map_or(0, block_bytes);
            let bytes = block * term.blocks;
            writeln!(f, "{bytes:>12}  {} × {block}: {}", term.blocks, term.why)?;
        }
        writeln!(f, "{:>12}  shared by all", self.shared())?;
        write!(f, "{:>12}  in all", self.total)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests {
    use super::*;

    #[test]
    fn adds_up_and_prints_the_sum() {
        let terms = [
            Term { why: "one frame in progress", size: 1 << 20, blocks: 2 },
            Term { why: "a first block per connection", size: 16 << 10, blocks: 10 },
            Term { why: "an answer each", size: 16 << 10, blocks: 1 },
        ];
        let budget = Budget::of(&terms, 100_000).unwrap();
        let shared = 100_000usize.div_ceil(4160) * 4160;
        assert_eq!(budget.shared(), shared);
        assert_eq!(budget.total(), 2 * (4160 << 8) + 11 * (4160 << 2) + shared);
        assert_eq!(budget.guaranteed(10_000), 11);
        assert_eq!(budget.guaranteed(2 << 20), 0);
        let text = budget.to_string();
        assert!(text.contains("2 × 1064960: one frame in progress"), "{text}");
        assert!(text.ends_with(&format!("{:>12}  in all", budget.total())), "{text}");
    }

    #[test]
    fn refuses_what_cannot_be() {
        let term = |size, blocks| [Term { why: "test", size, blocks }];
        assert!(Budget::of(&term((128 << 20) + (2 << 20) + 1, 1), 0).is_err());
        assert!(Budget::of(&term((128 << 20) + (2 << 20), 1), 0).is_ok());
        assert!(Budget::of(&[], 0).is_err());
        assert!(Budget::of(&term(1, usize::MAX), 0).is_err());
        assert!(Budget::of(&term(1 << 20, 1 << 30), 0).is_err());
        #[cfg(target_pointer_width = "64")]
        assert!(Budget::of(&[], (UNIT << 28) - 1).is_err());
        assert!(Budget::of(&[], usize::MAX).is_err());
    }
}
