//! A host for the selector's tests: it runs a turn only when the descriptor says so, as any host's
//! loop does, and watches the descriptor in two ways.
#![allow(dead_code, reason = "each test program uses its part")]

use kloop::logging::Logger;
use kloop::net::pool::{Memory, PoolConfig, Term};
use kloop::net::selector::{Selector, SelectorConfig};
use kloop::net::{
    BufferPool, ChannelOptions, ConnId, Notice, Owner, Selectable, SharedLease, TurnBudget,
};
use kloop::time::{Clock, Instant, SystemClock};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn pool(guaranteed: &[Term], shared: usize) -> BufferPool {
    let memory = Memory::Map { prefault: false };
    BufferPool::new(PoolConfig { guaranteed, shared, control_blocks: 0, memory }).unwrap()
}

pub fn options() -> ChannelOptions {
    ChannelOptions {
        owner: Owner(7),
        receive_max: 1 << 20,
        receive_first: 16 << 10,
        max_idle: Duration::ZERO,
        send_buffer: None,
        receive_buffer: None,
    }
}

pub fn config() -> SelectorConfig {
    SelectorConfig {
        max_channels: 64,
        max_listeners: 2,
        max_exchanges: 4,
        max_pieces: 4096,
        send_queue_max: 4 << 20,
        budget: TurnBudget::default(),
        logger: Logger::silent(),
    }
}

/// A selector, a clock, and an outer epoll that holds nothing but the selector's descriptor.
pub struct Host {
    pub selector: Selector,
    pub clock: SystemClock,
    pub turns: u64,
    /// What the owner would hand to `settle`.
    pub deadline: Option<Instant>,
    outer: OwnedFd,
}

impl Host {
    pub fn new(config: SelectorConfig, pool: BufferPool) -> Host {
        let selector = Selector::new(config, pool).unwrap();
        let outer = outer_epoll(selector.fd());
        Host { selector, clock: SystemClock::new(), turns: 0, deadline: None, outer }
    }

    pub fn usual() -> Host {
        Host::new(config(), pool(&[], 16 << 20))
    }

    /// Listens on a free port of 127.0.0.1.
    pub fn listen(&mut self, options: &ChannelOptions) -> SocketAddr {
        self.selector.listen(SocketAddr::from(([127, 0, 0, 1], 0)), 1024, options).unwrap().1
    }

    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Whether the descriptor is readable now; poll(2) and a level-triggered epoll must agree.
    pub fn readable(&self) -> bool {
        let polled = poll_fd(self.selector.fd(), 0);
        assert_eq!(polled, epoll_fd(&self.outer, 0), "poll and epoll disagree");
        polled
    }

    /// Waits for the descriptor; false after `limit`.
    pub fn await_readable(&self, limit: Duration) -> bool {
        epoll_fd(&self.outer, limit.as_millis() as i32)
    }

    /// One turn, without waiting.
    pub fn turn(&mut self, mut on: impl FnMut(&mut Selector, ConnId, Notice)) {
        self.turns += 1;
        let now = self.now();
        self.selector.wait(Some(now), now).unwrap();
        self.selector.take_posted();
        while let Some((conn, owner, notice)) = self.selector.next_notice(now) {
            assert_eq!(owner, Owner(7));
            on(&mut self.selector, conn, notice);
        }
        self.selector.flush();
        let (now, deadline) = (self.now(), self.deadline);
        self.selector.settle(false, deadline, now);
    }

    /// Runs turns, each only when the descriptor is readable, until `done` says so.
    pub fn run<T>(
        &mut self,
        mut on: impl FnMut(&mut Selector, ConnId, Notice),
        mut done: impl FnMut(&mut Selector) -> Option<T>,
    ) -> T {
        let end = self.now().after(PATIENCE);
        loop {
            if let Some(result) = done(&mut self.selector) {
                return result;
            }
            assert!(self.now() < end, "no end after {} turns", self.turns);
            assert!(
                self.await_readable(PATIENCE),
                "there is work, and the descriptor does not say so; {:?}",
                self.selector.counters()
            );
            self.turn(&mut on);
        }
    }

