//! NetworkClient: the nodes and their connections. It connects, asks what a broker speaks, sends a
//! request, matches its answer and tells what ran out of time.
//!
//! A node has several connections: see [`super::node_connections`].
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::config::{ClientConfig, ClientLimits};
use super::host::{Addresses, Endpoint};
use super::in_flight::{InFlightRequest, Purpose, token_of};
use super::names::Naming;
use super::node_connections::{
    ConnectionKind, NodeConnection, NodeConnectionId, connections_per_node,
};
use super::node_state::ConnectionState;
use super::node_versions::{NodeVersions, first_client_throttled, spoken};
use super::random::Random;
use super::resolver::{Resolver, Unresolved};
use crate::logging::Logger;
use crate::net::timers::Timers;
use crate::net::{ChannelOptions, ConnId, Owner, Selectable, SendBuilder, SendRefused};
use crate::protocol::{ApiKey, Reader, RequestHeader, ResponseHeader, Writer};
use crate::time::Instant;
use core::time::Duration;
use std::net::SocketAddr;

/// A broker, or a bootstrap server whose id is not known yet (a negative id).
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: i32,
    /// The host as the cluster or the bootstrap list names it.
    pub(super) endpoint: Endpoint,
    /// Where it was found to be.
    pub(super) addresses: Addresses,
    pub(super) naming: Naming,
    /// Until when the addresses hold.
    pub(super) expires: Instant,
    /// The addresses have done their duty: all failed, or a connection to one was lost.
    pub(super) stale: bool,
    /// The address that was tried last, or that worked last.
    pub(super) last_tried: Option<SocketAddr>,
    /// Why the host has no addresses, once that was said.
    pub(super) unresolved: Option<Unresolved>,
    /// The cluster's last list names it; otherwise it is leaving.
    pub(super) listed: bool,
    /// Its address has changed; its connections are to be given up.
    pub(super) moved: bool,
}

impl Node {
    pub(super) fn free() -> Self {
        Node {
            id: FREE,
            endpoint: Endpoint::none(),
            addresses: Addresses::none(),
            naming: Naming::Fixed,
            expires: Instant::FAR,
            stale: false,
            last_tried: None,
            unresolved: None,
            listed: false,
            moved: false,
        }
    }

