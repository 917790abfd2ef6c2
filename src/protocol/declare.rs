//! The notation: one declaration gives a message's zero-copy reader and its writer.
//!
//! ```text
//! message! {
//!     /// What it is for.
//!     pub struct CreateTopicsRequest<'a>: 19, [2..=7], flexible 5 {
//!         /// One line per field.
//!         topics: Array<'a, CreatableTopic<'static>> [0..],
//!         timeout_ms: i32 [0..] = 60_000,
//!         validate_only: bool [1..],
//!     }
//! }
//! ```
//!
//! Per field: name, type, the versions that carry it, `tag N` if it is a tagged field (KIP-482;
//! tags ascend), and `= value` if its default is not zero, null or empty. A field that a version
//! does not carry reads as its default and is not written. The part `: key, [versions], flexible N`
//! stands at a request's or response's top struct only. A struct that borrows nothing leaves out
//! `<'a>`.
//!
//! The same struct is read and written. What differs is where an [`Array`] gets its elements from:
//! the bytes of a message that was checked, or a closure that pushes them while the message is
//! written. Neither allocates.

use super::reader::{Malformed, Reader, Result};
use super::writer::Writer;
use core::fmt;
use core::marker::PhantomData;
use core::ops::RangeInclusive;

/// The version a message is read or written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The API version.
    pub number: i16,
    /// Compact lengths and tagged fields (KIP-482).
    pub flexible: bool,
}

/// A value that can stand as a field.
pub trait Field<'a>: Sized + Copy {
    /// What the field is where a version does not carry it and no default is declared.
    fn absent() -> Self;
    /// Reads one value.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not such a value.
    fn read(r: &mut Reader<'a>, v: Version) -> Result<Self>;
    /// Writes the value.
    fn write(&self, w: &mut Writer<'_>, v: Version);
    /// Whether a tagged field may be left out because it equals its default.
    fn same(&self, default: &Self) -> bool;
}

/// A type that can stand in an [`Array`]. Implemented for scalars, and by `message!` for structs
/// with the lifetime `'static` as the family's name: `Array<'a, Topic<'static>>` holds `Topic<'a>`.
pub trait Element {
    /// One element, borrowed from the message.
    type Item<'a>: Copy + fmt::Debug;
    /// Reads one element.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not such an element.
    fn read<'a>(r: &mut Reader<'a>, v: Version) -> Result<Self::Item<'a>>;
    /// Writes one element.
    fn write(item: &Self::Item<'_>, w: &mut Writer<'_>, v: Version);
}

/// A request or response: the top of a message.
pub trait Message<'a>: Field<'a> {
    /// The API key.
    const KEY: i16;
    /// The versions that are declared.
    const VERSIONS: RangeInclusive<i16>;
    /// The first flexible version.
    const FLEXIBLE: i16;

    /// How to read and write version `number`.
    fn version(number: i16) -> Version {
        Version { number, flexible: number >= Self::FLEXIBLE }
    }

    /// Checks the whole body once and gives the view. Bytes left over are ignored, as Kafka does.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not this message, or the version is not declared.
    fn decode(body: &'a [u8], number: i16) -> Result<Self> {
        if !Self::VERSIONS.contains(&number) {
            return Err(Malformed("undeclared version"));
        }
        Self::read(&mut Reader::new(body), Self::version(number))
    }

    /// Writes the body.
    fn encode(&self, w: &mut Writer<'_>, number: i16) {
        if !Self::VERSIONS.contains(&number) {
            w.refuse("undeclared version");
        }
        self.write(w, Self::version(number));
    }

    /// How many bytes [`Message::encode`] writes.
    fn encoded_len(&self, number: i16) -> usize {
        let mut w = Writer::measuring();
        self.encode(&mut w, number);
        w.len()
    }
}

/// A sequence of elements inside a message.
pub struct Array<'a, T: Element>(Source<'a, T>);

