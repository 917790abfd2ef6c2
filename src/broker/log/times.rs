//! Times: which record of a batch a timestamp leads to. The batch was found by the log's index; it
//! is walked here, outside of the partition's lock.
//!
//! The records of a compressed batch are not inflated for that: the batch's first record stands for
//! what is asked by time, and its last one for the largest timestamp. A reader by time then begins
//! up to one batch early, never late.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::protocol::records::{BatchView, TimestampType};

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
pub(crate) fn first_since(batch: &[u8], timestamp: i64) -> Option<Found> {
    let batch = BatchView::parse(batch).ok()?;
    let (offset, first) = (batch.base_offset(), first_timestamp(&batch));
    walk(&batch, |at| at >= timestamp).or(Some(Found { offset, timestamp: first }))
}

/// The first record in `batch` with the largest timestamp; the last record at all if they cannot be
/// walked.
pub(crate) fn newest_in(batch: &[u8]) -> Option<Found> {
    let batch = BatchView::parse(batch).ok()?;
    let newest = batch.max_timestamp();
    let last = Found { offset: batch.last_offset(), timestamp: newest };
    walk(&batch, |at| at >= newest).or(Some(last))
}

/// The first record whose timestamp `wanted` holds for.
fn walk(batch: &BatchView<'_>, wanted: impl Fn(i64) -> bool) -> Option<Found> {
    let records = batch.records().ok()?;
    for record in records.map_while(Result::ok) {
        let timestamp = batch.timestamp_of(&record);
        if wanted(timestamp) {
            return Some(Found { offset: batch.offset_of(&record), timestamp });
        }
    }
    None
}

fn first_timestamp(batch: &BatchView<'_>) -> i64 {
    match batch.attributes().timestamp_type() {
        TimestampType::Create => batch.base_timestamp(),
        TimestampType::LogAppend => batch.max_timestamp(),
    }
}
