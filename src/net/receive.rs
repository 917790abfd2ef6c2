//! Receive: reads in bulk into a block of the pool and cuts frames out of it in place.
//!
//! **The invariant**, checked in debug builds whenever a channel begins to wait for its peer: the
//! block is at most one first block and 8 × the bytes in it that are not handed out; with no such
//! bytes there is no block. So a peer that announces a frame pins memory only by sending it, and an
//! idle connection pins none. The exception is a pool that has none of the steps left: see
//! `last_resort`.
//!
//! A frame that fits the bulk block is received with its neighbours. A larger one goes through
//! blocks of 1/64, 1/8 and all of the size it needs, each taken as soon as the invariant allows it:
//! what is copied from block to block is at most 1/7 of the last block and one first block.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::pool::{AppendBlock, BufferPool, Lease, Priority, SharedLease, block_for};
use super::sys::socket;
use super::{ChannelOptions, CloseReason};
use std::io::ErrorKind;
use std::os::fd::RawFd;

/// The largest block for bulk reads: 128 KiB and its 64th.
const BULK_MAX: usize = (128 << 10) + (2 << 10);
/// The largest first block.
const FIRST_MAX: usize = 16 << 10;
/// The size of no frame.
const NO_FRAME: u32 = u32::MAX;

/// One channel's receive in progress.
#[derive(Debug)]
pub(super) struct Receive {
    /// Received bytes; what lies before `cut` was handed out.
    block: Option<AppendBlock>,
    cut: u32,
    /// The size of the frame whose four size bytes were taken off, or `NO_FRAME`.
    frame: u32,
    /// Bytes of the next bulk block: doubles when reads fill their room, halves when they do not.
    bulk: u32,
    bulk_max: u32,
    /// Bytes of the first block.
    first: u32,
    /// Frames may have this size.
    max: u32,
    /// The socket may have bytes: an edge was seen and no short read since.
    readable: bool,
    /// The peer's close was seen: a short read does not mean dry any more.
    peer_closed: bool,
}

/// What came of asking for a frame.
#[derive(Debug)]
pub(super) enum Received {
    Frame(SharedLease),
    /// Nothing more until the socket is ready again.
    Dry,
    /// The turn's bytes are used up.
    OverBudget,
    /// The pool has no block.
    NoMemory,
    /// The peer closed, broke the framing, or the socket failed.
    Ended(CloseReason),
}

/// What reading costs, for the selector's counters.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Bytes that may still be read in this turn.
    pub(super) budget: usize,
    pub(super) calls: u64,
    pub(super) bytes: u64,
}

impl Receive {
    pub(super) fn new(options: &ChannelOptions, pool: &BufferPool) -> Self {
        let first = options.receive_first.clamp(1, FIRST_MAX).min(pool.largest());
        // A first block is at most 16 KiB and within the pool's largest, so it has a class.
        let first = block_for(first).unwrap_or(FIRST_MAX) as u32;
        let max = options.receive_max.min(pool.largest()) as u32;
        Receive {
            block: None,
            cut: 0,
            frame: NO_FRAME,
            bulk: first,
            bulk_max: BULK_MAX.min(pool.largest()) as u32,
            first,
            max,
            readable: false,
            peer_closed: false,
        }
    }

    /// The socket is ready for reading.
    #[inline]
    pub(super) fn set_readable(&mut self, peer_closed: bool) {
        self.readable = true;
        self.peer_closed |= peer_closed;
    }

    /// Whether asking for a frame may give one without a new edge.
    pub(super) fn has_more(&self) -> bool {
        self.readable || self.has_frame()
    }

    /// Whether it holds memory for what is still to come.
    pub(super) fn holds(&self) -> bool {
        self.block.is_some()
    }

    /// Drops what is at hand; nothing is read any more.
    pub(super) fn discard(&mut self) {
        self.block = None;
        self.cut = 0;
        self.frame = NO_FRAME;
        self.readable = false;
    }

    /// The next complete frame, reading as often as needed.
    #[inline]
    pub(super) fn next(&mut self, fd: RawFd, pool: &BufferPool, reading: &mut Reading) -> Received {
        loop {
            match self.cut_frame() {
                Ok(Some(frame)) => return Received::Frame(frame),
                Ok(None) => {}
                Err(reason) => return Received::Ended(reason),
            }
            if !self.readable {
                self.rest(pool);
                return Received::Dry;
            }
            if reading.budget == 0 {
                self.give_back_empty();
                return Received::OverBudget;
            }
            if !self.make_room(pool) {
                return Received::NoMemory;
            }
            if let Err(reason) = self.read(fd, reading) {
                return Received::Ended(reason);
            }
        }
    }

