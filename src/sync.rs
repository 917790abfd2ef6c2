//! The atomics and locks the crate uses, in one place, so that loom can stand in for them.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::MutexGuard;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// A short lock. A panic while it is held does not poison it: what the lock guards says itself
/// whether it can still be used.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Lets threads sleep until another says that what they wait for may have come.
#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Sleeps, with the lock released; it may also end for no reason.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Sleeps for at most `time`, with the lock released; it may also end for no reason.
    pub(crate) fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: core::time::Duration,
    ) -> MutexGuard<'a, T> {
        let woken = self.0.wait_timeout(guard, time);
        woken.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    /// Wakes one sleeper.
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all sleepers.
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
