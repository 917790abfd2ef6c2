//! The selector as clients and brokers see it: [`Selectable`].
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::{Selector, SendBuilder, conn_id, slot_id};
use crate::error::Error;
use crate::net::channel::news;
use crate::net::channel_state::{Life, LifeEvent, MuteEvent};
use crate::net::pool::Priority;
use crate::net::receive::Received;
use crate::net::send::SIZE;
use crate::net::sys::socket::{self, Options};
use crate::net::{
    BufferPool, ChannelOptions, CloseReason, ConnId, ExchangeId, Owner, Selectable, SendRefused,
    SharedLease, Transport,
};
use core::time::Duration;
use mio::net::TcpStream;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// How long a channel that its owner let go may take over writing without any progress.
const FINISH_MAX: Duration = Duration::from_secs(30);

impl Selector {
    /// Takes a connected stream socket as a channel; [`super::Notice::Accepted`] follows.
    ///
    /// # Errors
    /// No room for another channel (the socket is closed), or the system refuses it.
    pub fn adopt(&mut self, socket: OwnedFd, options: &ChannelOptions) -> Result<ConnId, Error> {
        socket::set_nonblocking(socket.as_raw_fd())?;
        // Not every stream is TCP; one that has no such options works without.
        let _ = socket::configure(socket.as_raw_fd(), Options::of(options));
        let socket = std::net::TcpStream::from(socket);
        let peer = socket.peer_addr().ok();
        let slot = self.open(TcpStream::from_std(socket), peer, Life::Open, options)?;
        self.announce(slot, news::ACCEPTED);
        Ok(conn_id(slot))
    }

    /// Whether another send fits the channel's queue and the selector's table.
    fn has_room(&self, queued: usize) -> bool {
        queued < self.send_queue_max && self.sends.has_room()
    }
}

impl Selectable for Selector {
    fn connect(&mut self, to: SocketAddr, options: &ChannelOptions) -> Result<ConnId, Error> {
        if self.channels.is_full() {
            return Err(Error::Exhausted("connections"));
        }
        let (socket, result) = socket::connect(to, Options::of(options))?;
        let socket = TcpStream::from_std(socket);
        let slot = self.open(socket, Some(to), Life::Connecting, options)?;
        if let Err(error) = result {
            // A refusal that is known at once is told as one that comes later.
            let errno = error.raw_os_error().unwrap_or(0);
            self.fail(slot, CloseReason::ConnectFailed(errno));
        }
        Ok(conn_id(slot))
    }

    fn close(&mut self, conn: ConnId) {
        self.remove(slot_id(conn));
    }

    fn close_after_flush(&mut self, conn: ConnId) {
        let (slot, index) = (slot_id(conn), conn.index());
        let Some(channel) = self.channels.get_mut(slot) else { return };
        let life = channel.life();
        if life == Life::Finishing {
            return;
        }
        if !channel.moves(LifeEvent::CloseAfterFlush) {
            return self.remove(slot);
        }
        channel.let_go();
        self.ready.remove(index);
        self.starved.remove(index);
        self.short.remove(index);
        self.parched.remove(index);
        if self.current == Some(conn) {
            self.current = None;
        }
        if channel.queue.is_empty() {
            if life != Life::Connecting {
                socket::finish(channel.fd());
            }
            return self.remove(slot);
        }
        channel.active = self.now;
        channel.limit_idle(FINISH_MAX);
        if let Some(at) = channel.idle_at() {
            self.timers.set(index, at);
        }
        if !channel.blocked {
            self.flush.push_back(index);
            self.stir();
        }
    }

    #[inline]
    fn next_frame(&mut self, conn: ConnId) -> Option<SharedLease> {
        let slot = slot_id(conn);
        let channel = self.channels.get_mut(slot)?;
        if !channel.reads() {
            return None;
        }
        if self.spent && channel.receive.has_more() {
            self.announce(slot, news::FRAMES);
            if self.current == Some(conn) {
                self.current = None;
            }
            return None;
        }
        let returns = self.pool.returns();
        let fd = channel.fd();
        match channel.receive.next(fd, &self.pool, &mut self.reading) {
            Received::Frame(frame) => return Some(frame),
            Received::Dry => {}
            Received::OverBudget => self.announce(slot, news::FRAMES),
            Received::NoMemory => {
                channel.mutes(MuteEvent::MemoryOut);
                if self.starved.is_empty() {
                    self.starved_at = returns;
                    self.starving = self.now;
                }
                self.starved.push_back(slot.index());
                self.pool.await_return();
            }
            Received::Ended(CloseReason::PeerClosed) => self.peer_closed(slot),
            Received::Ended(reason) => self.fail(slot, reason),
        }
        if self.current == Some(conn) {
            self.current = None;
        }
        None
    }

