//! BufferPool: lease a block, hand it back, say when memory is low.
//!
//! One arena, taken at creation and not touched until used. Blocks come in classes of a power of
//! two plus 1/64 for headers, so that the 1 MiB class holds Kafka's default `max.message.bytes` and
//! the request around it. Each class has a guaranteed number of blocks that is never split; the
//! rest of the arena is shared and cut as a binary buddy.
//!
//! A pool may be used from several threads (reactor mode): a block may come home on another thread
//! than the one that leased it.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

mod append_block;
mod arena;
mod buddy;
mod budget;
mod lease;
mod network;
#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests;

use super::waker::Waker;
use crate::error::Error;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use arena::Arena;
use buddy::Buddy;
use lease::Block;

pub use append_block::AppendBlock;
pub use arena::{ALIGN as ARENA_ALIGN, CallerMemory, Release};
pub use budget::Budget;
pub use lease::{Lease, SharedLease};
pub use network::{BATCH_BLOCK, frame_max, network_terms};

/// Room for this many bytes in the smallest class, before the 1/64 for headers.
pub const MIN_BLOCK: usize = 4096;
/// Room for this many bytes in the largest class, before the 1/64 for headers.
pub const MAX_BLOCK: usize = 128 << 20;

/// Bytes of a block of the smallest class; a block of class `k` has `UNIT << k`.
const UNIT: usize = MIN_BLOCK + MIN_BLOCK / 64;
/// From 4 KiB to 128 MiB: Kafka's default of `socket.request.max.bytes` is 100 MiB.
const CLASSES: usize = (MAX_BLOCK / MIN_BLOCK).trailing_zeros() as usize + 1;
/// No unit.
const NONE: u32 = u32::MAX;
/// Selectors that can wait for blocks of one pool.
const WAITERS: usize = 64;

/// Bytes that a block of `class` holds.
const fn block_bytes(class: usize) -> usize {
    UNIT << class
}

/// The smallest class that holds `size` bytes; `None` if even the largest does not.
#[inline]
const fn class_of(size: usize) -> Option<usize> {
    if size <= UNIT {
        return Some(0);
    }
    if size > block_bytes(CLASSES - 1) {
        return None;
    }
    Some(size.div_ceil(UNIT).next_power_of_two().trailing_zeros() as usize)
}

/// Bytes that the smallest block has which holds `size` bytes; `None` for more than any block has.
pub const fn block_for(size: usize) -> Option<usize> {
    match class_of(size) {
        Some(class) => Some(block_bytes(class)),
        None => None,
    }
}

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
    /// Records that wait to be sent: as many as the host likes to give. They leave a quarter of the
    /// shared part and half of each guaranteed class to the frames that must be read meanwhile;
    /// else a host that produces all it can would keep the answers from being read.
    Records,
    /// Frames on their way. Running out is back-pressure.
    Data,
    /// Requests that keep the connection and the cluster's picture alive; may use the reserve.
    Control,
}

/// A pool of blocks; clones share it. It lives until the last clone and the last lease are gone.
#[derive(Clone, Debug)]
pub struct BufferPool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    arena: Arena,
    /// Per unit the number of views of the block that begins there, and of its appender.
    counts: Box<[AtomicU32]>,
    free: Mutex<Free>,
    largest: usize,
    total: usize,
    returns: AtomicU64,
    refusals: AtomicU64,
    /// Whether somebody wants to hear of the next block that comes home.
    waiting: AtomicBool,
    waiters: Mutex<[Option<Waker>; WAITERS]>,
}

/// What is free, behind the pool's one lock. Units are counted over the whole arena: first the
/// guaranteed blocks, class by class, then the shared part.
#[derive(Debug)]
struct Free {
    /// Per class the first free guaranteed block, and how many are free.
    guaranteed: [u32; CLASSES],
    guaranteed_len: [u32; CLASSES],
    /// Per class how many are guaranteed.
    guaranteed_all: [u32; CLASSES],
    /// Units of the shared part, and how many of them are out.
    shared: u32,
    shared_out: u32,
    /// Per guaranteed unit the next free one of its class.
    next: Box<[u32]>,
    buddy: Buddy,
    /// Per unit the class of the block that is out and begins there.
    class: Box<[u8]>,
    /// The class that control traffic has a reserve in, and how many blocks that is.
    control_class: usize,
    control_blocks: u32,
    /// Bytes in blocks that are out, and how many are.
    in_use: usize,
    leases: usize,
}

