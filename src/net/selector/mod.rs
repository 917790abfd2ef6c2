//! Selector: one poll turn over all channels.
//!
//! **Sockets** are registered once, edge-triggered, for reading and writing. An edge that was seen
//! leaves the descriptor unreadable though bytes remain, so what is unfinished stands in a list:
//! `ready` (news to take), `flush` (sends to write), `starved` (reads without memory), `short` and
//! `parched` (sends refused). Each list holds a channel once, and nothing ever walks over all.
//!
//! **The descriptor** is readable while there is work: edges make it so by themselves, and whatever
//! is left at the end of a turn does by the signal ([`Selector::settle`]). Work that comes up
//! between turns signals at once.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

mod channels;
mod events;
#[cfg(test)]
mod tests;

use super::channel::Channel;
use super::channel_state::Life;
use super::exchange::Exchanges;
use super::list::IndexList;
use super::listener::{Listeners, Rest};
use super::receive::Reading;
use super::send_queue::{SendTable, Writing};
use super::slots::{SlotId, Slots};
use super::sys::level::{Alarm, Signal};
use super::timers::Timers;
use super::{BufferPool, ChannelOptions, ConnId, Notice, Owner, Timeout, TurnBudget};
use crate::error::Error;
use crate::logging::Logger;
use crate::time::Instant;
use core::time::Duration;
use mio::{Events, Poll, Token};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

pub use super::listener::ListenerId;
pub use super::send::SendBuilder;
pub use super::waker::Waker;

/// The poller's token of the signal and of the alarm. A channel's token is its id, whose upper half
/// is never 0; a listener's is its place.
const SIGNAL: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
/// Edges taken with one call; what is more comes in the next turn.
const EVENTS: usize = 1024;
/// Notices about exchanges in one turn at most.
const EXCHANGES_A_TURN: u32 = 32;
/// Frames that can be in the making at one time: one for each handler thread is usual.
const BUILDERS: core::ops::RangeInclusive<usize> = 64..=256;

/// The shape of a selector.
#[derive(Debug)]
pub struct SelectorConfig {
    /// Channels at most, listeners not counted.
    pub max_channels: usize,
    /// Listeners at most.
    pub max_listeners: usize,
    /// Questions to name servers under way at most.
    pub max_exchanges: usize,
    /// Pieces queued for sending at most, over all channels.
    pub max_pieces: usize,
    /// Bytes one channel may have queued before [`super::SendRefused::Full`].
    pub send_queue_max: usize,
    /// What one turn may do.
    pub budget: TurnBudget,
    /// Where lines go.
    pub logger: Logger,
}

impl SelectorConfig {
    /// Bytes that the selector's own tables take, all at its creation and none later. The poller's
    /// few hundred bytes and the kernel's part of each socket come on top.
    pub fn table_bytes(&self) -> usize {
        let channels = self.max_channels;
        Slots::<Channel>::bytes(channels)
            + 5 * IndexList::bytes(channels)
            + Timers::bytes(channels + self.max_listeners)
            + Listeners::bytes(self.max_listeners)
            + Exchanges::bytes(self.max_exchanges)
            + SendTable::bytes(self.max_pieces, self.builders())
            + EVENTS * size_of::<mio::event::Event>()
    }

    fn builders(&self) -> usize {
        self.max_channels.clamp(*BUILDERS.start(), *BUILDERS.end())
    }
}

/// What a selector has done since its creation. The first seven are system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Waits for readiness.
    pub waits: u64,
    /// Reads from sockets.
    pub receives: u64,
    /// Writes to sockets.
    pub sends: u64,
    /// Connections taken.
    pub accepts: u64,
    /// Times the descriptor was made readable by this thread.
    pub signals: u64,
    /// Times the descriptor was made unreadable.
    pub clears: u64,
    /// Times the timer was set.
    pub alarms: u64,
    /// Waits that found something.
    pub wakeups: u64,
    /// Bytes read from sockets.
    pub bytes_in: u64,
    /// Bytes written to sockets.
    pub bytes_out: u64,
}

