//! BatchBuilder: records written in place, one after another, into a buffer that the caller owns.
//!
//! The builder is plain data and does not borrow the buffer; each call is given it. `append` is the
//! hottest function there is on the way out: it computes the record's length first, looks once
//! whether it fits, and writes nothing if it does not.

use super::attributes::Attributes;
use super::batch::{HEADER_LEN, LENGTH_OVERHEAD, MAGIC, seal_crc};
use super::record::HeaderRef;
use crate::protocol::varint::{len_u64, write_u64, zigzag_i32, zigzag_i64};
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

/// The varint of a number below 2^14, in the low bytes of a word.
#[inline]
fn short_word(value: u64) -> u64 {
    if value < 0x80 { value } else { value & 0x7f | 0x80 | value >> 7 << 8 }
}

/// How long that varint is.
#[inline]
fn short_len(value: u64) -> usize {
    1 + usize::from(value >= 0x80)
}

/// Writes a nullable field whose length is short, and says where the next thing goes. A byte of room
/// behind it may be written over.
#[inline]
fn short_field(room: &mut [u8], at: usize, zigzag: u64, bytes: Option<&[u8]>) -> Option<usize> {
    let length = short_word(zigzag) as u16;
    room.get_mut(at..at + 2)?.copy_from_slice(&length.to_le_bytes());
    let at = at + short_len(zigzag);
    let Some(bytes) = bytes else { return Some(at) };
    let end = at + bytes.len();
    room.get_mut(at..end)?.copy_from_slice(bytes);
    Some(end)
}

/// Writes a varint at `at` and says where the next thing goes.
#[inline]
fn varint(room: &mut [u8], at: usize, value: u64) -> Option<usize> {
    if value < 0x80 {
        *room.get_mut(at)? = value as u8;
        return Some(at + 1);
    }
    Some(at + write_u64(value, room.get_mut(at..)?)?)
}

/// Writes a nullable field at `at`, its length first, and says where the next thing goes. Bytes that
/// the caller fills in are passed over.
#[inline]
fn field(room: &mut [u8], at: usize, zigzag: u32, bytes: Option<&[u8]>) -> Option<usize> {
    let at = varint(room, at, u64::from(zigzag))?;
    match bytes {
        Some(bytes) => {
            let end = at + bytes.len();
            room.get_mut(at..end)?.copy_from_slice(bytes);
            Some(end)
        }
        // Null is 1, which halves to nothing.
        None => Some(at + (zigzag >> 1) as usize),
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
        if headers.size_hint().1 == Some(0)
            && self.append_short(buf, timestamp_ms, key, value).is_some()
        {
            return Some(delta);
        }
        self.append_any(buf, timestamp_ms, key, value, headers)?;
        Some(delta)
    }

    /// Nearly every record: without headers, less than 4 KiB, among the batch's first 8192 and within
    /// eight seconds of the first, so that no varint takes more than two bytes. `None` for others,
    /// and where the buffer is nearly full; then nothing was written.
    #[inline]
    fn append_short(
        &mut self,
        buf: &mut [u8],
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Option<()> {
        let base = if self.count == 0 { timestamp_ms } else { self.base_timestamp };
        let time = zigzag_i64(timestamp_ms.wrapping_sub(base));
        let offset = u64::from(zigzag_i32(self.count));
        let key_len = key.map_or(1, |key| (key.len() as u64) << 1);
        let value_len = value.map_or(1, |value| (value.len() as u64) << 1);
        if (time | offset) >= 1 << 14 || (key_len | value_len) >= 1 << 13 {
            return None;
        }
        let lengths =
            short_len(time) + short_len(offset) + short_len(key_len) + short_len(value_len);
        // Null is 1, which halves to nothing. Attributes and header count take a byte each.
        let bytes = 2 + lengths + (key_len >> 1) as usize + (value_len >> 1) as usize;
        let body = (bytes as u64) << 1;
        let room = buf.get_mut(self.end..)?;
        // Words are written whole, a little over what they hold.
        if body >= 1 << 14 || room.len() < bytes + 16 {
            return None;
        }
        let mut at = short_len(body);
        let total = at + bytes;
        let mut word = short_word(body);
        at += 1;
        word |= short_word(time) << (8 * at);
        at += short_len(time);
        word |= short_word(offset) << (8 * at);
        at += short_len(offset);
        *room.first_chunk_mut()? = word.to_le_bytes();
        let at = short_field(room, at, key_len, key)?;
        let at = short_field(room, at, value_len, value)?;
        *room.get_mut(at)? = 0;
        self.took(total, timestamp_ms, self.count + 1);
        Some(())
    }

    /// Any record.
    #[inline(never)]
    fn append_any<'h>(
        &mut self,
        buf: &mut [u8],
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = HeaderRef<'h>> + Clone,
    ) -> Option<usize> {
        let (key_len, value_len) = (key.map(<[u8]>::len), value.map(<[u8]>::len));
        let shape = self.shape(timestamp_ms, key_len, value_len, headers.clone())?;
        self.write(buf, timestamp_ms, &shape, key, value, headers)
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
        let key_len = key.map(<[u8]>::len);
        let shape = self.shape(timestamp_ms, key_len, Some(value_len), headers.clone())?;
        let end = self.write(buf, timestamp_ms, &shape, key, None, headers)?;
        Some(end - value_len..end)
    }

    /// Writes a measured record and says where in `buf` its value ends.
    #[inline]
    fn write<'h>(
        &mut self,
        buf: &mut [u8],
        timestamp_ms: i64,
        shape: &Shape,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = HeaderRef<'h>>,
    ) -> Option<usize> {
        let total = shape.total();
        let count = self.count.checked_add(1)?;
        let room = buf.get_mut(self.end..)?;
        if total > room.len() {
            return None;
        }
        let at = varint(room, 0, u64::from(shape.body))?;
        *room.get_mut(at)? = 0;
        let at = varint(room, at + 1, shape.timestamp)?;
        let at = varint(room, at, u64::from(shape.offset))?;
        let at = field(room, at, shape.key, key)?;
        let mut at = field(room, at, shape.value, value)?;
        let end_of_value = self.end + at;
        at = varint(room, at, u64::from(shape.headers))?;
        for (key, value) in headers {
            at = field(room, at, zigzag_len(Some(key.len())), Some(key))?;
            at = field(room, at, zigzag_len(value.map(<[u8]>::len)), value)?;
        }
        // Only an iterator that gave something else the second time gets here with another length.
        if at != total {
            return None;
        }
        self.took(total, timestamp_ms, count);
        Some(end_of_value)
    }

    /// Counts a record that was written.
    #[inline]
    fn took(&mut self, bytes: usize, timestamp_ms: i64, count: i32) {
        if count == 1 {
            self.base_timestamp = timestamp_ms;
            self.max_timestamp = timestamp_ms;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
        self.end += bytes;
        self.count = count;
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
