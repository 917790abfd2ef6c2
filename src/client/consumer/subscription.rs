//! Subscription: which partitions a consumer holds, and the position in each.

use super::{Assigned, ReadState, Seek};
use crate::client::TopicId;
use crate::client::client::Client;
use crate::client::metadata::{NOBODY, TopicState};
use crate::error::Error;
use crate::logging::Level;
use crate::net::slots::SlotId;
use crate::protocol::ErrorCode;
use crate::time::Instant;
use core::time::Duration;

/// How long a partition may be missing before the host is told. A topic that is being created is
/// there sooner.
const MISSING_AFTER: Duration = Duration::from_secs(5);

const NOT_ASSIGNED: Error = Error::Invalid("a partition that is not assigned");

/// Where a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    At(i64),
    Seek(Seek),
}

impl Start {
    fn from_offset(offset: i64) -> Result<Self, Error> {
        match offset {
            0.. => Ok(Start::At(offset)),
            -1 => Ok(Start::Seek(Seek::End)),
            -2 => Ok(Start::Seek(Seek::Beginning)),
            _ => Err(Error::Invalid("an offset is 0 or more, -1 (end) or -2 (beginning)")),
        }
    }

    fn state(self) -> (ReadState, i64) {
        match self {
            Start::At(offset) => (ReadState::Reading, offset),
            Start::Seek(seek) => (ReadState::Seeking(seek), -1),
        }
    }
}

impl Client {
    /// Replaces what a consumer reads. The offset is one to start at, -1 for the end, -2 for the
    /// beginning. A partition that is assigned already with its present position goes on
    /// undisturbed; one with another offset starts there. Answers and events for partitions that
    /// are not in the list any more are dropped. A partition named twice starts at its last offset.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another offset, a negative partition or a topic that is not known
    /// here, [`Error::Exhausted`] for too many partitions; the assignment stays as it was then.
    pub fn assign(&mut self, consumer: SlotId, parts: &[(TopicId, i32, i64)]) -> Result<(), Error> {
        self.open_consumer(consumer)?;
        for &(topic, partition, offset) in parts {
            self.check_partition(topic, partition)?;
            Start::from_offset(offset)?;
        }
        // Looking for those named twice takes a while, and is seldom needed.
        if !self.fits(consumer, parts, false) && !self.fits(consumer, parts, true) {
            return Err(Error::Exhausted("assigned partitions (max_assigned)"));
        }
        let entry = self.consumers.get_mut(consumer).ok_or(Error::Stale)?;
        entry.round = entry.round.wrapping_add(1);
        let round = entry.round;
        for &(topic, partition, _) in parts {
            if let Some(index) = self.find_assigned(consumer, topic, partition)
                && let Some(assigned) = self.assigned.get_mut(index)
            {
                assigned.round = round;
            }
        }
        let mut at = self.assigned.owned.front(consumer.index());
        while let Some(index) = at {
            at = self.assigned.owned.after(index);
            if self.assigned.get(index).is_some_and(|assigned| assigned.round != round) {
                self.unassign(index);
            }
        }
        for &(topic, partition, offset) in parts {
            self.put(consumer, topic, partition, Start::from_offset(offset)?)?;
        }
        self.wants_turn = true;
        Ok(())
    }

    /// Whether there are places for `parts` when the consumer's others have left; with `once`, those
    /// that are named twice count once.
    fn fits(&self, consumer: SlotId, parts: &[(TopicId, i32, i64)], once: bool) -> bool {
        let (mut new, mut kept) = (0, 0);
        for (i, &(topic, partition, _)) in parts.iter().enumerate() {
            let before = if once { parts.get(..i).unwrap_or(&[]) } else { &[] };
            if before.iter().any(|part| (part.0, part.1) == (topic, partition)) {
                continue;
            }
            match self.find_assigned(consumer, topic, partition) {
                Some(_) => kept += 1,
                None => new += 1,
            }
        }
        let leaving = self.owned(consumer).saturating_sub(kept);
        let free = self.assigned.slots.capacity() - self.assigned.slots.len();
        new <= free + leaving
    }

    /// Adds one partition, or moves it, to the first record at or after a time in milliseconds
    /// since 1970; to the end if there is none. The rest of the assignment stays.
    ///
    /// # Errors
    /// As [`Client::assign`].
    pub fn assign_at(
        &mut self,
        consumer: SlotId,
        topic: TopicId,
        partition: i32,
        timestamp_ms: i64,
    ) -> Result<(), Error> {
        self.open_consumer(consumer)?;
        self.check_partition(topic, partition)?;
        if timestamp_ms < 0 {
            return Err(Error::Invalid("a time before 1970"));
        }
        self.put(consumer, topic, partition, Start::Seek(Seek::Time(timestamp_ms)))?;
        self.wants_turn = true;
        Ok(())
    }

    /// Stops fetching from partitions, or goes on. An event that is pending is not held back; an
    /// answer that is on its way when a partition is paused, and what was not inflated yet, is
    /// dropped and fetched again later.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Closed`]; [`Error::Invalid`] for a partition that is not assigned.
    /// Then nothing has changed.
    pub fn pause(
        &mut self,
        consumer: SlotId,
        parts: &[(TopicId, i32)],
        paused: bool,
    ) -> Result<(), Error> {
        self.open_consumer(consumer)?;
        for &(topic, partition) in parts {
            if self.find_assigned(consumer, topic, partition).is_none() {
                return Err(NOT_ASSIGNED);
            }
        }
        for &(topic, partition) in parts {
            let Some(index) = self.find_assigned(consumer, topic, partition) else { continue };
            let Some(assigned) = self.assigned.get_mut(index) else { continue };
            assigned.paused = paused;
            if paused {
                self.drop_compressed(index);
            }
            self.relink_assigned(index);
        }
        Ok(())
    }

