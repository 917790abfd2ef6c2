//! RecordCursor: walks the records of a [`ClientEvent::Records`](super::ClientEvent) event.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::error::Error;
use crate::protocol::Reader;
use crate::protocol::records::{BatchView, HeaderRef, Headers, Records, RecordsError};

/// One record as it was fetched; it borrows the event's batches.
#[derive(Clone, Copy, Debug)]
pub struct FetchedRecord<'a> {
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970; -1 if the producer gave none.
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: FetchedHeaders<'a>,
}

/// The headers of a record: an iterator over name and value.
#[derive(Clone, Copy, Debug)]
pub struct FetchedHeaders<'a>(Headers<'a>);

impl<'a> FetchedHeaders<'a> {
    /// The bytes that hold the headers and how many there are, for a caller that keeps them apart;
    /// [`FetchedHeaders::from_raw`] puts them together again.
    pub fn raw(&self) -> (&'a [u8], usize) {
        self.0.raw()
    }

    /// The first `count` headers of `bytes`; ends early if there are not so many.
    pub fn from_raw(bytes: &'a [u8], count: usize) -> Self {
        FetchedHeaders(Headers::from_raw(bytes, count))
    }
}

impl<'a> Iterator for FetchedHeaders<'a> {
    type Item = HeaderRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for FetchedHeaders<'_> {}

/// Where a walk over the records of an event stands: plain data, no borrow, so that it can live on
/// the stack of a caller of the C API.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordCursor {
    /// The first offset to show.
    from: i64,
    /// Where the present batch begins.
    batch: u32,
    /// Where the next record begins, counted from the batch's records; only if `left` says that
    /// there is one.
    record: u32,
    /// Records of the present batch that were not walked; `None` before its first.
    left: Option<u32>,
    /// The walk ended with an error.
    broken: bool,
}

impl RecordCursor {
    /// A walk over `batches` that begins with the record at offset `from`, as the event says it.
    pub fn new(_batches: &[u8], from: i64) -> Self {
        RecordCursor { from, ..RecordCursor::default() }
    }

    /// The next record. `batches` must be the bytes that the cursor was made for; others give other
    /// records or an error, never a panic. Records before `from` and batches that are Kafka's own
    /// (the ends of transactions) are passed over.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the bytes are not whole record batches, [`Error::Unsupported`] for
    /// compressed ones; the walk is over then.
    #[inline]
    pub fn next<'a>(&mut self, batches: &'a [u8]) -> Option<Result<FetchedRecord<'a>, Error>> {
        match self.step(batches) {
            Ok(record) => record.map(Ok),
            Err(error) => {
                self.broken = true;
                Some(Err(error))
            }
        }
    }

    fn step<'a>(&mut self, batches: &'a [u8]) -> Result<Option<FetchedRecord<'a>>, Error> {
        while !self.broken {
            let rest = batches.get(self.batch as usize..).unwrap_or(&[]);
            if rest.is_empty() {
                return Ok(None);
            }
            let batch = BatchView::parse(rest)?;
            let all = batch.records_bytes();
            let left = match self.left {
                Some(left) => left,
                None => self.enter(&batch)?,
            };
            if left == 0 {
                self.batch += batch.total_len() as u32;
                self.left = None;
                continue;
            }
            let bytes = all.get(self.record as usize..).unwrap_or(&[]);
            let count = i32::try_from(left).unwrap_or(i32::MAX);
            let mut records = Records::new(bytes, count)?;
            let record = match records.next() {
                Some(record) => record?,
                None => return Err(Error::Protocol("fewer records than announced")),
            };
            let mut length = Reader::new(bytes);
            let body = u32::try_from(length.varint()?).unwrap_or(0);
            self.record += (bytes.len() - length.left()) as u32 + body;
            self.left = Some(left - 1);
            let offset = batch.offset_of(&record);
            if offset >= self.from {
                let timestamp_ms = batch.timestamp_of(&record);
                let (key, value) = (record.key, record.value);
                let headers = FetchedHeaders(record.headers);
                return Ok(Some(FetchedRecord { offset, timestamp_ms, key, value, headers }));
            }
        }
        Ok(None)
    }

    /// Begins a batch; gives how many records of it are to be walked.
    fn enter(&mut self, batch: &BatchView<'_>) -> Result<u32, Error> {
        self.record = 0;
        if batch.attributes().is_control() || batch.next_offset() <= self.from {
            self.left = Some(0);
            return Ok(0);
        }
        let records = batch.records().map_err(|error| match error {
            RecordsError::Compressed(_) => Error::Unsupported("a compressed batch"),
            RecordsError::UnknownCompression(_) => Error::Protocol("a codec that does not exist"),
            RecordsError::Malformed(bad) => Error::Protocol(bad.0),
        })?;
        let left = u32::try_from(records.left()).unwrap_or(u32::MAX);
        self.left = Some(left);
        Ok(left)
    }
}
