//! Served: a broker of the engine: polled in the engine's own turns, or on threads of its own.

use super::{Engine, Event};
use crate::broker::{Broker, BrokerEvent, BrokerStats, HostThreads, Reactor, ReactorConfig};
use crate::error::Error;
use crate::net::selector::{ListenerId, Selector};
use crate::net::slots::SlotId;
use crate::net::{ConnId, Notice, Selectable};
use crate::time::{Instant, Moment};
use core::time::Duration;
use std::net::SocketAddr;

/// A broker, and how it is run.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) runs: Runs,
    pub(super) listener: Option<ListenerId>,
    /// Where it listens or listened.
    pub(super) address: Option<SocketAddr>,
    pub(super) user: u64,
}

/// How a broker is run.
#[derive(Debug)]
pub(super) enum Runs {
    /// In the engine's turns.
    Polled(Box<Broker>),
    /// On its own threads.
    Reactor {
        reactor: Reactor,
        /// Its end was told.
        told: bool,
    },
}

impl Served {
    pub(super) fn on_notice(
        &mut self,
        net: &mut Selector,
        conn: ConnId,
        notice: Notice,
        now: Moment,
    ) {
        match &mut self.runs {
            Runs::Polled(broker) => broker.on_notice(net, conn, notice, now),
            // It was taken just before the threads began: its client connects again.
            Runs::Reactor { .. } => net.close(conn),
        }
    }

    pub(super) fn turn(&mut self, net: &mut Selector, now: Moment) {
        match &mut self.runs {
            Runs::Polled(broker) => broker.turn(net, now),
            Runs::Reactor { reactor, .. } => {
                if reactor.has_failed() {
                    reactor.try_stop(now.at);
                }
            }
        }
    }

    pub(super) fn next_event(&mut self) -> Option<BrokerEvent> {
        match &mut self.runs {
            Runs::Polled(broker) => broker.next_event(),
            Runs::Reactor { reactor, told } => {
                let closed = reactor.is_stopped() && !core::mem::replace(told, true);
                closed.then_some(BrokerEvent::Closed { owner: self.user })
            }
        }
    }

    pub(super) fn wants_turn(&self) -> bool {
        match &self.runs {
            Runs::Polled(broker) => broker.wants_turn(),
            Runs::Reactor { reactor, .. } => {
                let begun = reactor.is_stopped() || reactor.ends_by().is_some();
                reactor.has_failed() && !begun
            }
        }
    }

    pub(super) fn has_events(&self) -> bool {
        match &self.runs {
            Runs::Polled(broker) => broker.has_events(),
            Runs::Reactor { reactor, told } => reactor.is_stopped() && !*told,
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match &self.runs {
            Runs::Polled(broker) => broker.next_deadline(),
            Runs::Reactor { reactor, .. } => reactor.ends_by(),
        }
    }

    /// Where it listens now.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let listens = match &self.runs {
            Runs::Polled(_) => self.listener.is_some(),
            Runs::Reactor { reactor, .. } => !reactor.is_stopped(),
        };
        self.address.filter(|_| listens)
    }

    fn close(&mut self, net: &mut Selector, grace: Duration, now: Moment) {
        if let Some(listener) = self.listener.take() {
            net.unlisten(listener);
        }
        match &mut self.runs {
            Runs::Polled(broker) => broker.close(net, grace, now),
            Runs::Reactor { reactor, .. } => reactor.stop(grace),
        }
    }
}

