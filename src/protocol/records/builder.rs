//! BatchBuilder: records written in place, one after another, into a buffer that the caller owns.
//!
//! The builder is plain data and does not borrow the buffer; each call is given it. `append` is the
//! hottest function there is on the way out: it computes the record's length first, looks once
//! whether it fits, and writes nothing if it does not.

use super::attributes::Attributes;
use super::batch::{HEADER_LEN, LENGTH_OVERHEAD, MAGIC, seal_crc};
use super::record::HeaderRef;
use crate::protocol::varint::{len_u64, zigzag_i32, zigzag_i64};
use crate::protocol::writer::Writer;
use core::ops::Range;

/// What [`BatchBuilder::seal`] writes into the header besides what the records give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The first record's offset: 0 from a producer.
    pub base_offset: i64,
    /// The leader's epoch: -1 from a producer.
    pub partition_leader_epoch: i32,
    /// Codec, clock, transaction, control.
    pub attributes: Attributes,
    /// The producer's id; -1 without idempotence.
    pub producer_id: i64,
    /// The producer's epoch; -1 without idempotence.
    pub producer_epoch: i16,
    /// The first record's sequence number; -1 without idempotence.
    pub base_sequence: i32,
}

impl Default for Seal {
    fn default() -> Self {
        Seal {
            base_offset: 0,
            partition_leader_epoch: -1,
            attributes: Attributes(0),
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
        }
    }
}

/// The state of a batch that is being filled. The batch begins at the buffer's first byte, and all
/// calls must be given the same buffer; another one gives a wrong batch, never a panic.
#[derive(Clone, Copy, Debug)]
pub struct BatchBuilder {
    end: usize,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

/// A record that was measured: the numbers that stand before its bytes.
#[derive(Clone, Copy)]
struct Shape {
    /// Of all that follows the length itself.
    body: u32,
    timestamp: u64,
    offset: u32,
    key: u32,
    value: u32,
    headers: u32,
}

/// The zig-zag varint of a length; null is -1.
#[inline]
fn zigzag_len(bytes: Option<usize>) -> u32 {
    bytes.map_or(1, |n| (n as u32) << 1)
}

#[inline]
fn len(value: u32) -> u64 {
    len_u64(u64::from(value)) as u64
}

impl Shape {
    /// Measures a record; `None` if the format cannot say its length.
    #[inline]
    fn measure<'h>(
        offset_delta: i32,
        timestamp_delta: i64,
        key: Option<usize>,
        value: Option<usize>,
        headers: impl Iterator<Item = HeaderRef<'h>>,
    ) -> Option<Self> {
        let timestamp = zigzag_i64(timestamp_delta);
        let offset = zigzag_i32(offset_delta);
        let mut bytes = key.unwrap_or(0) as u64 + value.unwrap_or(0) as u64;
        let mut count: u32 = 0;
        for (key, value) in headers {
            let value_len = value.map(<[u8]>::len);
            bytes += key.len() as u64 + value_len.unwrap_or(0) as u64;
            bytes += len(zigzag_len(Some(key.len()))) + len(zigzag_len(value_len));
            count += 1;
        }
        let (key, value, headers) = (zigzag_len(key), zigzag_len(value), count << 1);
        bytes += 1 + len_u64(timestamp) as u64 + len(offset) + len(key) + len(value) + len(headers);
        // With the whole below 2^30, every length in it was encoded without loss.
        if bytes >= 1 << 30 {
            return None;
        }
        Some(Shape { body: (bytes as u32) << 1, timestamp, offset, key, value, headers })
    }

    /// How many bytes the record takes, its length field included.
    #[inline]
    fn total(&self) -> usize {
        (self.body >> 1) as usize + len_u64(u64::from(self.body))
    }
}