    /// Takes a frame off what is at hand.
    #[inline]
    fn cut_frame(&mut self) -> Result<Option<SharedLease>, CloseReason> {
        let Some(block) = &self.block else { return Ok(self.cut_empty()) };
        let mut unread = block.len() - self.cut as usize;
        if self.frame == NO_FRAME {
            let Some(size) = block.published()[self.cut as usize..].first_chunk() else {
                return Ok(None);
            };
            self.frame = checked_size(*size, self.max)?;
            self.cut += 4;
            unread -= 4;
        }
        let size = self.frame as usize;
        if unread < size {
            return Ok(None);
        }
        let start = self.cut as usize;
        let frame = block.share(start..start + size);
        self.cut += size as u32;
        self.frame = NO_FRAME;
        Ok(Some(frame))
    }

    /// A frame of size zero whose size bytes were the last of a block that was given back.
    fn cut_empty(&mut self) -> Option<SharedLease> {
        if self.frame != 0 {
            return None;
        }
        self.frame = NO_FRAME;
        Some(SharedLease::empty())
    }

    fn has_frame(&self) -> bool {
        let Some(block) = &self.block else { return self.frame == 0 };
        let unread = &block.published()[self.cut as usize..];
        match (self.frame, unread.first_chunk()) {
            (NO_FRAME, None) => false,
            (NO_FRAME, Some(size)) => {
                // An illegal size is news as well; it shows when the frame is taken.
                let size = u32::from_be_bytes(*size);
                size > self.max || unread.len() - 4 >= size as usize
            }
            (size, _) => unread.len() >= size as usize,
        }
    }

    fn read(&mut self, fd: RawFd, reading: &mut Reading) -> Result<(), CloseReason> {
        let room = self.limit().min(reading.budget);
        let Some(block) = &mut self.block else { return Ok(()) };
        reading.calls += 1;
        let spare = block.spare_at_most(room);
        let asked = spare.len();
        debug_assert!(asked > 0, "a read without room would look like the peer's close");
        match socket::receive(fd, spare) {
            // What is left is no complete frame.
            Ok(0) => Err(CloseReason::PeerClosed),
            Ok(n) => {
                block.publish(n);
                reading.budget -= n;
                reading.bytes += n as u64;
                self.readable = n == asked || self.peer_closed;
                self.adapt(n, asked);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(())
            }
            Err(error) => Err(CloseReason::Io(error.raw_os_error().unwrap_or(0))),
        }
    }

    /// How much of the room a read may use: not beyond the end of a large frame, so that nothing of
    /// the next one has to be copied out of a block that is large for this one's sake.
    fn limit(&self) -> usize {
        let unread = self.unread();
        if self.frame != NO_FRAME && self.frame > self.bulk {
            self.frame as usize - unread
        } else {
            usize::MAX
        }
    }

    fn adapt(&mut self, n: usize, asked: usize) {
        if self.frame != NO_FRAME && self.frame > self.bulk {
            return;
        }
        let bulk = self.bulk as usize;
        if n == asked && asked * 2 >= bulk {
            self.bulk = (self.bulk * 2).min(self.bulk_max);
        } else if n * 4 < bulk {
            self.bulk = (self.bulk / 2).max(self.first);
        }
    }

