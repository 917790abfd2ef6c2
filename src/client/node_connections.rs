//! NodeConnection: the connections of a node.
//!
//! A broker works on one request of a connection at a time, so a request that it holds back also
//! holds back what was sent behind it. Therefore each node has several connections, each made when
//! it is first needed.

use super::in_flight::InFlightRequests;
use super::node_state::{ConnectionState, Health};
use super::race::Race;
use crate::net::ConnId;
use crate::time::Instant;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    /// Everything that is answered at once.
    Control,
    /// The host's own requests that a broker may hold back: fetches, joining a group.
    Held,
    /// The fetches of one consumer, by its place in the table.
    Fetch(u32),
}

/// Connections of each node besides those of consumers.
const SHARED: u32 = 2;

/// How many connections a node has.
pub(super) fn connections_per_node(max_consumers: usize) -> usize {
    SHARED as usize + max_consumers
}

/// One connection of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeConnectionId {
    index: u32,
    per_node: u32,
}

impl NodeConnectionId {
    pub(super) fn new(node: u32, kind: ConnectionKind, per_node: u32) -> Self {
        let offset = match kind {
            ConnectionKind::Control => 0,
            ConnectionKind::Held => 1,
            ConnectionKind::Fetch(consumer) => SHARED + consumer,
        };
        NodeConnectionId { index: node * per_node + offset, per_node }
    }

    /// The connection at a place of the table.
    pub(super) fn at(index: usize, per_node: u32) -> Self {
        NodeConnectionId { index: index as u32, per_node }
    }

    pub(super) fn index(self) -> usize {
        self.index as usize
    }

    pub(super) fn node(self) -> u32 {
        self.index / self.per_node
    }
}

#[derive(Debug)]
pub(super) struct NodeConnection {
    pub(super) state: ConnectionState,
    pub(super) conn: Option<ConnId>,
    /// What is tried while there is no connection.
    pub(super) race: Race,
    pub(super) health: Health,
    pub(super) in_flight: InFlightRequests,
    /// Requests wait until then: the broker said so.
    pub(super) throttled_until: Instant,
    /// The version in which ApiVersions is to be asked for; `None` when that has been done.
    pub(super) ask: Option<i16>,
    /// ApiVersions was asked for again in an older version.
    pub(super) fell_back: bool,
}

impl NodeConnection {
    pub(super) fn new(capacity: usize) -> Self {
        NodeConnection {
            state: ConnectionState::Disconnected,
            conn: None,
            race: Race::none(),
            health: Health::new(),
            in_flight: InFlightRequests::new(capacity),
            throttled_until: Instant::from_nanos(0),
            ask: None,
            fell_back: false,
        }
    }
}
