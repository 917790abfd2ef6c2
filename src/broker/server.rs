//! Broker: its parts, its face to the engine, and its end. A request's road is in `serve`.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::config::{BrokerConfig, BrokerLimits, REQUEST_MAX_BYTES};
use super::connections::{Connections, State};
use super::core::Core;
use super::delayed::{Delayed, Source};
use super::dispatch::Dispatch;
use super::events::{EventSource, Events};
use super::host::{HostRequest, HostRequests, Phase};
use super::reactor::Base;
use super::scratch::Scratch;
use super::{BrokerEvent, BrokerStats};
use crate::error::Error;
use crate::logging::{Level, Logger};
use crate::net::pool::MIN_BLOCK;
use crate::net::slots::SlotId;
use crate::net::{ChannelOptions, CloseReason, ConnId, Notice, Owner, Selectable};
use crate::sync::Arc;
use crate::time::{Instant, Moment};
use core::time::Duration;

/// How soon a closing broker looks again whether answers are written, which nobody announces.
const LOOK: Duration = Duration::from_millis(5);

/// The first receive block of a connection: the smallest there is, because a connection whose request
/// waits holds one. The network takes larger ones where there is more to read.
const RECEIVE_FIRST: usize = MIN_BLOCK;

/// An embedded single-node broker. One thread at a time.
#[derive(Debug)]
pub struct Broker {
    pub(super) core: Arc<Core>,
    pub(super) scratch: Scratch,
    pub(super) connections: Connections,
    pub(super) delayed: Delayed,
    pub(super) host: HostRequests,
    pub(super) events: Events,
    pub(super) counts: Counts,
    /// Set if requests are run by other threads.
    pub(super) dispatch: Option<Dispatch>,
    options: ChannelOptions,
    owner_value: u64,
    max_connections: usize,
    /// Whether connections are reported to the host.
    tells_lives: bool,
    /// The returns of the log's pool when they were last looked at.
    log_returns: u64,
    end: End,
}

/// What the broker counts besides its handlers.
#[derive(Debug, Default)]
pub(super) struct Counts {
    accepted: u64,
    pub(super) refused: u64,
    pub(super) requests: u64,
    pub(super) answers: u64,
    pub(super) wakes: u64,
    pub(super) panics: u64,
}

/// How far the broker's end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closing { by: Instant, look: Instant },
    Closed,
}

impl Broker {
    /// Takes all tables and the memory of the log. `owner_value` comes back in every event, `owner`
    /// names this broker to the selector, `seed` must be hard to guess.
    ///
    /// # Errors
    /// [`Error::NoMemory`], or [`Error::Invalid`] for limits that cannot be.
    pub fn new(
        config: BrokerConfig,
        limits: BrokerLimits,
        owner_value: u64,
        owner: Owner,
        logger: Logger,
        seed: u64,
    ) -> Result<Broker, Error> {
        let options = channel_options(&config, owner);
        let (tells_lives, max_connections) = (config.events, config.max_connections);
        let core = Core::new(config, &limits, logger, seed)?;
        let partitions = core.topics.max_partitions();
        Ok(Broker {
            scratch: Scratch::new(&core)?,
            connections: Connections::new(limits.max_connections),
            delayed: Delayed::new(limits.max_parked, partitions),
            host: HostRequests::new(limits.max_host_requests),
            events: Events::new(limits.max_connections, limits.max_host_requests),
            counts: Counts::default(),
            dispatch: None,
            log_returns: core.memory.pool().returns(),
            core: Arc::new(core),
            options,
            owner_value,
            max_connections,
            tells_lives,
            end: End::Open,
        })
    }

    /// The broker of one processor: a shared core, and requests that other threads run.
    pub(super) fn dispatching(
        core: Arc<Core>,
        connections: usize,
        options: ChannelOptions,
        dispatch: Dispatch,
    ) -> Broker {
        let partitions = core.topics.max_partitions();
        Broker {
            scratch: Scratch::without_handlers(partitions),
            connections: Connections::new(connections),
            // A place for each connection: whatever has no room waits here.
            delayed: Delayed::new(connections, partitions),
            host: HostRequests::new(0),
            events: Events::new(connections, 0),
            counts: Counts::default(),
            dispatch: Some(dispatch),
            log_returns: core.memory.pool().returns(),
            core,
            options,
            owner_value: 0,
            max_connections: connections,
            tells_lives: false,
            end: End::Open,
        }
    }

    /// What a reactor goes on with.
    pub(super) fn base(&self) -> Base {
        let max_connections = self.max_connections.min(self.connections.capacity());
        let (core, options) = (Arc::clone(&self.core), self.options);
        Base { core, options, max_connections, owner_value: self.owner_value }
    }

    /// Whether it never had a connection and does not close.
    pub fn is_fresh(&self) -> bool {
        let counts = &self.counts;
        self.end == End::Open && counts.accepted == 0 && self.connections.len() == 0
    }

