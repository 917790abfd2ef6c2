//! Names of nodes: when they are looked up, and what becomes of the answer. The [`super::resolver`]
//! knows how to ask; this is who asks and why.
//!
//! A name is looked up when a connection is to be made and the node has no addresses, its addresses
//! are over their time, all of them failed, or an established connection was lost since.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::client::Client;
use super::events::Source;
use super::host::Addresses;
use super::network_client::{NetworkClient, Node};
use super::node_connections::NodeConnectionId;
use super::node_state::ConnectionState;
use super::resolver::{ANSWER_GRACE, Answers, Outcome, PATIENT_GRACE, Step, Unresolved};
use crate::error::Error;
use crate::logging::Level;
use crate::net::{ExchangeId, Selectable};
use crate::protocol::ErrorCode;
use crate::time::Instant;
use std::net::SocketAddr;

/// Where a node's addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// The host says it itself, or the hosts file does.
    Fixed,
    /// A name server is to be asked.
    Asked,
    /// One is to be asked, and a connection waits for it.
    Wanted,
    /// One is being asked.
    Asking,
}

impl Node {
    pub(super) fn needs_lookup(&self, now: Instant) -> bool {
        let fresh = !self.addresses.is_empty() && !self.stale && self.expires > now;
        self.naming != Naming::Fixed && !fresh
    }
}

impl NetworkClient {
    /// A connection waits for this node's addresses.
    pub(super) fn want_lookup(&mut self, node: u32) {
        if let Some(node) = self.nodes.get_mut(node as usize)
            && node.naming == Naming::Asked
        {
            node.naming = Naming::Wanted;
            self.names_wanted += 1;
        }
    }

    /// The node is gone or at another host: nobody waits for its addresses.
    pub(super) fn forget_lookup(&mut self, place: u32) {
        self.resolver.cancel(place);
        if let Some(node) = self.nodes.get_mut(place as usize) {
            self.names_wanted -= u32::from(node.naming == Naming::Wanted);
            if node.naming != Naming::Fixed {
                node.naming = Naming::Asked;
            }
        }
    }

    fn begin_lookups(&mut self, now: Instant) {
        for place in 0..self.used {
            if self.names_wanted == 0 {
                return;
            }
            let Some(node) = self.nodes.get_mut(place) else { return };
            if node.naming != Naming::Wanted {
                continue;
            }
            let config = &self.config.resolver;
            let useless = node.stale && node.addresses.all_failed();
            let grace = if useless { PATIENT_GRACE } else { ANSWER_GRACE };
            if !self.resolver.begin(place as u32, node.endpoint.host, grace, config, now) {
                return;
            }
            node.naming = Naming::Asking;
            self.names_wanted -= 1;
        }
    }

    /// Sends what is to be asked, and ends what was answered.
    fn ask_name_servers<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        self.begin_lookups(now);
        while let Some(step) = self.resolver.next_step(&self.config.resolver) {
            match step {
                Step::End(exchange) => net.end_exchange(exchange),
                Step::Ask { asked, server, over, question } => {
                    let exchange = net.ask(server, over, question.as_ref(), self.owner());
                    if let Err(error) = exchange {
                        let text = format_args!("name server {server}: {error}");
                        self.logger.line(Level::Warn, text);
                    }
                    self.resolver.sent(asked, exchange.ok(), &self.config.resolver, now);
                }
            }
        }
    }

    /// Gives up tries of lookups that are out of time.
    pub(super) fn run_resolver_timers(&mut self, now: Instant) {
        if self.resolver.next_deadline() <= now {
            self.resolver.run_timers(&self.config.resolver, now);
        }
    }

    /// Gives up all lookups, and their sockets.
    pub(super) fn end_lookups<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        for node in 0..self.used() {
            self.forget_lookup(node);
        }
        self.ask_name_servers(net, now);
    }

    fn answered<N: Selectable>(&mut self, net: &mut N, exchange: ExchangeId, now: Instant) {
        let config = &self.config.resolver;
        match net.next_answer(exchange) {
            Ok(Some(bytes)) => self.resolver.answered(exchange, &bytes, config, now),
            Ok(None) => {}
            Err(error) => {
                self.logger.line(Level::Debug, format_args!("a name server: {error}"));
                self.resolver.exchange_failed(exchange, config, now);
            }
        }
    }

    /// A node's addresses are here: connections that waited for them are begun.
    fn resolved<N: Selectable>(
        &mut self,
        net: &mut N,
        place: u32,
        answers: &Answers,
        now: Instant,
    ) {
        let Some(node) = self.nodes.get_mut(place as usize) else { return };
        let port = node.endpoint.port;
        let all = answers.all().map(|address| SocketAddr::new(address, port));
        node.addresses = Addresses::interleaved(all);
        node.addresses.begin_after(node.last_tried);
        node.expires = now.after(answers.ttl);
        node.stale = false;
        node.unresolved = None;
        let text = format_args!(
            "{}: {} has {} addresses",
            node.name(),
            node.endpoint.host,
            node.addresses.len()
        );
        self.logger.line(Level::Debug, text);
        for connection in self.connections_of(place) {
            if self.state(connection) == ConnectionState::Resolving {
                self.start_race(net, connection, now);
            }
        }
    }

    /// Notes why a node's host cannot be used, and says so when it is news.
    pub(super) fn say_unresolved(&mut self, place: u32, why: Unresolved) {
        let Some(node) = self.nodes.get_mut(place as usize) else { return };
        let news = node.unresolved != Some(why);
        node.unresolved = Some(why);
        let level = if news { Level::Warn } else { Level::Debug };
        if news {
            self.unresolved = Some(why);
        }
        let (name, host) = (node.name(), node.endpoint.host);
        let text = format_args!("{name}: its host {host} cannot be resolved: {}", why.text());
        self.logger.line(level, text);
    }

    /// A connection of this node that waits for its addresses.
    fn waits_for_name(&self, node: u32) -> Option<NodeConnectionId> {
        self.connections_of(node)
            .find(|connection| self.state(*connection) == ConnectionState::Resolving)
    }
}

impl Client {
    /// An exchange with a name server has something.
    pub(super) fn on_name_answer<N: Selectable>(
        &mut self,
        net: &mut N,
        exchange: ExchangeId,
        now: Instant,
    ) {
        self.cluster.answered(net, exchange, now);
        self.run_names(net, now);
    }

    /// Moves lookups on, and hands out what came of them.
    pub(super) fn run_names<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        loop {
            self.cluster.ask_name_servers(net, now);
            let Some(Outcome { user, result }) = self.cluster.resolver.take_outcome() else {
                break;
            };
            if let Some(node) = self.cluster.nodes.get_mut(user as usize) {
                node.naming = Naming::Asked;
            }
            match result {
                Ok(answers) => self.cluster.resolved(net, user, &answers, now),
                Err(why) => {
                    self.cluster.say_unresolved(user, why);
                    while let Some(connection) = self.cluster.waits_for_name(user) {
                        self.connection_lost(
                            connection,
                            false,
                            ErrorCode::NETWORK_EXCEPTION,
                            false,
                            now,
                        );
                    }
                }
            }
        }
        // Behind its end a client tells nothing.
        if let Some(why) = self.cluster.unresolved.take().filter(|_| !self.closed) {
            self.failure = Some(Error::Resolve(why.text()));
            self.events.push(Source::ClientFailed);
        }
    }
}
