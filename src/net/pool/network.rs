//! The shape of the pool that a selector receives into and sends from.

use super::{BufferPool, MAX_BLOCK, MIN_BLOCK, Memory, PoolConfig, Term};
use crate::error::Error;

/// Blocks of the smallest class that only control traffic may take: heartbeats, metadata and
/// commits go on when data has used up the pool.
const CONTROL_BLOCKS: usize = 16;

/// Holds a batch of Kafka's default `max.message.bytes`, and the request around it; every pool of this
/// shape has such blocks.
pub const BATCH_BLOCK: usize = 1 << 20;

/// From so many bytes on, a pool keeps a block for frames that are larger than one batch.
const ROOMY: usize = 16 << 20;

/// The largest frame that a pool of `memory` bytes has a block for at any time: a power of two
/// within a quarter of it, from 1 MiB up to 128 MiB; under 16 MiB of memory, 1 MiB. A 64th comes
/// on top, for headers.
pub const fn frame_max(memory: usize) -> usize {
    if memory < ROOMY {
        return BATCH_BLOCK;
    }
    let quarter = 1 << (memory / 4).ilog2();
    if quarter < MAX_BLOCK { quarter } else { MAX_BLOCK }
}

/// The blocks that a pool of `memory` bytes guarantees, term by term.
pub fn network_terms(memory: usize) -> [Term; 5] {
    let term = |why, size, blocks| Term { why, size, blocks };
    let largest = frame_max(memory);
    let larger = usize::from(largest > BATCH_BLOCK);
    [
        term("requests and answers that keep a connection alive", MIN_BLOCK, 4 * CONTROL_BLOCKS),
        term("one bulk read and one batch at a time make progress", 4 * MIN_BLOCK, 16),
        term("the request around a batch of the default size is read", 8 * MIN_BLOCK, 8),
        term("one frame around the largest batch is read, one is held", BATCH_BLOCK, 2),
        term("one frame of many batches is read", largest, larger),
    ]
}

impl BufferPool {
    /// A pool of at most `limit` bytes: the blocks of [`network_terms`], and what is left besides
    /// shared by all sizes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `limit` is below the guaranteed blocks, and those of
    /// [`BufferPool::new`].
    pub fn for_network(limit: usize, memory: Memory) -> Result<BufferPool, Error> {
        let guaranteed = network_terms(limit);
        let least: usize = guaranteed.iter().map(|t| t.blocks * (t.size + t.size / 64)).sum();
        let shared = limit.checked_sub(least);
        let shared = shared.ok_or(Error::Invalid("memory_limit is below the guaranteed blocks"))?;
        BufferPool::new(PoolConfig {
            guaranteed: &guaranteed,
            // The pool rounds up to whole blocks; the limit is one.
            shared: shared - shared % (MIN_BLOCK + MIN_BLOCK / 64),
            control_blocks: CONTROL_BLOCKS,
            memory,
        })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests {
    use super::super::Priority;
    use super::*;

    #[test]
    fn the_largest_frame_is_a_quarter_of_the_memory() {
        let of = |mib: usize| frame_max(mib << 20) >> 20;
        assert_eq!([3, 15, 16, 31, 32, 511, 512].map(of), [1, 1, 4, 4, 8, 64, 128]);
        assert_eq!(frame_max(usize::MAX), MAX_BLOCK);
    }

    #[test]
    fn keeps_its_limit_and_its_largest_block() {
        for limit in [3 << 20, 16 << 20, 33 << 20, (32 << 20) + 5] {
            let pool = BufferPool::for_network(limit, Memory::Map { prefault: false }).unwrap();
            assert!(pool.total() <= limit, "{} of {limit}", pool.total());
            let largest = frame_max(limit);
            assert_eq!(pool.largest(), largest + largest / 64);
            // The smallest blocks in all of the shared part, and the large one is still there.
            let small: Vec<_> = core::iter::from_fn(|| pool.lease(1, Priority::Data)).collect();
            assert!(pool.lease(pool.largest(), Priority::Data).is_some());
            drop(small);
        }
        let memory = Memory::Map { prefault: false };
        assert!(matches!(BufferPool::for_network(1 << 20, memory), Err(Error::Invalid(_))));
    }
}
