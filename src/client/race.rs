//! Race: a connection is made by trying a host's addresses side by side (RFC 8305): the next one
//! starts when the one before failed, or when it has not answered for [`ATTEMPT_DELAY`]. The first
//! that connects wins; the others are closed.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::host::Addresses;
use super::network_client::NetworkClient;
use super::node_connections::{NodeConnection, NodeConnectionId};
use super::node_state::ConnectionState;
use crate::logging::Level;
use crate::net::{CloseReason, ConnId, Selectable};
use crate::time::Instant;
use core::fmt::Display;
use core::time::Duration;
use std::net::SocketAddr;

/// Attempts of one connection at once.
const RACERS: usize = 4;
/// How long an attempt may be silent before the next address is tried besides.
pub(super) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// What an attempt has at least, if the whole has as much: a lost SYN comes again after a second.
const ATTEMPT_LEAST: Duration = Duration::from_secs(2);

const TOO_LONG: &str = "the connect took too long";

/// One address being tried.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    conn: ConnId,
    /// Its place in the order of the race.
    nth: u8,
    until: Instant,
}

/// The attempts of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Race {
    attempts: [Option<Attempt>; RACERS],
    /// Where in the host's list it began.
    from: u8,
    /// How many of the list were tried.
    tried: u8,
    /// How long one attempt may take.
    each: Duration,
    /// When the next address may be tried besides those that are.
    next_at: Instant,
    /// When the whole must be over.
    until: Instant,
}

impl Race {
    /// Nothing is tried.
    pub(super) const fn none() -> Self {
        let start = Instant::from_nanos(0);
        Race {
            attempts: [None; RACERS],
            from: 0,
            tried: 0,
            each: Duration::ZERO,
            next_at: start,
            until: start,
        }
    }

    fn new(addresses: &Addresses, until: Instant, now: Instant) -> Self {
        let whole = until.since(now);
        let share = whole / (addresses.len() as u32).max(1);
        let each = share.max(ATTEMPT_LEAST).min(whole);
        Race { from: addresses.first(), each, next_at: now, until, ..Race::none() }
    }

    /// Whether the connection is one of its attempts.
    pub(super) fn has(&self, conn: ConnId) -> bool {
        self.attempts.iter().flatten().any(|attempt| attempt.conn == conn)
    }

    fn is_running(&self) -> bool {
        self.attempts.iter().any(Option::is_some)
    }

    /// Takes an attempt out.
    fn take(&mut self, conn: ConnId) -> Option<Attempt> {
        let is = |attempt: &Option<Attempt>| attempt.is_some_and(|attempt| attempt.conn == conn);
        self.attempts.iter_mut().find(|attempt| is(attempt))?.take()
    }

    /// Takes any attempt out that is out of time.
    fn take_due(&mut self, now: Instant) -> Option<Attempt> {
        let due = |attempt: &Option<Attempt>| attempt.is_some_and(|attempt| attempt.until <= now);
        self.attempts.iter_mut().find(|attempt| due(attempt))?.take()
    }

    /// Takes any attempt out.
    fn take_any(&mut self) -> Option<Attempt> {
        self.attempts.iter_mut().find_map(Option::take)
    }

    /// When something is due though nothing happened.
    fn next_deadline(&self, addresses: usize) -> Instant {
        let due = self.attempts.iter().flatten().map(|attempt| attempt.until).min();
        let room = self.attempts.iter().any(Option::is_none);
        let more = room && usize::from(self.tried) < addresses;
        let next = if more { self.next_at } else { Instant::FAR };
        due.unwrap_or(Instant::FAR).min(next).min(self.until)
    }
}

