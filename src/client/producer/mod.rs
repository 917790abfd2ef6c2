//! Producer: records in, outcomes out.
//!
//! **The road of a record.** [`Client::produce`] encodes it into the last batch of its partition →
//! the batch becomes *due*: full, `linger.ms` old, flushed, or memory is short → its partition
//! enters the ready list of the node that leads it → a turn seals it, numbers it and sends it, with
//! up to 31 batches of other partitions → the answer settles it, or it waits and goes again → one
//! [`Delivered`](super::ClientEvent::Delivered) event.
//!
//! **Outcomes.** *Persisted*: acknowledged, or known to be there already (code 46); with `acks=0`,
//! wholly written to the socket. *NotPersisted*: never sent, or refused with a code that says so,
//! each time it was sent. *MaybePersisted*: sent at least once without an answer that tells:
//! the connection or the time ended, or the broker said -1, 7 or 20.
//!
//! **Order.** Batches of a partition are sent in the order of their creation, repeated ones first.
//! With idempotence, or one request in flight, they are also written in that order; with more in
//! flight and no idempotence a retry can overtake, as in Kafka.
//!
//! **Waiting.** While nothing is known of the topic, and while there is no memory, records are
//! refused (`Ok(false)`) and one [`Writable`](super::ClientEvent::Writable) event follows: when
//! there is an answer about the topic, good or bad, or a batch's worth of room.
//!
//! Absent: transactions, compression, splitting a batch that a broker finds too large (code 10: it
//! fails), and partitioning by load.

mod accumulator;
mod id_request;
mod outcome;
pub(super) mod partitioner;
pub(super) mod producer_batch;
mod sender;
pub(super) mod sequence;

pub(super) use outcome::is_about_metadata;

use super::client::Client;
use super::config::{ClientLimits, ProducerConfig};
use super::events::Source;
use super::lists::Lists;
use super::random::Random;
use crate::error::Error;
use crate::net::pool::block_for;
use crate::net::ring::Ring;
use crate::net::slots::{SlotId, Slots};
use crate::net::timers::Timers;
use crate::time::{Instant, Moment};
use core::time::Duration;
use partitioner::Sticky;
use producer_batch::{NO_BATCH, ProducerBatch};
use sequence::{Identity, PartSequences};

/// `delivery.timeout.ms`, if it is not given.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);

/// Flushes of one producer that can be open at once.
const MAX_FLUSHES: usize = 16;

/// The batches of all producers.
#[derive(Debug)]
pub(super) struct Batches {
    pub(super) slots: Slots<ProducerBatch>,
    /// Per batch: when it is due, may be sent again, or expires.
    pub(super) timers: Timers,
}

impl Batches {
    pub(super) fn new(capacity: usize) -> Self {
        Batches { slots: Slots::new(capacity), timers: Timers::new(capacity) }
    }

    pub(super) fn get(&self, index: u32) -> Option<&ProducerBatch> {
        self.slots.at(index as usize).map(|(_, batch)| batch)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut ProducerBatch> {
        self.slots.at_mut(index as usize).map(|(_, batch)| batch)
    }

    /// Frees the place of a batch that is over.
    pub(super) fn free_if_over(&mut self, index: u32) -> bool {
        match self.slots.at(index as usize) {
            Some((id, batch)) if batch.is_over() => self.slots.remove(id).is_some(),
            _ => false,
        }
    }
}

/// What a producer keeps of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartQueue {
    /// The oldest batch that waits.
    head: u32,
    /// The newest; records go there.
    tail: u32,
    /// Batches in requests.
    in_flight: u32,
    /// Those of them that were sent before.
    retried: u32,
    sequences: PartSequences,
}

/// Why records are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusing {
    No,
    /// Nothing is known of a topic.
    Topic,
    /// There is no room. If it was the pool that had none: its returns at that time.
    Room(Option<u64>),
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    user: u64,
    /// Batches up to this one belong to it.
    upto: u64,
    /// So many of them are not over.
    left: u32,
}

