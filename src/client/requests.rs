//! Raw requests: any API, by the host's own bytes.

use super::client::Client;
use super::events::Source;
use super::in_flight::Purpose;
use super::lists::Lists;
use super::network_client::NotSent;
use super::node_connections::{ConnectionKind, NodeConnectionId};
use super::nodes::Choice;
use crate::error::Error;
use crate::net::Selectable;
use crate::net::pool::{Priority, SharedLease};
use crate::net::slots::{SlotId, Slots};
use crate::net::timers::Timers;
use crate::protocol::{ApiKey, ErrorCode};
use crate::time::{Instant, Moment};

/// Where a raw request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RawState {
    Waiting,
    InFlight,
    /// Its outcome is known and was not taken.
    Done,
}

#[derive(Debug)]
pub(super) struct RawRequest {
    pub(super) user: u64,
    node: i32,
    pub(super) key: ApiKey,
    pub(super) version: i16,
    body: Option<SharedLease>,
    state: RawState,
    pub(super) result: Option<Result<SharedLease, Error>>,
}

#[derive(Debug)]
pub(super) struct RawRequests {
    slots: Slots<RawRequest>,
    /// Those that wait for a connection, oldest first.
    waiting: Lists,
    /// Per request that waits, when it has waited for too long. Once sent, its connection's
    /// deadline counts.
    pub(super) timers: Timers,
}

impl RawRequests {
    pub(super) fn new(capacity: usize) -> Self {
        RawRequests {
            slots: Slots::new(capacity),
            waiting: Lists::new(1, capacity),
            timers: Timers::new(capacity),
        }
    }

    /// Takes a request whose outcome is known.
    pub(super) fn take_done(&mut self, index: u32) -> Option<(SlotId, RawRequest)> {
        let (id, request) = self.slots.at_mut(index as usize)?;
        if request.state != RawState::Done {
            return None;
        }
        self.slots.remove(id).map(|request| (id, request))
    }
}

/// Whether a broker may hold a request back for long.
fn may_be_held(key: ApiKey) -> bool {
    matches!(key, ApiKey::FETCH | ApiKey::JOIN_GROUP | ApiKey::SYNC_GROUP)
}

impl Client {
    /// Sends a request of any API to `node`, or to any node if it is -1. `body` is what stands
    /// behind the header and is copied; `api_version` -1 is the highest that both sides know, told
    /// in the [`Reply`](super::ClientEvent::Reply) that follows: exactly one, within
    /// `request.timeout.ms` of being sent and as much of waiting.
    ///
    /// Fetch, JoinGroup and SyncGroup go over a connection of their own, since a broker may hold
    /// them back and with them what is sent behind them. A request that has no answer (Produce with
    /// acks=0) runs out of time.
    ///
    /// # Errors
    /// [`Error::Exhausted`]: no room for another request, or no memory for its body now.
    /// [`Error::Invalid`]: a key that Kafka has not given out, or a body larger than any block.
    pub fn request(
        &mut self,
        node: i32,
        api_key: i16,
        api_version: i16,
        body: &[u8],
        user: u64,
        now: Moment,
    ) -> Result<SlotId, Error> {
        self.open()?;
        let key = ApiKey(api_key);
        if !key.is_known() {
            return Err(Error::Invalid("an API key that Kafka has not given out"));
        }
        if body.len() > self.pool.largest() {
            return Err(Error::Invalid("the body is larger than the pool's largest block"));
        }
        if self.requests.slots.is_full() {
            return Err(Error::Exhausted("raw requests (max_requests)"));
        }
        let body = if body.is_empty() {
            SharedLease::empty()
        } else {
            // The reserve is for what keeps the connections alive, not for the host's requests.
            let block = self.pool.lease(body.len(), Priority::Data);
            let mut block = block.ok_or(Error::Exhausted("the buffer pool"))?;
            block.get_mut(..body.len()).ok_or(Error::Bug("a short block"))?.copy_from_slice(body);
            block.share(body.len())
        };
        let request = RawRequest {
            user,
            node,
            key,
            version: api_version,
            body: Some(body),
            state: RawState::Waiting,
            result: None,
        };
        let inserted = self.requests.slots.insert(request);
        let id = inserted.map_err(|_| Error::Exhausted("raw requests (max_requests)"))?;
        self.requests.waiting.push_back(0, id.index() as u32);
        let until = now.at.after(self.cluster.config().request_timeout);
        self.requests.timers.set(id.index(), until);
        self.wants_turn = true;
        Ok(id)
    }

