//! Times: which record of a batch a timestamp leads to. The batch was found by the log's index; it
//! is walked here, outside of the partition's lock.
//!
//! A compressed batch is inflated for that, unless the broker stamped it: then all its records have
//! one timestamp. Of one that cannot be inflated the first record stands for what is asked by time,
//! and the last one for the largest timestamp. A reader by time then begins up to one batch early,
//! never late.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::broker::batch_reader::BatchReader;
use crate::protocol::records::{BatchView, Records, TimestampType};

/// A record that a time led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its offset.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp: i64,
}

/// The first record in `batch` whose timestamp is not before `timestamp`; the first record at all
/// if they cannot be walked or the header promised one that is not there.
pub(crate) fn first_since(
    batch: &[u8],
    timestamp: i64,
    batch_reader: &mut BatchReader,
) -> Option<Found> {
    let batch = BatchView::parse(batch).ok()?;
    let first = Found { offset: batch.base_offset(), timestamp: batch.base_timestamp() };
    stamped(&batch).or_else(|| walk(&batch, batch_reader, |at| at >= timestamp)).or(Some(first))
}

/// The first record in `batch` with the largest timestamp; the last record at all if they cannot be
/// walked.
pub(crate) fn newest_in(batch: &[u8], batch_reader: &mut BatchReader) -> Option<Found> {
    let batch = BatchView::parse(batch).ok()?;
    let newest = batch.max_timestamp();
    let last = Found { offset: batch.last_offset(), timestamp: newest };
    stamped(&batch).or_else(|| walk(&batch, batch_reader, |at| at >= newest)).or(Some(last))
}

/// The first record of a batch that the broker stamped: none of it is older or newer.
fn stamped(batch: &BatchView<'_>) -> Option<Found> {
    match batch.attributes().timestamp_type() {
        TimestampType::Create => None,
        TimestampType::LogAppend => {
            Some(Found { offset: batch.base_offset(), timestamp: batch.max_timestamp() })
        }
    }
}

/// The first record whose timestamp `wanted` holds for.
fn walk(
    batch: &BatchView<'_>,
    batch_reader: &mut BatchReader,
    wanted: impl Fn(i64) -> bool,
) -> Option<Found> {
    let bytes = batch_reader.records(batch).ok()?;
    let records = Records::new(bytes, batch.count()).ok()?;
    for record in records.map_while(Result::ok) {
        let timestamp = batch.timestamp_of(&record);
        if wanted(timestamp) {
            return Some(Found { offset: batch.offset_of(&record), timestamp });
        }
    }
    None
}
