//! Which types can stand as a field: numbers, strings, bytes, ids.

use super::declare::{Element, Field, Version};
use super::reader::{Malformed, Reader, Result};
use super::writer::Writer;

macro_rules! scalar {
    ($($ty:ty, $zero:expr, |$r:ident| $read:expr, |$w:ident, $x:ident| $write:expr;)*) => {$(
        impl<'a> Field<'a> for $ty {
            fn absent() -> Self {
                $zero
            }

            #[inline]
            fn read($r: &mut Reader<'a>, _: Version) -> Result<Self> {
                $read
            }

            #[inline]
            fn write(&self, $w: &mut Writer<'_>, _: Version) {
                let $x = self;
                $write;
            }

            fn same(&self, default: &Self) -> bool {
                self == default
            }
        }

        impl Element for $ty {
            type Item<'a> = $ty;

            #[inline]
            fn read<'a>(r: &mut Reader<'a>, v: Version) -> Result<$ty> {
                Field::read(r, v)
            }

            #[inline]
            fn write(item: &$ty, w: &mut Writer<'_>, v: Version) {
                Field::write(item, w, v);
            }
        }
    )*};
}

/// A Kafka UUID as it stands on the wire; all zero is "none".
pub type Uuid = [u8; 16];

scalar! {
    bool, false, |r| Ok(r.i8()? != 0), |w, x| w.i8(i8::from(*x));
    i8, 0, |r| r.i8(), |w, x| w.i8(*x);
    i16, 0, |r| r.i16(), |w, x| w.i16(*x);
    u16, 0, |r| r.u16(), |w, x| w.u16(*x);
    i32, 0, |r| r.i32(), |w, x| w.i32(*x);
    u32, 0, |r| r.u32(), |w, x| w.u32(*x);
    i64, 0, |r| r.i64(), |w, x| w.i64(*x);
    f64, 0.0, |r| r.f64(), |w, x| w.f64(*x);
    Uuid, [0; 16], |r| r.uuid(), |w, x| w.bytes(x);
}

/// Reads a string or bytes body: `wide` tells an i32 length from an i16 one.
#[inline]
fn slice<'a>(r: &mut Reader<'a>, v: Version, wide: bool) -> Result<Option<&'a [u8]>> {
    match r.length(v.flexible, wide)? {
        Some(n) => Ok(Some(r.take(n)?)),
        None => Ok(None),
    }
}

impl<'a> Field<'a> for Option<&'a str> {
    fn absent() -> Self {
        None
    }

    #[inline]
    fn read(r: &mut Reader<'a>, v: Version) -> Result<Self> {
        match slice(r, v, false)? {
            Some(bytes) => match core::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(Malformed("a string is not UTF-8")),
            },
            None => Ok(None),
        }
    }

    fn write(&self, w: &mut Writer<'_>, v: Version) {
        w.length(self.map(str::len), v.flexible, false);
        w.bytes(self.map_or(&[], str::as_bytes));
    }

    fn same(&self, default: &Self) -> bool {
        self == default
    }
}

impl<'a> Field<'a> for &'a str {
    fn absent() -> Self {
        ""
    }

    #[inline]
    fn read(r: &mut Reader<'a>, v: Version) -> Result<Self> {
        Option::<&str>::read(r, v)?.ok_or(Malformed("null string"))
    }

    fn write(&self, w: &mut Writer<'_>, v: Version) {
        Some(*self).write(w, v);
    }

    fn same(&self, default: &Self) -> bool {
        self == default
    }
}

impl Element for &'static str {
    type Item<'a> = &'a str;

    fn read<'a>(r: &mut Reader<'a>, v: Version) -> Result<&'a str> {
        Field::read(r, v)
    }

    fn write(item: &&str, w: &mut Writer<'_>, v: Version) {
        Field::write(item, w, v);
    }
}

impl<'a> Field<'a> for Option<&'a [u8]> {
    fn absent() -> Self {
        None
    }

    #[inline]
    fn read(r: &mut Reader<'a>, v: Version) -> Result<Self> {
        slice(r, v, true)
    }

    fn write(&self, w: &mut Writer<'_>, v: Version) {
        w.payload(*self, v.flexible);
    }

    fn same(&self, default: &Self) -> bool {
        self == default
    }
}

impl<'a> Field<'a> for &'a [u8] {
    fn absent() -> Self {
        &[]
    }

    #[inline]
    fn read(r: &mut Reader<'a>, v: Version) -> Result<Self> {
        slice(r, v, true)?.ok_or(Malformed("null bytes"))
    }

    fn write(&self, w: &mut Writer<'_>, v: Version) {
        Some(*self).write(w, v);
    }

    fn same(&self, default: &Self) -> bool {
        self == default
    }
}