    /// What the selector gives each connection of this broker.
    pub fn channel_options(&self) -> ChannelOptions {
        self.options
    }

    /// Where clients are sent to. Without it metadata names the address that a client connected to.
    pub fn set_advertised(&mut self, host: &str, port: u16) {
        self.core.set_advertised(host, port);
    }

    /// Takes one piece of news of a connection of this broker.
    pub fn on_notice<N: Selectable>(
        &mut self,
        net: &mut N,
        conn: ConnId,
        notice: Notice,
        now: Moment,
    ) {
        match notice {
            Notice::Accepted => self.accept(net, conn),
            Notice::Frames => self.serve(net, conn, now),
            Notice::Drained => self.unblock(net, conn, now),
            Notice::Sent(token) => self.host_answer_sent(SlotId::from_raw(token)),
            Notice::Closed(reason) => {
                self.log_closed(conn, reason);
                self.forget(conn);
            }
            // A broker connects to nobody and asks nobody.
            Notice::Connected | Notice::Answered(_) => {}
        }
    }

    /// Answers what waited and need not wait any longer. Once a turn, after its notices.
    pub fn turn<N: Selectable>(&mut self, net: &mut N, now: Moment) {
        let log_returns = self.core.memory.pool().returns();
        if core::mem::replace(&mut self.log_returns, log_returns) != log_returns {
            self.delayed.wake(Source::LogMemory);
        }
        self.delayed.wake_due(now.at);
        self.drain_board();
        // Batches that waited for memory come first, so that readers see them in this turn.
        self.serve_ready(net, now);
        self.deliver_appends();
        self.serve_ready(net, now);
        self.go_on_closing(net, now);
    }

