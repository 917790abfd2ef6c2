//! The handler threads: a request out of the channel, its handler under the guard, a response into
//! its processor's queue.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::host_threads::ForHost;
use super::{Reply, Request, Response, Shared};
use crate::broker::dispatch::Prepared;
use crate::broker::host_answer::Asked;
use crate::broker::request::{Stop, WaitFor};
use crate::broker::scratch::Scratch;
use crate::broker::serve::{Ran, When, run};
use crate::guard::guarded;
use crate::logging::Level;
use crate::net::pool::Priority;
use crate::net::{BufferPool, SharedLease};
use crate::time::{Clock, Moment};

/// What a handler thread does until the channel is closed.
pub(super) fn work(shared: &Shared, scratch: &mut Scratch) {
    while let Some(request) = shared.requests.pop(&shared.clock) {
        shared.wake_refused();
        serve(shared, scratch, request);
    }
}

fn serve(shared: &Shared, scratch: &mut Scratch, request: Request) {
    let Request { processor, conn, frame, send, arrived, hurry, seen, local } = request;
    let Some(mailbox) = shared.mailboxes.get(processor) else { return };
    let log_returns = shared.core.memory.pool().returns();
    let now = Moment { at: shared.clock.now(), wall_ms: shared.clock.wall_ms() };
    let when = When { arrived, now, hurry };
    let mut to = Prepared { send: Some(send), pool: &mailbox.pool, wanted: 0, local };
    // What a panic may leave half done: a partition, which knows it itself, and the working tables,
    // which every request writes anew.
    let ran = guarded(|| {
        #[cfg(test)]
        assert!(!shared.panics[0].swap(false, crate::sync::Ordering::SeqCst));
        run(&shared.core, scratch, &frame, when, &mut to)
    });
    let mut for_host = None;
    let reply = match ran {
        Ok(Ok(Ran::Host { key, version, correlation_id, body_at })) => {
            let asked = Asked { key, version, correlation_id };
            // What was begun for its answer goes back: the host may take its time.
            to.send = None;
            let frame = frame.clone();
            let request = ForHost { processor, conn, frame, arrived, asked, body_at };
            for_host = shared.host_queue.keep(request);
            let full = Reply::Close("the host has too many unanswered requests");
            for_host.map_or(full, |id| Reply::Host { id })
        }
        Ok(ran) => reply_of(ran, scratch, &mailbox.pool, to.wanted),
        Err(caught) => {
            scratch.clear();
            let line = format_args!("a handler panicked: {caught}");
            shared.core.logger.line(Level::Error, line);
            Reply::Panicked
        }
    };
    // Appends first: who reads its answer finds that others have heard of them.
    shared.post_appends(&mut scratch.appended);
    mailbox.respond(Response { conn, frame, arrived, seen, log_returns, hurry, reply });
    // The processor hears of it before it can be answered.
    if let Some(id) = for_host {
        shared.host_queue.announce(id);
    }
}

fn reply_of(ran: Result<Ran, Stop>, scratch: &Scratch, pool: &BufferPool, wanted: usize) -> Reply {
    match ran {
        Ok(Ran::Handled(send)) => Reply::Answer(send),
        Ok(Ran::Host { .. }) => Reply::Close("a request of the host's was not kept"),
        Err(Stop::Close(why)) => Reply::Close(why),
        Err(Stop::Park { on: WaitFor::Room, .. }) => Reply::NoMemory { room: wanted },
        Err(Stop::Park { until, on: WaitFor::LogMemory }) => Reply::LogMemory { until },
        Err(Stop::Park { until, on: WaitFor::Appends }) => {
            Reply::Appends { until, watch: listed(scratch.watch.get(), pool) }
        }
    }
}

/// The partitions that a request waits for, in a block that goes with it.
fn listed(watch: &[u32], pool: &BufferPool) -> Option<SharedLease> {
    let len = size_of_val(watch);
    let mut lease = pool.lease(len, Priority::Data)?;
    for (place, partition) in lease.as_chunks_mut::<4>().0.iter_mut().zip(watch) {
        *place = partition.to_ne_bytes();
    }
    Some(lease.share(len))
}
