//! Reactor: a broker on threads of its own, in the shape of Kafka's SocketServer.
//!
//! ```text
//!  acceptor ─► processor 0..N ─► request channel ─► handler 0..M
//!     (sockets)   ▲  selector, pool,   (bounded)        │ Core, Scratch
//!                 │  connections, parked                │
//!                 └──────────── response queue ◄────────┴─► host queue ─► threads of the host
//!                                      ▲                                        │ answers
//!                                      └────────────────────────────────────────┘
//! ```
//!
//! A processor is the polled broker's own code with another way to run a request (`dispatch`): it
//! hands it over and mutes the connection until it is answered. So the threads share only what is in
//! `Shared`: `Core`, which is made for it, the channel, and a mailbox for each processor.
//!
//! **Queues** are bounded and taken at the start. Nobody waits at a full one: a request waits in its
//! processor's table, a connection with the acceptor, and whoever makes room wakes them by a flag. A
//! response always has a place, since a processor counts what it has handed over, and the host has no
//! more requests than places.
//!
//! **The end**, in this order: the acceptor stops and its socket closes; the processors answer what
//! is in flight, for as long as the grace lasts, and close their connections; the handlers stop; all
//! are joined. A thread that does not come to its end in time is left behind, with a line in the log.

mod acceptor;
mod config;
mod handler_pool;
mod host_threads;
pub(super) mod mailbox;
mod processor;
mod request_channel;
mod shared;
#[cfg(test)]
mod tests;

pub use config::ReactorConfig;
pub(crate) use host_threads::HostAnswer;
pub use host_threads::{HostThreads, Taken};
pub(crate) use shared::{Reply, Request, Response, Shared};

use super::BrokerStats;
use super::config::{BrokerConfig, BrokerLimits};
use super::core::Core;
use super::scratch::Scratch;
use super::server::{Broker, channel_options};
use crate::error::Error;
use crate::guard::guarded;
use crate::logging::{Level, Logger};
use crate::net::acceptor::Acceptor;
use crate::net::selector::{Selector, Waker};
use crate::net::sys::threads;
use crate::net::{ChannelOptions, Owner};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};
use crate::time::{Instant, SystemClock};
use config::{MOST, selector};
use core::time::Duration;
use host_threads::HostQueue;
use mailbox::Mailbox;
use processor::Processor;
use request_channel::RequestChannel;
use shared::{KINDS, Kind};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

/// How long after the grace threads may take to end.
const SLACK: Duration = Duration::from_secs(2);
/// Connections the kernel holds until the acceptor takes them.
const BACKLOG: i32 = 1024;
/// A broker on threads of its own. It stops when it is dropped.
#[derive(Debug)]
pub struct Reactor {
    shared: Arc<Shared>,
    threads: Box<[Option<JoinHandle<()>>]>,
    address: SocketAddr,
    /// The processors' places among those that the log's pool wakes.
    waiters: Box<[usize]>,
    stopped: bool,
    /// When to wait no longer for threads to end after a failure.
    ends_by: Option<Instant>,
}

impl Reactor {
    /// Takes all memory, listens (port 0 picks one) and starts the threads. `advertised` is what
    /// clients are told to connect to; without it, the listening address, or if that is a wildcard the
    /// address that each connected to. `seed` must be hard to
    /// guess.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Invalid`] for sizes that cannot be; the address cannot be had, or
    /// the system refuses a thread.
    pub fn start(
        config: BrokerConfig,
        limits: BrokerLimits,
        reactor: ReactorConfig,
        listen: SocketAddr,
        advertised: Option<(&str, u16)>,
        logger: Logger,
        seed: u64,
    ) -> Result<Reactor, Error> {
        let options = channel_options(&config, Owner(0));
        let max_connections = config.max_connections.min(limits.max_connections);
        let core = Core::new(config, &limits, logger, seed)?;
        let acceptor = Acceptor::listen(listen, BACKLOG, &options)?;
        let at = acceptor.address();
        match advertised {
            Some((host, 0)) => core.set_advertised(host, at.port()),
            Some((host, port)) => core.set_advertised(host, port),
            None => {
                if let Some(host) = advertised_host(at) {
                    core.set_advertised(&host, at.port());
                }
            }
        }
        let base = Base { core: Arc::new(core), options, max_connections, owner_value: 0 };
        Reactor::run(base, reactor, acceptor, None)
    }

    /// Goes on with a polled broker that has no connection, and its listening socket. `host` is woken
    /// when [`Reactor::has_failed`] becomes true.
    ///
    /// # Errors
    /// As [`Reactor::start`]; [`Error::Invalid`] if it has connections or closes.
    pub fn take_over(
        broker: &Broker,
        reactor: ReactorConfig,
        listener: TcpListener,
        host: Waker,
    ) -> Result<Reactor, Error> {
        let base = broker.base();
        let acceptor = Acceptor::adopt(listener, &base.options)?;
        Reactor::run(base, reactor, acceptor, Some(host))
    }

