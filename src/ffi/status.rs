//! kloop_status: numbers never reused, and the exhaustive map from Error.

use super::boundary::guard;
use crate::error::Error;
use crate::protocol::error_code::ErrorCode;
use core::ffi::{CStr, c_char};

/// 0 is success; -1 and every positive value are Kafka's error codes as on the wire; -1000 and
/// below are kloop's own. Calls return counts or kloop's own codes; Kafka's stand in events only, and
/// in `kloop_engine_error` when a call says `KLOOP_E_REFUSED`.
pub type kloop_status = i32;

/// kloop's own status codes.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum kloop_status_code {
    /// Success.
    KLOOP_OK = 0,
    /// An argument is NULL or out of range, or the call came in the wrong state.
    KLOOP_E_INVALID = -1000,
    /// No room now; try again after the next event.
    KLOOP_E_AGAIN = -1001,
    /// Not enough memory to create what was asked for.
    KLOOP_E_NOMEM = -1002,
    /// The handle's engine is gone, or the thing is closed.
    KLOOP_E_CLOSED = -1003,
    /// A deadline passed.
    KLOOP_E_TIMEOUT = -1004,
    /// The operating system refused; see `os_errno`.
    KLOOP_E_IO = -1005,
    /// TLS failed.
    KLOOP_E_TLS = -1006,
    /// Authentication failed.
    KLOOP_E_AUTH = -1007,
    /// The peer's bytes are not what the protocol allows.
    KLOOP_E_PROTOCOL = -1008,
    /// The handle or id names something that has ended.
    KLOOP_E_STALE = -1009,
    /// The operation was cancelled.
    KLOOP_E_CANCELED = -1010,
    /// A call into an engine from inside a call of that engine (a log sink, an allocator).
    KLOOP_E_REENTRANT = -1011,
    /// The engine belongs to another thread.
    KLOOP_E_THREAD = -1012,
    /// The peer or this build cannot do it.
    KLOOP_E_UNSUPPORTED = -1013,
    /// A config struct that was not initialised by its _init function, or a reserved field in use.
    KLOOP_E_ABI = -1014,
    /// A fetched batch is larger than the consumer's memory can hold, as it came or inflated.
    KLOOP_E_TOO_LARGE = -1015,
    /// The cluster refuses what the call asked for; `kloop_engine_error` has Kafka's code.
    KLOOP_E_REFUSED = -1016,
    /// A host's name cannot be turned into an address: no such name, or no name server answers.
    KLOOP_E_RESOLVE = -1017,
    /// A bug in kloop was caught in this call; the engine is of no use any more.
    KLOOP_E_PANIC = -1098,
    /// A bug was caught in an earlier call of this engine.
    KLOOP_E_POISONED = -1099,
}

use kloop_status_code as code;

/// In the flags of a status: trying again can help.
pub const KLOOP_IS_RETRIABLE: u32 = 1;
/// In the flags of a status: the handle is of no use any more.
pub const KLOOP_IS_FATAL: u32 = 2;
/// In the flags of a status: a Kafka error code.
pub const KLOOP_IS_BROKER: u32 = 4;
/// In the flags of a status: the program that calls kloop is at fault.
pub const KLOOP_IS_MISUSE: u32 = 8;

/// The status of an error.
pub(super) fn status(error: Error) -> kloop_status {
    let code = match error {
        Error::Kafka(kafka) => return i32::from(kafka),
        Error::Invalid(_) => code::KLOOP_E_INVALID,
        Error::Abi => code::KLOOP_E_ABI,
        Error::TooLarge => code::KLOOP_E_TOO_LARGE,
        Error::Stale => code::KLOOP_E_STALE,
        Error::Closed => code::KLOOP_E_CLOSED,
        Error::Unsupported(_) => code::KLOOP_E_UNSUPPORTED,
        Error::Exhausted(_) => code::KLOOP_E_AGAIN,
        Error::NoMemory => code::KLOOP_E_NOMEM,
        Error::Timeout => code::KLOOP_E_TIMEOUT,
        Error::Canceled => code::KLOOP_E_CANCELED,
        Error::Io(_) => code::KLOOP_E_IO,
        Error::Protocol(_) => code::KLOOP_E_PROTOCOL,
        Error::Resolve(_) => code::KLOOP_E_RESOLVE,
        Error::Bug(_) => code::KLOOP_E_PANIC,
    };
    code as i32
}

