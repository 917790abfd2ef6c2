//! BufferPool: lease a block, hand it back, say when memory is low.
//!
//! One arena, taken at creation and not touched until used. Blocks come in classes of a power of
//! two plus 1/64 for headers, so that the 1 MiB class holds Kafka's default `max.message.bytes` and
//! the request around it. Each class has a guaranteed number of blocks that is never split; the rest
//! of the arena is shared and cut as a binary buddy.
//!
//! A pool may be used from several threads (reactor mode): a block may come home on another thread
//! than the one that leased it.

use crate::error::Error;
use core::ops::{Deref, DerefMut, Range};

/// Room for this many bytes in the smallest class, before the 1/64 for headers.
pub const MIN_BLOCK: usize = 4096;
/// Room for this many bytes in the largest class, before the 1/64 for headers.
pub const MAX_BLOCK: usize = 1 << 20;

/// How many blocks of a class a budget guarantees, and why.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// What would stall without them.
    pub why: &'static str,
    /// Bytes that one block must hold.
    pub size: usize,
    /// How many.
    pub blocks: usize,
}

/// Where the arena comes from.
#[derive(Debug)]
pub enum Memory {
    /// One anonymous mapping; its pages are not touched until used.
    Map {
        /// Touch every page at creation.
        prefault: bool,
    },
    /// Memory the caller keeps alive until the last lease is home (unsafe to make: see `ffi`).
    Caller(CallerMemory),
}

/// Memory that belongs to the caller of the C API.
#[derive(Debug)]
pub struct CallerMemory {/* filled in by the pool's author */}

/// The shape of a pool.
#[derive(Debug)]
pub struct PoolConfig<'a> {
    /// The guaranteed blocks, a sum of named terms.
    pub guaranteed: &'a [Term],
    /// Bytes besides, shared by all classes.
    pub shared: usize,
    /// Of the guaranteed smallest blocks, how many only control traffic may take.
    pub control_blocks: usize,
    /// Where the memory comes from.
    pub memory: Memory,
}

/// Who wants a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Records and frames. Running out is back-pressure.
    Data,
    /// Requests that keep the connection and the cluster's picture alive; may use the reserve.
    Control,
}

/// A pool of blocks; clones share it.
#[derive(Clone, Debug)]
pub struct BufferPool {}

/// A block with one owner, writable. Goes home when dropped.
#[derive(Debug)]
pub struct Lease {}

/// A read-only view of part of a block, counted. The block goes home with the last view.
#[derive(Debug)]
pub struct SharedLease {}

/// A block that one owner appends to while others read what is published.
#[derive(Debug)]
pub struct AppendBlock {}

impl BufferPool {
    /// Takes the arena.
    ///
    /// # Errors
    /// [`Error::NoMemory`], or [`Error::Invalid`] for a shape that cannot be.
    pub fn new(_config: PoolConfig<'_>) -> Result<BufferPool, Error> {
        todo!()
    }

    /// Leases the smallest block that holds `size` bytes; `None` when there is none now.
    /// A `size` over [`BufferPool::largest`] is never had.
    pub fn lease(&self, _size: usize, _priority: Priority) -> Option<Lease> {
        todo!()
    }

    /// The most bytes one block can hold.
    pub fn largest(&self) -> usize {
        todo!()
    }

    /// Bytes of the whole arena.
    pub fn total(&self) -> usize {
        todo!()
    }

    /// Bytes in blocks that are out.
    pub fn in_use(&self) -> usize {
        todo!()
    }

    /// Blocks that are out.
    pub fn leases(&self) -> usize {
        todo!()
    }

    /// Rises each time a block comes home: whoever was refused compares it to know whether trying
    /// again makes sense.
    pub fn returns(&self) -> u64 {
        todo!()
    }
}

impl Lease {
    /// Hands the first `len` bytes over to readers; the rest of the block cannot be used any more.
    pub fn share(self, _len: usize) -> SharedLease {
        todo!()
    }

    /// Makes the block one that grows behind a published length of 0.
    pub fn into_append(self) -> AppendBlock {
        todo!()
    }
}

impl Deref for Lease {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        todo!()
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        todo!()
    }
}

impl SharedLease {
    /// A view of part of this view.
    ///
    /// # Panics
    /// If the range is outside of it.
    pub fn slice(&self, _range: Range<usize>) -> SharedLease {
        todo!()
    }
}

impl Clone for SharedLease {
    fn clone(&self) -> Self {
        todo!()
    }
}

impl Deref for SharedLease {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        todo!()
    }
}

impl AppendBlock {
    /// What was published.
    pub fn published(&self) -> &[u8] {
        todo!()
    }

    /// Bytes published.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// True if nothing was published.
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// Bytes the block can hold.
    pub fn capacity(&self) -> usize {
        todo!()
    }

    /// The room behind what was published.
    pub fn spare(&mut self) -> &mut [u8] {
        todo!()
    }

    /// Publishes the next `n` bytes, which were written through [`AppendBlock::spare`].
    pub fn publish(&mut self, _n: usize) {
        todo!()
    }

    /// A view of part of what was published.
    pub fn share(&self, _range: Range<usize>) -> SharedLease {
        todo!()
    }

    /// Whether no view of the block is out.
    pub fn is_unique(&self) -> bool {
        todo!()
    }

    /// Empties the block for another use, if no view of it is out; says whether it did.
    pub fn reset(&mut self) -> bool {
        todo!()
    }
}
