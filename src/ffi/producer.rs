//! kloop_producer_* and kloop_produce: records out (unsafe).

use super::boundary::{free_child, guard, on_child};
use super::client::{NotMade, given, reported};
use super::config::{ABI, kloop_conf, kloop_error};
use super::handle::{
    HandleCell, Inner, Kind, Target, kloop_client, kloop_engine, kloop_producer, make_child,
};
use super::slice::{array, kloop_header, kloop_slice, kloop_topic, put};
use super::status::kloop_status;
use crate::client::{OutRecord, ProducerConfig, TopicId};
use crate::error::Error;
use crate::properties::Properties;
use core::time::Duration;

/// One record to produce. Everything is borrowed for the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_msg {
    /// The key; NULL is none.
    pub key: kloop_slice,
    /// The value; NULL is a tombstone.
    pub value: kloop_slice,
    /// The headers.
    pub headers: *const kloop_header,
    /// How many.
    pub header_count: u32,
    /// The topic.
    pub topic: kloop_topic,
    /// The partition, or `KLOOP_PARTITION_ANY`: by the key as Kafka's own client does it, without
    /// a key sticky.
    pub partition: i32,
    /// Reserved, 0.
    pub flags: u32,
    /// Milliseconds since 1970; 0 takes the time of the call.
    pub timestamp_ms: i64,
    /// Comes back with the record's outcome.
    pub user: u64,
    /// Reserved, 0.
    pub reserved0: u64,
}

/// As a partition: have one chosen.
pub const KLOOP_PARTITION_ANY: i32 = -1;

/// Makes a producer of a client. Properties: "acks", "linger.ms", "batch.size" and the others by
/// Kafka's names. On failure nothing is written to `out`, and `err`, if given, names the property
/// that is wrong.
///
/// # Safety
/// `c` is NULL or a client handle; `cfg` is prepared by `kloop_conf_init`; `out` is writable;
/// `err` is NULL or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_producer_new(
    c: *mut kloop_client,
    cfg: *const kloop_conf,
    out: *mut *mut kloop_producer,
    err: *mut kloop_error,
) -> kloop_status {
    let call = |fail: &mut dyn FnMut(NotMade) -> Error| {
        let make = |inner: &mut Inner, target: Target, shell: &kloop_engine| {
            if out.is_null() {
                return Err(NotMade::from(Error::Invalid("out is NULL")));
            }
            // SAFETY: passed on from the caller.
            let given = unsafe { given(cfg) }?;
            let config = ProducerConfig::from_properties(Properties::new(given.pairs))?;
            let id = inner.engine.with_client(target.owner, |client, _, _| {
                client.add_producer(config, given.conf.user)
            })?;
            let Some(cell) = make_child(shell, Kind::Producer, target.owner, Some(id)) else {
                close(inner, target.owner, id);
                return Err(Error::Exhausted("handles of this engine").into());
            };
            // SAFETY: passed on from the caller.
            unsafe { put(out, cell.cast()) }?;
            Ok(0)
        };
        let call = |inner: &mut Inner, target: Target, shell: &kloop_engine| {
            make(inner, target, shell).map_err(fail)
        };
        // SAFETY: passed on from the caller.
        unsafe { on_child(c.cast::<HandleCell>(), Kind::Client, call) }
    };
    // SAFETY: passed on from the caller.
    unsafe { reported(err, call) }
}

fn close(
    inner: &mut Inner,
    client: crate::net::slots::SlotId,
    producer: crate::net::slots::SlotId,
) {
    // A client that is gone took its producers with it.
    let _ = inner.engine.with_client(client, |client, _, now| client.end_producer(producer, now));
}

/// Ends a producer: records without an outcome get theirs at once, in `KLOOP_EV_DELIVERED` events.
/// NULL is ignored.
///
/// # Safety
/// `p` is NULL or a producer handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_producer_free(p: *mut kloop_producer) {
    guard((), || {
        let end = |inner: &mut Inner, target: Target| close(inner, target.owner, target.part);
        // SAFETY: passed on from the caller.
        unsafe { free_child(p.cast::<HandleCell>(), Kind::Producer, end) };
    });
}

