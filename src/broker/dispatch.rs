//! Dispatch: how the broker of a processor has its requests run by other threads: frame → request
//! channel → handler thread → response queue → answer, or a place to wait.
//!
//! A connection is muted from the moment its request is handed over to the moment it is answered, so
//! it has at most one request on the way, and answers leave in order. Whatever has no room now (the
//! channel, the answer's memory, the connection's queue) waits in `Delayed` for [`Source::Room`];
//! the network thread itself never waits.
//!
//! **No append is missed.** A long poll is looked at by a handler while appends go on elsewhere. Each
//! append sets the partition's bit in every processor's board; a processor that drains its board
//! notes per partition in which drain that was. A request carries the number of the last drain before
//! it was handed over: when it comes back to be parked, a partition drained later than that means
//! that it is looked at again.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::answer::Begin;
use super::connections::State;
use super::delayed::Source;
use super::host_answer::{HEADER, seal};
use super::reactor::mailbox::Mailbox;
use super::reactor::{HostAnswer, Reply, Request, Response, Shared};
use super::request::{Stop, WaitFor};
use super::serve::{Ran, When};
use super::server::Broker;
use crate::logging::Level;
use crate::net::pool::Priority;
use crate::net::slots::SlotId;
use crate::net::{BufferPool, ConnId, Selectable, SendBuilder, SendRefused, SharedLease};
use crate::sync::{Arc, Ordering};
use crate::time::{Instant, Moment};
use std::net::SocketAddr;

/// Room that each request gets for its answer: enough for a Produce and for a Fetch of a few
/// partitions. A handler that needs more takes a block of its own.
const ROOM: usize = 512;

/// A processor's side of the request channel.
#[derive(Debug)]
pub(super) struct Dispatch {
    shared: Arc<Shared>,
    processor: usize,
    /// Requests handed over whose responses were not taken.
    in_flight: usize,
    max_in_flight: usize,
    /// A request found no place in the channel, or too many were on the way.
    refused: bool,
    /// Drains of the board so far, and in which of them each partition was met last.
    drains: u64,
    drained_at: Box<[u64]>,
    /// The address that each client connected to, by the index of its connection; asked for once, and
    /// only if clients are told it.
    locals: Box<[Option<SocketAddr>]>,
}

impl Dispatch {
    /// The side of the processor with this number.
    pub(super) fn new(shared: Arc<Shared>, processor: usize) -> Self {
        let partitions = shared.core.topics.max_partitions();
        let connections = shared.processor_connections;
        Dispatch {
            max_in_flight: shared.processor_connections,
            shared,
            processor,
            in_flight: 0,
            refused: false,
            drains: 0,
            drained_at: (0..partitions).map(|_| 0).collect(),
            locals: (0..connections).map(|_| None).collect(),
        }
    }

    /// A connection was taken.
    pub(super) fn note_local<N: Selectable>(&mut self, net: &N, conn: ConnId) {
        let asked = self.shared.core.advertised().is_none();
        if let Some(local) = self.locals.get_mut(conn.index()) {
            *local = if asked { net.local(conn) } else { None };
        }
    }

    fn mailbox(&self) -> Option<&Mailbox> {
        self.shared.mailboxes.get(self.processor)
    }

    /// Whether the board has something that was not drained.
    pub(super) fn is_board_dirty(&self) -> bool {
        self.mailbox().is_some_and(|mailbox| mailbox.board.is_dirty())
    }

    /// The connection of a request of the host's is gone.
    pub(super) fn forget_host_request(&self, id: SlotId) {
        self.shared.host_queue.forget(id);
    }

    /// A connection of this processor is gone.
    pub(super) fn forget_one(&self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Puts a request into the channel; gives it back if there is no room.
    fn push(&mut self, request: Request) -> Option<Request> {
        let Some(mailbox) = self.shared.mailboxes.get(self.processor) else { return Some(request) };
        if self.in_flight >= self.max_in_flight {
            self.refused = true;
            return Some(request);
        }
        if let Err(request) = self.shared.requests.push(request) {
            // Whoever takes one out after this looks at the flag; one taken out before this made
            // room for the second attempt.
            mailbox.wants_room.store(true, Ordering::SeqCst);
            self.refused = true;
            if let Err(request) = self.shared.requests.push(request) {
                return Some(request);
            }
        }
        self.in_flight += 1;
        None
    }

    fn pop(&mut self) -> Option<Response> {
        let response = self.mailbox()?.responses.pop()?;
        // What the host answers has come back before.
        if !matches!(response.reply, Reply::HostAnswer { .. }) {
            self.in_flight -= 1;
        }
        Some(response)
    }

    /// Whether there may be room again for requests that were refused.
    fn take_room(&mut self, popped: bool) -> bool {
        let signalled = self.mailbox().is_some_and(|m| !m.wants_room.load(Ordering::SeqCst));
        self.refused && (popped || signalled) && core::mem::replace(&mut self.refused, false)
    }
}

impl Broker {
    /// Hands a request to the handlers, or lets it wait until there is room.
    pub(super) fn hand_off<N: Selectable>(
        &mut self,
        net: &mut N,
        conn: ConnId,
        frame: SharedLease,
        arrived: Instant,
    ) {
        net.mute(conn);
        self.offer(net, (conn, frame, arrived), ROOM, self.is_closing());
    }

