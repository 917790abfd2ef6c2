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

impl<T: Element> ExactSizeIterator for Elements<'_, T> {}

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

#[cfg(test)]
mod tests {
    use super::super::declare::Message;
    use super::super::messages::*;
    use super::*;

    #[test]
    fn a_closure_that_pushes_another_number_makes_the_message_unwritable() {
        for pushes in [0, 1, 3] {
            let names = |w: &mut ArrayWriter<'_, '_, &'static str>| {
                (0..pushes).for_each(|_| w.push(&"topic"));
            };
            let topic_names = Array::emit(2, &names);
            let request = DeleteTopicsRequest { topic_names, ..Default::default() };
            let mut buf = [0; 100];
            let mut w = Writer::new(&mut buf);
            request.encode(&mut w, 1);
            assert!(w.finish().is_err(), "{pushes}");
        }
    }

    #[test]
    fn null_is_read_where_the_field_knows_it() {
        let null = [0xff, 0xff, 0xff, 0xff];
        assert!(MetadataRequest::decode(&null, 1).unwrap().topics.is_none());
        assert!(DeleteTopicsRequest::decode(&[null, [0; 4]].concat(), 1).is_err());
        // Compact null is 0.
        assert!(MetadataRequest::decode(&[0, 0, 0, 0, 0, 0], 9).unwrap().topics.is_none());
        assert!(DeleteTopicsRequest::decode(&[0, 0, 0, 0, 0, 0], 4).is_err());
        // Below null there is nothing.
        assert!(MetadataRequest::decode(&[0xff, 0xff, 0xff, 0xfe], 1).is_err());
    }

    #[test]
    fn what_was_read_shows_its_elements_and_what_is_emitted_does_not() {
        let body = [0, 0, 0, 2, 0, 1, b'a', 0, 1, b'b', 0, 0, 0, 9, 0xee];
        let request = DeleteTopicsRequest::decode(&body, 1).unwrap();
        let names = request.topic_names.iter();
        assert_eq!((names.len(), request.timeout_ms), (2, 9));
        assert!(names.eq(["a", "b"]));
        assert_eq!((&request.topic_names).into_iter().count(), 2);
        let emit = |w: &mut ArrayWriter<'_, '_, i32>| w.push(&1);
        let array: Array<'_, i32> = Array::emit(1, &emit);
        assert_eq!((array.len(), array.iter().count()), (1, 0));
    }

    #[test]
    fn a_string_that_is_not_utf8_is_refused_wherever_it_stands() {
        let body = [0, 0, 0, 2, 0, 1, b'a', 0, 1, 0xc0, 0, 0, 0, 9];
        assert!(DeleteTopicsRequest::decode(&body, 1).is_err());
    }

    #[test]
    fn payloads_that_lie_elsewhere_are_counted_in_their_place() {
        let partitions = |w: &mut ArrayWriter<'_, '_, FetchPartitionResponse<'static>>| {
            w.push_external(&FetchPartitionResponse::default(), 1 << 20);
            w.push(&FetchPartitionResponse { records: Some(b"batch"), ..Default::default() });
        };
        let topics = |w: &mut ArrayWriter<'_, '_, FetchTopicResponse<'static>>| {
            let partitions = Array::emit(2, &partitions);
            w.push(&FetchTopicResponse { topic: "t", partitions, ..Default::default() });
        };
        let response = FetchResponse { responses: Array::emit(1, &topics), ..Default::default() };
        let (mut buf, mut cuts) = ([0; 256], [Default::default(); 2]);
        for version in FetchResponse::VERSIONS {
            let mut w = Writer::gathering(&mut buf, &mut cuts);
            response.encode(&mut w, version);
            assert_eq!(w.left_out(), (2, (1 << 20) + 5));
            let written = w.finish().unwrap();
            assert_eq!(written + (1 << 20) + 5, response.encoded_len(version));
            // Put together, it is read again.
            let big = vec![7; 1 << 20];
            let (first, second) = (cuts[0].at, cuts[1].at);
            let parts: [&[u8]; 5] =
                [&buf[..first], &big, &buf[first..second], b"batch", &buf[second..written]];
            let whole = parts.concat();
            let read = FetchResponse::decode(&whole, version).unwrap();
            let mut partitions = read.responses.iter().next().unwrap().partitions.iter();
            assert_eq!(partitions.next().unwrap().records, Some(&big[..]));
            assert_eq!(partitions.next().unwrap().records, Some(&b"batch"[..]));
        }
    }
}
