//! Gzip: members of a header, a deflate stream, a CRC-32 and a length (RFC 1952).

use super::inflater::{InflateError, bad};
use zlib_rs::{Inflate, InflateFlush, Status, crc32::crc32};

/// The flags of a header: what follows its fixed part.
const HAS_CRC: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;
/// The fixed part.
const HEADER_LEN: usize = 10;
/// CRC-32 and length, both little-endian.
const TRAILER_LEN: usize = 8;
/// Of the window that deflate looks back in: the largest there is.
const WINDOW_BITS: u8 = 15;

/// A decoder of deflate streams; its window is the output.
pub(super) struct Gzip(Inflate);

impl Gzip {
    pub(super) fn new() -> Self {
        Gzip(Inflate::new(false, WINDOW_BITS))
    }

    pub(super) fn inflate(&mut self, from: &[u8], to: &mut [u8]) -> Result<usize, InflateError> {
        let (mut rest, mut done) = (from, 0);
        loop {
            let member = to.get_mut(done..).unwrap_or_default();
            let (used, made) = self.member(rest, member)?;
            rest = rest.get(used..).unwrap_or(&[]);
            done += made;
            if rest.is_empty() {
                return Ok(done);
            }
        }
    }

    /// One member; gives how many bytes it has, and how many came out of it.
    fn member(&mut self, from: &[u8], to: &mut [u8]) -> Result<(usize, usize), InflateError> {
        let Some(stream) = after_header(from) else {
            return bad("a gzip header that is cut off or is none");
        };
        self.0.reset(false);
        let status = self.0.decompress(stream, to, InflateFlush::Finish);
        let (used, made) = (self.0.total_in() as usize, self.0.total_out() as usize);
        match status {
            Ok(Status::StreamEnd) => {}
            Ok(_) if made == to.len() => return Err(InflateError::Full),
            Ok(_) => return bad("a gzip stream that is cut off"),
            Err(_) => return bad("a gzip stream that cannot be"),
        }
        let trailer = stream.get(used..).and_then(<[u8]>::first_chunk::<TRAILER_LEN>);
        let Some([a, b, c, d, e, f, g, h]) = trailer.copied() else {
            return bad("a gzip stream that is cut off");
        };
        let whole = to.get(..made).unwrap_or(&[]);
        if u32::from_le_bytes([a, b, c, d]) != crc32(0, whole)
            || u32::from_le_bytes([e, f, g, h]) != made as u32
        {
            return bad("a gzip stream whose checksum or length is wrong");
        }
        Ok((from.len() - stream.len() + used + TRAILER_LEN, made))
    }
}

/// What follows the header.
fn after_header(from: &[u8]) -> Option<&[u8]> {
    let (&[0x1f, 0x8b, 8, flags, ..], mut rest) = from.split_first_chunk::<HEADER_LEN>()? else {
        return None;
    };
    if flags & RESERVED != 0 {
        return None;
    }
    if flags & HAS_EXTRA != 0 {
        let (len, after) = rest.split_first_chunk::<2>()?;
        rest = after.get(usize::from(u16::from_le_bytes(*len))..)?;
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    // The header's own checksum, which nobody writes.
    rest.get(if flags & HAS_CRC != 0 { 2 } else { 0 }..)
}

/// The length in the last member's trailer.
pub(super) fn announced(from: &[u8]) -> Option<usize> {
    from.last_chunk::<4>().map(|len| u32::from_le_bytes(*len) as usize)
}
