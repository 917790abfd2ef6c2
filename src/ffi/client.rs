//! kloop_client_*: one cluster (unsafe).

use super::boundary::{free_child, guard, on_child, on_shell, report};
use super::config::{ABI, kloop_conf, kloop_error, read};
use super::event::kloop_id;
use super::handle::{
    HandleCell, Inner, Kind, Refused, Target, kloop_client, kloop_engine, make_child,
};
use super::slice::{kloop_slice, kloop_topic, properties, put};
use super::status::kloop_status;
use crate::client::{ClientConfig, ClientLimits};
use crate::error::Error;
use crate::net::slots::SlotId;
use crate::properties::{BadProperty, NumberRange, Properties};
use core::ffi::c_char;
use core::time::Duration;

/// A config with its properties, and where to say which one is wrong.
pub(super) struct Given<'a> {
    pub(super) conf: kloop_conf,
    pub(super) pairs: Vec<(&'a str, &'a str)>,
}

/// Reads a config and its properties.
///
/// # Safety
/// `cfg` is NULL or prepared by `kloop_conf_init`; its properties are readable.
pub(super) unsafe fn given<'a>(cfg: *const kloop_conf) -> Result<Given<'a>, Error> {
    // SAFETY: passed on from the caller.
    let conf = unsafe { read(cfg) }?;
    if conf.flags != 0 || conf.reserved0 != 0 {
        return Err(ABI);
    }
    // SAFETY: passed on from the caller.
    let pairs = unsafe { properties(conf.props, conf.prop_count) }?;
    Ok(Given { conf, pairs })
}

/// Why a handle was not made: the error; the property or field that was wrong, if one was; what a
/// number may be.
pub(super) struct NotMade(pub(super) Error, pub(super) String, pub(super) Option<NumberRange>);

impl From<Error> for NotMade {
    fn from(error: Error) -> Self {
        NotMade(error, String::new(), None)
    }
}

impl From<BadProperty> for NotMade {
    fn from(bad: BadProperty) -> Self {
        NotMade(Error::Invalid(bad.why), bad.key, bad.range)
    }
}

/// Runs `make` inside an engine call and reports its failure in `err`.
///
/// # Safety
/// `err` is NULL or writable.
pub(super) unsafe fn reported(
    err: *mut kloop_error,
    call: impl FnOnce(&mut dyn FnMut(NotMade) -> Error) -> i32,
) -> kloop_status {
    let mut why = None;
    let status = call(&mut |not_made: NotMade| {
        let error = not_made.0;
        why = Some(not_made);
        error
    });
    if status < 0 {
        let of_refusal = || Refused::of_status(status).error().into();
        let NotMade(error, key, range) = why.unwrap_or_else(of_refusal);
        // SAFETY: passed on from the caller.
        let _ = unsafe { report(err, error, &key, range) };
        if !err.is_null() {
            // SAFETY: not null; the caller vouches that it is writable.
            unsafe { (*err).code = status };
        }
    }
    status
}

/// Makes a client of the cluster that the property "bootstrap.servers" names. It connects by
/// itself; `KLOOP_EV_READY` follows. Host names are looked up meanwhile, as /etc/resolv.conf or the
/// properties "resolver.nameservers" (addresses with or without a port, by commas, at most 8),
/// "resolver.search", "resolver.ndots", "resolver.timeout.ms", "resolver.attempts" and
/// "resolver.rotate" say; one that cannot be resolved is told by `KLOOP_EV_ERROR` with
/// `KLOOP_E_RESOLVE`, once for each reason, and tried again. On failure nothing is written to `out`, and `err`, if given,
/// names the property that is wrong.
///
/// # Safety
/// `e` is NULL or an engine handle; `cfg` is prepared by `kloop_conf_init`; `out` is writable;
/// `err` is NULL or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_client_new(
    e: *mut kloop_engine,
    cfg: *const kloop_conf,
    out: *mut *mut kloop_client,
    err: *mut kloop_error,
) -> kloop_status {
    let call = |fail: &mut dyn FnMut(NotMade) -> Error| {
        let make = |inner: &mut Inner, shell: &kloop_engine| -> Result<i32, NotMade> {
            if out.is_null() {
                return Err(Error::Invalid("out is NULL").into());
            }
            // SAFETY: passed on from the caller.
            let given = unsafe { given(cfg) }?;
            let config = ClientConfig::from_properties(Properties::new(given.pairs))?;
            let id = inner.engine.add_client(config, ClientLimits::default(), given.conf.user)?;
            let Some(cell) = make_child(shell, Kind::Client, id, None) else {
                inner.engine.remove_client(id);
                return Err(Error::Exhausted("handles of this engine").into());
            };
            // SAFETY: passed on from the caller.
            unsafe { put(out, cell.cast()) }?;
            Ok(0)
        };
        // SAFETY: passed on from the caller.
        unsafe { on_shell(e, |inner, shell| make(inner, shell).map_err(fail)) }
    };
    // SAFETY: passed on from the caller.
    unsafe { reported(err, call) }
}

