//! A processor's thread: the loop of one selector, with the connections dealt to it.

use super::Shared;
use crate::broker::server::Broker;
use crate::broker::{BrokerEvent, dispatch::Dispatch};
use crate::error::Error;
use crate::logging::Level;
use crate::net::ChannelOptions;
use crate::net::selector::Selector;
use crate::sync::{Arc, Ordering};
use crate::time::{Clock, Instant, Moment, SystemClock};
use std::os::fd::OwnedFd;

/// One processor: its selector, and the broker's state of its connections.
#[derive(Debug)]
pub(super) struct Processor {
    shared: Arc<Shared>,
    number: usize,
    selector: Selector,
    broker: Broker,
    options: ChannelOptions,
    closing: bool,
}

impl Processor {
    pub(super) fn new(
        shared: Arc<Shared>,
        number: usize,
        selector: Selector,
        options: ChannelOptions,
    ) -> Self {
        let dispatch = Dispatch::new(Arc::clone(&shared), number);
        let connections = shared.processor_connections;
        let broker = Broker::dispatching(Arc::clone(&shared.core), connections, options, dispatch);
        Processor { shared, number, selector, broker, options, closing: false }
    }

    /// Runs turns until the reactor stops and the connections are closed.
    ///
    /// # Errors
    /// The poller failed.
    pub(super) fn work(&mut self) -> Result<(), Error> {
        loop {
            let now = moment(&self.shared.clock);
            let until = self.until(now.at);
            self.selector.wait(until, now.at)?;
            let now = moment(&self.shared.clock);
            #[cfg(test)]
            assert!(!self.shared.panics[1].swap(false, Ordering::SeqCst));
            // Whoever posts after this sets the flag again, so no post is overlooked.
            self.selector.take_posted();
            self.close_if_told(now);
            self.take_sockets();
            self.broker.take_responses(&mut self.selector, now);
            while let Some((conn, _, notice)) = self.selector.next_notice(now.at) {
                self.broker.on_notice(&mut self.selector, conn, notice, now);
            }
            self.broker.turn(&mut self.selector, now);
            self.selector.flush();
            self.broker.end_turn();
            let work = self.broker.wants_turn();
            self.selector.settle(work, self.broker.next_deadline(), now.at);
            if let Some(BrokerEvent::Closed { .. }) = self.broker.next_event() {
                self.refuse_sockets();
                return Ok(());
            }
        }
    }

    fn until(&self, now: Instant) -> Option<Instant> {
        if self.broker.wants_turn() { Some(now) } else { self.broker.next_deadline() }
    }

    fn close_if_told(&mut self, now: Moment) {
        if self.closing || !self.shared.closes.load(Ordering::SeqCst) {
            return;
        }
        self.closing = true;
        let grace = *self.shared.grace.lock();
        self.broker.close(&mut self.selector, grace, now);
    }

    fn take_sockets(&mut self) {
        while let Some(socket) = self.next_socket() {
            if let Err(error) = self.selector.adopt(socket, &self.options) {
                self.shared.open.fetch_sub(1, Ordering::Relaxed);
                let line = format_args!("a connection was not taken: {error}");
                self.shared.core.logger.line(Level::Warn, line);
            }
        }
    }

    fn refuse_sockets(&mut self) {
        while let Some(socket) = self.next_socket() {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            drop(socket);
        }
    }

    fn next_socket(&self) -> Option<OwnedFd> {
        let socket = self.shared.mailboxes.get(self.number)?.sockets.pop()?;
        if self.shared.acceptor_holds.swap(false, Ordering::SeqCst) {
            self.shared.acceptor.wake();
        }
        Some(socket)
    }
}

fn moment(clock: &SystemClock) -> Moment {
    Moment { at: clock.now(), wall_ms: clock.wall_ms() }
}