/// What a call returns for an error: counts are positive, so Kafka's codes must not be.
pub(super) fn call_status(error: Error) -> kloop_status {
    match error {
        Error::Kafka(_) => code::KLOOP_E_REFUSED as i32,
        error => status(error),
    }
}

fn text(status: kloop_status) -> &'static CStr {
    const TEXTS: [(code, &CStr); 21] = [
        (code::KLOOP_OK, c"ok"),
        (code::KLOOP_E_INVALID, c"an argument is invalid, or the call came in the wrong state"),
        (code::KLOOP_E_AGAIN, c"no room now; try again after the next event"),
        (code::KLOOP_E_NOMEM, c"not enough memory"),
        (code::KLOOP_E_CLOSED, c"closed"),
        (code::KLOOP_E_TIMEOUT, c"timed out"),
        (code::KLOOP_E_IO, c"the operating system refused"),
        (code::KLOOP_E_TLS, c"TLS failed"),
        (code::KLOOP_E_AUTH, c"authentication failed"),
        (code::KLOOP_E_PROTOCOL, c"the peer broke the protocol"),
        (code::KLOOP_E_STALE, c"the handle or id names something that has ended"),
        (code::KLOOP_E_CANCELED, c"cancelled"),
        (code::KLOOP_E_REENTRANT, c"called from inside a call of the same engine"),
        (code::KLOOP_E_THREAD, c"the engine belongs to another thread"),
        (code::KLOOP_E_UNSUPPORTED, c"not supported by the peer or this build"),
        (code::KLOOP_E_ABI, c"a config struct was not initialised for this library"),
        (code::KLOOP_E_TOO_LARGE, c"a batch is larger than the memory given"),
        (code::KLOOP_E_REFUSED, c"the cluster refuses it"),
        (code::KLOOP_E_RESOLVE, c"a host's name cannot be resolved"),
        (code::KLOOP_E_PANIC, c"a bug in kloop was caught; the engine is of no use any more"),
        (code::KLOOP_E_POISONED, c"a bug was caught in an earlier call of this engine"),
    ];
    TEXTS
        .iter()
        .find(|(code, _)| *code as i32 == status)
        .map_or(c"unknown status", |(_, text)| text)
}

/// What a status means, as a static string. Any thread. Of Kafka's codes it is the name.
#[unsafe(no_mangle)]
pub extern "C" fn kloop_status_str(status: kloop_status) -> *const c_char {
    guard(c"".as_ptr(), || match i16::try_from(status) {
        Ok(kafka) if kafka != 0 && kafka >= -1 => ErrorCode(kafka).c_name().as_ptr(),
        _ => text(status).as_ptr(),
    })
}

/// What to do about a status: `KLOOP_IS_RETRIABLE`, `_FATAL`, `_BROKER`, `_MISUSE`, or'ed. Any
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn kloop_status_flags(status: kloop_status) -> u32 {
    guard(0, || {
        if let Ok(kafka) = i16::try_from(status)
            && kafka != 0
            && kafka >= -1
        {
            let retriable = ErrorCode(kafka).is_retriable();
            return KLOOP_IS_BROKER | if retriable { KLOOP_IS_RETRIABLE } else { 0 };
        }
        let is = |codes: &[code]| codes.iter().any(|code| *code as i32 == status);
        let passing =
            [code::KLOOP_E_AGAIN, code::KLOOP_E_TIMEOUT, code::KLOOP_E_IO, code::KLOOP_E_RESOLVE];
        if is(&passing) {
            KLOOP_IS_RETRIABLE
        } else if is(&[code::KLOOP_E_PANIC, code::KLOOP_E_POISONED]) {
            KLOOP_IS_FATAL
        } else if is(&[
            code::KLOOP_E_INVALID,
            code::KLOOP_E_STALE,
            code::KLOOP_E_CLOSED,
            code::KLOOP_E_REENTRANT,
            code::KLOOP_E_THREAD,
            code::KLOOP_E_ABI,
        ]) {
            KLOOP_IS_MISUSE
        } else {
            0
        }
    })
}
