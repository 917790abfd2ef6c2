//! The pool as a whole: classes, guarantees, exhaustion, threads, and a model it is compared with.

use super::*;
use std::collections::HashMap;

/// The block of a batch of the default size.
const LARGE: usize = 1 << 20;

fn pool(terms: &[Term], shared: usize, control_blocks: usize) -> BufferPool {
    let memory = Memory::Map { prefault: false };
    BufferPool::new(PoolConfig { guaranteed: terms, shared, control_blocks, memory }).unwrap()
}

fn term(size: usize, blocks: usize) -> Term {
    Term { why: "test", size, blocks }
}

fn random(x: &mut u64) -> u64 {
    *x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *x >> 33
}

#[test]
fn every_class_holds_its_power_of_two_and_a_64th() {
    let terms: Vec<Term> = (0..CLASSES).map(|k| term(MIN_BLOCK << k, 1)).collect();
    let pool = pool(&terms, 0, 0);
    assert_eq!(pool.largest(), MAX_BLOCK + MAX_BLOCK / 64);
    for k in 0..CLASSES {
        let size = MIN_BLOCK << k;
        let mut lease = pool.lease(size + size / 64, Priority::Data).unwrap();
        assert_eq!(lease.len(), size + size / 64);
        assert_eq!(lease.as_ptr() as usize % 64, 0);
        let last = lease.len() - 1;
        (lease[0], lease[last]) = (1, 2);
        assert_eq!(pool.in_use(), lease.len());
        // Its class had one block and nothing is shared.
        assert!(pool.lease(size, Priority::Data).is_none());
        drop(lease);
        assert_eq!((pool.in_use(), pool.leases(), pool.returns()), (0, 0, k as u64 + 1));
    }
    assert!(pool.lease(pool.largest() + 1, Priority::Control).is_none());
    assert!(pool.refusals() > 0);
}

#[test]
fn classes_of_sizes() {
    assert_eq!(block_for(0), Some(4160));
    assert_eq!(block_for(4160), Some(4160));
    assert_eq!(block_for(4161), Some(8320));
    assert_eq!(block_for(16 << 10), Some(16640));
    assert_eq!(block_for(16641), Some(33280));
    assert_eq!(block_for(1 << 20), Some((1 << 20) + (16 << 10)));
    assert_eq!(block_for(MAX_BLOCK + MAX_BLOCK / 64), Some(MAX_BLOCK + MAX_BLOCK / 64));
    assert_eq!(block_for(MAX_BLOCK + MAX_BLOCK / 64 + 1), None);
}

#[test]
fn the_largest_is_what_the_shape_allows() {
    assert_eq!(pool(&[], 3 * UNIT, 0).largest(), 2 * UNIT);
    assert_eq!(pool(&[term(1, 1)], 0, 0).largest(), UNIT);
    assert_eq!(pool(&[term(16 << 10, 1)], UNIT, 0).largest(), 4 * UNIT);
    // A larger one is there now, but nobody may rely on it.
    assert_eq!(pool(&[term(16 << 10, 1)], 64 * UNIT, 0).largest(), 4 * UNIT);
}

#[test]
fn exhaustion_is_an_answer_and_ends_with_a_return() {
    let pool = pool(&[term(1, 2)], 2 * UNIT, 0);
    let mut out: Vec<Lease> = (0..4).map(|_| pool.lease(1, Priority::Data).unwrap()).collect();
    assert!(pool.lease(1, Priority::Data).is_none());
    assert_eq!(pool.in_use(), pool.total());
    let before = pool.returns();
    out.pop();
    assert_ne!(pool.returns(), before);
    assert!(pool.lease(1, Priority::Data).is_some());
}

#[test]
fn the_reserve_is_for_control_only() {
    let pool = pool(&[term(4 * UNIT, 3)], UNIT, 2);
    let shared = pool.lease(1, Priority::Data).unwrap();
    assert!(pool.lease(1, Priority::Data).is_none(), "data takes no guaranteed block of others");
    let _first = pool.lease(4 * UNIT, Priority::Data).unwrap();
    assert!(pool.lease(4 * UNIT, Priority::Data).is_none());
    let small = pool.lease(10, Priority::Control).unwrap();
    assert_eq!(small.len(), 4 * UNIT, "control of a class without blocks gets the reserve's");
    assert!(pool.lease(4 * UNIT, Priority::Control).is_some());
    drop(shared);
    assert_eq!(pool.lease(10, Priority::Control).unwrap().len(), UNIT);
}

