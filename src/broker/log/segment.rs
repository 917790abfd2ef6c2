//! Segment: batches of one partition in one block of memory, with their index.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::index::{self, Entry, Index};
use crate::net::{AppendBlock, SharedLease};
use crate::protocol::records::{
    BatchView, set_base_offset, set_log_append_time, set_partition_leader_epoch,
};

/// The leader epoch of every batch: there is one leader, and it never changes.
pub(crate) const LEADER_EPOCH: i32 = 0;

/// A range of whole batches in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The position behind the last batch.
    pub end: usize,
    /// The offset behind the last batch.
    pub next_offset: i64,
}

/// One block of a partition's log.
#[derive(Debug)]
pub(crate) struct Segment {
    block: AppendBlock,
    index: Index,
    base_offset: i64,
    next_offset: i64,
    max_timestamp: i64,
    /// Where the first batch with `max_timestamp` stands.
    max_at: u32,
}

/// Bytes that a block must have to hold a batch of `len` bytes and the index.
pub(crate) const fn block_size_for(len: usize) -> usize {
    // The index takes less than 1/200 of a block.
    len + len / 200 + 64
}

impl Segment {
    /// An empty segment that begins at `base_offset`.
    pub(super) fn new(block: AppendBlock, base_offset: i64) -> Self {
        Segment {
            block,
            index: Index::default(),
            base_offset,
            next_offset: base_offset,
            max_timestamp: i64::MIN,
            max_at: 0,
        }
    }

    /// The offset of its first record.
    pub(super) fn base_offset(&self) -> i64 {
        self.base_offset
    }

    /// The offset behind its last record.
    pub(super) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// The largest timestamp in it; `i64::MIN` if it is empty.
    pub(super) fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Bytes of batches.
    pub(super) fn len(&self) -> usize {
        self.block.len()
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Bytes of batches that still fit.
    pub(super) fn room(&self) -> usize {
        let used = self.block.len() + index::reserved(self.block.capacity());
        self.block.capacity().saturating_sub(used)
    }

    /// Appends a batch at the next offset, stamped with `stamp` if the broker's clock counts; says
    /// whether there was room.
    pub(super) fn append(&mut self, batch: &BatchView<'_>, stamp: Option<i64>) -> bool {
        let len = batch.total_len();
        if len > self.room() {
            return false;
        }
        let (base, at) = (self.next_offset, self.block.len() as u32);
        let room = self.block.spare_at_most(len);
        room.copy_from_slice(batch.bytes());
        let mut patched = set_base_offset(room, base);
        patched = patched.and(set_partition_leader_epoch(room, LEADER_EPOCH));
        if let Some(now_ms) = stamp {
            patched = patched.and_then(|()| set_log_append_time(room, now_ms));
        }
        if patched.is_err() {
            return false;
        }
        let entry = Entry { offset: base, position: at, max_before: self.max_timestamp };
        self.index.note(tail(&mut self.block), entry);
        self.block.publish(len);
        self.next_offset = base + i64::from(batch.last_offset_delta()) + 1;
        let newest = stamp.unwrap_or(batch.max_timestamp());
        if newest > self.max_timestamp || at == 0 {
            self.max_timestamp = newest;
            self.max_at = at;
        }
        true
    }

    /// A view of the batches between two positions.
    pub(super) fn share(&self, from: usize, to: usize) -> SharedLease {
        self.block.share(from..to)
    }

    /// The position of the batch that holds `offset`; the end if it lies behind.
    pub(super) fn position_of(&mut self, offset: i64) -> usize {
        let near = self.index.last_where(tail(&mut self.block), |e| e.offset <= offset);
        let mut at = near as usize;
        while let Some(batch) = self.batch_at(at) {
            if batch.next_offset() > offset {
                break;
            }
            at += batch.total_len();
        }
        at
    }

    /// As many whole batches from `from` on as `limit` bytes hold; `None` if not even one.
    pub(super) fn cut(&mut self, from: usize, limit: usize) -> Option<Cut> {
        if limit >= self.len() - from {
            return Some(Cut { end: self.len(), next_offset: self.next_offset });
        }
        let last = from + limit;
        let near = self.index.last_where(tail(&mut self.block), |e| e.position as usize <= last);
        let mut cut = None;
        let mut at = from.max(near as usize);
        while let Some(batch) = self.batch_at(at) {
            if at > from {
                cut = Some(Cut { end: at, next_offset: batch.base_offset() });
            }
            at += batch.total_len();
            if at > last {
                break;
            }
        }
        cut
    }

    /// The one batch at `from`.
    pub(super) fn one(&self, from: usize) -> Option<Cut> {
        let batch = self.batch_at(from)?;
        Some(Cut { end: from + batch.total_len(), next_offset: batch.next_offset() })
    }

    /// The first batch with a timestamp that is not before `timestamp`.
    pub(super) fn batch_since(&mut self, timestamp: i64) -> Option<SharedLease> {
        let near = self.index.last_where(tail(&mut self.block), |e| e.max_before < timestamp);
        let mut at = near as usize;
        while let Some(batch) = self.batch_at(at) {
            let end = at + batch.total_len();
            if batch.max_timestamp() >= timestamp {
                return Some(self.share(at, end));
            }
            at = end;
        }
        None
    }

    /// The first batch with the segment's largest timestamp.
    pub(super) fn newest_batch(&self) -> Option<SharedLease> {
        let at = self.max_at as usize;
        let end = self.one(at)?.end;
        Some(self.share(at, end))
    }

    /// The batch at a position; `None` at the end. What is in a segment was checked when it was
    /// appended.
    fn batch_at(&self, at: usize) -> Option<BatchView<'_>> {
        BatchView::parse(self.block.published().get(at..)?).ok()
    }
}

/// The bytes at the end of the block that the index has.
fn tail(block: &mut AppendBlock) -> &mut [u8] {
    let reserved = index::reserved(block.capacity());
    let spare = block.spare();
    let from = spare.len().saturating_sub(reserved);
    spare.get_mut(from..).unwrap_or_default()
}
