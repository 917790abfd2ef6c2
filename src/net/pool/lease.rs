//! Lease, SharedLease: the right to use a block, alone and writable, or counted and read-only.
//! Dropping the last right brings the block home.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]
#![expect(unsafe_code, reason = "gives out slices of the arena and counts who holds them")]

use super::{AppendBlock, Inner};
use crate::sync::{Arc, AtomicU32, Ordering, fence};
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use core::slice;

/// Views of one block at most. Far above what memory allows without forgetting views on purpose;
/// it keeps a count that was pushed up by `mem::forget` from wrapping.
const VIEWS_MAX: u32 = u32::MAX / 2;

/// A block that is out: its address and size, its number, and the pool it belongs to.
///
/// **What holds for every `Block`**, and is what the `SAFETY` comments below rely on:
/// 1. The pool is alive: leasing put one strong count of it aside for the block, and only
///    [`Block::go_home`] gives that back.
/// 2. The `len` bytes at `start` lie in the pool's arena and belong to this block alone: the pool's
///    tables give a unit out once, until it comes home.
/// 3. Those bytes are initialised: a mapping is zeroed, and the caller's memory must be.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<u8>,
    pool: NonNull<Inner>,
    unit: u32,
    len: u32,
}

impl Block {
    /// A block that the pool's tables have just given out.
    pub(super) fn leased(pool: &Arc<Inner>, start: NonNull<u8>, unit: u32, len: u32) -> Self {
        let strong = Arc::into_raw(Arc::clone(pool)).cast_mut();
        // SAFETY: the pointer of an `Arc` is never null.
        let pool = unsafe { NonNull::new_unchecked(strong) };
        Block { start, pool, unit, len }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn pool(&self) -> NonNull<Inner> {
        self.pool
    }

    pub(super) fn unit(&self) -> u32 {
        self.unit
    }

    /// The count of the block's views and of its appender.
    pub(super) fn count(&self) -> &AtomicU32 {
        // SAFETY: (1) the pool is alive as long as the block is out.
        let pool = unsafe { self.pool.as_ref() };
        pool.count(self.unit)
    }

    /// A view of `range`, which is not empty and inside of the block, without counting it.
    ///
    /// The caller counts it, and nobody writes those bytes while any view is out.
    pub(super) fn view(&self, range: Range<usize>) -> SharedLease {
        debug_assert!(range.start < range.end && range.end <= self.len());
        // SAFETY: (2) and the range is inside of the block.
        let start = unsafe { self.start.add(range.start) };
        let len = (range.end - range.start) as u32;
        SharedLease { start, len, unit: self.unit, pool: Some(self.pool) }
    }

    /// Whether `view` is of this block, and if so the offset where it ends.
    pub(super) fn end_of(&self, view: &SharedLease) -> Option<usize> {
        if view.pool != Some(self.pool) || view.unit != self.unit {
            return None;
        }
        Some(view.start.as_ptr() as usize - self.start.as_ptr() as usize + view.len as usize)
    }

    /// Gives the block back to its pool. At most once for each block that was leased, and nobody
    /// may touch its bytes afterwards.
    pub(super) fn go_home(&self) {
        go_home(self.pool, self.unit);
    }
}

fn go_home(pool: NonNull<Inner>, unit: u32) {
    // SAFETY: this is the strong count that `Block::leased` put aside; each block goes home once:
    // a `Lease` when it is dropped unshared, a counted block when the count falls from 1 to 0.
    let pool = unsafe { Arc::from_raw(pool.as_ptr()) };
    pool.take_home(unit);
}

/// Lets go of one counted view or of the appender; the last one brings the block home.
pub(super) fn release(pool: NonNull<Inner>, unit: u32) {
    // SAFETY: `Block` (1): the caller's own count keeps the block out and with it the pool alive.
    let inner = unsafe { pool.as_ref() };
    // Release: what this holder read or wrote happened before the block is used again.
    if inner.count(unit).fetch_sub(1, Ordering::Release) == 1 {
        fence(Ordering::Acquire);
        go_home(pool, unit);
    }
}

/// One more counted view. The caller holds one already.
pub(super) fn count_up(count: &AtomicU32) {
    // Relaxed is enough: the new view is made from one that exists, and passing it to another
    // thread orders everything else.
    if count.fetch_add(1, Ordering::Relaxed) > VIEWS_MAX {
        std::process::abort();
    }
}

/// A block with one owner, writable. Goes home when dropped.
#[derive(Debug)]
pub struct Lease {
    block: Block,
}

// SAFETY: a lease is the only way to its bytes, so it can move between threads; the pool's tables
// are behind a lock and its counts are atomic.
unsafe impl Send for Lease {}
// SAFETY: a shared reference to a lease only reads its bytes.
unsafe impl Sync for Lease {}

impl Lease {
    pub(super) fn new(block: Block) -> Self {
        Lease { block }
    }

