//! CompletedFetch: what was fetched of a partition and is compressed, inflated a block at a time.
//!
//! The answer's batches stay where they were received until all of them were handed over; each event
//! holds a block of its own, in which they stand as they would uncompressed. Batches that are not
//! compressed are copied with the others, so that offsets stay in order within a block.
//!
//! A turn in which [`INFLATE_TURN`] bytes came out begins no further block: so it inflates less than
//! that and one block. The rest waits for the next turn, with the engine's descriptor readable. When the pool has no block, the partition waits a moment
//! and tries again; after [`ATTEMPTS`] it lets go of what it holds, so that partitions which hold
//! answers cannot wait for each other's memory, and fetches it anew.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::Pending;
use crate::client::client::Client;
use crate::error::Error;
use crate::net::pool::{Priority, SharedLease};
use crate::protocol::records::{
    BatchView, Batches, Compression, InflateError, Inflater, expected_len,
};
use crate::time::Instant;
use core::time::Duration;

/// Bytes that come out in one turn before it ends.
pub(in crate::client) const INFLATE_TURN: usize = 256 << 10;
/// How large a block several batches are put together in.
const BLOCK: usize = 256 << 10;
/// A block that every pool has some of.
const LARGE: usize = 1 << 20;
/// How long to wait for memory, and how often.
const AGAIN: Duration = Duration::from_millis(10);
const ATTEMPTS: u32 = 50;

/// Batches of which some are compressed.
#[derive(Debug)]
pub(super) struct CompletedFetch {
    pub(super) batches: SharedLease,
    /// How far they were handed over.
    pub(super) at: usize,
    /// The position behind them.
    pub(super) next: i64,
    pub(super) high_watermark: i64,
    /// The end that they reach, if that is to be told.
    pub(super) eof: Option<i64>,
    /// The least that the next block must hold: the one before was too small.
    pub(super) least: usize,
    /// How often there was no memory.
    pub(super) refused: u32,
}

/// What was put into a block.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filled {
    /// Bytes in the block.
    len: usize,
    /// Bytes of the fetch that went into it.
    from: usize,
    /// Records from the position on.
    count: u32,
    /// The position behind them.
    next: i64,
    /// Why nothing more was put into it.
    stopped: Option<Stopped>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    Full,
    Error(Error),
}

impl CompletedFetch {
    /// How large a block to take: for the next batch at least, for more if they are small.
    fn wanted(&self) -> usize {
        let mut wanted = 0;
        for batch in Batches::new(self.rest()).flatten() {
            let codec = batch.attributes().compression().unwrap_or(Compression::None);
            let header = batch.total_len() - batch.records_bytes().len();
            let len = header + expected_len(codec, batch.records_bytes());
            if wanted > 0 && wanted + len > BLOCK {
                break;
            }
            wanted += len;
        }
        wanted.max(self.least)
    }

    fn rest(&self) -> &[u8] {
        self.batches.get(self.at..).unwrap_or(&[])
    }

    /// Puts as many batches into `block` as there is room for.
    fn fill(&self, inflater: &mut Inflater, position: i64, block: &mut [u8]) -> Filled {
        let mut filled = Filled { next: position, ..Filled::default() };
        for batch in Batches::new(self.rest()).flatten() {
            let room = block.get_mut(filled.len..).unwrap_or_default();
            let (len, count) = match inflated(inflater, &batch, position, room) {
                Ok(inflated) => inflated,
                Err(stopped) => {
                    filled.stopped = Some(stopped);
                    break;
                }
            };
            filled.len += len;
            filled.from += batch.total_len();
            filled.count = filled.count.saturating_add(count);
            filled.next = batch.next_offset();
        }
        filled
    }
}

/// Writes one batch to the front of `room`, uncompressed; how long it is, and how many of its
/// records are at or behind the position.
fn inflated(
    inflater: &mut Inflater,
    batch: &BatchView<'_>,
    position: i64,
    room: &mut [u8],
) -> Result<(usize, u32), Stopped> {
    let len = inflater.inflate_batch(batch, room).map_err(|error| match error {
        InflateError::Full => Stopped::Full,
        InflateError::Malformed(bad) => Stopped::Error(Error::Protocol(bad.0)),
        InflateError::Unsupported => Stopped::Error(lacking(batch)),
    })?;
    if batch.attributes().is_control() {
        return Ok((len, 0));
    }
    let room = room.get(..len).unwrap_or(&[]);
    let plain = BatchView::parse(room).map_err(|bad| Stopped::Error(bad.into()))?;
    let records = plain.records().map_err(|_| {
        Stopped::Error(Error::Protocol("a compressed batch whose record count cannot be"))
    })?;
    if batch.base_offset() >= position {
        return Ok((len, u32::try_from(records.left()).unwrap_or(u32::MAX)));
    }
    let mut behind = 0;
    for record in records {
        let record = record.map_err(|bad| Stopped::Error(Error::Protocol(bad.0)))?;
        behind += u32::from(plain.offset_of(&record) >= position);
    }
    Ok((len, behind))
}

