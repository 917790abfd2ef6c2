//! Shared: what the threads of a reactor share, and what passes between them.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::host_threads::HostQueue;
use super::mailbox::Mailbox;
use super::request_channel::RequestChannel;
use crate::broker::core::Core;
use crate::broker::scratch::Appended;
use crate::logging::Level;
use crate::net::selector::Waker;
use crate::net::slots::SlotId;
use crate::net::{ConnId, SendBuilder, SharedLease};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};
use crate::time::{Clock, Instant, SystemClock};
use core::time::Duration;
use std::net::SocketAddr;

/// A request on its way to a handler thread.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) processor: usize,
    pub(crate) conn: ConnId,
    pub(crate) frame: SharedLease,
    /// Where the answer goes.
    pub(crate) send: SendBuilder,
    /// When it was first handed over.
    pub(crate) arrived: Instant,
    /// It must be answered now.
    pub(crate) hurry: bool,
    /// The processor's drains of its board before that.
    pub(crate) seen: u64,
    /// The address that its client connected to, if clients are told that one.
    pub(crate) local: Option<SocketAddr>,
}

/// A request on its way back.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) conn: ConnId,
    pub(crate) frame: SharedLease,
    pub(crate) arrived: Instant,
    pub(crate) seen: u64,
    /// The returns of the log's pool before it was handled.
    pub(crate) log_returns: u64,
    pub(crate) hurry: bool,
    pub(crate) reply: Reply,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It was handled; there is an answer, or none is wanted.
    Answer(Option<SendBuilder>),
    /// A thread of the host will answer it.
    Host { id: SlotId },
    /// A thread of the host has answered it: the answer lies where the request was put down.
    HostAnswer { id: SlotId },
    /// The connection must end; the text says why.
    Close(&'static str),
    /// Its handler panicked.
    Panicked,
    /// There was no memory for an answer of this size.
    NoMemory { room: usize },
    /// It waits for appends to these partitions, as numbers of four bytes; `None` if there was no
    /// memory to list them.
    Appends { until: Instant, watch: Option<SharedLease> },
    /// It waits for memory of the log.
    LogMemory { until: Instant },
}

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) requests: RequestChannel<Request>,
    pub(crate) host_queue: HostQueue,
    /// What the host called the broker.
    pub(crate) owner_value: u64,
    pub(crate) mailboxes: Box<[Mailbox]>,
    /// Connections that are open or on their way to a processor.
    pub(crate) open: AtomicUsize,
    /// Connections at most, and of one processor.
    pub(crate) max_connections: usize,
    pub(crate) processor_connections: usize,
    /// Connections that were refused because there are too many.
    pub(crate) too_many: AtomicU64,
    /// The acceptor holds a connection that no processor had a place for.
    pub(crate) acceptor_holds: AtomicBool,
    pub(crate) acceptor: Waker,
    pub(crate) stops_accepting: AtomicBool,
    pub(crate) closes: AtomicBool,
    pub(crate) grace: Mutex<Duration>,
    /// A thread ended that should not have.
    pub(crate) failed: AtomicBool,
    /// Told of it.
    pub(crate) host: Option<Waker>,
    pub(crate) clock: SystemClock,
    /// The next request panics in its handler; the next turn of a processor panics.
    #[cfg(test)]
    pub(crate) panics: [AtomicBool; 2],
    /// Threads that run, by kind, and who waits for their end.
    pub(crate) running: Mutex<[usize; KINDS]>,
    pub(crate) ended: Condvar,
}

/// What a thread is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Acceptor,
    Processor,
    Handler,
}

pub(crate) const KINDS: usize = 3;

impl Shared {
    /// Wakes the processors whose requests found no place in the channel. After one was taken out.
    pub(crate) fn wake_refused(&self) {
        for mailbox in &self.mailboxes {
            if mailbox.wants_room.load(Ordering::SeqCst)
                && mailbox.wants_room.swap(false, Ordering::SeqCst)
            {
                mailbox.waker.wake();
            }
        }
    }

    /// Tells all processors what was appended, and wakes those where somebody waits.
    pub(crate) fn post_appends(&self, appended: &mut Appended) {
        if appended.is_empty() {
            return;
        }
        while let Some(partition) = appended.take() {
            self.mailboxes.iter().for_each(|mailbox| mailbox.board.note(partition));
        }
        for mailbox in &self.mailboxes {
            // Whoever found it smudged leaves the wake to the one before, or to the processor, which
            // looks at the board after it says that somebody waits.
            if mailbox.board.smudge() && mailbox.awaits_appends.load(Ordering::SeqCst) {
                mailbox.waker.wake();
            }
        }
    }

    pub(crate) fn count_in(&self, kind: Kind) {
        if let Some(running) = self.running.lock().get_mut(kind as usize) {
            *running += 1;
        }
    }

    pub(crate) fn count_out(&self, kind: Kind) {
        if let Some(running) = self.running.lock().get_mut(kind as usize) {
            *running -= 1;
        }
        self.ended.notify_all();
        if self.failed.load(Ordering::SeqCst)
            && let Some(host) = &self.host
        {
            host.wake();
        }
    }

    /// Whether no thread runs any more.
    pub(crate) fn is_over(&self) -> bool {
        *self.running.lock() == [0; KINDS]
    }

    /// Waits until no thread of a kind runs, for at most `time`; says whether that is so.
    pub(crate) fn wait_for(&self, kind: Kind, time: Duration) -> bool {
        let by = self.clock.now().after(time);
        let mut running = self.running.lock();
        while running.get(kind as usize).is_some_and(|n| *n > 0) {
            let left = by.since(self.clock.now());
            if left.is_zero() {
                return false;
            }
            running = self.ended.wait_for(running, left);
        }
        true
    }

    pub(crate) fn fail(&self, what: core::fmt::Arguments<'_>) {
        self.core.logger.line(Level::Error, format_args!("the reactor has failed: {what}"));
        self.failed.store(true, Ordering::SeqCst);
        if let Some(host) = &self.host {
            host.wake();
        }
    }
}
