//! Accumulator: records into batches, batches into the queues of their partitions, and which
//! partitions have something to send.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::partitioner::partition_of_key;
use super::producer_batch::{Appended, BatchPlace, BatchState, NO_BATCH, ProducerBatch};
use super::sequence::{Identity, ProducerId};
use super::{Batches, PartQueue, Producer, Refusing};
use crate::client::OutRecord;
use crate::client::client::Client;
use crate::client::events::Source;
use crate::client::metadata::TopicState;
use crate::error::Error;
use crate::net::pool::block_for;
use crate::net::slots::SlotId;
use crate::protocol::ErrorCode;
use crate::protocol::records::BatchBuilder;
use crate::time::Moment;
use core::time::Duration;

/// Whether a batch could be made.
enum Made {
    Batch(u32),
    /// `buffer.memory` or the table of batches is used up.
    NoRoom,
    /// The pool is.
    NoMemory,
}

/// How often a producer that waits for memory looks whether somebody else gave some back.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Client {
    /// Takes one record. `Ok(false)`: there is no room now, or the topic is not known yet; one
    /// [`Writable`](crate::client::ClientEvent::Writable) event follows.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the record is larger than `max.request.size` or the pool's largest
    /// block, or its partition does not exist; [`Error::Kafka`] if the topic cannot be written to
    /// (or does not exist, after `max.block.ms`); [`Error::Stale`]; [`Error::Closed`]; what
    /// [`Failed`](crate::client::ClientEvent::Failed) said, if the producer failed.
    pub fn produce<'h, H>(
        &mut self,
        producer: SlotId,
        record: &OutRecord<'_>,
        headers: H,
        now: Moment,
    ) -> Result<bool, Error>
    where
        H: Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
    {
        let Some((partition, part)) = self.target(producer, record, now)? else {
            self.stats.records_refused += 1;
            return Ok(false);
        };
        let p = self.producers.get_mut(producer).ok_or(Error::Stale)?;
        let timestamp = record.timestamp_ms.unwrap_or(now.wall_ms);
        let limit = p.config.batch_size;
        let tail = p.queues.get(part as usize).map_or(NO_BATCH, |queue| queue.tail);
        let mut appended = Appended::Full;
        if let Some(batch) = self.batches.get_mut(tail).filter(|batch| !batch.full) {
            appended = batch.append(record, headers.clone(), timestamp, limit, &self.pool);
            if appended == Appended::Full {
                self.relink(producer, part);
            }
        }
        if appended == Appended::Full {
            let size = BatchBuilder::new()
                .record_len(timestamp, record.key, record.value, headers.clone())
                .map_or(usize::MAX, |len| len.saturating_add(BatchBuilder::new().len()));
            let place = (partition, part, size);
            let batch = match self.new_batch(producer, record, place, now)? {
                Made::Batch(batch) => batch,
                Made::NoRoom => return Ok(self.refuse(producer, false)),
                Made::NoMemory => return Ok(self.refuse(producer, true)),
            };
            if let Some(batch) = self.batches.get_mut(batch) {
                appended = batch.append(record, headers, timestamp, limit, &self.pool);
            }
            self.relink(producer, part);
        }
        let Appended::Grown(bytes) = appended else {
            return Ok(self.refuse(producer, true));
        };
        if record.partition.is_none()
            && let Some(p) = self.producers.get_mut(producer)
            && let Some(sticky) = p.sticky.get_mut(record.topic.0 as usize)
            && (record.key.is_none() || p.config.ignore_keys)
        {
            sticky.count(bytes);
        }
        self.stats.records_accepted += 1;
        Ok(true)
    }

    /// Where a record goes: the partition and its dense number. `None` while the topic is unknown.
    fn target(
        &mut self,
        producer: SlotId,
        record: &OutRecord<'_>,
        now: Moment,
    ) -> Result<Option<(i32, u32)>, Error> {
        let p = self.producers.get_mut(producer).ok_or(Error::Stale)?;
        if let Some(error) = p.failed {
            return Err(error);
        }
        if p.closing.is_some() {
            return Err(Error::Closed);
        }
        match self.metadata.state(record.topic) {
            Some(TopicState::Known) => {}
            Some(TopicState::Refused(code)) => return Err(code.into()),
            Some(TopicState::Unknown) => {
                if self.metadata.is_missing(record.topic, p.config.max_block, now.at) {
                    return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into());
                }
                if p.refusing == Refusing::No {
                    p.refusing = Refusing::Topic;
                }
                return Ok(None);
            }
            None => return Err(Error::Invalid("a topic id of another client")),
        }
        let count = self.metadata.count(record.topic);
        let partition = match (record.partition, record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) if !p.config.ignore_keys => partition_of_key(key, count),
            (None, _) => self.sticky_partition(producer, record, count),
        };
        match self.metadata.part(record.topic, partition) {
            Some(part) => Ok(Some((partition, part))),
            None => {
                self.refresh.need();
                self.wants_turn = true;
                Err(Error::Invalid("the topic does not have this partition"))
            }
        }
    }

    fn sticky_partition(&mut self, producer: SlotId, record: &OutRecord<'_>, count: u32) -> i32 {
        let topic = record.topic;
        let Some(p) = self.producers.get_mut(producer) else { return -1 };
        let Some(sticky) = p.sticky.get_mut(topic.0 as usize) else { return -1 };
        let current = sticky.current(count).and_then(|c| Some((c, self.metadata.part(topic, c)?)));
        if let Some((partition, part)) = current {
            let tail = p.queues.get(part as usize).map_or(NO_BATCH, |queue| queue.tail);
            let full = self.batches.get(tail).is_none_or(|batch| batch.full);
            if !sticky.is_over(p.config.batch_size, full) {
                return partition;
            }
        }
        let next = self.metadata.any_partition(topic, &mut p.random).unwrap_or(-1);
        sticky.choose(next);
        next
    }

    /// Puts an empty batch at the end of a partition's queue.
    fn new_batch(
        &mut self,
        producer: SlotId,
        record: &OutRecord<'_>,
        (partition, part, size): (i32, u32, usize),
        now: Moment,
    ) -> Result<Made, Error> {
        let p = self.producers.get_mut(producer).ok_or(Error::Stale)?;
        if size > p.config.max_request_size {
            return Err(Error::Invalid("the record is larger than max.request.size"));
        }
        let size = size.max(p.config.batch_size);
        let block = block_for(size).filter(|&block| block <= self.pool.largest());
        let Some(block) = block else {
            return Err(Error::Invalid("the record is larger than the pool's largest block"));
        };
        if block > p.config.buffer_memory {
            return Err(Error::Invalid("the record is larger than buffer.memory"));
        }
        if p.memory + block > p.config.buffer_memory || self.batches.slots.is_full() {
            return Ok(Made::NoRoom);
        }
        let place = BatchPlace {
            producer,
            topic: record.topic,
            partition,
            part,
            order: p.next_order,
            expires: now.at.after(p.delivery_timeout),
        };
        let Some(mut batch) = ProducerBatch::new(place, size, &self.pool) else {
            return Ok(Made::NoMemory);
        };
        batch.due = p.config.linger.is_zero() || p.all_due();
        let timer = if batch.due { batch.expires } else { now.at.after(p.config.linger) };
        let (held, expires) = (batch.held(), batch.expires);
        let Ok(id) = self.batches.slots.insert(batch) else { return Ok(Made::NoRoom) };
        let index = id.index() as u32;
        self.batches.timers.set(id.index(), timer.min(expires));
        p.next_order += 1;
        p.unfinished += 1;
        p.memory += held;
        if let Some(queue) = p.queues.get_mut(part as usize) {
            queue.push_back(index, &mut self.batches);
        }
        Ok(Made::Batch(index))
    }

    /// A record finds no room: what is batched goes out at once, and the host will be told.
    fn refuse(&mut self, producer: SlotId, pool_is_empty: bool) -> bool {
        self.stats.records_refused += 1;
        let returns = pool_is_empty.then(|| self.pool.returns());
        let Some(p) = self.producers.get_mut(producer) else { return false };
        let was = core::mem::replace(&mut p.refusing, Refusing::Room(returns));
        if !matches!(was, Refusing::Room(_)) {
            self.make_all_due(producer);
        }
        false
    }

    /// Tells producers that refused records when there is room again. To be called in every turn.
    pub(in crate::client) fn tell_writable(&mut self, now: Moment) {
        for index in 0..self.producers.capacity() {
            let Some((_, p)) = self.producers.at_mut(index) else { continue };
            let Refusing::Room(returns) = p.refusing else { continue };
            let block = block_for(p.config.batch_size).unwrap_or(usize::MAX);
            let room = p.memory + block <= p.config.buffer_memory;
            let memory = returns.is_none_or(|returns| self.pool.returns() != returns);
            if room && memory && !self.batches.slots.is_full() {
                p.refusing = Refusing::No;
                if p.closing.is_none() {
                    self.events.push(Source::Writable(index as u32));
                }
            } else if !memory {
                // Whoever has the pool's blocks may give them back without a word to the client.
                self.cluster.wake_at(now.at.after(LOOK_AGAIN));
            }
        }
    }

    /// There is news about topics: producers that waited for it are told.
    pub(in crate::client) fn tell_topics_known(&mut self) {
        for index in 0..self.producers.capacity() {
            let Some((_, p)) = self.producers.at_mut(index) else { continue };
            if p.refusing == Refusing::Topic {
                p.refusing = Refusing::No;
                if p.closing.is_none() {
                    self.events.push(Source::Writable(index as u32));
                }
            }
        }
    }

    /// Puts a partition into the list of those with something to send, or takes it out.
    pub(in crate::client) fn relink(&mut self, producer: SlotId, part: u32) {
        self.resolve_sequences(producer, part);
        let Some(p) = self.producers.get_mut(producer) else { return };
        if !p.can_send(part, &self.batches) {
            p.ready.remove(part);
            return;
        }
        let list = self.metadata.leader(part).map_or(p.leaderless(), |node| node as usize);
        p.ready.push_back(list, part);
        self.wants_turn = true;
    }

    /// A partition has another leader, or the leader another epoch.
    pub(in crate::client) fn leader_changed_for_producers(&mut self, part: u32) {
        let epoch = self.metadata.epoch(part);
        for index in 0..self.producers.capacity() {
            let Some((id, p)) = self.producers.at_mut(index) else { continue };
            let head = p.queues.get(part as usize).map_or(NO_BATCH, |queue| queue.head);
            let Some(batch) = self.batches.get_mut(head) else { continue };
            // The backoff was for the old leader (KIP-951); once per new one.
            if batch.backing_off && epoch > batch.epoch {
                batch.backing_off = false;
                self.batches.timers.set(head as usize, batch_expiry(&self.batches, head));
            }
            self.relink(id, part);
        }
    }

    /// A batch's time has come: to be sent, to be sent again, or to fail.
    pub(in crate::client) fn batch_due(&mut self, index: u32, now: Moment) {
        let Some(batch) = self.batches.get_mut(index) else { return };
        if batch.end.is_some() {
            return;
        }
        if batch.expires <= now.at {
            self.give_up(index, Error::Timeout);
            return;
        }
        if batch.backing_off {
            batch.backing_off = false;
        } else {
            batch.due = true;
        }
        let (producer, part, expires) = (batch.producer, batch.part, batch.expires);
        self.batches.timers.set(index as usize, expires);
        self.relink(producer, part);
    }
}

