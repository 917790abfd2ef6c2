//! What every exported function goes through: pointer checks, thread and reentry checks, the panic
//! guard, and the status of what went wrong (unsafe).

use super::config::kloop_error;
use super::handle::{self, HandleCell, Inner, Kind, LastError, Refused, Target, kloop_engine};
use super::status::{call_status, kloop_status, kloop_status_code as code, status};
use crate::error::Error;
use crate::guard::guarded;
use crate::net::sys::errno::KeptErrno;
use crate::properties::NumberRange;
use core::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f`; a panic inside it becomes `on_panic`. `errno` stays what it was.
#[inline]
pub(super) fn guard<R>(on_panic: R, f: impl FnOnce() -> R) -> R {
    let _errno = KeptErrno::new();
    guarded(f).unwrap_or(on_panic)
}

/// As [`guard`], for what a signal handler may call: it touches nothing of the thread's but `errno`,
/// because in a library that was loaded late the first touch of the rest allocates.
#[inline]
pub(super) fn signal_guard<R>(on_panic: R, f: impl FnOnce() -> R) -> R {
    let _errno = KeptErrno::new();
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => value,
        Err(payload) => {
            // Dropping what was thrown could panic again.
            core::mem::forget(payload);
            on_panic
        }
    }
}

impl Refused {
    pub(super) fn status(self) -> kloop_status {
        let code = match self {
            Refused::Null => code::KLOOP_E_INVALID,
            Refused::Stale => code::KLOOP_E_STALE,
            Refused::Thread | Refused::Forked => code::KLOOP_E_THREAD,
            Refused::Reentrant => code::KLOOP_E_REENTRANT,
            Refused::Poisoned => code::KLOOP_E_POISONED,
            Refused::Closed => code::KLOOP_E_CLOSED,
        };
        code as i32
    }

    /// The refusal that has this status.
    pub(super) fn of_status(status: kloop_status) -> Refused {
        use Refused::{Closed, Null, Poisoned, Reentrant, Stale, Thread};
        let all = [Null, Stale, Thread, Reentrant, Poisoned, Closed];
        all.into_iter().find(|refused| refused.status() == status).unwrap_or(Poisoned)
    }

    /// What [`super::engine::kloop_engine_error`] tells of it.
    pub(super) fn last_error(self) -> LastError {
        LastError { status: self.status(), error: self.error() }
    }

    /// The text for a refusal.
    pub(super) fn error(self) -> Error {
        match self {
            Refused::Null => Error::Invalid("the handle is NULL"),
            Refused::Stale => Error::Stale,
            Refused::Thread => Error::Invalid("the engine belongs to another thread"),
            Refused::Forked => Error::Invalid("the engine is the parent's: only _free"),
            Refused::Reentrant => Error::Invalid("called from inside a call"),
            Refused::Poisoned => Error::Bug("a bug was caught in an earlier call"),
            Refused::Closed => Error::Closed,
        }
    }
}

/// Runs a call on an engine.
///
/// # Safety
/// `engine` is NULL or an engine handle, as for [`handle::shell`].
pub(super) unsafe fn on_engine(
    engine: *const kloop_engine,
    f: impl FnOnce(&mut Inner) -> Result<i32, Error>,
) -> i32 {
    // SAFETY: passed on from the caller.
    match unsafe { handle::shell(engine) } {
        Ok(shell) => run(shell, |inner, _| f(inner)),
        Err(refused) => refused.status(),
    }
}

/// Runs a call on an engine that makes child handles.
///
/// # Safety
/// As for [`on_engine`].
pub(super) unsafe fn on_shell(
    engine: *const kloop_engine,
    f: impl FnOnce(&mut Inner, &kloop_engine) -> Result<i32, Error>,
) -> i32 {
    // SAFETY: passed on from the caller.
    match unsafe { handle::shell(engine) } {
        Ok(shell) => run(shell, f),
        Err(refused) => refused.status(),
    }
}

/// Runs a call on a child handle.
///
/// # Safety
/// `handle` is NULL or a child handle, as for [`handle::child`].
pub(super) unsafe fn on_child(
    handle: *const HandleCell,
    kind: Kind,
    f: impl FnOnce(&mut Inner, Target, &kloop_engine) -> Result<i32, Error>,
) -> i32 {
    // SAFETY: passed on from the caller.
    match unsafe { handle::child(handle, kind) } {
        Ok((shell, target)) => run(shell, |inner, shell| f(inner, target, shell)),
        Err(refused) => {
            // SAFETY: passed on from the caller.
            unsafe { note(handle, refused) };
            refused.status()
        }
    }
}

/// Tells of a handle that names nothing any more, where `kloop_engine_error` finds it: a function that
/// returns nothing has no other way.
///
/// # Safety
/// As for [`on_child`].
unsafe fn note(handle: *const HandleCell, refused: Refused) {
    if refused != Refused::Stale {
        return;
    }
    // SAFETY: passed on from the caller.
    if let Some(shell) = unsafe { handle::shell_of_stale(handle) } {
        shell.set_last_error(refused.last_error());
    }
}

/// Frees a child handle: runs `end` on its object if the engine still lives.
///
/// # Safety
/// As for [`on_child`].
pub(super) unsafe fn free_child(
    handle: *const HandleCell,
    kind: Kind,
    end: impl FnOnce(&mut Inner, Target),
) {
    // SAFETY: passed on from the caller.
    let (shell, target) = match unsafe { handle::child(handle, kind) } {
        Ok(found) => found,
        Err(Refused::Forked) => {
            // SAFETY: `child` has answered so.
            if unsafe { handle::is_idle_in_fork(handle) } {
                // SAFETY: it is a live handle; what it names is the parent's.
                unsafe { handle::release_child(handle) };
            }
            return;
        }
        // SAFETY: passed on from the caller.
        Err(refused) => return unsafe { note(handle, refused) },
    };
    // A closed or poisoned engine has nothing to end.
    let _ = run(shell, |inner, _| {
        end(inner, target);
        Ok(0)
    });
    // SAFETY: `child` accepted it above.
    unsafe { handle::release_child(handle) };
}

fn run(
    shell: &kloop_engine,
    f: impl FnOnce(&mut Inner, &kloop_engine) -> Result<i32, Error>,
) -> i32 {
    let (inner, busy) = match handle::open(shell) {
        Ok(open) => open,
        Err(refused) => {
            // What was caught stays to be read.
            if refused != Refused::Poisoned {
                shell.set_last_error(refused.last_error());
            }
            return refused.status();
        }
    };
    let errno = KeptErrno::new();
    let result = guarded(|| f(inner, shell));
    drop((busy, errno));
    match result {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => {
            shell.set_last_error(LastError { status: status(error), error });
            call_status(error)
        }
        Err(caught) => {
            shell.poison();
            shell.log_bug(caught);
            let error = Error::Bug("a panic was caught");
            let status = code::KLOOP_E_PANIC as i32;
            shell.set_last_error(LastError { status, error });
            status
        }
    }
}

/// Fills a caller's error struct, if there is one.
///
/// # Safety
/// `out` is NULL or points at a writable `kloop_error`.
pub(super) unsafe fn report(
    out: *mut kloop_error,
    error: Error,
    key: &str,
    range: Option<NumberRange>,
) -> kloop_status {
    if !out.is_null() {
        let filled = describe(status(error), error, key, range);
        // SAFETY: the caller vouches that it is writable.
        unsafe { out.write(filled) };
    }
    call_status(error)
}

/// The struct for a status and the error behind it; `key` names a property, or is empty;
/// `range` says what a number may be.
pub(super) fn describe(
    status: kloop_status,
    error: Error,
    key: &str,
    range: Option<NumberRange>,
) -> kloop_error {
    let mut text = Text { out: [0; 248], len: 0 };
    // A text that does not fit is cut.
    let _ = match (status, key) {
        (0, _) => write!(text, "ok"),
        (_, "") => write!(text, "{error}"),
        (_, key) => write!(text, "{key}: {error}"),
    };
    if let Some(range) = range {
        let _ = write!(text, " ({range})");
    }
    let os_errno = if let Error::Io(errno) = error { errno } else { 0 };
    kloop_error { code: status, os_errno, msg: text.out.map(|byte| byte as core::ffi::c_char) }
}

/// A text that always ends in a zero byte.
struct Text {
    out: [u8; 248],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.out.len() - 1 - self.len;
        let mut n = text.len().min(room);
        while !text.is_char_boundary(n) {
            n -= 1;
        }
        self.out[self.len..self.len + n].copy_from_slice(&text.as_bytes()[..n]);
        self.len += n;
        if n < text.len() { Err(core::fmt::Error) } else { Ok(()) }
    }
}
