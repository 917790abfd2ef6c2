//! LogMemory: the blocks of all logs together, and which of them goes when they are used up.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::segments::Cell;
use crate::broker::partition::Partition;
use crate::error::Error;
use crate::net::pool::{MIN_BLOCK, Memory, PoolConfig, Priority};
use crate::net::ring::Ring;
use crate::net::{AppendBlock, BufferPool};
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};

/// The smallest block that a log takes, before the pool's 1/64.
pub(crate) const MIN_LOG_BLOCK: usize = 4 * MIN_BLOCK;

/// A block for a segment, and the place it is kept in.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(super) cell: Cell,
    pub(super) block: AppendBlock,
}

/// The memory of all logs.
#[derive(Debug)]
pub(crate) struct LogMemory {
    pool: BufferPool,
    inner: Mutex<Inner>,
    /// Bytes of blocks that are in a log, or on the way to one.
    live: AtomicUsize,
    /// Partitions that hold a segment.
    in_use: AtomicUsize,
    evicted: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    /// Boxes without a segment.
    spare: Box<[Option<Cell>]>,
    spare_len: usize,
    /// Segments that are full, in the order in which they were filled.
    full: Ring<Full>,
}

#[derive(Debug)]
struct Full {
    partition: Arc<Partition>,
    segment: u64,
}

impl Full {
    /// Whether the segment went another way.
    fn is_gone(&self) -> bool {
        self.partition.first_segment() > self.segment
    }
}

impl LogMemory {
    /// Takes `bytes` for all logs.
    ///
    /// # Errors
    /// [`Error::NoMemory`], or [`Error::Invalid`] for a size that cannot be.
    pub(crate) fn new(bytes: usize, memory: Memory) -> Result<LogMemory, Error> {
        let config = PoolConfig { guaranteed: &[], shared: bytes, control_blocks: 0, memory };
        let pool = BufferPool::new(config)?;
        let most = pool.total() / MIN_LOG_BLOCK;
        let inner = Inner {
            spare: (0..most).map(|_| Some(Box::new(None))).collect(),
            spare_len: most,
            full: Ring::new(most),
        };
        let (live, in_use) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let evicted = AtomicU64::new(0);
        Ok(LogMemory { pool, inner: Mutex::new(inner), live, in_use, evicted })
    }

    /// Places for segments that a partition should have: enough for all memory in large blocks.
    pub(crate) fn segments_per_partition(&self) -> usize {
        (self.pool.total() >> 20) + 48
    }

    /// Partitions that this memory can serve, with half of it left for those that are busy.
    pub(crate) fn partitions(&self) -> usize {
        self.pool.total() / (2 * (MIN_LOG_BLOCK + MIN_LOG_BLOCK / 64))
    }

    /// How large a block one of the partitions in use may take without crowding out the others.
    pub(crate) fn fair_block(&self) -> usize {
        let share = self.pool.total() / (4 * self.in_use.load(Ordering::Relaxed).max(1));
        share.max(MIN_LOG_BLOCK)
    }

    /// Partitions that hold a segment.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// The pool, to look at its counts.
    pub(crate) fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Segments that were dropped to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Counts a partition that took its first segment, or gave up its last.
    pub(crate) fn count_in_use(&self, now: bool) {
        if now {
            self.in_use.fetch_add(1, Ordering::Relaxed);
        } else {
            self.in_use.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes a block of `want` bytes; when memory is used up, the oldest full segments go, and when
    /// twice as much went without a block of that size coming free, half the size is good enough,
    /// down to `need`. `None` if there is no full segment left and still no block, or if so much
    /// of what went is held by readers that it is better to wait for them. Must be called with no
    /// partition locked.
    pub(crate) fn take(&self, want: usize, need: usize) -> Option<Fresh> {
        let mut size = want.max(need);
        let mut freed = 0;
        loop {
            if let Some(lease) = self.pool.lease(size, Priority::Data) {
                let block = lease.into_append();
                let fresh = Fresh { cell: self.spare()?, block };
                self.live.fetch_add(fresh.block.capacity(), Ordering::Relaxed);
                return Some(fresh);
            }
            match if self.is_held() { None } else { self.evict() } {
                Some(bytes) => freed += bytes,
                None if size > need => size = need,
                None => return None,
            }
            if freed >= 2 * size && size > need {
                size = (size / 2).max(need);
                freed = 0;
            }
        }
    }

    /// Whether readers hold a quarter of all memory in blocks that no log has any more: dropping
    /// more would lose records and free nothing soon.
    pub(crate) fn is_held(&self) -> bool {
        let held = self.pool.in_use().saturating_sub(self.live.load(Ordering::Relaxed));
        held > self.pool.total() / 4
    }

    /// Gives back a block that was not needed after all.
    pub(crate) fn give_back(&self, fresh: Fresh) {
        self.live.fetch_sub(fresh.block.capacity(), Ordering::Relaxed);
        self.put_spare(fresh.cell);
    }

    /// Takes back what a partition dropped; its block goes home when its last reader lets go.
    pub(crate) fn recycle(&self, mut cell: Cell) -> usize {
        let bytes = cell.take().map_or(0, |segment| segment.capacity());
        self.live.fetch_sub(bytes, Ordering::Relaxed);
        self.put_spare(cell);
        bytes
    }

    /// Notes that a segment is full and may go when it is the oldest.
    pub(crate) fn filled(&self, partition: &Arc<Partition>, segment: u64) {
        let mut inner = self.inner.lock();
        if inner.full.is_full() {
            inner.forget_gone();
        }
        let full = Full { partition: Arc::clone(partition), segment };
        // There are as many places as segments can exist, so there is one now.
        let _kept = inner.full.push_back(full);
    }

    /// Lets go of partitions that were deleted.
    pub(crate) fn forget_gone(&self) {
        self.inner.lock().forget_gone();
    }

    /// Drops the oldest full segment; gives the bytes of its block, which may still be held by
    /// readers.
    fn evict(&self) -> Option<usize> {
        loop {
            let full = self.inner.lock().full.pop_front()?;
            if let Some(cell) = full.partition.evict(full.segment) {
                self.evicted.fetch_add(1, Ordering::Relaxed);
                return Some(self.recycle(cell));
            }
        }
    }

    /// Counts a segment that was dropped although it was not full.
    pub(crate) fn count_evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    fn spare(&self) -> Option<Cell> {
        let mut inner = self.inner.lock();
        inner.spare_len = inner.spare_len.checked_sub(1)?;
        let last = inner.spare_len;
        inner.spare.get_mut(last)?.take()
    }

    fn put_spare(&self, cell: Cell) {
        let mut inner = self.inner.lock();
        let len = inner.spare_len;
        if let Some(place) = inner.spare.get_mut(len) {
            *place = Some(cell);
            inner.spare_len += 1;
        }
    }
}

impl Inner {
    fn forget_gone(&mut self) {
        for _ in 0..self.full.len() {
            if let Some(full) = self.full.pop_front()
                && !full.is_gone()
            {
                // It has just left the place that it goes back to.
                let _kept = self.full.push_back(full);
            }
        }
    }
}
