//! Broker: connections in, answers out. A state machine that is given notices and the time.

use super::config::{BrokerConfig, BrokerLimits};
use super::{BrokerEvent, BrokerStats};
use crate::error::Error;
use crate::logging::Logger;
use crate::net::slots::SlotId;
use crate::net::{ChannelOptions, ConnId, Notice, Owner, Selectable};
use crate::time::{Instant, Moment};
use core::time::Duration;

/// An embedded single-node broker. One thread at a time.
#[derive(Debug)]
pub struct Broker {}

impl Broker {
    /// Takes all tables and the memory of the log. `owner_value` comes back in every event, `owner`
    /// names this broker to the selector, `seed` must be hard to guess.
    ///
    /// # Errors
    /// [`Error::NoMemory`], or [`Error::Invalid`] for limits that cannot be.
    pub fn new(
        _config: BrokerConfig,
        _limits: BrokerLimits,
        _owner_value: u64,
        _owner: Owner,
        _logger: Logger,
        _seed: u64,
    ) -> Result<Broker, Error> {
        todo!()
    }

    /// What the selector gives each connection of this broker.
    pub fn channel_options(&self) -> ChannelOptions {
        todo!()
    }

    /// Where clients are sent to. Without it metadata names the address that a client connected to.
    pub fn set_advertised(&mut self, _host: &str, _port: u16) {
        todo!()
    }

    /// Takes one piece of news of a connection of this broker.
    pub fn on_notice<N: Selectable>(
        &mut self,
        _net: &mut N,
        _conn: ConnId,
        _notice: Notice,
        _now: Moment,
    ) {
        todo!()
    }

    /// Answers what waited and need not wait any longer. Once a turn, after its notices.
    pub fn turn<N: Selectable>(&mut self, _net: &mut N, _now: Moment) {
        todo!()
    }

    /// When [`Broker::turn`] must be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        todo!()
    }

    /// Whether [`Broker::turn`] has something to do now.
    pub fn wants_turn(&self) -> bool {
        todo!()
    }

    /// Whether there is an event to take.
    pub fn has_events(&self) -> bool {
        todo!()
    }

    /// Takes the next event.
    pub fn next_event(&mut self) -> Option<BrokerEvent> {
        todo!()
    }

    /// Answers a request that was handed to the host: the body in `parts`, which is copied; kloop
    /// writes the header. No parts is no answer, as acks=0 asks for. `close` ends the connection
    /// behind the answer. A `user` other than 0 comes back in [`BrokerEvent::Sent`].
    ///
    /// # Errors
    /// [`Error::Stale`] if the request was answered or its connection is gone,
    /// [`Error::Exhausted`] if there is no memory now: the request then still waits.
    pub fn respond<N: Selectable>(
        &mut self,
        _net: &mut N,
        _request: SlotId,
        _parts: &[&[u8]],
        _close: bool,
        _user: u64,
        _now: Moment,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Ends a connection now.
    ///
    /// # Errors
    /// [`Error::Stale`] if it is gone.
    pub fn disconnect<N: Selectable>(&mut self, _net: &mut N, _conn: ConnId) -> Result<(), Error> {
        todo!()
    }

    /// Ends the broker: what waits is answered, connections end once their answers are written, at
    /// the latest after `grace`; [`BrokerEvent::Closed`] is then the last event. The engine stops
    /// listening before.
    pub fn close<N: Selectable>(&mut self, _net: &mut N, _grace: Duration, _now: Moment) {
        todo!()
    }

    /// Counts since creation, and what is held now.
    pub fn stats(&self) -> BrokerStats {
        todo!()
    }
}
