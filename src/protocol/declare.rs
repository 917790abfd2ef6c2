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
use core::ops::RangeInclusive;

pub use super::array::{Array, ArrayWriter, Elements};
pub use super::fields::Uuid;

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
    /// Passes over one value: as strict as reading it, but faster.
    ///
    /// # Errors
    /// As [`Field::read`].
    #[inline]
    fn skip(r: &mut Reader<'a>, v: Version) -> Result<()> {
        Self::read(r, v).map(drop)
    }
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
    /// Passes over one element: as strict as reading it, but faster.
    ///
    /// # Errors
    /// As [`Element::read`].
    #[inline]
    fn skip(r: &mut Reader<'_>, v: Version) -> Result<()> {
        Self::read(r, v).map(drop)
    }
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

            #[inline]
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

            #[inline]
            #[allow(unused_variables, reason = "a struct may lack tags or fields")]
            fn skip(
                r: &mut $crate::protocol::reader::Reader<'a>,
                v: $crate::protocol::declare::Version,
            ) -> $crate::protocol::reader::Result<()> {
                $(message!(@plain [$($tag)?] {
                    if ($($range)+).contains(&v.number) {
                        <$ty as $crate::protocol::declare::Field>::skip(r, v)?;
                    }
                });)*
                if v.flexible {
                    r.tagged_fields(|tag, value| {
                        $(message!(@tagged [$($tag)?] known {
                            if tag == known && ($($range)+).contains(&v.number) {
                                <$ty as $crate::protocol::declare::Field>::skip(value, v)?;
                            }
                        });)*
                        Ok(())
                    })?;
                }
                Ok(())
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

            #[inline]
            fn read<'a>(
                r: &mut $crate::protocol::reader::Reader<'a>,
                v: $crate::protocol::declare::Version,
            ) -> $crate::protocol::reader::Result<$Name<'a>> {
                $crate::protocol::declare::Field::read(r, v)
            }

            #[inline]
            fn skip(
                r: &mut $crate::protocol::reader::Reader<'_>,
                v: $crate::protocol::declare::Version,
            ) -> $crate::protocol::reader::Result<()> {
                <$Name<'_> as $crate::protocol::declare::Field>::skip(r, v)
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

            #[inline]
            fn read<'a>(
                r: &mut $crate::protocol::reader::Reader<'a>,
                v: $crate::protocol::declare::Version,
            ) -> $crate::protocol::reader::Result<$Name> {
                $crate::protocol::declare::Field::read(r, v)
            }

            #[inline]
            fn skip(
                r: &mut $crate::protocol::reader::Reader<'_>,
                v: $crate::protocol::declare::Version,
            ) -> $crate::protocol::reader::Result<()> {
                <$Name as $crate::protocol::declare::Field>::skip(r, v)
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
