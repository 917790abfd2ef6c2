//! Log: the batches of one partition, in memory.
//!
//! ```text
//!            first            last (active)
//!   Segments [ 16 KiB ][ 64 KiB ][ 256 KiB ][ 1 MiB .... ]      blocks grow with the partition
//!              │                              ├ batches, byte for byte as a fetch sends them
//!              start offset                   ├ room            end offset = high watermark
//!                                             └ sparse index, from the block's end downwards
//! ```
//!
//! An append copies a batch once, into the active block behind what is published; a fetch takes
//! views of what is published. A block goes home when it was evicted *and* its last view is gone.
//!
//! **Retention.** All logs together have [`LogMemory`]: exactly `log.memory.bytes`. When it is used
//! up, the block goes that was filled the longest ago, whosever it is; if there is none, the block
//! of the partition that was not written for the longest time. So a log's start moves on, and a
//! partition that nobody writes to may end up empty. With `log.retention.bytes` a partition also
//! keeps to a size of its own. Time does not count.
//!
//! Absent: disk, compaction.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

mod index;
mod memory;
pub(crate) mod producer_state;
mod segment;
mod segments;
#[cfg(test)]
mod tests;
mod times;

pub(crate) use memory::{Fresh, LogMemory, MIN_LOG_BLOCK};
pub(crate) use segment::{LEADER_EPOCH, block_size_for};
pub(crate) use segments::Cell;
pub(crate) use times::{first_since, newest_in};

use crate::net::SharedLease;
use crate::protocol::records::BatchView;
use segment::Segment;
use segments::Segments;

/// The offset that was asked for is not in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange;

/// What a read takes: at most so many bytes, in at most as many views as there are places.
#[derive(Debug)]
pub(crate) struct Take<'a> {
    /// Where the views go.
    pub places: &'a mut [Option<SharedLease>],
    /// Bytes at most.
    pub limit: usize,
    /// Take one batch even if it exceeds the limit (KIP-74).
    pub one_anyway: bool,
}

/// The batches of one partition.
#[derive(Debug)]
pub(crate) struct Log {
    segments: Segments,
    start_offset: i64,
    end_offset: i64,
    bytes: u64,
    /// How many segments were ever opened: the next one's size follows from it.
    opened: u32,
    /// Where the last read ended, so that the next one begins without a search.
    cursor: Cursor,
}

/// A place in the log.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    offset: i64,
    segment: u64,
    position: usize,
}

impl Log {
    /// An empty log that may have so many segments.
    pub(crate) fn new(segments: usize) -> Self {
        Log {
            segments: Segments::new(segments),
            start_offset: 0,
            end_offset: 0,
            bytes: 0,
            opened: 0,
            cursor: Cursor { offset: -1, segment: 0, position: 0 },
        }
    }

    /// The oldest offset that is still there.
    pub(crate) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The offset of the next record; also the high watermark, as there is one replica.
    pub(crate) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// The number of the oldest segment.
    pub(crate) fn first_segment(&self) -> u64 {
        self.segments.first()
    }

    /// Whether it holds no segment at all.
    pub(crate) fn is_bare(&self) -> bool {
        self.segments.len() == 0
    }

    /// How large a block the next segment should have: 16 KiB first, then four times as much up to
    /// 1 MiB, but not more than `fair` unless the places for segments run low.
    pub(crate) fn next_block(&self, fair: usize) -> usize {
        let grown = MIN_LOG_BLOCK << (2 * self.opened.min(3));
        if self.segments.len() > self.segments.capacity() / 2 { grown } else { grown.min(fair) }
    }

