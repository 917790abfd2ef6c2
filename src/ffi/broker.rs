//! kloop_broker_*: the listening side (unsafe).

use super::boundary::{free_child, guard, on_child, on_shell};
use super::client::{NotMade, reported};
use super::config::{ABI, kloop_broker_conf, kloop_error, read};
use super::event::kloop_id;
use super::handle::{
    self, HandleCell, Inner, Kind, Target, kloop_broker, kloop_engine, make_child,
};
use super::slice::{array, kloop_slice, properties, put, text};
use super::status::{kloop_status, kloop_status_code as code, status};
use crate::broker::{BrokerConfig, BrokerLimits, is_cluster_id};
use crate::error::Error;
use crate::net::ConnId;
use crate::net::slots::SlotId;
use crate::properties::Properties;
use core::ffi::{c_char, c_int};
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// In the flags of `kloop_broker_respond`: end the connection once the answer is written.
pub const KLOOP_RESPOND_CLOSE: u32 = 1;

/// Splits "HOST:PORT"; an IPv6 host may stand in brackets.
fn host_port(text: &str) -> Result<(&str, u16), Error> {
    const SHAPE: Error = Error::Invalid("an address is HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or(SHAPE)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().map_err(|_| SHAPE)?;
    if host.is_empty() { Err(SHAPE) } else { Ok((host, port)) }
}

fn listen_address(text: &str) -> Result<SocketAddr, Error> {
    let (host, port) = host_port(text)?;
    let ip = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => {
            host.parse().map_err(|_| Error::Invalid("a listen address is numeric, or localhost"))?
        }
    };
    Ok(SocketAddr::new(ip, port))
}

/// What is wrong with a field of the config, which the text then names as it does a property.
fn in_field(name: &str, error: Error) -> NotMade {
    NotMade(error, name.to_owned(), None)
}

/// What the strings and arrays of a broker's config say.
struct Given<'a> {
    config: BrokerConfig,
    listen: Option<SocketAddr>,
    advertised: Option<(&'a str, u16)>,
}

/// # Safety
/// The config was read from one whose strings and arrays are readable.
unsafe fn given<'a>(conf: &kloop_broker_conf) -> Result<Given<'a>, NotMade> {
    if conf.flags != 0 {
        return Err(ABI.into());
    }
    // SAFETY: passed on from the caller.
    let pairs = unsafe { properties(conf.props, conf.prop_count) }?;
    let mut config = BrokerConfig::from_properties(Properties::new(pairs))?;
    if conf.node_id < 0 {
        return Err(Error::Invalid("node_id is negative").into());
    }
    if conf.node_id != 0 {
        config.node_id = conf.node_id;
    }
    if !conf.cluster_id.is_null() {
        // SAFETY: passed on from the caller.
        let id = unsafe { text(conf.cluster_id) }?;
        if !is_cluster_id(id) {
            return Err(Error::Invalid("cluster_id is 22 characters of URL-safe base64").into());
        }
        config.cluster_id = Some(id.into());
    }
    // SAFETY: passed on from the caller.
    let words = unsafe { array(conf.host_apis, conf.host_api_words) }?;
    for (i, word) in words.iter().enumerate() {
        match config.host_apis.get_mut(i) {
            Some(place) => *place = *word,
            None if *word == 0 => {}
            None => return Err(Error::Invalid("host_apis names a key over 127").into()),
        }
    }
    config.events = words.iter().any(|word| *word != 0);
    let (mut listen, mut advertised) = (None, None);
    if !conf.listen.is_null() {
        // SAFETY: passed on from the caller.
        listen = Some(
            unsafe { text(conf.listen) }
                .and_then(listen_address)
                .map_err(|error| in_field("listen", error))?,
        );
    }
    if !conf.advertised.is_null() {
        // SAFETY: passed on from the caller.
        advertised = Some(
            unsafe { text(conf.advertised) }
                .and_then(host_port)
                .map_err(|error| in_field("advertised", error))?,
        );
    }
    Ok(Given { config, listen, advertised })
}