    fn run(
        base: Base,
        config: ReactorConfig,
        acceptor: Acceptor,
        host: Option<Waker>,
    ) -> Result<Reactor, Error> {
        config.check()?;
        let (core, connections) = (base.core, base.max_connections);
        let mut selectors: [Option<Selector>; MOST] = [const { None }; MOST];
        for place in selectors.iter_mut().take(config.processors) {
            *place = Some(selector(&config, connections, &core.logger)?);
        }
        let partitions = core.topics.max_partitions();
        let mailbox = |selector: &Selector| {
            let pool = crate::net::Selectable::pool(selector).clone();
            // Those on the way, and the host's answers.
            Mailbox::new(2 * connections, partitions, pool, selector.waker())
        };
        let shared = Arc::new(Shared {
            mailboxes: selectors.iter().flatten().map(mailbox).collect(),
            requests: RequestChannel::new(config.max_queued),
            host_queue: HostQueue::new(connections),
            owner_value: base.owner_value,
            open: AtomicUsize::new(0),
            max_connections: connections,
            processor_connections: connections,
            too_many: AtomicU64::new(0),
            acceptor_holds: AtomicBool::new(false),
            acceptor: acceptor.waker(),
            stops_accepting: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            grace: Mutex::new(Duration::ZERO),
            failed: AtomicBool::new(false),
            host,
            clock: SystemClock::new(),
            #[cfg(test)]
            panics: [const { AtomicBool::new(false) }; 2],
            running: Mutex::new([0; KINDS]),
            ended: Condvar::default(),
            core,
        });
        let address = acceptor.address();
        let (processors, handlers) = (config.processors, config.handlers);
        let mut made = Reactor {
            threads: (0..1 + processors + handlers).map(|_| None).collect(),
            waiters: wakers(&shared)?,
            shared,
            address,
            stopped: false,
            ends_by: None,
        };
        // What cannot be started ends with those that were, when this is dropped.
        threads::with_signals_blocked(|| made.spawn(base.options, &config, selectors, acceptor))?;
        Ok(made)
    }

    fn spawn(
        &mut self,
        options: ChannelOptions,
        config: &ReactorConfig,
        selectors: [Option<Selector>; MOST],
        acceptor: Acceptor,
    ) -> Result<(), Error> {
        let mut places = self.threads.iter_mut();
        let mut start = |kind, number: usize, body: Body| {
            let cpu = match kind {
                Kind::Acceptor => None,
                Kind::Processor => Some(number),
                Kind::Handler => Some(config.processors + number),
            };
            let cpu = cpu.filter(|_| !config.cpus.is_empty());
            let cpu = cpu.and_then(|at| config.cpus.get(at % config.cpus.len()).copied());
            let thread = thread(&self.shared, kind, number, cpu, body)?;
            if let Some(place) = places.next() {
                *place = Some(thread);
            }
            Ok::<(), Error>(())
        };
        for number in 0..config.handlers {
            let mut scratch = Scratch::new(&self.shared.core)?;
            let body = move |shared: &Arc<Shared>| {
                handler_pool::work(shared, &mut scratch);
                Ok(())
            };
            start(Kind::Handler, number, Box::new(body))?;
        }
        for (number, selector) in selectors.into_iter().flatten().enumerate() {
            let mut processor = Processor::new(Arc::clone(&self.shared), number, selector, options);
            start(Kind::Processor, number, Box::new(move |_| processor.work()))?;
        }
        start(Kind::Acceptor, 0, Box::new(move |shared| acceptor::work(shared, acceptor)))
    }

