//! Client: the calls that are about the whole of it, and one turn.

use super::config::{ClientConfig, ClientLimits};
use super::consumer::{Assignments, Consumer, INFLATE_TURN};
use super::events::{Events, Source};
use super::in_flight::{InFlightRequest, Purpose};
use super::metadata::Metadata;
use super::metadata_refresh::MetadataRefresh;
use super::network_client::NetworkClient;
use super::node_connections::NodeConnectionId;
use super::node_state::ConnectionState;
use super::nodes::NodeName;
use super::producer::{Batches, Producer};
use super::random::Random;
use super::requests::RawRequests;
use super::{ClientStats, TopicId};
use crate::error::Error;
use crate::logging::{Level, Logger};
use crate::net::slots::Slots;
use crate::net::timers::Timers;
use crate::net::{BufferPool, CloseReason, ConnId, Notice, Owner, Selectable, SharedLease};
use crate::protocol::ErrorCode;
use crate::protocol::records::Inflater;
use crate::time::{Instant, Moment};
use core::time::Duration;

/// How often one turn goes over the steps at most.
const PASSES: usize = 4;

/// The client of one cluster.
#[derive(Debug)]
pub struct Client {
    pub(super) owner_value: u64,
    pub(super) limits: ClientLimits,
    pub(super) pool: BufferPool,
    pub(super) logger: Logger,
    pub(super) random: Random,
    pub(super) cluster: NetworkClient,
    pub(super) metadata: Metadata,
    pub(super) refresh: MetadataRefresh,
    pub(super) batches: Batches,
    pub(super) producers: Slots<Producer>,
    /// Per producer the end of its grace.
    pub(super) producer_timers: Timers,
    pub(super) consumers: Slots<Consumer>,
    pub(super) assigned: Assignments,
    pub(super) requests: RawRequests,
    pub(super) events: Events,
    pub(super) stats: ClientStats,
    /// What fetched batches are inflated with; a client that may have no consumers has none.
    pub(super) inflater: Option<Inflater>,
    /// Bytes that may come out of it in this turn.
    pub(super) inflate_left: usize,
    /// A call left work for a turn.
    pub(super) wants_turn: bool,
    /// Why the client's last failed lookup failed, until that is told.
    pub(super) failure: Option<Error>,
    /// The first metadata was told of.
    pub(super) ready: bool,
    closing: bool,
    /// The event of its end was made.
    pub(super) closed: bool,
}

impl Client {
    /// A client that connects in its first turn. `owner` marks its channels, `owner_value` its
    /// events; `seed` feeds the jitter and the partitioner. All tables are taken here.
    ///
    /// # Errors
    /// [`Error::Invalid`] for limits that cannot be: nodes, topics, partitions and requests in flight
    /// may not be 0, and nothing may be 2^24 or more. [`Error::NoMemory`] for the codecs.
    pub fn new(
        config: ClientConfig,
        limits: ClientLimits,
        owner_value: u64,
        owner: Owner,
        pool: &BufferPool,
        logger: Logger,
        seed: u64,
    ) -> Result<Client, Error> {
        limits.check()?;
        let mut random = Random::new(seed);
        let receive_max = pool.largest();
        let mut cluster =
            NetworkClient::new(config, &limits, owner, receive_max, logger.clone(), random.next());
        cluster.seed();
        Ok(Client {
            owner_value,
            pool: pool.clone(),
            logger,
            cluster,
            metadata: Metadata::new(limits.max_topics, limits.max_partitions, random.next()),
            refresh: MetadataRefresh::new(random.next()),
            batches: Batches::new(limits.max_batches),
            producers: Slots::new(limits.max_producers),
            producer_timers: Timers::new(limits.max_producers),
            consumers: Slots::new(limits.max_consumers),
            assigned: Assignments::new(&limits),
            requests: RawRequests::new(limits.max_requests),
            events: Events::new(&limits),
            stats: ClientStats::default(),
            inflater: if limits.max_consumers > 0 { Some(Inflater::new()?) } else { None },
            inflate_left: 0,
            wants_turn: true,
            failure: None,
            ready: false,
            closing: false,
            closed: false,
            random,
            limits,
        })
    }

