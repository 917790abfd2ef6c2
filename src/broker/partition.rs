//! Partition: one log behind one short lock.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::core::Core;
use super::log::producer_state::{Sequenced, Verdict};
use super::log::{Cell, Log};
use crate::protocol::ErrorCode;
use crate::protocol::records::BatchView;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};

/// One partition of a topic.
#[derive(Debug)]
pub(crate) struct Partition {
    /// Its number in its topic.
    pub number: i32,
    /// Its place among all partitions of the broker; given out again after its topic is deleted.
    pub index: u32,
    /// Its number among all partitions that ever were: 0 for the first.
    pub serial: u64,
    state: Mutex<State>,
    /// A copy of the log's, to be read without the lock.
    first_segment: AtomicU64,
    /// When it was written to last, counted in appends of the whole broker; 0 if it holds nothing.
    last_append: AtomicU64,
    deleted: AtomicBool,
}

#[derive(Debug)]
struct State {
    log: Log,
    /// Set while the log is changed. Found set, the change before ended in a panic, and nobody
    /// knows what is in the log.
    changing: bool,
}

/// A change before ended in a panic; Kafka's error is 56.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Append {
    /// It is in the log: now, or since it was sent before.
    Done {
        /// Its base offset.
        base_offset: i64,
        /// The broker's time on it, or -1.
        append_time: i64,
        /// The log's start.
        log_start: i64,
        /// Whether it was there before.
        duplicate: bool,
    },
    /// It was refused.
    Refused(ErrorCode),
    /// There is no block for it now.
    NoMemory,
}

impl Partition {
    /// An empty partition whose log may have so many segments.
    pub(crate) fn new(number: i32, index: u32, serial: u64, segments: usize) -> Self {
        Partition {
            number,
            index,
            serial,
            state: Mutex::new(State { log: Log::new(segments), changing: false }),
            first_segment: AtomicU64::new(0),
            last_append: AtomicU64::new(0),
            deleted: AtomicBool::new(false),
        }
    }

