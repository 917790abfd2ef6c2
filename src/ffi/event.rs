//! kloop_event: from inner results to 64 bytes that never change.

use super::handle::Inner;
use super::slice::kloop_topic;
use super::status::{kloop_status, status};
use crate::broker::{BrokerEvent, HostThreads, Taken};
use crate::client::{ClientEvent, Outcome};
use crate::engine::Event;
use crate::net::SharedLease;
use crate::net::slots::SlotId;
use core::ffi::c_void;

/// Names a connection, request or operation; carries a generation.
pub type kloop_id = u64;
/// Borrowed memory; 0 is none. Give it back with `kloop_release`.
pub type kloop_lease = u64;

/// The `type` of an event. A host gives back the lease of a type that it does not know.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum kloop_event_type {
    /// Another thread called `kloop_waker_post`; `user` is what it posted.
    KLOOP_EV_POSTED = 1,
    /// A handle that was closed has ended.
    KLOOP_EV_CLOSED = 2,
    /// Something of a handle cannot go on; `status` says why, `u.error` where. A partition stops until
    /// it is assigned again; but UNKNOWN_TOPIC_OR_PARTITION is of one that the cluster has not had for
    /// 5 s, and that is looked for on. Of a client: a host cannot be resolved for now
    /// (`KLOOP_E_RESOLVE`); it is tried again.
    KLOOP_EV_ERROR = 3,
    /// A client has its first picture of the cluster.
    KLOOP_EV_READY = 16,
    /// A raw request has its answer (`u.request`, `user`) or its end (`status`).
    KLOOP_EV_REPLY = 19,
    /// Records have their outcome: `u.delivered`.
    KLOOP_EV_DELIVERED = 32,
    /// A producer that took fewer records than it was given takes records again.
    KLOOP_EV_WRITABLE = 33,
    /// A flush is over: all records accepted before it have their outcome.
    KLOOP_EV_FLUSHED = 35,
    /// Fetched records: `u.records`, read with `kloop_records_open`.
    KLOOP_EV_RECORDS = 48,
    /// A partition's position reached its end: `u.error`. Only with `enable.partition.eof=true`.
    KLOOP_EV_EOF = 52,
    /// A polled broker with `host_apis` took a connection: `u.request.conn`.
    KLOOP_EV_CONN_OPEN = 64,
    /// A request that the host answers: `u.request`.
    KLOOP_EV_REQUEST = 66,
    /// An answer of the host's is written, or dropped with its connection; `user` is its token.
    KLOOP_EV_SENT = 67,
    /// Such a connection ended: `u.request.conn`, stale from now on.
    KLOOP_EV_CONN_CLOSED = 68,
}

/// In `u.delivered.outcome`: it is certain that the broker does not have the records.
pub const KLOOP_NOT_PERSISTED: u32 = 0;
/// In `u.delivered.outcome`: the broker may have the records or not.
pub const KLOOP_MAYBE_PERSISTED: u32 = 1;
/// In `u.delivered.outcome`: the broker acknowledged the records, or with `acks=0` they were written
/// to its connection, and `base_offset` is -1.
pub const KLOOP_PERSISTED: u32 = 2;

/// Of `KLOOP_EV_DELIVERED`: a run of records with the same outcome.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_ev_delivered {
    /// The tokens (`kloop_msg.user`) of the records, in the order in which they were produced.
    pub users: *const u64,
    /// The first record's offset, the others follow one by one; -1 if there is none.
    pub base_offset: i64,
    /// How many records.
    pub count: u32,
    /// The partition.
    pub partition: i32,
    /// The topic.
    pub topic: kloop_topic,
    /// `KLOOP_NOT_PERSISTED`, `KLOOP_MAYBE_PERSISTED` or `KLOOP_PERSISTED`.
    pub outcome: u32,
}

/// Of `KLOOP_EV_RECORDS`: fetched records of one partition.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_ev_records {
    /// The offset from which records are new.
    pub base_offset: i64,
    /// The partition's high watermark.
    pub high_watermark: i64,
    /// The topic.
    pub topic: kloop_topic,
    /// The partition.
    pub partition: i32,
    /// How many records.
    pub count: u32,
    /// Bytes of the batches they stand in.
    pub bytes: u32,
}

/// Of `KLOOP_EV_REQUEST`, `KLOOP_EV_REPLY` and the connection events.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_ev_request {
    /// The body behind the header.
    pub body: *const c_void,
    /// The connection.
    pub conn: kloop_id,
    /// The request, to be answered once; of a reply the operation.
    pub id: kloop_id,
    /// Bytes of the body.
    pub body_len: u32,
    /// The API key.
    pub api_key: u16,
    /// The API version.
    pub api_version: u16,
}

