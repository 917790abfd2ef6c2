//! CompressedFetch: what was fetched of a partition and is compressed, inflated a block at a time.
//!
//! The answer's batches stay where they were received until all of them were handed over; each event
//! holds a block of its own, in which they stand as they would uncompressed. Batches that are not
//! compressed are copied with the others, so that offsets stay in order within a block.
//!
//! A turn in which [`INFLATE_TURN`] bytes came out begins no further block: so it inflates less than
//! that and one block. The rest waits for the next turn, with the engine's descriptor readable.
//!
//! **Without memory.** When the pool has no block, the partition *starves*: it waits for one to come
//! home. Answers that wait for each other's memory would do so for ever, so only the partitions of one
//! answer wait; all others let go of theirs at once, and nothing is fetched meanwhile. Afterwards fewer
//! answers are asked for at a time (`fetch_window`). Who waited for [`PATIENCE`] in vain, because the
//! host keeps what it has, lets go too and fetches anew later, each time later.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::assigned::{NOW, Pending, STARVED};
use super::scan::lease_of;
use crate::client::client::Client;
use crate::error::Error;
use crate::logging::Level;
use crate::net::pool::SharedLease;
use crate::protocol::records::{
    BatchView, Batches, Compression, InflateError, Inflater, expected_len,
};
use crate::time::Instant;
use core::time::Duration;

/// Bytes that come out in one turn before it ends.
pub(in crate::client) const INFLATE_TURN: usize = 256 << 10;
/// How large a block several batches are put together in.
const BLOCK: usize = 256 << 10;
/// What an attempt in vain counts at least.
const ATTEMPT: usize = 1 << 10;
/// How long to wait for memory before the fetch is let go, the first time; twice as long each time,
/// up to half a minute.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_STARVINGS: u32 = 4;

/// Batches of which some are compressed.
#[derive(Debug)]
pub(super) struct CompressedFetch {
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
    /// There was no memory, and since then none.
    pub(super) starved: bool,
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

impl CompressedFetch {
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

    /// The next batch.
    fn front(&self) -> Option<BatchView<'_>> {
        Batches::new(self.rest()).next()?.ok()
    }

    fn rest(&self) -> &[u8] {
        self.batches.get(self.at..).unwrap_or(&[])
    }

    /// Puts as many batches into `block` as there is room for.
    fn fill(&self, inflater: &mut Inflater, position: i64, block: &mut [u8]) -> Filled {
        let mut filled = Filled { next: position, ..Filled::default() };
        for batch in Batches::new(self.rest()).flatten() {
            // Nothing of it is to be seen: it lies before the position, or has no records left.
            if batch.next_offset() <= filled.next || batch.count() == 0 {
                filled.from += batch.total_len();
                filled.next = filled.next.max(batch.next_offset());
                continue;
            }
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
        // Before any attempt: a block that comes home during one is not overlooked.
        let returns = self.pool.returns();
        if returns != self.assigned.returns_seen {
            while let Some(index) = self.assigned.to_inflate.pop_front(STARVED) {
                self.assigned.to_inflate.push_back(NOW, index);
            }
        }
        while self.inflate_left > 0 {
            let Some(index) = self.assigned.to_inflate.pop_front(NOW) else { break };
            self.inflate_fetch(index, now);
        }
        if !self.assigned.to_inflate.is_empty(STARVED) {
            self.assigned.returns_seen = returns;
            self.pool.await_return();
            self.wants_turn |= self.pool.returns() != returns;
        } else if self.assigned.starving.take().is_some() {
            // What waited for them may be fetched.
            self.wants_turn = true;
        }
    }

    /// Makes the next event of one partition's fetch.
    fn inflate_fetch(&mut self, index: u32, now: Instant) {
        let Some(inflater) = &mut self.inflater else { return };
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let position = assigned.position;
        let Some(fetch) = &mut assigned.compressed else { return };
        let largest = self.pool.largest();
        let size = fetch.wanted().min(largest);
        let Some(mut block) = lease_of(&self.pool, size) else {
            return self.starve(index, now);
        };
        assigned.starvings = 0;
        if core::mem::replace(&mut fetch.starved, false) {
            self.assigned.timers.clear(index as usize);
        }
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let Some(fetch) = &mut assigned.compressed else { return };
        let room = block.len();
        let filled = fetch.fill(inflater, position, &mut block);
        // What was tried counts, also in vain: nobody knows how far that came.
        let tried = if filled.stopped.is_some() { room } else { filled.len.max(ATTEMPT) };
        self.inflate_left = self.inflate_left.saturating_sub(tried);
        fetch.at += filled.from;
        fetch.least = 0;
        match filled.stopped {
            Some(Stopped::Full) if filled.from == 0 && room < largest => {
                fetch.least = room.saturating_mul(4).min(largest);
                return self.relink_assigned(index);
            }
            stopped if filled.from == 0 => {
                let error = match stopped {
                    Some(Stopped::Full) => Error::TooLarge,
                    Some(Stopped::Error(error)) => error,
                    None => Error::Bug("a compressed fetch without a whole batch"),
                };
                let until = fetch.front().map_or(position, |batch| batch.last_offset());
                assigned.compressed = None;
                return self.stop_at_batch(index, error, until);
            }
            _ => {}
        }
        let over = fetch.rest().is_empty();
        let next = if over { fetch.next } else { filled.next };
        let (high_watermark, eof) = (fetch.high_watermark, fetch.eof);
        if over {
            assigned.compressed = None;
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

    /// A batch cannot be inflated: its partition stops, and the log says where the batch ends.
    fn stop_at_batch(&mut self, index: u32, error: Error, until: i64) {
        let Some(assigned) = self.assigned.get(index) else { return };
        let (topic, partition, position) = (assigned.topic, assigned.partition, assigned.position);
        let name = self.metadata.name(topic).unwrap_or("");
        let line = format_args!("{name}-{partition}: the batch up to {until} cannot be read");
        self.log(Level::Warn, line);
        self.park(index, error, position, None);
    }

    /// There is no block for a partition: it waits if it may.
    fn starve(&mut self, index: u32, now: Instant) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let answer = (assigned.consumer, assigned.holds);
        let Some(fetch) = &mut assigned.compressed else { return };
        let first = !core::mem::replace(&mut fetch.starved, true);
        let starvings = assigned.starvings;
        match self.assigned.starving {
            Some(other) if other != answer => return self.give_up_inflating(index, now),
            Some(_) => {}
            None => {
                self.assigned.starving = Some(answer);
                self.narrow_window();
            }
        }
        if first {
            let patience = PATIENCE * (1 << starvings.min(MOST_STARVINGS));
            self.assigned.timers.set(index as usize, now.after(patience));
        }
        self.assigned.to_inflate.push_back(STARVED, index);
    }

    /// A partition lets go of what it has still to inflate, and fetches it anew later.
    pub(super) fn give_up_inflating(&mut self, index: u32, now: Instant) {
        self.assigned.to_inflate.remove(index);
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        assigned.compressed = None;
        let starvings = assigned.starvings;
        assigned.starvings = starvings.saturating_add(1);
        self.let_go(index);
        self.rest_assigned(index, starvings, now);
        // Others may wait no longer.
        self.wants_turn = true;
    }

    /// A partition is paused: what it had still to inflate is dropped, and fetched again later.
    pub(super) fn drop_compressed(&mut self, index: u32) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        if assigned.compressed.take().is_none() {
            return;
        }
        let has_events = assigned.has_events();
        self.assigned.to_inflate.remove(index);
        self.assigned.timers.clear(index as usize);
        if !has_events {
            self.let_go(index);
        }
    }
}
