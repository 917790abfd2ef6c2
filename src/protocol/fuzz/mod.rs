//! What the fuzz targets call: each takes any bytes and must come back, in work linear in their
//! length. What was read must be written again and read the same, or it panics.
//!
//! Compiled for tests and for the fuzzer only.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod inflate;
#[cfg(test)]
mod tests;

pub use inflate::fuzz_inflate;

use crate::protocol::api_key::ApiKey;
use crate::protocol::declare::Message;
use crate::protocol::header::{RequestHeader, ResponseHeader};
use crate::protocol::messages::*;
use crate::protocol::reader::Reader;
use crate::protocol::records::{
    BatchBuilder, BatchView, Batches, Record, Records, Seal, batch, set_base_offset,
    set_log_append_time, set_partition_leader_epoch,
};
use crate::protocol::writer::{Cut, Writer};

/// Reads `bytes` as a request's header, and as headers of answers.
pub fn fuzz_header(bytes: &[u8]) {
    let mut r = Reader::new(bytes);
    if let Ok(header) = RequestHeader::read(&mut r) {
        assert!(r.left() <= bytes.len());
        let mut out = vec![0; bytes.len()];
        let mut w = Writer::new(&mut out);
        header.write(&mut w);
        // Tagged fields are not kept, so it is never longer.
        let n = w.finish().expect("a header that was read can be written");
        let again = RequestHeader::read(&mut Reader::new(&out[..n]));
        assert_eq!(again, Ok(header));
        let name = header.api_key.name();
        assert!(header.api_key.is_known() && !name.is_empty());
    }
    for key in [ApiKey::API_VERSIONS, ApiKey::PRODUCE, ApiKey::SASL_HANDSHAKE] {
        for version in [0, 3, 9] {
            let _ = ResponseHeader::read(&mut Reader::new(bytes), key, version);
        }
    }
}

/// Reads `body` as one message, writes it again in three ways, and reads that.
macro_rules! round {
    ($Name:ident, $pick:expr, $body:expr) => {{
        let versions = <$Name as Message>::VERSIONS;
        let span = i32::from(*versions.end() - *versions.start()) + 1;
        let version = versions.start() + (i32::from($pick) % span) as i16;
        if let Ok(read) = $Name::decode($body, version) {
            let len = read.encoded_len(version);
            let mut first = vec![0; len];
            let mut w = Writer::new(&mut first);
            read.encode(&mut w, version);
            assert_eq!(w.finish(), Ok(len), "{read:?} v{version}");

            let again = $Name::decode(&first, version).expect("what was written can be read");
            let mut second = vec![0; len];
            let mut w = Writer::new(&mut second);
            again.encode(&mut w, version);
            assert_eq!(w.finish(), Ok(len), "{read:?} v{version}");
            assert_eq!(first, second, "{read:?} v{version}");

            // Left-out payloads and what stands around them make up the whole.
            let mut cuts = vec![Cut::default(); $body.len() + 1];
            let mut w = Writer::gathering(&mut second, &mut cuts);
            read.encode(&mut w, version);
            let (_, left_out) = w.left_out();
            assert_eq!(w.finish().map(|n| n + left_out), Ok(len), "{read:?} v{version}");

            // A buffer that is too small is noticed, whatever the place.
            let mut w = Writer::new(&mut second[..len - len.min(1)]);
            read.encode(&mut w, version);
            assert!(len == 0 || w.finish().is_err(), "{read:?} v{version}");
        }
    }};
}

/// The first byte picks the message among the listed, the second its version.
macro_rules! pick {
    ($bytes:expr; $($Name:ident)*) => {{
        let &[which, pick, ref body @ ..] = $bytes else { return };
        let names = [$(stringify!($Name)),*];
        match names[usize::from(which) % names.len()] {
            $(stringify!($Name) => round!($Name, pick, body),)*
            _ => unreachable!(),
        }
    }};
}

/// Reads `bytes` as a request; the first two bytes pick which.
pub fn fuzz_request(bytes: &[u8]) {
    pick! {
        bytes;
        ProduceRequest FetchRequest ListOffsetsRequest MetadataRequest ApiVersionsRequest
        CreateTopicsRequest DeleteTopicsRequest InitProducerIdRequest OffsetForLeaderEpochRequest
    }
}