    /// Ends a request early; its [`Reply`](super::ClientEvent::Reply) says [`Error::Canceled`]. One
    /// that was sent already may have its effect all the same.
    ///
    /// # Errors
    /// [`Error::Stale`] if it has ended.
    pub fn cancel(&mut self, op: SlotId) -> Result<(), Error> {
        let request = self.requests.slots.get(op).ok_or(Error::Stale)?;
        if request.state == RawState::Done {
            return Err(Error::Stale);
        }
        self.end_request(op, Err(Error::Canceled));
        Ok(())
    }

    fn end_request(&mut self, id: SlotId, result: Result<SharedLease, Error>) {
        let Some(request) = self.requests.slots.get_mut(id) else { return };
        if request.state == RawState::Done {
            return;
        }
        request.state = RawState::Done;
        request.result = Some(result);
        request.body = None;
        self.requests.waiting.remove(id.index() as u32);
        self.requests.timers.clear(id.index());
        self.events.push(Source::Request(id.index() as u32));
    }

    /// All of them end.
    pub(super) fn end_raw(&mut self, error: Error) {
        for index in 0..self.requests.slots.capacity() {
            let id = self.requests.slots.at(index).map(|(id, _)| id);
            if let Some(id) = id {
                self.end_request(id, Err(error));
            }
        }
    }

    /// A request has waited for too long.
    pub(super) fn raw_due(&mut self, index: usize) {
        let id = self.requests.slots.at(index).map(|(id, _)| id);
        if let Some(id) = id {
            self.end_request(id, Err(Error::Timeout));
        }
    }

    /// Sends those that wait and whose node is ready.
    pub(super) fn send_raw<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        let mut at = self.requests.waiting.front(0);
        while let Some(index) = at {
            at = self.requests.waiting.after(index);
            let Some((id, request)) = self.requests.slots.at(index as usize) else { continue };
            let (node, key) = (request.node, request.key);
            let kind =
                if may_be_held(key) { ConnectionKind::Held } else { ConnectionKind::Control };
            let connection = if node < 0 {
                match self.cluster.least_loaded(net, now) {
                    Choice::Ready(connection) => {
                        Some(self.cluster.connection_id(connection.node(), kind))
                    }
                    Choice::Wait => None,
                    Choice::Backoff(at) => {
                        self.cluster.wake_at(at);
                        None
                    }
                }
            } else {
                // A node that is not known may become known.
                self.cluster.find(node).map(|node| self.cluster.connection_id(node, kind))
            };
            if let Some(connection) =
                connection.filter(|&connection| self.cluster.ready(net, connection, now))
            {
                self.send_one(net, id, connection, now);
            }
        }
    }

    fn send_one<N: Selectable>(
        &mut self,
        net: &mut N,
        id: SlotId,
        connection: NodeConnectionId,
        now: Instant,
    ) {
        let Some(request) = self.requests.slots.get_mut(id) else { return };
        let key = request.key;
        let version = match request.version {
            -1 => self.cluster.version(connection, key),
            version => {
                Some(version).filter(|&version| self.cluster.serves(connection, key, version))
            }
        };
        let Some(version) = version else {
            self.end_request(id, Err(Error::Kafka(ErrorCode::UNSUPPORTED_VERSION.0)));
            return;
        };
        let body = request.body.clone();
        let purpose = Purpose::Raw(id);
        let sent =
            self.cluster.send(net, connection, key, version, purpose, false, 0, now, |send| {
                match body.filter(|body| !body.is_empty()) {
                    Some(body) => send.append(body).map_err(|_| "no room for the body"),
                    None => Ok(()),
                }
            });
        match sent {
            Ok(()) => {
                request.version = version;
                request.state = RawState::InFlight;
                request.body = None;
                self.requests.waiting.remove(id.index() as u32);
                self.requests.timers.clear(id.index());
            }
            Err(NotSent::Later) => self.cluster.wake_soon(now),
            Err(NotSent::Gone) => {}
            Err(NotSent::Unwritable(why)) => self.end_request(id, Err(Error::Invalid(why))),
        }
    }

    pub(super) fn on_raw_answer(&mut self, id: SlotId, body: SharedLease) {
        self.end_request(id, Ok(body));
    }

    pub(super) fn on_raw_lost(&mut self, id: SlotId, code: ErrorCode, too_large: bool) {
        let error = match code {
            _ if too_large => Error::TooLarge,
            ErrorCode::REQUEST_TIMED_OUT => Error::Timeout,
            code => code.into(),
        };
        self.end_request(id, Err(error));
    }
}
