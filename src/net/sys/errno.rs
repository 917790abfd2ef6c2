//! KeptErrno: the caller's `errno`, put back when kloop's work is done. A signal handler that posts
//! must not change it under the code it interrupted, and a host's loop may look at it later.
//! ErrnoText: what a number of `errno` means.
#![expect(unsafe_code, reason = "libc's errno has no safe setter, and its texts are C's")]

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

/// What a number of `errno` means, as `std::io::Error` says it. That one allocates, and a log line
/// about a lost connection must not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrnoText(pub(crate) i32);

impl core::fmt::Display for ErrnoText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut buf = [0u8; 128];
        // SAFETY: as many bytes as it says are writable; one stays zero, whatever is written.
        let failed = unsafe { libc::strerror_r(self.0, buf.as_mut_ptr().cast(), buf.len() - 1) };
        let text = core::ffi::CStr::from_bytes_until_nul(&buf).ok().and_then(|t| t.to_str().ok());
        match text {
            Some(text) if failed == 0 => write!(f, "{text} (os error {})", self.0),
            _ => write!(f, "os error {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_what_std_says() {
        for errno in [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::EMFILE] {
            let theirs = std::io::Error::from_raw_os_error(errno).to_string();
            assert_eq!(ErrnoText(errno).to_string(), theirs);
        }
        assert!(ErrnoText(-5).to_string().contains("os error -5"));
    }

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