impl Engine {
    /// Gives a broker that listens, and that has taken no connection yet, threads of its own. What
    /// it knows (topics, the log) stays; the engine only tells of its end from then on. Requests that
    /// the host answers come out of the [`HostThreads`].
    ///
    /// # Errors
    /// [`Error::Invalid`] if it does not listen, has had connections, or has threads already; or
    /// what [`Reactor::start`] gives, and the broker then listens no more.
    pub fn start_broker(
        &mut self,
        id: SlotId,
        config: ReactorConfig,
    ) -> Result<HostThreads, Error> {
        let waker = self.selector.waker();
        let served = self.brokers.get_mut(id).ok_or(Error::Stale)?;
        let Runs::Polled(broker) = &served.runs else {
            return Err(Error::Invalid("the broker has threads already"));
        };
        if !broker.is_fresh() {
            return Err(Error::Invalid("the broker has served connections, or closes"));
        }
        config.check()?;
        let config = ReactorConfig { prefault: config.prefault || self.prefault, ..config };
        let listener = served.listener.take();
        let listener = listener.and_then(|listener| self.selector.release_listener(listener));
        let listener = listener.ok_or(Error::Invalid("the broker does not listen"))?;
        let reactor = Reactor::take_over(broker, config, listener, waker)?;
        let threads = reactor.host_threads();
        served.runs = Runs::Reactor { reactor, told: false };
        Ok(threads)
    }

    /// Ends the threads of a broker: what is in flight is answered for at most `grace`, connections
    /// close, threads are joined. Waits for that. [`BrokerEvent::Closed`] follows. A second call does
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Stale`], or [`Error::Invalid`] for a broker without threads.
    pub fn stop_broker(&mut self, id: SlotId, grace: Duration) -> Result<(), Error> {
        let served = self.brokers.get_mut(id).ok_or(Error::Stale)?;
        let Runs::Reactor { reactor, .. } = &mut served.runs else {
            return Err(Error::Invalid("the broker has no threads"));
        };
        reactor.stop(grace);
        self.touch();
        Ok(())
    }

    /// In a child process: threads of brokers are the parent's, and nothing may wait for them.
    pub fn forget_threads(&mut self) {
        for index in 0..self.brokers.capacity() {
            if let Some((_, Served { runs: Runs::Reactor { reactor, .. }, .. })) =
                self.brokers.at_mut(index)
            {
                reactor.forget_threads();
            }
        }
    }

    /// Ends the threads of all brokers at once. All that may be asked of an engine in which a bug was
    /// caught, before it is given up.
    pub fn stop_threads(&mut self) {
        self.inbox.close();
        for index in 0..self.brokers.capacity() {
            if let Some((_, Served { runs: Runs::Reactor { reactor, .. }, .. })) =
                self.brokers.at_mut(index)
            {
                reactor.stop(Duration::ZERO);
            }
        }
    }

    /// Stops accepting, answers what is in flight for at most `grace`, closes the connections;
    /// [`BrokerEvent::Closed`] follows. With threads of its own it waits for that.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn close_broker(&mut self, id: SlotId, grace: Duration) -> Result<(), Error> {
        let now = self.moment();
        let served = self.brokers.get_mut(id).ok_or(Error::Stale)?;
        served.close(&mut self.selector, grace, now);
        self.touch();
        Ok(())
    }

    /// Runs a call on a polled broker, and wakes the host's loop if it left work.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Unsupported`] for a broker with threads of its own, or what the
    /// call gives.
    pub fn with_broker<R>(
        &mut self,
        id: SlotId,
        call: impl FnOnce(&mut Broker, &mut Selector, Moment) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let now = self.moment();
        let served = self.brokers.get_mut(id).ok_or(Error::Stale)?;
        let Runs::Polled(broker) = &mut served.runs else {
            return Err(Error::Unsupported("this call on a broker with threads of its own"));
        };
        let result = call(broker, &mut self.selector, now);
        self.touch();
        result
    }

    /// What a broker counted, however it is run.
    pub fn broker_stats(&self, id: SlotId) -> Option<BrokerStats> {
        Some(match &self.brokers.get(id)?.runs {
            Runs::Polled(broker) => broker.stats(),
            Runs::Reactor { reactor, .. } => reactor.stats(),
        })
    }

    /// The next event of the broker at an index.
    pub(super) fn broker_event(&mut self, index: usize) -> Option<Event> {
        let (_, served) = self.brokers.at_mut(index)?;
        served.next_event().map(Event::Broker)
    }
}