/// All channels of one loop, behind one descriptor. One thread at a time.
#[derive(Debug)]
pub struct Selector {
    poll: Poll,
    events: Events,
    pool: BufferPool,
    channels: Slots<Channel>,
    listeners: Listeners,
    exchanges: Exchanges,
    /// Notices about exchanges that this turn may still give: a flood of forged answers must not
    /// keep channels waiting.
    exchanges_left: u32,
    sends: SendTable,
    send_queue_max: usize,
    /// Channels with news, in the order in which they are served.
    ready: IndexList,
    /// Channels with sends that the socket may take.
    flush: IndexList,
    /// Channels whose next read waits for memory.
    starved: IndexList,
    /// `returns` of the pool before the first of them was refused.
    starved_at: u64,
    /// Since when there was always one of them, as far as is known.
    starving: Instant,
    /// Channels that were refused a send for want of nodes.
    short: IndexList,
    /// Channels that were refused a send for want of memory.
    parched: IndexList,
    /// `returns` of the pool before the first of them was refused.
    parched_at: u64,
    /// The channel whose owner was told of frames and has not taken all.
    current: Option<ConnId>,
    /// The channel whose frames were announced last: what its owner queued is written when the
    /// driver turns to another, while it is warm in the cache and the peer can go on.
    served: Option<ConnId>,
    /// Keys below `max_channels` are idle channels, those above are resting listeners.
    timers: Timers,
    /// When the alarm goes off.
    armed: Option<Instant>,
    alarm: Alarm,
    waker: Waker,
    /// The waker's place in the pool.
    waiter: usize,
    /// The poller said that the signal is set.
    signal_seen: bool,
    /// The poller filled the table of edges, and may hold more of them.
    more_edges: bool,
    /// Between `wait` and `settle`: what is left is seen at the end.
    in_turn: bool,
    /// The latest time that was passed in.
    now: Instant,
    budget: TurnBudget,
    notices_left: u32,
    /// What was charged used up this turn's bytes: frames wait for the next one.
    spent: bool,
    reading: Reading,
    writing: Writing,
    counters: Counters,
    logger: Logger,
}