impl BufferPool {
    /// Takes the arena.
    ///
    /// # Errors
    /// [`Error::NoMemory`], or [`Error::Invalid`] for a shape that cannot be.
    pub fn new(config: PoolConfig<'_>) -> Result<BufferPool, Error> {
        let budget = Budget::of(config.guaranteed, config.shared)?;
        let total = budget.total();
        // Before its tables, which are touched: memory that cannot be had is known at once.
        let arena = match config.memory {
            Memory::Map { prefault } => Arena::map(total, prefault)?,
            Memory::Caller(memory) => Arena::lent(memory, total)?,
        };
        let free = Free::new(&budget, config.control_blocks)?;
        let inner = Inner {
            arena,
            counts: (0..total / UNIT).map(|_| AtomicU32::new(0)).collect(),
            free: Mutex::new(free),
            largest: largest(&budget),
            total,
            returns: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
            waiters: Mutex::new([const { None }; WAITERS]),
        };
        Ok(BufferPool { inner: Arc::new(inner) })
    }

    /// Leases the smallest block that holds `size` bytes; `None` when there is none now.
    /// A `size` over [`BufferPool::largest`] is never had.
    pub fn lease(&self, size: usize, priority: Priority) -> Option<Lease> {
        let inner = &self.inner;
        let taken = class_of(size).and_then(|class| inner.free.lock().take(class, priority));
        let Some((unit, class)) = taken else {
            inner.refusals.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let bytes = block_bytes(class);
        let start = inner.arena.at(unit as usize * UNIT);
        Some(Lease::new(Block::leased(inner, start, unit, bytes as u32)))
    }

    /// The most bytes one block can hold: of the largest guaranteed class, or of what is shared if
    /// nothing is guaranteed. The shared part may have larger blocks for a while; who relied on them
    /// would wait for ever once it is in pieces.
    pub fn largest(&self) -> usize {
        self.inner.largest
    }

    /// Bytes of the whole arena.
    pub fn total(&self) -> usize {
        self.inner.total
    }

    /// Bytes in blocks that are out.
    pub fn in_use(&self) -> usize {
        self.inner.free.lock().in_use
    }

    /// Blocks that are out.
    pub fn leases(&self) -> usize {
        self.inner.free.lock().leases
    }

    /// Rises each time a block comes home: whoever was refused compares it to know whether trying
    /// again makes sense. Read it *before* the lease that may be refused: a block that comes home
    /// in between would go unnoticed otherwise.
    pub fn returns(&self) -> u64 {
        self.inner.returns.load(Ordering::Acquire)
    }

    /// How often a lease was refused.
    pub fn refusals(&self) -> u64 {
        self.inner.refusals.load(Ordering::Relaxed)
    }

    /// Has `waker` woken by the first block that comes home after each
    /// [`BufferPool::await_return`]. The number is for [`BufferPool::forget_waiter`].
    ///
    /// # Errors
    /// [`Error::Exhausted`] if 64 selectors share the pool already.
    pub(crate) fn add_waiter(&self, waker: Waker) -> Result<usize, Error> {
        let mut waiters = self.inner.waiters.lock();
        let free = waiters.iter().position(Option::is_none);
        let place = free.ok_or(Error::Exhausted("selectors that share one buffer pool"))?;
        waiters[place] = Some(waker);
        Ok(place)
    }

    /// Undoes [`BufferPool::add_waiter`].
    pub(crate) fn forget_waiter(&self, place: usize) {
        self.inner.waiters.lock()[place] = None;
    }

    /// Asks for one wake when a block comes home. Whoever calls it compares
    /// [`BufferPool::returns`] afterwards, for the block that came home just before.
    pub(crate) fn await_return(&self) {
        self.inner.waiting.store(true, Ordering::SeqCst);
    }
}

impl Inner {
    fn count(&self, unit: u32) -> &AtomicU32 {
        &self.counts[unit as usize]
    }

    /// Puts the block that begins at `unit` back; nobody uses it any more.
    fn take_home(&self, unit: u32) {
        if cfg!(debug_assertions) {
            self.poison(unit);
        }
        self.free.lock().give(unit);
        // Behind the lock: who sees the new number finds the block. Sequentially consistent, as is
        // `await_return`: either that caller sees this number, or this one sees that it waits.
        self.returns.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) && self.waiting.swap(false, Ordering::SeqCst) {
            self.wake_waiters();
        }
    }

