//! RequestChannel: requests on their way from processors to handler threads. Bounded; a thread that
//! finds none sleeps, and is woken only if it does.
//!
//! **The protocol.** A taker that finds nothing counts itself among the sleepers, under the lock, and
//! looks once more before it sleeps. A giver pushes first and then looks at the count. Both in one
//! order that all threads see: either the taker's second look finds the request, or the giver sees
//! the sleeper and takes the lock, which it gets only when the taker sleeps.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, fence};
use crate::time::{Clock, Instant};
use crossbeam_queue::ArrayQueue;

/// What [`RequestChannel::pop_until`] gives.
#[derive(Debug)]
pub(crate) enum Popped<T> {
    /// The oldest.
    Item(T),
    /// There was none in time.
    TimedOut,
    /// There will be none any more.
    Closed,
}

/// A bounded queue from several threads to several threads.
#[derive(Debug)]
pub(crate) struct RequestChannel<T> {
    queue: ArrayQueue<T>,
    sleepers: AtomicUsize,
    closed: AtomicBool,
    lock: Mutex<()>,
    condvar: Condvar,
}

impl<T> RequestChannel<T> {
    /// Places for so many, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        RequestChannel {
            queue: ArrayQueue::new(capacity.max(1)),
            sleepers: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            lock: Mutex::new(()),
            condvar: Condvar::default(),
        }
    }

    /// Puts one behind the others.
    ///
    /// # Errors
    /// Gives it back if there is no place.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        self.queue.push(item)?;
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _held = self.lock.lock();
            self.condvar.notify_one();
        }
        Ok(())
    }

    /// Takes the oldest; sleeps until there is one. `None` when the channel is closed.
    pub(crate) fn pop(&self, clock: &impl Clock) -> Option<T> {
        match self.pop_until(clock, Instant::FAR) {
            Popped::Item(item) => Some(item),
            Popped::Closed | Popped::TimedOut => None,
        }
    }

    /// Takes the oldest; sleeps until there is one, or until then.
    pub(crate) fn pop_until(&self, clock: &impl Clock, until: Instant) -> Popped<T> {
        loop {
            if self.is_closed() {
                return Popped::Closed;
            }
            if let Some(item) = self.queue.pop() {
                return Popped::Item(item);
            }
            let left = until.since(clock.now());
            if left.is_zero() {
                return Popped::TimedOut;
            }
            let held = self.lock.lock();
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let held = if !self.queue.is_empty() || self.is_closed() {
                held
            } else if until == Instant::FAR {
                self.condvar.wait(held)
            } else {
                self.condvar.wait_for(held, left)
            };
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
            drop(held);
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ends it: nobody sleeps or takes any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _held = self.lock.lock();
        self.condvar.notify_all();
    }

    /// Drops what was not taken.
    pub(crate) fn clear(&self) {
        while self.queue.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_types, clippy::disallowed_macros)]

    use super::*;
    use crate::sync::{Arc, AtomicU64};
    use crate::time::SystemClock;

    /// Through one place, between many threads, each item arrives once and nobody sleeps for ever.
    #[test]
    fn each_item_is_taken_once() {
        const EACH: u64 = 5_000;
        let channel = Arc::new(RequestChannel::new(1));
        let (sum, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let (channel, sum, count) =
                    (Arc::clone(&channel), Arc::clone(&sum), Arc::clone(&count));
                std::thread::spawn(move || {
                    while let Some(item) = channel.pop(&SystemClock::new()) {
                        sum.fetch_add(item, Ordering::Relaxed);
                        count.fetch_add(1, Ordering::Release);
                    }
                })
            })
            .collect();
        let givers: Vec<_> = (0..3)
            .map(|_| {
                let channel = Arc::clone(&channel);
                std::thread::spawn(move || {
                    for item in 1..=EACH {
                        while channel.push(item).is_err() {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        givers.into_iter().for_each(|giver| giver.join().unwrap());
        while count.load(Ordering::Acquire) < 3 * EACH {
            std::thread::yield_now();
        }
        channel.close();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        assert_eq!(sum.load(Ordering::Relaxed), 3 * EACH * (EACH + 1) / 2);
    }
}
