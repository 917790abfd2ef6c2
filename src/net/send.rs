//! SendBuilder: a frame in the making, in the spare part of a scratch block.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::pool::{AppendBlock, Lease, SharedLease};
use crate::sync::{Arc, AtomicUsize, Ordering};
use crossbeam_queue::ArrayQueue;
use std::sync::Weak;

/// Bytes in front of each frame that hold its size.
pub(super) const SIZE: usize = 4;

/// A frame in the making: bytes that the caller encodes, with shared pieces between them.
/// Owned: it can be filled on another thread than the selector's. Dropping it cancels the send.
#[derive(Debug)]
pub struct SendBuilder {
    /// The frame's scratch bytes lie in the spare part, unpublished until the frame is queued.
    block: Option<AppendBlock>,
    pieces: Option<Box<Pieces>>,
    /// Scratch bytes so far and at most, the size bytes included.
    at: u32,
    limit: u32,
    /// Bytes in shared pieces.
    shared: u32,
}

/// The shared pieces of a frame in the making; recycled, so that no send allocates.
#[derive(Debug)]
pub(super) struct Pieces {
    len: usize,
    /// Each with the scratch offset that it follows.
    list: [(u32, SharedLease); SendBuilder::MAX_PIECES],
    /// Where to go when the send is cancelled; nowhere for a builder that no selector made.
    home: Weak<Cancelled>,
}

/// Builders that were dropped, possibly on another thread.
#[derive(Debug)]
pub(super) struct Cancelled {
    pieces: ArrayQueue<Box<Pieces>>,
    count: AtomicUsize,
}

impl Cancelled {
    /// A place for each of `builders` piece lists.
    pub(super) fn new(builders: usize) -> Arc<Self> {
        Arc::new(Cancelled { pieces: ArrayQueue::new(builders), count: AtomicUsize::new(0) })
    }

    /// How many builders were dropped so far.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) -> Option<Box<Pieces>> {
        self.pieces.pop()
    }
}

impl SendBuilder {
    /// Shared pieces one frame can hold.
    pub const MAX_PIECES: usize = 32;

    /// A frame with `room` bytes for encoding in a block of its own, without a selector.
    /// `None` if the block does not hold the room and the size bytes.
    pub fn standalone(lease: Lease, room: usize) -> Option<SendBuilder> {
        if lease.len() < room.checked_add(SIZE)? {
            return None;
        }
        Some(SendBuilder::new(lease.into_append(), Box::new(Pieces::new(Weak::new())), room))
    }

    /// A frame behind what is published in `block`, which has room for the size and `room` bytes.
    pub(super) fn new(block: AppendBlock, pieces: Box<Pieces>, room: usize) -> SendBuilder {
        debug_assert!(block.room() >= SIZE + room && pieces.len == 0);
        let limit = (SIZE + room) as u32;
        SendBuilder { block: Some(block), pieces: Some(pieces), at: SIZE as u32, limit, shared: 0 }
    }

    /// The same frame in a larger block of its own; `None`, and the send cancelled, if the block does
    /// not hold `room` and the size bytes. Only before anything was written into it.
    pub fn moved_to(mut self, lease: Lease, room: usize) -> Option<SendBuilder> {
        debug_assert!(self.is_empty());
        if lease.len() < room.checked_add(SIZE)? {
            return None;
        }
        Some(SendBuilder::new(lease.into_append(), self.pieces.take()?, room))
    }

    /// How much room for encoding is left.
    pub fn room(&self) -> usize {
        (self.limit - self.at) as usize
    }

    /// The room that is left for encoding.
    #[inline]
    pub fn scratch(&mut self) -> &mut [u8] {
        let (at, limit) = (self.at as usize, self.limit as usize);
        match &mut self.block {
            Some(block) => &mut block.spare_at_most(limit)[at..],
            None => &mut [],
        }
    }

