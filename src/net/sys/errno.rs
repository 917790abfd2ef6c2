//! KeptErrno: the caller's `errno`, put back when kloop's work is done. A signal handler that posts
//! must not change it under the code it interrupted, and a host's loop may look at it later.
#![expect(unsafe_code, reason = "libc's errno has no safe setter")]

/// What `errno` was; it is that again when this is dropped.
#[derive(Debug)]
pub(crate) struct KeptErrno(libc::c_int);

impl KeptErrno {
    /// Reads it.
    pub(crate) fn new() -> KeptErrno {
        // SAFETY: the address is this thread's own and valid for the thread's life.
        KeptErrno(unsafe { *location() })
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        unsafe { *location() = self.0 };
    }
}

fn location() -> *mut libc::c_int {
    #[cfg(any(target_os = "linux", target_os = "dragonfly"))]
    // SAFETY: takes nothing and only gives an address.
    return unsafe { libc::__errno_location() };
    #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
    // SAFETY: as above.
    return unsafe { libc::__errno() };
    #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
    // SAFETY: as above.
    return unsafe { libc::__error() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_call_in_between_leaves_no_trace() {
        // SAFETY: an address of this thread's own.
        unsafe { *location() = 42 };
        let kept = KeptErrno::new();
        assert!(std::fs::File::open("/nowhere/at/all").is_err());
        // SAFETY: as above.
        assert_eq!(unsafe { *location() }, libc::ENOENT);
        drop(kept);
        // SAFETY: as above.
        assert_eq!(unsafe { *location() }, 42);
    }
}
