//! kloop_records_* and kloop_headers_read: records inside a lease, decoded in place (unsafe).

use super::boundary::{guard, on_engine};
use super::event::{kloop_event, kloop_event_type};
use super::handle::{Inner, kloop_engine};
use super::slice::{kloop_header, kloop_slice, put};
use super::status::{kloop_status, kloop_status_code as code};
use crate::client::{FetchedHeaders, RecordCursor};
use crate::error::Error;
use crate::net::slots::SlotId;

/// Where a walk over the records of an event stands; on the caller's stack, no free.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_cursor {
    /// Not for the caller.
    pub opaque: [u64; 8],
}

/// A fetched record. Valid while the lease of its event is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_record {
    /// The key; NULL is none.
    pub key: kloop_slice,
    /// The value; NULL is a tombstone.
    pub value: kloop_slice,
    /// The headers as they stand in the batch; read them with `kloop_headers_read`.
    pub headers: kloop_slice,
    /// The record's offset.
    pub offset: i64,
    /// Milliseconds since 1970; -1 if the producer gave none.
    pub timestamp_ms: i64,
    /// How many headers.
    pub header_count: u32,
    /// Reserved, 0.
    pub flags: u32,
}

/// What a cursor holds.
#[repr(C)]
#[derive(Clone, Copy)]
struct Opened {
    engine: *const kloop_engine,
    lease: u64,
    cursor: RecordCursor,
}

const _: () = assert!(size_of::<Opened>() <= size_of::<kloop_cursor>());
const _: () = assert!(align_of::<Opened>() <= align_of::<kloop_cursor>());

/// Begins a walk over the records of a `KLOOP_EV_RECORDS` event.
///
/// # Safety
/// `e` is NULL or an engine handle; `ev` is NULL or readable; `cur` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_records_open(
    e: *const kloop_engine,
    ev: *const kloop_event,
    cur: *mut kloop_cursor,
) -> kloop_status {
    let call = |inner: &mut Inner| {
        if ev.is_null() || cur.is_null() {
            return Err(Error::Invalid("ev or cur is NULL"));
        }
        // SAFETY: not null; the caller vouches for the rest.
        let event = unsafe { &*ev };
        if event.r#type != kloop_event_type::KLOOP_EV_RECORDS as u32 {
            return Err(Error::Invalid("not an event with records"));
        }
        inner.leases.get(SlotId::from_raw(event.lease)).ok_or(Error::Stale)?;
        // SAFETY: the type says which member was written.
        let from = unsafe { event.u.records }.base_offset;
        let cursor = RecordCursor::new(from);
        // SAFETY: not null; `Opened` is not larger and not more aligned (asserted above).
        unsafe { put(cur.cast(), Opened { engine: e, lease: event.lease, cursor }) }?;
        Ok(0)
    };
    // SAFETY: passed on from the caller.
    unsafe { on_engine(e, call) }
}

/// Decodes up to `cap` records; says how many, 0 at the end, or a negative status
/// (`KLOOP_E_STALE` after the lease was released, `KLOOP_E_PROTOCOL` for a damaged batch). Records
/// in front of a damaged one are given first; each call that begins with it says the status.
///
/// # Safety
/// `cur` is NULL or was opened; `out` points at `cap` writable records.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_records_read(
    cur: *mut kloop_cursor,
    out: *mut kloop_record,
    cap: u32,
) -> i32 {
    if cur.is_null() || (out.is_null() && cap > 0) {
        return code::KLOOP_E_INVALID as i32;
    }
    // SAFETY: not null, opened by `kloop_records_open`; nobody else uses it now.
    let opened: &mut Opened = unsafe { &mut *cur.cast() };
    let (engine, lease) = (opened.engine, opened.lease);
    let call = |inner: &mut Inner| {
        let bytes = inner.leases.get(SlotId::from_raw(lease)).ok_or(Error::Stale)?;
        let mut written = 0;
        let count = opened.cursor.read(bytes, cap as usize, |record| {
            let (headers, header_count) = record.headers.raw();
            let filled = kloop_record {
                key: kloop_slice::of_nullable(record.key),
                value: kloop_slice::of_nullable(record.value),
                headers: kloop_slice::of(headers),
                offset: record.offset,
                timestamp_ms: record.timestamp_ms,
                header_count: header_count as u32,
                flags: 0,
            };
            // SAFETY: below `cap`; the caller vouches for that many records.
            let at = unsafe { out.add(written) };
            // SAFETY: as above.
            unsafe { at.write(filled) };
            written += 1;
        })?;
        Ok(count as i32)
    };
    // SAFETY: the cursor was opened on this engine handle, which the caller keeps.
    unsafe { on_engine(engine, call) }
}

/// Decodes headers of a record, from number `from` on; says how many, 0 at the end. Any thread
/// that may read the record.
///
/// # Safety
/// `rec` is NULL or a record whose lease is valid; `out` points at `cap` writable headers.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_headers_read(
    rec: *const kloop_record,
    from: u32,
    out: *mut kloop_header,
    cap: u32,
) -> i32 {
    guard(code::KLOOP_E_PANIC as i32, || {
        if rec.is_null() || (out.is_null() && cap > 0) {
            return code::KLOOP_E_INVALID as i32;
        }
        // SAFETY: not null; the caller vouches for the rest.
        let record = unsafe { &*rec };
        // SAFETY: the lease is valid, so the bytes are.
        let Ok(Some(bytes)) = (unsafe { record.headers.nullable() }) else { return 0 };
        let headers = FetchedHeaders::from_raw(bytes, record.header_count as usize);
        let mut count = 0;
        for (key, value) in headers.skip(from as usize).take(cap as usize) {
            let filled =
                kloop_header { key: kloop_slice::of(key), value: kloop_slice::of_nullable(value) };
            // SAFETY: below `cap`; the caller vouches for that many headers.
            let at = unsafe { out.add(count) };
            // SAFETY: as above.
            unsafe { at.write(filled) };
            count += 1;
        }
        count as i32
    })
}