    /// When [`Broker::turn`] must be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        let look = match self.end {
            End::Closing { look, .. } => Some(look),
            End::Open | End::Closed => None,
        };
        match (self.delayed.next_deadline(), look) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether [`Broker::turn`] has something to do now.
    pub fn wants_turn(&self) -> bool {
        let appended = !self.scratch.appended.is_empty() && self.delayed.len() > 0;
        let freed = self.delayed.is_awaited(Source::LogMemory)
            && self.core.memory.pool().returns() != self.log_returns;
        let posted = self.delayed.len() > 0
            && self.dispatch.as_ref().is_some_and(|dispatch| dispatch.is_board_dirty());
        appended || freed || posted || self.delayed.has_ready()
    }

    /// Whether there is an event to take.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the next event.
    pub fn next_event(&mut self) -> Option<BrokerEvent> {
        let owner = self.owner_value;
        loop {
            let event = match self.events.pop()? {
                EventSource::Connection(index) => {
                    self.events.take_life(index).map(|(conn, opened)| match opened {
                        true => BrokerEvent::Opened { owner, conn },
                        false => BrokerEvent::Gone { owner, conn },
                    })
                }
                EventSource::Host(index) => self.host_event(index),
                EventSource::Broker => Some(BrokerEvent::Closed { owner }),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Ends a connection now.
    ///
    /// # Errors
    /// [`Error::Stale`] if it is gone.
    pub fn disconnect<N: Selectable>(&mut self, net: &mut N, conn: ConnId) -> Result<(), Error> {
        self.connections.state(conn).ok_or(Error::Stale)?;
        net.close(conn);
        self.forget(conn);
        Ok(())
    }

    /// Ends the broker: what waits is answered, connections end once their answers are written, at
    /// the latest after `grace`; [`BrokerEvent::Closed`] is then the last event. The engine stops
    /// listening before.
    pub fn close<N: Selectable>(&mut self, net: &mut N, grace: Duration, now: Moment) {
        if self.end != End::Open {
            return;
        }
        self.end = End::Closing { by: now.at.after(grace), look: now.at };
        self.delayed.wake_all();
        self.serve_ready(net, now);
        for index in 0..self.connections.capacity() {
            match self.connections.at(index) {
                Some((conn, State::Ready | State::Blocked)) => self.end_connection(net, conn),
                // With threads of the host's it may be with one of them: it has the grace.
                Some((conn, State::Host(id)))
                    if self.dispatch.is_none() && self.host.unanswered(id).is_none() =>
                {
                    // The host never saw it.
                    net.close_after_flush(conn);
                    self.forget(conn);
                }
                _ => {}
            }
        }
        self.go_on_closing(net, now);
    }

    /// Counts since creation, and what is held now.
    pub fn stats(&self) -> BrokerStats {
        let core = self.core.stats();
        BrokerStats {
            topics: core.topics,
            partitions: core.partitions,
            batches_in: core.batches_in,
            bytes_in: core.bytes_in,
            bytes_out: core.bytes_out,
            duplicates: core.duplicates,
            evicted: core.evicted,
            log_in_use: core.log_in_use,
            log_total: core.log_total,
            ..self.own_stats()
        }
    }

    /// What is counted outside of handlers.
    pub(super) fn own_stats(&self) -> BrokerStats {
        BrokerStats {
            connections: self.connections.len() as u64,
            accepted: self.counts.accepted,
            refused: self.counts.refused,
            requests: self.counts.requests,
            answers: self.counts.answers,
            parked: self.delayed.len() as u64,
            host_requests: self.host.len() as u64,
            wakes: self.counts.wakes,
            panics: self.counts.panics,
            ..BrokerStats::default()
        }
    }

    /// Whether the broker closes: requests are answered at once.
    pub(super) fn is_closing(&self) -> bool {
        self.end != End::Open
    }

    fn accept<N: Selectable>(&mut self, net: &mut N, conn: ConnId) {
        let full = self.connections.len() >= self.max_connections;
        if self.is_closing() || full || !self.connections.open(conn) {
            self.counts.refused += 1;
            self.core.logger.line(
                Level::Warn,
                format_args!("connection {:x} is refused: there is no place for it", conn.raw()),
            );
            net.close(conn);
            self.count_gone();
            return;
        }
        self.counts.accepted += 1;
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.note_local(net, conn);
        }
        if self.tells_lives {
            self.events.opened(conn);
        }
    }

    /// Forgets a connection that is gone, and its request with it.
    pub(super) fn forget(&mut self, conn: ConnId) {
        let Some(state) = self.connections.remove(conn) else { return };
        self.count_gone();
        match state {
            State::Parked(id) => {
                self.delayed.remove(id);
            }
            State::Host(id) => match &self.dispatch {
                Some(dispatch) => dispatch.forget_host_request(id),
                None => {
                    self.host.remove(id);
                    self.delayed.wake(Source::Room);
                }
            },
            State::Ready | State::Blocked | State::Dispatched | State::Ending => {}
        }
        while let Some(id) = self.host.dropped(conn) {
            self.host_answer_sent(id);
        }
        if self.tells_lives {
            self.events.gone(conn);
        }
    }

    fn count_gone(&self) {
        if let Some(dispatch) = &self.dispatch {
            dispatch.forget_one();
        }
    }

    fn host_answer_sent(&mut self, id: SlotId) {
        if self.host.sent(id) {
            self.events.push(EventSource::Host(id.index()));
        }
    }

    fn host_event(&mut self, index: usize) -> Option<BrokerEvent> {
        let owner = self.owner_value;
        let (id, request) = self.host.at_mut(index)?;
        let HostRequest { conn, key, version, user, .. } = *request;
        match core::mem::replace(&mut request.phase, Phase::Told) {
            Phase::Untold(body) => Some(BrokerEvent::Request {
                owner,
                conn,
                request: id,
                body,
                api_key: key.0,
                api_version: version,
            }),
            Phase::Sent => {
                self.host.remove(id);
                self.delayed.wake(Source::Room);
                Some(BrokerEvent::Sent { owner, user })
            }
            // The event of a request that was in this place before, and is gone.
            before @ (Phase::Told | Phase::Sending) => {
                request.phase = before;
                None
            }
        }
    }

    /// The network has told already of peers that broke the framing.
    fn log_closed(&self, conn: ConnId, reason: CloseReason) {
        let line = format_args!("connection {:x} has ended: {}", conn.raw(), reason.text());
        self.core.logger.line(Level::Debug, line);
    }

    /// Lets a connection go once its answers are written. Only while the broker closes.
    pub(super) fn end_connection<N: Selectable>(&mut self, net: &mut N, conn: ConnId) {
        net.close_after_flush(conn);
        self.connections.set(conn, State::Ending);
    }

    fn go_on_closing<N: Selectable>(&mut self, net: &mut N, now: Moment) {
        let End::Closing { by, .. } = self.end else { return };
        let late = now.at >= by;
        for index in 0..self.connections.capacity() {
            match self.connections.at(index) {
                Some((conn, State::Ending)) if net.queued(conn) == 0 => self.forget(conn),
                Some((conn, _)) if late => {
                    net.close(conn);
                    self.forget(conn);
                }
                _ => {}
            }
        }
        if self.connections.len() == 0 {
            self.end = End::Closed;
            self.events.push(EventSource::Broker);
        } else {
            self.end = End::Closing { by, look: now.at.after(LOOK).min(by) };
        }
    }
}

/// What the selector gives each connection of a broker.
pub(super) fn channel_options(config: &BrokerConfig, owner: Owner) -> ChannelOptions {
    ChannelOptions {
        owner,
        receive_max: config.request_max_bytes.min(REQUEST_MAX_BYTES),
        receive_first: RECEIVE_FIRST,
        max_idle: config.max_idle,
        send_buffer: config.send_buffer,
        receive_buffer: config.receive_buffer,
    }
}
