//! What tests make batches with, compressed by each codec in the plainest form that real clients send.

// By its path from the root, as tests/broker_compressed.rs has this file too.
use crate::protocol::records::batch::{
    ATTRIBUTES_AT, BATCH_LENGTH_AT, COUNT_AT, CRC_AT, HEADER_LEN, LAST_OFFSET_DELTA_AT,
    LENGTH_OVERHEAD,
};
use crate::protocol::records::{BatchBuilder, BatchView, Compression, Seal, crc32c, no_headers};

/// The codecs of this build.
pub(crate) const CODECS: &[Compression] = &[
    #[cfg(feature = "gzip")]
    Compression::Gzip,
    #[cfg(feature = "snappy")]
    Compression::Snappy,
    #[cfg(feature = "lz4")]
    Compression::Lz4,
    #[cfg(feature = "zstd")]
    Compression::Zstd,
];

/// `bytes`, compressed.
pub(crate) fn compressed(codec: Compression, bytes: &[u8]) -> Vec<u8> {
    match codec {
        #[cfg(feature = "gzip")]
        Compression::Gzip => gzip(bytes),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => lz4(bytes),
        #[cfg(feature = "zstd")]
        Compression::Zstd => {
            let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
            let len = zstd_safe::compress(&mut out[..], bytes, 3).unwrap();
            out.truncate(len);
            out
        }
        _ => bytes.to_vec(),
    }
}

#[cfg(feature = "gzip")]
fn gzip(bytes: &[u8]) -> Vec<u8> {
    use zlib_rs::{Deflate, DeflateFlush, crc32::crc32};
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let mut stream = vec![0; bytes.len() + bytes.len() / 8 + 64];
    let mut deflate = Deflate::new(6, false, 15);
    deflate.compress(bytes, &mut stream, DeflateFlush::Finish).unwrap();
    out.extend_from_slice(&stream[..deflate.total_out() as usize]);
    out.extend_from_slice(&crc32(0, bytes).to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out
}

/// A frame as Java's client writes it: independent blocks of 64 KiB, no checksums but the header's.
#[cfg(feature = "lz4")]
fn lz4(bytes: &[u8]) -> Vec<u8> {
    use xxhash_rust::xxh32::xxh32;
    let mut out = vec![4, 0x22, 0x4d, 0x18, 0x60, 0x40];
    out.push((xxh32(&[0x60, 0x40], 0) >> 8) as u8);
    for block in bytes.chunks(64 << 10) {
        let packed = lz4_flex::block::compress(block);
        let (flag, block) =
            if packed.len() < block.len() { (0, &packed[..]) } else { (1 << 31, block) };
        out.extend_from_slice(&(block.len() as u32 | flag).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[0; 4]);
    out
}

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
