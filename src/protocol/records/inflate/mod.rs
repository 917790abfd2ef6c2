//! Inflate: the records of a compressed batch, into memory that the caller owns.
//!
//! One [`Inflater`] per thread: what the codecs need besides is taken when it is made, and inflating
//! allocates nothing. A batch is inflated in one go, into a slice that is the limit: however much a
//! peer packed into few bytes, nothing is written behind it, and the work is linear in the bytes that
//! went in and came out.
//!
//! | codec | what is read |
//! |---|---|
//! | gzip | members one behind the other, each with its CRC-32 and length (RFC 1952) |
//! | snappy | a bare block, or blocks in the framing of snappy-java, which Java and librdkafka write |
//! | lz4 | frames with independent or linked blocks, all checksums checked where there are some |
//! | zstd | frames without dictionaries (RFC 8878) |
//!
//! Each codec is a cargo feature; without it its batches are [`InflateError::Unsupported`].
//!
//! Absent: compressing, dictionaries, inflating a batch piece by piece, and the older framing of lz4
//! with a wrong header checksum, which only the message formats before batches v2 had.

#[cfg(test)]
pub(crate) mod encoders;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
// Of these Miri runs what .ci/miri picks: it has no C, and megabytes take it too long.
#[cfg(test)]
mod tests;
#[cfg(feature = "zstd")]
mod zstd;

use super::attributes::Compression;
use super::batch::{ATTRIBUTES_AT, BATCH_LENGTH_AT, BatchView, HEADER_LEN, LENGTH_OVERHEAD};
use super::batch::{put, seal_crc};
use crate::error::Error;
use crate::protocol::reader::Malformed;

/// Why records were not inflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflateError {
    /// They are longer than the room for them.
    Full,
    /// The compressed bytes are not what the codec allows.
    Malformed(Malformed),
    /// This build lacks the codec (a cargo feature of kloop), or it does not exist.
    Unsupported,
}

/// A check of a codec that failed.
#[cfg(any(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd"))]
fn bad<T>(why: &'static str) -> Result<T, InflateError> {
    Err(InflateError::Malformed(Malformed(why)))
}

/// The codecs, with the memory that they work in: 140 KB with all four, most of it zstd's. One thread at
/// a time; it keeps nothing from one call to the next.
pub struct Inflater {
    #[cfg(feature = "gzip")]
    gzip: gzip::Gzip,
    #[cfg(feature = "zstd")]
    zstd: zstd::Zstd,
}

impl Inflater {
    /// Takes the memory; all calls after this take none.
    ///
    /// # Errors
    /// [`Error::NoMemory`] from zstd; the crate of gzip panics instead.
    pub fn new() -> Result<Inflater, Error> {
        Ok(Inflater {
            #[cfg(feature = "gzip")]
            gzip: gzip::Gzip::new(),
            #[cfg(feature = "zstd")]
            zstd: zstd::Zstd::new().ok_or(Error::NoMemory)?,
        })
    }

    /// Inflates `from`, all of it, to the front of `to`; gives how many bytes that are. What of `to`
    /// is behind them may have been written over; after an error all of it may have been.
    ///
    /// # Errors
    /// [`InflateError`].
    pub fn inflate(
        &mut self,
        codec: Compression,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<usize, InflateError> {
        match codec {
            Compression::None => {
                to.get_mut(..from.len()).ok_or(InflateError::Full)?.copy_from_slice(from);
                Ok(from.len())
            }
            #[cfg(feature = "gzip")]
            Compression::Gzip => self.gzip.inflate(from, to),
            #[cfg(feature = "snappy")]
            Compression::Snappy => snappy::inflate(from, to),
            #[cfg(feature = "lz4")]
            Compression::Lz4 => lz4::inflate(from, to),
            #[cfg(feature = "zstd")]
            Compression::Zstd => self.zstd.inflate(from, to),
            #[allow(unreachable_patterns, reason = "reached where a codec is not built")]
            _ => Err(InflateError::Unsupported),
        }
    }

    /// Writes the batch to the front of `to` as it would be uncompressed, its CRC made anew, and
    /// gives how long it is. One that is not compressed is copied. The CRC that the batch came with
    /// is not looked at ([`BatchView::verify_crc`]): the new one would hide that it was wrong.
    ///
    /// # Errors
    /// [`InflateError`].
    pub fn inflate_batch(
        &mut self,
        batch: &BatchView<'_>,
        to: &mut [u8],
    ) -> Result<usize, InflateError> {
        let codec = batch.attributes().compression().ok_or(InflateError::Unsupported)?;
        let (header, records) = to.split_at_mut_checked(HEADER_LEN).ok_or(InflateError::Full)?;
        header.copy_from_slice(batch.bytes().get(..HEADER_LEN).unwrap_or(&[0; HEADER_LEN]));
        let total = HEADER_LEN + self.inflate(codec, batch.records_bytes(), records)?;
        if codec == Compression::None {
            return Ok(total);
        }
        let length = i32::try_from(total - LENGTH_OVERHEAD).map_err(|_| InflateError::Full)?;
        let attributes = batch.attributes().with_compression(Compression::None);
        put(to, BATCH_LENGTH_AT, length.to_be_bytes())
            .and_then(|()| put(to, ATTRIBUTES_AT, attributes.0.to_be_bytes()))
            .and_then(|()| seal_crc(to, total))
            .map_err(InflateError::Malformed)?;
        Ok(total)
    }
}

impl core::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

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