    /// Bytes at hand that were not handed out.
    fn unread(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.len() - self.cut as usize)
    }

    /// What the next read needs: two receives with the same needs fare the same.
    pub(super) fn needs(&self) -> (usize, usize, Option<(usize, usize)>) {
        let unread = self.unread();
        (self.next_block(unread), unread, self.last_resort())
    }

    /// Sees to a block with room for reading; false if the pool has none.
    pub(super) fn make_room(&mut self, pool: &BufferPool) -> bool {
        let unread = self.unread();
        if self.serves(unread) {
            return true;
        }
        // What was handed out and dropped again makes room in place.
        let cut = self.cut as usize;
        if cut > 0 && self.block.as_mut().is_some_and(|block| block.compact(cut)) {
            self.cut = 0;
            if self.serves(unread) {
                return true;
            }
        }
        self.take_block(pool, unread) || self.block.as_ref().is_some_and(|block| block.room() > 0)
    }

    /// Whether the block is the one to go on with.
    fn serves(&self, unread: usize) -> bool {
        let Some(block) = &self.block else { return false };
        if self.frame == NO_FRAME {
            return block.room() * 4 >= self.bulk as usize;
        }
        if self.cut as usize + self.frame as usize <= block.capacity() {
            return true;
        }
        // Too large for this block. Fill it, if the next one may not be larger yet.
        self.frame > self.bulk && block.room() > 0 && self.next_block(unread) <= block.capacity()
    }

    /// Bytes of the block to take when `unread` bytes are at hand.
    fn next_block(&self, unread: usize) -> usize {
        let bulk = self.bulk as usize;
        if self.frame == NO_FRAME || self.frame as usize <= bulk {
            return bulk;
        }
        // The size was checked against the pool's largest block.
        let whole = block_for(self.frame as usize).unwrap_or(bulk);
        let allowed = 8 * unread + self.first as usize;
        let mut next = whole;
        while next > allowed {
            next /= 8;
        }
        // Not above: there is always a block larger than what is at hand, because 8 times the
        // result was more than 8 times that.
        debug_assert!(next > unread);
        next.max(bulk.min(whole))
    }

    /// Goes on in another block, if there is one.
    fn take_block(&mut self, pool: &BufferPool, unread: usize) -> bool {
        let Some(lease) = self.lease_block(pool, unread) else { return false };
        self.move_to(lease.into_append());
        true
    }

    /// The block wanted, or if memory is short one that will do.
    fn lease_block(&self, pool: &BufferPool, unread: usize) -> Option<Lease> {
        let lease = |size| pool.lease(size, Priority::Data);
        let (wanted, first) = (self.next_block(unread), self.first as usize);
        let block = lease(wanted);
        if block.is_some() {
            return block;
        }
        if unread < first && first < wanted {
            let block = lease(first);
            if block.is_some() {
                return block;
            }
        }
        // A block with room serves on; one that is full must be left.
        let (whole, max) = self.last_resort()?;
        lease(unread + 1).or_else(|| lease(whole)).or_else(|| lease(max))
    }

    /// What to ask for when the block is full and no step on the way is free: the block for the
    /// whole frame, or the largest a frame may need, of which the pool may have guaranteed ones
    /// where it has none of the steps. Without this, receives that all wait for their next step
    /// would wait for each other. Whoever filled a block has paid for the exception.
    fn last_resort(&self) -> Option<(usize, usize)> {
        let full = self.block.as_ref().is_none_or(|block| block.room() == 0);
        let whole = if self.frame == NO_FRAME { 0 } else { self.frame as usize };
        full.then_some((whole, if self.block.is_some() { self.max as usize } else { whole }))
    }

    fn move_to(&mut self, mut next: AppendBlock) {
        if let Some(block) = &self.block {
            let unread = &block.published()[self.cut as usize..];
            next.spare_at_most(unread.len()).copy_from_slice(unread);
            next.publish(unread.len());
        }
        self.block = Some(next);
        self.cut = 0;
    }

    /// Before waiting: gives the block back if it holds nothing, or takes a smaller one if it is
    /// large for what it holds.
    fn rest(&mut self, pool: &BufferPool) {
        self.give_back_empty();
        let unread = self.unread();
        let Some(block) = &self.block else { return };
        let allowed = 8 * unread + self.first as usize;
        if block.capacity() > allowed {
            let size = (unread + 1).max(self.first as usize);
            if let Some(lease) = pool.lease(size, Priority::Data) {
                self.move_to(lease.into_append());
                debug_assert!(self.held() <= allowed, "a receive holds more than it may");
            }
        }
    }

    fn give_back_empty(&mut self) {
        if self.unread() == 0 {
            self.block = None;
            self.cut = 0;
        }
    }

    /// Bytes of the block that is held.
    pub(super) fn held(&self) -> usize {
        self.block.as_ref().map_or(0, AppendBlock::capacity)
    }
}

/// The size that the four bytes name, if a frame may have it.
#[inline]
fn checked_size(bytes: [u8; 4], max: u32) -> Result<u32, CloseReason> {
    let size = u32::from_be_bytes(bytes);
    if size <= max { Ok(size) } else { Err(refusal(bytes)) }
}

/// Why four bytes cannot be a frame's size. What other protocols begin with is always too large.
#[cold]
fn refusal(bytes: [u8; 4]) -> CloseReason {
    const HTTP: [&[u8; 4]; 8] =
        [b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN"];
    if HTTP.contains(&&bytes) {
        CloseReason::Http
    } else if bytes[..2] == [0x16, 0x03] {
        CloseReason::Tls
    } else if bytes[0] & 0x80 != 0 {
        CloseReason::NegativeSize
    } else {
        CloseReason::TooLarge(u32::from_be_bytes(bytes))
    }
}
