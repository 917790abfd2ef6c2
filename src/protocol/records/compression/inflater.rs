//! The inflater: one call for all codecs, and one that makes an uncompressed batch.

#[cfg(feature = "gzip")]
use super::gzip;
#[cfg(feature = "lz4")]
use super::lz4;
#[cfg(feature = "snappy")]
use super::snappy;
#[cfg(feature = "zstd")]
use super::zstd;
use crate::error::Error;
use crate::protocol::reader::Malformed;
use crate::protocol::records::attributes::Compression;
use crate::protocol::records::batch::{
    ATTRIBUTES_AT, BATCH_LENGTH_AT, BatchView, HEADER_LEN, LENGTH_OVERHEAD, put, seal_crc,
};

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
pub(super) fn bad<T>(why: &'static str) -> Result<T, InflateError> {
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