    /// Takes news of one of the client's channels.
    pub fn on_notice<N: Selectable>(
        &mut self,
        net: &mut N,
        conn: ConnId,
        notice: Notice,
        now: Moment,
    ) {
        if let Notice::Answered(exchange) = notice {
            return self.on_name_answer(net, exchange, now.at);
        }
        let Some(connection) = self.cluster.connection_of(conn) else { return };
        match notice {
            Notice::Connected => self.cluster.connected(net, connection, conn, now.at),
            Notice::Frames => self.on_frames(net, connection, conn, now),
            Notice::Sent(token) => {
                if let Some(request) = self.cluster.written(connection, token) {
                    self.on_produce_written(connection, &request, now.at);
                }
            }
            Notice::Closed(reason) => self.on_closed(net, connection, conn, reason, now.at),
            // Room for sends is looked at in every turn; the client does not listen.
            Notice::Drained | Notice::Accepted | Notice::Answered(_) => {}
        }
    }

    fn on_frames<N: Selectable>(
        &mut self,
        net: &mut N,
        connection: NodeConnectionId,
        conn: ConnId,
        now: Moment,
    ) {
        // An answer may end the connection, and with it what follows.
        while self.cluster.conn(connection) == Some(conn) {
            let Some(frame) = net.next_frame(conn) else { return };
            if let Err(why) = self.on_answer(net, connection, &frame, now.at) {
                self.log(Level::Warn, format_args!("{}: {why}", self.peer_name(connection)));
                self.give_up_connection(net, connection, ErrorCode::NETWORK_EXCEPTION, now.at);
            }
        }
    }