/// Of `KLOOP_EV_ERROR` and `KLOOP_EV_EOF`: where.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_ev_error {
    /// The position, or -1.
    pub offset: i64,
    /// The topic, or `KLOOP_NO_TOPIC`.
    pub topic: kloop_topic,
    /// The partition, or -1.
    pub partition: i32,
}

/// A topic that is none.
pub const KLOOP_NO_TOPIC: u32 = 0xffff_ffff;

/// What an event carries, by its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union kloop_ev_data {
    /// Of `KLOOP_EV_DELIVERED`.
    pub delivered: kloop_ev_delivered,
    /// Of `KLOOP_EV_RECORDS`.
    pub records: kloop_ev_records,
    /// Of `KLOOP_EV_REQUEST`, `KLOOP_EV_REPLY` and the connection events.
    pub request: kloop_ev_request,
    /// Of `KLOOP_EV_ERROR` and `KLOOP_EV_EOF`.
    pub error: kloop_ev_error,
    /// The size of the union.
    pub raw: [u64; 4],
}

/// What happened. 64 bytes on every platform; may be copied.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kloop_event {
    /// `KLOOP_EV_*`.
    pub r#type: u32,
    /// 0, or why.
    pub status: kloop_status,
    /// The `user` of the config of the handle it belongs to.
    pub owner: u64,
    /// The token of the operation, 0 if it has none.
    pub user: u64,
    /// While not 0, pointers below stay valid until `kloop_release`.
    pub lease: kloop_lease,
    /// What it carries.
    pub u: kloop_ev_data,
}

const _: () = assert!(size_of::<kloop_event>() == 64);

use kloop_event_type as ty;

/// Turns an inner event into C's; `Err` gives it back if its lease finds no place.
pub(super) fn convert(inner: &mut Inner, event: Event) -> Result<kloop_event, Event> {
    match event {
        Event::Posted { user } => Ok(plain(ty::KLOOP_EV_POSTED, 0, user)),
        Event::Client(event) => from_client(inner, event).map_err(Event::Client),
        Event::Broker(event) => from_broker(inner, event).map_err(Event::Broker),
    }
}