    /// The offset after the last record handed over; `None` while it is being looked up.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Closed`]; [`Error::Invalid`] for a partition that is not assigned.
    pub fn position(
        &self,
        consumer: SlotId,
        topic: TopicId,
        partition: i32,
    ) -> Result<Option<i64>, Error> {
        self.open_consumer(consumer)?;
        let index = self.find_assigned(consumer, topic, partition).ok_or(NOT_ASSIGNED)?;
        let assigned = self.assigned.get(index).ok_or(NOT_ASSIGNED)?;
        Ok(Some(assigned.position).filter(|&position| position >= 0))
    }

    fn open_consumer(&self, consumer: SlotId) -> Result<(), Error> {
        let entry = self.consumers.get(consumer).ok_or(Error::Stale)?;
        if entry.closing { Err(Error::Closed) } else { Ok(()) }
    }

    fn check_partition(&self, topic: TopicId, partition: i32) -> Result<(), Error> {
        if self.metadata.name(topic).is_none() {
            return Err(Error::Invalid("a topic id of another client"));
        }
        if partition < 0 {
            return Err(Error::Invalid("a negative partition"));
        }
        Ok(())
    }

    /// How many partitions a consumer has.
    fn owned(&self, consumer: SlotId) -> usize {
        let first = self.assigned.owned.front(consumer.index());
        core::iter::successors(first, |&index| self.assigned.owned.after(index)).count()
    }

    fn find_assigned(&self, consumer: SlotId, topic: TopicId, partition: i32) -> Option<u32> {
        let entry = self.consumers.get(consumer)?;
        if let Some(part) = self.metadata.part(topic, partition) {
            let index = entry.by_part.get(part as usize).copied().unwrap_or(NOBODY);
            if index != NOBODY {
                return Some(index);
            }
        }
        // Those whose topic was not known when they were assigned.
        let first = self.assigned.owned.front(consumer.index());
        core::iter::successors(first, |&index| self.assigned.owned.after(index)).find(|&index| {
            self.assigned
                .get(index)
                .is_some_and(|assigned| assigned.topic == topic && assigned.partition == partition)
        })
    }

    /// There is metadata: partitions of topics that were not known get their numbers.
    pub(in crate::client) fn bind_assigned(&mut self, now: Instant) {
        for i in 0..self.assigned.slots.capacity() as u32 {
            if self.assigned.get(i).is_some_and(|assigned| assigned.part == NOBODY) {
                self.bind(i);
                self.tell_missing(i, now);
            }
        }
    }

    /// A partition that the cluster does not have is looked for as long as it is assigned; after a
    /// while the host is told.
    fn tell_missing(&mut self, index: u32, now: Instant) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        if assigned.part != NOBODY || assigned.state == ReadState::Parked {
            assigned.missing = None;
            return;
        }
        let (since, told) = *assigned.missing.get_or_insert((now, false));
        if told || now.since(since) < MISSING_AFTER {
            return;
        }
        assigned.missing = Some((since, true));
        let error = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into();
        assigned.failure = Some((error, assigned.position));
        let (topic, partition) = (assigned.topic, assigned.partition);
        let name = self.metadata.name(topic).unwrap_or("");
        self.log(
            Level::Warn,
            format_args!("{name}-{partition} is not there yet; it is still looked for"),
        );
        self.tell(index, None);
    }

    fn bind(&mut self, index: u32) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let (topic, partition) = (assigned.topic, assigned.partition);
        match self.metadata.state(topic) {
            Some(TopicState::Refused(code)) if assigned.state != ReadState::Parked => {
                let offset = assigned.position;
                self.park(index, code.into(), offset, None);
            }
            Some(TopicState::Known) => match self.metadata.part(topic, partition) {
                Some(part) => {
                    assigned.part = part;
                    if let Some(consumer) = self.consumers.get_mut(assigned.consumer)
                        && let Some(place) = consumer.by_part.get_mut(part as usize)
                    {
                        *place = index;
                    }
                    self.relink_assigned(index);
                }
                // It may be created yet.
                None => self.refresh.need(),
            },
            _ => {}
        }
    }

    /// Enters one partition, or moves it.
    fn put(
        &mut self,
        consumer: SlotId,
        topic: TopicId,
        partition: i32,
        start: Start,
    ) -> Result<(), Error> {
        let round = self.consumers.get(consumer).ok_or(Error::Stale)?.round;
        let (state, position) = start.state();
        if let Some(index) = self.find_assigned(consumer, topic, partition) {
            let Some(assigned) = self.assigned.get_mut(index) else { return Ok(()) };
            let same = (assigned.state, assigned.position) == (state, position);
            if !same {
                assigned.state = state;
                assigned.position = position;
                self.restart(index);
            }
            return Ok(());
        }
        let assigned = Assigned {
            consumer,
            topic,
            partition,
            part: NOBODY,
            state,
            position,
            paused: false,
            backing_off: false,
            failures: 0,
            resets: 0,
            starvings: 0,
            missing: None,
            alone: false,
            records: None,
            compressed: None,
            eof: None,
            eof_told: -1,
            failure: None,
            holds: NOBODY,
            round,
        };
        let inserted = self.assigned.slots.insert(assigned);
        let id = inserted.map_err(|_| Error::Exhausted("assigned partitions (max_assigned)"))?;
        let index = id.index() as u32;
        self.assigned.owned.push_back(consumer.index(), index);
        self.bind(index);
        Ok(())
    }
}