    fn on_answer<N: Selectable>(
        &mut self,
        net: &mut N,
        connection: NodeConnectionId,
        frame: &SharedLease,
        now: Instant,
    ) -> Result<(), &'static str> {
        let (request, at) = self.cluster.answer(connection, frame)?;
        let body = frame.get(at..).unwrap_or(&[]);
        let (key, version) = (request.key, request.version);
        let throttle = match request.purpose {
            Purpose::ApiVersions => {
                self.cluster.learn(net, connection, body, version, now)?;
                0
            }
            Purpose::Metadata => self.on_metadata(body, version, now)?,
            Purpose::ProducerId(producer) => self.on_producer_id(producer, body, version, now)?,
            Purpose::Produce { .. } => self.on_produce(connection, &request, body, now)?,
            Purpose::Offsets(consumer) => {
                self.on_offsets(connection, consumer, body, version, now)?
            }
            Purpose::Fetch(consumer) => {
                let body = frame.slice(at..frame.len());
                self.on_fetch(connection, consumer, &body, version, now)?
            }
            Purpose::Raw(id) => {
                self.on_raw_answer(id, frame.slice(at..frame.len()));
                0
            }
        };
        self.cluster.throttle(connection, key, version, throttle, now);
        Ok(())
    }

    fn on_closed<N: Selectable>(
        &mut self,
        net: &mut N,
        connection: NodeConnectionId,
        conn: ConnId,
        reason: CloseReason,
        now: Instant,
    ) {
        if self.cluster.state(connection) == ConnectionState::Connecting {
            if !self.cluster.attempt_failed(net, connection, conn, reason, now) {
                self.connection_lost(connection, false, ErrorCode::NETWORK_EXCEPTION, false, now);
            }
            return;
        }
        let quiet = reason == CloseReason::Idle;
        let level = if quiet { Level::Debug } else { Level::Warn };
        self.log(level, format_args!("{}: {reason}", self.peer_name(connection)));
        let too_large = matches!(reason, CloseReason::TooLarge(_));
        self.connection_lost(connection, quiet, ErrorCode::NETWORK_EXCEPTION, too_large, now);
    }

    /// Closes a connection that cannot be trusted or took too long; its requests fail with `code`.
    fn give_up_connection<N: Selectable>(
        &mut self,
        net: &mut N,
        connection: NodeConnectionId,
        code: ErrorCode,
        now: Instant,
    ) {
        self.cluster.close_connection(net, connection);
        self.connection_lost(connection, false, code, false, now);
    }

    pub(super) fn connection_lost(
        &mut self,
        connection: NodeConnectionId,
        quiet: bool,
        code: ErrorCode,
        too_large: bool,
        now: Instant,
    ) {
        self.cluster.disconnected(connection, quiet, now);
        while let Some((request, answered)) = self.cluster.pop_lost(connection) {
            self.lost(connection, &request, code, answered, too_large, now);
        }
        if !quiet {
            self.refresh.need();
        }
        self.wants_turn = true;
    }

    /// A request will not be answered.
    fn lost(
        &mut self,
        connection: NodeConnectionId,
        request: &InFlightRequest,
        code: ErrorCode,
        answered: bool,
        too_large: bool,
        now: Instant,
    ) {
        match request.purpose {
            Purpose::ApiVersions => {}
            Purpose::Metadata => self.refresh.failed(self.cluster.config(), now),
            Purpose::ProducerId(producer) => self.producer_id_failed(producer, now),
            Purpose::Produce { .. } => {
                self.on_produce_lost(connection, request, code, answered, now)
            }
            Purpose::Offsets(consumer) => self.offsets_over(connection, consumer, now),
            Purpose::Fetch(consumer) => self.fetch_over(connection, consumer, too_large, now),
            Purpose::Raw(id) => self.on_raw_lost(id, code, too_large),
        }
    }

    /// Does what is due: deadlines, connects, requests. To be called after notices and calls.
    pub fn turn<N: Selectable>(&mut self, net: &mut N, now: Moment) {
        self.inflate_left = INFLATE_TURN;
        // What one step leaves to another that came before it is done here, not in a turn of the
        // loop, which costs a system call.
        for _ in 0..PASSES {
            self.wants_turn = false;
            self.pass(net, now);
            if !self.wants_turn {
                return;
            }
        }
    }

    fn pass<N: Selectable>(&mut self, net: &mut N, now: Moment) {
        self.cluster.begin_turn();
        self.run_timers(net, now);
        self.cluster.ask_all(net, now.at);
        // Producers stay until their end was told; a client that has closed connects to nobody.
        if !self.closed && (!self.closing || self.has_producers()) {
            self.refresh_metadata(net, now.at);
            self.send_batches(net, now.at);
        }
        if !self.closing {
            self.send_raw(net, now.at);
            self.inflate_fetches(now.at);
            self.send_offsets(net, now.at);
            self.send_fetches(net, now.at);
        }
        self.tell_writable(now);
        self.give_up_moved(net, now.at);
        self.cluster.sweep(net, now.at);
        self.finish_closing(net, now.at);
        self.run_names(net, now.at);
    }

    /// Connections to nodes that are at another address now are closed.
    fn give_up_moved<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        while let Some(node) = self.cluster.take_moved() {
            for connection in self.cluster.connections_of(node) {
                if self.cluster.state(connection) != ConnectionState::Disconnected {
                    self.cluster.close_connection(net, connection);
                    self.connection_lost(
                        connection,
                        true,
                        ErrorCode::NETWORK_EXCEPTION,
                        false,
                        now,
                    );
                }
            }
        }
    }

    fn run_timers<N: Selectable>(&mut self, net: &mut N, now: Moment) {
        while let Some(connection) = self.cluster.pop_due(now.at) {
            if self.cluster.state(connection) == ConnectionState::Connecting {
                if !self.cluster.race_due(net, connection, now.at) {
                    self.connection_lost(
                        connection,
                        false,
                        ErrorCode::REQUEST_TIMED_OUT,
                        false,
                        now.at,
                    );
                }
                continue;
            }
            let name = self.peer_name(connection);
            self.log(Level::Warn, format_args!("{name}: a request took too long"));
            self.cluster.stats.request_timeouts += 1;
            self.give_up_connection(net, connection, ErrorCode::REQUEST_TIMED_OUT, now.at);
        }
        self.cluster.run_resolver_timers(now.at);
        while let Some(batch) = self.batches.timers.pop_due(now.at) {
            self.batch_due(batch as u32, now);
        }
        while let Some(producer) = self.producer_timers.pop_due(now.at) {
            self.producer_due(producer);
        }
        while let Some(request) = self.requests.timers.pop_due(now.at) {
            self.raw_due(request);
        }
        while let Some(assigned) = self.assigned.timers.pop_due(now.at) {
            self.assigned_due(assigned as u32, now.at);
        }
    }

    /// When [`Client::turn`] must run again though nothing happened.
    pub fn next_deadline(&self) -> Option<Instant> {
        [
            self.cluster.next_deadline(),
            self.batches.timers.earliest(),
            self.producer_timers.earliest(),
            self.requests.timers.earliest(),
            self.assigned.timers.earliest(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether a call left work for [`Client::turn`].
    pub fn wants_turn(&self) -> bool {
        self.wants_turn || self.assigned.has_to_inflate()
    }

    /// The id of a topic name; the first call for a name asks the cluster about it, which creates
    /// the topic if `allow.auto.create.topics` and the brokers permit. The only call that may
    /// allocate, up to `max_topics` times.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that no topic can have, [`Error::Exhausted`] for one too many,
    /// [`Error::Closed`].
    pub fn topic(&mut self, name: &str) -> Result<TopicId, Error> {
        self.open()?;
        let (topic, new) = self.metadata.intern(name)?;
        if new {
            self.refresh.need_fresh();
            self.wants_turn = true;
        }
        Ok(topic)
    }

    /// The name of a topic.
    pub fn topic_name(&self, topic: TopicId) -> Option<&str> {
        self.metadata.name(topic)
    }

    /// Whether calls that begin something are taken.
    pub(super) fn open(&self) -> Result<(), Error> {
        if self.closing { Err(Error::Closed) } else { Ok(()) }
    }

    fn has_producers(&self) -> bool {
        !self.producers.is_empty()
    }

    /// Ends everything: producers have `grace` to get their records out, everything else ends at
    /// once. A [`Closed`](super::ClientEvent::Closed) follows for every consumer, every producer
    /// and, last, the client. With a grace of zero nothing is left open when the call returns.
    pub fn close<N: Selectable>(&mut self, net: &mut N, grace: Duration, now: Moment) {
        if !self.closing {
            self.closing = true;
            self.end_raw(Error::Closed);
            for index in 0..self.consumers.capacity() {
                let consumer = self.consumers.at(index).map(|(id, _)| id);
                if let Some(id) = consumer {
                    // One that is closing already goes on closing.
                    let _ = self.close_consumer(id);
                }
            }
        }
        for index in 0..self.producers.capacity() {
            let Some(id) = self.producers.at(index).map(|(id, _)| id) else { continue };
            // One that is closing already goes on closing, unless there is no time left.
            let _ = match grace.is_zero() {
                true => self.end_producer(id, now),
                false => self.close_producer(id, grace, now),
            };
        }
        self.wants_turn = true;
        self.finish_closing(net, now.at);
    }

    /// When the last producer is done, the connections go and the client is closed.
    fn finish_closing<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        let producing = self.producers.iter().any(|(_, producer)| !producer.is_done());
        if !self.closing || producing || self.closed {
            return;
        }
        self.closed = true;
        while let Some(connection) = self.cluster.any_open() {
            self.cluster.close_connection(net, connection);
            self.connection_lost(connection, true, ErrorCode::NETWORK_EXCEPTION, false, now);
        }
        self.cluster.end_lookups(net, now);
        self.events.remove(Source::ClientFailed);
        self.wants_turn = false;
        self.events.push(Source::ClientClosed);
    }

    /// Whether a connection is not established yet.
    #[cfg(test)]
    pub(super) fn is_connecting(&self, conn: ConnId) -> bool {
        let state =
            self.cluster.connection_of(conn).map(|connection| self.cluster.state(connection));
        state == Some(ConnectionState::Connecting)
    }

    /// Counters and gauges.
    pub fn stats(&self) -> ClientStats {
        let net = self.cluster.stats;
        ClientStats {
            connections: net.connections,
            connects: net.connects,
            disconnects: net.disconnects,
            requests: net.requests,
            answers: net.answers,
            request_timeouts: net.request_timeouts,
            batches: self.batches.slots.len() as u64,
            batch_bytes: self.producers.iter().map(|(_, p)| p.memory() as u64).sum(),
            ..self.stats
        }
    }

    pub(super) fn log(&self, level: Level, line: core::fmt::Arguments<'_>) {
        self.logger.line(level, line);
    }

    /// What a log line calls the other end of a connection.
    fn peer_name(&self, connection: NodeConnectionId) -> PeerName {
        let node = self
            .cluster
            .node(connection.node())
            .map(|node| (node.name(), node.addresses.current()));
        PeerName(node)
    }
}

/// A node in a log line.
struct PeerName(Option<(NodeName, Option<std::net::SocketAddr>)>);

impl core::fmt::Display for PeerName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some((name, Some(address))) => write!(f, "{name} at {address}"),
            Some((name, None)) => write!(f, "{name}"),
            None => write!(f, "a node that left"),
        }
    }
}
