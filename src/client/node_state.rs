//! The states of a connection to a node, and the schedules by which it is tried again.

use super::random::Random;
use crate::time::Instant;
use core::time::Duration;

/// Where one connection to a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// There is none. It may be made when the backoff is over.
    Disconnected,
    /// A name server is asked for the node's addresses.
    Resolving,
    /// Sockets connect.
    Connecting,
    /// The broker was asked what it speaks.
    CheckingVersions,
    /// Requests may be sent.
    Ready,
}

/// How long to wait after the n-th failure in a row: doubling from `base`, a fifth of jitter, never
/// over `max`. A base that is not below `max` gives a constant `max` without jitter (KIP-580).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// After the first failure.
    pub base: Duration,
    /// After many.
    pub max: Duration,
}

impl Schedule {
    /// The wait after `failures` earlier failures.
    pub(super) fn delay(self, failures: u32, random: &mut Random) -> Duration {
        if self.base >= self.max {
            return self.max;
        }
        let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
        let full = self.base.saturating_mul(factor).min(self.max);
        random.jitter(full).min(self.max)
    }
}

/// What is remembered of a connection over its failures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Health {
    /// Disconnects since it was last ready.
    failures: u32,
    /// Failures while connecting, since the socket was last connected.
    setup_failures: u32,
    /// When it was last tried; 0 for never.
    pub(super) last_attempt: Instant,
    /// When it may be tried again.
    pub(super) retry_at: Instant,
}

impl Health {
    pub(super) fn new() -> Self {
        let start = Instant::from_nanos(0);
        Health { failures: 0, setup_failures: 0, last_attempt: start, retry_at: start }
    }

    /// A connect is started; gives the time by which it must be established (KIP-601).
    pub(super) fn attempt(
        &mut self,
        setup: Schedule,
        random: &mut Random,
        now: Instant,
    ) -> Instant {
        self.last_attempt = now;
        now.after(setup.delay(self.setup_failures, random))
    }

    /// The socket is connected.
    pub(super) fn connected(&mut self) {
        self.setup_failures = 0;
    }

    /// The broker has told what it speaks. Only this ends the growth of the backoff.
    pub(super) fn ready(&mut self) {
        self.failures = 0;
        self.setup_failures = 0;
    }

    /// The connection failed in `state`.
    pub(super) fn failed(
        &mut self,
        state: ConnectionState,
        reconnect: Schedule,
        random: &mut Random,
        now: Instant,
    ) {
        self.retry_at = now.after(reconnect.delay(self.failures, random));
        self.failures = self.failures.saturating_add(1);
        if matches!(state, ConnectionState::Resolving | ConnectionState::Connecting) {
            self.setup_failures = self.setup_failures.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn doubles_with_jitter_and_never_passes_the_maximum() {
        let schedule = Schedule { base: 50 * MS, max: 1000 * MS };
        let mut random = Random::new(3);
        for n in 0..40 {
            let middle = (50u64 << n.min(10)).min(1000);
            for _ in 0..50 {
                let ms = schedule.delay(n, &mut random).as_micros() as u64;
                assert!(ms >= middle * 800, "{n}: {ms}");
                assert!(ms <= (middle * 1200).min(1_000_000), "{n}: {ms}");
            }
        }
    }

    #[test]
    fn a_base_over_the_maximum_is_constant() {
        let mut random = Random::new(3);
        let constant = Schedule { base: 500 * MS, max: 100 * MS };
        assert!((0..20).all(|n| constant.delay(n, &mut random) == 100 * MS));
        let none = Schedule { base: Duration::ZERO, max: Duration::ZERO };
        assert_eq!(none.delay(5, &mut random), Duration::ZERO);
    }

    #[test]
    fn only_ready_ends_the_growth() {
        let at = Instant::from_nanos;
        let reconnect = Schedule { base: 100 * MS, max: 10_000 * MS };
        let setup = Schedule { base: 1000 * MS, max: 8000 * MS };
        let mut random = Random::new(9);
        let mut health = Health::new();
        health.failed(ConnectionState::Connecting, reconnect, &mut random, at(0));
        health.failed(ConnectionState::CheckingVersions, reconnect, &mut random, at(0));
        health.connected();
        assert_eq!((health.failures, health.setup_failures), (2, 0));
        health.failed(ConnectionState::Connecting, reconnect, &mut random, at(0));
        assert!(health.retry_at >= at(320_000_000) && health.retry_at <= at(480_000_000));
        let limit = health.attempt(setup, &mut random, at(0));
        assert!(limit >= at(1_600_000_000) && limit <= at(2_400_000_000), "the second try is 2x");
        health.ready();
        assert_eq!((health.failures, health.setup_failures), (0, 0));
    }
}
