//! RecordCursor: walks the records of a [`ClientEvent::Records`](super::ClientEvent) event.

use crate::error::Error;

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
pub struct FetchedHeaders<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl FetchedHeaders<'_> {
    /// How many are left.
    pub fn len(&self) -> usize {
        self.left as usize
    }

    /// True if none are left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for FetchedHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.bytes;
        todo!()
    }
}

/// Where a walk over the records of an event stands: plain data, no borrow, so that it can live on
/// the stack of a caller of the C API.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordCursor {
    at: u32,
}

impl RecordCursor {
    /// A walk over `batches` that begins with the record at offset `from`.
    pub fn new(_batches: &[u8], _from: i64) -> Self {
        RecordCursor::default()
    }

    /// The next record. `batches` must be the bytes that the cursor was made for.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the bytes are not whole record batches; the walk is over then.
    pub fn next<'a>(&mut self, _batches: &'a [u8]) -> Option<Result<FetchedRecord<'a>, Error>> {
        let _ = self.at;
        todo!()
    }
}
