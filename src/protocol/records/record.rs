//! Records and their headers as views over a batch's bytes.

use crate::protocol::reader::{Malformed, Reader, Result};

/// A header: key and value. The key is UTF-8 by Kafka's rules, which are not enforced here.
pub type HeaderRef<'a> = (&'a [u8], Option<&'a [u8]>);

/// The headers of a record that has none.
#[inline]
pub fn no_headers() -> core::iter::Empty<HeaderRef<'static>> {
    core::iter::empty()
}

/// The smallest record: seven fields of one byte each, of which the first is its length.
const SMALLEST: usize = 7;

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its offset minus the batch's base offset; [`super::BatchView::offset_of`] adds them up.
    pub offset_delta: i32,
    /// Its timestamp minus the batch's base timestamp; [`super::BatchView::timestamp_of`] knows the
    /// exception.
    pub timestamp_delta: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
}

/// What a record of a control batch says about its producer's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    /// The transaction was aborted.
    Abort,
    /// The transaction was committed.
    Commit,
    /// Something that a client passes over.
    Other(i16),
}

/// Takes a varint length and that many bytes; -1 is null.
///
/// Inlined always, as all that reads a record is: a walk takes half the time then.
#[inline(always)]
fn nullable<'a>(r: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    match r.varint()? {
        -1 => Ok(None),
        n => match usize::try_from(n) {
            Ok(n) => Ok(Some(r.take(n)?)),
            Err(_) => Err(Malformed("negative length in a record")),
        },
    }
}

#[inline]
fn header<'a>(r: &mut Reader<'a>) -> Result<HeaderRef<'a>> {
    let key = nullable(r)?.ok_or(Malformed("a header without a key"))?;
    Ok((key, nullable(r)?))
}

impl<'a> Record<'a> {
    /// Passes over the record at the front of `r`; gives its timestamp's delta.
    #[inline(always)]
    fn read_timestamp_delta(r: &mut Reader<'a>) -> Result<i64> {
        let length = usize::try_from(r.varint()?);
        let length = length.map_err(|_| Malformed("negative record length"))?;
        let mut body = Reader::new(r.take(length)?);
        body.i8()?;
        body.varlong()
    }

    /// Reads the record at the front of `r` and checks it in full, headers included.
    #[inline(always)]
    fn read(r: &mut Reader<'a>) -> Result<Self> {
        let length = usize::try_from(r.varint()?);
        let length = length.map_err(|_| Malformed("negative record length"))?;
        let mut body = Reader::new(r.take(length)?);
        // One byte of attributes, of which no bit has a meaning.
        body.i8()?;
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let key = nullable(&mut body)?;
        let value = nullable(&mut body)?;
        let headers = Headers::read(&mut body)?;
        if body.left() != 0 {
            return Err(Malformed("a record longer than what is in it"));
        }
        Ok(Record { offset_delta, timestamp_delta, key, value, headers })
    }

    /// What this record says, if its batch is a control batch.
    ///
    /// # Errors
    /// [`Malformed`] if the key is not that of a control record.
    pub fn control_type(&self) -> Result<ControlType> {
        let mut key = Reader::new(self.key.unwrap_or(&[]));
        if key.i16()? < 0 {
            return Err(Malformed("negative version of a control record"));
        }
        Ok(match key.i16()? {
            0 => ControlType::Abort,
            1 => ControlType::Commit,
            other => ControlType::Other(other),
        })
    }
}

/// The records of a batch. After a record that is not one, an error and then nothing follows.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    rest: Reader<'a>,
    left: usize,
}

impl<'a> Records<'a> {
    /// The `count` records in `bytes`, which are not compressed, or not any more.
    ///
    /// # Errors
    /// [`Malformed`] if so many records cannot be in so few bytes.
    #[inline]
    pub fn new(bytes: &'a [u8], count: i32) -> Result<Self> {
        match usize::try_from(count) {
            Ok(left) if left <= bytes.len() / SMALLEST => {
                Ok(Records { rest: Reader::new(bytes), left })
            }
            _ => Err(Malformed("a record count that cannot be true")),
        }
    }

    /// How many records are left, as far as the header is to be believed.
    #[inline]
    pub fn left(&self) -> usize {
        self.left
    }

    /// How many bytes are left.
    #[inline]
    pub fn bytes_left(&self) -> usize {
        self.rest.left()
    }

    fn end(&mut self) {
        self.left = 0;
        self.rest = Reader::new(&[]);
    }

    /// Takes the next record as [`Iterator::next`] does, but looks at no more of it than its length and
    /// its timestamp's delta, which it gives. For who wants to know whether there are as many records as
    /// the header says: it takes a fraction of the time.
    #[inline(always)]
    pub fn next_timestamp_delta(&mut self) -> Option<Result<i64>> {
        let Some(left) = self.left.checked_sub(1) else { return self.after_last().map(Err) };
        self.left = left;
        let delta = Record::read_timestamp_delta(&mut self.rest);
        if delta.is_err() {
            self.end();
        }
        Some(delta)
    }

    /// What is wrong behind the last record.
    fn after_last(&mut self) -> Option<Malformed> {
        if self.rest.left() == 0 {
            return None;
        }
        self.end();
        Some(Malformed("bytes after the last record"))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(left) = self.left.checked_sub(1) else { return self.after_last().map(Err) };
        self.left = left;
        let record = Record::read(&mut self.rest);
        if record.is_err() {
            self.end();
        }
        Some(record)
    }
}

/// The headers of a record that was checked.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    rest: Reader<'a>,
    left: usize,
}

impl<'a> Headers<'a> {
    /// None.
    pub fn none() -> Self {
        Headers { rest: Reader::new(&[]), left: 0 }
    }

    /// The bytes that are left and how many headers they begin with, for a caller that keeps them
    /// apart; [`Headers::from_raw`] puts them together again.
    pub fn raw(&self) -> (&'a [u8], usize) {
        (self.rest.rest(), self.left)
    }

    /// The first `left` headers of `bytes`; ends early if there are not so many.
    pub fn from_raw(bytes: &'a [u8], left: usize) -> Self {
        Headers { rest: Reader::new(bytes), left: left.min(bytes.len() / 2) }
    }

    #[inline(always)]
    fn read(r: &mut Reader<'a>) -> Result<Self> {
        let left = r.varint()?;
        if left == 0 {
            return Ok(Headers::none());
        }
        // Each takes at least two bytes.
        match usize::try_from(left) {
            Ok(left) if left <= r.left() / 2 => {
                let rest = *r;
                for _ in 0..left {
                    header(r)?;
                }
                Ok(Headers { rest, left })
            }
            _ => Err(Malformed("a header count that cannot be true")),
        }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = HeaderRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<HeaderRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        // The headers were walked once when the record was read, so this cannot fail.
        header(&mut self.rest).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}