#[derive(Debug)]
pub(super) struct Producer {
    pub(super) owner: u64,
    config: ProducerConfig,
    /// From the first record of a batch to its outcome.
    delivery_timeout: Duration,
    queues: Box<[PartQueue]>,
    sticky: Box<[Sticky]>,
    /// Per node the partitions that have something to send; the last list is of those without a
    /// leader.
    ready: Lists,
    /// Per node the requests in flight.
    in_flight: Box<[u32]>,
    identity: Identity,
    /// Failures in a row to get an id.
    id_failures: u32,
    random: Random,
    next_order: u64,
    /// Batches that are not over.
    unfinished: u32,
    /// Bytes of blocks that those hold.
    memory: usize,
    refusing: Refusing,
    flushes: Ring<Flush>,
    /// It cannot go on.
    failed: Option<Error>,
    /// The event of that was not taken.
    failure_pending: bool,
    /// It takes no more records; what is left at that time fails.
    closing: Option<Instant>,
}

impl Producer {
    fn new(
        config: ProducerConfig,
        delivery_timeout: Duration,
        owner: u64,
        limits: &ClientLimits,
        seed: u64,
    ) -> Self {
        let queue = PartQueue {
            head: NO_BATCH,
            tail: NO_BATCH,
            in_flight: 0,
            retried: 0,
            sequences: PartSequences::new(),
        };
        let identity = if config.idempotence {
            Identity::Missing(Instant::from_nanos(0))
        } else {
            Identity::NotWanted
        };
        Producer {
            owner,
            config,
            delivery_timeout,
            queues: core::iter::repeat_n(queue, limits.max_partitions).collect(),
            sticky: core::iter::repeat_n(Sticky::new(), limits.max_topics).collect(),
            ready: Lists::new(limits.max_nodes + 1, limits.max_partitions),
            in_flight: core::iter::repeat_n(0, limits.max_nodes).collect(),
            identity,
            id_failures: 0,
            random: Random::new(seed),
            next_order: 0,
            unfinished: 0,
            memory: 0,
            refusing: Refusing::No,
            flushes: Ring::new(MAX_FLUSHES),
            failed: None,
            failure_pending: false,
            closing: None,
        }
    }

    /// The list of partitions without a leader.
    fn leaderless(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether batches go out without waiting for more records.
    fn all_due(&self) -> bool {
        !self.flushes.is_empty()
            || self.closing.is_some()
            || matches!(self.refusing, Refusing::Room(_))
    }

    /// Whether it is closed and nothing of it is left.
    pub(super) fn is_done(&self) -> bool {
        self.closing.is_some() && self.unfinished == 0
    }

    /// Bytes of blocks that its batches hold.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// The event of its failure.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        core::mem::take(&mut self.failure_pending).then_some(self.failed).flatten()
    }

    /// The next flush that is over.
    pub(super) fn take_flushed(&mut self) -> Option<u64> {
        if self.flushes.front()?.left > 0 {
            return None;
        }
        self.flushes.pop_front().map(|flush| flush.user)
    }

    pub(super) fn has_flushed(&self) -> bool {
        self.flushes.front().is_some_and(|flush| flush.left == 0)
    }
}

impl Client {
    /// Adds a producer. Its tables are taken here; nothing is taken later.
    ///
    /// # Errors
    /// [`Error::Exhausted`] for one too many; [`Error::Invalid`] if the pool cannot hold its
    /// batches, or `delivery.timeout.ms` was given and is below linger plus request timeout.
    pub fn add_producer(
        &mut self,
        mut config: ProducerConfig,
        owner_value: u64,
    ) -> Result<SlotId, Error> {
        self.open()?;
        config.batch_size = config.batch_size.max(1);
        if block_for(config.batch_size).is_none_or(|block| block > self.pool.largest()) {
            return Err(Error::Invalid("batch.size is more than the pool's largest block holds"));
        }
        if config.buffer_memory < block_for(config.batch_size).unwrap_or(usize::MAX) {
            return Err(Error::Invalid("buffer.memory does not hold one block of batch.size"));
        }
        let least = config.linger.saturating_add(self.cluster.config().request_timeout);
        if config.delivery_timeout.is_some_and(|given| given < least) {
            return Err(Error::Invalid(
                "delivery.timeout.ms is below linger.ms plus request.timeout.ms",
            ));
        }
        let delivery_timeout = config.delivery_timeout.unwrap_or(DELIVERY_TIMEOUT.max(least));
        let seed = self.random.next();
        let producer = Producer::new(config, delivery_timeout, owner_value, &self.limits, seed);
        self.wants_turn = true;
        self.producers.insert(producer).map_err(|_| Error::Exhausted("producers (max_producers)"))
    }

