//! What binds a struct of the oracle to kloop's view of the same struct: random values, the view
//! lifted to the oracle's type, and the oracle's value lowered to a view that is written.

use bytes::Bytes;
use kafka_protocol::messages::{BrokerId, ProducerId, TopicName, TransactionalId};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

/// xorshift64*: the same cases in every run.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    /// Zero, small, and anything.
    fn number(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::MAX >> 1,
            3 => self.below(100),
            _ => self.next(),
        }
    }

    fn len(&mut self) -> usize {
        let most = if self.below(12) == 0 { 400 } else { 12 };
        self.below(most) as usize
    }

    /// How many elements an array of structs gets.
    pub fn count(&mut self) -> usize {
        self.below(4) as usize
    }
}

/// A value without parts of its own: a number, a string, bytes, an id.
pub trait Leaf: Sized {
    /// What kloop's field holds.
    type View<'a>;
    fn random(rng: &mut Rng) -> Self;
    fn lift(view: Self::View<'_>) -> Self;
    fn lower(&self) -> Self::View<'_>;
    /// What stands in place of null where a version has none.
    fn not_null(self) -> Self {
        self
    }
}

macro_rules! leaf {
    ($($Ty:ty: $View:ty, |$rng:ident| $random:expr, |$v:ident| $lift:expr, |$me:ident| $lower:expr;)*) => {$(
        impl Leaf for $Ty {
            type View<'a> = $View;
            fn random($rng: &mut Rng) -> Self {
                $random
            }
            fn lift($v: $View) -> Self {
                $lift
            }
            fn lower(&self) -> $View {
                let $me = self;
                $lower
            }
        }
    )*};
}

leaf! {
    bool: bool, |r| r.below(2) == 1, |v| v, |me| *me;
    i8: i8, |r| r.number() as i8, |v| v, |me| *me;
    i16: i16, |r| r.number() as i16, |v| v, |me| *me;
    i32: i32, |r| r.number() as i32, |v| v, |me| *me;
    i64: i64, |r| r.number() as i64, |v| v, |me| *me;
    BrokerId: i32, |r| BrokerId(r.number() as i32), |v| BrokerId(v), |me| me.0;
    ProducerId: i64, |r| ProducerId(r.number() as i64), |v| ProducerId(v), |me| me.0;
    Uuid: [u8; 16],
        |r| if r.below(4) == 0 { Uuid::nil() } else { Uuid::from_u64_pair(r.next(), r.next()) },
        |v| Uuid::from_bytes(v), |me| *me.as_bytes();
}

impl Leaf for StrBytes {
    type View<'a> = &'a str;
    fn random(rng: &mut Rng) -> Self {
        let alphabet = ['a', 'Z', '0', '.', '-', '\0', 'ä', '√', '𝄞'];
        let text: String = (0..rng.len()).map(|_| alphabet[rng.below(9) as usize]).collect();
        StrBytes::from_string(text)
    }
    fn lift(view: &str) -> Self {
        StrBytes::from_string(view.to_owned())
    }
    fn lower(&self) -> &str {
        self.as_str()
    }
}

macro_rules! named {
    ($($Ty:ident)*) => {$(
        impl Leaf for $Ty {
            type View<'a> = &'a str;
            fn random(rng: &mut Rng) -> Self {
                $Ty(StrBytes::random(rng))
            }
            fn lift(view: &str) -> Self {
                $Ty(StrBytes::lift(view))
            }
            fn lower(&self) -> &str {
                self.0.as_str()
            }
        }
    )*};
}

named! { TopicName TransactionalId }

impl Leaf for Bytes {
    type View<'a> = &'a [u8];
    fn random(rng: &mut Rng) -> Self {
        (0..rng.len()).map(|_| rng.next() as u8).collect()
    }
    fn lift(view: &[u8]) -> Self {
        Bytes::copy_from_slice(view)
    }
    fn lower(&self) -> &[u8] {
        self
    }
}

impl<T: Leaf> Leaf for Option<T> {
    type View<'a> = Option<T::View<'a>>;
    fn random(rng: &mut Rng) -> Self {
        (rng.below(3) != 0).then(|| T::random(rng))
    }
    fn lift(view: Self::View<'_>) -> Self {
        view.map(T::lift)
    }
    fn lower(&self) -> Self::View<'_> {
        self.as_ref().map(T::lower)
    }
    fn not_null(self) -> Self {
        Some(self.unwrap_or_else(|| T::random(&mut Rng::new(1))))
    }
}