    /// Whether it may be asked something.
    pub(super) fn is_usable(&self) -> bool {
        let somewhere = self.naming != Naming::Fixed || !self.addresses.is_empty();
        self.id != FREE && self.listed && somewhere
    }
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotSent {
    /// No room or no memory now: try again in a later turn.
    Later,
    /// The connection is gone; its last notice is on the way.
    Gone,
    /// It cannot be said.
    Unwritable(&'static str),
}

/// The id of an unused place.
pub(super) const FREE: i32 = i32::MIN;
/// How soon what found no room is tried again, if nothing else happens.
const AGAIN: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NetworkStats {
    pub(super) connections: u64,
    pub(super) connects: u64,
    pub(super) disconnects: u64,
    pub(super) requests: u64,
    pub(super) answers: u64,
    pub(super) request_timeouts: u64,
}

#[derive(Debug)]
pub(super) struct NetworkClient {
    pub(super) nodes: Box<[Node]>,
    /// What each node speaks.
    pub(super) versions: Box<[NodeVersions]>,
    pub(super) connections: Box<[NodeConnection]>,
    pub(super) per_node: u32,
    /// Places in use lie below it.
    pub(super) used: usize,
    /// By a connection's index, folded: the connection that last had it. A hint, checked on use.
    pub(super) hints: Box<[u32]>,
    /// Per connection: the setup deadline, or that of the first request to run out of time.
    pub(super) timers: Timers,
    /// When to look again at what was refused for a matter of time.
    wake: Instant,
    /// Connections that have not asked yet what their broker speaks.
    pub(super) unasked: u32,
    pub(super) config: ClientConfig,
    pub(super) options: ChannelOptions,
    pub(super) resolver: Resolver,
    /// Nodes whose lookup has not begun.
    pub(super) names_wanted: u32,
    /// Why a host could not be resolved, until the client has told.
    pub(super) unresolved: Option<Unresolved>,
    pub(super) random: Random,
    pub(super) logger: Logger,
    pub(super) stats: NetworkStats,
}

impl NetworkClient {
    pub(super) fn new(
        config: ClientConfig,
        limits: &ClientLimits,
        owner: Owner,
        receive_max: usize,
        logger: Logger,
        seed: u64,
    ) -> Self {
        let per_node = connections_per_node(limits.max_consumers);
        let connections = limits.max_nodes * per_node;
        // A consumer has one fetch under way; its place may be used again before that is over.
        let shared = NodeConnectionId::new(0, ConnectionKind::Fetch(0), per_node as u32).index();
        let capacity = |connection: usize| {
            if connection % per_node < shared { limits.max_in_flight } else { 4 }
        };
        let options = ChannelOptions {
            owner,
            receive_max,
            receive_first: receive_max.min(16 * 1024),
            max_idle: config.max_idle,
            send_buffer: config.send_buffer,
            receive_buffer: config.receive_buffer,
        };
        let mut random = Random::new(seed);
        NetworkClient {
            nodes: (0..limits.max_nodes).map(|_| Node::free()).collect(),
            versions: (0..limits.max_nodes).map(|_| NodeVersions::new()).collect(),
            connections: (0..connections)
                .map(|connection| NodeConnection::new(capacity(connection)))
                .collect(),
            per_node: per_node as u32,
            used: 0,
            hints: core::iter::repeat_n(0, (connections * 2).next_power_of_two()).collect(),
            timers: Timers::new(connections),
            wake: Instant::FAR,
            unasked: 0,
            config,
            options,
            resolver: Resolver::new(random.next()),
            names_wanted: 0,
            unresolved: None,
            random,
            logger,
            stats: NetworkStats::default(),
        }
    }

    /// Whom the client's channels and exchanges belong to.
    pub(super) fn owner(&self) -> Owner {
        self.options.owner
    }

    pub(super) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// When to look again though nothing happened.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let earliest = self.timers.earliest().unwrap_or(Instant::FAR).min(self.wake);
        let earliest = earliest.min(self.resolver.next_deadline());
        if earliest == Instant::FAR { None } else { Some(earliest) }
    }

    /// Begins a turn: who is still refused says so again.
    pub(super) fn begin_turn(&mut self) {
        self.wake = Instant::FAR;
    }

    /// Asks to be called again at `at`.
    pub(super) fn wake_at(&mut self, at: Instant) {
        self.wake = self.wake.min(at);
    }

    /// Asks to be called again soon: there was no room for a request.
    pub(super) fn wake_soon(&mut self, now: Instant) {
        self.wake_at(now.after(AGAIN));
    }

    pub(super) fn connection(&self, connection: NodeConnectionId) -> Option<&NodeConnection> {
        self.connections.get(connection.index())
    }

    pub(super) fn connection_mut(
        &mut self,
        connection: NodeConnectionId,
    ) -> Option<&mut NodeConnection> {
        self.connections.get_mut(connection.index())
    }

    pub(super) fn state(&self, connection: NodeConnectionId) -> ConnectionState {
        self.connection(connection)
            .map_or(ConnectionState::Disconnected, |connection| connection.state)
    }

    pub(super) fn conn(&self, connection: NodeConnectionId) -> Option<ConnId> {
        self.connection(connection).and_then(|connection| connection.conn)
    }

    /// The channel of a connection.
    pub(super) fn connection_of(&self, conn: ConnId) -> Option<NodeConnectionId> {
        let hint = self.hints.get(conn.index() & (self.hints.len() - 1)).copied().unwrap_or(0);
        let is = |connection: &NodeConnection| connection.has(conn);
        if self.connections.get(hint as usize).is_some_and(is) {
            return Some(NodeConnectionId::at(hint as usize, self.per_node));
        }
        self.used_connections()
            .iter()
            .position(is)
            .map(|connection| NodeConnectionId::at(connection, self.per_node))
    }

    /// The connections of nodes in use.
    pub(super) fn used_connections(&self) -> &[NodeConnection] {
        self.connections.get(..self.used * self.per_node as usize).unwrap_or(&[])
    }

    /// A connection of a node.
    pub(super) fn connection_id(&self, node: u32, kind: ConnectionKind) -> NodeConnectionId {
        NodeConnectionId::new(node, kind, self.per_node)
    }

    /// All connections of a node.
    pub(super) fn connections_of(
        &self,
        node: u32,
    ) -> impl Iterator<Item = NodeConnectionId> + use<> {
        let per_node = self.per_node;
        let first = node as usize * per_node as usize;
        (first..first + per_node as usize)
            .map(move |connection| NodeConnectionId::at(connection, per_node))
    }

    /// The version of an API to use on a connection, within what kloop speaks and `least` at least.
    pub(super) fn version(&self, connection: NodeConnectionId, key: ApiKey) -> Option<i16> {
        let range = spoken(key).unwrap_or(0..=i16::MAX);
        self.versions.get(connection.node() as usize)?.highest(key, range)
    }

    /// Whether the broker serves this version of an API.
    pub(super) fn serves(&self, connection: NodeConnectionId, key: ApiKey, version: i16) -> bool {
        let versions = self.versions.get(connection.node() as usize);
        versions.is_some_and(|served| served.highest(key, version..=version).is_some())
    }

    /// Requests in flight on a connection.
    pub(super) fn in_flight(&self, connection: NodeConnectionId) -> usize {
        self.connection(connection).map_or(0, |connection| connection.in_flight.len())
    }

    /// Whether a request can be sent on a connection now. If it is not connected and may be, the connect
    /// is started; if it is only a matter of time, the time is noted.
    pub(super) fn ready<N: Selectable>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        now: Instant,
    ) -> bool {
        let Some(connection) = self.connections.get(id.index()) else { return false };
        match connection.state {
            ConnectionState::Ready if connection.throttled_until > now => {
                self.wake_at(connection.throttled_until);
                false
            }
            ConnectionState::Ready if connection.in_flight.is_full() => false,
            ConnectionState::Ready => connection.conn.is_some_and(|conn| net.can_send(conn)),
            ConnectionState::Resolving
            | ConnectionState::Connecting
            | ConnectionState::CheckingVersions => false,
            ConnectionState::Disconnected if connection.health.retry_at > now => {
                self.wake_at(connection.health.retry_at);
                false
            }
            ConnectionState::Disconnected => {
                self.connect(net, id, now);
                false
            }
        }
    }