fn batch_expiry(batches: &Batches, index: u32) -> crate::time::Instant {
    batches.get(index).map_or(crate::time::Instant::FAR, |batch| batch.expires)
}

impl Producer {
    /// Whether the oldest batch of a partition may go out.
    fn can_send(&self, part: u32, batches: &Batches) -> bool {
        let Some(queue) = self.queues.get(part as usize) else { return false };
        let Some(head) = batches.get(queue.head) else { return false };
        if head.backing_off || !(head.due || queue.head != queue.tail) {
            return false;
        }
        // One after the other, if the host wants it, and while one of them is being repeated.
        if queue.retried > 0 || (self.config.max_in_flight == 1 && queue.in_flight > 0) {
            return false;
        }
        match (self.identity, head.sequence) {
            (Identity::NotWanted, _) => true,
            (_, Some(_)) => queue.sequences.unacked().first() == Some(&queue.head),
            (Identity::Has(id), None) => queue.takes_new(id),
            // It waits in the list until there is an id.
            (_, None) => true,
        }
    }
}

impl PartQueue {
    /// Whether the next batch may get its first numbers. When the last epoch was used up, those that
    /// were out lost theirs: they come back, or are over, before the new id's begin.
    pub(super) fn takes_new(&self, id: ProducerId) -> bool {
        let begins = self.sequences.producer != id;
        self.sequences.takes_new(id) && !(begins && self.in_flight > 0)
    }

