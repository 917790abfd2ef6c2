//! ForkMark: tells a process from the child it forked. A child has copies of descriptors that still
//! act on the parent's epoll and sockets; whoever uses them must notice.
//!
//! Linux: a page that the kernel hands a child empty. Elsewhere: the process's number.
#![expect(unsafe_code, reason = "maps a page with a rule of its own")]

use core::ptr::NonNull;

/// Made by one process; says so in a child of it. One byte is read for that, and no call made.
#[derive(Debug)]
pub(crate) struct ForkMark {
    page: Option<NonNull<u8>>,
    process: u32,
}

// SAFETY: the page is written once, before the value is there, and only read afterwards.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

/// The kernel rounds up to a page.
#[cfg(all(target_os = "linux", not(miri)))]
const LEN: usize = 1;

impl ForkMark {
    pub(crate) fn new() -> ForkMark {
        ForkMark { page: page(), process: std::process::id() }
    }

    /// Whether this is a child of the process that made it.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        match self.page {
            // SAFETY: mapped in `page`, for as long as this value lives. Volatile, because a fork
            // changes it behind the compiler's back.
            Some(page) => unsafe { page.as_ptr().read_volatile() == 0 },
            None => std::process::id() != self.process,
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn page() -> Option<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let anywhere = core::ptr::null_mut();
    // SAFETY: a new private mapping touches no memory that exists.
    let at = unsafe { libc::mmap(anywhere, LEN, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    let page = NonNull::new(at.cast::<u8>())?;
    // SAFETY: the mapping is this function's own.
    if unsafe { libc::madvise(at, LEN, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above; nobody knows of it.
        unsafe { libc::munmap(at, LEN) };
        return None;
    }
    // SAFETY: as above, and writable.
    unsafe { page.as_ptr().write(1) };
    Some(page)
}

#[cfg(any(not(target_os = "linux"), miri))]
fn page() -> Option<NonNull<u8>> {
    None
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Some(page) = self.page {
            // SAFETY: mapped in `page`, and used by nobody after this.
            unsafe { libc::munmap(page.as_ptr().cast(), LEN) };
        }
    }
}
