//! Signal, Alarm: two members of mio's poller that are level-triggered, so that the poller's own
//! descriptor stays readable until they are cleared (`mio::Waker` is edge-triggered and does not).
//!
//! Linux: an eventfd and a timerfd, added with `epoll_ctl`. Elsewhere: a pipe and a timer event,
//! added with `kevent`.
#![expect(unsafe_code, reason = "system calls that std and mio do not have")]

pub(in crate::net) use platform::{Alarm, Signal};

fn checked(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod platform {
    use super::checked;
    use core::time::Duration;
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    /// Readable from [`Signal::set`] to [`Signal::clear`]. An eventfd.
    #[derive(Debug)]
    pub(in crate::net) struct Signal(OwnedFd);

    impl Signal {
        pub(in crate::net) fn new(registry: &mio::Registry, token: mio::Token) -> io::Result<Self> {
            let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
            // SAFETY: takes numbers only.
            let fd = checked(unsafe { libc::eventfd(0, flags) })?;
            // SAFETY: the descriptor is new and nobody else's.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            watch(registry, &fd, token)?;
            Ok(Signal(fd))
        }

        /// From any thread and from signal handlers.
        pub(in crate::net) fn set(&self) {
            let one = 1u64.to_ne_bytes();
            // SAFETY: the eight bytes live through the call. It can fail only when the counter is
            // full, and then the descriptor is readable anyway.
            unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }

        pub(in crate::net) fn clear(&self) {
            read_counter(&self.0);
        }
    }

    /// Readable from the moment it was set for to [`Alarm::clear`]. A timerfd.
    #[derive(Debug)]
    pub(in crate::net) struct Alarm(OwnedFd);

    impl Alarm {
        pub(in crate::net) fn new(registry: &mio::Registry, token: mio::Token) -> io::Result<Self> {
            let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
            // SAFETY: takes numbers only.
            let fd = checked(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
            // SAFETY: the descriptor is new and nobody else's.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            watch(registry, &fd, token)?;
            Ok(Alarm(fd))
        }

        /// Fires once, `after` from now, instead of whenever it was set for.
        pub(in crate::net) fn set(&self, after: Duration) -> io::Result<()> {
            let spec = libc::itimerspec {
                it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: libc::timespec {
                    // 68 years are enough, and fit wherever seconds have 32 bits.
                    tv_sec: after.as_secs().min(i32::MAX as u64) as _,
                    // Zero would switch it off.
                    // Seconds and nanoseconds have 32 bits on some machines, 64 on others.
                    tv_nsec: after.subsec_nanos().max(u32::from(after.as_secs() == 0)) as _,
                },
            };
            let old = core::ptr::null_mut();
            // SAFETY: the specification lives through the call, and the old one is not asked for.
            checked(unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &spec, old) })?;
            Ok(())
        }

        pub(in crate::net) fn clear(&self) {
            read_counter(&self.0);
        }
    }

    fn read_counter(fd: &OwnedFd) {
        let mut count = [0u8; 8];
        // SAFETY: the eight bytes live through the call. It can fail only when there is nothing to
        // read, which is what the caller wants.
        unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    fn watch(registry: &mio::Registry, fd: &OwnedFd, token: mio::Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token.0 as u64 };
        let (poller, add) = (registry.as_raw_fd(), libc::EPOLL_CTL_ADD);
        // SAFETY: both descriptors are open, and the event lives through the call.
        checked(unsafe { libc::epoll_ctl(poller, add, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod platform {
    use super::checked;
    use core::time::Duration;
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

    /// Readable from [`Signal::set`] to [`Signal::clear`]. A pipe whose reading end is registered
    /// without `EV_CLEAR`.
    #[derive(Debug)]
    pub(in crate::net) struct Signal {
        reading: OwnedFd,
        writing: OwnedFd,
    }

    impl Signal {
        pub(in crate::net) fn new(registry: &mio::Registry, token: mio::Token) -> io::Result<Self> {
            let mut ends = [0; 2];
            // SAFETY: the array has room for the two descriptors.
            checked(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
            // SAFETY: the descriptor is new and nobody else's.
            let reading = unsafe { OwnedFd::from_raw_fd(ends[0]) };
            // SAFETY: as above.
            let writing = unsafe { OwnedFd::from_raw_fd(ends[1]) };
            for end in &ends {
                // SAFETY: takes numbers only.
                checked(unsafe { libc::fcntl(*end, libc::F_SETFD, libc::FD_CLOEXEC) })?;
                // SAFETY: takes numbers only.
                checked(unsafe { libc::fcntl(*end, libc::F_SETFL, libc::O_NONBLOCK) })?;
            }
            change(registry.as_raw_fd(), event(ends[0] as usize, libc::EVFILT_READ, token))?;
            Ok(Signal { reading, writing })
        }

        /// From any thread and from signal handlers.
        pub(in crate::net) fn set(&self) {
            // SAFETY: the byte lives through the call. It can fail only when the pipe is full, and
            // then it is readable anyway.
            unsafe { libc::write(self.writing.as_raw_fd(), [1u8].as_ptr().cast(), 1) };
        }

        pub(in crate::net) fn clear(&self) {
            let mut bytes = [0u8; 64];
            loop {
                let into = bytes.as_mut_ptr().cast();
                // SAFETY: the bytes live through the call.
                let n = unsafe { libc::read(self.reading.as_raw_fd(), into, bytes.len()) };
                if n < bytes.len() as isize {
                    return;
                }
            }
        }
    }

    /// Fires once into the poller. A timer event, which the poller deletes when it hands it out.
    #[derive(Debug)]
    pub(in crate::net) struct Alarm {
        poller: RawFd,
        token: mio::Token,
    }

    impl Alarm {
        pub(in crate::net) fn new(registry: &mio::Registry, token: mio::Token) -> io::Result<Self> {
            Ok(Alarm { poller: registry.as_raw_fd(), token })
        }

        /// Fires once, `after` from now, instead of whenever it was set for.
        pub(in crate::net) fn set(&self, after: Duration) -> io::Result<()> {
            let mut timer = event(self.token.0, libc::EVFILT_TIMER, self.token);
            timer.flags |= libc::EV_ONESHOT;
            // In milliseconds, the unit that every kqueue knows; rounded up, so never early.
            let milliseconds = after.as_nanos().div_ceil(1_000_000).max(1);
            timer.data = milliseconds.try_into().unwrap_or(i32::MAX as _);
            change(self.poller, timer)
        }

        pub(in crate::net) fn clear(&self) {}
    }

    fn event(ident: usize, filter: i16, token: mio::Token) -> libc::kevent {
        // SAFETY: a kevent is numbers and a pointer, for which zero is a value.
        let mut event: libc::kevent = unsafe { core::mem::zeroed() };
        event.ident = ident as _;
        event.filter = filter as _;
        event.flags = libc::EV_ADD as _;
        event.udata = token.0 as _;
        event
    }

    fn change(poller: RawFd, event: libc::kevent) -> io::Result<()> {
        let (none, no_timeout) = (core::ptr::null_mut(), core::ptr::null());
        // SAFETY: one change that lives through the call, and no room for events.
        checked(unsafe { libc::kevent(poller, &event, 1, none, 0, no_timeout) })?;
        Ok(())
    }
}
