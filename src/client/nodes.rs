//! The table of nodes: the bootstrap list, what metadata lists, and which of them to ask.

use super::bootstrap::Known;
use super::host::{Addresses, Endpoint, HostName};
use super::names::Naming;
use super::network_client::{FREE, NetworkClient, Node};
use super::node_connections::{ConnectionKind, NodeConnectionId};
use super::node_state::{ConnectionState, Health};
use crate::logging::Level;
use crate::net::Selectable;
use crate::time::Instant;

/// Which connection a request that any broker can answer should take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// This one is ready.
    Ready(NodeConnectionId),
    /// One is on its way, or busy: wait.
    Wait,
    /// No node can be tried now; the first may be tried again then.
    Backoff(Instant),
}

/// What a log line calls a node. The negative numbers are kloop's own and nobody else knows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeName(i32);

impl core::fmt::Display for NodeName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            id @ 0.. => write!(f, "node {id}"),
            _ => f.write_str("bootstrap server"),
        }
    }
}

impl Node {
    /// What a log line calls it.
    pub(super) fn name(&self) -> NodeName {
        NodeName(self.id)
    }
}

impl NetworkClient {
    /// How many places of the table are in use or were.
    pub(super) fn used(&self) -> u32 {
        self.used as u32
    }

    pub(super) fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize).filter(|node| node.id != FREE)
    }

    /// The place of a broker id.
    pub(super) fn find(&self, id: i32) -> Option<u32> {
        if id == FREE {
            return None;
        }
        self.nodes.iter().take(self.used).position(|node| node.id == id).map(|i| i as u32)
    }

    /// Whether the cluster still has this node.
    pub(super) fn is_listed(&self, node: u32) -> bool {
        self.node(node).is_some_and(|node| node.listed)
    }

    /// Enters the servers of the bootstrap list that no node stands for, as nodes -1, -2, …
    pub(super) fn seed(&mut self) {
        for i in 0..self.config.bootstrap.len() {
            let Some(&endpoint) = self.config.bootstrap.get(i) else { return };
            let here = match self.config.hosts.find(&endpoint) {
                Known::Here(addresses) => addresses,
                Known::Ask | Known::Never(_) => Addresses::none(),
            };
            let known = |node: &Node| {
                let same = !here.is_empty() && node.addresses.same_as(&here);
                let there = same || node.endpoint.same_as(&endpoint);
                node.id != FREE && node.listed && there
            };
            if !self.nodes.iter().any(known) {
                let id = i32::try_from(i).map_or(FREE, |i| -1 - i);
                self.add(id, endpoint);
            }
        }
    }

    fn add(&mut self, id: i32, endpoint: Endpoint) {
        let Some(place) = self.nodes.iter().position(|node| node.id == FREE) else {
            self.logger.line(
                Level::Warn,
                format_args!("no room for {}: {} nodes are known", NodeName(id), self.used),
            );
            return;
        };
        if let Some(node) = self.nodes.get_mut(place) {
            *node = Node { id, listed: true, ..Node::free() };
        }
        self.used = self.used.max(place + 1);
        self.refresh_health(place as u32);
        self.settle_at(place, endpoint);
    }

    /// The node is at this host: its addresses are known, or are to be asked for.
    fn settle_at(&mut self, place: usize, endpoint: Endpoint) {
        let known = self.config.hosts.find(&endpoint);
        let Some(node) = self.nodes.get_mut(place) else { return };
        *node = Node { id: node.id, listed: true, endpoint, ..Node::free() };
        match known {
            Known::Here(addresses) => node.addresses = addresses,
            Known::Ask => node.naming = Naming::Asked,
            Known::Never(why) => self.say_unresolved(place as u32, why),
        }
    }

    fn refresh_health(&mut self, place: u32) {
        for id in self.connections_of(place) {
            if let Some(connection) = self.connection_mut(id) {
                connection.health = Health::new();
            }
        }
    }

    /// A list of the cluster's nodes begins: those that it does not name are leaving.
    pub(super) fn begin_listing(&mut self) {
        for node in &mut self.nodes {
            node.listed = false;
        }
    }

    /// The cluster has this node, at this host.
    pub(super) fn list(&mut self, id: i32, host: &str, port: i32) {
        let port = u16::try_from(port).unwrap_or(0);
        let name = HostName::new(host);
        let endpoint = Endpoint { host: name.unwrap_or(HostName::empty()), port };
        let place = self.find(id).map(|place| place as usize);
        if let Some((place, node)) = place.and_then(|at| Some((at, self.nodes.get_mut(at)?))) {
            node.listed = true;
            if node.endpoint.same_as(&endpoint) {
                return;
            }
            // Another host under the same id starts with a clean state.
            self.forget_lookup(place as u32);
            self.settle_at(place, endpoint);
            if let Some(node) = self.nodes.get_mut(place) {
                node.moved = true;
            }
        } else if let Some(seed) = self.seed_at(&endpoint) {
            // The bootstrap server turns out to be this node: its connections are kept.
            seed.id = id;
            seed.listed = true;
        } else {
            self.add(id, endpoint);
        }
    }

    /// A bootstrap server that is at this host, which it is called by from now on.
    fn seed_at(&mut self, endpoint: &Endpoint) -> Option<&mut Node> {
        let known = self.config.hosts.find(endpoint);
        self.nodes.iter_mut().find_map(|node| {
            let seed = node.id != FREE && node.id < 0 && !node.listed;
            if !seed {
                return None;
            }
            if node.endpoint.same_as(endpoint) {
                return Some(node);
            }
            // While its addresses are asked for, connections wait for the name that it has.
            let settled = matches!(node.naming, Naming::Fixed | Naming::Asked);
            let Known::Here(addresses) = known else { return None };
            let there = node.addresses.current().is_some_and(|at| addresses.contains(at));
            if !settled || !there {
                return None;
            }
            node.endpoint = *endpoint;
            node.addresses = addresses;
            node.naming = Naming::Fixed;
            Some(node)
        })
    }

    /// Takes a node whose address is another now: its connections are to be given up.
    pub(super) fn take_moved(&mut self) -> Option<u32> {
        let place = self.nodes.iter().position(|node| node.moved)?;
        self.nodes.get_mut(place)?.moved = false;
        self.refresh_health(place as u32);
        Some(place as u32)
    }

    /// Lets go of nodes that left the cluster and have nothing in flight. To be called often: a
    /// node whose last answer came just now leaves with the next turn.
    pub(super) fn sweep<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        for place in 0..self.used {
            let leaving = self.nodes.get(place).is_some_and(|n| n.id != FREE && !n.listed);
            if !leaving
                || self
                    .connections_of(place as u32)
                    .any(|connection| self.in_flight(connection) > 0)
            {
                continue;
            }
            for connection in self.connections_of(place as u32) {
                if self.state(connection) != ConnectionState::Disconnected {
                    self.close_connection(net, connection);
                    self.disconnected(connection, true, now);
                }
            }
            self.forget_lookup(place as u32);
            if let Some(node) = self.nodes.get_mut(place) {
                *node = Node::free();
            }
        }
    }

    /// A connection that has or makes a channel, for closing them all.
    pub(super) fn any_open(&self) -> Option<NodeConnectionId> {
        let mut connections = self.used_connections().iter();
        let place =
            connections.position(|connection| connection.state != ConnectionState::Disconnected)?;
        Some(NodeConnectionId::at(place, self.per_node))
    }

    /// Which node to ask what any of them can answer: one that is connected and least loaded, else
    /// one that is on its way, else one that was not tried for longest, which is connected to. Each
    /// search begins at a random place.
    pub(super) fn least_loaded<N: Selectable>(&mut self, net: &mut N, now: Instant) -> Choice {
        let choice = self.choose(net, now);
        // KIP-899: when no node can be tried, the bootstrap list is a second chance.
        if matches!(choice, Choice::Backoff(_)) && self.config.rebootstrap {
            self.seed();
            return self.choose(net, now);
        }
        choice
    }

    fn choose<N: Selectable>(&mut self, net: &mut N, now: Instant) -> Choice {
        let start = self.random.below(self.used as u32) as usize;
        let mut best: Option<(usize, NodeConnectionId)> = None;
        let mut oldest: Option<(Instant, NodeConnectionId)> = None;
        let mut waiting = false;
        let mut retry = Instant::FAR;
        for i in 0..self.used {
            let place = (start + i) % self.used;
            let usable = self.nodes.get(place).is_some_and(Node::is_usable);
            let id = self.connection_id(place as u32, ConnectionKind::Control);
            let Some(connection) = self.connections.get(id.index()).filter(|_| usable) else {
                continue;
            };
            let (state, health) = (connection.state, connection.health);
            match state {
                ConnectionState::Disconnected if health.retry_at > now => {
                    retry = retry.min(health.retry_at);
                }
                ConnectionState::Disconnected => {
                    let tried = health.last_attempt;
                    if oldest.is_none_or(|(at, _)| tried < at) {
                        oldest = Some((tried, id));
                    }
                }
                ConnectionState::Resolving
                | ConnectionState::Connecting
                | ConnectionState::CheckingVersions => waiting = true,
                ConnectionState::Ready if self.ready(net, id, now) => {
                    let load = self.in_flight(id);
                    if best.is_none_or(|(least, _)| load < least) {
                        best = Some((load, id));
                    }
                }
                ConnectionState::Ready => waiting = true,
            }
        }
        match (best, oldest) {
            (Some((_, connection)), _) => Choice::Ready(connection),
            (None, _) if waiting => Choice::Wait,
            (None, Some((_, connection))) => {
                self.ready(net, connection, now);
                Choice::Wait
            }
            (None, None) => Choice::Backoff(retry),
        }
    }
}
