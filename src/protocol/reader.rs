//! Reader: a bounds-checked cursor over borrowed bytes.
//!
//! Total: any input gives a value or [`Malformed`]; nothing is reserved because a peer announced
//! it, and a count is believed only after it was held against the bytes that are left.

use super::varint;

/// The peer's bytes are not a message of this type and version; the text names what was missing.
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
                return Err(Malformed(stringify!($ty)));
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
            return Err(Malformed("fewer bytes than announced"));
        };
        self.rest = rest;
        Ok(head)
    }

    /// Takes sixteen bytes, a Kafka UUID.
    pub fn uuid(&mut self) -> Result<[u8; 16]> {
        let Some((head, rest)) = self.rest.split_first_chunk::<16>() else {
            return Err(Malformed("uuid"));
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
        let (value, n) = varint::read_u32(self.rest).ok_or(Malformed("unsigned varint"))?;
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
        let (value, n) = varint::read_u64(self.rest).ok_or(Malformed("varlong"))?;
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
            n if n < 0 => Err(Malformed("negative length")),
            n => Ok(Some(n as usize)),
        }
    }

    /// Takes an array's count, refused if that many elements cannot be in what is left.
    #[inline]
    pub fn count(&mut self, flexible: bool) -> Result<Option<usize>> {
        let count = self.length(flexible, true)?;
        // Every element of every Kafka array takes at least one byte.
        if count.is_some_and(|n| n > self.rest.len()) {
            return Err(Malformed("array count larger than the message"));
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
                return Err(Malformed("tags do not ascend"));
            }
            last = Some(tag);
            let size = self.uvarint()? as usize;
            let mut value = Reader::new(self.take(size)?);
            field(tag, &mut value)?;
        }
        Ok(())
    }
}