/// A struct of the oracle.
pub trait Pair: Default + 'static {
    /// kloop's view of the same struct.
    type View<'a>;
    /// Random values in the fields that version `v` has.
    fn random(rng: &mut Rng, v: i16) -> Self;
    /// The oracle's value of what kloop read.
    fn lift(view: &Self::View<'_>, v: i16) -> Self;
    /// Gives `f` a view to be written; its arrays push this value's elements.
    fn lower(&self, v: i16, f: &mut dyn FnMut(&Self::View<'_>));
}

/// Binds one struct. Each field stands with the versions that the schema gives it, by which the
/// declaration in kloop is checked: `leaf`, `plain` (a struct that borrows nothing), `leaves` (an
/// array of leaves), `all` (an array of structs) or `any` (one that may be null).
/// `null N` is the first version that knows null.
macro_rules! pair {
    ($Oracle:ty => $Kloop:ident $(<$lt:lifetime>)? {$(
        $field:ident: $kind:ident $(<$Item:ty>)? [$($versions:tt)+] $(null $null:literal)?
    ),* $(,)?}) => {
        impl $crate::oracle::Pair for $Oracle {
            type View<'a> = $Kloop $(<$lt>)?;

            fn random(rng: &mut $crate::oracle::Rng, v: i16) -> Self {
                let mut out = Self::default();
                $(if ($($versions)+).contains(&v) {
                    out.$field = pair!(@random $kind, rng, v);
                    $(if v < $null {
                        out.$field = pair!(@not_null $kind, out.$field);
                    })?
                })*
                out
            }

            fn lift(view: &Self::View<'_>, v: i16) -> Self {
                let mut out = Self::default();
                $(if ($($versions)+).contains(&v) {
                    out.$field = pair!(@lift $kind, view.$field, v);
                })*
                out
            }

            fn lower(&self, v: i16, f: &mut dyn FnMut(&Self::View<'_>)) {
                #[allow(unused_imports)]
                use kloop::protocol::{Array, ArrayWriter};
                // What is not in this version stays kloop's default.
                let mut view: $Kloop = Default::default();
                $(pair!(@lower $kind, view, self, $field, v, [$($versions)+] $(, $Item)?);)*
                f(&view);
            }
        }
    };

    (@random leaf, $rng:ident, $v:ident) => { $crate::oracle::Leaf::random($rng) };
    (@random plain, $rng:ident, $v:ident) => { $crate::oracle::Pair::random($rng, $v) };
    (@random leaves, $rng:ident, $v:ident) => {
        (0..if $rng.below(15) == 0 { 130 } else { $rng.count() })
            .map(|_| $crate::oracle::Leaf::random($rng)).collect()
    };
    (@random all, $rng:ident, $v:ident) => {
        (0..$rng.count()).map(|_| $crate::oracle::Pair::random($rng, $v)).collect()
    };
    (@random any, $rng:ident, $v:ident) => {
        ($rng.below(3) != 0).then(|| pair!(@random all, $rng, $v))
    };

    (@not_null leaf, $value:expr) => { $crate::oracle::Leaf::not_null($value) };
    (@not_null any, $value:expr) => { Some($value.unwrap_or_default()) };

    (@lift leaf, $view:expr, $v:ident) => { $crate::oracle::Leaf::lift($view) };
    (@lift plain, $view:expr, $v:ident) => { $crate::oracle::Pair::lift(&$view, $v) };
    (@lift leaves, $view:expr, $v:ident) => {
        $view.iter().map($crate::oracle::Leaf::lift).collect()
    };
    (@lift all, $view:expr, $v:ident) => {
        $view.iter().map(|item| $crate::oracle::Pair::lift(&item, $v)).collect()
    };
    (@lift any, $view:expr, $v:ident) => {
        $view.map(|array| pair!(@lift all, array, $v))
    };

    (@lower leaf, $view:ident, $me:ident, $field:ident, $v:ident, [$($versions:tt)+]) => {
        if ($($versions)+).contains(&$v) {
            $view.$field = $crate::oracle::Leaf::lower(&$me.$field);
        }
    };
    (@lower plain, $view:ident, $me:ident, $field:ident, $v:ident, [$($versions:tt)+]) => {
        if ($($versions)+).contains(&$v) {
            $crate::oracle::Pair::lower(&$me.$field, $v, &mut |inner| $view.$field = *inner);
        }
    };
    (@lower leaves, $view:ident, $me:ident, $field:ident, $v:ident, [$($versions:tt)+], $Item:ty) => {
        let push = |out: &mut ArrayWriter<'_, '_, $Item>| {
            $me.$field.iter().for_each(|item| out.push(&$crate::oracle::Leaf::lower(item)));
        };
        if ($($versions)+).contains(&$v) {
            $view.$field = Array::emit($me.$field.len(), &push);
        }
    };
    (@lower all, $view:ident, $me:ident, $field:ident, $v:ident, [$($versions:tt)+], $Item:ty) => {
        let push = |out: &mut ArrayWriter<'_, '_, $Item>| {
            for item in &$me.$field {
                $crate::oracle::Pair::lower(item, $v, &mut |view| out.push(view));
            }
        };
        if ($($versions)+).contains(&$v) {
            $view.$field = Array::emit($me.$field.len(), &push);
        }
    };
    (@lower any, $view:ident, $me:ident, $field:ident, $v:ident, [$($versions:tt)+], $Item:ty) => {
        let push = |out: &mut ArrayWriter<'_, '_, $Item>| {
            for item in $me.$field.iter().flatten() {
                $crate::oracle::Pair::lower(item, $v, &mut |view| out.push(view));
            }
        };
        if ($($versions)+).contains(&$v) {
            $view.$field = $me.$field.as_ref().map(|items| Array::emit(items.len(), &push));
        }
    };
}

mod tables;