/// Makes a broker inside the engine's loop. On failure nothing is written to `out`, and `err`, if
/// given, names the property or the address that is wrong.
///
/// # Safety
/// `e` is NULL or an engine handle; `cfg` is prepared by `kloop_broker_conf_init`; `out` is
/// writable; `err` is NULL or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_new(
    e: *mut kloop_engine,
    cfg: *const kloop_broker_conf,
    out: *mut *mut kloop_broker,
    err: *mut kloop_error,
) -> kloop_status {
    let call = |fail: &mut dyn FnMut(NotMade) -> Error| {
        let make = |inner: &mut Inner, shell: &kloop_engine| -> Result<i32, NotMade> {
            if out.is_null() {
                return Err(Error::Invalid("out is NULL").into());
            }
            // SAFETY: passed on from the caller.
            let conf = unsafe { read(cfg) }?;
            // SAFETY: passed on from the caller.
            let given = unsafe { given(&conf) }?;
            let id = inner.engine.add_broker(
                given.config,
                BrokerLimits::default(),
                conf.user,
                given.listen,
                given.advertised,
            )?;
            let Some(cell) = make_child(shell, Kind::Broker, id, None) else {
                inner.engine.remove_broker(id);
                return Err(Error::Exhausted("handles of this engine").into());
            };
            // SAFETY: passed on from the caller.
            unsafe { put(out, cell.cast()) }?;
            Ok(0)
        };
        let call = |inner: &mut Inner, shell: &kloop_engine| make(inner, shell).map_err(&mut *fail);
        // SAFETY: passed on from the caller.
        unsafe { on_shell(e, call) }
    };
    // SAFETY: passed on from the caller.
    unsafe { reported(err, call) }
}

/// Ends a broker at once: connections close, its log is gone. Waits for the threads of one that was
/// started. NULL is ignored.
///
/// # Safety
/// `b` is NULL or a broker handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_free(b: *mut kloop_broker) {
    guard((), || {
        let end = |inner: &mut Inner, target: Target| inner.engine.remove_broker(target.owner);
        // SAFETY: passed on from the caller.
        unsafe { free_child(b.cast::<HandleCell>(), Kind::Broker, end) };
    });
}

/// Stops listening, answers what is in flight for at most `grace_ns` (0: at once, below 0: without a
/// limit), closes the connections; then `KLOOP_EV_CLOSED`. Does not block, but for a broker that was
/// started: as `kloop_broker_stop`.
///
/// # Safety
/// `b` is NULL or a broker handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_close(b: *mut kloop_broker, grace_ns: i64) -> kloop_status {
    let grace = Duration::from_nanos(u64::try_from(grace_ns).unwrap_or(u64::MAX));
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        inner.engine.close_broker(target.owner, grace).map(|()| 0)
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(b.cast::<HandleCell>(), Kind::Broker, call) }
}

/// Where the broker listens: writes "HOST:PORT" and a zero byte into `buf` of `cap` bytes, if given,
/// and returns the port; a negative status if it does not listen or `buf` is too small.
///
/// # Safety
/// `b` is NULL or a broker handle; `buf` is NULL or points at `cap` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_address(
    b: *const kloop_broker,
    buf: *mut c_char,
    cap: usize,
) -> i32 {
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        let at = inner.engine.broker_address(target.owner).ok_or(Error::Closed)?;
        if !buf.is_null() {
            let text = at.to_string();
            if text.len() >= cap {
                return Err(Error::Invalid("the buffer is too small for the address"));
            }
            // SAFETY: the text is shorter than `cap`; the caller vouches for that many bytes.
            unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast(), text.len()) };
            // SAFETY: as above.
            let end = unsafe { buf.add(text.len()) };
            // SAFETY: as above.
            unsafe { end.write(0) };
        }
        Ok(i32::from(at.port()))
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(b.cast::<HandleCell>(), Kind::Broker, call) }
}

