//! BatchView: one record batch as it stands in memory, its header's fields, and the few of them
//! that a broker rewrites in place.

use super::attributes::{Attributes, Compression, TimestampType};
use super::crc32c::crc32c;
use super::record::{Record, Records};
use crate::protocol::reader::{Malformed, Result};

/// Where the base offset stands.
pub const BASE_OFFSET_AT: usize = 0;
/// Where the batch length stands.
pub const BATCH_LENGTH_AT: usize = 8;
/// Where the partition leader epoch stands.
pub const LEADER_EPOCH_AT: usize = 12;
/// Where the magic byte stands, in this format and in the older ones.
pub const MAGIC_AT: usize = 16;
/// Where the CRC stands.
pub const CRC_AT: usize = 17;
/// Where the attributes stand, and from where on the CRC covers.
pub const ATTRIBUTES_AT: usize = 21;
/// Where the last record's offset delta stands.
pub const LAST_OFFSET_DELTA_AT: usize = 23;
/// Where the first record's timestamp stands.
pub const BASE_TIMESTAMP_AT: usize = 27;
/// Where the largest timestamp stands.
pub const MAX_TIMESTAMP_AT: usize = 35;
/// Where the producer id stands.
pub const PRODUCER_ID_AT: usize = 43;
/// Where the producer epoch stands.
pub const PRODUCER_EPOCH_AT: usize = 51;
/// Where the first record's sequence number stands.
pub const BASE_SEQUENCE_AT: usize = 53;
/// Where the number of records stands.
pub const COUNT_AT: usize = 57;
/// How long the header is: the records begin here.
pub const HEADER_LEN: usize = 61;
/// What the batch length does not count: base offset and the length itself.
pub const LENGTH_OVERHEAD: usize = 12;
/// The format's magic byte.
pub const MAGIC: i8 = 2;

/// Why the records of a batch cannot be walked as they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsError {
    /// They are compressed: an [`Inflater`](super::Inflater) makes a batch of it that can be walked.
    Compressed(Compression),
    /// They are compressed with a codec that Kafka has not given out.
    UnknownCompression(u8),
    /// The count cannot be true.
    Malformed(Malformed),
}

/// One batch, borrowed.
#[derive(Clone, Copy)]
pub struct BatchView<'a> {
    header: &'a [u8; HEADER_LEN],
    /// The whole batch, header and records.
    bytes: &'a [u8],
}

/// Big-endian at a constant place of an array: the compiler checks the place, one load remains.
macro_rules! be {
    ($ty:ty, $bytes:expr, $at:expr, [$($i:literal)*]) => {
        <$ty>::from_be_bytes([$($bytes[$at + $i]),*])
    };
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $ty:ty, $at:expr, $i:tt;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) -> $ty {
            be!($ty, self.header, $at, $i)
        }
    )*};
}

/// How long the batch at the front of `bytes` says it is, header included; `None` if fewer than the
/// twelve bytes are there that tell it.
///
/// # Errors
/// [`Malformed`] if no batch can have that length.
#[inline]
pub fn announced_len(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(front) = bytes.first_chunk::<LENGTH_OVERHEAD>() else {
        return Ok(None);
    };
    let length = be!(i32, front, BATCH_LENGTH_AT, [0 1 2 3]);
    match usize::try_from(length) {
        Ok(n) if n >= HEADER_LEN - LENGTH_OVERHEAD => Ok(Some(n + LENGTH_OVERHEAD)),
        _ => Err(Malformed("a batch shorter than its header")),
    }
}