/// Reads `bytes` as an answer; the first two bytes pick which.
pub fn fuzz_response(bytes: &[u8]) {
    pick! {
        bytes;
        ProduceResponse FetchResponse ListOffsetsResponse MetadataResponse ApiVersionsResponse
        CreateTopicsResponse DeleteTopicsResponse InitProducerIdResponse
        OffsetForLeaderEpochResponse
    }
}

/// How many bytes a record shows.
fn shown(record: &Record<'_>) -> usize {
    let headers = record.headers.map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len));
    record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len) + headers.sum::<usize>()
}

/// Appends a batch's records to a new one. Where all of them could be read, the new one holds the
/// same, in no more bytes than the old: varints have one shortest form.
fn rebuild(batch: &BatchView<'_>) {
    let Ok(records) = batch.records() else { return };
    let mut buf = vec![0; batch.total_len() + 32 * records.left()];
    let mut builder = BatchBuilder::new();
    let mut whole = true;
    for record in records {
        let Ok(record) = record else {
            whole = false;
            continue;
        };
        let time = record.timestamp_delta;
        let appended = builder.append(&mut buf, time, record.key, record.value, record.headers);
        assert!(appended.is_some());
    }
    if let Some(total) = builder.seal(&mut buf, &Seal::default()) {
        let built = BatchView::parse(&buf[..total]).expect("a batch that was built");
        assert!(built.verify_crc() && built.check_produced().is_ok());
        if whole {
            let (old, new) = (batch.records().unwrap(), built.records().unwrap());
            for (old, new) in old.flatten().zip(new) {
                let new = new.expect("a record that was written");
                assert_eq!((old.key, old.value), (new.key, new.value));
                assert!(old.headers.eq(new.headers));
            }
        }
    }
}

/// Rewrites what a broker rewrites.
fn edit(batch: &BatchView<'_>) {
    let mut copy = batch.bytes().to_vec();
    assert!(set_log_append_time(&mut copy, 42).is_ok());
    assert!(set_base_offset(&mut copy, 43).is_ok());
    assert!(set_partition_leader_epoch(&mut copy, 44).is_ok());
    let edited = BatchView::parse(&copy).expect("an edited batch");
    assert!(edited.verify_crc());
    let fields = (edited.max_timestamp(), edited.base_offset(), edited.partition_leader_epoch());
    assert_eq!(fields, (42, 43, 44));
}

/// Walks the batches in `bytes`.
fn walk(bytes: &[u8]) {
    let mut batches = Batches::new(bytes);
    let mut walked = 0;
    for batch in batches.by_ref().flatten() {
        walked += batch.total_len();
        let _ = (batch.verify_crc(), batch.check_produced(), batch.next_offset());
        let _ = (batch.last_sequence(), batch.attributes().timestamp_type());
        let mut sum = 0;
        for record in batch.records().into_iter().flatten().flatten() {
            let _ = (batch.offset_of(&record), batch.timestamp_of(&record));
            let _ = record.control_type();
            sum += shown(&record);
        }
        assert!(sum <= batch.records_bytes().len());
        rebuild(&batch);
        edit(&batch);
    }
    assert_eq!(walked + batches.rest().len(), bytes.len());
}

/// Puts a header before `records`, which nobody finds by trying; the first byte is their count.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let (count, records) = bytes.split_first().unwrap_or((&0, &[]));
    let mut out = vec![0; batch::HEADER_LEN];
    out[batch::BATCH_LENGTH_AT..][..4]
        .copy_from_slice(&((batch::HEADER_LEN - 12 + records.len()) as i32).to_be_bytes());
    out[batch::MAGIC_AT] = batch::MAGIC as u8;
    out[batch::COUNT_AT + 3] = *count;
    out.extend_from_slice(records);
    out
}

/// Walks `bytes` as a fetched range, as the records of a batch, and as bare records.
pub fn fuzz_record_batch(bytes: &[u8]) {
    walk(bytes);
    walk(&framed(bytes));
    let count = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    for count in [0, 1, 2, count / 7, count, -1, i32::MAX, i32::MIN] {
        if let Ok(records) = Records::new(bytes, count) {
            let sum: usize = records.flatten().map(|r| shown(&r)).sum();
            assert!(sum <= bytes.len());
        }
    }
}