fn plain(kind: ty, owner: u64, user: u64) -> kloop_event {
    let u = kloop_ev_data { raw: [0; 4] };
    kloop_event { r#type: kind as u32, status: 0, owner, user, lease: 0, u }
}

/// Keeps what an event points at until it is released: the lease, and a pointer to the bytes.
fn lend(inner: &mut Inner, bytes: SharedLease) -> Result<(kloop_lease, *const u8), SharedLease> {
    let at = bytes.as_ptr();
    inner.leases.insert(bytes).map(|id| (id.raw(), at))
}

fn from_client(inner: &mut Inner, event: ClientEvent) -> Result<kloop_event, ClientEvent> {
    let out = match event {
        ClientEvent::Delivered { .. } => return delivered(inner, event),
        ClientEvent::Records { .. } => return records(inner, event),
        ClientEvent::Reply { .. } => return reply(inner, event),
        ClientEvent::Writable { owner } => plain(ty::KLOOP_EV_WRITABLE, owner, 0),
        ClientEvent::Flushed { owner, user } => plain(ty::KLOOP_EV_FLUSHED, owner, user),
        ClientEvent::Ready { owner } => plain(ty::KLOOP_EV_READY, owner, 0),
        ClientEvent::Closed { owner } => plain(ty::KLOOP_EV_CLOSED, owner, 0),
        ClientEvent::Eof { owner, topic, partition, offset } => {
            let mut out = plain(ty::KLOOP_EV_EOF, owner, 0);
            out.u.error = kloop_ev_error { offset, topic: topic.0, partition };
            out
        }
        ClientEvent::Failed { owner, error, topic, partition, offset } => {
            let mut out = plain(ty::KLOOP_EV_ERROR, owner, 0);
            out.status = status(error);
            let topic = topic.map_or(KLOOP_NO_TOPIC, |topic| topic.0);
            out.u.error = kloop_ev_error { offset, topic, partition };
            out
        }
    };
    Ok(out)
}

fn delivered(inner: &mut Inner, event: ClientEvent) -> Result<kloop_event, ClientEvent> {
    let ClientEvent::Delivered {
        owner,
        users,
        count,
        base_offset,
        topic,
        partition,
        outcome,
        error,
    } = event
    else {
        return Err(event);
    };
    let (lease, at) = lend(inner, users).map_err(|users| ClientEvent::Delivered {
        owner,
        users,
        count,
        base_offset,
        topic,
        partition,
        outcome,
        error,
    })?;
    let mut out = plain(ty::KLOOP_EV_DELIVERED, owner, 0);
    out.lease = lease;
    out.status = error.map_or(0, status);
    debug_assert!(at.cast::<u64>().is_aligned(), "tokens stand at the start of a block");
    out.u.delivered = kloop_ev_delivered {
        users: at.cast(),
        base_offset,
        count,
        partition,
        topic: topic.0,
        outcome: match outcome {
            Outcome::NotPersisted => KLOOP_NOT_PERSISTED,
            Outcome::MaybePersisted => KLOOP_MAYBE_PERSISTED,
            Outcome::Persisted => KLOOP_PERSISTED,
        },
    };
    Ok(out)
}

fn records(inner: &mut Inner, event: ClientEvent) -> Result<kloop_event, ClientEvent> {
    let ClientEvent::Records { owner, batches, from, count, high_watermark, topic, partition } =
        event
    else {
        return Err(event);
    };
    let bytes = batches.len() as u32;
    let (lease, _) = lend(inner, batches).map_err(|batches| ClientEvent::Records {
        owner,
        batches,
        from,
        count,
        high_watermark,
        topic,
        partition,
    })?;
    let mut out = plain(ty::KLOOP_EV_RECORDS, owner, 0);
    out.lease = lease;
    out.u.records = kloop_ev_records {
        base_offset: from,
        high_watermark,
        topic: topic.0,
        partition,
        count,
        bytes,
    };
    Ok(out)
}

fn reply(inner: &mut Inner, event: ClientEvent) -> Result<kloop_event, ClientEvent> {
    let ClientEvent::Reply { owner, user, op, body, api_key, api_version } = event else {
        return Err(event);
    };
    let mut out = plain(ty::KLOOP_EV_REPLY, owner, user);
    let (api_key_c, api_version_c) = (api_key as u16, api_version as u16);
    let mut request = kloop_ev_request {
        body: core::ptr::null(),
        conn: 0,
        id: op.raw(),
        body_len: 0,
        api_key: api_key_c,
        api_version: api_version_c,
    };
    match body {
        Err(error) => out.status = status(error),
        Ok(bytes) => {
            request.body_len = bytes.len() as u32;
            let (lease, at) = lend(inner, bytes).map_err(|bytes| ClientEvent::Reply {
                owner,
                user,
                op,
                body: Ok(bytes),
                api_key,
                api_version,
            })?;
            out.lease = lease;
            request.body = at.cast();
        }
    }
    out.u.request = request;
    Ok(out)
}

fn from_broker(inner: &mut Inner, event: BrokerEvent) -> Result<kloop_event, BrokerEvent> {
    let (kind, owner, conn) = match event {
        BrokerEvent::Request { .. } => return request(inner, event),
        BrokerEvent::Sent { owner, user } => return Ok(plain(ty::KLOOP_EV_SENT, owner, user)),
        BrokerEvent::Closed { owner } => return Ok(plain(ty::KLOOP_EV_CLOSED, owner, 0)),
        BrokerEvent::Opened { owner, conn } => (ty::KLOOP_EV_CONN_OPEN, owner, conn),
        BrokerEvent::Gone { owner, conn } => (ty::KLOOP_EV_CONN_CLOSED, owner, conn),
    };
    let mut out = plain(kind, owner, 0);
    out.u.request = kloop_ev_request {
        body: core::ptr::null(),
        conn: conn.raw(),
        id: 0,
        body_len: 0,
        api_key: 0,
        api_version: 0,
    };
    Ok(out)
}

fn request(inner: &mut Inner, event: BrokerEvent) -> Result<kloop_event, BrokerEvent> {
    let BrokerEvent::Request { owner, conn, request, body, api_key, api_version } = event else {
        return Err(event);
    };
    let body_len = body.len() as u32;
    let (lease, at) = lend(inner, body).map_err(|body| BrokerEvent::Request {
        owner,
        conn,
        request,
        body,
        api_key,
        api_version,
    })?;
    let mut out = plain(ty::KLOOP_EV_REQUEST, owner, 0);
    out.lease = lease;
    out.u.request = kloop_ev_request {
        body: at.cast(),
        conn: conn.raw(),
        id: request.raw(),
        body_len,
        api_key: api_key as u16,
        api_version: api_version as u16,
    };
    Ok(out)
}

/// The event of a request that a thread of the host takes.
pub(super) fn taken(threads: &HostThreads, request: &Taken) -> kloop_event {
    let mut out = plain(ty::KLOOP_EV_REQUEST, threads.owner(), 0);
    out.u.request = kloop_ev_request {
        body: request.body.cast(),
        conn: request.conn,
        id: request.id.raw(),
        body_len: request.body.len() as u32,
        api_key: request.api_key as u16,
        api_version: request.api_version as u16,
    };
    out
}

/// Gives a lease back; false for one that is none any more.
pub(super) fn release(inner: &mut Inner, lease: kloop_lease) -> bool {
    lease == 0 || inner.leases.remove(SlotId::from_raw(lease)).is_some()
}