    #[inline]
    fn charge(&mut self, bytes: usize) {
        self.spent |= bytes > 0 && bytes >= self.reading.budget;
        self.reading.budget = self.reading.budget.saturating_sub(bytes);
    }

    fn mute(&mut self, conn: ConnId) {
        if let Some(channel) = self.channels.get_mut(slot_id(conn)) {
            channel.mutes(MuteEvent::Mute);
        }
    }

    fn unmute(&mut self, conn: ConnId) {
        let Some(channel) = self.channels.get_mut(slot_id(conn)) else { return };
        channel.mutes(MuteEvent::Unmute);
        if channel.reads() && channel.receive.has_more() {
            self.announce(slot_id(conn), news::FRAMES);
        }
    }

    #[inline]
    fn begin_send(&mut self, conn: ConnId, scratch: usize) -> Result<SendBuilder, SendRefused> {
        let slot = slot_id(conn);
        let Some(channel) = self.channels.get_mut(slot) else { return Err(SendRefused::Stale) };
        if !channel.life().takes_sends() {
            return Err(SendRefused::Stale);
        }
        if channel.queue.bytes() >= self.send_queue_max {
            channel.refuse();
            return Err(SendRefused::Full);
        }
        let Some(pieces) = self.sends.begin() else {
            channel.refuse();
            self.short.push_back(slot.index());
            return Err(SendRefused::Full);
        };
        let returns = self.pool.returns();
        let block = channel.queue.take_scratch(scratch).or_else(|wanted| {
            let lease = self.pool.lease(wanted, Priority::Data);
            // Only what the frame needs itself may come out of the reserve.
            lease
                .or_else(|| self.pool.lease(scratch.saturating_add(SIZE), Priority::Control))
                .map(|lease| lease.into_append())
                .ok_or(SendRefused::NoMemory)
        });
        match block {
            Ok(block) => Ok(SendBuilder::new(block, pieces, scratch)),
            Err(refused) => {
                self.sends.end(pieces);
                channel.refuse();
                if self.parched.is_empty() {
                    self.parched_at = returns;
                }
                self.parched.push_back(slot.index());
                self.pool.await_return();
                Err(refused)
            }
        }
    }

    #[inline]
    fn send(&mut self, conn: ConnId, send: SendBuilder, token: Option<u64>) -> Result<(), Error> {
        let slot = slot_id(conn);
        let Some(channel) = self.channels.get_mut(slot) else { return Err(Error::Stale) };
        let life = channel.life();
        if !life.takes_sends() {
            return Err(Error::Stale);
        }
        channel.queue.push(&mut self.sends, send, token);
        if life == Life::Open && !channel.blocked {
            self.flush.push_back(slot.index());
            self.stir();
        }
        Ok(())
    }

    fn can_send(&self, conn: ConnId) -> bool {
        self.channels.get(slot_id(conn)).is_some_and(|channel| {
            channel.life().takes_sends() && self.has_room(channel.queue.bytes())
        })
    }

    fn queued(&self, conn: ConnId) -> usize {
        self.channels.get(slot_id(conn)).map_or(0, |channel| channel.queue.bytes())
    }

    fn peer(&self, conn: ConnId) -> Option<SocketAddr> {
        self.channels.get(slot_id(conn))?.peer()
    }

    fn local(&self, conn: ConnId) -> Option<SocketAddr> {
        self.channels.get(slot_id(conn))?.local()
    }

    fn ask(
        &mut self,
        server: SocketAddr,
        over: Transport,
        question: &[u8],
        owner: Owner,
    ) -> Result<ExchangeId, Error> {
        let registry = self.poll.registry();
        self.writing.calls += 1;
        self.exchanges.ask(registry, &self.pool, server, over, question, owner)
    }

    fn next_answer(&mut self, exchange: ExchangeId) -> Result<Option<SharedLease>, Error> {
        self.reading.calls += 1;
        let answer = self.exchanges.next_answer(self.poll.registry(), &self.pool, exchange);
        if !self.exchanges.ready.is_empty() {
            self.stir();
        }
        answer
    }

    fn end_exchange(&mut self, exchange: ExchangeId) {
        self.exchanges.end(self.poll.registry(), exchange);
    }

    fn pool(&self) -> &BufferPool {
        &self.pool
    }
}