/// Ends a client at once, with its producers and consumers. NULL is ignored.
///
/// # Safety
/// `c` is NULL or a client handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_client_free(c: *mut kloop_client) {
    guard((), || {
        let end = |inner: &mut Inner, target: Target| {
            inner.engine.remove_client(target.owner);
        };
        // SAFETY: passed on from the caller.
        unsafe { free_child(c.cast::<HandleCell>(), Kind::Client, end) };
    });
}

/// Ends a client gracefully: what was accepted gets its outcome, for at most `grace_ns` (0: at once,
/// below 0: without a limit); then `KLOOP_EV_CLOSED` for it and each of its producers and consumers.
///
/// # Safety
/// `c` is NULL or a client handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_client_close(c: *mut kloop_client, grace_ns: i64) -> kloop_status {
    let grace = Duration::from_nanos(u64::try_from(grace_ns).unwrap_or(u64::MAX));
    // SAFETY: passed on from the caller.
    unsafe {
        on_child(c.cast::<HandleCell>(), Kind::Client, |inner, target, _| {
            inner.engine.with_client(target.owner, |client, net, now| {
                client.close(net, grace, now);
                Ok(0)
            })
        })
    }
}

/// Interns a topic name: the number that messages and assignments name it by, for the client's
/// life. Its metadata is asked for from now on, which creates the topic where the brokers do that,
/// unless the client has `allow.auto.create.topics=false`.
///
/// # Safety
/// `c` is NULL or a client handle; `name` points at `len` bytes; `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_client_topic(
    c: *mut kloop_client,
    name: *const c_char,
    len: usize,
    out: *mut kloop_topic,
) -> kloop_status {
    let slice = kloop_slice { data: name.cast(), len };
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        // SAFETY: passed on from the caller.
        let bytes = unsafe { slice.nullable() }?.ok_or(Error::Invalid("name is NULL"))?;
        let name = core::str::from_utf8(bytes).map_err(|_| Error::Invalid("name is not UTF-8"))?;
        if out.is_null() {
            return Err(Error::Invalid("out is NULL"));
        }
        let topic = inner.engine.with_client(target.owner, |client, _, _| client.topic(name))?;
        // SAFETY: passed on from the caller.
        unsafe { put(out, topic.0) }?;
        Ok(0)
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(c.cast::<HandleCell>(), Kind::Client, call) }
}

/// Sends a request of the host's own making: `body` is what follows the request header. `node` -1
/// picks any broker, `api_version` -1 the highest that both sides know. `KLOOP_EV_REPLY` with
/// `user` follows, also on failure, at the latest after `request.timeout.ms` (default 30 s); `op`, if
/// given, names the operation.
///
/// # Safety
/// `c` is NULL or a client handle; `body` is readable; `op` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_client_request(
    c: *mut kloop_client,
    node: i32,
    api_key: i16,
    api_version: i16,
    body: kloop_slice,
    user: u64,
    op: *mut kloop_id,
) -> kloop_status {
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        // SAFETY: passed on from the caller.
        let body = unsafe { body.nullable() }?.unwrap_or(&[]);
        let id = inner.engine.with_client(target.owner, |client, _, now| {
            client.request(node, api_key, api_version, body, user, now)
        })?;
        if !op.is_null() {
            // SAFETY: passed on from the caller.
            unsafe { put(op, id.raw()) }?;
        }
        Ok(0)
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(c.cast::<HandleCell>(), Kind::Client, call) }
}

/// Cancels a request; its `KLOOP_EV_REPLY` still comes, once, with `KLOOP_E_CANCELED` or its answer.
///
/// # Safety
/// `c` is NULL or a client handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_client_cancel(c: *mut kloop_client, op: kloop_id) -> kloop_status {
    // SAFETY: passed on from the caller.
    unsafe {
        on_child(c.cast::<HandleCell>(), Kind::Client, |inner, target, _| {
            inner.engine.with_client(target.owner, |client, _, _| {
                client.cancel(SlotId::from_raw(op)).map(|()| 0)
            })
        })
    }
}
