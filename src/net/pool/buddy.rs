//! Buddy: the shared part of the arena, cut into blocks of 1, 2, 4 … 32,768 units. Merging is lazy: a
//! block that comes home waits in its class's short list, so that the common lease and return cost
//! no split and no merge; the lists are emptied when a lease finds nothing else.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::CLASSES;

/// No unit.
const NONE: u32 = u32::MAX;
/// Blocks of a class that may wait unmerged.
const WAITING_MAX: u32 = 32;

/// Tag of a unit that does not begin a free block.
const TAKEN: u8 = 0xff;

/// Free blocks by class; a block of class `k` is 2^k units and begins at a multiple of that.
#[derive(Debug)]
pub(super) struct Buddy {
    units: u32,
    /// Per class the first free block, merged as far as it goes.
    free: [u32; CLASSES],
    /// Bit `k` is set when `free[k]` holds a block.
    have: u32,
    /// Per class the first block that waits unmerged, and how many wait.
    waiting: [u32; CLASSES],
    waiting_len: [u32; CLASSES],
    /// Neighbours in the list a unit's block stands in; the waiting lists use `next` only.
    next: Box<[u32]>,
    prev: Box<[u32]>,
    /// The class of the free block that begins at a unit, else `TAKEN`.
    tag: Box<[u8]>,
}

impl Buddy {
    /// All of `units` free, in blocks as large as they go.
    pub(super) fn new(units: u32) -> Self {
        let table = |_| NONE;
        let mut buddy = Buddy {
            units,
            free: [NONE; CLASSES],
            have: 0,
            waiting: [NONE; CLASSES],
            waiting_len: [0; CLASSES],
            next: (0..units).map(table).collect(),
            prev: (0..units).map(table).collect(),
            tag: (0..units).map(|_| TAKEN).collect(),
        };
        // From the end, so that the lists begin with the lowest addresses.
        let mut end = units;
        while end > 0 {
            let class = end.trailing_zeros().min(CLASSES as u32 - 1) as usize;
            end -= 1 << class;
            buddy.push(end, class);
        }
        buddy
    }

    /// Takes a block of `class`; its first unit.
    #[inline]
    pub(super) fn take(&mut self, class: usize) -> Option<u32> {
        let unit = self.waiting[class];
        if unit != NONE {
            self.waiting[class] = self.next[unit as usize];
            self.waiting_len[class] -= 1;
            return Some(unit);
        }
        self.cut(class).or_else(|| if self.merge_waiting() { self.cut(class) } else { None })
    }

    /// Puts back a block of `class` that [`Buddy::take`] gave.
    #[inline]
    pub(super) fn give(&mut self, unit: u32, class: usize) {
        debug_assert_eq!(self.tag[unit as usize], TAKEN, "a block that is free came home");
        if self.waiting_len[class] < WAITING_MAX {
            self.next[unit as usize] = self.waiting[class];
            self.waiting[class] = unit;
            self.waiting_len[class] += 1;
        } else {
            self.merge(unit, class);
        }
    }

    /// Takes the smallest free block that holds `class` and puts what is too much back.
    fn cut(&mut self, class: usize) -> Option<u32> {
        let fitting = self.have & (u32::MAX << class);
        if fitting == 0 {
            return None;
        }
        let mut have = fitting.trailing_zeros() as usize;
        let unit = self.free[have];
        self.unlink(unit, have);
        while have > class {
            have -= 1;
            self.push(unit + (1 << have), have);
        }
        Some(unit)
    }

    /// Merges every block that waits; says whether any did.
    fn merge_waiting(&mut self) -> bool {
        let mut any = false;
        for class in 0..CLASSES {
            while self.waiting[class] != NONE {
                let unit = self.waiting[class];
                self.waiting[class] = self.next[unit as usize];
                self.merge(unit, class);
                any = true;
            }
            self.waiting_len[class] = 0;
        }
        any
    }

    /// Puts a block into the free list of the largest class it completes.
    fn merge(&mut self, mut unit: u32, mut class: usize) {
        while class + 1 < CLASSES {
            let buddy = unit ^ (1 << class);
            if buddy >= self.units || self.tag[buddy as usize] != class as u8 {
                break;
            }
            self.unlink(buddy, class);
            unit &= !(1 << class);
            class += 1;
        }
        self.push(unit, class);
    }

    fn push(&mut self, unit: u32, class: usize) {
        let first = self.free[class];
        self.next[unit as usize] = first;
        self.prev[unit as usize] = NONE;
        if first != NONE {
            self.prev[first as usize] = unit;
        }
        self.free[class] = unit;
        self.have |= 1 << class;
        self.tag[unit as usize] = class as u8;
    }

    fn unlink(&mut self, unit: u32, class: usize) {
        let (next, prev) = (self.next[unit as usize], self.prev[unit as usize]);
        if next != NONE {
            self.prev[next as usize] = prev;
        }
        if prev != NONE {
            self.next[prev as usize] = next;
        } else {
            self.free[class] = next;
            if next == NONE {
                self.have &= !(1 << class);
            }
        }
        self.tag[unit as usize] = TAKEN;
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests {
    use super::*;

    /// Units of the largest block.
    const WHOLE: u32 = 1 << (CLASSES - 1);

    /// Takes everything at random and puts it back at random: at the end the largest blocks are
    /// whole again, and in between no two blocks overlap.
    #[test]
    fn splits_and_merges_back() {
        for units in [1u32, 2, 3, WHOLE - 1, WHOLE, WHOLE + 1, 2 * WHOLE + 77] {
            let mut buddy = Buddy::new(units);
            let mut owner = vec![false; units as usize];
            let mut out: Vec<(u32, usize)> = Vec::new();
            let mut x = u64::from(units);
            for _ in 0..if cfg!(miri) { 100 } else { 3_000 } {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let class = (x >> 40) as usize % CLASSES;
                if (x >> 60) & 1 == 0
                    && let Some(unit) = buddy.take(class)
                {
                    assert_eq!(unit % (1 << class), 0);
                    for u in unit..unit + (1 << class) {
                        assert!(!core::mem::replace(&mut owner[u as usize], true));
                    }
                    out.push((unit, class));
                } else if !out.is_empty() {
                    let (unit, class) = out.swap_remove((x >> 33) as usize % out.len());
                    owner[unit as usize..unit as usize + (1 << class)].fill(false);
                    buddy.give(unit, class);
                }
            }
            for (unit, class) in out.drain(..) {
                buddy.give(unit, class);
            }
            let whole = core::iter::from_fn(|| buddy.take(CLASSES - 1)).count();
            assert_eq!(whole as u32, units / WHOLE);
            let rest = core::iter::from_fn(|| buddy.take(0)).count();
            assert_eq!(rest as u32, units % WHOLE);
        }
    }
}