    /// Looks at the log, or reads it, which moves its cursor and nothing else.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(crate) fn read<R>(&self, read: impl FnOnce(&mut Log) -> R) -> Result<R, Stopped> {
        let mut state = self.state.lock();
        if state.changing { Err(Stopped) } else { Ok(read(&mut state.log)) }
    }

    /// Changes the log. A panic in `change` stops the partition.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Log) -> R) -> Result<R, Stopped> {
        let mut state = self.state.lock();
        if state.changing {
            return Err(Stopped);
        }
        state.changing = true;
        let out = change(&mut state.log);
        self.first_segment.store(state.log.first_segment(), Ordering::Release);
        state.changing = false;
        Ok(out)
    }

    /// The number of the oldest segment.
    pub(crate) fn first_segment(&self) -> u64 {
        self.first_segment.load(Ordering::Acquire)
    }

    /// When it was written to last; 0 if it holds nothing.
    pub(crate) fn last_append(&self) -> u64 {
        self.last_append.load(Ordering::Relaxed)
    }

    /// Whether its topic was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Drops a segment if it is the oldest.
    pub(crate) fn evict(&self, segment: u64) -> Option<Cell> {
        self.change(|log| log.evict(Some(segment))).ok()?
    }

    /// Appends a batch that was checked, as the next one of its producer, stamped with `stamp` if
    /// the broker's clock counts.
    pub(crate) fn append(
        self: &Arc<Self>,
        core: &Core,
        batch: &BatchView<'_>,
        stamp: Option<i64>,
    ) -> Append {
        loop {
            match self.change(|log| self.try_append(log, core, batch, stamp)) {
                Ok(Some(done)) => return done,
                Ok(None) => {}
                Err(Stopped) => return Append::Refused(ErrorCode::KAFKA_STORAGE_ERROR),
            }
            if !self.open_segment(core, batch.total_len()) {
                return Append::NoMemory;
            }
        }
    }

    /// Makes sure that a batch of `len` bytes can be appended; says whether it can.
    pub(crate) fn make_room(self: &Arc<Self>, core: &Core, len: usize) -> bool {
        match self.read(|log| log.has_room(len)) {
            Ok(true) | Err(Stopped) => true,
            Ok(false) => self.open_segment(core, len),
        }
    }

    fn try_append(
        &self,
        log: &mut Log,
        core: &Core,
        batch: &BatchView<'_>,
        stamp: Option<i64>,
    ) -> Option<Append> {
        if self.is_deleted() {
            return Some(Append::Refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        }
        let sequenced = (batch.producer_id() >= 0).then(|| Sequenced {
            producer_id: batch.producer_id(),
            epoch: batch.producer_epoch(),
            first: batch.base_sequence(),
            last: batch.last_sequence(),
        });
        if let Some(batch) = &sequenced {
            match core.producers.check(self.serial, batch) {
                Verdict::Next => {}
                Verdict::Duplicate { base_offset, append_time } => {
                    let log_start = log.start_offset();
                    let duplicate = true;
                    return Some(Append::Done { base_offset, append_time, log_start, duplicate });
                }
                Verdict::OutOfOrder => {
                    return Some(Append::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
                }
                Verdict::Fenced => return Some(Append::Refused(ErrorCode::INVALID_PRODUCER_EPOCH)),
            }
        }
        let base_offset = log.append(batch, stamp)?;
        let append_time = stamp.unwrap_or(-1);
        if let Some(batch) = &sequenced {
            core.producers.appended(self.serial, batch, base_offset, append_time);
        }
        self.last_append.store(core.next_append(), Ordering::Relaxed);
        let log_start = log.start_offset();
        Some(Append::Done { base_offset, append_time, log_start, duplicate: false })
    }

    /// Opens a segment with room for `len` bytes; says whether there was memory for it.
    fn open_segment(self: &Arc<Self>, core: &Core, len: usize) -> bool {
        let fair = core.memory.fair_block();
        let want = self.read(|log| log.next_block(fair)).unwrap_or(len);
        let Some(fresh) = core.take_block(self, want, len) else { return false };
        let keep = core.settings.retention_bytes;
        let opened = self.change(|log| {
            // What was opened behind the deletion would never go.
            if self.is_deleted() {
                return (None, Some(fresh), None);
            }
            let bare = log.is_bare();
            let (before, fresh) = match log.open(fresh) {
                Ok(before) => (before, None),
                Err(fresh) => (None, Some(fresh)),
            };
            if bare && fresh.is_none() {
                core.memory.count_in_use(true);
            }
            let drop_one = fresh.is_some() || keep.is_some_and(|keep| log.exceeds(keep));
            let dropped = if drop_one { log.evict(None) } else { None };
            (before, fresh, dropped)
        });
        let Ok((before, fresh, dropped)) = opened else { return true };
        if let Some(fresh) = fresh {
            core.memory.give_back(fresh);
        }
        if let Some(cell) = dropped {
            core.memory.recycle(cell);
        }
        if let Some(segment) = before {
            core.memory.filled(self, segment);
        }
        true
    }

    /// Drops everything there is, although the newest segment is not full; says whether there was
    /// anything.
    pub(crate) fn empty(&self, core: &Core) -> bool {
        let mut any = false;
        // The counts change with the log, under its lock: an append may open a segment in between.
        let evict = |log: &mut Log| {
            let cell = log.evict(None)?;
            if log.is_bare() {
                core.memory.count_in_use(false);
                self.last_append.store(0, Ordering::Relaxed);
            }
            Some(cell)
        };
        while let Ok(Some(cell)) = self.change(evict) {
            core.memory.recycle(cell);
            any = true;
        }
        any
    }

    /// Ends the partition: nothing is appended any more, and what there was goes.
    pub(crate) fn delete(&self, core: &Core) {
        self.deleted.store(true, Ordering::Release);
        self.empty(core);
    }
}