#[test]
fn guarantees_hold_while_small_blocks_are_pinned_at_random() {
    let pool = pool(&[term(LARGE, 4), term(64 << 10, 8), term(1, 16)], 8 << 20, 8);
    let mut x = 11;
    let mut out = Vec::new();
    while let Some(lease) = pool.lease(1, Priority::Data) {
        out.push(lease);
    }
    // Pin 5 % of the bytes in blocks that lie anywhere.
    let pinned = pool.total() / 20 / UNIT;
    while out.len() > pinned {
        let at = random(&mut x) as usize % out.len();
        drop(out.swap_remove(at));
    }
    let large: Vec<_> = (0..4).map(|_| pool.lease(LARGE, Priority::Data)).collect();
    assert!(large.iter().all(Option::is_some));
    let mut middle = 0;
    let mut held = Vec::new();
    while let Some(lease) = pool.lease(64 << 10, Priority::Data) {
        held.push(lease);
        middle += 1;
    }
    assert!(middle >= 8, "{middle}");
    drop((out, large, held));
    assert_eq!(pool.in_use(), 0);
    let whole: Vec<_> = core::iter::from_fn(|| pool.lease(LARGE, Priority::Data)).collect();
    assert_eq!(whole.len(), 4 + 7, "the shared part merges back to whole chunks");
}

#[test]
fn a_shared_block_goes_home_with_its_last_view() {
    let pool = pool(&[], UNIT, 0);
    let mut lease = pool.lease(1, Priority::Data).unwrap();
    lease[..5].copy_from_slice(b"hello");
    let whole = lease.share(5);
    let mut part = whole.slice(1..4);
    let nothing = whole.slice(5..5);
    let again = part.clone();
    drop(whole);
    assert_eq!((&*part, &*again, &*nothing), (&b"ell"[..], &b"ell"[..], &b""[..]));
    part.skip(2);
    assert_eq!(&*part, b"l");
    drop(again);
    assert_eq!(pool.leases(), 1);
    let bytes = bytes::Bytes::from(part);
    assert_eq!(&bytes[..], b"l");
    assert_eq!(pool.leases(), 1);
    drop(bytes);
    assert_eq!(pool.leases(), 0);
    assert!(nothing.is_empty());
    assert!(pool.lease(1, Priority::Data).unwrap().share(0).is_empty());
    assert_eq!(pool.leases(), 0);
}

#[test]
fn an_append_block_shows_only_what_is_published() {
    let pool = pool(&[], UNIT, 0);
    let mut block = pool.lease(1, Priority::Data).unwrap().into_append();
    assert_eq!((block.len(), block.capacity(), block.is_unique()), (0, UNIT, true));
    block.spare()[..3].copy_from_slice(b"abc");
    assert_eq!(block.published(), b"");
    block.publish(3);
    let mut view = block.share(1..3);
    assert!(!block.is_unique());
    assert!(!block.reset());
    let spare = block.spare_at_most(2);
    spare.copy_from_slice(b"de");
    assert_eq!(&*view, b"bc");
    assert!(!block.extend(&mut view, 3..5), "not published yet");
    block.publish(2);
    assert!(!block.extend(&mut view, 4..5), "not adjacent");
    assert!(block.extend(&mut view, 3..5));
    assert_eq!(&*view, b"bcde");
    let mut other = view.slice(0..1);
    assert!(block.extend(&mut other, 2..3));
    assert!(!block.extend(&mut SharedLease::empty(), 0..1), "of another block");
    assert_eq!(&*other, b"bc");
    assert!(!block.compact(3), "views are out");
    drop((view, other));
    assert!(block.compact(3));
    assert_eq!(block.published(), b"de");
    assert!(block.reset());
    assert!(block.is_empty());
    block.publish(UNIT);
    assert_eq!(block.room(), 0);
    let view = block.into_shared(0..2);
    assert_eq!((pool.leases(), view.len()), (1, 2));
    drop(view);
    assert_eq!(pool.leases(), 0);
}

