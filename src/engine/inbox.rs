//! Inbox: numbers that other threads post to an engine. Bounded, without locks; the engine's
//! descriptor is written only when the engine may be asleep.

use crate::net::selector::Waker;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crossbeam_queue::ArrayQueue;

/// Why a post was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostRefused {
    /// As many posts wait as the engine holds; post again later.
    Full,
    /// The engine is gone.
    Closed,
}

/// The thread-safe side of an engine; outlives it.
#[derive(Debug)]
pub struct Inbox {
    posts: ArrayQueue<u64>,
    waker: Waker,
    closed: AtomicBool,
    refused: AtomicU64,
}

impl Inbox {
    pub(super) fn new(capacity: usize, waker: Waker) -> Self {
        Inbox {
            posts: ArrayQueue::new(capacity.max(1)),
            waker,
            closed: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        }
    }

    /// Posts a number; it comes out of the engine's poll as [`super::Event::Posted`], each exactly
    /// once, those of one thread in their order. From any thread, and from a signal handler.
    ///
    /// # Errors
    /// [`PostRefused`]: nothing was posted.
    pub fn post(&self, user: u64) -> Result<(), PostRefused> {
        if self.closed.load(Ordering::Acquire) {
            return Err(PostRefused::Closed);
        }
        if self.posts.push(user).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(PostRefused::Full);
        }
        self.waker.wake();
        Ok(())
    }

    pub(super) fn take(&self) -> Option<u64> {
        self.posts.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.posts.is_empty()
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
