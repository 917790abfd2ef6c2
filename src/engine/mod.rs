//! Engine: one loop's worth of kloop. It owns the selector, the pool and the clock, and drives
//! clients and brokers over them; a host watches one descriptor and calls [`Engine::poll`].
//!
//! **A turn**: what calls since the last turn left to do is sent → the selector sleeps if nothing
//! is waiting → notices go to their owners → clients and brokers run their deadlines and drain →
//! one flush → events go to the caller → the descriptor is left readable if anything is left.
//!
//! **No event queue.** Operations, partitions and handles keep their own pending event inside the
//! client or broker; [`Engine::poll`] pulls them when the host has room. So nothing overflows and a
//! host that polls with a small array is slow, not stuck.
//!
//! Deliberately absent: threads (but those that a host asks for with [`Engine::start_broker`]), locks,
//! and any knowledge of what a request means.

mod config;
mod inbox;
mod owners;
mod served;

pub use config::{EngineConfig, TABLE_MAX};
pub use inbox::{Inbox, PostRefused};

use crate::broker::BrokerEvent;
use crate::client::{Client, ClientEvent, LOOKUP_EXCHANGES};
use crate::error::Error;
use crate::logging::Logger;
use crate::net::pool::Memory;
use crate::net::selector::{Selector, SelectorConfig, earlier};
use crate::net::slots::Slots;
use crate::net::{BufferPool, ConnId, Notice, Owner};
use crate::sync::Arc;
use crate::time::{Clock, Instant, Moment, SystemClock};
use core::time::Duration;
use served::Served;
use std::os::fd::RawFd;

/// What [`Engine::poll`] hands out.
#[derive(Debug)]
pub enum Event {
    /// Another thread posted through an [`Inbox`].
    Posted {
        /// What it posted.
        user: u64,
    },
    /// A client, producer or consumer has something to tell.
    Client(ClientEvent),
    /// A broker has something to tell.
    Broker(BrokerEvent),
}

/// Counters since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Calls of [`Engine::poll`].
    pub polls: u64,
    /// Events handed out.
    pub events: u64,
    /// Bytes read from sockets.
    pub bytes_in: u64,
    /// Bytes written to sockets.
    pub bytes_out: u64,
    /// System calls made by turns: waits, reads, writes, timer and wake-up descriptors.
    pub syscalls: u64,
    /// Bytes of the pool that are out.
    pub mem_used: u64,
    /// Bytes of the pool's arena.
    pub mem_total: u64,
    /// Blocks of the pool that are out.
    pub leases: u64,
    /// Posts refused because the inbox was full.
    pub posts_refused: u64,
}

/// One loop's worth of kloop. Used by one thread at a time.
///
#[doc = include_str!("example.md")]
#[derive(Debug)]
pub struct Engine {
    selector: Selector,
    pool: BufferPool,
    memory_limit: usize,
    /// All memory is touched at creation, that of brokers too.
    prefault: bool,
    clock: SystemClock,
    logger: Logger,
    clients: Slots<Client>,
    brokers: Slots<Served>,
    inbox: Arc<Inbox>,
    /// Which source of events is asked first; moves on with each poll so that none starves.
    first_source: usize,
    /// The deadline the descriptor was armed for at the end of the last turn.
    armed: Option<Instant>,
    /// Until when the running poll may sleep; `None` for ever.
    until: Option<Instant>,
    /// The caller cannot take events now, but for posts.
    blocked: bool,
    autowake: bool,
    timer_descriptor: bool,
    seed: u64,
    polls: u64,
    events: u64,
}

/// In an [`Owner`]: this bit tells a broker's channel from a client's; the rest is the table index.
const BROKER_BIT: u32 = 1 << 31;

impl Engine {
    /// Takes all memory and makes the descriptor.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::Invalid`] for a configuration that cannot be, or the system
    /// refuses a descriptor.
    pub fn new(config: EngineConfig) -> Result<Engine, Error> {
        config.check()?;
        let prefault = matches!(config.memory, Memory::Map { prefault: true });
        let pool = BufferPool::for_network(config.memory_limit, config.memory)?;
        let selector = Selector::new(
            SelectorConfig {
                max_channels: config.max_connections,
                max_listeners: config.max_brokers,
                max_exchanges: config.max_clients * LOOKUP_EXCHANGES,
                max_pieces: config.max_pieces,
                send_queue_max: config.send_queue_max,
                budget: config.budget,
                logger: config.logger.clone(),
            },
            pool.clone(),
        )?;
        let inbox = Arc::new(Inbox::new(config.max_posts, selector.waker()));
        let seed = config.seed.unwrap_or_else(config::random_seed);
        Ok(Engine {
            selector,
            pool,
            memory_limit: config.memory_limit,
            prefault,
            clock: SystemClock::new(),
            logger: config.logger,
            clients: Slots::new(config.max_clients),
            brokers: Slots::new(config.max_brokers),
            inbox,
            first_source: 0,
            armed: None,
            until: None,
            blocked: false,
            autowake: config.autowake,
            timer_descriptor: config.timer_descriptor,
            seed,
            polls: 0,
            events: 0,
        })
    }

