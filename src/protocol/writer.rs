//! Writer: a cursor over a borrowed `&mut [u8]` that never grows.
//!
//! Writing past the end is not an error at the place where it happens: the writer goes on counting
//! and says at the end that it did not fit, and how much room it wanted. So one walk over a message
//! both writes it and, over an empty slice, measures it.
//!
//! A gathering writer leaves payloads (record batches) where they are: it writes what stands around
//! them and notes where each belongs, so that one `sendmsg` sends both without a copy.

use super::varint;

/// Where a payload belongs that a gathering writer left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// How many of the written bytes go before it.
    pub at: usize,
    /// How long it is; never 0.
    pub len: usize,
}

/// A cursor that fills a slice from the front.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    pos: usize,
    wrong: Option<&'static str>,
    gather: Option<Gather<'a>>,
    /// The next payload has this length and lies elsewhere.
    external: Option<usize>,
}

#[derive(Debug)]
struct Gather<'a> {
    cuts: &'a mut [Cut],
    used: usize,
    left_out: usize,
}

macro_rules! fixed {
    ($($name:ident: $ty:ty;)*) => {$(
        /// Writes one big-endian value.
        #[inline]
        pub fn $name(&mut self, value: $ty) {
            self.bytes(&value.to_be_bytes());
        }
    )*};
}

impl<'a> Writer<'a> {
    /// A writer that fills `buf`.
    pub fn new(buf: &'a mut [u8]) -> Self {
        Writer { buf, pos: 0, wrong: None, gather: None, external: None }
    }

    /// A writer that only measures.
    pub fn measuring() -> Self {
        Writer::new(&mut [])
    }

    /// A writer that fills `buf` and leaves payloads out, each noted in `cuts` in their order.
    pub fn gathering(buf: &'a mut [u8], cuts: &'a mut [Cut]) -> Self {
        let gather = Some(Gather { cuts, used: 0, left_out: 0 });
        Writer { buf, pos: 0, wrong: None, gather, external: None }
    }

    /// Bytes written so far, or that would have been if there were room.
    #[inline]
    pub fn len(&self) -> usize {
        self.pos
    }

    /// How many payloads were left out, and how many bytes they have together: with
    /// [`Writer::len`], the size of the message.
    pub fn left_out(&self) -> (usize, usize) {
        self.gather.as_ref().map_or((0, 0), |gather| (gather.used, gather.left_out))
    }

