//! kloop_broker_start, kloop_broker_stop: a broker on threads of its own (unsafe).

use super::boundary::on_child;
use super::client::{NotMade, reported};
use super::config::{ABI, kloop_error, kloop_reactor_conf, read};
use super::handle::{HandleCell, Inner, Kind, Target, kloop_broker, kloop_engine};
use super::slice::array;
use super::status::kloop_status;
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
        cpus: cpus.map_err(|_| Error::Invalid("a negative number of a processor"))?,
    })
}

/// Gives a broker threads of its own: one that accepts, `processors` that read and write, `handlers`
/// that handle requests. The only call that makes threads; all signals are blocked in them, and the
/// engine's log function is called from them too. The broker must listen and must not have taken a
/// connection yet: start it right after `kloop_broker_new`. Its address stays; the engine tells of
/// its end only, with `KLOOP_EV_CLOSED`. `KLOOP_E_UNSUPPORTED` if the host answers APIs itself;
/// `kloop_broker_adopt`, `_respond` and `_disconnect` say the same from then on.
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
            inner.engine.start_broker(target.owner, config).map(|()| 0)
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
/// `grace_ns`, connections close, the threads are joined. Blocks until then; `KLOOP_EV_CLOSED`
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
