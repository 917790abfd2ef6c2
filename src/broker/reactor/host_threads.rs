//! HostThreads: requests that threads of the host take and answer, at their own pace and in any order.
//!
//! A handler thread puts such a request down here instead of answering it, and tells the processor,
//! whose connection then waits for this request. A thread of the host takes it, and its body stays
//! where it is until that thread has answered, also if the peer leaves meanwhile. The answer goes to
//! the processor like any other.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::request_channel::{Popped, RequestChannel};
use super::{Reply, Request, Response, Shared};
use crate::broker::host_answer::{Asked, fill};
use crate::error::Error;
use crate::net::slots::{SlotId, Slots};
use crate::sync::{Arc, Mutex};
use crate::time::{Clock, Instant};
use core::time::Duration;

/// The numbers of processors lie above those of their connections.
const PROCESSOR_SHIFT: u32 = 24;

/// Requests of the host's: those that wait for it, and those that it has.
#[derive(Debug)]
pub(crate) struct HostQueue {
    waiting: RequestChannel<SlotId>,
    held: Mutex<Slots<Held>>,
}

#[derive(Debug)]
struct Held {
    /// `None` while its answer is being written.
    request: Option<Request>,
    asked: Asked,
    body_at: usize,
    taken: bool,
    /// Its connection has ended.
    gone: bool,
}

impl HostQueue {
    /// Places for so many.
    pub(super) fn new(capacity: usize) -> Self {
        // A request keeps its place until it is taken, gone or not: so each has one in the channel.
        HostQueue { waiting: RequestChannel::new(capacity), held: Mutex::new(Slots::new(capacity)) }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.held.lock().len()
    }

    /// Keeps a request; gives it back if there is no place. [`HostQueue::announce`] follows.
    pub(super) fn keep(
        &self,
        request: Request,
        asked: Asked,
        body_at: usize,
    ) -> Result<SlotId, Request> {
        let mut held = self.held.lock();
        let Some(id) = held.next_id() else { return Err(request) };
        let request = Some(request);
        let kept = held.insert(Held { request, asked, body_at, taken: false, gone: false });
        debug_assert!(kept.is_ok_and(|at| at == id), "there was a place");
        Ok(id)
    }

    /// Offers a request to the host's threads.
    pub(super) fn announce(&self, id: SlotId) {
        let pushed = self.waiting.push(id);
        debug_assert!(pushed.is_ok(), "more requests of the host's than places");
    }

    /// The connection of a request has ended. What a thread of the host reads stays until it has
    /// answered.
    pub(crate) fn forget(&self, id: SlotId) {
        let mut held = self.held.lock();
        let Some(entry) = held.get_mut(id) else { return };
        entry.gone = true;
        if !entry.taken {
            entry.request = None;
        }
    }

    /// Wakes all who wait to take one.
    pub(super) fn close(&self) {
        self.waiting.close();
    }
}

/// A request that a thread of the host has.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Names it in [`HostThreads::respond`].
    pub id: SlotId,
    /// Names its connection, among those of all processors.
    pub conn: u64,
    /// The API and its version.
    pub api_key: i16,
    /// See `api_key`.
    pub api_version: i16,
    /// Where the body is, until the request is answered.
    pub body: *const [u8],
}

/// What the host's threads hold on to; clones are the same. It may outlive the broker.
#[derive(Clone, Debug)]
pub struct HostThreads {
    shared: Arc<Shared>,
}

impl HostThreads {
    pub(super) fn new(shared: &Arc<Shared>) -> HostThreads {
        HostThreads { shared: Arc::clone(shared) }
    }

    /// What the host called the broker: the owner of its events.
    pub fn owner(&self) -> u64 {
        self.shared.owner_value
    }

    /// Takes up to `cap` requests; waits for the first for at most `timeout`, without a limit if
    /// there is none. Says how many; 0 is that the time is over.
    ///
    /// # Errors
    /// [`Error::Closed`] once the broker has stopped.
    pub fn take(
        &self,
        cap: usize,
        timeout: Option<Duration>,
        mut each: impl FnMut(Taken),
    ) -> Result<usize, Error> {
        let queue = &self.shared.host_queue;
        let clock = &self.shared.clock;
        let by = timeout.map_or(Instant::FAR, |timeout| clock.now().after(timeout));
        let mut count = 0;
        while count < cap {
            let until = if count == 0 { by } else { Instant::default() };
            match queue.waiting.pop_until(clock, until) {
                Popped::Item(id) => {
                    if let Some(taken) = self.hand_out(id) {
                        each(taken);
                        count += 1;
                    }
                }
                Popped::TimedOut => break,
                Popped::Closed if count > 0 => break,
                Popped::Closed => return Err(Error::Closed),
            }
        }
        Ok(count)
    }

    fn hand_out(&self, id: SlotId) -> Option<Taken> {
        let mut held = self.shared.host_queue.held.lock();
        let entry = held.get_mut(id)?;
        let Some(request) = &entry.request else {
            // Gone before it was taken.
            held.remove(id);
            return None;
        };
        entry.taken = true;
        let processor = (request.processor as u64) << PROCESSOR_SHIFT;
        Some(Taken {
            id,
            conn: request.conn.raw() | processor,
            api_key: entry.asked.key.0,
            api_version: entry.asked.version,
            body: &raw const request.frame[entry.body_at..],
        })
    }

    /// Answers a request, once: the body in `parts`, which is copied. No parts is no answer, as
    /// acks=0 asks for. `close` ends the connection behind the answer.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was answered or its connection is gone: the body is then gone too.
    /// [`Error::Exhausted`] if there is no memory now, [`Error::Invalid`] for a body that no frame
    /// holds: the request then still waits. [`Error::Closed`] once the broker has stopped.
    pub fn respond(&self, id: SlotId, parts: &[&[u8]], close: bool) -> Result<(), Error> {
        let queue = &self.shared.host_queue;
        let (mut request, asked) = {
            let mut held = queue.held.lock();
            let entry = held.get_mut(id).filter(|entry| entry.taken).ok_or(Error::Stale)?;
            let request = entry.request.take().ok_or(Error::Stale)?;
            let (asked, gone) = (entry.asked, entry.gone);
            // Once it has stopped, nobody takes answers any more.
            let closed = self.shared.requests.is_closed();
            if gone || closed {
                held.remove(id);
                return Err(if gone { Error::Stale } else { Error::Closed });
            }
            (request, asked)
        };
        let Some(mailbox) = self.shared.mailboxes.get(request.processor) else {
            return Err(Error::Bug("a request of a processor that is not there"));
        };
        if !parts.is_empty()
            && let Err(error) = fill(&mut request.send, &mailbox.pool, asked, parts)
        {
            if let Some(entry) = queue.held.lock().get_mut(id) {
                entry.request = Some(request);
            }
            return Err(error);
        }
        let gone = queue.held.lock().remove(id).is_none_or(|entry| entry.gone);
        let Request { conn, frame, send, arrived, seen, hurry, .. } = request;
        let send = (!parts.is_empty()).then_some(send);
        let reply = Reply::HostAnswer { id, send, close };
        mailbox.respond(Response { conn, frame, arrived, seen, log_returns: 0, hurry, reply });
        if gone { Err(Error::Stale) } else { Ok(()) }
    }
}
