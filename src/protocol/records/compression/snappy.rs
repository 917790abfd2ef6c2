//! Snappy: a bare block, or blocks in the framing of snappy-java: a magic, two versions, and then
//! each block behind its length.

use super::inflater::{InflateError, bad};
use snap::raw::{Decoder, decompress_len};

/// What snappy-java's framing begins with. No bare block does: it would announce what cannot be in
/// its first bytes.
const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
/// The magic, the version and the oldest version that can read it.
const HEADER_LEN: usize = 16;
/// How much longer a block may be than its bytes: a copy of 64 takes three of them.
pub(super) const RATIO: usize = 22;

pub(super) fn inflate(from: &[u8], to: &mut [u8]) -> Result<usize, InflateError> {
    if !from.starts_with(&MAGIC) {
        return block(from, to);
    }
    let mut done = 0;
    for framed in Blocks(from) {
        done += block(framed?, to.get_mut(done..).unwrap_or_default())?;
    }
    Ok(done)
}

fn block(from: &[u8], to: &mut [u8]) -> Result<usize, InflateError> {
    match decompress_len(from) {
        // No reason to look for room.
        Ok(len) if len > from.len().saturating_mul(RATIO) => {
            return bad("a snappy block that says to be longer than it can be");
        }
        Ok(len) if len > to.len() => return Err(InflateError::Full),
        _ => {}
    }
    Decoder::new().decompress(from, to).or_else(|_| bad("a snappy block that cannot be"))
}

/// The sum of what the blocks announce.
pub(super) fn announced(from: &[u8]) -> Option<usize> {
    if !from.starts_with(&MAGIC) {
        return decompress_len(from).ok();
    }
    Blocks(from).try_fold(0usize, |sum, framed| {
        Some(sum.saturating_add(decompress_len(framed.ok()?).ok()?))
    })
}

/// The blocks in snappy-java's framing. Several such streams may follow each other.
struct Blocks<'a>(&'a [u8]);

impl<'a> Blocks<'a> {
    fn cut(&mut self) -> Option<&'a [u8]> {
        while self.0.starts_with(&MAGIC) {
            self.0 = self.0.get(HEADER_LEN..)?;
        }
        let (len, rest) = self.0.split_first_chunk::<4>()?;
        let len = usize::try_from(i32::from_be_bytes(*len)).ok()?;
        let (framed, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(framed)
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<&'a [u8], InflateError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() || self.0.len() == HEADER_LEN && self.0.starts_with(&MAGIC) {
            return None;
        }
        let framed = self.cut();
        if framed.is_none() {
            self.0 = &[];
        }
        Some(framed.map_or_else(|| bad("a snappy block that is cut off"), Ok))
    }
}