impl<'a> BatchView<'a> {
    /// The batch at the front of `bytes`; more may follow it ([`BatchView::total_len`]).
    ///
    /// The CRC is not looked at ([`BatchView::verify_crc`]), nor the counts
    /// ([`BatchView::check_produced`]).
    ///
    /// # Errors
    /// [`Malformed`] if the batch is cut off, or is not of magic 2.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let cut_off = Malformed("a batch is cut off");
        // The magic byte stands at the same place in the older formats, whose length field means
        // something else: it is looked at first.
        let magic = *bytes.get(MAGIC_AT).ok_or(cut_off)?;
        if magic as i8 != MAGIC {
            return Err(Malformed("a batch that is not of magic 2"));
        }
        let total = announced_len(bytes)?.ok_or(cut_off)?;
        let bytes = bytes.get(..total).ok_or(cut_off)?;
        let header = bytes.first_chunk::<HEADER_LEN>().ok_or(cut_off)?;
        Ok(BatchView { header, bytes })
    }

    fields! {
        /// The offset of the first record.
        base_offset: i64, BASE_OFFSET_AT, [0 1 2 3 4 5 6 7];
        /// How many bytes follow the length field.
        batch_length: i32, BATCH_LENGTH_AT, [0 1 2 3];
        /// The epoch of the leader that appended the batch; -1 from a producer.
        partition_leader_epoch: i32, LEADER_EPOCH_AT, [0 1 2 3];
        /// The format: 2.
        magic: i8, MAGIC_AT, [0];
        /// The CRC as it stands there.
        crc: u32, CRC_AT, [0 1 2 3];
        /// The last record's offset minus the base offset.
        last_offset_delta: i32, LAST_OFFSET_DELTA_AT, [0 1 2 3];
        /// The timestamp that the records' deltas count from, in milliseconds.
        base_timestamp: i64, BASE_TIMESTAMP_AT, [0 1 2 3 4 5 6 7];
        /// The largest timestamp in milliseconds, or the broker's if it stamps.
        max_timestamp: i64, MAX_TIMESTAMP_AT, [0 1 2 3 4 5 6 7];
        /// The producer's id; -1 if it is not idempotent.
        producer_id: i64, PRODUCER_ID_AT, [0 1 2 3 4 5 6 7];
        /// The producer's epoch; -1 if it is not idempotent.
        producer_epoch: i16, PRODUCER_EPOCH_AT, [0 1];
        /// The sequence number of the first record; -1 if the producer is not idempotent.
        base_sequence: i32, BASE_SEQUENCE_AT, [0 1 2 3];
        /// How many records the header announces. Not to be trusted before the records were walked.
        count: i32, COUNT_AT, [0 1 2 3];
    }

    /// The attribute bits.
    #[inline]
    pub fn attributes(&self) -> Attributes {
        Attributes(be!(i16, self.header, ATTRIBUTES_AT, [0 1]))
    }

    /// The whole batch, header included.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How long the whole batch is, header included.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.bytes.len()
    }

    /// The records as they stand, perhaps compressed.
    #[inline]
    pub fn records_bytes(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or(&[])
    }

    /// The offset of the last record that the batch had when it was produced.
    #[inline]
    pub fn last_offset(&self) -> i64 {
        self.base_offset().wrapping_add(i64::from(self.last_offset_delta()))
    }

    /// The offset after the batch: where the next one begins.
    #[inline]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// The sequence number of the last record, which follows i32::MAX with 0.
    pub fn last_sequence(&self) -> i32 {
        self.base_sequence().wrapping_add(self.last_offset_delta()) & i32::MAX
    }

    /// The offset of a record of this batch.
    #[inline]
    pub fn offset_of(&self, record: &Record<'_>) -> i64 {
        self.base_offset().wrapping_add(i64::from(record.offset_delta))
    }

    /// The timestamp of a record of this batch, in milliseconds.
    #[inline]
    pub fn timestamp_of(&self, record: &Record<'_>) -> i64 {
        match self.attributes().timestamp_type() {
            TimestampType::Create => self.base_timestamp().wrapping_add(record.timestamp_delta),
            TimestampType::LogAppend => self.max_timestamp(),
        }
    }

    /// Whether the CRC is that of the bytes.
    #[inline]
    pub fn verify_crc(&self) -> bool {
        crc32c(self.bytes.get(ATTRIBUTES_AT..).unwrap_or(&[])) == self.crc()
    }

    /// Whether count and last offset delta agree, as they do when a batch is produced. Compaction
    /// takes records out later, and then the count is smaller.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.count() > 0 && self.last_offset_delta() == self.count() - 1
    }

    /// What a broker asks of a batch that a client produces, as far as the header tells: it has
    /// records, without gaps, it is no control batch, its codec exists, and an idempotent
    /// producer's has a sequence.
    ///
    /// # Errors
    /// [`Malformed`] with what is wrong; Kafka answers code 87.
    pub fn check_produced(&self) -> Result<()> {
        if !self.is_contiguous() {
            return Err(Malformed("the record count and the last offset delta disagree"));
        }
        if self.attributes().is_control() {
            return Err(Malformed("a control batch from a producer"));
        }
        if self.attributes().compression().is_none() {
            return Err(Malformed("a codec that does not exist"));
        }
        if self.producer_id() >= 0 && (self.base_sequence() < 0 || self.producer_epoch() < 0) {
            return Err(Malformed("an idempotent batch without sequence or epoch"));
        }
        Ok(())
    }

    /// The records.
    ///
    /// # Errors
    /// [`RecordsError`] if they are compressed, or the count cannot be true.
    #[inline]
    pub fn records(&self) -> core::result::Result<Records<'a>, RecordsError> {
        let attributes = self.attributes();
        match attributes.compression() {
            Some(Compression::None) => {}
            Some(codec) => return Err(RecordsError::Compressed(codec)),
            None => return Err(RecordsError::UnknownCompression(attributes.compression_code())),
        }
        Records::new(self.records_bytes(), self.count()).map_err(RecordsError::Malformed)
    }
}