    fn push_back(&mut self, index: u32, batches: &mut Batches) {
        match batches.get_mut(self.tail) {
            Some(tail) => {
                // Only the last one takes records.
                tail.next = index;
                tail.full = true;
            }
            None => self.head = index,
        }
        self.tail = index;
    }

    /// Takes the oldest batch.
    pub(super) fn pop_front(&mut self, batches: &mut Batches) -> Option<u32> {
        let head = self.head;
        let batch = batches.get_mut(head)?;
        self.head = core::mem::replace(&mut batch.next, NO_BATCH);
        if self.head == NO_BATCH {
            self.tail = NO_BATCH;
        }
        Some(head)
    }

    /// Takes a batch out, wherever it stands.
    pub(super) fn remove(&mut self, index: u32, batches: &mut Batches) {
        if self.head == index {
            self.pop_front(batches);
            return;
        }
        let mut at = self.head;
        while let Some(batch) = batches.get(at) {
            let next = batch.next;
            if next == index {
                let after = batches
                    .get_mut(index)
                    .map_or(NO_BATCH, |batch| core::mem::replace(&mut batch.next, NO_BATCH));
                if let Some(batch) = batches.get_mut(at) {
                    batch.next = after;
                }
                if self.tail == index {
                    self.tail = at;
                }
                return;
            }
            at = next;
        }
    }

    /// Puts a batch that was sent back among those that wait, in the order of creation.
    pub(super) fn put_back(&mut self, index: u32, batches: &mut Batches) {
        let Some(order) = batches.get(index).map(|batch| batch.order) else { return };
        let mut before = NO_BATCH;
        let mut at = self.head;
        while let Some(batch) = batches.get(at).filter(|batch| batch.order < order) {
            before = at;
            at = batch.next;
        }
        if let Some(batch) = batches.get_mut(index) {
            batch.state = BatchState::Waiting;
            batch.next = at;
        }
        match batches.get_mut(before) {
            Some(batch) => batch.next = index,
            None => self.head = index,
        }
        if at == NO_BATCH {
            self.tail = index;
        }
    }
}
