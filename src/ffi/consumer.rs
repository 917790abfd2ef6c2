//! kloop_consumer_*: records in (unsafe).

use super::boundary::{free_child, guard, on_child};
use super::client::{NotMade, given, reported};
use super::config::{kloop_conf, kloop_error};
use super::handle::{
    HandleCell, Inner, Kind, Target, kloop_client, kloop_consumer, kloop_engine, make_child,
};
use super::slice::{array, kloop_topic, kloop_tp, put};
use super::status::kloop_status;
use crate::client::{ConsumerConfig, TopicId};
use crate::error::Error;
use crate::net::slots::SlotId;
use crate::properties::Properties;

/// Makes a consumer of a client. Properties: "fetch.min.bytes", "auto.offset.reset" and the others
/// by Kafka's names. On failure nothing is written to `out`, and `err`, if given, names the
/// property that is wrong.
///
/// # Safety
/// `c` is NULL or a client handle; `cfg` is prepared by `kloop_conf_init`; `out` is writable;
/// `err` is NULL or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_consumer_new(
    c: *mut kloop_client,
    cfg: *const kloop_conf,
    out: *mut *mut kloop_consumer,
    err: *mut kloop_error,
) -> kloop_status {
    let call = |fail: &mut dyn FnMut(NotMade) -> Error| {
        let make = |inner: &mut Inner, target: Target, shell: &kloop_engine| {
            if out.is_null() {
                return Err(NotMade::from(Error::Invalid("out is NULL")));
            }
            // SAFETY: passed on from the caller.
            let given = unsafe { given(cfg) }?;
            let config = ConsumerConfig::from_properties(Properties::new(given.pairs))?;
            let id = inner.engine.with_client(target.owner, |client, _, _| {
                client.add_consumer(config, given.conf.user)
            })?;
            let Some(cell) = make_child(shell, Kind::Consumer, target.owner, Some(id)) else {
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

fn close(inner: &mut Inner, client: SlotId, consumer: SlotId) {
    // A client that is gone took its consumers with it.
    let _ = inner.engine.with_client(client, |client, _, _| client.close_consumer(consumer));
}

/// Ends a consumer. Leases of its records stay valid. NULL is ignored.
///
/// # Safety
/// `c` is NULL or a consumer handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_consumer_free(c: *mut kloop_consumer) {
    guard((), || {
        let end = |inner: &mut Inner, target: Target| close(inner, target.owner, target.part);
        // SAFETY: passed on from the caller.
        unsafe { free_child(c.cast::<HandleCell>(), Kind::Consumer, end) };
    });
}

/// Replaces the partitions that the consumer fetches: each from its `offset`, which is 0 and above,
/// `KLOOP_OFFSET_LATEST` or `KLOOP_OFFSET_EARLIEST`. `KLOOP_EV_RECORDS` events follow.
///
/// # Safety
/// `c` is NULL or a consumer handle; `parts` points at `n` readable values.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_consumer_assign(
    c: *mut kloop_consumer,
    parts: *const kloop_tp,
    n: u32,
) -> kloop_status {
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        // SAFETY: passed on from the caller.
        let parts = unsafe { array(parts, n as usize) }?;
        let parts: Vec<_> =
            parts.iter().map(|tp| (TopicId(tp.topic), tp.partition, tp.offset)).collect();
        inner.engine.with_client(target.owner, |client, _, _| {
            client.assign(target.part, &parts).map(|()| 0)
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(c.cast::<HandleCell>(), Kind::Consumer, call) }
}

/// Adds a partition to those that the consumer fetches, from the first record whose timestamp is
/// `timestamp_ms` or later; from the end if there is none.
///
/// # Safety
/// `c` is NULL or a consumer handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_consumer_assign_at(
    c: *mut kloop_consumer,
    topic: kloop_topic,
    partition: i32,
    timestamp_ms: i64,
) -> kloop_status {
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        inner.engine.with_client(target.owner, |client, _, _| {
            client.assign_at(target.part, TopicId(topic), partition, timestamp_ms).map(|()| 0)
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(c.cast::<HandleCell>(), Kind::Consumer, call) }
}

/// Stops (`paused` not 0) or resumes fetching partitions of the assignment; positions stay. All of
/// them or none: one that is not assigned is `KLOOP_E_INVALID`, and nothing has changed.
///
/// # Safety
/// `c` is NULL or a consumer handle; `parts` points at `n` readable values, whose offsets do not
/// matter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_consumer_pause(
    c: *mut kloop_consumer,
    parts: *const kloop_tp,
    n: u32,
    paused: u32,
) -> kloop_status {
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        // SAFETY: passed on from the caller.
        let parts = unsafe { array(parts, n as usize) }?;
        let parts: Vec<_> = parts.iter().map(|tp| (TopicId(tp.topic), tp.partition)).collect();
        inner.engine.with_client(target.owner, |client, _, _| {
            client.pause(target.part, &parts, paused != 0).map(|()| 0)
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(c.cast::<HandleCell>(), Kind::Consumer, call) }
}

/// The offset of the next record of a partition, or -1 while the partition's start is being looked
/// up. Below -1 it is a status: `KLOOP_E_INVALID` for a partition that is not assigned.
///
/// # Safety
/// `c` is NULL or a consumer handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_consumer_position(
    c: *mut kloop_consumer,
    topic: kloop_topic,
    partition: i32,
) -> i64 {
    let mut position = -1;
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        inner.engine.with_client(target.owner, |client, _, _| {
            position = client.position(target.part, TopicId(topic), partition)?.unwrap_or(-1);
            Ok(0)
        })
    };
    // SAFETY: passed on from the caller.
    let status = unsafe { on_child(c.cast::<HandleCell>(), Kind::Consumer, call) };
    if status < 0 { i64::from(status) } else { position }
}

/// Ends a consumer gracefully: fetches on their way are given up; then `KLOOP_EV_CLOSED`. There is
/// nothing yet that would take the time of `grace_ns`.
///
/// # Safety
/// `c` is NULL or a consumer handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_consumer_close(
    c: *mut kloop_consumer,
    grace_ns: i64,
) -> kloop_status {
    let _ = grace_ns;
    let call = |inner: &mut Inner, target: Target, _: &kloop_engine| {
        inner.engine.with_client(target.owner, |client, _, _| {
            client.close_consumer(target.part).map(|()| 0)
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_child(c.cast::<HandleCell>(), Kind::Consumer, call) }
}