/// Gives up to `n` records to the producer, and says how many it took, from the front: 0 to `n`.
/// Fewer: call again with the rest. Then it says why: 0 is that there is no room now, or that the
/// topic is not known yet (`kloop_client_topic` was just called, or no broker can be reached), and
/// `KLOOP_EV_WRITABLE` tells when to try again; a negative status is about the first of the rest,
/// which can never be taken: `KLOOP_E_INVALID` for one that is too large, has a slice of NULL with a
/// length, or names a topic number or partition that there is not; `KLOOP_E_REFUSED` if the cluster
/// does not have the topic (after `max.block.ms`, default 60 s) or does not let this client write
/// to it. `kloop_engine_error` has the reason.
///
/// A record that was not taken is under no timeout; one that was is under `delivery.timeout.ms`,
/// and ends in exactly one `KLOOP_EV_DELIVERED` that names its `user`. Never blocks, never
/// allocates.
///
/// # Safety
/// `p` is NULL or a producer handle; `msgs` points at `n` messages whose pointers are readable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_produce(
    p: *mut kloop_producer,
    msgs: *const kloop_msg,
    n: u32,
) -> i32 {
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        // SAFETY: passed on from the caller.
        let msgs = unsafe { array(msgs, n as usize) }?;
        inner.engine.with_client(target.owner, |client, _, now| {
            let mut taken = 0;
            for msg in msgs {
                let mut one = || {
                    // SAFETY: passed on from the caller.
                    let out = unsafe { record(msg) }?;
                    // SAFETY: passed on from the caller.
                    let headers = unsafe { array(msg.headers, msg.header_count as usize) }?;
                    for header in headers {
                        // SAFETY: passed on from the caller.
                        unsafe { pair(header) }?;
                    }
                    // SAFETY: passed on from the caller.
                    let pairs = headers.iter().flat_map(|header| unsafe { pair(header) });
                    client.produce(target.part, &out, pairs, now)
                };
                match one() {
                    Ok(true) => taken += 1,
                    Ok(false) => break,
                    // What was taken before must be told; the next call begins with this one.
                    Err(error) if taken == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            Ok(taken)
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(p.cast::<HandleCell>(), Kind::Producer, call) }
}

/// # Safety
/// The message's slices are readable for `'a`.
#[inline]
unsafe fn record<'a>(msg: &kloop_msg) -> Result<OutRecord<'a>, Error> {
    if msg.flags != 0 || msg.reserved0 != 0 {
        return Err(ABI);
    }
    Ok(OutRecord {
        topic: TopicId(msg.topic),
        partition: if msg.partition == KLOOP_PARTITION_ANY { None } else { Some(msg.partition) },
        // SAFETY: passed on from the caller.
        key: unsafe { msg.key.nullable() }?,
        // SAFETY: passed on from the caller.
        value: unsafe { msg.value.nullable() }?,
        timestamp_ms: if msg.timestamp_ms == 0 { None } else { Some(msg.timestamp_ms) },
        user: msg.user,
    })
}

/// # Safety
/// The header's slices are readable for `'a`.
unsafe fn pair<'a>(header: &kloop_header) -> Result<(&'a [u8], Option<&'a [u8]>), Error> {
    const NO_KEY: Error = Error::Invalid("the key of a header is NULL");
    // SAFETY: passed on from the caller.
    let key = unsafe { header.key.nullable() }?.ok_or(NO_KEY)?;
    // SAFETY: passed on from the caller.
    let value = unsafe { header.value.nullable() }?;
    Ok((key, value))
}

/// Sends what is lingering; when all records taken before it have their outcome,
/// `KLOOP_EV_FLUSHED` with `user` follows.
///
/// # Safety
/// `p` is NULL or a producer handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_producer_flush(p: *mut kloop_producer, user: u64) -> kloop_status {
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        inner
            .engine
            .with_client(target.owner, |client, _, _| client.flush(target.part, user).map(|()| 0))
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(p.cast::<HandleCell>(), Kind::Producer, call) }
}

/// Ends a producer gracefully: what it took gets its outcome, for at most `grace_ns` (0: at
/// once, below 0: without a limit); then
/// `KLOOP_EV_CLOSED`.
///
/// # Safety
/// `p` is NULL or a producer handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_producer_close(
    p: *mut kloop_producer,
    grace_ns: i64,
) -> kloop_status {
    let grace = Duration::from_nanos(u64::try_from(grace_ns).unwrap_or(u64::MAX));
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        inner.engine.with_client(target.owner, |client, _, now| {
            client.close_producer(target.part, grace, now).map(|()| 0)
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(p.cast::<HandleCell>(), Kind::Producer, call) }
}