    /// Hands a parked request over anew.
    pub(super) fn hand_off_parked<N: Selectable>(&mut self, net: &mut N, id: SlotId) {
        let Some(parked) = self.delayed.remove(id) else { return };
        self.counts.wakes += 1;
        let asked = (parked.conn, parked.frame, parked.arrived);
        self.offer(net, asked, ROOM, self.is_closing());
    }

    fn offer<N: Selectable>(
        &mut self,
        net: &mut N,
        (conn, frame, arrived): (ConnId, SharedLease, Instant),
        room: usize,
        hurry: bool,
    ) {
        self.drain_board();
        let send = match net.begin_send(conn, room) {
            Ok(send) => send,
            // The notice of its end is on the way.
            Err(SendRefused::Stale) => return self.connections.set(conn, State::Ready),
            Err(SendRefused::Full | SendRefused::NoMemory) => {
                return self.wait_for_room(net, conn, frame, arrived);
            }
        };
        let Some(dispatch) = &mut self.dispatch else { return };
        let (processor, seen) = (dispatch.processor, dispatch.drains);
        let local = dispatch.locals.get(conn.index()).copied().flatten();
        let request = Request { processor, conn, frame, send, arrived, hurry, seen, local };
        match dispatch.push(request) {
            None => self.connections.set(conn, State::Dispatched),
            Some(request) => self.wait_for_room(net, conn, request.frame, arrived),
        }
    }

    fn wait_for_room<N: Selectable>(
        &mut self,
        net: &mut N,
        conn: ConnId,
        frame: SharedLease,
        arrived: Instant,
    ) {
        let (until, on) = (Instant::FAR, WaitFor::Room);
        match self.delayed.park(conn, frame, arrived, (until, on), &[]) {
            Some(id) => self.connections.set(conn, State::Parked(id)),
            // There is a place for each connection.
            None => self.end(net, conn),
        }
    }

    /// Takes what the handlers have done, and room that they made.
    pub(super) fn take_responses<N: Selectable>(&mut self, net: &mut N, now: Moment) {
        let mut popped = false;
        // No more than are there now: a turn ends.
        let there = self.dispatch.as_ref().and_then(Dispatch::mailbox);
        for _ in 0..there.map_or(0, |mailbox| mailbox.responses.len()) {
            let Some(response) = self.dispatch.as_mut().and_then(Dispatch::pop) else { break };
            popped = true;
            self.take_response(net, response, now);
        }
        if self.dispatch.as_mut().is_some_and(|dispatch| dispatch.take_room(popped)) {
            self.delayed.wake(Source::Room);
        }
    }

    fn take_response<N: Selectable>(&mut self, net: &mut N, response: Response, now: Moment) {
        let Response { conn, frame, arrived, seen, log_returns, hurry, reply } = response;
        let expected = match reply {
            Reply::HostAnswer { id, .. } => State::Host(id),
            _ => State::Dispatched,
        };
        if self.connections.state(conn) != Some(expected) {
            // It is gone; what was answered goes with it.
            if let (Reply::Host { id } | Reply::HostAnswer { id }, Some(dispatch)) =
                (reply, &self.dispatch)
            {
                dispatch.shared.host_queue.forget(id);
            }
            return;
        }
        let when = When { arrived, now, hurry };
        let ran = match reply {
            Reply::Answer(send) => Ok(Ran::Handled(send)),
            Reply::Host { id } => return self.connections.set(conn, State::Host(id)),
            Reply::HostAnswer { id } => return self.send_host_answer(net, conn, id, now),
            Reply::Close(why) => Err(Stop::Close(why)),
            Reply::Panicked => {
                self.counts.panics += 1;
                self.complain(net, conn, &frame, Level::Error, "its handler panicked");
                return self.end(net, conn);
            }
            Reply::NoMemory { room } => {
                return self.offer(net, (conn, frame, arrived), room.max(ROOM), hurry);
            }
            Reply::Appends { until, watch: Some(watch) } => {
                return self.park_for_appends(net, (conn, frame, arrived), until, &watch, seen);
            }
            // There was no memory to say what it waits for: it is answered with what there is.
            Reply::Appends { watch: None, .. } => {
                return self.offer(net, (conn, frame, arrived), ROOM, true);
            }
            Reply::LogMemory { until } => {
                return self.park_for_memory(net, (conn, frame, arrived), until, log_returns);
            }
        };
        self.connections.set(conn, State::Ready);
        self.conclude(net, conn, &frame, ran, when);
        self.release(net, conn);
    }

