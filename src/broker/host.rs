//! Requests that the host answers: each has a token that takes exactly one answer.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::net::slots::{SlotId, Slots};
use crate::net::{ConnId, SharedLease};
use crate::protocol::ApiKey;

/// Where a request of the host's is.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The host was not told yet.
    Untold(SharedLease),
    /// The host has it.
    Told,
    /// The answer is queued; the host wants to know when it is written.
    Sending,
    /// The answer is written or dropped, and the host is to be told.
    Sent,
}

/// A request that the host answers.
#[derive(Debug)]
pub(crate) struct HostRequest {
    /// Its connection.
    pub conn: ConnId,
    /// The API.
    pub key: ApiKey,
    /// The version.
    pub version: i16,
    /// The answer repeats it.
    pub correlation_id: i32,
    /// The host's token of the answer.
    pub user: u64,
    /// Where it is.
    pub phase: Phase,
}

/// All requests of the host's.
#[derive(Debug)]
pub(crate) struct HostRequests {
    slots: Slots<HostRequest>,
    /// How many are in [`Phase::Sending`].
    sending: usize,
}

impl HostRequests {
    /// Places for so many.
    pub(crate) fn new(capacity: usize) -> Self {
        HostRequests { slots: Slots::new(capacity), sending: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Takes a request; gives it back if there is no place.
    pub(crate) fn add(&mut self, request: HostRequest) -> Result<SlotId, HostRequest> {
        self.slots.insert(request)
    }

    /// A request that the host has and did not answer.
    pub(crate) fn unanswered(&self, id: SlotId) -> Option<&HostRequest> {
        self.slots.get(id).filter(|request| matches!(request.phase, Phase::Told))
    }

    /// The request at an index.
    pub(crate) fn at_mut(&mut self, index: usize) -> Option<(SlotId, &mut HostRequest)> {
        self.slots.at_mut(index)
    }

    /// The answer is queued. The request stays if the host wants to hear of its end.
    pub(crate) fn answered(&mut self, id: SlotId, user: u64) {
        if user == 0 {
            self.slots.remove(id);
        } else if let Some(request) = self.slots.get_mut(id) {
            request.user = user;
            request.phase = Phase::Sending;
            self.sending += 1;
        }
    }

    /// The answer is written or dropped; says whether the host is to be told.
    pub(crate) fn sent(&mut self, id: SlotId) -> bool {
        match self.slots.get_mut(id) {
            Some(request @ HostRequest { phase: Phase::Sending, .. }) => {
                request.phase = Phase::Sent;
                self.sending -= 1;
                true
            }
            _ => false,
        }
    }

    /// Forgets a request.
    pub(crate) fn remove(&mut self, id: SlotId) -> Option<HostRequest> {
        let request = self.slots.remove(id)?;
        if matches!(request.phase, Phase::Sending) {
            self.sending -= 1;
        }
        Some(request)
    }

    /// One answer to a connection that is gone and was not written.
    pub(crate) fn dropped(&self, conn: ConnId) -> Option<SlotId> {
        if self.sending == 0 {
            return None;
        }
        let dropped =
            |request: &HostRequest| request.conn == conn && matches!(request.phase, Phase::Sending);
        self.slots.iter().find(|(_, request)| dropped(request)).map(|(id, _)| id)
    }
}
