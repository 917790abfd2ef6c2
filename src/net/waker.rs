//! Waker: makes a selector's descriptor readable from any thread, with one write for many wakes.
//!
//! **The protocol.** Two flags, all operations sequentially consistent:
//!
//! | who | does |
//! |---|---|
//! | a waker, after its post is visible | `posted = true`; if `signalled` was false before being set: write |
//! | the selector's thread, when a turn begins | takes `posted`, then its caller drains the posts |
//! | the same, when a turn ends with nothing left | read; `signalled = false`; if `posted`: set and write again |
//!
//! *No wake is lost.* Say a waker finds `signalled` true and does not write. Either that flag is
//! taken down afterwards: then `posted` was set before, and the selector, which looks at `posted`
//! after taking the flag down, signals again (or has taken `posted` since, and then the post was
//! drained by the turn in between). Or it is not taken down: then whoever set it has written, or
//! stands between its swap and its write, and the descriptor is or becomes readable.
//!
//! *A write can come late.* A waker may stop between its swap and its write while the selector
//! reads nothing, takes the flag down, signals on behalf of `posted`, runs a turn and ends it
//! quietly. The late write then finds `signalled` false behind it. So a selector that was woken by
//! the descriptor clears it at the turn's end whatever the flag says; the late write costs one
//! empty turn, and never leaves the descriptor readable for good.
//!
//! The order read, flag down, look at `posted` matters: with the flag down before the read, a waker
//! in between would write and have its write read away.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::sys::level::Signal;
use crate::sync::{Arc, AtomicBool, Ordering};

/// Makes a selector's descriptor readable, from any thread and from signal handlers; outlives it.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    posted: AtomicBool,
    signalled: AtomicBool,
    signal: Signal,
}

impl Waker {
    pub(super) fn new(signal: Signal) -> Self {
        let flags = (AtomicBool::new(false), AtomicBool::new(false));
        Waker { shared: Arc::new(Shared { posted: flags.0, signalled: flags.1, signal }) }
    }

    /// Makes the descriptor readable. What the wake is about must be visible before: a queue pushed
    /// to, a flag set.
    pub fn wake(&self) {
        self.shared.posted.store(true, Ordering::SeqCst);
        self.signal();
    }

    /// Whether somebody woke since the last call; forgets it.
    #[inline]
    pub(super) fn take_posted(&self) -> bool {
        // A look first: the swap is the dearer of the two, and mostly there is nothing.
        self.shared.posted.load(Ordering::SeqCst)
            && self.shared.posted.swap(false, Ordering::SeqCst)
    }

    /// Whether somebody woke since [`Waker::take_posted`].
    #[inline]
    pub(super) fn is_posted(&self) -> bool {
        self.shared.posted.load(Ordering::SeqCst)
    }

    /// Whether the descriptor was made readable and not cleared since.
    #[inline]
    pub(super) fn is_signalled(&self) -> bool {
        self.shared.signalled.load(Ordering::SeqCst)
    }

    /// Makes the descriptor readable; says whether that took a write.
    #[inline]
    pub(super) fn signal(&self) -> bool {
        let before = self.shared.signalled.swap(true, Ordering::SeqCst);
        if !before {
            self.shared.signal.set();
        }
        !before
    }

    /// Makes the descriptor unreadable, unless somebody wakes meanwhile. On the selector's thread.
    pub(super) fn clear(&self) {
        self.shared.signal.clear();
        self.shared.signalled.store(false, Ordering::SeqCst);
        if self.is_posted() {
            self.signal();
        }
    }
}
