//! Batch reader: what a thread that runs handlers looks into compressed batches with: the codecs, and
//! room for what comes out. Produce needs it for the records of a compacted topic, ListOffsets for
//! the record that belongs to a time; nothing that is inflated is kept.
//!
//! The room is as large as the largest block of the log, but at most [`INFLATE_MAX`], or
//! `message.max.bytes` if that is more: who may append a batch as it is may append it compressed. (A
//! topic's own `max.message.bytes` may be more than both, and does not count here.) It is mapped at
//! creation and not touched before it is used, so a broker that never inflates has none of it
//! resident. What was touched stays: after a very large batch the thread keeps those pages.
//!
//! **Bounds.** A batch that comes out larger than the room is not looked into, however small it came:
//! Produce refuses it. One request inflates no more than [`INFLATE_MAX`], or the room if that is more,
//! since a few kilobytes for each of many partitions would keep the thread for seconds: Produce tells
//! what is left to come again. ListOffsets answers either with the batch's first or last record. What
//! requests inflate counts against the turn of a polled broker, so that many small ones one after
//! another do not keep the host's loop either.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::error::Error;
use crate::net::pool::{Memory, PoolConfig, Priority, Term};
use crate::net::{BufferPool, Lease};
use crate::protocol::reader::Malformed;
use crate::protocol::records::{BatchView, Compression, InflateError, Inflater};

/// Bytes that a batch may inflate to, and all batches of a request together, unless
/// `message.max.bytes` is more.
pub(crate) const INFLATE_MAX: usize = 16 << 20;

/// Why the records of a batch cannot be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// They are longer than the room.
    TooLarge,
    /// The request had its share inflated before this one.
    Later,
    /// They are not what their codec allows.
    Malformed(Malformed),
    /// This build lacks the codec, or there is none.
    Unsupported,
}

/// The codecs and the room, how much of its share the request at hand has left, and what was inflated.
#[derive(Debug)]
pub(crate) struct BatchReader {
    room: Option<Room>,
    /// Bytes that this request may still inflate.
    left: usize,
    /// Bytes inflated since they were last taken account of.
    inflated: usize,
}

#[derive(Debug)]
struct Room {
    inflater: Inflater,
    lease: Lease,
    /// Bytes of the lease that a batch may fill; the block is a little larger.
    size: usize,
}

impl BatchReader {
    /// Takes the codecs' memory and room for `size` bytes, touched now if `prefault`.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn new(size: usize, prefault: bool) -> Result<BatchReader, Error> {
        let built = [
            cfg!(feature = "gzip"),
            cfg!(feature = "snappy"),
            cfg!(feature = "lz4"),
            cfg!(feature = "zstd"),
        ];
        if !built.contains(&true) {
            return Ok(BatchReader::none());
        }
        // A pool of one block: memory that is mapped, and refused instead of ending the process.
        let one = Term { why: "records that are inflated", size, blocks: 1 };
        let memory = Memory::Map { prefault };
        let config = PoolConfig { guaranteed: &[one], shared: 0, control_blocks: 0, memory };
        let lease = BufferPool::new(config)?.lease(size, Priority::Data).ok_or(Error::NoMemory)?;
        let room = Some(Room { inflater: Inflater::new()?, lease, size });
        Ok(BatchReader { room, left: 0, inflated: 0 })
    }

    /// For who runs no handlers, and where no codec is built.
    pub(crate) fn none() -> BatchReader {
        BatchReader { room: None, left: 0, inflated: 0 }
    }

    /// Begins a request, which has its whole share.
    pub(crate) fn begin_request(&mut self) {
        self.left = self.room.as_ref().map_or(0, |room| room.size.max(INFLATE_MAX));
    }

    /// Bytes that were inflated since the last call. What failed counts as all that it might have
    /// come to.
    pub(crate) fn take_inflated(&mut self) -> usize {
        core::mem::take(&mut self.inflated)
    }

    /// The records of a batch, inflated if they are compressed; they stay until the next call.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn records<'a>(&'a mut self, batch: &BatchView<'a>) -> Result<&'a [u8], Unreadable> {
        let codec = match batch.attributes().compression() {
            Some(Compression::None) => return Ok(batch.records_bytes()),
            Some(codec) => codec,
            None => return Err(Unreadable::Unsupported),
        };
        let room = self.room.as_mut().ok_or(Unreadable::Unsupported)?;
        if self.left == 0 {
            return Err(Unreadable::Later);
        }
        let size = room.size.min(self.left);
        let to = room.lease.get_mut(..size).unwrap_or_default();
        match room.inflater.inflate(codec, batch.records_bytes(), to) {
            Ok(len) => {
                self.left -= len.min(size);
                self.inflated += len;
                Ok(to.get(..len).unwrap_or(&[]))
            }
            Err(InflateError::Unsupported) => Err(Unreadable::Unsupported),
            Err(why) => {
                // Nobody knows how far it came.
                self.left -= size;
                self.inflated += size;
                Err(match why {
                    InflateError::Malformed(why) => Unreadable::Malformed(why),
                    _ if size < room.size => Unreadable::Later,
                    _ => Unreadable::TooLarge,
                })
            }
        }
    }
}