/// Writes a varint of one or two bytes at `at` and says where the next one goes. The mask costs less
/// than a bounds check; `at` never reaches it, because five such varints take ten bytes.
#[inline]
fn short(front: &mut [u8; 16], at: usize, value: u32) -> usize {
    if value < 0x80 {
        front[at & 15] = value as u8;
        return at + 1;
    }
    front[at & 15] = value as u8 | 0x80;
    front[(at + 1) & 15] = (value >> 7) as u8;
    at + 2
}

/// Copies `bytes` to `at` and says where the next ones go.
#[inline]
fn copy(room: &mut [u8], at: usize, bytes: &[u8]) -> Option<usize> {
    let end = at + bytes.len();
    room.get_mut(at..end)?.copy_from_slice(bytes);
    Some(end)
}

#[inline]
fn varint(room: &mut [u8], at: usize, value: u32) -> Option<usize> {
    Some(at + crate::protocol::varint::write_u64(u64::from(value), room.get_mut(at..)?)?)
}

impl Shape {
    /// Writes what stands before the key's bytes.
    #[inline]
    fn write_front(&self, room: &mut [u8]) -> usize {
        // Nearly every record: less than 8 KiB, in a batch of less than 8192 within eight seconds.
        let short_ones = self.body | self.offset | self.key | (self.timestamp as u32);
        if short_ones < 1 << 14
            && self.timestamp < 1 << 14
            && let Some(front) = room.first_chunk_mut::<16>()
        {
            let at = short(front, 0, self.body);
            front[at & 15] = 0;
            let at = short(front, at + 1, self.timestamp as u32);
            let at = short(front, at, self.offset);
            return short(front, at, self.key);
        }
        let mut w = Writer::new(room);
        w.uvarint(self.body);
        w.i8(0);
        w.uvarlong(self.timestamp);
        w.uvarint(self.offset);
        w.uvarint(self.key);
        w.len()
    }
}

impl BatchBuilder {
    /// An empty batch.
    pub const fn new() -> Self {
        BatchBuilder { end: HEADER_LEN, count: 0, base_timestamp: -1, max_timestamp: -1 }
    }

    /// How many bytes the batch takes, header included.
    #[inline]
    pub fn len(&self) -> usize {
        self.end
    }

    /// True if it has no record.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many records it has.
    #[inline]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// The first record's timestamp; -1 if there is none.
    pub fn base_timestamp(&self) -> i64 {
        self.base_timestamp
    }

