//! A request's road: frame → header → handler → answer, or a place to wait.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::answer::{Answer, Begin, To};
use super::connections::State;
use super::core::Core;
use super::delayed::Source;
use super::events::EventSource;
use super::handlers::{APIS, Api, kafka_versions};
use super::host::{HostRequest, Phase};
use super::host_answer::{Asked, fill, room_for};
use super::request::{Request, Stop, WaitFor};
use super::scratch::Scratch;
use super::server::Broker;
use crate::error::Error;
use crate::guard::guarded;
use crate::logging::Level;
use crate::net::slots::SlotId;
use crate::net::{ConnId, Selectable, SendBuilder, SendRefused, SharedLease};
use crate::protocol::reader::{Malformed, Reader};
use crate::protocol::{ApiKey, RequestHeader};
use crate::time::{Instant, Moment};

/// What became of a request.
pub(super) enum Ran {
    /// It was handled; there is an answer, or none is wanted.
    Handled(Option<SendBuilder>),
    /// It is for the host, and its body begins there.
    Host { key: ApiKey, version: i16, correlation_id: i32, body_at: usize },
}

/// When a request is handled.
#[derive(Clone, Copy)]
pub(super) struct When {
    pub(super) arrived: Instant,
    pub(super) now: Moment,
    /// It must be answered now.
    pub(super) hurry: bool,
}

impl Broker {
    /// Handles the requests of a connection one after another, each to its answer, until one has
    /// to wait or there is none.
    pub(super) fn serve<N: Selectable>(&mut self, net: &mut N, conn: ConnId, now: Moment) {
        while self.connections.state(conn) == Some(State::Ready) {
            if !net.can_send(conn) {
                return self.block(net, conn);
            }
            let Some(frame) = net.next_frame(conn) else { return };
            self.counts.requests += 1;
            self.handle(net, conn, frame, now);
        }
    }

    /// Reads nothing from a connection until its last answers are written.
    fn block<N: Selectable>(&mut self, net: &mut N, conn: ConnId) {
        // Only who was refused a send hears that there is room again.
        if let Err(SendRefused::Full) = net.begin_send(conn, 0) {
            self.connections.set(conn, State::Blocked);
            net.mute(conn);
        }
    }

    /// A send that was refused may be begun now: the connection is read again, or its request that
    /// found no memory for its answer is handled anew.
    pub(super) fn unblock<N: Selectable>(&mut self, net: &mut N, conn: ConnId, now: Moment) {
        match self.connections.state(conn) {
            Some(State::Blocked) => {
                self.connections.set(conn, State::Ready);
                net.unmute(conn);
                self.serve(net, conn, now);
            }
            Some(State::Parked(id))
                if self.delayed.get(id).is_some_and(|parked| parked.on == WaitFor::Room) =>
            {
                self.resume(net, id, now);
            }
            Some(State::Host(id)) => self.send_host_answer(net, conn, id, now),
            _ => {}
        }
    }

    /// Handles anew what became ready, each once.
    pub(super) fn serve_ready<N: Selectable>(&mut self, net: &mut N, now: Moment) {
        for _ in 0..self.delayed.ready_len() {
            let Some(id) = self.delayed.take_ready() else { return };
            self.resume(net, id, now);
        }
    }

    /// Makes those ready who wait for what was appended.
    pub(super) fn deliver_appends(&mut self) {
        let any = !self.scratch.appended.is_empty();
        while let Some(partition) = self.scratch.appended.take() {
            self.delayed.wake(Source::Partition(partition));
        }
        if any {
            self.delayed.wake(Source::AnyPartition);
        }
    }

    fn handle<N: Selectable>(
        &mut self,
        net: &mut N,
        conn: ConnId,
        frame: SharedLease,
        now: Moment,
    ) {
        if self.dispatch.is_some() {
            return self.hand_off(net, conn, frame, now.at);
        }
        let mut when = When { arrived: now.at, now, hurry: self.is_closing() };
        let Some(mut ran) = self.run(net, conn, &frame, when) else { return };
        if let Err(Stop::Park { until, on }) = ran {
            let waits = self.wait(conn, frame.clone(), when, (until, on));
            if waits {
                return net.mute(conn);
            }
            // There is no place to wait: it is answered with what there is now.
            when.hurry = true;
            match self.run(net, conn, &frame, when) {
                Some(again) => ran = again,
                None => return,
            }
        }
        self.conclude(net, conn, &frame, ran, when);
    }

    fn wait(
        &mut self,
        conn: ConnId,
        frame: SharedLease,
        when: When,
        (until, on): (Instant, WaitFor),
    ) -> bool {
        let watch = self.scratch.watch.get();
        let id = self.delayed.park(conn, frame, when.arrived, (until, on), watch);
        if let Some(id) = id {
            self.connections.set(conn, State::Parked(id));
        }
        id.is_some()
    }