    /// Runs turns until the descriptor is quiet, at most `limit` of them.
    pub fn quieten(&mut self, limit: u64, mut on: impl FnMut(&mut Selector, ConnId, Notice)) {
        for _ in 0..limit {
            if !self.readable() {
                return;
            }
            self.turn(&mut on);
        }
        panic!("still readable after {limit} turns: {:?}", self.selector.counters());
    }

    /// Connects a peer to `at` and runs turns until it is accepted.
    pub fn accept(&mut self, at: SocketAddr) -> (ConnId, TcpStream) {
        let peer = TcpStream::connect(at).unwrap();
        peer.set_nodelay(true).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut accepted = None;
        while accepted.is_none() {
            assert!(self.await_readable(PATIENCE), "an accept is due");
            self.turn(|_, conn, notice| match notice {
                Notice::Accepted => accepted = Some(conn),
                Notice::Frames => {}
                other => panic!("{other:?}"),
            });
        }
        (accepted.unwrap(), peer)
    }
}

/// Takes all frames of a channel that can be had now.
pub fn take_frames(selector: &mut Selector, conn: ConnId, into: &mut VecDeque<SharedLease>) {
    while let Some(frame) = selector.next_frame(conn) {
        into.push_back(frame);
    }
}

/// Queues `payload` as one frame.
pub fn send(selector: &mut Selector, conn: ConnId, payload: &[u8], token: Option<u64>) {
    let mut builder = selector.begin_send(conn, payload.len()).unwrap();
    builder.scratch()[..payload.len()].copy_from_slice(payload);
    builder.advance(payload.len());
    selector.send(conn, builder, token).unwrap();
}

/// `payload` with its four size bytes.
pub fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(payload);
    frame
}

/// Reads one frame from a peer's side.
pub fn read_frame(peer: &mut TcpStream) -> Vec<u8> {
    let mut size = [0; 4];
    peer.read_exact(&mut size).unwrap();
    let mut payload = vec![0; u32::from_be_bytes(size) as usize];
    peer.read_exact(&mut payload).unwrap();
    payload
}

/// Writes all of `bytes` to a peer's side from another thread, so that it may block there.
pub fn write_apart(peer: &TcpStream, bytes: Vec<u8>) -> std::thread::JoinHandle<()> {
    let mut peer = peer.try_clone().unwrap();
    // A test that ends the channel early makes the rest fail, which is not the writer's business.
    std::thread::spawn(move || drop(peer.write_all(&bytes)))
}

/// Bytes that tell where they belong.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8).collect()
}

/// Closes with a reset: the peer's next read or write fails.
pub fn reset(peer: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let (level, option) = (libc::SOL_SOCKET, libc::SO_LINGER);
    let size = size_of::<libc::linger>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "std has no stable way to ask for a reset")]
    // SAFETY: the option lives through the call.
    let result = unsafe {
        libc::setsockopt(peer.as_raw_fd(), level, option, (&raw const linger).cast(), size)
    };
    assert_eq!(result, 0);
}

/// Runs one ignored test of this program in a process of its own.
pub fn in_a_child(test: &str) {
    let program = std::env::current_exe().unwrap();
    let child = std::process::Command::new(program)
        .args([test, "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    let error = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{:?}\n{text}\n{error}", child.status);
    assert!(text.contains("1 passed"), "{text}");
}

#[expect(unsafe_code, reason = "an epoll of the test's own")]
fn outer_epoll(inner: RawFd) -> OwnedFd {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    assert!(fd >= 0);
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: the event lives through the call.
    let result = unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, inner, &mut event) };
    assert_eq!(result, 0);
    // SAFETY: the descriptor is new.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[expect(unsafe_code, reason = "an epoll of the test's own")]
fn epoll_fd(outer: &OwnedFd, timeout_ms: i32) -> bool {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event, which lives through the call.
    unsafe { libc::epoll_wait(outer.as_raw_fd(), &mut event, 1, timeout_ms) == 1 }
}

#[expect(unsafe_code, reason = "std has no poll")]
pub fn poll_fd(fd: RawFd, timeout_ms: i32) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    unsafe { libc::poll(&mut entry, 1, timeout_ms) == 1 }
}