    /// The next `n` bytes of the room belong to the frame.
    ///
    /// # Panics
    /// If the room is smaller than that.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        assert!(n <= (self.limit - self.at) as usize, "advancing beyond the room of a send");
        self.at += n as u32;
    }

    /// What was encoded so far, without the shared pieces: for sizes and checksums that are known
    /// only at the end.
    pub fn encoded(&mut self) -> &mut [u8] {
        let at = self.at as usize;
        match &mut self.block {
            Some(block) => &mut block.spare_at_most(at)[SIZE..],
            None => &mut [],
        }
    }

    /// Puts a shared piece behind what is there, without a copy. Gives it back if the frame holds
    /// as many pieces as it can ([`SendBuilder::MAX_PIECES`]).
    pub fn append(&mut self, piece: SharedLease) -> Result<(), SharedLease> {
        if piece.is_empty() {
            return Ok(());
        }
        let Some(pieces) = &mut self.pieces else { return Err(piece) };
        let Some(place) = pieces.list.get_mut(pieces.len) else { return Err(piece) };
        self.shared += piece.len() as u32;
        *place = (self.at, piece);
        pieces.len += 1;
        Ok(())
    }

    /// Bytes of the frame so far, without its four size bytes.
    pub fn len(&self) -> usize {
        self.at as usize - SIZE + self.shared as usize
    }

    /// True if the frame is empty so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the making: hands the whole frame, its size bytes first, to `take` piece by piece. For
    /// whoever stands in for a selector; the pieces hold no more than the frame's own block.
    pub fn finish(mut self, mut take: impl FnMut(SharedLease)) {
        if let Some((block, mut pieces)) = self.seal() {
            let start = block.len() - self.at as usize;
            pieces.walk(self.at, |part| match part {
                Part::Scratch(from, to) => take(block.share(start + from..start + to)),
                Part::Shared(piece) => take(piece),
            });
        }
    }

    /// Scratch bytes, the size bytes included.
    pub(super) fn scratch_len(&self) -> usize {
        self.at as usize
    }

    /// Writes the size and publishes the scratch bytes, which are then the last in the block.
    pub(super) fn seal(&mut self) -> Option<(AppendBlock, Box<Pieces>)> {
        let size = self.len() as u32;
        let mut block = self.block.take()?;
        let pieces = self.pieces.take()?;
        block.spare_at_most(SIZE).copy_from_slice(&size.to_be_bytes());
        block.publish(self.at as usize);
        Some((block, pieces))
    }
}

impl Drop for SendBuilder {
    fn drop(&mut self) {
        if let Some(mut pieces) = self.pieces.take() {
            pieces.clear();
            if let Some(home) = pieces.home.upgrade() {
                // There is a place for each that was ever made.
                drop(home.pieces.push(pieces));
                // Behind the push: whoever counts it finds it.
                home.count.fetch_add(1, Ordering::Release);
            }
        }
    }
}

/// A part of a sealed frame: scratch bytes from one offset to another, or a shared piece.
pub(super) enum Part {
    Scratch(usize, usize),
    Shared(SharedLease),
}

impl Pieces {
    pub(super) fn new(home: Weak<Cancelled>) -> Self {
        Pieces { len: 0, list: [const { (0, SharedLease::empty()) }; _], home }
    }

    /// Whether it came from the selector with this `home`.
    pub(super) fn is_of(&self, home: &Arc<Cancelled>) -> bool {
        self.home.as_ptr() == Arc::as_ptr(home)
    }

    fn clear(&mut self) {
        for (_, piece) in &mut self.list[..self.len] {
            *piece = SharedLease::empty();
        }
        self.len = 0;
    }

    /// Hands out the parts of a frame with `end` scratch bytes, in order, and is empty then.
    pub(super) fn walk(&mut self, end: u32, mut take: impl FnMut(Part)) {
        let mut at = 0;
        for (follows, piece) in &mut self.list[..self.len] {
            if *follows > at {
                take(Part::Scratch(at as usize, *follows as usize));
                at = *follows;
            }
            take(Part::Shared(core::mem::replace(piece, SharedLease::empty())));
        }
        self.len = 0;
        if end > at {
            take(Part::Scratch(at as usize, end as usize));
        }
    }
}
