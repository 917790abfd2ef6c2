//! What mio and std lack: socket options, `sendmsg` without SIGPIPE, level-triggered eventfd and
//! timerfd, signal masks and affinity of threads, the numbers of interfaces.

pub(super) mod interface;
pub(super) mod level;
pub(super) mod socket;
pub(crate) mod threads;
