//! Reader: a bounds-checked cursor over borrowed bytes.
//!
//! Total: any input gives a value or [`Malformed`]; nothing is reserved because a peer announced
//! it, and a count is believed only after it was held against the bytes that are left.

use super::varint;

/// What is said of a message that is shorter than what it announces.
const ENDS_EARLY: Malformed = Malformed("the message ends early");

/// The peer's bytes are not a message of this type and version; the text says why, for log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl From<Malformed> for crate::error::Error {
    fn from(bad: Malformed) -> Self {
        crate::error::Error::Protocol(bad.0)
    }
}

/// What a read gives.
pub type Result<T> = core::result::Result<T, Malformed>;

/// A cursor that shrinks from the front as values are taken.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! fixed {
    ($($name:ident: $ty:ty, $n:literal;)*) => {$(
        /// Takes one big-endian value.
        #[inline]
        pub fn $name(&mut self) -> Result<$ty> {
            let Some((head, rest)) = self.rest.split_first_chunk::<$n>() else {
                return Err(ENDS_EARLY);
            };
            self.rest = rest;
            Ok(<$ty>::from_be_bytes(*head))
        }
    )*};
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// What has not been taken yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes are left.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Takes `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.rest.split_at_checked(n) else {
            return Err(ENDS_EARLY);
        };
        self.rest = rest;
        Ok(head)
    }

    /// Takes sixteen bytes, a Kafka UUID.
    pub fn uuid(&mut self) -> Result<[u8; 16]> {
        let Some((head, rest)) = self.rest.split_first_chunk::<16>() else {
            return Err(ENDS_EARLY);
        };
        self.rest = rest;
        Ok(*head)
    }

    fixed! { i8: i8, 1; u8: u8, 1; i16: i16, 2; u16: u16, 2; i32: i32, 4; u32: u32, 4; i64: i64, 8; f64: f64, 8; }

    /// Takes an unsigned varint of at most five bytes.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32> {
        // Nearly every length on the wire takes one byte or two.
        match *self.rest {
            [a, ref rest @ ..] if a < 0x80 => {
                self.rest = rest;
                Ok(u32::from(a))
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.rest = rest;
                Ok(u32::from(a & 0x7f) | u32::from(b) << 7)
            }
            _ => self.long_uvarint(),
        }
    }

    #[inline(never)]
    fn long_uvarint(&mut self) -> Result<u32> {
        let (value, n) = varint::read_u32(self.rest).ok_or_else(|| no_varint(self.rest, 5))?;
        self.take(n)?;
        Ok(value)
    }

    /// Takes a zig-zag varint of at most five bytes.
    #[inline]
    pub fn varint(&mut self) -> Result<i32> {
        let raw = self.uvarint()?;
        Ok(((raw >> 1) as i32) ^ -((raw & 1) as i32))
    }

    /// Takes a zig-zag varlong of at most ten bytes.
    #[inline]
    pub fn varlong(&mut self) -> Result<i64> {
        let raw = match *self.rest {
            [a, ref rest @ ..] if a < 0x80 => {
                self.rest = rest;
                u64::from(a)
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.rest = rest;
                u64::from(a & 0x7f) | u64::from(b) << 7
            }
            _ => self.long_uvarlong()?,
        };
        Ok(((raw >> 1) as i64) ^ -((raw & 1) as i64))
    }

    #[inline(never)]
    fn long_uvarlong(&mut self) -> Result<u64> {
        let (value, n) = varint::read_u64(self.rest).ok_or_else(|| no_varint(self.rest, 10))?;
        self.take(n)?;
        Ok(value)
    }

    /// Takes a length: i16 (`wide` false) or i32, or a compact one where `flexible`. `None` is null.
    #[inline]
    pub fn length(&mut self, flexible: bool, wide: bool) -> Result<Option<usize>> {
        if flexible {
            return Ok((self.uvarint()? as usize).checked_sub(1));
        }
        let n = if wide { self.i32()? } else { i32::from(self.i16()?) };
        match n {
            -1 => Ok(None),
            n if n < 0 => Err(Malformed("a length is negative")),
            n => Ok(Some(n as usize)),
        }
    }

    /// Takes an array's count, refused if that many elements cannot be in what is left.
    #[inline]
    pub fn count(&mut self, flexible: bool) -> Result<Option<usize>> {
        let count = self.length(flexible, true)?;
        // Every element of every Kafka array takes at least one byte.
        if count.is_some_and(|n| n > self.rest.len()) {
            return Err(Malformed("an array count is larger than the message"));
        }
        Ok(count)
    }

    /// Walks a tagged-field section (KIP-482): each tag and its bytes go to `field`, which says
    /// whether it took them; unknown tags are passed over. Tags must ascend.
    #[inline]
    pub fn tagged_fields(
        &mut self,
        field: impl FnMut(u32, &mut Reader<'a>) -> Result<()>,
    ) -> Result<()> {
        match self.uvarint()? {
            0 => Ok(()),
            count => self.some_tagged_fields(count, field),
        }
    }

    #[inline(never)]
    fn some_tagged_fields(
        &mut self,
        count: u32,
        mut field: impl FnMut(u32, &mut Reader<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut last: Option<u32> = None;
        for _ in 0..count {
            let tag = self.uvarint()?;
            if last.is_some_and(|last| tag <= last) {
                return Err(Malformed("the tags of tagged fields do not ascend"));
            }
            last = Some(tag);
            let size = self.uvarint()? as usize;
            let mut value = Reader::new(self.take(size)?);
            field(tag, &mut value)?;
        }
        Ok(())
    }
}

/// Why what is left does not begin with a varint of at most `most` bytes: its last byte says that
/// another follows, or it holds more than fits.
#[cold]
fn no_varint(rest: &[u8], most: usize) -> Malformed {
    let cut_short = rest.len() < most && rest.iter().all(|byte| *byte >= 0x80);
    if cut_short { ENDS_EARLY } else { Malformed("a varint is too long") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_taken() {
        let mut r = Reader::new(&[1, 2, 3]);
        assert!(r.i32().is_err());
        assert!(r.uuid().is_err());
        assert!(r.take(4).is_err());
        assert_eq!(r.left(), 3);
        assert_eq!((r.i16(), r.u8()), (Ok(0x0102), Ok(3)));
        assert!(r.i8().is_err());
        assert_eq!(r.take(0), Ok(&[][..]));
    }

    #[test]
    fn it_is_said_what_is_wrong() {
        let long = Malformed("a varint is too long");
        assert_eq!(Reader::new(&[]).i16(), Err(ENDS_EARLY));
        assert_eq!(Reader::new(&[1; 15]).uuid(), Err(ENDS_EARLY));
        assert_eq!(Reader::new(&[1]).take(2), Err(ENDS_EARLY));
        assert_eq!(Reader::new(&[]).uvarint(), Err(ENDS_EARLY));
        assert_eq!(Reader::new(&[0x80; 4]).uvarint(), Err(ENDS_EARLY));
        assert_eq!(Reader::new(&[0x80; 5]).uvarint(), Err(long));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x10]).uvarint(), Err(long));
        assert_eq!(Reader::new(&[0x80; 9]).varlong(), Err(ENDS_EARLY));
        assert_eq!(Reader::new(&[0x80; 10]).varlong(), Err(long));
    }

    #[test]
    fn lengths_have_three_forms() {
        assert_eq!(Reader::new(&[0, 5]).length(false, false), Ok(Some(5)));
        assert_eq!(Reader::new(&[0xff, 0xff]).length(false, false), Ok(None));
        assert!(Reader::new(&[0xff, 0xfe]).length(false, false).is_err());
        assert_eq!(Reader::new(&[0, 0, 1, 0]).length(false, true), Ok(Some(256)));
        assert_eq!(Reader::new(&[0]).length(true, true), Ok(None));
        assert_eq!(Reader::new(&[1]).length(true, false), Ok(Some(0)));
        assert_eq!(Reader::new(&[0x81, 1]).length(true, false), Ok(Some(128)));
        let largest = [0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(Reader::new(&largest).length(true, true), Ok(Some(u32::MAX as usize - 1)));
    }

    #[test]
    fn a_count_is_held_against_the_bytes_left() {
        assert_eq!(Reader::new(&[0, 0, 0, 2, 9, 9]).count(false), Ok(Some(2)));
        assert!(Reader::new(&[0, 0, 0, 3, 9, 9]).count(false).is_err());
        assert!(Reader::new(&[0x7f, 0xff, 0xff, 0xff, 9, 9]).count(false).is_err());
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff]).count(false), Ok(None));
        assert_eq!(Reader::new(&[3, 9, 9]).count(true), Ok(Some(2)));
        assert!(Reader::new(&[4, 9, 9]).count(true).is_err());
    }

    #[test]
    fn signed_varints_of_all_lengths() {
        for shift in 0..63 {
            for value in [1i64 << shift, -(1i64 << shift), (1i64 << shift) - 1] {
                let mut buf = [0; 10];
                let mut w = crate::protocol::writer::Writer::new(&mut buf);
                w.varlong(value);
                let n = w.finish().unwrap();
                assert_eq!(Reader::new(&buf[..n]).varlong(), Ok(value));
                assert!(Reader::new(&buf[..n - 1]).varlong().is_err());
                let small = Reader::new(&buf[..n]).varint();
                assert_eq!(small.ok(), i32::try_from(value).ok(), "{value}");
            }
        }
    }

    #[test]
    fn tagged_fields_are_handed_out_in_order() {
        let seen = |bytes: &[u8]| {
            let mut seen = vec![];
            let mut r = Reader::new(bytes);
            r.tagged_fields(|tag, value| {
                seen.push((tag, value.rest().to_vec()));
                Ok(())
            })
            .map(|()| (seen, r.left()))
        };
        assert_eq!(seen(&[0, 7]), Ok((vec![], 1)));
        assert_eq!(seen(&[2, 0, 1, 9, 5, 0, 7]), Ok((vec![(0, vec![9]), (5, vec![])], 1)));
        assert!(seen(&[2, 5, 0, 5, 0]).is_err());
        assert!(seen(&[2, 5, 0, 4, 0]).is_err());
        assert!(seen(&[1, 5, 2, 0]).is_err());
        assert!(seen(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0]).is_err());
    }
}