    /// Sends a message that needs nothing but its own bytes.
    #[expect(clippy::too_many_arguments, reason = "what a request is, once")]
    pub(super) fn send_message<'m, N: Selectable, M: crate::protocol::declare::Message<'m>>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        key: ApiKey,
        version: i16,
        purpose: Purpose,
        message: &M,
        now: Instant,
    ) -> Result<(), NotSent> {
        let room = message.encoded_len(version);
        self.send(net, id, key, version, purpose, false, room, now, |send| {
            let mut w = Writer::new(send.scratch());
            message.encode(&mut w, version);
            let n = w.finish()?;
            send.advance(n);
            Ok(())
        })
    }

    /// Sends a request: writes the header, lets `fill` do the rest in `room` bytes of scratch, and
    /// notes it as in flight. A `silent` one has no answer and is over when it is written.
    #[expect(clippy::too_many_arguments, reason = "what a request is, once")]
    pub(super) fn send<N: Selectable>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        key: ApiKey,
        version: i16,
        purpose: Purpose,
        silent: bool,
        room: usize,
        now: Instant,
        fill: impl FnOnce(&mut SendBuilder) -> Result<(), &'static str>,
    ) -> Result<(), NotSent> {
        let connection = self.connections.get_mut(id.index()).ok_or(NotSent::Gone)?;
        let conn = connection.conn.ok_or(NotSent::Gone)?;
        let client_id = Some(&*self.config.client_id);
        let header_room = 16 + self.config.client_id.len();
        let mut send =
            net.begin_send(conn, header_room + room).map_err(|refused| match refused {
                SendRefused::Stale => NotSent::Gone,
                SendRefused::Full | SendRefused::NoMemory => NotSent::Later,
            })?;
        let correlation_id = connection.in_flight.next_correlation();
        let mut w = Writer::new(send.scratch());
        RequestHeader { api_key: key, api_version: version, correlation_id, client_id }
            .write(&mut w);
        let n = w.finish().map_err(NotSent::Unwritable)?;
        send.advance(n);
        fill(&mut send).map_err(NotSent::Unwritable)?;
        let token = if silent { Some(token_of(correlation_id)) } else { None };
        net.send(conn, send, token).map_err(|_| NotSent::Gone)?;
        let deadline = now.after(self.config.request_timeout);
        let request =
            InFlightRequest { correlation: correlation_id, key, version, deadline, purpose };
        connection.in_flight.push(request, silent);
        self.stats.requests += 1;
        if self.timers.get(id.index()).is_none_or(|at| at > deadline) {
            self.timers.set(id.index(), deadline);
        }
        Ok(())
    }

    /// Matches an answer with its request; gives where the body begins. `Err` ends the connection:
    /// after a mismatch nothing on it can be trusted.
    pub(super) fn answer(
        &mut self,
        id: NodeConnectionId,
        frame: &[u8],
    ) -> Result<(InFlightRequest, usize), &'static str> {
        let connection = self.connections.get_mut(id.index()).ok_or("no such connection")?;
        let correlation = Reader::new(frame).i32().map_err(|bad| bad.0)?;
        let request = connection.in_flight.answered(correlation);
        let request = request.ok_or("an answer to another request than the oldest")?;
        let mut r = Reader::new(frame);
        ResponseHeader::read(&mut r, request.key, request.version).map_err(|bad| bad.0)?;
        self.stats.answers += 1;
        self.arm(id);
        Ok((request, frame.len() - r.left()))
    }

    /// The request whose last byte was written, if it is over with that.
    pub(super) fn written(&mut self, id: NodeConnectionId, token: u64) -> Option<InFlightRequest> {
        let request = self.connection_mut(id)?.in_flight.written(token);
        self.arm(id);
        request
    }

    fn arm(&mut self, id: NodeConnectionId) {
        let Some(connection) = self.connections.get(id.index()) else { return };
        match connection.in_flight.earliest() {
            Some(at) => self.timers.set(id.index(), at),
            None => self.timers.clear(id.index()),
        }
    }

    /// The broker wants quiet for `ms` milliseconds, as an answer to `key` in `version` said.
    pub(super) fn throttle(
        &mut self,
        id: NodeConnectionId,
        key: ApiKey,
        version: i16,
        ms: i32,
        now: Instant,
    ) {
        let Ok(ms @ 1..) = u64::try_from(ms) else { return };
        if version < first_client_throttled(key) {
            return;
        }
        let Some(connection) = self.connection_mut(id) else { return };
        let by = Duration::from_millis(ms);
        connection.throttled_until = connection.throttled_until.max(now.after(by));
        connection.in_flight.extend(by);
        self.arm(id);
    }

    /// Takes a connection whose time is over: its connect took too long, or one of its requests.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<NodeConnectionId> {
        self.timers.pop_due(now).map(|connection| NodeConnectionId::at(connection, self.per_node))
    }

    /// Takes note that a connection is gone. What was in flight on it is to be taken with
    /// [`NetworkClient::pop_lost`].
    pub(super) fn disconnected(&mut self, id: NodeConnectionId, in_order: bool, now: Instant) {
        let state = self.state(id);
        if state == ConnectionState::Connecting {
            self.race_lost(id);
        }
        let Some(connection) = self.connections.get_mut(id.index()) else { return };
        if matches!(state, ConnectionState::CheckingVersions | ConnectionState::Ready) {
            self.stats.connections -= 1;
            if let Some(node) = self.nodes.get_mut(id.node() as usize) {
                node.stale = true;
            }
        }
        if connection.ask.take().is_some() {
            self.unasked -= 1;
        }
        if !in_order {
            let reconnect = self.config.reconnect;
            connection.health.failed(connection.state, reconnect, &mut self.random, now);
        }
        connection.state = ConnectionState::Disconnected;
        connection.conn = None;
        connection.throttled_until = Instant::from_nanos(0);
        self.stats.disconnects += 1;
        self.timers.clear(id.index());
    }

    /// Takes the oldest request of a connection that is gone.
    pub(super) fn pop_lost(&mut self, id: NodeConnectionId) -> Option<(InFlightRequest, bool)> {
        self.connection_mut(id)?.in_flight.pop_lost()
    }
}