    /// Sends the answer of a request that a thread of the host had, if it has answered. Without room it
    /// waits for the notice that there is some.
    pub(super) fn send_host_answer<N: Selectable>(
        &mut self,
        net: &mut N,
        conn: ConnId,
        id: SlotId,
        now: Moment,
    ) {
        let Some(dispatch) = &self.dispatch else { return };
        let queue = &dispatch.shared.host_queue;
        let send = match queue.is_answered(id) {
            None => return,
            Some(false) => None,
            Some(true) => match net.begin_send(conn, HEADER) {
                Ok(send) => Some(send),
                // The notice of its end, or of room, is on the way.
                Err(_) => return,
            },
        };
        let Some((asked, answer, frame, arrived)) = queue.take_answer(id) else { return };
        let HostAnswer { body, close } = answer;
        let sealed = match (send, body) {
            (Some(mut send), Some(mut blocks)) => {
                seal(&mut send, asked, &[], &mut blocks).map(|()| Some(send))
            }
            _ => Ok(None),
        };
        let ran = sealed.map(Ran::Handled);
        let ran = ran.map_err(|_| Stop::Close("the host's answer does not fit a frame"));
        self.connections.set(conn, State::Ready);
        self.conclude(net, conn, &frame, ran, When { arrived, now, hurry: false });
        if close {
            self.end(net, conn);
        } else {
            self.release(net, conn);
        }
    }

    fn park_for_appends<N: Selectable>(
        &mut self,
        net: &mut N,
        (conn, frame, arrived): (ConnId, SharedLease, Instant),
        until: Instant,
        watch: &[u8],
        seen: u64,
    ) {
        if let Some(mailbox) = self.dispatch.as_ref().and_then(|dispatch| dispatch.mailbox()) {
            // Before the board is drained: an append after that finds the flag.
            mailbox.awaits_appends.store(true, Ordering::SeqCst);
        }
        self.drain_board();
        self.scratch.watch.clear();
        let mut missed = self.is_closing();
        for index in watch.as_chunks::<4>().0 {
            let partition = u32::from_ne_bytes(*index);
            self.scratch.watch.add(partition);
            let drained = self.dispatch.as_ref().and_then(|d| d.drained_at.get(partition as usize));
            missed |= drained.is_some_and(|at| *at > seen);
        }
        let watch = self.scratch.watch.get();
        match self.delayed.park(conn, frame, arrived, (until, WaitFor::Appends), watch) {
            Some(id) => {
                self.connections.set(conn, State::Parked(id));
                if missed {
                    self.delayed.wake_one(id);
                }
            }
            None => self.end(net, conn),
        }
    }

    fn park_for_memory<N: Selectable>(
        &mut self,
        net: &mut N,
        (conn, frame, arrived): (ConnId, SharedLease, Instant),
        until: Instant,
        log_returns: u64,
    ) {
        match self.delayed.park(conn, frame, arrived, (until, WaitFor::LogMemory), &[]) {
            Some(id) => {
                self.connections.set(conn, State::Parked(id));
                let pool = self.core.memory.pool();
                pool.await_return();
                if pool.returns() != log_returns || self.is_closing() {
                    self.delayed.wake_one(id);
                }
            }
            None => self.end(net, conn),
        }
    }

    /// Takes from the board which partitions were appended to; those who wait for them are ready.
    pub(super) fn drain_board(&mut self) {
        let Some(dispatch) = &mut self.dispatch else { return };
        let Some(mailbox) = dispatch.shared.mailboxes.get(dispatch.processor) else { return };
        if !mailbox.board.take_dirty() {
            return;
        }
        dispatch.drains += 1;
        let (drains, drained_at) = (dispatch.drains, &mut dispatch.drained_at);
        let appended = &mut self.scratch.appended;
        mailbox.board.take(|partition| {
            if let Some(at) = drained_at.get_mut(partition as usize) {
                *at = drains;
            }
            appended.note(partition);
        });
        self.deliver_appends();
    }

    /// The end of a processor's turn: nobody is woken for appends while nobody waits.
    pub(super) fn end_turn(&mut self) {
        let Some(mailbox) = self.dispatch.as_ref().and_then(Dispatch::mailbox) else { return };
        if self.delayed.len() == 0 {
            mailbox.awaits_appends.store(false, Ordering::SeqCst);
        }
        mailbox.published.publish(&self.own_stats());
    }
}

/// Where a handler thread's answers come from: the room that came with the request, or a block of
/// the processor's pool.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    pub(super) send: Option<SendBuilder>,
    pub(super) pool: &'a BufferPool,
    /// The room that there was no memory for.
    pub(super) wanted: usize,
    /// The address that the client connected to.
    pub(super) local: Option<SocketAddr>,
}

impl Begin for Prepared<'_> {
    fn begin(&mut self, room: usize) -> Result<SendBuilder, SendRefused> {
        let send = self.send.take().ok_or(SendRefused::Full)?;
        if room <= send.room() {
            return Ok(send);
        }
        match self.pool.lease(room.saturating_add(4), Priority::Data) {
            Some(lease) => send.moved_to(lease, room).ok_or(SendRefused::NoMemory),
            None => {
                self.wanted = room;
                Err(SendRefused::NoMemory)
            }
        }
    }

    fn largest(&self) -> usize {
        self.pool.largest().saturating_sub(4)
    }

    fn local(&self) -> Option<SocketAddr> {
        self.local
    }
}
