//! What moves channels along inside of a turn: edges, connections taken, writes, memory that came
//! back, timers.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::{ALARM, SIGNAL, Selector, slot_id};
use crate::error::Error;
use crate::logging::Level;
use crate::net::channel::{Channel, news};
use crate::net::channel_state::{Life, LifeEvent, MuteEvent};
use crate::net::exchange::TOKEN_BIT;
use crate::net::list::IndexList;
use crate::net::listener::{Accepted, Rest};
use crate::net::send_queue::Written;
use crate::net::slots::SlotId;
use crate::net::sys::socket;
use crate::net::{ChannelOptions, CloseReason};
use crate::time::Instant;
use core::time::Duration;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use std::net::SocketAddr;

/// In a poller's token: the rest is a channel's place. Within 32 bits, as all tokens must be.
const CHANNEL_BIT: usize = 1 << 30;

/// Connections one listener gives in one turn.
const ACCEPTS: usize = 128;

/// How long channels wait for memory before those that keep it and do nothing are ended.
pub(super) const STALL_MAX: Duration = Duration::from_secs(10);

impl Selector {
    /// Takes over what the poller found.
    pub(super) fn collect(&mut self) {
        let events = core::mem::replace(&mut self.events, Events::with_capacity(0));
        self.counters.wakeups += u64::from(!events.is_empty());
        let mut taken = 0;
        for event in &events {
            taken += 1;
            match event.token() {
                SIGNAL => self.signal_seen = true,
                ALARM => {
                    self.alarm.clear();
                    self.armed = None;
                }
                token => self.on_edge(token, event),
            }
        }
        // A host that watches edge-triggered is not told again of those that are still in there.
        self.more_edges = taken == events.capacity();
        self.events = events;
        self.accept();
    }

    fn on_edge(&mut self, token: Token, event: &Event) {
        if token.0 & TOKEN_BIT != 0 {
            return self.exchanges.on_edge(token.0 & !TOKEN_BIT);
        }
        if token.0 & CHANNEL_BIT == 0 {
            if let Some(listener) = self.listeners.at(token.0) {
                listener.pending = true;
            }
            return;
        }
        let failed = event.is_error() || event.is_write_closed();
        // The place is enough: none is used again before the edges of a turn are handled.
        let Some((slot, channel)) = self.channels.at_mut(token.0 & !CHANNEL_BIT) else { return };
        channel.stirred = true;
        if channel.life() == Life::Connecting {
            return self.on_connect(slot, event, failed);
        }
        if channel.life() == Life::Finishing && failed {
            return self.remove(slot);
        }
        self.on_ready(slot, event, failed);
    }

    /// A connect has an outcome, unless the edge was about nothing.
    fn on_connect(&mut self, slot: SlotId, event: &Event, failed: bool) {
        let Some(channel) = self.channels.get_mut(slot) else { return };
        let socket = channel.socket();
        let errno = match socket.take_error() {
            Ok(None) if socket.peer_addr().is_ok() => None,
            Ok(None) if !failed => return,
            Ok(None) => Some(libc::ECONNABORTED),
            Ok(Some(error)) | Err(error) => Some(error.raw_os_error().unwrap_or(0)),
        };
        if let Some(errno) = errno {
            return self.fail(slot, CloseReason::ConnectFailed(errno));
        }
        channel.moves(LifeEvent::Established);
        if !channel.queue.is_empty() {
            self.flush.push_back(slot.index());
        }
        self.announce(slot, news::CONNECTED);
        self.on_ready(slot, event, failed);
    }

    fn on_ready(&mut self, slot: SlotId, event: &Event, failed: bool) {
        let Some(channel) = self.channels.get_mut(slot) else { return };
        if event.is_writable() && channel.blocked {
            channel.blocked = false;
            if !channel.queue.is_empty() {
                self.flush.push_back(slot.index());
            }
        }
        let peer_closed = event.is_read_closed() || failed;
        if event.is_readable() || peer_closed {
            channel.receive.set_readable(peer_closed);
            if channel.reads() {
                self.announce(slot, news::FRAMES);
            }
        }
    }

    fn accept(&mut self) {
        if !self.listeners.any_pending() {
            return;
        }
        for place in 0..self.listeners.len() {
            for _ in 0..ACCEPTS {
                let Some(listener) = self.listeners.at(place) else { break };
                if self.channels.is_full() {
                    return;
                }
                let options = listener.options;
                match listener.accept() {
                    Accepted::Connection(socket, peer) => self.take(socket, peer, &options),
                    Accepted::Lost => {}
                    Accepted::Empty => break,
                    Accepted::Exhausted(errno) => {
                        let text = format_args!("no connections taken for now: errno {errno}");
                        self.logger.line(Level::Warn, text);
                        break;
                    }
                }
            }
        }
    }