    /// Handles a parked request anew.
    fn resume<N: Selectable>(&mut self, net: &mut N, id: SlotId, now: Moment) {
        if self.dispatch.is_some() {
            return self.hand_off_parked(net, id);
        }
        let Some(parked) = self.delayed.get(id) else { return };
        let (conn, frame, arrived) = (parked.conn, parked.frame.clone(), parked.arrived);
        self.counts.wakes += 1;
        let when = When { arrived, now, hurry: self.is_closing() };
        let Some(ran) = self.run(net, conn, &frame, when) else { return };
        if let Err(Stop::Park { until, on }) = ran {
            return self.delayed.park_again(id, (until, on), self.scratch.watch.get());
        }
        self.delayed.remove(id);
        self.connections.set(conn, State::Ready);
        self.conclude(net, conn, &frame, ran, when);
        self.release(net, conn);
    }

    /// Reads a connection again that waited, unless it waits anew or is gone.
    pub(super) fn release<N: Selectable>(&mut self, net: &mut N, conn: ConnId) {
        if self.connections.state(conn) != Some(State::Ready) {
            return;
        }
        if self.is_closing() {
            self.end_connection(net, conn);
        } else {
            net.unmute(conn);
        }
    }

    /// Runs a request under its guard. `None` if it panicked: the connection is closed then.
    fn run<N: Selectable>(
        &mut self,
        net: &mut N,
        conn: ConnId,
        frame: &SharedLease,
        when: When,
    ) -> Option<Result<Ran, Stop>> {
        let (core, scratch) = (&*self.core, &mut self.scratch);
        let mut to = To { net: &mut *net, conn };
        // What a panic may leave half done: a partition, which knows it itself, and the working
        // tables, which every request writes anew.
        let ran = guarded(|| run(core, scratch, frame, when, &mut to));
        // A few bytes may have cost as much as the reading of many.
        net.charge(self.scratch.batch_reader.take_inflated());
        match ran {
            Ok(ran) => Some(ran),
            Err(caught) => {
                self.counts.panics += 1;
                self.scratch.clear();
                let line = format_args!("a handler panicked: {caught}");
                self.core.logger.line(Level::Error, line);
                self.complain(net, conn, frame, Level::Error, "its handler panicked");
                self.end(net, conn);
                None
            }
        }
    }

    pub(super) fn conclude<N: Selectable>(
        &mut self,
        net: &mut N,
        conn: ConnId,
        frame: &SharedLease,
        ran: Result<Ran, Stop>,
        when: When,
    ) {
        match ran {
            Ok(Ran::Handled(None)) => {}
            Ok(Ran::Handled(Some(send))) => {
                // If the connection ended meanwhile, its notice is on the way.
                if net.send(conn, send, None).is_ok() {
                    self.counts.answers += 1;
                }
            }
            Ok(Ran::Host { key, version, correlation_id, body_at }) => {
                let body = frame.slice(body_at..frame.len());
                let phase = Phase::Untold(body);
                let request = HostRequest { conn, key, version, correlation_id, user: 0, phase };
                self.hand_over(net, request, frame, when);
            }
            Err(Stop::Close(why)) => {
                self.counts.refused += 1;
                self.complain(net, conn, frame, Level::Warn, why);
                self.end(net, conn);
            }
            Err(Stop::Park { .. }) => {
                self.counts.refused += 1;
                let why = "there is neither memory for its answer nor a place to wait";
                self.complain(net, conn, frame, Level::Warn, why);
                self.end(net, conn);
            }
        }
    }

    /// Ends a connection behind the answers that it has coming.
    pub(super) fn end<N: Selectable>(&mut self, net: &mut N, conn: ConnId) {
        net.close_after_flush(conn);
        self.forget(conn);
    }

    pub(super) fn complain<N: Selectable>(
        &self,
        net: &N,
        conn: ConnId,
        frame: &[u8],
        level: Level,
        why: &str,
    ) {
        let (id, asked) = (conn.raw(), AskedFor(frame));
        let logger = &self.core.logger;
        match net.peer(conn) {
            Some(peer) => logger
                .line(level, format_args!("connection {id:x} from {peer} is closed: {why}{asked}")),
            None => logger.line(level, format_args!("connection {id:x} is closed: {why}{asked}")),
        }
    }

