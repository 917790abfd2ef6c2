//! Batches for tests: with and without keys, compressed, and said to be what they are not.

// By paths that are right where tests and benchmarks outside of the crate have this file and the
// encoders beside each other.
use super::encoders::compressed;
use crate::protocol::records::batch::{
    ATTRIBUTES_AT, BATCH_LENGTH_AT, COUNT_AT, CRC_AT, HEADER_LEN, LAST_OFFSET_DELTA_AT,
    LENGTH_OVERHEAD,
};
use crate::protocol::records::{BatchBuilder, BatchView, Compression, Seal, crc32c, no_headers};

/// A batch of ten records, one each millisecond from `time` on; those at `keyless` have no key.
pub(crate) fn keyed(time: i64, keyless: &[usize]) -> Vec<u8> {
    let mut buf = vec![0; 2000];
    let mut builder = BatchBuilder::new();
    for i in 0..10 {
        let key = (!keyless.contains(&i)).then_some(&b"key"[..]);
        builder.append(&mut buf, time + i as i64, key, Some(&[b'v'; 50]), no_headers()).unwrap();
    }
    let len = builder.seal(&mut buf, &Seal::default()).unwrap();
    buf.truncate(len);
    buf
}

/// The batch with another number of records in its header.
pub(crate) fn counting(count: i32, mut batch: Vec<u8>) -> Vec<u8> {
    put(&mut batch, COUNT_AT, &count.to_be_bytes());
    put(&mut batch, LAST_OFFSET_DELTA_AT, &(count - 1).to_be_bytes());
    sealed(batch)
}

/// A batch with its records compressed.
pub(crate) fn compressed_batch(codec: Compression, batch: &[u8]) -> Vec<u8> {
    with_records(codec, batch, &compressed(codec, &batch[HEADER_LEN..]))
}

/// A batch's header before other records, said to be compressed like that.
pub(crate) fn with_records(codec: Compression, batch: &[u8], records: &[u8]) -> Vec<u8> {
    let attributes = BatchView::parse(batch).unwrap().attributes().with_compression(codec);
    let mut out = [&batch[..HEADER_LEN], records].concat();
    let length = (out.len() - LENGTH_OVERHEAD) as i32;
    put(&mut out, BATCH_LENGTH_AT, &length.to_be_bytes());
    put(&mut out, ATTRIBUTES_AT, &attributes.0.to_be_bytes());
    sealed(out)
}

/// The batch with its CRC made anew.
pub(crate) fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&batch[ATTRIBUTES_AT..]);
    put(&mut batch, CRC_AT, &crc.to_be_bytes());
    batch
}

pub(crate) fn put(batch: &mut [u8], at: usize, value: &[u8]) {
    batch[at..at + value.len()].copy_from_slice(value);
}
