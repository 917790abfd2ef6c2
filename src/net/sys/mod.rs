//! What mio and std lack: socket options, `sendmsg` without SIGPIPE, level-triggered eventfd and
//! timerfd.

pub(super) mod level;
pub(super) mod socket;
