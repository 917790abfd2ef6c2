//! Squeeze: batches as producers compress them, with the codecs that this build has. Whoever includes
//! it has kloop's `records` in scope: the tests of the inside and those over sockets.

use super::records::{
    Attributes, BatchBuilder, Compression, Seal, batch as at, crc32c, no_headers,
};

/// The codecs that this build has.
pub(super) const BUILT: &[Compression] = &[
    #[cfg(feature = "gzip")]
    Compression::Gzip,
    #[cfg(feature = "snappy")]
    Compression::Snappy,
    #[cfg(feature = "lz4")]
    Compression::Lz4,
    #[cfg(feature = "zstd")]
    Compression::Zstd,
];

/// A batch of ten records, one each millisecond from `time` on; those at `keyless` have no key.
pub(super) fn keyed(time: i64, keyless: &[usize]) -> Vec<u8> {
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

/// The batch with its records compressed.
pub(super) fn squeezed(codec: Compression, batch: &[u8]) -> Vec<u8> {
    with_records(codec, batch, &compressed(codec, &batch[at::HEADER_LEN..]))
}

/// The batch's header before other records, said to be compressed like that.
pub(super) fn with_records(codec: Compression, batch: &[u8], records: &[u8]) -> Vec<u8> {
    let mut out = [&batch[..at::HEADER_LEN], records].concat();
    let length = (out.len() - at::LENGTH_OVERHEAD) as i32;
    put(&mut out, at::BATCH_LENGTH_AT, &length.to_be_bytes());
    let attributes = Attributes(0).with_compression(codec);
    put(&mut out, at::ATTRIBUTES_AT, &attributes.0.to_be_bytes());
    sealed(out)
}

/// The batch with another number of records in its header.
pub(super) fn counting(count: i32, mut batch: Vec<u8>) -> Vec<u8> {
    put(&mut batch, at::COUNT_AT, &count.to_be_bytes());
    put(&mut batch, at::LAST_OFFSET_DELTA_AT, &(count - 1).to_be_bytes());
    sealed(batch)
}

fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&batch[at::ATTRIBUTES_AT..]);
    put(&mut batch, at::CRC_AT, &crc.to_be_bytes());
    batch
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

pub(super) fn compressed(codec: Compression, bytes: &[u8]) -> Vec<u8> {
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
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut stream = vec![0; bytes.len() + bytes.len() / 100 + 100];
    let mut deflate = zlib_rs::Deflate::new(6, false, 15);
    let end = deflate.compress(bytes, &mut stream, zlib_rs::DeflateFlush::Finish).unwrap();
    assert_eq!(end, zlib_rs::Status::StreamEnd);
    out.extend(&stream[..deflate.total_out() as usize]);
    out.extend(zlib_rs::crc32::crc32(0, bytes).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

/// A frame of blocks that are stored as they are: independent, of 4 MiB at most, without checksums.
#[cfg(feature = "lz4")]
fn lz4(bytes: &[u8]) -> Vec<u8> {
    let header = [0x60, 0x70];
    let check = (xxhash_rust::xxh32::xxh32(&header, 0) >> 8) as u8;
    let mut out = vec![0x04, 0x22, 0x4d, 0x18, header[0], header[1], check];
    for block in bytes.chunks(4 << 20) {
        out.extend((block.len() as u32 | 1 << 31).to_le_bytes());
        out.extend(block);
    }
    out.extend([0; 4]);
    out
}
