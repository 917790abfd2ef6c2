//! Array: a sequence inside a message, as an iterator over checked bytes or a closure that pushes.

use super::declare::{Element, Field, Version};
use super::reader::{Malformed, Reader, Result};
use super::writer::Writer;
use core::fmt;
use core::marker::PhantomData;

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

    #[inline]
    fn read_counted(r: &mut Reader<'a>, v: Version, count: usize) -> Result<Self> {
        let from = r.rest();
        skip_counted::<T>(r, v, count)?;
        let bytes = from.get(..from.len() - r.left()).unwrap_or(&[]);
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

#[inline]
fn skip_counted<T: Element>(r: &mut Reader<'_>, v: Version, count: usize) -> Result<()> {
    for _ in 0..count {
        T::skip(r, v)?;
    }
    Ok(())
}

impl<'a, T: Element> IntoIterator for Array<'a, T> {
    type Item = T::Item<'a>;
    type IntoIter = Elements<'a, T>;

    fn into_iter(self) -> Elements<'a, T> {
        self.iter()
    }
}

impl<'a, T: Element> IntoIterator for &Array<'a, T> {
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

    /// Writes one element whose first bytes field stands for `len` bytes that lie elsewhere, and
    /// that the caller sends itself; see [`Writer::external_payload`].
    pub fn push_external(&mut self, item: &T::Item<'_>, len: usize) {
        self.w.external_payload(len);
        self.push(item);
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

    #[inline]
    fn skip(r: &mut Reader<'a>, v: Version) -> Result<()> {
        let count = r.count(v.flexible)?.ok_or(Malformed("null array"))?;
        skip_counted::<T>(r, v, count)
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

    #[inline]
    fn skip(r: &mut Reader<'a>, v: Version) -> Result<()> {
        let count = r.count(v.flexible)?.unwrap_or(0);
        skip_counted::<T>(r, v, count)
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