    /// The descriptor to watch for reading, level-triggered: readable means call [`Engine::poll`].
    /// The same one for the engine's life; never read, write or close it.
    pub fn fd(&self) -> RawFd {
        self.selector.fd()
    }

    /// How long until there is work: zero for now, `None` for not before something arrives. Work that
    /// a turn left in the selector (bytes beyond its budget) counts too: the signal stands for it; and
    /// a deadline for which the alarm has yet to be set, unless the host sleeps by this number.
    pub fn timeout(&self) -> Option<Duration> {
        let unarmed = self.timer_descriptor && self.is_deadline_earlier();
        if self.has_work() || self.selector.is_signalled() || unarmed {
            return Some(Duration::ZERO);
        }
        self.next_deadline().map(|at| at.since(self.clock.now()))
    }

    /// Runs turns until there are events or `timeout` is over (`None`: no limit; zero: one turn
    /// that does not sleep), and hands at most `cap` events to `take`. Says how many.
    ///
    /// # Errors
    /// The poller failed; the engine is of no use any more.
    pub fn poll(
        &mut self,
        cap: usize,
        timeout: Option<Duration>,
        mut take: impl FnMut(Event),
    ) -> Result<usize, Error> {
        self.begin_poll(timeout);
        loop {
            self.turn()?;
            let mut taken = 0;
            while taken < cap {
                let Some(event) = self.next_event() else { break };
                taken += 1;
                take(event);
            }
            if self.end_turn(false) || taken > 0 || cap == 0 {
                return Ok(taken);
            }
        }
    }

    /// Begins what [`Engine::poll`] does, for a caller that must be able to keep an event back:
    /// then [`Engine::turn`], [`Engine::next_event`] until it has enough, [`Engine::end_turn`], and
    /// again from the turn if it has none and the time is not over.
    pub fn begin_poll(&mut self, timeout: Option<Duration>) {
        self.polls += 1;
        // Each poll asks another source first, so that one that could fill every poll's events
        // starves no other.
        self.first_source = (self.first_source + 1) % self.sources();
        self.until = match timeout {
            None => None,
            Some(Duration::ZERO) => Some(Instant::default()),
            Some(timeout) => Some(self.clock.now().after(timeout)),
        };
    }

    /// One turn; sleeps until the poll's time is over unless there is work.
    ///
    /// # Errors
    /// The poller failed.
    pub fn turn(&mut self) -> Result<(), Error> {
        let now = self.moment();
        if self.clients.iter().any(|(_, client)| client.wants_turn()) {
            self.run_owners(now);
            self.selector.flush();
        }
        let until = if self.has_work() { Some(now.at) } else { self.until };
        // The alarm of the deadlines ends a wait; without it the wait must end by itself.
        let until =
            if self.timer_descriptor { until } else { earlier(until, self.next_deadline()) };
        self.selector.wait(until, now.at)?;
        let now = self.moment();
        // Whoever posts after this sets the flag again, so no post is overlooked.
        self.selector.take_posted();
        while let Some((conn, owner, notice)) = self.selector.next_notice(now.at) {
            self.dispatch(conn, owner, notice, now);
        }
        self.run_owners(now);
        self.selector.flush();
        Ok(())
    }

    /// Ends a turn: the descriptor is left readable if there is work, and armed for the next
    /// deadline. `blocked` says that the caller cannot take events now: until the next call of this
    /// function only [`Engine::next_posted`] is work for it. Says whether the poll's time is over.
    pub fn end_turn(&mut self, blocked: bool) -> bool {
        let now = self.clock.now();
        self.armed = self.next_deadline();
        self.blocked = blocked;
        let work = self.has_work();
        let deadline = if self.timer_descriptor { self.armed } else { None };
        self.selector.settle(work, deadline, now);
        self.until.is_some_and(|until| until <= now)
    }