impl NetworkClient {
    /// Begins to connect: asks for the host's addresses first, if they are to be asked for.
    pub(super) fn connect<N: Selectable>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        now: Instant,
    ) {
        let racing = self.is_racing(id.node());
        let Some(connection) = self.connections.get_mut(id.index()) else { return };
        let Some(node) = self.nodes.get_mut(id.node() as usize) else { return };
        if !racing && node.needs_lookup(now) {
            connection.health.last_attempt = now;
            connection.state = ConnectionState::Resolving;
            return self.want_lookup(id.node());
        }
        if !racing && core::mem::take(&mut node.stale) {
            node.addresses.begin_after(node.last_tried);
        }
        self.start_race(net, id, now);
    }

    /// Whether a connection of this node is being made: then its addresses stay as they are.
    fn is_racing(&self, node: u32) -> bool {
        self.connections_of(node)
            .any(|connection| self.state(connection) == ConnectionState::Connecting)
    }

    /// Tries the addresses of the connection's node.
    pub(super) fn start_race<N: Selectable>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        now: Instant,
    ) {
        let Some(connection) = self.connections.get_mut(id.index()) else { return };
        let Some(node) = self.nodes.get(id.node() as usize) else { return };
        let until = connection.health.attempt(self.config.setup, &mut self.random, now);
        connection.race = Race::new(&node.addresses, until, now);
        connection.state = ConnectionState::Connecting;
        if !self.go_on(net, id, now) {
            // Known at once: there is nothing to close and nothing in flight.
            self.disconnected(id, false, now);
            if let Some(at) = self.connection(id).map(|connection| connection.health.retry_at) {
                self.wake_at(at);
            }
        }
    }

    /// Starts the attempts whose time has come; `false` if the race is lost.
    fn go_on<N: Selectable>(&mut self, net: &mut N, id: NodeConnectionId, now: Instant) -> bool {
        let mask = self.hints.len() - 1;
        let Some(connection) = self.connections.get_mut(id.index()) else { return false };
        let Some(node) = self.nodes.get_mut(id.node() as usize) else { return false };
        let race = &mut connection.race;
        while now < race.until && (race.next_at <= now || !race.is_running()) {
            let Some(slot) = race.attempts.iter_mut().find(|slot| slot.is_none()) else { break };
            let Some(to) = node.addresses.nth_from(race.from, race.tried) else { break };
            let nth = race.tried;
            race.tried += 1;
            node.last_tried = Some(to);
            self.stats.connects += 1;
            match net.connect(to, &self.options) {
                Ok(conn) => {
                    *slot =
                        Some(Attempt { conn, nth, until: now.after(race.each).min(race.until) });
                    race.next_at = now.after(ATTEMPT_DELAY);
                    if let Some(hint) = self.hints.get_mut(conn.index() & mask) {
                        *hint = id.index() as u32;
                    }
                }
                Err(error) => self.logger.line(
                    Level::Warn,
                    format_args!("{}: cannot connect to {to}: {error}", node.name()),
                ),
            }
        }
        if !race.is_running() {
            return false;
        }
        self.timers.set(id.index(), race.next_deadline(node.addresses.len()));
        true
    }

    fn attempted(&self, id: NodeConnectionId, attempt: Attempt) -> Option<SocketAddr> {
        let (connection, node) = (self.connection(id)?, self.nodes.get(id.node() as usize)?);
        node.addresses.nth_from(connection.race.from, attempt.nth)
    }

    /// A race that goes on is nobody's trouble; one that is lost is.
    fn say_failed(&self, node: u32, at: Option<SocketAddr>, why: &dyn Display, goes_on: bool) {
        let Some(node) = self.node(node) else { return };
        let level = if goes_on { Level::Info } else { Level::Warn };
        let name = node.name();
        match at {
            Some(at) => self.logger.line(level, format_args!("{name} at {at}: {why}")),
            None => self.logger.line(level, format_args!("{name}: {why}")),
        }
    }

    /// An attempt failed; the next one starts. `false` if the race is lost with it.
    pub(super) fn attempt_failed<N: Selectable>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        conn: ConnId,
        why: CloseReason,
        now: Instant,
    ) -> bool {
        let Some(connection) = self.connection_mut(id) else { return true };
        let Some(attempt) = connection.race.take(conn) else { return true };
        connection.race.next_at = now;
        let at = self.attempted(id, attempt);
        let goes_on = self.go_on(net, id, now);
        self.say_failed(id.node(), at, &why, goes_on);
        goes_on
    }

    /// Gives up attempts that are out of time, and starts the next. `false` if the race is lost.
    pub(super) fn race_due<N: Selectable>(
        &mut self,
        net: &mut N,
        id: NodeConnectionId,
        now: Instant,
    ) -> bool {
        let mut last = None;
        while let Some(attempt) =
            self.connection_mut(id).and_then(|connection| connection.race.take_due(now))
        {
            net.close(attempt.conn);
            if let Some(before) = last.replace(self.attempted(id, attempt)) {
                self.say_failed(id.node(), before, &TOO_LONG, true);
            }
        }
        let goes_on = self.go_on(net, id, now);
        if let Some(at) = last {
            self.say_failed(id.node(), at, &TOO_LONG, goes_on);
        }
        goes_on
    }

    /// The first that is connected wins.
    pub(super) fn win<N: Selectable>(&mut self, net: &mut N, id: NodeConnectionId, conn: ConnId) {
        let Some(connection) = self.connection_mut(id) else { return };
        let Some(winner) = connection.race.take(conn) else { return };
        connection.conn = Some(conn);
        let at = self.attempted(id, winner);
        self.close_attempts(net, id);
        if let (Some(at), Some(node)) = (at, self.nodes.get_mut(id.node() as usize)) {
            node.addresses.prefer(at);
            node.last_tried = Some(at);
        }
    }

    fn close_attempts<N: Selectable>(&mut self, net: &mut N, id: NodeConnectionId) {
        while let Some(attempt) =
            self.connection_mut(id).and_then(|connection| connection.race.take_any())
        {
            net.close(attempt.conn);
        }
    }

    /// Closes what a connection has open. It is to be told with [`NetworkClient::disconnected`].
    pub(super) fn close_connection<N: Selectable>(&mut self, net: &mut N, id: NodeConnectionId) {
        self.close_attempts(net, id);
        if let Some(conn) = self.conn(id) {
            net.close(conn);
        }
    }

    /// A race is over without a winner: the next one goes on where it ended, or, if it tried
    /// everything, with addresses that are asked for anew.
    pub(super) fn race_lost(&mut self, id: NodeConnectionId) {
        let Some(connection) = self.connections.get(id.index()) else { return };
        let Some(node) = self.nodes.get_mut(id.node() as usize) else { return };
        if node.addresses.failed(connection.race.from, connection.race.tried) {
            node.stale = true;
        }
    }
}

impl NodeConnection {
    /// Whether the channel is this connection's.
    pub(super) fn has(&self, conn: ConnId) -> bool {
        self.conn == Some(conn) || self.race.has(conn)
    }
}