/// Takes a connected stream socket, as from another thread's acceptor or a socketpair. The
/// descriptor is the broker's from now on, also on failure. `conn`, if given, names it.
///
/// # Safety
/// `b` is NULL or a broker handle; `fd` is an open socket that nobody else uses; `conn` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_adopt(
    b: *mut kloop_broker,
    fd: c_int,
    conn: *mut kloop_id,
) -> kloop_status {
    use std::os::fd::{FromRawFd, OwnedFd};
    // Owning a number that is no descriptor would end the process when it is closed.
    // SAFETY: takes numbers only.
    if !guard(false, || unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0) {
        return code::KLOOP_E_INVALID as i32;
    }
    // SAFETY: the caller hands over an open descriptor.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        let id = inner.engine.with_broker(target.owner, |broker, net, _| {
            net.adopt(socket, &broker.channel_options())
        })?;
        if !conn.is_null() {
            // SAFETY: passed on from the caller.
            unsafe { put(conn, id.raw()) }?;
        }
        Ok(0)
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(b.cast::<HandleCell>(), Kind::Broker, call) }
}

/// What the parts of an answer say.
struct Parts<'a> {
    slices: [&'a [u8]; MOST_PARTS],
    len: usize,
}

/// Parts that one answer may have.
const MOST_PARTS: usize = 64;

/// # Safety
/// `parts` points at `n` slices that are readable.
unsafe fn parts<'a>(parts: *const kloop_slice, n: u32) -> Result<Parts<'a>, Error> {
    // SAFETY: passed on from the caller.
    let given: &[kloop_slice] = unsafe { array(parts, n as usize) }?;
    let mut out = Parts { slices: [&[]; MOST_PARTS], len: given.len() };
    let room = out.slices.get_mut(..given.len()).ok_or(Error::Invalid("over 64 parts"))?;
    for (slice, part) in room.iter_mut().zip(given) {
        // SAFETY: passed on from the caller.
        *slice = unsafe { part.nullable() }?.unwrap_or(&[]);
    }
    Ok(out)
}

/// Answers a `KLOOP_EV_REQUEST`, once: `parts` are the body, at most 64, copied; kloop writes the
/// header. Answers may come in any order; each connection gets them in the order of its requests.
/// With no parts nothing is sent, as a produce with acks 0 wants it. A `user` other than 0 comes
/// back in `KLOOP_EV_SENT`. `KLOOP_E_STALE` when the peer has left or the request was answered;
/// `KLOOP_E_AGAIN` when there is no memory now: the request then still waits.
///
/// For requests of `kloop_broker_take` any thread may call it; the body of the request is gone then,
/// but for `KLOOP_E_AGAIN` (after which such a thread tries again a little later), `KLOOP_E_INVALID`
/// and `KLOOP_E_ABI`. `user` must be 0 for these, and the body 8 of the largest frames at most.
///
/// # Safety
/// `b` is NULL or a broker handle; `parts` points at `n` slices that are readable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_respond(
    b: *mut kloop_broker,
    request: kloop_id,
    parts: *const kloop_slice,
    n: u32,
    flags: u32,
    user: u64,
) -> kloop_status {
    let (id, close) = (SlotId::from_raw(request), flags & KLOOP_RESPOND_CLOSE != 0);
    let known = flags & !KLOOP_RESPOND_CLOSE == 0;
    // SAFETY: passed on from the caller.
    if let Ok(Some(threads)) = unsafe { handle::threads(b.cast::<HandleCell>()) } {
        return guard(code::KLOOP_E_PANIC as i32, || {
            let respond = || {
                if !known || user != 0 {
                    return Err(ABI);
                }
                // SAFETY: passed on from the caller.
                let body = unsafe { self::parts(parts, n) }?;
                threads.respond(id, &body.slices[..body.len], close)
            };
            respond().map_or_else(status, |()| 0)
        });
    }
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        if !known {
            return Err(ABI);
        }
        // SAFETY: passed on from the caller.
        let body = unsafe { self::parts(parts, n) }?;
        inner.engine.with_broker(target.owner, |broker, net, now| {
            broker.respond(net, id, &body.slices[..body.len], close, user, now).map(|()| 0)
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(b.cast::<HandleCell>(), Kind::Broker, call) }
}

/// Ends a connection now.
///
/// # Safety
/// `b` is NULL or a broker handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_disconnect(
    b: *mut kloop_broker,
    conn: kloop_id,
) -> kloop_status {
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        inner.engine.with_broker(target.owner, |broker, net, _| {
            broker.disconnect(net, ConnId::from_raw(conn)).map(|()| 0)
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(b.cast::<HandleCell>(), Kind::Broker, call) }
}