    /// Hands the first `len` bytes over to readers; the rest of the block cannot be used any more.
    ///
    /// # Panics
    /// If `len` is more than the block holds.
    pub fn share(self, len: usize) -> SharedLease {
        assert!(len <= self.block.len(), "sharing more than the block holds");
        if len == 0 {
            return SharedLease::empty();
        }
        self.block.count().store(1, Ordering::Relaxed);
        let view = self.block.view(0..len);
        core::mem::forget(self);
        view
    }

    /// Makes the block one that grows behind a published length of 0.
    pub fn into_append(self) -> AppendBlock {
        self.block.count().store(1, Ordering::Relaxed);
        let Block { start, pool, unit, len } = self.block;
        core::mem::forget(self);
        AppendBlock::new(Block { start, pool, unit, len })
    }
}

impl Deref for Lease {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `Block` (2) and (3), and a `Lease` is the block's only holder.
        unsafe { slice::from_raw_parts(self.block.start.as_ptr(), self.block.len()) }
    }
}

impl DerefMut for Lease {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `Block` (2) and (3), and a `Lease` is the block's only holder.
        unsafe { slice::from_raw_parts_mut(self.block.start.as_ptr(), self.block.len()) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.block.go_home();
    }
}

/// A read-only view of part of a block, counted. The block goes home with the last view. An empty
/// view holds no block.
pub struct SharedLease {
    start: NonNull<u8>,
    len: u32,
    unit: u32,
    /// The pool of the block; `None` for an empty view.
    pool: Option<NonNull<Inner>>,
}

// SAFETY: nobody writes bytes that a view shows (see `Block::view`), and the count is atomic.
unsafe impl Send for SharedLease {}
// SAFETY: as above.
unsafe impl Sync for SharedLease {}

impl SharedLease {
    /// A view of nothing; needs no block.
    pub const fn empty() -> Self {
        SharedLease { start: NonNull::dangling(), len: 0, unit: 0, pool: None }
    }

    /// A view of part of this view.
    ///
    /// # Panics
    /// If the range is outside of it.
    pub fn slice(&self, range: Range<usize>) -> SharedLease {
        let len = self[range.clone()].len();
        let Some(pool) = self.pool.filter(|_| len > 0) else { return SharedLease::empty() };
        // Not the slice's own pointer: a view that is made longer must reach beyond that.
        // SAFETY: the range was just checked to lie inside of this view.
        let start = unsafe { self.start.add(range.start) };
        self.count_up(pool);
        SharedLease { start, len: len as u32, unit: self.unit, pool: Some(pool) }
    }

    /// Drops the first `n` bytes from the view, without touching the count.
    ///
    /// # Panics
    /// If the view is shorter than that.
    pub fn skip(&mut self, n: usize) {
        assert!(n <= self.len as usize, "skipping more than the view shows");
        // SAFETY: not beyond the end of the view, as was just checked.
        self.start = unsafe { self.start.add(n) };
        self.len -= n as u32;
    }

    /// Makes the view `n` bytes longer. Its block's appender has published them.
    pub(super) fn lengthen(&mut self, n: usize) {
        self.len += n as u32;
    }

    fn count_up(&self, pool: NonNull<Inner>) {
        // SAFETY: `Block` (1): this view's own count keeps its block out and the pool alive.
        let pool = unsafe { pool.as_ref() };
        count_up(pool.count(self.unit));
    }
}

impl Clone for SharedLease {
    fn clone(&self) -> Self {
        if let Some(pool) = self.pool {
            self.count_up(pool);
        }
        SharedLease { start: self.start, len: self.len, unit: self.unit, pool: self.pool }
    }
}

impl Drop for SharedLease {
    #[inline]
    fn drop(&mut self) {
        if let Some(pool) = self.pool {
            release(pool, self.unit);
        }
    }
}

impl Deref for SharedLease {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `Block` (2) and (3), the view lies inside of its block, and nobody writes what a
        // view shows; an empty view's pointer is dangling, which is right for zero bytes.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl AsRef<[u8]> for SharedLease {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl core::fmt::Debug for SharedLease {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SharedLease({} bytes of block {})", self.len, self.unit)
    }
}

/// Hands the view over to code that takes `Bytes`; costs one allocation and no copy.
impl From<SharedLease> for bytes::Bytes {
    fn from(view: SharedLease) -> Self {
        bytes::Bytes::from_owner(view)
    }
}

/// Overwrites the first `len` bytes of a block that nobody holds any more and that is not home yet.
pub(super) fn poison(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's block has come loose from its last holder and is not free yet, so its
    // bytes, of which the smallest block has more than `len`, are nobody's.
    unsafe { start.write_bytes(0xa5, len) };
}