impl Selector {
    /// Makes the poller and takes the tables.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn new(config: SelectorConfig, pool: BufferPool) -> Result<Selector, Error> {
        let poll = Poll::new()?;
        let waker = Waker::new(Signal::new(poll.registry(), SIGNAL)?);
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        let waiter = pool.add_waiter(waker.clone())?;
        let channels = config.max_channels;
        // A turn that may do nothing would ask for another one for ever.
        let budget =
            TurnBudget { bytes: config.budget.bytes.max(1), notices: config.budget.notices.max(1) };
        Ok(Selector {
            poll,
            events: Events::with_capacity(EVENTS),
            channels: Slots::new(channels),
            listeners: Listeners::new(config.max_listeners),
            exchanges: Exchanges::new(config.max_exchanges),
            exchanges_left: 0,
            sends: SendTable::new(config.max_pieces, config.builders()),
            send_queue_max: config.send_queue_max,
            ready: IndexList::new(channels),
            flush: IndexList::new(channels),
            starved: IndexList::new(channels),
            starved_at: 0,
            starving: Instant::default(),
            short: IndexList::new(channels),
            parched: IndexList::new(channels),
            parched_at: 0,
            current: None,
            served: None,
            timers: Timers::new(channels + config.max_listeners),
            armed: None,
            alarm,
            waker,
            waiter,
            signal_seen: false,
            more_edges: false,
            in_turn: false,
            now: Instant::default(),
            notices_left: budget.notices,
            spent: false,
            reading: Reading { budget: budget.bytes, ..Reading::default() },
            budget,
            writing: Writing::default(),
            counters: Counters::default(),
            logger: config.logger,
            pool,
        })
    }

    /// The descriptor that is readable while there is work. Watch it for reading only.
    pub fn fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// Sleeps until readiness, a wake or `until`, whichever is first, and collects what is ready;
    /// does not sleep if work is left from the last turn. Starts a new budget.
    ///
    /// # Errors
    /// The poller failed.
    pub fn wait(&mut self, until: Timeout, now: Instant) -> Result<(), Error> {
        self.now = now;
        self.in_turn = true;
        self.notices_left = self.budget.notices;
        self.exchanges_left = EXCHANGES_A_TURN;
        self.spent = false;
        self.reading.budget = self.budget.bytes;
        self.expire(now);
        self.end_stalled(now);
        self.retry_memory();
        let sleep = !self.has_work() && until.is_none_or(|until| until > now);
        if sleep && let Some(at) = earlier(until, self.next_deadline()) {
            self.arm(at, now)?;
        }
        self.counters.waits += 1;
        // The alarm ends the sleep: the poller's own timeout is in whole milliseconds.
        match self.poll.poll(&mut self.events, if sleep { None } else { Some(Duration::ZERO) }) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        self.collect();
        Ok(())
    }

    /// Takes the next piece of news within the turn's budget. What was queued for the channel of
    /// the last [`Notice::Frames`] is written now, if the driver turns to another one. After
    /// [`Selector::flush`] there may be more: taking it then saves a turn.
    pub fn next_notice(&mut self, now: Instant) -> Option<(ConnId, Owner, Notice)> {
        self.now = now;
        self.leave_current();
        self.write_served();
        if self.timers.earliest().is_some_and(|at| at <= now) {
            self.expire(now);
        }
        if self.notices_left == 0 || self.reading.budget == 0 {
            return None;
        }
        if self.exchanges_left > 0
            && let Some((id, owner)) = self.exchanges.pop_ready()
        {
            self.exchanges_left -= 1;
            self.notices_left -= 1;
            return Some((ConnId::NONE, owner, Notice::Answered(id)));
        }
        while let Some(index) = self.ready.pop_front() {
            let Some((slot, channel)) = self.channels.at_mut(index) else { continue };
            let Some(notice) = channel.take_news(&mut self.sends) else { continue };
            channel.active = now;
            channel.stirred = false;
            let (id, owner) = (conn_id(slot), channel.owner);
            if channel.has_news() {
                self.ready.push_back(index);
            }
            match notice {
                Notice::Frames => (self.current, self.served) = (Some(id), Some(id)),
                Notice::Closed(_) => self.remove(slot),
                _ => {}
            }
            self.notices_left -= 1;
            return Some((id, owner, notice));
        }
        None
    }

    /// Writes what is queued, one call per channel.
    pub fn flush(&mut self) {
        while let Some(index) = self.flush.pop_front() {
            self.write(index);
        }
        self.serve_short();
    }

    /// Ends a turn: arms the timer for `deadline` if that is earlier than before, and leaves the
    /// descriptor readable if the selector or its caller (`work`) has something left to do.
    pub fn settle(&mut self, work: bool, deadline: Option<Instant>, now: Instant) {
        self.now = now;
        self.leave_current();
        self.time_rests(now);
        self.retry_memory();
        self.in_turn = false;
        let deadline = earlier(deadline, self.next_deadline());
        let overdue = deadline.is_some_and(|at| at <= now);
        if work || overdue || self.has_work() || self.waker.is_posted() {
            self.signal();
        } else if self.signal_seen || self.waker.is_signalled() {
            self.counters.clears += 1;
            self.signal_seen = false;
            self.waker.clear();
        }
        if let Some(at) = deadline
            && !overdue
            && self.arm(at, now).is_err()
        {
            // Without a timer the deadline must be looked for by running turns.
            self.signal();
        }
    }

    /// Makes the descriptor readable: work came up outside of a turn. Cheap when it already is.
    pub fn signal(&mut self) {
        if !self.waker.is_signalled() && self.waker.signal() {
            self.counters.signals += 1;
        }
    }

    /// Whether the descriptor was made readable and no turn has ended since with nothing left to do.
    pub fn is_signalled(&self) -> bool {
        self.waker.is_signalled()
    }

    /// Whether a [`Waker`] was used since the last call. At the beginning of a turn, before the
    /// queue that the wake is about is drained.
    pub fn take_posted(&mut self) -> bool {
        self.waker.take_posted()
    }

    /// The earliest deadline of the selector itself (idle channels, resting listeners, channels
    /// that wait for memory).
    pub fn next_deadline(&self) -> Option<Instant> {
        let starving = (!self.starved.is_empty()).then(|| self.starving.after(events::STALL_MAX));
        earlier(self.timers.earliest(), starving)
    }

    /// A way to make the descriptor readable from any thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        Counters {
            receives: self.reading.calls,
            sends: self.writing.calls,
            bytes_in: self.reading.bytes,
            bytes_out: self.writing.bytes,
            ..self.counters
        }
    }

    /// Channels that live, those included whose last notice was not taken.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// Listens; port 0 picks one. Channels taken there get `options`.
    ///
    /// # Errors
    /// The address cannot be had, or there is no room for another listener.
    pub fn listen(
        &mut self,
        at: SocketAddr,
        backlog: i32,
        options: &ChannelOptions,
    ) -> Result<(ListenerId, SocketAddr), Error> {
        self.listeners.add(self.poll.registry(), at, backlog, options)
    }

    /// Stops listening. Channels taken there live on.
    pub fn unlisten(&mut self, listener: ListenerId) {
        drop(self.release_listener(listener));
    }

    /// Takes a listener out: its socket listens on, for a thread that takes its connections. `None`
    /// for an id that names none.
    pub fn release_listener(&mut self, listener: ListenerId) -> Option<std::net::TcpListener> {
        let (place, socket) = self.listeners.remove(self.poll.registry(), listener)?;
        self.timers.clear(self.channels.capacity() + place);
        Some(socket)
    }

    /// Closes every channel of an owner that is no more, those included that it was not told of.
    /// What the owner let go finishes its writing by itself.
    pub fn close_owned(&mut self, owner: Owner) {
        for index in 0..self.channels.capacity() {
            let Some((slot, channel)) = self.channels.at_mut(index) else { continue };
            if channel.owner == owner && channel.life() != Life::Finishing {
                self.remove(slot);
            }
        }
    }

    /// Whether a turn has something to do without any new edge.
    fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.flush.is_empty()
            || !self.exchanges.ready.is_empty()
            || self.more_edges
            || self.current.is_some()
            || (self.listeners.any_pending() && !self.channels.is_full())
            || self.memory_is_back()
    }

    /// Something is in a list now; between turns nobody would look.
    fn stir(&mut self) {
        if !self.in_turn {
            self.signal();
        }
    }

    /// Sets the alarm for `at`, unless it goes off before that.
    fn arm(&mut self, at: Instant, now: Instant) -> Result<(), Error> {
        if self.armed.is_some_and(|armed| armed <= at) || at == Instant::FAR {
            return Ok(());
        }
        self.alarm.set(at.since(now))?;
        self.armed = Some(at);
        self.counters.alarms += 1;
        Ok(())
    }

    /// Gives listeners that began to rest their timers.
    fn time_rests(&mut self, now: Instant) {
        for place in 0..self.listeners.len() {
            let Some(listener) = self.listeners.at(place) else { continue };
            if listener.rest == Rest::Wanted {
                listener.rest = Rest::Timed;
                let at = now.after(super::listener::BACK_OFF);
                self.timers.set(self.channels.capacity() + place, at);
            }
        }
    }
}

impl Drop for Selector {
    fn drop(&mut self) {
        self.pool.forget_waiter(self.waiter);
    }
}

pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn conn_id(slot: SlotId) -> ConnId {
    ConnId::from_raw(slot.raw())
}

fn slot_id(conn: ConnId) -> SlotId {
    SlotId::from_raw(conn.raw())
}