/// The error for a batch whose codec was not built in.
fn lacking(batch: &BatchView<'_>) -> Error {
    Error::Unsupported(match batch.attributes().compression() {
        Some(Compression::Gzip) => "a batch compressed with gzip, which is not in this build",
        Some(Compression::Snappy) => "a batch compressed with snappy, which is not in this build",
        Some(Compression::Lz4) => "a batch compressed with lz4, which is not in this build",
        _ => "a batch compressed with zstd, which is not in this build",
    })
}

impl Client {
    /// Makes events of what was fetched compressed, as far as this turn goes.
    pub(in crate::client) fn inflate_fetches(&mut self, now: Instant) {
        while self.inflate_left > 0 {
            let Some(index) = self.assigned.to_inflate.pop_front(0) else { return };
            self.inflate_fetch(index, now);
        }
        self.wants_turn |= !self.assigned.to_inflate.is_empty(0);
    }

    /// Makes the next event of one partition's fetch.
    fn inflate_fetch(&mut self, index: u32, now: Instant) {
        let Some(inflater) = &mut self.inflater else { return };
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let position = assigned.position;
        let Some(fetch) = &mut assigned.completed else { return };
        let largest = self.pool.largest();
        let size = fetch.wanted().min(largest);
        // A guaranteed block, if there is none of the size: those of sizes between are shared only.
        let sizes = [size, size.max(LARGE).min(largest), largest];
        let lease = |size: &usize| self.pool.lease(*size, Priority::Data);
        let Some(mut block) = sizes.iter().find_map(lease) else {
            fetch.refused += 1;
            if fetch.refused > ATTEMPTS {
                assigned.completed = None;
                self.let_go(index);
                self.back_off_assigned(index, now);
            } else {
                assigned.backing_off = true;
                self.assigned.timers.set(index as usize, now.after(AGAIN));
            }
            return;
        };
        fetch.refused = 0;
        let room = block.len();
        let filled = fetch.fill(inflater, position, &mut block);
        // What was tried counts, also in vain.
        self.inflate_left = self.inflate_left.saturating_sub(filled.len.max(1 << 10));
        fetch.at += filled.from;
        fetch.least = 0;
        match filled.stopped {
            Some(Stopped::Full) if filled.from == 0 && room < largest => {
                self.inflate_left = self.inflate_left.saturating_sub(room);
                fetch.least = room.saturating_mul(4).min(largest);
                return self.relink_assigned(index);
            }
            stopped if filled.from == 0 => {
                let error = match stopped {
                    Some(Stopped::Full) => Error::TooLarge,
                    Some(Stopped::Error(error)) => error,
                    None => Error::Bug("a completed fetch without a whole batch"),
                };
                assigned.completed = None;
                return self.park(index, error, position, None);
            }
            _ => {}
        }
        let over = fetch.rest().is_empty();
        let next = if over { fetch.next } else { filled.next };
        let (high_watermark, eof) = (fetch.high_watermark, fetch.eof);
        if over {
            assigned.completed = None;
            assigned.eof = eof;
        }
        if filled.count > 0 {
            let batches = block.share(filled.len);
            let count = filled.count;
            assigned.records = Some(Pending { batches, count, next, high_watermark });
        } else {
            assigned.position = next;
        }
        if assigned.records.is_some() || assigned.eof.is_some() {
            self.tell(index, None);
        } else if over {
            self.let_go(index);
        }
        self.relink_assigned(index);
    }

    /// A partition is paused: what it had still to inflate is dropped, and fetched again later.
    pub(super) fn drop_completed(&mut self, index: u32) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        if assigned.completed.take().is_none() {
            return;
        }
        // It waited for memory, if for anything.
        assigned.backing_off = false;
        let has_events = assigned.has_events();
        self.assigned.to_inflate.remove(index);
        self.assigned.timers.clear(index as usize);
        if !has_events {
            self.let_go(index);
        }
    }
}