    /// Sends what is batched without waiting for `linger.ms`; [`Flushed`] follows when all records
    /// taken so far have their outcome.
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Exhausted`] if 16 flushes are open.
    ///
    /// [`Flushed`]: super::ClientEvent::Flushed
    pub fn flush(&mut self, producer: SlotId, user: u64) -> Result<(), Error> {
        let p = self.producers.get_mut(producer).ok_or(Error::Stale)?;
        let flush = Flush { user, upto: p.next_order, left: p.unfinished };
        p.flushes.push_back(flush).map_err(|_| Error::Exhausted("flushes of one producer"))?;
        if p.has_flushed() {
            self.events.push(Source::Flushed(producer.index() as u32));
        }
        self.make_all_due(producer);
        Ok(())
    }

    /// Ends a producer: its records have `grace` to get out, then they fail.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Closed`] if it is closing already.
    pub fn close_producer(
        &mut self,
        producer: SlotId,
        grace: Duration,
        now: Moment,
    ) -> Result<(), Error> {
        let p = self.producers.get_mut(producer).ok_or(Error::Stale)?;
        if p.closing.is_some() {
            return Err(Error::Closed);
        }
        let until = now.at.after(grace);
        p.closing = Some(until);
        self.producer_timers.set(producer.index(), until);
        self.events.remove(Source::Writable(producer.index() as u32));
        self.make_all_due(producer);
        self.close_if_done(producer);
        Ok(())
    }

    /// Ends a producer now, also one whose grace runs: what is left of its records fails.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn end_producer(&mut self, producer: SlotId, now: Moment) -> Result<(), Error> {
        match self.close_producer(producer, Duration::ZERO, now) {
            Ok(()) | Err(Error::Closed) => {}
            Err(error) => return Err(error),
        }
        self.producer_timers.clear(producer.index());
        self.producer_due(producer.index());
        Ok(())
    }

    /// All batches of a producer become due.
    fn make_all_due(&mut self, producer: SlotId) {
        for index in 0..self.batches.slots.capacity() as u32 {
            let Some(batch) = self.batches.get_mut(index) else { continue };
            if batch.producer == producer && !batch.due {
                batch.due = true;
                let part = batch.part;
                self.relink(producer, part);
            }
        }
        self.wants_turn = true;
    }

    /// A closing producer without batches has ended.
    fn close_if_done(&mut self, producer: SlotId) {
        let Some(p) = self.producers.get(producer) else { return };
        if p.closing.is_some() && p.unfinished == 0 {
            self.producer_timers.clear(producer.index());
            self.events.push(Source::ProducerClosed(producer.index() as u32));
        }
    }

    /// The grace of a closing producer is over: what is left fails.
    pub(super) fn producer_due(&mut self, index: usize) {
        let Some((id, _)) = self.producers.at(index) else { return };
        self.fail_batches(id, Error::Closed);
        self.close_if_done(id);
    }

    /// Everything of a producer that is not over ends now.
    pub(super) fn fail_batches(&mut self, producer: SlotId, error: Error) {
        for index in 0..self.batches.slots.capacity() as u32 {
            let is = |batch: &ProducerBatch| batch.producer == producer && batch.end.is_none();
            if self.batches.get(index).is_some_and(is) {
                self.give_up(index, error);
            }
        }
    }

    /// A producer can never go on: its batches fail, and so does every call from now on.
    pub(super) fn fail_producer(&mut self, producer: SlotId, error: Error) {
        let Some(p) = self.producers.get_mut(producer) else { return };
        if p.failed.is_none() {
            p.failed = Some(error);
            p.failure_pending = true;
            self.events.push(Source::ProducerFailed(producer.index() as u32));
        }
        self.fail_batches(producer, error);
    }
}
