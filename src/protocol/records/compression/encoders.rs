//! Encoders for tests: each codec in the plainest form that real clients send.

// By its path from the root, as tests and benchmarks outside of the crate have this file too.
use crate::protocol::records::Compression;

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
