//! What std lacks on threads: a signal mask for new ones, and a processor to stay on.
#![expect(unsafe_code, reason = "system calls that std does not have")]

use std::io;

/// Runs `spawn` with all signals blocked in this thread, so that threads made in it never handle
/// one: the host's handlers run in the host's threads.
pub(crate) fn with_signals_blocked<R>(spawn: impl FnOnce() -> R) -> R {
    /// Gives the mask back, also when `spawn` panics.
    struct Before(libc::sigset_t);

    impl Drop for Before {
        fn drop(&mut self) {
            let none = core::ptr::null_mut();
            // SAFETY: the mask lives through the call, and the one before it is not asked for.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, none) };
        }
    }

    // SAFETY: a signal set is numbers, for which zero is a value.
    let mut all: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut before = Before(unsafe { core::mem::zeroed() });
    // SAFETY: the set lives through the call.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: both sets live through the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before.0) };
    spawn()
}

/// Keeps the calling thread on one processor.
///
/// # Errors
/// The system refuses, or has no such call.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn stay_on(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: a processor set is numbers, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the number was compared with the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set lives through the call, and its size is given.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps the calling thread on one processor.
///
/// # Errors
/// Always: the system has no such call.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn stay_on(_cpu: usize) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}
