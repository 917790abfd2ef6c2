//! Client: the calls, and one turn.

use super::config::{ClientConfig, ClientLimits, ConsumerConfig, ProducerConfig};
use super::{ClientEvent, OutRecord, TopicId};
use crate::error::Error;
use crate::logging::Logger;
use crate::net::slots::SlotId;
use crate::net::{BufferPool, ConnId, Notice, Owner, Selectable};
use crate::time::{Instant, Moment};
use core::time::Duration;

/// Counters and gauges of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Connections established now.
    pub connections: u64,
    /// Connects started.
    pub connects: u64,
    /// Connections lost or given up.
    pub disconnects: u64,
    /// Requests sent.
    pub requests: u64,
    /// Answers received.
    pub answers: u64,
    /// Requests that ran out of time.
    pub request_timeouts: u64,
    /// Metadata answers used.
    pub metadata_updates: u64,
    /// Records accepted by `produce`.
    pub records_accepted: u64,
    /// Records refused for lack of room.
    pub records_refused: u64,
    /// Records acknowledged.
    pub records_delivered: u64,
    /// Records that ended otherwise.
    pub records_failed: u64,
    /// Batches sent again.
    pub batch_retries: u64,
    /// Batches that are not finished.
    pub batches: u64,
    /// Bytes of blocks that batches hold.
    pub batch_bytes: u64,
    /// Records handed over to consumers.
    pub records_fetched: u64,
    /// Bytes of batches handed over to consumers.
    pub bytes_fetched: u64,
    /// Fetches sent.
    pub fetches: u64,
}

/// The client of one cluster.
#[derive(Debug)]
pub struct Client {}

impl Client {
    /// A client that will connect in its first turn. `owner` marks its channels, `owner_value` its
    /// events; `seed` feeds the jitter and the partitioner.
    ///
    /// # Errors
    /// [`Error::Invalid`] for limits that cannot be.
    #[expect(clippy::too_many_arguments, reason = "everything a client is given, once")]
    pub fn new(
        _config: ClientConfig,
        _limits: ClientLimits,
        _owner_value: u64,
        _owner: Owner,
        _pool: &BufferPool,
        _logger: Logger,
        _seed: u64,
    ) -> Result<Client, Error> {
        todo!()
    }

    /// Takes news of one of the client's channels.
    pub fn on_notice<N: Selectable>(
        &mut self,
        _net: &mut N,
        _conn: ConnId,
        _notice: Notice,
        _now: Moment,
    ) {
        todo!()
    }

    /// Does what is due: deadlines, connects, requests. To be called after notices and calls.
    pub fn turn<N: Selectable>(&mut self, _net: &mut N, _now: Moment) {
        todo!()
    }

    /// When [`Client::turn`] must run again though nothing happened.
    pub fn next_deadline(&self) -> Option<Instant> {
        todo!()
    }

    /// Whether a call left work for [`Client::turn`].
    pub fn wants_turn(&self) -> bool {
        todo!()
    }

    /// Whether [`Client::next_event`] has something.
    pub fn has_events(&self) -> bool {
        todo!()
    }

    /// Takes the next event.
    pub fn next_event(&mut self) -> Option<ClientEvent> {
        todo!()
    }

    /// The id of a topic name; the first call for a name asks the cluster about it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that no topic can have, [`Error::Exhausted`] for one too many.
    pub fn topic(&mut self, _name: &str) -> Result<TopicId, Error> {
        todo!()
    }

    /// The name of a topic.
    pub fn topic_name(&self, _topic: TopicId) -> Option<&str> {
        todo!()
    }

    /// Sends a request of any API to `node`, or to any node if it is -1. `body` stands behind the
    /// header; `api_version` -1 is the highest that both sides know. One
    /// [`ClientEvent::Reply`] follows.
    ///
    /// # Errors
    /// [`Error::Exhausted`]: no room for another request, or no memory for its body now.
    pub fn request(
        &mut self,
        _node: i32,
        _api_key: i16,
        _api_version: i16,
        _body: &[u8],
        _user: u64,
        _now: Moment,
    ) -> Result<SlotId, Error> {
        todo!()
    }

