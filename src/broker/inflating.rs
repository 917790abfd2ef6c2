//! Inflating: what a thread that runs handlers looks into compressed batches with: the codecs, and
//! room for what comes out. Produce needs it for the records of a compacted topic, ListOffsets for
//! the record that belongs to a time; nothing that is inflated is kept.
//!
//! The room is as large as the largest block of the log, but at most [`INFLATE_MAX`], or
//! `message.max.bytes` if that is more: who may append a batch as it is may append it compressed. It
//! is mapped at creation and not touched before it is used, so a broker that never inflates has none
//! of it resident. What was touched stays: after a very large batch the thread keeps those pages.
//!
//! **Bounds.** A batch that comes out larger than the room is refused, however small it came. One
//! request inflates no more than [`ROOMS`] times the room, since a few kilobytes for each of many
//! partitions would keep the thread for seconds: what is left is told to come again.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::error::Error;
use crate::net::pool::{Memory, PoolConfig, Priority, Term};
use crate::net::{BufferPool, Lease};
use crate::protocol::reader::Malformed;
use crate::protocol::records::{BatchView, Compression, InflateError, Inflater};

/// Bytes that a batch may inflate to, whatever the log's memory.
pub(crate) const INFLATE_MAX: usize = 16 << 20;
/// How many times the room one request may fill.
const ROOMS: usize = 4;

/// Why the records of a batch cannot be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// They are longer than the room.
    TooLarge,
    /// The request had its share inflated before this one.
    Later,
    /// They are not what their codec allows.
    Malformed(Malformed),
    /// This build lacks the codec, or there is none.
    Unsupported,
}

/// The codecs and the room.
#[derive(Debug)]
pub(crate) struct Inflating {
    own: Option<Own>,
    /// Bytes that this request may still inflate.
    left: usize,
}

#[derive(Debug)]
struct Own {
    inflater: Inflater,
    lease: Lease,
    size: usize,
}

impl Inflating {
    /// Takes the codecs' memory and room for `size` bytes, touched now if `prefault`.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn new(size: usize, prefault: bool) -> Result<Inflating, Error> {
        let built = [
            cfg!(feature = "gzip"),
            cfg!(feature = "snappy"),
            cfg!(feature = "lz4"),
            cfg!(feature = "zstd"),
        ];
        if !built.contains(&true) {
            return Ok(Inflating::none());
        }
        // A pool of one block: memory that is mapped, and refused instead of ending the process.
        let room = Term { why: "records that are inflated", size, blocks: 1 };
        let memory = Memory::Map { prefault };
        let config = PoolConfig { guaranteed: &[room], shared: 0, control_blocks: 0, memory };
        let lease = BufferPool::new(config)?.lease(size, Priority::Data).ok_or(Error::NoMemory)?;
        let own = Some(Own { inflater: Inflater::new()?, lease, size });
        Ok(Inflating { own, left: 0 })
    }

    /// For who runs no handlers, and where no codec is built.
    pub(crate) fn none() -> Inflating {
        Inflating { own: None, left: 0 }
    }

    /// Begins a request.
    pub(crate) fn begin(&mut self) {
        self.left = self.own.as_ref().map_or(0, |own| own.size.saturating_mul(ROOMS));
    }

    /// The records of a batch, inflated if they are compressed.
    pub(crate) fn records<'a>(&'a mut self, batch: &BatchView<'a>) -> Result<&'a [u8], Closed> {
        let codec = match batch.attributes().compression() {
            Some(Compression::None) => return Ok(batch.records_bytes()),
            Some(codec) => codec,
            None => return Err(Closed::Unsupported),
        };
        let own = self.own.as_mut().ok_or(Closed::Unsupported)?;
        if self.left == 0 {
            return Err(Closed::Later);
        }
        let size = own.size.min(self.left);
        let room = own.lease.get_mut(..size).unwrap_or_default();
        match own.inflater.inflate(codec, batch.records_bytes(), room) {
            Ok(len) => {
                self.left -= len.min(size);
                Ok(room.get(..len).unwrap_or(&[]))
            }
            Err(InflateError::Unsupported) => Err(Closed::Unsupported),
            Err(why) => {
                // Nobody knows how far it came.
                self.left -= size;
                Err(match why {
                    InflateError::Malformed(why) => Closed::Malformed(why),
                    _ if size < own.size => Closed::Later,
                    _ => Closed::TooLarge,
                })
            }
        }
    }
}