    fn dispatch(&mut self, conn: ConnId, owner: Owner, notice: Notice, now: Moment) {
        let index = (owner.0 & !BROKER_BIT) as usize;
        if owner.0 & BROKER_BIT != 0 {
            if let Some((_, served)) = self.brokers.at_mut(index) {
                served.on_notice(&mut self.selector, conn, notice, now);
            }
        } else if let Some((_, client)) = self.clients.at_mut(index) {
            client.on_notice(&mut self.selector, conn, notice, now);
        }
    }

    fn run_owners(&mut self, now: Moment) {
        for index in 0..self.clients.capacity() {
            if let Some((_, client)) = self.clients.at_mut(index) {
                client.turn(&mut self.selector, now);
            }
        }
        for index in 0..self.brokers.capacity() {
            if let Some((_, served)) = self.brokers.at_mut(index) {
                served.turn(&mut self.selector, now);
            }
        }
    }

    /// Where events come from: the posts, each client, each broker.
    fn sources(&self) -> usize {
        1 + self.clients.capacity() + self.brokers.capacity()
    }

    /// The next event; each source's in order, and of one source until it has none, beginning with
    /// another source in each poll.
    pub fn next_event(&mut self) -> Option<Event> {
        let (clients, sources) = (self.clients.capacity(), self.sources());
        for i in 0..sources {
            let source = (self.first_source + i) % sources;
            let event = if source == 0 {
                self.inbox.take().map(|user| Event::Posted { user })
            } else if source <= clients {
                let client = self.clients.at_mut(source - 1);
                client.and_then(|(_, client)| client.next_event()).map(Event::Client)
            } else {
                self.broker_event(source - 1 - clients)
            };
            if event.is_some() {
                self.first_source = source;
                self.events += 1;
                return event;
            }
        }
        None
    }

    /// The next post, also for a caller that cannot take other events: it may say which leases
    /// come back.
    pub fn next_posted(&mut self) -> Option<Event> {
        let user = self.inbox.take()?;
        self.events += 1;
        Some(Event::Posted { user })
    }

    fn has_work(&self) -> bool {
        let takes = !self.blocked;
        !self.inbox.is_empty()
            || self.clients.iter().any(|(_, c)| c.wants_turn() || takes && c.has_events())
            || self.brokers.iter().any(|(_, b)| b.wants_turn() || takes && b.has_events())
    }

    fn next_deadline(&self) -> Option<Instant> {
        let clients = self.clients.iter().filter_map(|(_, client)| client.next_deadline());
        let brokers = self.brokers.iter().filter_map(|(_, served)| served.next_deadline());
        clients.chain(brokers).chain(self.selector.next_deadline()).min()
    }

    /// A call outside of a turn may have left work or an earlier deadline: the descriptor becomes
    /// readable, so that a host that only watches it polls.
    pub fn touch(&mut self) {
        if self.autowake && (self.is_deadline_earlier() || self.has_work()) {
            self.selector.signal();
        }
    }

    /// Whether a call outside of a turn has brought the next deadline forward.
    fn is_deadline_earlier(&self) -> bool {
        match (self.next_deadline(), self.armed) {
            (Some(next), Some(armed)) => next < armed,
            (next, armed) => next.is_some() && armed.is_none(),
        }
    }

    /// Makes the descriptor readable: the caller has work of its own for the next poll.
    pub fn signal(&mut self) {
        self.selector.signal();
    }

    fn moment(&self) -> Moment {
        Moment { at: self.clock.now(), wall_ms: self.clock.wall_ms() }
    }

    /// A way for other threads to post a number, which comes out as [`Event::Posted`].
    pub fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    /// The pool that records and frames are leased from.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// What [`EngineConfig::memory_limit`] said: bytes that the pool has at most.
    pub fn memory_limit(&self) -> usize {
        self.memory_limit
    }

    /// Counters.
    pub fn stats(&self) -> EngineStats {
        let net = self.selector.counters();
        EngineStats {
            polls: self.polls,
            events: self.events,
            bytes_in: net.bytes_in,
            bytes_out: net.bytes_out,
            syscalls: net.waits
                + net.receives
                + net.sends
                + net.accepts
                + net.signals
                + net.clears
                + net.alarms,
            mem_used: self.pool.in_use() as u64,
            mem_total: self.pool.total() as u64,
            leases: self.pool.leases() as u64,
            posts_refused: self.inbox.refused(),
        }
    }

    fn next_seed(&mut self) -> u64 {
        // An odd step visits every number, so no two handles share a seed.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.seed
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.inbox.close();
    }
}
