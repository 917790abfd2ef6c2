//! RecordCursor: walks the records of a [`ClientEvent::Records`](super::ClientEvent) event.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::error::Error;
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
    /// [`RecordCursor::next`] gave an error.
    broken: bool,
}

impl RecordCursor {
    /// A walk that begins with the record at offset `from`, as the event says it.
    pub fn new(from: i64) -> Self {
        RecordCursor { from, ..RecordCursor::default() }
    }

    /// The next record. `batches` must be the bytes of the event in each call; others give other
    /// records or an error, never a panic. Records before `from` and batches that are Kafka's own
    /// (the ends of transactions) are passed over.
    ///
    /// # Errors
    /// As [`RecordCursor::read`]; the walk is over then.
    #[inline]
    pub fn next<'a>(&mut self, batches: &'a [u8]) -> Option<Result<FetchedRecord<'a>, Error>> {
        if self.broken {
            return None;
        }
        let mut next = None;
        match self.read(batches, 1, |record| next = Some(record)) {
            Ok(_) => next.map(Ok),
            Err(error) => {
                self.broken = true;
                Some(Err(error))
            }
        }
    }

    /// Gives `take` up to `cap` records and says how many, 0 at the end: cheaper than one by one,
    /// since a batch's header is read once a call. What is in front of an error is given first.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the bytes are not whole record batches, [`Error::Unsupported`] for
    /// compressed ones. The walk stays where it is: the next call says the same.
    #[inline]
    pub fn read<'a>(
        &mut self,
        batches: &'a [u8],
        cap: usize,
        mut take: impl FnMut(FetchedRecord<'a>),
    ) -> Result<usize, Error> {
        let mut count = 0;
        while count < cap {
            let rest = batches.get(self.batch as usize..).unwrap_or(&[]);
            if rest.is_empty() {
                break;
            }
            match self.read_batch(rest, cap, &mut count, &mut take) {
                Err(error) if count == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
        }
        Ok(count)
    }

    /// Walks the present batch, which is the first of `rest`, until `count` is `cap` or it is over.
    #[inline]
    fn read_batch<'a>(
        &mut self,
        rest: &'a [u8],
        cap: usize,
        count: &mut usize,
        take: &mut impl FnMut(FetchedRecord<'a>),
    ) -> Result<(), Error> {
        let batch = BatchView::parse(rest)?;
        let all = batch.records_bytes();
        let mut records = match self.left {
            Some(left) => {
                let bytes = all.get(self.record as usize..).unwrap_or(&[]);
                Records::new(bytes, i32::try_from(left).unwrap_or(i32::MAX))?
            }
            None => self.enter(&batch)?,
        };
        while records.left() > 0 {
            if *count == cap {
                return Ok(());
            }
            let Some(record) = records.next() else { break };
            let record = record?;
            self.record = (all.len() - records.bytes_left()) as u32;
            self.left = Some(records.left() as u32);
            let offset = batch.offset_of(&record);
            if offset >= self.from {
                let timestamp_ms = batch.timestamp_of(&record);
                let (key, value) = (record.key, record.value);
                let headers = FetchedHeaders(record.headers);
                take(FetchedRecord { offset, timestamp_ms, key, value, headers });
                *count += 1;
            }
        }
        // The header told of fewer records than there are.
        if let Some(Err(bad)) = records.next() {
            return Err(bad.into());
        }
        self.batch += batch.total_len() as u32;
        self.left = None;
        Ok(())
    }

    /// Begins a batch; gives the records of it that are to be walked.
    fn enter<'a>(&mut self, batch: &BatchView<'a>) -> Result<Records<'a>, Error> {
        self.record = 0;
        if batch.attributes().is_control() || batch.next_offset() <= self.from {
            return Ok(Records::new(&[], 0)?);
        }
        let records = batch.records().map_err(|error| match error {
            RecordsError::Compressed(_) => Error::Unsupported("a compressed batch"),
            RecordsError::UnknownCompression(_) => Error::Protocol("a codec that does not exist"),
            RecordsError::Malformed(bad) => Error::Protocol(bad.0),
        })?;
        self.left = Some(u32::try_from(records.left()).unwrap_or(u32::MAX));
        Ok(records)
    }
}