    fn take(&mut self, socket: TcpStream, peer: SocketAddr, options: &ChannelOptions) {
        self.counters.accepts += 1;
        // Linux hands the listener's options down.
        #[cfg(not(target_os = "linux"))]
        let _ = socket::configure(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            socket::Options::of(options),
        );
        match self.open(socket, Some(peer), Life::Open, options) {
            Ok(slot) => self.announce(slot, news::ACCEPTED),
            Err(error) => {
                self.logger.line(Level::Warn, format_args!("a connection was not taken: {error}"));
            }
        }
    }

    /// Makes a channel of a socket.
    pub(super) fn open(
        &mut self,
        mut socket: TcpStream,
        peer: Option<SocketAddr>,
        life: Life,
        options: &ChannelOptions,
    ) -> Result<SlotId, Error> {
        const FULL: Error = Error::Exhausted("connections");
        let slot = self.channels.next_id().ok_or(FULL)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut socket, Token(CHANNEL_BIT | slot.index()), interest)?;
        let channel = Channel::new(socket, peer, life, options, &self.pool, self.now);
        if let Some(at) = channel.idle_at() {
            self.timers.set(slot.index(), at);
        }
        self.channels.insert(channel).map_err(|_| FULL)
    }

    /// Puts a channel with news where the driver finds it.
    pub(super) fn announce(&mut self, slot: SlotId, bits: u8) {
        if let Some(channel) = self.channels.get_mut(slot) {
            channel.add_news(bits);
            self.ready.push_back(slot.index());
            self.stir();
        }
    }

    /// The owner of the last announced frames turned to something else. If it left any and did not
    /// mute, it is told again later.
    pub(super) fn leave_current(&mut self) {
        let Some(conn) = self.current.take() else { return };
        if let Some(channel) = self.channels.get_mut(slot_id(conn))
            && channel.reads()
            && channel.receive.has_more()
        {
            self.announce(slot_id(conn), news::FRAMES);
        }
    }

    /// A channel ends by itself; its owner hears of it last.
    pub(super) fn fail(&mut self, slot: SlotId, reason: CloseReason) {
        let Some(channel) = self.channels.get_mut(slot) else { return };
        if matches!(reason, CloseReason::Http | CloseReason::Tls | CloseReason::NegativeSize)
            || matches!(reason, CloseReason::TooLarge(_) | CloseReason::Stalled)
        {
            let text = reason.text();
            match channel.peer() {
                Some(peer) => self.logger.line(Level::Warn, format_args!("{peer}: {text}")),
                None => self.logger.line(Level::Warn, format_args!("{text}")),
            }
            // What was asked before the fault is answered, as far as the socket takes it at once.
            self.flush.remove(slot.index());
            self.write(slot.index());
        }
        let Some(channel) = self.channels.get_mut(slot) else { return };
        if channel.fail(reason, &mut self.sends) {
            self.leave_lists(slot.index());
            self.announce(slot, news::CLOSED);
        } else if channel.life() == Life::Gone {
            self.remove(slot);
        }
    }

    /// The peer has closed and all its frames were handed out. What is queued is still written: a
    /// peer that only ended its requests gets their answers.
    pub(super) fn peer_closed(&mut self, slot: SlotId) {
        let Some(channel) = self.channels.get_mut(slot) else { return };
        channel.receive.discard();
        if channel.moves(LifeEvent::PeerClosed) && channel.queue.is_empty() {
            self.written(slot);
        }
    }

    /// Nothing is queued any more: what waited for that ends.
    fn written(&mut self, slot: SlotId) {
        let Some(channel) = self.channels.get_mut(slot) else { return };
        let life = channel.life();
        if !matches!(life, Life::Draining | Life::Finishing) {
            return;
        }
        channel.moves(LifeEvent::Written);
        if life == Life::Finishing {
            socket::finish(channel.fd());
            self.remove(slot);
        } else {
            self.leave_lists(slot.index());
            self.announce(slot, news::CLOSED);
        }
    }

    fn leave_lists(&mut self, index: usize) {
        self.flush.remove(index);
        self.starved.remove(index);
        self.short.remove(index);
        self.parched.remove(index);
        self.timers.clear(index);
    }

    /// Frees a channel's place; its id is stale from now on.
    pub(super) fn remove(&mut self, slot: SlotId) {
        let Some(mut channel) = self.channels.remove(slot) else { return };
        channel.moves(LifeEvent::Released);
        channel.queue.clear(&mut self.sends);
        // Closing takes it out of the poller, unless somebody else holds the socket too.
        let _ = self.poll.registry().deregister(channel.socket());
        self.ready.remove(slot.index());
        self.leave_lists(slot.index());
        if self.current == Some(super::conn_id(slot)) {
            self.current = None;
        }
        if self.listeners.any_pending() {
            self.stir();
        }
    }

    /// Writes what one channel has queued.
    pub(super) fn write(&mut self, index: usize) {
        let Some((slot, channel)) = self.channels.at_mut(index) else { return };
        if !channel.life().writes() || channel.blocked {
            return;
        }
        let fd = channel.fd();
        let result = channel.queue.write(&mut self.sends, fd, &mut self.writing);
        channel.active = self.now;
        channel.blocked = result == Written::Blocked;
        let mut bits = 0;
        if channel.life() == Life::Finishing {
            // Nobody wants to know.
            while channel.queue.take_sent(&mut self.sends).is_some() {}
        } else if channel.queue.has_sent() {
            bits |= news::SENT;
        }
        if channel.refused
            && channel.life() == Life::Open
            && channel.queue.bytes() * 2 <= self.send_queue_max
        {
            if self.sends.has_room() {
                channel.refused = false;
                bits |= news::DRAINED;
            } else {
                self.short.push_back(index);
            }
        }
        if bits != 0 {
            self.announce(slot, bits);
        }
        match result {
            Written::All => self.written(slot),
            Written::Blocked => {}
            Written::Failed(errno) => self.fail(slot, CloseReason::Io(errno)),
        }
    }

    /// Writes the answers of the channel that was served last.
    pub(super) fn write_served(&mut self) {
        let Some(conn) = self.served.take() else { return };
        let index = conn.index();
        // Whether it is still that channel does not matter: whoever stands in the list is written.
        if self.flush.contains(index) {
            self.flush.remove(index);
            self.write(index);
        }
    }

    /// Tells channels that were refused a send for want of nodes that there are some.
    pub(super) fn serve_short(&mut self) {
        while !self.short.is_empty() && self.sends.has_room() {
            let Some(index) = self.short.pop_front() else { return };
            self.invite(index);
        }
    }

    /// Tells a channel that was refused a send to try again, unless its own queue is too long: then
    /// it hears of it when that is written.
    fn invite(&mut self, index: usize) {
        let Some((slot, channel)) = self.channels.at_mut(index) else { return };
        if channel.refused && channel.queue.bytes() * 2 <= self.send_queue_max {
            channel.refused = false;
            self.announce(slot, news::DRAINED);
        }
    }

    /// Whether a block came home that somebody waits for.
    pub(super) fn memory_is_back(&self) -> bool {
        let back = |list: &IndexList, at| !list.is_empty() && self.pool.returns() != at;
        back(&self.starved, self.starved_at) || back(&self.parched, self.parched_at)
    }

    /// Serves those who waited for memory, if a block came home since.
    pub(super) fn retry_memory(&mut self) {
        if !self.memory_is_back() {
            return;
        }
        let returns = self.pool.returns();
        self.parched_at = returns;
        while let Some(index) = self.parched.pop_front() {
            self.invite(index);
        }
        self.starved_at = returns;
        self.retry_starved();
    }

    /// Gives blocks to channels whose reads waited for one.
    fn retry_starved(&mut self) {
        // Whoever needs the same as one that was refused is refused as well.
        let mut refused = None;
        let mut next = self.starved.front();
        while let Some(index) = next {
            next = self.starved.after(index);
            let Some((slot, channel)) = self.channels.at_mut(index) else { continue };
            let needs = channel.receive.needs();
            let muted = !channel.would_read();
            if !muted && (refused == Some(needs) || !channel.receive.make_room(&self.pool)) {
                refused = Some(needs);
                continue;
            }
            self.starved.remove(index);
            channel.mutes(MuteEvent::MemoryBack);
            if channel.reads() {
                self.announce(slot, news::FRAMES);
            }
        }
        if !self.starved.is_empty() {
            self.pool.await_return();
        }
    }

    /// Ends channels that stand within a frame and gave no sign of life since before others began to
    /// wait for memory: else strangers who send parts of large frames could keep it from everybody.
    /// If that is not enough, those who waited all the time are next.
    pub(super) fn end_stalled(&mut self, now: Instant) {
        let since = self.starving;
        if self.starved.is_empty() || since.after(STALL_MAX) > now {
            return;
        }
        self.starving = now;
        for index in 0..self.channels.capacity() {
            let Some((slot, channel)) = self.channels.at_mut(index) else { continue };
            let silent = channel.active < since && channel.active.after(STALL_MAX) <= now;
            if silent && channel.would_read() && channel.receive.holds() && !channel.has_news() {
                self.fail(slot, CloseReason::Stalled);
            }
        }
    }

    /// Ends what has been idle for too long, and wakes listeners that rested.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(key) = self.timers.pop_due(now) {
            if let Some(place) = key.checked_sub(self.channels.capacity()) {
                if let Some(listener) = self.listeners.at(place) {
                    listener.rest = Rest::No;
                }
                continue;
            }
            let Some((slot, channel)) = self.channels.at_mut(key) else { continue };
            if core::mem::take(&mut channel.stirred) {
                // It was ready at some time since the timer was set: count from here.
                channel.active = now;
            }
            match channel.idle_at() {
                Some(at) if at > now => self.timers.set(key, at),
                Some(_) => self.fail(slot, CloseReason::Idle),
                None => {}
            }
        }
    }
}
