//! Arena: the one piece of memory that all blocks are cut from, mapped here or lent by the caller.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]
#![expect(unsafe_code, reason = "maps memory and takes the caller's by address")]

use crate::error::Error;
use core::ffi::c_void;
use core::ptr::NonNull;

/// Blocks begin on this boundary, so that two of them never share a cache line.
pub const ALIGN: usize = 64;

/// Called once, on whichever thread lets go last, when nothing uses the caller's memory any more.
pub type Release = unsafe extern "C" fn(context: *mut c_void);

/// Memory that belongs to the caller of the C API.
#[derive(Debug)]
pub struct CallerMemory {
    start: NonNull<u8>,
    len: usize,
    release: Option<(Release, *mut c_void)>,
}

// SAFETY: `CallerMemory::new` demands memory and a hook that any thread may use.
unsafe impl Send for CallerMemory {}
// SAFETY: as above; a shared reference gives out nothing but numbers.
unsafe impl Sync for CallerMemory {}

impl CallerMemory {
    /// Takes over `len` bytes at `start`; `release`, if given, is called with its context once the
    /// pool and all its leases are gone, also if no pool could be made of the memory.
    ///
    /// # Safety
    /// The bytes must be initialised, valid for reading and writing, and used by nobody else, until
    /// `release` is called (without one: for ever). Both may be used from any thread.
    pub unsafe fn new(
        start: NonNull<u8>,
        len: usize,
        release: Option<(Release, *mut c_void)>,
    ) -> Self {
        CallerMemory { start, len, release }
    }

    /// The addresses of the memory.
    pub fn range(&self) -> core::ops::Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + self.len
    }
}

impl Drop for CallerMemory {
    fn drop(&mut self) {
        if let Some((release, context)) = self.release.take() {
            // SAFETY: whoever made this value promised that the hook may be called once, here.
            unsafe { release(context) };
        }
    }
}

/// The memory under all blocks of a pool: `len` bytes from an aligned `base`.
#[derive(Debug)]
pub(super) struct Arena {
    base: NonNull<u8>,
    len: usize,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Mapped,
    #[expect(dead_code, reason = "kept for its drop, which calls the release hook")]
    Caller(CallerMemory),
}

// SAFETY: the arena is an address and a length; who may touch which bytes is the leases' business.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `len` bytes of zeroes, not touched unless `prefault`.
    pub(super) fn map(len: usize, prefault: bool) -> Result<Self, Error> {
        let base = sys::map(len, prefault).ok_or(Error::NoMemory)?;
        Ok(Arena { base, len, origin: Origin::Mapped })
    }

    /// Uses the first `len` bytes of `memory` from its first aligned address.
    pub(super) fn lent(memory: CallerMemory, len: usize) -> Result<Self, Error> {
        let skip = memory.start.align_offset(ALIGN);
        if skip.checked_add(len).is_none_or(|need| need > memory.len) {
            return Err(Error::Invalid("the caller's memory is smaller than the budget's total"));
        }
        // SAFETY: `skip` was just checked to lie inside of the caller's memory.
        let base = unsafe { memory.start.add(skip) };
        Ok(Arena { base, len, origin: Origin::Caller(memory) })
    }

    /// The address of the byte at `offset`, which is below the arena's length.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.len, "a block outside of the arena");
        // SAFETY: the pool's tables hold only offsets of blocks inside of the arena's length.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if matches!(self.origin, Origin::Mapped) {
            sys::unmap(self.base, self.len);
        }
    }
}

#[cfg(not(miri))]
mod sys {
    use core::ptr::{self, NonNull};

    pub(super) fn map(len: usize, prefault: bool) -> Option<NonNull<u8>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new private mapping touches no memory that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags(prefault), -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = NonNull::new(start.cast::<u8>())?;
        prepare(start, len, prefault);
        Some(start)
    }

    fn flags(prefault: bool) -> i32 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        #[cfg(target_os = "linux")]
        return flags | if prefault { libc::MAP_POPULATE } else { libc::MAP_NORESERVE };
        #[cfg(not(target_os = "linux"))]
        {
            let _ = prefault;
            flags
        }
    }

    /// A mapping that is to follow use must not come in huge pages: the first byte of a block would
    /// cost two megabytes.
    #[cfg(target_os = "linux")]
    fn prepare(start: NonNull<u8>, len: usize, prefault: bool) {
        if !prefault {
            // SAFETY: advice on a mapping that was just made; a refusal changes nothing.
            unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_NOHUGEPAGE) };
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn prepare(start: NonNull<u8>, len: usize, prefault: bool) {
        if prefault {
            // SAFETY: all bytes of the mapping are ours and writable; writing touches every page.
            unsafe { ptr::write_bytes(start.as_ptr(), 0, len) };
        }
    }

    pub(super) fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: the arena is dropped after its last lease, so nobody points into the mapping.
        unsafe { libc::munmap(start.as_ptr().cast(), len) };
    }
}

/// Miri knows no mappings: the same from the allocator.
#[cfg(miri)]
mod sys {
    use core::ptr::NonNull;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, super::ALIGN).ok()
    }

    pub(super) fn map(len: usize, _prefault: bool) -> Option<NonNull<u8>> {
        // SAFETY: the pool refuses a shape without a block, so the length is not zero.
        NonNull::new(unsafe { alloc_zeroed(layout(len)?) })
    }

    pub(super) fn unmap(start: NonNull<u8>, len: usize) {
        if let Some(layout) = layout(len) {
            // SAFETY: `map` allocated it with this very layout; nobody points into it any more.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}