    /// True if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.pos == 0
    }

    /// How many bytes were written.
    ///
    /// # Errors
    /// `Err` with a text if the buffer was too small, or the message cannot be said in this version.
    pub fn finish(self) -> Result<usize, &'static str> {
        match self.wrong {
            Some(wrong) => Err(wrong),
            None if self.pos > self.buf.len() => Err("the message does not fit the buffer"),
            None => Ok(self.pos),
        }
    }

    /// Marks the message as one that cannot be written; the first text is kept.
    pub fn refuse(&mut self, what: &'static str) {
        self.wrong.get_or_insert(what);
    }

    /// Writes raw bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(room) = self.buf.get_mut(self.pos..self.pos + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.pos += bytes.len();
    }

    /// Writes a payload with its length before it, or leaves it out ([`Writer::gathering`]).
    #[inline]
    pub fn payload(&mut self, bytes: Option<&[u8]>, flexible: bool) {
        let external = self.external.take();
        let len = external.or(bytes.map(<[u8]>::len));
        self.length(len, flexible, true);
        let len = len.unwrap_or(0);
        match &mut self.gather {
            None if external.is_some() => {
                self.pos += len;
                self.refuse("a payload that lies elsewhere needs a gathering writer");
            }
            None => self.bytes(bytes.unwrap_or(&[])),
            Some(_) if len == 0 => {}
            Some(gather) => match gather.cuts.get_mut(gather.used) {
                Some(cut) => {
                    *cut = Cut { at: self.pos, len };
                    gather.used += 1;
                    gather.left_out += len;
                }
                None => self.refuse("more payloads than there is room to note"),
            },
        }
    }

    /// Makes the next payload one of `len` bytes that lie elsewhere, whatever the message shows:
    /// in a file, or in several pieces. Only a gathering writer can write it; any can measure it.
    pub fn external_payload(&mut self, len: usize) {
        self.external = Some(len);
    }

    fixed! { i8: i8; u8: u8; i16: i16; u16: u16; i32: i32; u32: u32; i64: i64; f64: f64; }

    /// Overwrites four bytes at `at`, which were written before.
    pub fn patch_i32(&mut self, at: usize, value: i32) {
        if let Some(room) = self.buf.get_mut(at..at + 4) {
            room.copy_from_slice(&value.to_be_bytes());
        }
    }

    /// Writes an unsigned varint.
    #[inline]
    pub fn uvarint(&mut self, value: u32) {
        self.uvarlong(u64::from(value));
    }

    /// Writes an unsigned varlong.
    #[inline]
    pub fn uvarlong(&mut self, value: u64) {
        let n = match self.buf.get_mut(self.pos..) {
            Some(room) => varint::write_u64(value, room),
            None => None,
        };
        self.pos += n.unwrap_or_else(|| varint::len_u64(value));
    }

    /// Writes a zig-zag varint.
    #[inline]
    pub fn varint(&mut self, value: i32) {
        self.uvarint(varint::zigzag_i32(value));
    }

    /// Writes a zig-zag varlong.
    #[inline]
    pub fn varlong(&mut self, value: i64) {
        self.uvarlong(varint::zigzag_i64(value));
    }

    /// Writes a length: i16 (`wide` false) or i32, or a compact one where `flexible`. `None` is null.
    pub fn length(&mut self, len: Option<usize>, flexible: bool, wide: bool) {
        let limit = if flexible || wide { i32::MAX as usize } else { i16::MAX as usize };
        if len.is_some_and(|len| len > limit) {
            self.refuse("a length exceeds what the protocol can say");
        }
        match (len, flexible, wide) {
            (len, true, _) => self.uvarint(len.map_or(0, |len| (len as u32).wrapping_add(1))),
            (Some(len), false, true) => self.i32(len as i32),
            (Some(len), false, false) => self.i16(len as i16),
            (None, false, true) => self.i32(-1),
            (None, false, false) => self.i16(-1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_can_be_left_out() {
        let (mut buf, mut cuts) = ([0; 32], [Cut::default(); 2]);
        let mut w = Writer::gathering(&mut buf, &mut cuts);
        w.i8(1);
        w.payload(Some(b"abc"), false);
        w.payload(None, true);
        w.payload(Some(b""), true);
        w.external_payload(300);
        w.payload(Some(b"not looked at"), true);
        w.i8(2);
        assert_eq!(w.left_out(), (2, 303));
        assert_eq!(w.finish(), Ok(10));
        assert_eq!(buf[..10], [1, 0, 0, 0, 3, 0, 1, 0xad, 2, 2]);
        assert_eq!(cuts, [Cut { at: 5, len: 3 }, Cut { at: 9, len: 300 }]);

        let mut w = Writer::gathering(&mut buf, &mut cuts[..1]);
        w.payload(Some(b"abc"), false);
        w.payload(Some(b"abc"), false);
        assert!(w.finish().is_err());

        let mut w = Writer::new(&mut buf);
        w.external_payload(3);
        w.payload(None, false);
        assert_eq!(w.len(), 7);
        assert!(w.finish().is_err());
    }

    #[test]
    fn a_full_buffer_goes_on_counting() {
        let mut buf = [0; 3];
        let mut w = Writer::new(&mut buf);
        w.i16(1);
        w.i32(2);
        w.uvarint(300);
        assert_eq!(w.len(), 8);
        assert!(w.finish().is_err());
        let mut w = Writer::measuring();
        w.uvarint(300);
        assert_eq!(w.len(), 2);
    }
}
