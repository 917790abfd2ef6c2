//! What mio and std lack: socket options, `sendmsg` without SIGPIPE, level-triggered eventfd and
//! timerfd, signal masks and affinity of threads, the caller's errno, forks, numbers of interfaces.

pub(crate) mod errno;
pub(crate) mod fork_mark;
pub(super) mod interface;
pub(super) mod level;
pub(super) mod socket;
pub(crate) mod threads;
