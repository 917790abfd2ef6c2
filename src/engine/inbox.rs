//! Inbox: numbers that other threads post to an engine. Bounded, without locks; the engine's
//! descriptor is written only when the engine may be asleep.
//!
//! **Signal handlers.** A push into the queue spins only where it meets a pop that has not ended, which
//! needs a full queue. A handler may have interrupted that very pop; so posts are counted, the count
//! falls only behind the pop, and the queue has one place more than may be counted.

use crate::net::selector::Waker;
use crate::net::sys::errno::KeptErrno;
use crate::net::sys::fork_mark::ForkMark;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crossbeam_queue::ArrayQueue;

/// Why a post was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostRefused {
    /// As many posts wait as the engine holds; post again later.
    Full,
    /// The engine is gone, or the parent's of this process.
    Closed,
}

/// The thread-safe side of an engine; outlives it.
#[derive(Debug)]
pub struct Inbox {
    posts: ArrayQueue<u64>,
    /// Posts that wait, with those that are just being put in or taken out.
    count: AtomicUsize,
    capacity: usize,
    waker: Waker,
    closed: AtomicBool,
    mark: ForkMark,
    refused: AtomicU64,
}

impl Inbox {
    pub(super) fn new(capacity: usize, waker: Waker) -> Self {
        let capacity = capacity.max(1);
        Inbox {
            posts: ArrayQueue::new(capacity + 1),
            count: AtomicUsize::new(0),
            capacity,
            waker,
            closed: AtomicBool::new(false),
            mark: ForkMark::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Posts a number; it comes out of the engine's poll as [`super::Event::Posted`], each exactly
    /// once, those of one thread in their order. From any thread, and from a signal handler.
    ///
    /// # Errors
    /// [`PostRefused`]: nothing was posted.
    pub fn post(&self, user: u64) -> Result<(), PostRefused> {
        // A child's post would wake the parent and tell it nothing.
        if self.closed.load(Ordering::Acquire) || self.mark.is_forked() {
            return Err(PostRefused::Closed);
        }
        let counted = self.count.fetch_add(1, Ordering::AcqRel);
        if counted >= self.capacity || self.posts.push(user).is_err() {
            self.count.fetch_sub(1, Ordering::AcqRel);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(PostRefused::Full);
        }
        let _errno = KeptErrno::new();
        self.waker.wake();
        Ok(())
    }

    pub(super) fn take(&self) -> Option<u64> {
        let user = self.posts.pop()?;
        self.count.fetch_sub(1, Ordering::AcqRel);
        Some(user)
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
