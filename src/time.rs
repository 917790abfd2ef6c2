//! Instant and Clock: time as an argument, and the one place that reads the OS clock.

use core::time::Duration;

/// A point on the monotonic clock, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// Further away than any deadline.
    pub const FAR: Instant = Instant(u64::MAX);

    /// The instant that lies `nanos` after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the clock's start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// This instant, later by `by`; stays at [`Instant::FAR`] instead of wrapping.
    pub fn after(self, by: Duration) -> Self {
        Instant(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// One reading of both clocks, taken once a turn and handed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The monotonic clock: every deadline.
    pub at: Instant,
    /// Wall time in milliseconds since 1970: record timestamps only.
    pub wall_ms: i64,
}

/// Where time comes from: the operating system, or a test that moves it by hand.
pub trait Clock {
    /// The monotonic clock. Every deadline is measured on it.
    fn now(&self) -> Instant;
    /// Wall time in milliseconds since 1970, for record timestamps only.
    fn wall_ms(&self) -> i64;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose zero is now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn new() -> Self {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        // One, so that no live instant equals the default.
        Instant(1 + u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn wall_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }
}
