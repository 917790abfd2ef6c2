//! kloop_broker_start, kloop_broker_stop, kloop_broker_take: a broker on threads of its own (unsafe).

use super::boundary::{guard, on_child};
use super::client::{NotMade, reported};
use super::config::{ABI, kloop_error, kloop_reactor_conf, read};
use super::event::{kloop_event, taken};
use super::handle::{
    HandleCell, Inner, Kind, Target, kloop_broker, kloop_engine, set_threads, threads,
};
use super::slice::array;
use super::status::{kloop_status, kloop_status_code as code, status};
use crate::broker::ReactorConfig;
use crate::error::Error;
use core::time::Duration;

/// # Safety
/// The config was read from one whose array is readable.
unsafe fn given(conf: &kloop_reactor_conf, memory: usize) -> Result<ReactorConfig, Error> {
    if conf.flags != 0 {
        return Err(ABI);
    }
    let or = |given: u32, default| if given == 0 { default } else { given as usize };
    let default = ReactorConfig::default();
    // SAFETY: passed on from the caller.
    let cpus = unsafe { array(conf.cpus, conf.cpu_count) }?;
    let cpus: Result<Box<[usize]>, _> = cpus.iter().map(|cpu| usize::try_from(*cpu)).collect();
    Ok(ReactorConfig {
        processors: or(conf.processors, default.processors),
        handlers: or(conf.handlers, default.handlers),
        max_queued: or(conf.max_queued, default.max_queued),
        memory,
        prefault: false,
        cpus: cpus.map_err(|_| Error::Invalid("a negative number of a processor"))?,
    })
}

/// Gives a broker threads of its own: one that accepts, `processors` that read and write, `handlers`
/// that handle requests. The only call that makes threads; all signals are blocked in them, and the
/// engine's log function is called from them too. The broker must listen and must not have taken a
/// connection yet: start it right after `kloop_broker_new`. Its address stays; the engine tells of
/// its end only, with `KLOOP_EV_CLOSED`; connections are not reported. Requests that the host answers
/// itself are taken with `kloop_broker_take`. From then on `kloop_broker_adopt` and `_disconnect`
/// answer `KLOOP_E_UNSUPPORTED`. On failure the broker may listen no more: free it.
///
/// # Safety
/// `b` is NULL or a broker handle; `cfg` is prepared by `kloop_reactor_conf_init`; `err` is NULL or
/// writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_start(
    b: *mut kloop_broker,
    cfg: *const kloop_reactor_conf,
    err: *mut kloop_error,
) -> kloop_status {
    let call = |fail: &mut dyn FnMut(NotMade) -> Error| {
        let start = |inner: &mut Inner, target: Target| -> Result<i32, Error> {
            // SAFETY: passed on from the caller.
            let conf = unsafe { read(cfg) }?;
            // SAFETY: passed on from the caller.
            let config = unsafe { given(&conf, inner.engine.memory_limit()) }?;
            let threads = inner.engine.start_broker(target.owner, config)?;
            // SAFETY: `on_child` has accepted the handle.
            unsafe { set_threads(b.cast::<HandleCell>(), threads) };
            Ok(0)
        };
        let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
            start(inner, target).map_err(|error| fail(error.into()))
        };
        // SAFETY: passed on from the caller.
        unsafe { on_child(b.cast::<HandleCell>(), Kind::Broker, call) }
    };
    // SAFETY: passed on from the caller.
    unsafe { reported(err, call) }
}

/// Ends a broker's threads: nothing is accepted any more, what is in flight is answered for at most
/// `grace_ns` (below 0: without a limit), connections close, the threads are joined. Blocks until then; `KLOOP_EV_CLOSED`
/// follows at the next poll. Once stopped, it does nothing. `kloop_broker_close` does the same for a
/// broker that was started, and `kloop_broker_free` without any grace.
///
/// # Safety
/// `b` is NULL or a broker handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_stop(b: *mut kloop_broker, grace_ns: i64) -> kloop_status {
    let grace = Duration::from_nanos(u64::try_from(grace_ns).unwrap_or(u64::MAX));
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        inner.engine.stop_broker(target.owner, grace).map(|()| 0)
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(b.cast::<HandleCell>(), Kind::Broker, call) }
}

/// Takes requests that the host answers itself, from a broker with threads of its own: fills up to
/// `cap` events of type `KLOOP_EV_REQUEST` and says how many. Waits for the first for at most
/// `timeout_ns`, below 0 without a limit; 0 requests is that the time is over. Any thread, several
/// at a time. The events carry no lease: the body stays valid until the request is answered with
/// `kloop_broker_respond`, which any thread may do, or until the broker is freed. `KLOOP_E_CLOSED`
/// once the broker has stopped; `KLOOP_E_INVALID` if it was not started. Before the broker is freed,
/// the host's threads must have left this call.
///
/// # Safety
/// `b` is NULL or a broker handle that is not freed meanwhile; `events` points at `cap` writable
/// events.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_take(
    b: *mut kloop_broker,
    events: *mut kloop_event,
    cap: u32,
    timeout_ns: i64,
) -> i32 {
    guard(code::KLOOP_E_PANIC as i32, || {
        // SAFETY: passed on from the caller.
        let threads = match unsafe { threads(b.cast::<HandleCell>()) } {
            Ok(Some(threads)) => threads,
            Ok(None) => return code::KLOOP_E_INVALID as i32,
            Err(refused) => return refused.status(),
        };
        if events.is_null() || cap == 0 || cap > i32::MAX as u32 {
            return code::KLOOP_E_INVALID as i32;
        }
        let timeout = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
        let mut at = events;
        let took = threads.take(cap as usize, timeout, |request| {
            // SAFETY: at most `cap` are given, and the caller vouches for so many.
            unsafe { at.write(taken(&threads, &request)) };
            // SAFETY: one behind the last at most.
            at = unsafe { at.add(1) };
        });
        took.map_or_else(status, |count| count as i32)
    })
}