enum Source<'a, T: Element> {
    /// Checked bytes of a message that was read.
    Wire { bytes: &'a [u8], count: usize, version: Version },
    /// Pushed by a closure while the message is written.
    Emit { count: usize, emit: &'a dyn Fn(&mut ArrayWriter<'_, '_, T>) },
}

impl<T: Element> Clone for Source<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for Source<'_, T> {}

impl<T: Element> Clone for Array<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for Array<'_, T> {}

impl<'a, T: Element> Array<'a, T> {
    /// No elements.
    pub fn empty() -> Self {
        Array(Source::Wire {
            bytes: &[],
            count: 0,
            version: Version { number: 0, flexible: false },
        })
    }

    /// `count` elements, which `emit` pushes when the message is written; it may run more than
    /// once and must push the same each time. Pushing another number makes the message unwritable.
    pub fn emit(count: usize, emit: &'a dyn Fn(&mut ArrayWriter<'_, '_, T>)) -> Self {
        Array(Source::Emit { count, emit })
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self.0 {
            Source::Wire { count, .. } | Source::Emit { count, .. } => count,
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of an array that was read. An array made with [`Array::emit`] has none to show.
    pub fn iter(&self) -> Elements<'a, T> {
        match self.0 {
            Source::Wire { bytes, count, version } => {
                Elements { reader: Reader::new(bytes), left: count, version, of: PhantomData }
            }
            Source::Emit { .. } => Array::empty().iter(),
        }
    }

    fn read_counted(r: &mut Reader<'a>, v: Version, count: usize) -> Result<Self> {
        let from = r.rest();
        for _ in 0..count {
            T::read(r, v)?;
        }
        let bytes = &from[..from.len() - r.left()];
        Ok(Array(Source::Wire { bytes, count, version: v }))
    }

    fn write_counted(&self, w: &mut Writer<'_>, v: Version) {
        w.length(Some(self.len()), v.flexible, true);
        let mut out = ArrayWriter { w, v, pushed: 0, of: PhantomData };
        match self.0 {
            Source::Wire { .. } => self.iter().for_each(|item| out.push(&item)),
            Source::Emit { emit, .. } => emit(&mut out),
        }
        if out.pushed != self.len() {
            w.refuse("an array's closure pushed another number than announced");
        }
    }
}

impl<'a, T: Element> IntoIterator for Array<'a, T> {
    type Item = T::Item<'a>;
    type IntoIter = Elements<'a, T>;

    fn into_iter(self) -> Elements<'a, T> {
        self.iter()
    }
}

impl<T: Element> fmt::Debug for Array<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Source::Wire { .. } => f.debug_list().entries(self.iter()).finish(),
            Source::Emit { count, .. } => write!(f, "[{count} to be written]"),
        }
    }
}

/// The elements of an array that was checked when its message was read.
#[derive(Debug)]
pub struct Elements<'a, T> {
    reader: Reader<'a>,
    left: usize,
    version: Version,
    of: PhantomData<fn() -> T>,
}

impl<'a, T: Element> Iterator for Elements<'a, T> {
    type Item = T::Item<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        // The array was walked once when its message was read, so this cannot fail.
        T::read(&mut self.reader, self.version).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Takes the elements of an array that is being written.
#[derive(Debug)]
pub struct ArrayWriter<'w, 'b, T> {
    w: &'w mut Writer<'b>,
    v: Version,
    pushed: usize,
    of: PhantomData<fn(T)>,
}

impl<T: Element> ArrayWriter<'_, '_, T> {
    /// Writes one element.
    pub fn push(&mut self, item: &T::Item<'_>) {
        T::write(item, self.w, self.v);
        self.pushed += 1;
    }
}

impl<'a, T: Element> Field<'a> for Array<'a, T> {
    fn absent() -> Self {
        Array::empty()
    }

    fn read(r: &mut Reader<'a>, v: Version) -> Result<Self> {
        let count = r.count(v.flexible)?.ok_or(Malformed("null array"))?;
        Array::read_counted(r, v, count)
    }

    fn write(&self, w: &mut Writer<'_>, v: Version) {
        self.write_counted(w, v);
    }

    fn same(&self, default: &Self) -> bool {
        self.is_empty() && default.is_empty()
    }
}