#[test]
#[should_panic(expected = "not published")]
fn sharing_beyond_what_is_published_panics() {
    let pool = pool(&[], UNIT, 0);
    let mut block = pool.lease(1, Priority::Data).unwrap().into_append();
    block.publish(4);
    block.share(2..5);
}

#[test]
fn blocks_outlive_the_handle_and_come_home_on_other_threads() {
    let pool = pool(&[term(1, 8)], 16 * UNIT, 0);
    let mut block = pool.lease(1, Priority::Data).unwrap().into_append();
    let threads: Vec<_> = (0..4u8)
        .map(|i| {
            block.spare()[0] = i;
            block.publish(1);
            let view = block.share(i as usize..i as usize + 1);
            let pool = pool.clone();
            std::thread::spawn(move || {
                for _ in 0..if cfg!(miri) { 20 } else { 2_000 } {
                    let mut mine = pool.lease(100, Priority::Data).unwrap();
                    mine.fill(i);
                    let copy = mine.share(100).clone();
                    assert!(copy.iter().all(|b| *b == i));
                }
                view[0]
            })
        })
        .collect();
    let weak = Arc::downgrade(&pool.inner);
    drop(pool);
    for (i, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap() as usize, i);
    }
    assert!(weak.upgrade().is_some(), "a block that is out keeps the pool");
    drop(block);
    assert!(weak.upgrade().is_none());
}

#[test]
fn the_callers_memory_is_used_and_given_back_once() {
    static RELEASED: AtomicU32 = AtomicU32::new(0);
    extern "C" fn release(context: *mut core::ffi::c_void) {
        RELEASED.fetch_add(context as usize as u32, Ordering::SeqCst);
    }
    let mut memory = vec![0u8; 3 * UNIT + ALIGNMENT].into_boxed_slice();
    let lend = |memory: &mut [u8]| {
        let start = core::ptr::NonNull::new(memory.as_mut_ptr()).unwrap();
        let context = core::ptr::without_provenance_mut(1);
        lend(start, memory.len(), Some((release, context)))
    };
    let config = |memory| PoolConfig {
        guaranteed: &[],
        shared: 3 * UNIT,
        control_blocks: 0,
        memory: Memory::Caller(memory),
    };
    let short = lend(&mut memory[..2 * UNIT]);
    assert!(matches!(BufferPool::new(config(short)), Err(Error::Invalid(_))));
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);
    let lent = lend(&mut memory);
    let range = lent.range();
    let pool = BufferPool::new(config(lent)).unwrap();
    let lease = pool.lease(2 * UNIT, Priority::Data).unwrap();
    assert!(range.contains(&(lease.as_ptr() as usize)));
    drop(pool);
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);
    drop(lease);
    assert_eq!(RELEASED.load(Ordering::SeqCst), 2);
}

const ALIGNMENT: usize = 64;

#[expect(unsafe_code, reason = "lends a test's memory")]
fn lend(
    start: core::ptr::NonNull<u8>,
    len: usize,
    release: Option<(Release, *mut core::ffi::c_void)>,
) -> CallerMemory {
    // SAFETY: the test keeps the memory until the pool is gone and does not touch it meanwhile.
    unsafe { CallerMemory::new(start, len, release) }
}