    /// The largest timestamp; -1 if there is none.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    #[inline]
    fn shape<'h>(
        &self,
        timestamp_ms: i64,
        key: Option<usize>,
        value: Option<usize>,
        headers: impl Iterator<Item = HeaderRef<'h>>,
    ) -> Option<Shape> {
        let base = if self.count == 0 { timestamp_ms } else { self.base_timestamp };
        Shape::measure(self.count, timestamp_ms.wrapping_sub(base), key, value, headers)
    }

    /// Exactly how many bytes [`BatchBuilder::append`] would write now; `None` if the format cannot
    /// hold such a record (1 GiB and above).
    pub fn record_len<'h>(
        &self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = HeaderRef<'h>>,
    ) -> Option<usize> {
        let (key, value) = (key.map(<[u8]>::len), value.map(<[u8]>::len));
        Some(self.shape(timestamp_ms, key, value, headers)?.total())
    }

    /// Appends a record and gives its offset delta. `None` if it does not fit into `buf`: then the
    /// batch is as it was.
    ///
    /// `headers` is walked twice, once to measure and once to write, so it is cheap to clone:
    /// [`super::no_headers`], a slice's `iter().copied()`, a parsed record's
    /// [`Headers`](super::Headers), or an adapter over whatever the caller holds.
    #[inline]
    pub fn append<'h>(
        &mut self,
        buf: &mut [u8],
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = HeaderRef<'h>> + Clone,
    ) -> Option<i32> {
        let delta = self.count;
        let value_len = value.map(<[u8]>::len);
        let shape = self.shape(timestamp_ms, key.map(<[u8]>::len), value_len, headers.clone())?;
        self.write(buf, timestamp_ms, &shape, key, value, value_len, headers)?;
        Some(delta)
    }

    /// As [`BatchBuilder::append`], but leaves the value's bytes to the caller, who fills the range
    /// of `buf` that is given. Until then the batch must not be sealed.
    #[inline]
    pub fn reserve<'h>(
        &mut self,
        buf: &mut [u8],
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value_len: usize,
        headers: impl Iterator<Item = HeaderRef<'h>> + Clone,
    ) -> Option<Range<usize>> {
        let (key_len, value_len) = (key.map(<[u8]>::len), Some(value_len));
        let shape = self.shape(timestamp_ms, key_len, value_len, headers.clone())?;
        self.write(buf, timestamp_ms, &shape, key, None, value_len, headers)
    }

    /// Writes a measured record and says where its value stands.
    #[inline]
    #[expect(
        clippy::too_many_arguments,
        reason = "inlined into two callers; a struct would be noise"
    )]
    fn write<'h>(
        &mut self,
        buf: &mut [u8],
        timestamp_ms: i64,
        shape: &Shape,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        value_len: Option<usize>,
        headers: impl Iterator<Item = HeaderRef<'h>>,
    ) -> Option<Range<usize>> {
        let total = shape.total();
        let count = self.count.checked_add(1)?;
        let room = buf.get_mut(self.end..)?;
        if total > room.len() {
            return None;
        }
        let at = shape.write_front(room);
        let at = copy(room, at, key.unwrap_or(&[]))?;
        let from = varint(room, at, shape.value)?;
        let mut at = from + value_len.unwrap_or(0);
        copy(room, from, value.unwrap_or(&[]))?;
        let range = self.end + from..self.end + at;
        at = varint(room, at, shape.headers)?;
        for (key, value) in headers {
            at = varint(room, at, zigzag_len(Some(key.len())))?;
            at = copy(room, at, key)?;
            at = varint(room, at, zigzag_len(value.map(<[u8]>::len)))?;
            at = copy(room, at, value.unwrap_or(&[]))?;
        }
        // Only an iterator that gave something else the second time gets here with another length.
        if at != total {
            return None;
        }
        if self.count == 0 {
            self.base_timestamp = timestamp_ms;
            self.max_timestamp = timestamp_ms;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
        self.end += total;
        self.count = count;
        Some(range)
    }

    /// Writes header and CRC, which makes `buf[..n]` a batch, and gives that `n`. The batch may be
    /// sealed again, with another sequence for a producer that starts over. `None` if it is empty,
    /// or `buf` is shorter than the batch.
    pub fn seal(&self, buf: &mut [u8], seal: &Seal) -> Option<usize> {
        self.seal_records(buf, self.end - HEADER_LEN, seal)
    }

    /// As [`BatchBuilder::seal`], for records that were compressed since: `records_len` bytes stand
    /// behind the header's place in `buf`, which need not be the buffer that was appended to.
    pub fn seal_records(&self, buf: &mut [u8], records_len: usize, seal: &Seal) -> Option<usize> {
        let total = HEADER_LEN.checked_add(records_len)?;
        let length = i32::try_from(total - LENGTH_OVERHEAD).ok()?;
        if self.count == 0 || total > buf.len() {
            return None;
        }
        let mut w = Writer::new(buf);
        w.i64(seal.base_offset);
        w.i32(length);
        w.i32(seal.partition_leader_epoch);
        w.i8(MAGIC);
        w.u32(0);
        w.i16(seal.attributes.0);
        w.i32(self.count - 1);
        w.i64(self.base_timestamp);
        w.i64(self.max_timestamp);
        w.i64(seal.producer_id);
        w.i16(seal.producer_epoch);
        w.i32(seal.base_sequence);
        w.i32(self.count);
        seal_crc(buf, total).ok()?;
        Some(total)
    }
}

impl Default for BatchBuilder {
    fn default() -> Self {
        BatchBuilder::new()
    }
}