impl<'a, T: Element> Field<'a> for Option<Array<'a, T>> {
    fn absent() -> Self {
        None
    }

    fn read(r: &mut Reader<'a>, v: Version) -> Result<Self> {
        match r.count(v.flexible)? {
            Some(count) => Ok(Some(Array::read_counted(r, v, count)?)),
            None => Ok(None),
        }
    }

    fn write(&self, w: &mut Writer<'_>, v: Version) {
        match self {
            Some(array) => array.write_counted(w, v),
            None => w.length(None, v.flexible, true),
        }
    }

    fn same(&self, default: &Self) -> bool {
        match (self, default) {
            (Some(a), Some(b)) => a.is_empty() && b.is_empty(),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

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

    fn read(r: &mut Reader<'a>, v: Version) -> Result<Self> {
        slice(r, v, true)
    }

    fn write(&self, w: &mut Writer<'_>, v: Version) {
        w.length(self.map(<[u8]>::len), v.flexible, true);
        w.bytes(self.unwrap_or(&[]));
    }

    fn same(&self, default: &Self) -> bool {
        self == default
    }
}

impl<'a> Field<'a> for &'a [u8] {
    fn absent() -> Self {
        &[]
    }

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

/// Declares one struct of a message. The notation is described at the top of this file.
macro_rules! message {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident $(<$lt:lifetime>)?
        $(: $key:literal, [$($versions:tt)+], flexible $flexible:literal)?
        {$(
            $(#[$field_meta:meta])*
            $field:ident: $ty:ty [$($range:tt)+] $(tag $tag:literal)? $(= $default:expr)?
        ),* $(,)?}
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $Name $(<$lt>)? {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl $(<$lt>)? Default for $Name $(<$lt>)? {
            fn default() -> Self {
                $Name { $($field: message!(@default $ty $(, $default)?),)* }
            }
        }

        impl<'a> $crate::protocol::declare::Field<'a> for $Name $(<$lt>)? {
            fn absent() -> Self {
                Self::default()
            }

            #[allow(unused_variables, unused_mut, reason = "a struct may lack tags or fields")]
            fn read(
                r: &mut $crate::protocol::reader::Reader<'a>,
                v: $crate::protocol::declare::Version,
            ) -> $crate::protocol::reader::Result<Self> {
                let mut out = Self::default();
                $(message!(@plain [$($tag)?] {
                    if ($($range)+).contains(&v.number) {
                        out.$field = $crate::protocol::declare::Field::read(r, v)?;
                    }
                });)*
                if v.flexible {
                    r.tagged_fields(|tag, value| {
                        $(message!(@tagged [$($tag)?] known {
                            if tag == known && ($($range)+).contains(&v.number) {
                                out.$field = $crate::protocol::declare::Field::read(value, v)?;
                            }
                        });)*
                        Ok(())
                    })?;
                }
                Ok(out)
            }

            #[allow(unused_variables, unused_mut, reason = "a struct may lack tags or fields")]
            fn write(
                &self,
                w: &mut $crate::protocol::writer::Writer<'_>,
                v: $crate::protocol::declare::Version,
            ) {
                use $crate::protocol::declare::Field;
                $(message!(@plain [$($tag)?] {
                    if ($($range)+).contains(&v.number) {
                        Field::write(&self.$field, w, v);
                    }
                });)*
                if v.flexible {
                    let default = Self::default();
                    let mut tags = 0;
                    $(message!(@tagged [$($tag)?] known {
                        if ($($range)+).contains(&v.number)
                            && !Field::same(&self.$field, &default.$field)
                        {
                            tags += 1;
                        }
                    });)*
                    w.uvarint(tags);
                    $(message!(@tagged [$($tag)?] known {
                        if ($($range)+).contains(&v.number)
                            && !Field::same(&self.$field, &default.$field)
                        {
                            let mut size = $crate::protocol::writer::Writer::measuring();
                            Field::write(&self.$field, &mut size, v);
                            w.uvarint(known);
                            w.uvarint(size.len() as u32);
                            Field::write(&self.$field, w, v);
                        }
                    });)*
                }
            }

            fn same(&self, default: &Self) -> bool {
                true $(&& $crate::protocol::declare::Field::same(&self.$field, &default.$field))*
            }
        }

        message!(@element $Name $($lt)?);

        message!(@top $Name $($lt)?; $($key, [$($versions)+], $flexible)?);
    };
    (@top $Name:ident $($lt:lifetime)?;) => {};
    (@top $Name:ident $lt:lifetime; $($rest:tt)+) => {
        message!(@message $Name<'a>; $($rest)+);
    };
    (@top $Name:ident; $($rest:tt)+) => {
        message!(@message $Name; $($rest)+);
    };
    (@message $Name:ty; $key:literal, [$($versions:tt)+], $flexible:literal) => {
        impl<'a> $crate::protocol::declare::Message<'a> for $Name {
            const KEY: i16 = $key;
            const VERSIONS: core::ops::RangeInclusive<i16> = $($versions)+;
            const FLEXIBLE: i16 = $flexible;
        }
    };
    (@default $ty:ty) => {
        <$ty as $crate::protocol::declare::Field<'_>>::absent()
    };
    (@default $ty:ty, $default:expr) => { $default };
    (@plain [] $body:block) => { $body };
    (@plain [$tag:literal] $body:block) => {};
    (@tagged [] $known:ident $body:block) => {};
    (@tagged [$tag:literal] $known:ident $body:block) => {{
        let $known: u32 = $tag;
        $body
    }};
    (@element $Name:ident $lt:lifetime) => {
        impl $crate::protocol::declare::Element for $Name<'static> {
            type Item<'a> = $Name<'a>;

            fn read<'a>(
                r: &mut $crate::protocol::reader::Reader<'a>,
                v: $crate::protocol::declare::Version,
            ) -> $crate::protocol::reader::Result<$Name<'a>> {
                $crate::protocol::declare::Field::read(r, v)
            }

            fn write(
                item: &$Name<'_>,
                w: &mut $crate::protocol::writer::Writer<'_>,
                v: $crate::protocol::declare::Version,
            ) {
                $crate::protocol::declare::Field::write(item, w, v);
            }
        }
    };
    (@element $Name:ident) => {
        impl $crate::protocol::declare::Element for $Name {
            type Item<'a> = $Name;

            fn read<'a>(
                r: &mut $crate::protocol::reader::Reader<'a>,
                v: $crate::protocol::declare::Version,
            ) -> $crate::protocol::reader::Result<$Name> {
                $crate::protocol::declare::Field::read(r, v)
            }

            fn write(
                item: &$Name,
                w: &mut $crate::protocol::writer::Writer<'_>,
                v: $crate::protocol::declare::Version,
            ) {
                $crate::protocol::declare::Field::write(item, w, v);
            }
        }
    };
}

pub(crate) use message;