/// How many bytes of a lease's pages are in memory.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "mincore is asked about an address")]
fn resident(lease: &Lease) -> usize {
    const PAGE: usize = 4096;
    let from = lease.as_ptr() as usize / PAGE * PAGE;
    let mut pages = vec![0u8; (lease.as_ptr() as usize + lease.len() - from).div_ceil(PAGE)];
    let start = from as *mut libc::c_void;
    // SAFETY: it reads no memory, and there is a byte of room for each page it tells of.
    let code = unsafe { libc::mincore(start, pages.len() * PAGE, pages.as_mut_ptr().cast()) };
    assert_eq!(code, 0, "pages of other than {PAGE} bytes");
    pages.iter().filter(|page| **page & 1 != 0).count() * PAGE
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn prefault_touches_and_the_default_does_not() {
    for prefault in [true, false] {
        let memory = Memory::Map { prefault };
        let config = PoolConfig { guaranteed: &[], shared: LARGE, control_blocks: 0, memory };
        let pool = BufferPool::new(config).unwrap();
        let lease = pool.lease(LARGE / 2, Priority::Data).unwrap();
        let there = resident(&lease);
        if prefault {
            assert!(there >= lease.len(), "{there} bytes of {}", lease.len());
        } else {
            assert!(there <= lease.len() / 16, "{there} bytes of {}", lease.len());
        }
        assert!(lease.iter().all(|b| *b == 0));
    }
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let shape = |terms: &[Term], shared, control_blocks| {
        let memory = Memory::Map { prefault: false };
        BufferPool::new(PoolConfig { guaranteed: terms, shared, control_blocks, memory }).err()
    };
    assert!(matches!(shape(&[], 0, 0), Some(Error::Invalid(_))));
    assert!(matches!(shape(&[term(1, 1)], 0, 2), Some(Error::Invalid(_))));
    assert!(matches!(shape(&[], UNIT, 1), Some(Error::Invalid(_))));
    assert!(matches!(shape(&[term(2 * MAX_BLOCK, 1)], 0, 0), Some(Error::Invalid(_))));
}

/// Random leases, views and drops beside a model: contents never change under a view, the counts
/// agree, and what the model says must be had is had.
#[test]
fn agrees_with_a_model() {
    let terms = [term(1, 3), term(16 << 10, 2), term(LARGE, 1)];
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        let pool = pool(&terms, 40 * UNIT, 1);
        let mut x = seed;
        let mut views: HashMap<u64, (SharedLease, u8)> = HashMap::new();
        let mut blocks: Vec<(AppendBlock, u8)> = Vec::new();
        for step in 0..if cfg!(miri) { 300 } else { 4_000u64 } {
            match random(&mut x) % 5 {
                0 => {
                    let size = 1usize << (random(&mut x) % 18);
                    if let Some(lease) = pool.lease(size, Priority::Data) {
                        assert!(lease.len() >= size);
                        blocks.push((lease.into_append(), random(&mut x) as u8));
                    }
                }
                1 => {
                    let Some((block, byte)) = blocks.last_mut() else { continue };
                    let n = (random(&mut x) as usize % 500).min(block.room());
                    block.spare_at_most(n).fill(*byte);
                    block.publish(n);
                    views.insert(step, (block.share(0..block.len()), *byte));
                }
                2 => {
                    let Some((view, byte)) = views.values().next() else { continue };
                    let from = random(&mut x) as usize % (view.len() + 1);
                    let entry = (view.slice(from..view.len()), *byte);
                    views.insert(step, entry);
                }
                3 => drop(blocks.pop()),
                _ => {
                    let Some(key) = views.keys().next().copied() else { continue };
                    let (view, byte) = views.remove(&key).unwrap();
                    assert!(view.iter().all(|b| *b == byte));
                }
            }
        }
        assert!(pool.in_use() <= pool.total());
        blocks.clear();
        views.clear();
        assert_eq!((pool.in_use(), pool.leases()), (0, 0));
    }
}

#[test]
fn records_leave_room_for_frames() {
    let terms = [Term { why: "test", size: UNIT, blocks: 8 }];
    let pool = pool(&terms, 16 * UNIT, 2);
    let records = core::iter::from_fn(|| pool.lease(UNIT, Priority::Records)).collect::<Vec<_>>();
    assert_eq!(records.len(), 12 + 4, "three quarters of the shared, half of the guaranteed");
    let frames = core::iter::from_fn(|| pool.lease(UNIT, Priority::Data)).collect::<Vec<_>>();
    assert_eq!(frames.len(), 4 + 2, "the rest but for the reserve");
    drop(records);
    let again = core::iter::from_fn(|| pool.lease(UNIT, Priority::Records)).collect::<Vec<_>>();
    assert_eq!(again.len(), 12 - 4 + 4 - 2, "what frames hold counts too");
}