    /// What threads of the host take requests with, and answer them.
    pub fn host_threads(&self) -> HostThreads {
        HostThreads::new(&self.shared)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts since it was started, and what is held now; those of a processor are as of its last
    /// turn.
    pub fn stats(&self) -> BrokerStats {
        let mut sum = self.shared.core.stats();
        self.shared.mailboxes.iter().for_each(|mailbox| mailbox.published.add_to(&mut sum));
        sum.host_requests = self.shared.host_queue.len() as u64;
        sum.refused += self.shared.too_many.load(Ordering::Relaxed);
        sum
    }

    /// Whether a thread ended that should not have; [`Reactor::stop`] is all that is left.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::SeqCst)
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Ends it: nothing is accepted any more, what is in flight is answered for at most `grace`,
    /// connections close, threads end and are joined. Waits for that; a second call does nothing.
    pub fn stop(&mut self, grace: Duration) {
        if core::mem::replace(&mut self.stopped, true) {
            return;
        }
        let shared = &self.shared;
        shared.stops_accepting.store(true, Ordering::SeqCst);
        shared.acceptor.wake();
        let mut all = shared.wait_for(Kind::Acceptor, SLACK);
        *shared.grace.lock() = grace;
        shared.closes.store(true, Ordering::SeqCst);
        shared.mailboxes.iter().for_each(|mailbox| mailbox.waker.wake());
        all &= shared.wait_for(Kind::Processor, grace.saturating_add(SLACK));
        shared.requests.close();
        shared.host_queue.close();
        all &= shared.wait_for(Kind::Handler, SLACK);
        self.finish(all);
    }

    /// The end after a failure, which waits for nobody: the first call tells the threads, and one
    /// after they have ended, or have had their time, joins them. Says whether it is over.
    pub fn try_stop(&mut self, now: Instant) -> bool {
        if self.stopped {
            return true;
        }
        let shared = &self.shared;
        let ends_by = *self.ends_by.get_or_insert_with(|| {
            shared.stops_accepting.store(true, Ordering::SeqCst);
            shared.acceptor.wake();
            shared.closes.store(true, Ordering::SeqCst);
            shared.mailboxes.iter().for_each(|mailbox| mailbox.waker.wake());
            shared.requests.close();
            shared.host_queue.close();
            now.after(SLACK)
        });
        let all = shared.is_over();
        if all || ends_by <= now {
            self.stopped = true;
            self.finish(all);
        }
        self.stopped
    }

    /// In a child process, which has none of the threads: they are not waited for, and what they held
    /// stays where it is.
    pub fn forget_threads(&mut self) {
        self.stopped = true;
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            // Detaching a thread that is not there is not allowed.
            core::mem::forget(thread);
        }
    }

    /// When [`Reactor::try_stop`] is due again at the latest.
    pub fn ends_by(&self) -> Option<Instant> {
        self.ends_by.filter(|_| !self.stopped)
    }

    /// Joins the threads that have ended; `all` says that every one has.
    fn finish(&mut self, all: bool) {
        let shared = &self.shared;
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            if all || thread.is_finished() {
                // What it panicked with was told when it did.
                drop(thread.join());
            }
        }
        if !all {
            let line = format_args!("threads of the reactor did not end in time");
            shared.core.logger.line(Level::Error, line);
        }
        shared.requests.clear();
        for mailbox in &shared.mailboxes {
            while mailbox.responses.pop().is_some() {}
            while mailbox.sockets.pop().is_some() {}
        }
        for waiter in &self.waiters {
            shared.core.memory.pool().forget_waiter(*waiter);
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

/// A polled broker's parts that a reactor goes on with.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) core: Arc<Core>,
    pub(super) options: ChannelOptions,
    pub(super) max_connections: usize,
    pub(super) owner_value: u64,
}

/// A thread's work.
type Body = Box<dyn FnOnce(&Arc<Shared>) -> Result<(), Error> + Send>;

/// Has the log's pool wake all processors; their places there.
fn wakers(shared: &Shared) -> Result<Box<[usize]>, Error> {
    let pool = shared.core.memory.pool();
    shared.mailboxes.iter().map(|mailbox| pool.add_waiter(mailbox.waker.clone())).collect()
}

fn thread(
    shared: &Arc<Shared>,
    kind: Kind,
    number: usize,
    cpu: Option<usize>,
    body: Body,
) -> Result<JoinHandle<()>, Error> {
    let name = match kind {
        Kind::Acceptor => "kloop-acceptor".to_owned(),
        Kind::Processor => format!("kloop-proc-{number}"),
        Kind::Handler => format!("kloop-handler-{number}"),
    };
    let of_thread = Arc::clone(shared);
    let work = move || {
        let shared = of_thread;
        if let Some(Err(error)) = cpu.map(threads::stay_on) {
            let line = format_args!("{kind:?} {number} cannot stay on its processor: {error}");
            shared.core.logger.line(Level::Warn, line);
        }
        // The selector and its sockets go inside of the guard, before the thread counts as ended.
        let ended = guarded(|| body(&shared));
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.fail(format_args!("a poller failed: {error}")),
            Err(caught) => shared.fail(format_args!("a thread panicked: {caught}")),
        }
        shared.count_out(kind);
    };
    shared.count_in(kind);
    let made = std::thread::Builder::new().name(name).spawn(work);
    if made.is_err() {
        shared.count_out(kind);
    }
    Ok(made?)
}

/// What clients are told to connect to when a broker listens at `at`. A wildcard address is none to
/// connect to, and no other serves them all: then each is told the address that it connected to.
pub fn advertised_host(at: SocketAddr) -> Option<Box<str>> {
    let ip = at.ip();
    (!ip.is_unspecified()).then(|| ip.to_string().into())
}
