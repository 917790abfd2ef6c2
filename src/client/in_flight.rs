//! InFlightRequests: requests that were sent and not answered, per connection, oldest first.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::net::ring::Ring;
use crate::net::slots::SlotId;
use crate::protocol::ApiKey;
use crate::time::Instant;
use core::time::Duration;

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The connection's own first request.
    ApiVersions,
    /// The client's picture of the cluster.
    Metadata,
    /// A producer's id.
    ProducerId(SlotId),
    /// Batches: the first of a chain.
    Produce {
        /// Whose.
        producer: SlotId,
        /// The first batch's place in the table of batches.
        first: u32,
    },
    /// Positions of a consumer's partitions.
    Offsets(SlotId),
    /// Records for a consumer.
    Fetch(SlotId),
    /// A raw request.
    Raw(SlotId),
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InFlightRequest {
    pub(super) correlation: i32,
    pub(super) key: ApiKey,
    pub(super) version: i16,
    /// Counted from the moment it was queued, not from its last byte.
    pub(super) deadline: Instant,
    pub(super) purpose: Purpose,
}

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct InFlightRequests {
    /// Those that will be answered, in the order of their answers.
    answered: Ring<InFlightRequest>,
    /// Those that will not (acks=0): over when they are written.
    silent: Ring<InFlightRequest>,
    /// The last correlation id.
    correlation: i32,
}

/// Ids that Kafka keeps for SASL, so that a late answer cannot be taken for one of its.
const RESERVED: core::ops::RangeInclusive<i32> = 2_147_483_640..=i32::MAX;

impl InFlightRequests {
    pub(super) fn new(capacity: usize) -> Self {
        InFlightRequests {
            answered: Ring::new(capacity),
            silent: Ring::new(capacity),
            correlation: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.answered.len() + self.silent.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.answered.is_full() || self.silent.is_full()
    }

    /// The next request's id.
    pub(super) fn next_correlation(&mut self) -> i32 {
        self.correlation = self.correlation.wrapping_add(1);
        if RESERVED.contains(&self.correlation) {
            self.correlation = i32::MIN;
        }
        self.correlation
    }

    /// Notes a request; the caller has looked that there is room.
    pub(super) fn push(&mut self, request: InFlightRequest, silent: bool) {
        let ring = if silent { &mut self.silent } else { &mut self.answered };
        let pushed = ring.push_back(request);
        debug_assert!(pushed.is_ok(), "the caller has looked that there is room");
    }

    /// The request that an answer with this id is for: it must be the oldest one.
    pub(super) fn answered(&mut self, correlation: i32) -> Option<InFlightRequest> {
        if self.answered.front()?.correlation != correlation {
            return None;
        }
        self.answered.pop_front()
    }

    /// The request whose last byte was written, and that is over with that.
    pub(super) fn written(&mut self, token: u64) -> Option<InFlightRequest> {
        if token_of(self.silent.front()?.correlation) != token {
            return None;
        }
        self.silent.pop_front()
    }

    /// Takes the oldest request of a connection that is gone; the second says whether an answer was
    /// expected.
    pub(super) fn pop_lost(&mut self) -> Option<(InFlightRequest, bool)> {
        match self.answered.pop_front() {
            Some(request) => Some((request, true)),
            None => self.silent.pop_front().map(|request| (request, false)),
        }
    }

    /// When the first of them runs out of time.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.answered.iter().chain(self.silent.iter()).map(|request| request.deadline).min()
    }

    /// The broker holds everything back for `by`: that time does not count (KIP-219).
    pub(super) fn extend(&mut self, by: Duration) {
        for _ in 0..self.answered.len() {
            let Some(mut request) = self.answered.pop_front() else { return };
            request.deadline = request.deadline.after(by);
            self.push(request, false);
        }
    }
}

/// The token under which the writing of a request is reported.
pub(super) fn token_of(correlation: i32) -> u64 {
    u64::from(correlation as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(correlation: i32, deadline: u64) -> InFlightRequest {
        InFlightRequest {
            correlation,
            key: ApiKey::METADATA,
            version: 0,
            deadline: Instant::from_nanos(deadline),
            purpose: Purpose::Metadata,
        }
    }

    #[test]
    fn answers_come_in_order_or_not_at_all() {
        let mut queue = InFlightRequests::new(3);
        assert_eq!(queue.answered(1), None);
        queue.push(request(1, 30), false);
        queue.push(request(2, 20), false);
        queue.push(request(3, 50), true);
        assert_eq!(queue.earliest(), Some(Instant::from_nanos(20)));
        assert_eq!(queue.answered(2), None);
        assert_eq!(queue.written(token_of(3)), Some(request(3, 50)));
        assert_eq!(queue.written(token_of(3)), None);
        assert_eq!(queue.answered(1), Some(request(1, 30)));
        queue.extend(Duration::from_nanos(5));
        assert_eq!(queue.pop_lost(), Some((request(2, 25), true)));
        assert_eq!(queue.pop_lost(), None);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn correlation_ids_skip_those_of_sasl_and_wrap() {
        let mut queue = InFlightRequests::new(1);
        assert_eq!(queue.next_correlation(), 1);
        queue.correlation = 2_147_483_638;
        assert_eq!(queue.next_correlation(), 2_147_483_639);
        assert_eq!(queue.next_correlation(), i32::MIN);
        queue.correlation = -1;
        assert_eq!(queue.next_correlation(), 0);
    }
}
