//! AppendBlock: one writer behind a published length, many readers of the prefix.
//!
//! The published length needs no atomic: only the owner reads and moves it, and a reader has a
//! [`SharedLease`] that the owner made of bytes already published. Handing that view to another
//! thread is what orders the owner's writes before the reader's reads.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]
#![expect(unsafe_code, reason = "gives out the published and the spare part of one block apart")]

use super::SharedLease;
use super::lease::{Block, count_up, release};
use crate::sync::Ordering;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::slice;

/// A block that one owner appends to while others read what is published.
#[derive(Debug)]
pub struct AppendBlock {
    /// Counted: the owner holds one, each view another.
    block: Block,
    published: u32,
}

// SAFETY: the owner is alone in writing, only behind what is published; views read only before it.
unsafe impl Send for AppendBlock {}
// SAFETY: a shared reference reads published bytes and counts views, which is atomic.
unsafe impl Sync for AppendBlock {}

impl AppendBlock {
    /// An empty one of a block whose count is 1.
    pub(super) fn new(block: Block) -> Self {
        AppendBlock { block, published: 0 }
    }

    /// What was published.
    #[inline]
    pub fn published(&self) -> &[u8] {
        // SAFETY: the block is out and ours (`Block` 2, 3), and nobody writes published bytes.
        unsafe { slice::from_raw_parts(self.block.start().as_ptr(), self.len()) }
    }

    /// Bytes published.
    #[inline]
    pub fn len(&self) -> usize {
        self.published as usize
    }

    /// True if nothing was published.
    pub fn is_empty(&self) -> bool {
        self.published == 0
    }

    /// Bytes the block can hold.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.block.len()
    }

    /// Bytes that can still be published.
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// The room behind what was published.
    pub fn spare(&mut self) -> &mut [u8] {
        self.spare_at_most(usize::MAX)
    }

    /// The first `n` bytes of the room behind what was published, or all of it if that is less.
    #[inline]
    pub fn spare_at_most(&mut self, n: usize) -> &mut [u8] {
        let n = n.min(self.room());
        // SAFETY: `published` is at most the block's length.
        let start = unsafe { self.block.start().add(self.len()) };
        // SAFETY: `Block` (2) and (3), and no view shows a byte that is not published.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), n) }
    }

    /// Publishes the next `n` bytes, which were written through [`AppendBlock::spare`].
    ///
    /// # Panics
    /// If the block has not so much room.
    #[inline]
    pub fn publish(&mut self, n: usize) {
        assert!(n <= self.room(), "publishing more than the block holds");
        self.published += n as u32;
    }

    /// A view of part of what was published.
    ///
    /// # Panics
    /// If the range is outside of it.
    #[inline]
    pub fn share(&self, range: Range<usize>) -> SharedLease {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "sharing what is not published"
        );
        if range.is_empty() {
            return SharedLease::empty();
        }
        count_up(self.block.count());
        self.block.view(range)
    }

    /// Makes `view` longer by `range`, if it is a view of this block that ends where the range of
    /// published bytes begins; says whether it did. Saves a second view.
    #[inline]
    pub fn extend(&self, view: &mut SharedLease, range: Range<usize>) -> bool {
        let continues = self.block.end_of(view) == Some(range.start);
        let fits = continues && range.start <= range.end && range.end <= self.len();
        if fits {
            view.lengthen(range.end - range.start);
        }
        fits
    }

    /// Whether no view of the block is out.
    #[inline]
    pub fn is_unique(&self) -> bool {
        // Acquire: what a reader did with a view that is gone happened before we write again.
        self.block.count().load(Ordering::Acquire) == 1
    }

    /// Empties the block for another use, if no view of it is out; says whether it did.
    pub fn reset(&mut self) -> bool {
        let unique = self.is_unique();
        if unique {
            self.published = 0;
        }
        unique
    }

    /// Moves what was published from `from` on to the front and forgets what lay before, if no view
    /// of the block is out; says whether it did.
    ///
    /// # Panics
    /// If `from` is behind what is published.
    pub fn compact(&mut self, from: usize) -> bool {
        assert!(from <= self.len(), "keeping what is not published");
        if !self.is_unique() {
            return false;
        }
        // SAFETY: `Block` (2) and (3), no view is out, and `self` is borrowed alone.
        let all = unsafe { slice::from_raw_parts_mut(self.block.start().as_ptr(), self.len()) };
        all.copy_within(from.., 0);
        self.published -= from as u32;
        true
    }

    /// Gives the owner's right away for a view of part of what is published: nothing more can be
    /// appended, and the block goes home with the last view.
    ///
    /// # Panics
    /// If the range is outside of what is published.
    pub fn into_shared(self, range: Range<usize>) -> SharedLease {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "sharing what is not published"
        );
        if range.is_empty() {
            return SharedLease::empty();
        }
        // The owner's count passes to the view.
        ManuallyDrop::new(self).block.view(range)
    }
}

impl Drop for AppendBlock {
    fn drop(&mut self) {
        release(self.block.pool(), self.block.unit());
    }
}
