//! The allocator of programs that promise to allocate nothing: it counts. It is the whole
//! program's as soon as a test names this module.

#![allow(dead_code, reason = "no test needs all of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts allocations and frees: of a thread that asks for it, and of all while somebody does.
struct Counting;

thread_local! {
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

static ALL: AtomicBool = AtomicBool::new(false);
static ALL_COUNT: AtomicU64 = AtomicU64::new(0);

fn count_one(bytes: usize) {
    // A thread that is ending has no count any more, and is not asked for one.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
    let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes));
    if ALL.load(Ordering::Relaxed) {
        ALL_COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: hands everything to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one(layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count_one(0);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one(size);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// From now on this thread's allocations and frees count.
pub fn begin() {
    COUNT.set(Some(0));
}

/// How many there were.
pub fn end() -> u64 {
    COUNT.take().expect("a count that was begun")
}

/// Runs `f` and says how often this thread allocated or freed meanwhile.
pub fn counted<R>(f: impl FnOnce() -> R) -> (R, u64) {
    begin();
    let result = f();
    (result, end())
}

/// Bytes that this thread has allocated since it began.
pub fn bytes_taken() -> usize {
    BYTES.get()
}

/// From now on the allocations and frees of all threads count.
pub fn begin_all() {
    ALL.store(true, Ordering::SeqCst);
}

/// How many there were so far.
pub fn count_all() -> u64 {
    ALL_COUNT.load(Ordering::SeqCst)
}

/// They count no more.
pub fn end_all() {
    ALL.store(false, Ordering::SeqCst);
}
