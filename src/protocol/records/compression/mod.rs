//! Compression: the codecs of record batches, and inflating by them, into memory that the caller owns.
//!
//! One [`Inflater`] per thread: what the codecs need besides is taken when it is made, and inflating
//! allocates nothing. A batch is inflated in one go, into a slice that is the limit: however much a
//! peer packed into few bytes, nothing is written behind it, and the work is linear in the bytes that
//! went in and came out.
//!
//! | codec and feature | what is read | by |
//! |---|---|---|
//! | gzip | members one behind the other, each with its CRC-32 and length (RFC 1952) | zlib-rs |
//! | snappy | a bare block, or blocks in the framing of snappy-java, which Java and librdkafka write | snap |
//! | lz4 | frames with independent or linked blocks, all checksums checked where there are some | lz4_flex |
//! | zstd | frames without dictionaries (RFC 8878) | zstd, in C |
//!
//! A file each. Each codec is a cargo feature; without it its batches are [`InflateError::Unsupported`].
//!
//! Absent: compressing, dictionaries, inflating a batch piece by piece, and the older framing of lz4
//! with a wrong header checksum, which only the message formats before batches v2 had.

#[cfg(test)]
pub(crate) mod encoders;
#[cfg(feature = "gzip")]
mod gzip;
mod inflater;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(test)]
mod tests;
#[cfg(feature = "zstd")]
mod zstd;

pub use inflater::{InflateError, Inflater};

use super::attributes::Compression;

/// How many bytes of room to offer first for these bytes: what they announce, if that can be, or
/// four times their length. Never to be relied on: gzip announces its last member only, zstd its first
/// frame, and a liar anything up to what its codec can reach.
pub fn expected_len(codec: Compression, from: &[u8]) -> usize {
    let (announced, ratio) = match codec {
        Compression::None => (Some(from.len()), 1),
        #[cfg(feature = "gzip")]
        Compression::Gzip => (gzip::announced(from), 1032),
        #[cfg(feature = "snappy")]
        Compression::Snappy => (snappy::announced(from), snappy::RATIO),
        #[cfg(feature = "lz4")]
        Compression::Lz4 => (lz4::announced(from), 255),
        // A block of one byte repeated stands in four bytes.
        #[cfg(feature = "zstd")]
        Compression::Zstd => (zstd::announced(from), (128 << 10) / 4),
        #[allow(unreachable_patterns, reason = "reached where a codec is not built")]
        _ => (None, 1),
    };
    let most = from.len().saturating_mul(ratio);
    announced.map_or(from.len().saturating_mul(GUESS), |len| len.min(most))
}

/// How much longer records may be than their compressed bytes, where those do not tell.
const GUESS: usize = 4;