    /// Ends a request early; its [`ClientEvent::Reply`] says [`Error::Canceled`].
    ///
    /// # Errors
    /// [`Error::Stale`] if it has ended.
    pub fn cancel(&mut self, _op: SlotId) -> Result<(), Error> {
        todo!()
    }

    /// Ends everything: producers have `grace` to get their records out. A
    /// [`ClientEvent::Closed`] follows for every producer, every consumer, and last the client.
    pub fn close<N: Selectable>(&mut self, _net: &mut N, _grace: Duration, _now: Moment) {
        todo!()
    }

    /// Adds a producer.
    ///
    /// # Errors
    /// [`Error::Exhausted`] for one too many, [`Error::Invalid`] if the pool cannot hold its
    /// batches.
    pub fn add_producer(
        &mut self,
        _config: ProducerConfig,
        _owner_value: u64,
        _now: Moment,
    ) -> Result<SlotId, Error> {
        todo!()
    }

    /// Takes one record. `Ok(false)`: there is no room now, or the topic is not known yet; one
    /// [`ClientEvent::Writable`] follows.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the record is larger than `max.request.size` or its partition does not
    /// exist; [`Error::Kafka`] if the topic can never be written to; [`Error::Stale`],
    /// [`Error::Closed`].
    pub fn produce<'h, H>(
        &mut self,
        _producer: SlotId,
        _record: &OutRecord<'_>,
        _headers: H,
        _now: Moment,
    ) -> Result<bool, Error>
    where
        H: Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
    {
        todo!()
    }

    /// Sends what is batched without waiting for `linger.ms`; [`ClientEvent::Flushed`] follows when
    /// all records taken so far have their outcome.
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Exhausted`] if too many flushes are open.
    pub fn flush(&mut self, _producer: SlotId, _user: u64) -> Result<(), Error> {
        todo!()
    }

    /// Ends a producer: its records have `grace` to get out.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Closed`] if it is closing already.
    pub fn close_producer(
        &mut self,
        _producer: SlotId,
        _grace: Duration,
        _now: Moment,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Adds a consumer.
    ///
    /// # Errors
    /// [`Error::Exhausted`] for one too many.
    pub fn add_consumer(
        &mut self,
        _config: ConsumerConfig,
        _owner_value: u64,
    ) -> Result<SlotId, Error> {
        todo!()
    }

    /// Ends a consumer; events of it that were not taken are dropped.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Closed`] if it is closing already.
    pub fn close_consumer(
        &mut self,
        _consumer: SlotId,
        _grace: Duration,
        _now: Moment,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Replaces what a consumer reads. The offset is one to start at, -1 for the end, -2 for the
    /// beginning. A partition that stays with its present position goes on undisturbed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another offset or a topic that is not known, [`Error::Exhausted`] for
    /// too many partitions; the assignment stays as it was then.
    pub fn assign(
        &mut self,
        _consumer: SlotId,
        _parts: &[(TopicId, i32, i64)],
        _now: Moment,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Adds or moves one partition, to the first record at or after a time in milliseconds.
    ///
    /// # Errors
    /// As [`Client::assign`].
    pub fn assign_at(
        &mut self,
        _consumer: SlotId,
        _topic: TopicId,
        _partition: i32,
        _timestamp_ms: i64,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Stops fetching from partitions, or goes on. An event that is pending is not held back.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Invalid`] for a partition that is not assigned.
    pub fn pause(
        &mut self,
        _consumer: SlotId,
        _parts: &[(TopicId, i32)],
        _paused: bool,
    ) -> Result<(), Error> {
        todo!()
    }

    /// The offset after the last record handed over; `None` while it is not known.
    pub fn position(&self, _consumer: SlotId, _topic: TopicId, _partition: i32) -> Option<i64> {
        todo!()
    }

    /// Counters and gauges.
    pub fn stats(&self) -> ClientStats {
        todo!()
    }
}
