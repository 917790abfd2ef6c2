//! Channel: one connection: its socket, its receive in progress, its queue of sends.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::channel_state::{Life, LifeEvent, Mute, MuteEvent};
use super::pool::BufferPool;
use super::receive::Receive;
use super::send_queue::{SendQueue, SendTable};
use super::{ChannelOptions, CloseReason, Notice, Owner};
use crate::time::Instant;
use core::time::Duration;
use mio::net::TcpStream;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

/// One bit for each kind of [`Notice`] that waits to be taken.
pub(super) mod news {
    pub(in crate::net) const ACCEPTED: u8 = 1;
    pub(in crate::net) const CONNECTED: u8 = 1 << 1;
    pub(in crate::net) const SENT: u8 = 1 << 2;
    pub(in crate::net) const FRAMES: u8 = 1 << 3;
    pub(in crate::net) const DRAINED: u8 = 1 << 4;
    pub(in crate::net) const CLOSED: u8 = 1 << 5;
}

/// One connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: TcpStream,
    pub(super) receive: Receive,
    pub(super) queue: SendQueue,
    pub(super) owner: Owner,
    life: Life,
    mute: Mute,
    /// What waits to be taken: bits of [`news`].
    news: u8,
    /// The socket was full at the last write.
    pub(super) blocked: bool,
    /// A send was refused for the queue's size since the last [`Notice::Drained`].
    pub(super) refused: bool,
    /// The socket was ready and nobody has noted when.
    pub(super) stirred: bool,
    reason: CloseReason,
    peer: Option<SocketAddr>,
    /// When something last happened.
    pub(super) active: Instant,
    /// Ends when nothing happened for so many nanoseconds; 0 for never.
    max_idle: u64,
}

impl Channel {
    pub(super) fn new(
        socket: TcpStream,
        peer: Option<SocketAddr>,
        life: Life,
        options: &ChannelOptions,
        pool: &BufferPool,
        now: Instant,
    ) -> Self {
        Channel {
            socket,
            receive: Receive::new(options, pool),
            queue: SendQueue::new(),
            owner: options.owner,
            life,
            mute: Mute::No,
            news: 0,
            blocked: false,
            refused: false,
            stirred: false,
            reason: CloseReason::PeerClosed,
            peer,
            active: now,
            max_idle: u64::try_from(options.max_idle.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    #[inline]
    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    #[inline]
    pub(super) fn life(&self) -> Life {
        self.life
    }

    /// Moves on, if the table of moves allows it; says whether it did.
    pub(super) fn moves(&mut self, event: LifeEvent) -> bool {
        let after = self.life.after(event);
        self.life = after.unwrap_or(self.life);
        after.is_some()
    }

    /// Ends for `reason`: what is at hand and what is queued is dropped. Says whether the owner is
    /// to hear of it; if not, the channel is gone.
    pub(super) fn fail(&mut self, reason: CloseReason, table: &mut SendTable) -> bool {
        // The first reason stands: a peer that closed is not one whose socket failed afterwards.
        if self.life != Life::Draining {
            self.reason = reason;
        }
        if !self.moves(LifeEvent::Failed) {
            return false;
        }
        self.receive.discard();
        self.queue.discard(table);
        self.news &= !(news::FRAMES | news::DRAINED);
        self.life == Life::Ended
    }

    /// Whether frames are read from it.
    #[inline]
    pub(super) fn reads(&self) -> bool {
        matches!(self.life, Life::Open) && self.mute.reads()
    }

    /// Whether it would be read if there were memory.
    pub(super) fn would_read(&self) -> bool {
        matches!(self.life, Life::Open) && !self.mute.by_owner()
    }

    /// The owner lets go: nothing is read any more, and no news is kept for it.
    pub(super) fn let_go(&mut self) {
        self.receive.discard();
        self.news = 0;
    }

    /// Mutes or unmutes.
    pub(super) fn mutes(&mut self, event: MuteEvent) {
        let after = self.mute.after(event);
        debug_assert!(after.is_some(), "{event:?} while {:?}", self.mute);
        self.mute = after.unwrap_or(self.mute);
        if !self.mute.reads() {
            self.news &= !news::FRAMES;
        }
    }

    #[inline]
    pub(super) fn add_news(&mut self, bits: u8) {
        self.news |= bits;
    }

    pub(super) fn has_news(&self) -> bool {
        self.news != 0
    }

    /// A send is refused: whatever was said about room before is not true any more.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
        self.news &= !news::DRAINED;
    }

    /// Takes the next piece of news. [`Notice::Closed`] comes last and is left standing: whoever
    /// gets it takes the channel out of its table.
    #[inline]
    pub(super) fn take_news(&mut self, table: &mut SendTable) -> Option<Notice> {
        let first = self.news & self.news.wrapping_neg();
        match first {
            news::SENT => {
                let token = self.queue.take_sent(table);
                if !self.queue.has_sent() {
                    self.news &= !news::SENT;
                }
                return token.map(Notice::Sent);
            }
            news::CLOSED => return Some(Notice::Closed(self.reason)),
            _ => self.news &= !first,
        }
        match first {
            news::ACCEPTED => Some(Notice::Accepted),
            news::CONNECTED => Some(Notice::Connected),
            news::FRAMES => Some(Notice::Frames),
            news::DRAINED => Some(Notice::Drained),
            _ => None,
        }
    }

    /// When it ends if nothing happens.
    pub(super) fn idle_at(&self) -> Option<Instant> {
        if self.max_idle == 0 {
            return None;
        }
        Some(self.active.after(Duration::from_nanos(self.max_idle)))
    }

    /// From now on nothing may happen for at most so long.
    pub(super) fn limit_idle(&mut self, at_most: Duration) {
        let at_most = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        self.max_idle = if self.max_idle == 0 { at_most } else { self.max_idle.min(at_most) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_small() {
        // A table of 10,000 is 2.4 MB; debug builds of mio add their bookkeeping.
        assert!(size_of::<Channel>() <= 248, "{}", size_of::<Channel>());
    }
}