impl core::fmt::Debug for BatchView<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BatchView")
            .field("base_offset", &self.base_offset())
            .field("last_offset_delta", &self.last_offset_delta())
            .field("count", &self.count())
            .field("total_len", &self.total_len())
            .field("attributes", &self.attributes())
            .field("producer_id", &self.producer_id())
            .finish()
    }
}

/// The batches of a fetched range. A last one that is cut off ends the walk without an error, as
/// brokers may cut answers anywhere; what is left of it is in [`Batches::rest`].
#[derive(Clone, Copy, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
    broken: bool,
}

impl<'a> Batches<'a> {
    /// The batches in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Batches { rest: bytes, broken: false }
    }

    /// What has not been walked: after the end, the batch that is cut off, if there is one.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn is_cut_off(&self) -> bool {
        match self.rest.get(MAGIC_AT) {
            None => true,
            Some(&magic) if magic as i8 == MAGIC => {
                matches!(announced_len(self.rest), Ok(Some(total)) if total > self.rest.len())
            }
            Some(_) => false,
        }
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchView<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.broken || self.rest.is_empty() {
            return None;
        }
        match BatchView::parse(self.rest) {
            Ok(batch) => {
                self.rest = self.rest.get(batch.total_len()..).unwrap_or(&[]);
                Some(Ok(batch))
            }
            Err(_) if self.is_cut_off() => None,
            Err(bad) => {
                self.broken = true;
                Some(Err(bad))
            }
        }
    }
}

/// Writes a field of the batch at the front of `batch`.
pub(super) fn put<const N: usize>(batch: &mut [u8], at: usize, value: [u8; N]) -> Result<()> {
    let slot = batch.get_mut(at..at + N).ok_or(Malformed("a batch is cut off"))?;
    slot.copy_from_slice(&value);
    Ok(())
}

/// Writes the base offset of the batch at the front of `batch`; the CRC does not cover it.
///
/// # Errors
/// [`Malformed`] if there is not so much as the field.
#[inline]
pub fn set_base_offset(batch: &mut [u8], offset: i64) -> Result<()> {
    put(batch, BASE_OFFSET_AT, offset.to_be_bytes())
}

/// Writes the leader epoch of the batch at the front of `batch`; the CRC does not cover it.
///
/// # Errors
/// [`Malformed`] if there is not so much as the field.
#[inline]
pub fn set_partition_leader_epoch(batch: &mut [u8], epoch: i32) -> Result<()> {
    put(batch, LEADER_EPOCH_AT, epoch.to_be_bytes())
}

/// Stamps the batch at the front of `batch` with the broker's clock and computes the CRC anew. The
/// base timestamp and the records' deltas stay as they are; nobody looks at them any more.
///
/// # Errors
/// [`Malformed`] if the batch is cut off or is not of magic 2; then nothing was changed.
pub fn set_log_append_time(batch: &mut [u8], now_ms: i64) -> Result<()> {
    let view = BatchView::parse(batch)?;
    let (total, attributes) = (view.total_len(), view.attributes().with_log_append_time());
    put(batch, ATTRIBUTES_AT, attributes.0.to_be_bytes())?;
    put(batch, MAX_TIMESTAMP_AT, now_ms.to_be_bytes())?;
    seal_crc(batch, total)
}

/// Computes the CRC of the batch of `total` bytes at the front of `batch` and writes it.
pub(super) fn seal_crc(batch: &mut [u8], total: usize) -> Result<()> {
    let covered = batch.get(ATTRIBUTES_AT..total).ok_or(Malformed("a batch is cut off"))?;
    let crc = crc32c(covered);
    put(batch, CRC_AT, crc.to_be_bytes())
}
