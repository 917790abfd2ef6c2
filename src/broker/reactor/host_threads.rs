//! HostThreads: requests that threads of the host take and answer, at their own pace and in any order.
//!
//! A handler thread puts such a request down here instead of answering it, and tells the processor,
//! whose connection then waits for this request. A thread of the host takes it, and its body stays
//! where it is until that thread has answered, also if the peer leaves meanwhile. The answer waits there
//! until the processor has room to send it. So what the host keeps takes nothing from others but its
//! own frames.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::request_channel::{Popped, RequestChannel};
use super::{Reply, Response, Shared};
use crate::broker::host_answer::{Asked, copy_into_blocks};
use crate::error::Error;
use crate::net::slots::{SlotId, Slots};
use crate::net::{ConnId, SharedLease};
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
    /// Which processor has its connection.
    processor: usize,
    conn: ConnId,
    /// The request itself; gone with its connection, unless a thread of the host reads it.
    frame: Option<SharedLease>,
    arrived: Instant,
    asked: Asked,
    body_at: usize,
    stage: Stage,
    /// Its connection has ended.
    gone: bool,
}

/// How far a request is.
#[derive(Debug)]
enum Stage {
    /// It waits for a thread of the host.
    Waiting,
    /// A thread has it.
    Taken,
    /// Its answer is being copied.
    Answering,
    /// Its answer waits until its processor has sent it.
    Answered(HostAnswer),
}

/// Blocks of one answer at most.
const BLOCKS: usize = 8;

/// What a thread of the host answered.
#[derive(Debug)]
pub(crate) struct HostAnswer {
    /// The body; `None` if no answer is wanted.
    pub(crate) body: Option<[SharedLease; BLOCKS]>,
    /// The connection ends behind it.
    pub(crate) close: bool,
}

/// A request that is put down for the host.
#[derive(Debug)]
pub(super) struct ForHost {
    pub(super) processor: usize,
    pub(super) conn: ConnId,
    pub(super) frame: SharedLease,
    pub(super) arrived: Instant,
    pub(super) asked: Asked,
    pub(super) body_at: usize,
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

    /// Keeps a request; `None` if there is no place. [`HostQueue::announce`] follows.
    pub(super) fn keep(&self, request: ForHost) -> Option<SlotId> {
        let ForHost { processor, conn, frame, arrived, asked, body_at } = request;
        let (frame, stage, gone) = (Some(frame), Stage::Waiting, false);
        let held = Held { processor, conn, frame, arrived, asked, body_at, stage, gone };
        self.held.lock().insert(held).ok()
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
        match entry.stage {
            // Its number stands in the channel: whoever takes that frees the place.
            Stage::Waiting => entry.frame = None,
            Stage::Taken | Stage::Answering => {}
            Stage::Answered(_) => {
                held.remove(id);
            }
        }
    }

    /// Whether a request is answered and not sent yet; if so, whether an answer is wanted.
    pub(crate) fn is_answered(&self, id: SlotId) -> Option<bool> {
        match &self.held.lock().get(id)?.stage {
            Stage::Answered(answer) => Some(answer.body.is_some()),
            _ => None,
        }
    }

    /// Takes the answer of a request, with the request and when it came.
    pub(crate) fn take_answer(
        &self,
        id: SlotId,
    ) -> Option<(Asked, HostAnswer, SharedLease, Instant)> {
        let Held { stage: Stage::Answered(answer), asked, frame, arrived, .. } =
            self.held.lock().remove(id)?
        else {
            return None;
        };
        Some((asked, answer, frame?, arrived))
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
        let Some(frame) = &entry.frame else {
            // Gone before it was taken.
            held.remove(id);
            return None;
        };
        entry.stage = Stage::Taken;
        let processor = (entry.processor as u64) << PROCESSOR_SHIFT;
        Some(Taken {
            id,
            conn: entry.conn.raw() | processor,
            api_key: entry.asked.key.0,
            api_version: entry.asked.version,
            body: &raw const frame[entry.body_at..],
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
        let processor = {
            let mut held = queue.held.lock();
            let entry = held.get_mut(id).ok_or(Error::Stale)?;
            let Stage::Taken = entry.stage else { return Err(Error::Stale) };
            let (processor, gone) = (entry.processor, entry.gone);
            // Once it has stopped, nobody takes answers any more.
            if gone || self.shared.requests.is_closed() {
                held.remove(id);
                return Err(if gone { Error::Stale } else { Error::Closed });
            }
            entry.stage = Stage::Answering;
            processor
        };
        let mailbox = self.shared.mailboxes.get(processor);
        let mailbox = mailbox.ok_or(Error::Bug("a request of a processor that is not there"))?;
        let mut blocks = [const { SharedLease::empty() }; BLOCKS];
        let copied = copy_into_blocks(&mailbox.pool, parts, &mut blocks);
        let mut held = queue.held.lock();
        let entry = held.get_mut(id).ok_or(Error::Stale)?;
        if let Err(error) = copied {
            entry.stage = Stage::Taken;
            return Err(error);
        }
        if entry.gone {
            held.remove(id);
            return Err(Error::Stale);
        }
        let body = (!parts.is_empty()).then_some(blocks);
        entry.stage = Stage::Answered(HostAnswer { body, close });
        let (conn, arrived) = (entry.conn, entry.arrived);
        let frame = entry.frame.clone().ok_or(Error::Stale)?;
        drop(held);
        let reply = Reply::HostAnswer { id };
        mailbox.respond(Response {
            conn,
            frame,
            arrived,
            seen: 0,
            log_returns: 0,
            hurry: false,
            reply,
        });
        Ok(())
    }
}