    #[cold]
    fn wake_waiters(&self) {
        for waker in self.waiters.lock().iter().flatten() {
            waker.wake();
        }
    }

    /// Overwrites the first page of a block that comes home, so that a stray reader shows. Not all
    /// of it: that would touch pages of large blocks that nobody had used.
    fn poison(&self, unit: u32) {
        lease::poison(self.arena.at(unit as usize * UNIT), MIN_BLOCK);
    }
}

impl Free {
    fn new(budget: &Budget<'_>, control_blocks: usize) -> Result<Self, Error> {
        const RESERVE: Error =
            Error::Invalid("the control reserve is larger than the smallest guaranteed class");
        let blocks = budget.blocks();
        let control_class = blocks.iter().position(|n| *n > 0).unwrap_or(0);
        let control_blocks = u32::try_from(control_blocks).map_err(|_| RESERVE)?;
        if control_blocks > blocks[control_class] {
            return Err(RESERVE);
        }
        let units = (budget.total() / UNIT) as u32;
        let own = units - budget.shared_units();
        let mut free = Free {
            guaranteed: [NONE; CLASSES],
            guaranteed_len: blocks,
            guaranteed_all: blocks,
            shared: budget.shared_units(),
            shared_out: 0,
            next: (0..own).map(|_| NONE).collect(),
            buddy: Buddy::new(budget.shared_units()),
            class: (0..units).map(|_| 0).collect(),
            control_class,
            control_blocks,
            in_use: 0,
            leases: 0,
        };
        let mut unit = 0;
        for (class, &count) in blocks.iter().enumerate() {
            free.guaranteed[class] = if count > 0 { unit } else { NONE };
            for i in 0..count {
                let next = unit + (1 << class);
                free.next[unit as usize] = if i + 1 < count { next } else { NONE };
                unit = next;
            }
        }
        Ok(free)
    }

    /// Takes a block that holds `class`; its first unit and its class. A shared one first, so that
    /// the guaranteed ones are still there when the shared part is full or in pieces.
    fn take(&mut self, class: usize, priority: Priority) -> Option<(u32, usize)> {
        let own = self.next.len() as u32;
        let units = 1u32 << class;
        let most = if priority == Priority::Records { self.shared / 4 * 3 } else { self.shared };
        let fits = self.shared_out + units <= most;
        let (unit, class) = match if fits { self.buddy.take(class) } else { None } {
            Some(shared) => {
                self.shared_out += units;
                (own + shared, class)
            }
            None => match self.take_guaranteed(class, priority) {
                Some(unit) => (unit, class),
                None => (self.take_reserve(class, priority)?, self.control_class),
            },
        };
        self.class[unit as usize] = class as u8;
        self.in_use += block_bytes(class);
        self.leases += 1;
        Some((unit, class))
    }

    /// The reserve serves control traffic of smaller classes too, if those have nothing of their
    /// own.
    fn take_reserve(&mut self, class: usize, priority: Priority) -> Option<u32> {
        if priority != Priority::Control || class >= self.control_class {
            return None;
        }
        self.take_guaranteed(self.control_class, priority)
    }

    fn take_guaranteed(&mut self, class: usize, priority: Priority) -> Option<u32> {
        let control = if class == self.control_class { self.control_blocks } else { 0 };
        let reserved = match priority {
            Priority::Records => control.max(self.guaranteed_all[class] / 2),
            Priority::Data => control,
            Priority::Control => 0,
        };
        if self.guaranteed_len[class] <= reserved {
            return None;
        }
        let unit = self.guaranteed[class];
        self.guaranteed[class] = self.next[unit as usize];
        self.guaranteed_len[class] -= 1;
        Some(unit)
    }

    /// Puts a block back.
    fn give(&mut self, unit: u32) {
        let class = self.class[unit as usize] as usize;
        self.in_use -= block_bytes(class);
        self.leases -= 1;
        let own = self.next.len() as u32;
        if unit >= own {
            self.shared_out -= 1 << class;
            self.buddy.give(unit - own, class);
        } else {
            self.next[unit as usize] = self.guaranteed[class];
            self.guaranteed[class] = unit;
            self.guaranteed_len[class] += 1;
        }
    }
}

/// See [`BufferPool::largest`].
fn largest(budget: &Budget<'_>) -> usize {
    let of_shared = || (budget.shared_units().max(1).ilog2() as usize).min(CLASSES - 1);
    block_bytes(budget.blocks().iter().rposition(|n| *n > 0).unwrap_or_else(of_shared))
}
