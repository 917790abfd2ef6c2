//! kloop_waker_*: the one handle that any thread may use (unsafe).

use super::boundary::{guard, on_engine, signal_guard};
use super::handle::{Inner, kloop_engine};
use super::slice::put;
use super::status::{kloop_status, kloop_status_code as code};
use crate::engine::{Inbox, PostRefused};
use crate::error::Error;
use crate::sync::{Arc, AtomicU64, Ordering};

/// Posts to an engine from any thread; may outlive it.
pub struct kloop_waker {
    magic: AtomicU64,
    inbox: Arc<Inbox>,
}

const LIVE: u64 = 0x6b6c_6f6f_7057_414b;

/// Makes a waker of an engine. On the engine's thread.
///
/// # Safety
/// `e` is NULL or an engine handle; `out` is NULL or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_waker_new(
    e: *mut kloop_engine,
    out: *mut *mut kloop_waker,
) -> kloop_status {
    let call = |inner: &mut Inner| {
        if out.is_null() {
            return Err(Error::Invalid("out is NULL"));
        }
        let waker = kloop_waker { magic: AtomicU64::new(LIVE), inbox: inner.engine.inbox() };
        // SAFETY: not null; the caller vouches that it is writable.
        unsafe { put(out, Box::into_raw(Box::new(waker))) }?;
        Ok(0)
    };
    // SAFETY: passed on from the caller.
    unsafe { on_engine(e, call) }
}

/// Posts a number: the engine's descriptor becomes readable, and `kloop_poll` gives it in a
/// `KLOOP_EV_POSTED` event, each post once, those of one thread in order. `KLOOP_E_AGAIN` when too
/// many wait, `KLOOP_E_CLOSED` when the engine is gone. Any thread, also in a signal handler.
///
/// # Safety
/// `w` is NULL or a waker that is not freed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_waker_post(w: *mut kloop_waker, user: u64) -> kloop_status {
    signal_guard(code::KLOOP_E_PANIC as i32, || {
        if w.is_null() {
            return code::KLOOP_E_INVALID as i32;
        }
        // SAFETY: not null; the caller vouches for the rest.
        let waker = unsafe { &*w };
        if waker.magic.load(Ordering::Relaxed) != LIVE {
            return code::KLOOP_E_STALE as i32;
        }
        match waker.inbox.post(user) {
            Ok(()) => 0,
            Err(PostRefused::Full) => code::KLOOP_E_AGAIN as i32,
            Err(PostRefused::Closed) => code::KLOOP_E_CLOSED as i32,
        }
    })
}

/// Frees a waker. NULL is ignored. Any thread, when no other uses it.
///
/// # Safety
/// `w` is NULL or a waker that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_waker_free(w: *mut kloop_waker) {
    guard((), || {
        if w.is_null() {
            return;
        }
        // SAFETY: not null; the caller vouches for the rest.
        let live = unsafe { &*w }.magic.swap(0, Ordering::Relaxed) == LIVE;
        if live {
            // SAFETY: made by `Box::into_raw` in `kloop_waker_new`, and freed only here.
            drop(unsafe { Box::from_raw(w) });
        }
    });
}
