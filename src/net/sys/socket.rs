//! What mio and std lack on sockets: options, a listener with a backlog, and output that never
//! raises SIGPIPE.
#![expect(unsafe_code, reason = "system calls that std and mio do not have")]

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Linux and the BSDs say it per call; Apple's systems say it per socket, in [`configure`].
#[cfg(not(target_vendor = "apple"))]
const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
const NO_SIGNAL: libc::c_int = 0;

/// What a stream socket is given at its birth.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::net) struct Options {
    pub(in crate::net) send_buffer: Option<usize>,
    pub(in crate::net) receive_buffer: Option<usize>,
}

/// Sends what it can of `bytes`.
pub(in crate::net) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    again(|| {
        // SAFETY: the bytes live through the call.
        unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), NO_SIGNAL) }
    })
}

/// Sends what it can of `pieces`, in order.
pub(in crate::net) fn send_pieces(fd: RawFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: a msghdr is numbers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    // `IoSlice` has the layout of an iovec, as std promises on Unix.
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len() as _;
    again(|| {
        // SAFETY: the message, its vectors and their bytes live through the call, which only reads.
        unsafe { libc::sendmsg(fd, &message, NO_SIGNAL) }
    })
}

/// Receives at most what `room` holds; 0 is the peer's close.
pub(in crate::net) fn receive(fd: RawFd, room: &mut [u8]) -> io::Result<usize> {
    again(|| {
        // SAFETY: the room is ours for the length of the call.
        unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), 0) }
    })
}

/// Says to the peer that nothing more follows, and throws away what has arrived: a socket that is
/// closed over unread bytes is reset, and the reset can overtake the last answer.
pub(in crate::net) fn finish(fd: RawFd) {
    // SAFETY: takes numbers only; a peer that is gone makes it fail, which changes nothing.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
    #[cfg(target_os = "linux")]
    for _ in 0..4 {
        // SAFETY: with `MSG_TRUNC` a TCP socket drops the bytes and writes nowhere.
        let n = unsafe { libc::recv(fd, core::ptr::null_mut(), 1 << 20, libc::MSG_TRUNC) };
        if n <= 0 {
            return;
        }
    }
}

fn again(mut call: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        if let Ok(n) = usize::try_from(call()) {
            return Ok(n);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A non-blocking listener at `at` with `SO_REUSEADDR`. What the sockets taken there inherit, which
/// is all of [`configure`] on Linux, is set on it.
pub(in crate::net) fn listen(
    at: SocketAddr,
    backlog: i32,
    options: Options,
) -> io::Result<TcpListener> {
    let family = if at.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = stream(family)?;
    let fd = socket.as_raw_fd();
    set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    configure(fd, options)?;
    bind(fd, at)?;
    // SAFETY: takes numbers only.
    checked(unsafe { libc::listen(fd, backlog) })?;
    Ok(TcpListener::from(socket))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn stream(family: i32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers only.
    let fd = checked(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn stream(family: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = checked(unsafe { libc::socket(family, libc::SOCK_STREAM, 0) })?;
    // SAFETY: takes numbers only.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    set_nonblocking(fd)?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the socket's calls return instead of waiting.
pub(in crate::net) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers only.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: takes numbers only.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Sets what every channel's socket has: no delay, keep-alive, the buffer sizes, and no SIGPIPE.
pub(in crate::net) fn configure(fd: RawFd, options: Options) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    #[cfg(target_vendor = "apple")]
    set(fd, libc::SOL_SOCKET, libc::SO_NOSIGPIPE, 1)?;
    let number = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
    if let Some(size) = options.send_buffer {
        set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, number(size))?;
    }
    if let Some(size) = options.receive_buffer {
        set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, number(size))?;
    }
    Ok(())
}

fn set(fd: RawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let size = size_of::<i32>() as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: the value lives through the call, and its size is given.
    checked(unsafe { libc::setsockopt(fd, level, option, value, size) })?;
    Ok(())
}

/// A socket that connects to `to` without waiting. The second value is what the attempt itself
/// said: an error of the way, not of the socket.
pub(in crate::net) fn connect(
    to: SocketAddr,
    options: Options,
) -> io::Result<(TcpStream, io::Result<()>)> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = stream(family)?;
    let fd = socket.as_raw_fd();
    configure(fd, options)?;
    let result = with_raw(to, |address, size| {
        // SAFETY: the address lives through the call, and its size is given.
        checked(unsafe { libc::connect(fd, address, size) })
    });
    let result = match result {
        // An interrupted connect goes on by itself.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
            Ok(())
        }
        other => other.map(|_| ()),
    };
    Ok((TcpStream::from(socket), result))
}

fn bind(fd: RawFd, at: SocketAddr) -> io::Result<()> {
    with_raw(at, |address, size| {
        // SAFETY: the address lives through the call, and its size is given.
        checked(unsafe { libc::bind(fd, address, size) })
    })?;
    Ok(())
}

/// Calls `f` with the address as the system writes it.
fn with_raw<R>(at: SocketAddr, f: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> R) -> R {
    match at {
        SocketAddr::V4(at) => {
            // SAFETY: a socket address is numbers, for which zero is a value.
            let mut raw: libc::sockaddr_in = unsafe { core::mem::zeroed() };
            raw.sin_family = libc::AF_INET as _;
            raw.sin_port = at.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(at.ip().octets());
            f((&raw const raw).cast(), size_of::<libc::sockaddr_in>() as _)
        }
        SocketAddr::V6(at) => {
            // SAFETY: a socket address is numbers, for which zero is a value.
            let mut raw: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
            raw.sin6_family = libc::AF_INET6 as _;
            raw.sin6_port = at.port().to_be();
            raw.sin6_flowinfo = at.flowinfo();
            raw.sin6_scope_id = at.scope_id();
            raw.sin6_addr.s6_addr = at.ip().octets();
            f((&raw const raw).cast(), size_of::<libc::sockaddr_in6>() as _)
        }
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