    /// Hands a request to the host, or lets it wait for a place among the host's requests.
    fn hand_over<N: Selectable>(
        &mut self,
        net: &mut N,
        request: HostRequest,
        frame: &SharedLease,
        when: When,
    ) {
        let conn = request.conn;
        if self.connections.state(conn).is_none() {
            return;
        }
        match self.host.add(request) {
            Ok(id) => {
                self.connections.set(conn, State::Host(id));
                self.events.push(EventSource::Host(id.index()));
                net.mute(conn);
            }
            Err(_) if self.wait(conn, frame.clone(), when, (Instant::FAR, WaitFor::Room)) => {
                net.mute(conn);
            }
            Err(_) => {
                self.counts.refused += 1;
                let why = "the host has too many unanswered requests";
                self.complain(net, conn, frame, Level::Warn, why);
                self.end(net, conn);
            }
        }
    }

    /// Answers a request that was handed to the host: the body in `parts`, which is copied; kloop
    /// writes the header. No parts is no answer, as acks=0 asks for. `close` ends the connection
    /// behind the answer. A `user` other than 0 comes back in [`super::BrokerEvent::Sent`].
    ///
    /// # Errors
    /// [`Error::Stale`] if the request was answered or its connection is gone,
    /// [`Error::Exhausted`] if there is no memory now: the request then still waits.
    pub fn respond<N: Selectable>(
        &mut self,
        net: &mut N,
        request: SlotId,
        parts: &[&[u8]],
        close: bool,
        user: u64,
        _now: Moment,
    ) -> Result<(), Error> {
        let asked = self.host.unanswered(request).ok_or(Error::Stale)?;
        let conn = asked.conn;
        let send = match parts {
            [] => None,
            parts => {
                let HostRequest { key, version, correlation_id, .. } = *asked;
                let asked = Asked { key, version, correlation_id };
                let mut send = net.begin_send(conn, room_for(net.pool(), parts))?;
                fill(&mut send, net.pool(), asked, parts)?;
                Some(send)
            }
        };
        let written = send.is_none();
        if let Some(send) = send {
            // The token is wanted only if the host wants to hear of it.
            net.send(conn, send, (user != 0).then_some(request.raw()))?;
            self.counts.answers += 1;
        }
        self.host.answered(request, user);
        self.connections.set(conn, State::Ready);
        self.delayed.wake(Source::Room);
        if written && self.host.sent(request) {
            self.events.push(EventSource::Host(request.index()));
        }
        if close {
            self.end(net, conn);
        } else {
            self.release(net, conn);
        }
        Ok(())
    }
}

/// What a frame asks for, in a log line: nothing if it is too short to say.
struct AskedFor<'a>(&'a [u8]);

impl core::fmt::Display for AskedFor<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut r = Reader::new(self.0);
        match (r.i16(), r.i16()) {
            (Ok(key), Ok(version)) => write!(f, " ({} v{version})", ApiKey(key)),
            _ => Ok(()),
        }
    }
}

/// Finds the handler of a request and runs it.
pub(super) fn run(
    core: &Core,
    scratch: &mut Scratch,
    frame: &[u8],
    when: When,
    to: &mut dyn Begin,
) -> Result<Ran, Stop> {
    let mut r = Reader::new(frame);
    // No error can be answered to what is not understood: the client could not read it.
    let header = RequestHeader::read(&mut r).map_err(|Malformed(why)| Stop::Close(why))?;
    let (key, version, correlation_id) =
        (header.api_key, header.api_version, header.correlation_id);
    if core.is_host_api(key) && host_takes(key, version)? {
        let body_at = frame.len() - r.left();
        return Ok(Ran::Host { key, version, correlation_id, body_at });
    }
    let api = APIS.iter().find(|api| api.key == key);
    let api = api.ok_or(Stop::Close("the API is not served"))?;
    if !serves(api, version) {
        return Err(Stop::Close("the version is not served"));
    }
    let When { arrived, now, hurry } = when;
    let request = Request { header, body: r.rest(), arrived, now, hurry };
    let mut answer = Answer::new(to, key, version, correlation_id);
    match (api.handle)(core, scratch, &request, &mut answer) {
        Ok(_) => Ok(Ran::Handled(answer.into_send())),
        Err(stop) => {
            // What was read for an answer that is not sent; the list of partitions to wait for
            // stays.
            scratch.views.iter_mut().for_each(|view| *view = None);
            Err(stop)
        }
    }
}

/// A request for ApiVersions is answered in whichever version it comes (KIP-511).
fn serves(api: &Api, version: i16) -> bool {
    let newer = api.key == ApiKey::API_VERSIONS && version > api.max;
    (api.served_from..=api.max).contains(&version) || newer
}

/// Whether a request of an API of the host's goes to the host.
fn host_takes(key: ApiKey, version: i16) -> Result<bool, Stop> {
    let (min, max) = kafka_versions(key).ok_or(Stop::Close("the API is not for clients"))?;
    if key == ApiKey::API_VERSIONS && version > max {
        return Ok(false);
    }
    let served = (min..=max).contains(&version);
    if served { Ok(true) } else { Err(Stop::Close("the version is not served")) }
}