    /// Whether a batch of `len` bytes fits the active segment.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        let active = self.segments.last().and_then(|number| self.segments.get(number));
        active.is_some_and(|segment| segment.room() >= len)
    }

    /// Appends a batch with the next offsets and gives its base offset; `None` if the active
    /// segment has no room and a new one must be opened first.
    pub(crate) fn append(&mut self, batch: &BatchView<'_>, stamp: Option<i64>) -> Option<i64> {
        let active = self.segments.last()?;
        let active = self.segments.get_mut(active)?;
        if !active.append(batch, stamp) {
            return None;
        }
        let base = core::mem::replace(&mut self.end_offset, active.next_offset());
        self.bytes += batch.total_len() as u64;
        Some(base)
    }

    /// Opens a segment; the active one before it is full from now on. Gives its number if there
    /// was one.
    ///
    /// # Errors
    /// The fresh block, if there is no place for another segment: drop the oldest first.
    pub(crate) fn open(&mut self, fresh: Fresh) -> Result<Option<u64>, Fresh> {
        if self.segments.len() == self.segments.capacity() {
            return Err(fresh);
        }
        let before = self.segments.last();
        let Fresh { mut cell, block } = fresh;
        *cell = Some(Segment::new(block, self.end_offset));
        if self.segments.push(cell).is_err() {
            return Ok(None);
        }
        self.opened = self.opened.saturating_add(1);
        Ok(before)
    }

    /// Drops the oldest segment if it has this number, or whichever it is for `None`.
    pub(crate) fn evict(&mut self, number: Option<u64>) -> Option<Cell> {
        if number.is_some_and(|number| number != self.segments.first()) {
            return None;
        }
        let cell = self.segments.pop()?;
        if let Some(segment) = cell.as_ref() {
            self.bytes = self.bytes.saturating_sub(segment.len() as u64);
        }
        let first = self.segments.get(self.segments.first());
        self.start_offset = first.map_or(self.end_offset, Segment::base_offset);
        Some(cell)
    }

    /// Whether there is more than the active segment and the oldest could go with at least `keep`
    /// bytes left.
    pub(crate) fn exceeds(&self, keep: u64) -> bool {
        let oldest = self.segments.get(self.segments.first()).map_or(0, Segment::len);
        self.segments.len() > 1 && self.bytes - oldest as u64 >= keep
    }

    /// How many bytes there are to read from `offset` on; counts no further than `enough`.
    pub(crate) fn available(&mut self, offset: i64, enough: usize) -> Result<usize, OutOfRange> {
        let Some(mut at) = self.seek(offset)? else { return Ok(0) };
        self.cursor = at;
        let mut bytes = 0;
        while let Some(segment) = self.segments.get(at.segment) {
            bytes += segment.len().saturating_sub(at.position);
            if bytes >= enough {
                break;
            }
            at = Cursor { segment: at.segment + 1, position: 0, ..at };
        }
        Ok(bytes)
    }

    /// Takes views of whole batches, the first of which holds `offset`; gives how many bytes and
    /// how many views.
    pub(crate) fn read(
        &mut self,
        offset: i64,
        take: Take<'_>,
    ) -> Result<(usize, usize), OutOfRange> {
        let Some(mut at) = self.seek(offset)? else { return Ok((0, 0)) };
        let (mut bytes, mut views) = (0, 0);
        while let Some(segment) = self.segments.get_mut(at.segment) {
            let cut = match segment.cut(at.position, take.limit.saturating_sub(bytes)) {
                None if take.one_anyway && bytes == 0 => segment.one(at.position),
                cut => cut,
            };
            let Some(cut) = cut else { break };
            // A segment is empty if a batch that it was opened for was refused.
            if cut.end > at.position {
                let Some(place) = take.places.get_mut(views) else { break };
                *place = Some(segment.share(at.position, cut.end));
                bytes += cut.end - at.position;
                views += 1;
            }
            let all = cut.end == segment.len();
            at = Cursor { offset: cut.next_offset, position: cut.end, ..at };
            if !all || self.segments.last() == Some(at.segment) {
                break;
            }
            at = Cursor { segment: at.segment + 1, position: 0, ..at };
        }
        self.cursor = at;
        Ok((bytes, views))
    }

    /// The first batch with a timestamp that is not before `timestamp`.
    pub(crate) fn batch_since(&mut self, timestamp: i64) -> Option<SharedLease> {
        let mut number = self.segments.first();
        loop {
            let segment = self.segments.get_mut(number)?;
            if segment.max_timestamp() >= timestamp
                && let Some(batch) = segment.batch_since(timestamp)
            {
                return Some(batch);
            }
            number += 1;
        }
    }

    /// The first batch with the largest timestamp of all.
    pub(crate) fn newest_batch(&self) -> Option<SharedLease> {
        let mut newest = self.segments.get(self.segments.first())?;
        let mut number = self.segments.first();
        while let Some(segment) = self.segments.get(number) {
            if segment.max_timestamp() > newest.max_timestamp() {
                newest = segment;
            }
            number += 1;
        }
        newest.newest_batch()
    }

    /// Where the batch that holds `offset` stands; `None` at the end of the log.
    fn seek(&mut self, offset: i64) -> Result<Option<Cursor>, OutOfRange> {
        if offset < self.start_offset || offset > self.end_offset {
            return Err(OutOfRange);
        }
        if offset == self.end_offset {
            return Ok(None);
        }
        let near = self.cursor;
        if near.offset == offset
            && let Some(segment) = self.segments.get(near.segment)
        {
            // The last read may have ended at the end of a segment.
            let behind = near.position == segment.len();
            let next = Cursor { segment: near.segment + 1, position: 0, ..near };
            return Ok(Some(if behind { next } else { near }));
        }
        let Some(number) = self.segments.first_not(|s| s.next_offset() <= offset) else {
            return Err(OutOfRange);
        };
        let position = self.segments.get_mut(number).map_or(0, |s| s.position_of(offset));
        Ok(Some(Cursor { offset, segment: number, position }))
    }
}
