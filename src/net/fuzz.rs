//! What the fuzz target of the framing calls: any bytes, in pieces of any size, through a socket into
//! a receive. What comes out is held against the bytes themselves.
//!
//! Compiled for tests and for the fuzzer only.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

use super::pool::{MIN_BLOCK, Memory, PoolConfig, Term, block_for};
use super::receive::{Reading, Receive, Received};
use super::{BufferPool, ChannelOptions, CloseReason, Owner, SharedLease};
use core::time::Duration;
use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The longest stream that is made of an input.
const LONGEST: usize = 256 << 10;
/// Limits of a frame: none, small, about the first block's size, about what is read in bulk.
const LIMITS: [usize; 7] = [0, 7, 1000, MIN_BLOCK, 5000, 20_000, 128 << 10];

/// A receive, the socket it reads, and the stream that its frames are held against.
struct Run<'a> {
    receive: Receive,
    pool: BufferPool,
    reader: UnixStream,
    stream: &'a [u8],
    max: usize,
    first: usize,
    /// Bytes of the stream that were written, and that came out as frames with their sizes.
    sent: usize,
    taken: usize,
    /// Bytes that a turn may read.
    budget: usize,
    /// Frames that the owner has not dropped, and how many it keeps: they hold their blocks.
    kept: VecDeque<SharedLease>,
    keep: usize,
}

/// Receives `bytes` as frames. The first four pick the limit and the first block, the pieces they
/// arrive in, the budget of a turn, and how many frames are kept.
pub fn fuzz_frame(bytes: &[u8]) {
    let &[limits, piece, budget, keep, ref body @ ..] = bytes else { return };
    let stream = stream(body);
    // However long the stream, it takes some hundred calls at most.
    let least = stream.len() / 256 + 1;
    let (mut writer, reader) = UnixStream::pair().expect("a pair of sockets");
    reader.set_nonblocking(true).expect("a socket that does not block");
    let max = LIMITS[usize::from(limits) % LIMITS.len()];
    let first = if limits < 128 { MIN_BLOCK } else { 4 * MIN_BLOCK };
    let options = ChannelOptions {
        owner: Owner(0),
        receive_max: max,
        receive_first: first,
        max_idle: Duration::ZERO,
        send_buffer: None,
        receive_buffer: None,
    };
    let pool = pool();
    let mut run = Run {
        receive: Receive::new(&options, &pool),
        pool,
        reader,
        stream: &stream,
        max,
        first: block_for(first).expect("a class of the pool"),
        sent: 0,
        taken: 0,
        budget: least + usize::from(budget) * 50,
        kept: VecDeque::new(),
        keep: usize::from(keep) % 16,
    };
    let sizes = [1, 3, 1 + usize::from(piece), 1 + 40 * usize::from(piece), 5000];
    for size in sizes.into_iter().cycle() {
        let end = (run.sent + size.max(least)).min(stream.len());
        if run.sent == end {
            break;
        }
        writer.write_all(&stream[run.sent..end]).expect("a peer that reads");
        run.sent = end;
        run.receive.set_readable(false);
        if run.until_dry().is_some() {
            return run.end();
        }
    }
    drop(writer);
    run.receive.set_readable(true);
    assert!(run.until_dry() == Some(CloseReason::PeerClosed), "an end that was not seen");
    run.end();
}

/// The bytes of an input, where `0xfe n` stands for 64 n bytes: so short inputs make long frames.
fn stream(body: &[u8]) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), body.iter());
    while let Some(byte) = bytes.next()
        && out.len() < LONGEST
    {
        match (byte, bytes.as_slice().first()) {
            (0xfe, Some(n)) => {
                bytes.next();
                let from = out.len();
                out.extend((0..usize::from(*n) * 64).map(|i| (from + i) as u8 ^ (i >> 8) as u8));
            }
            _ => out.push(*byte),
        }
    }
    out
}

/// Little memory: frames that are kept use it up.
fn pool() -> BufferPool {
    let term = |size, blocks| Term { why: "fuzzing", size, blocks };
    let guaranteed = [term(MIN_BLOCK, 2), term(4 * MIN_BLOCK, 1), term(128 << 10, 2)];
    let memory = Memory::Map { prefault: false };
    let config =
        PoolConfig { guaranteed: &guaranteed, shared: 64 * MIN_BLOCK, control_blocks: 0, memory };
    BufferPool::new(config).expect("a pool")
}

impl Run<'_> {
    /// Takes frames until the socket is dry or the receive ends, which says why.
    fn until_dry(&mut self) -> Option<CloseReason> {
        let mut reading = Reading { budget: self.budget, ..Reading::default() };
        loop {
            match self.receive.next(self.reader.as_raw_fd(), &self.pool, &mut reading) {
                Received::Frame(frame) => self.take(frame),
                Received::Dry => {
                    assert_eq!(self.expected(), None, "a frame that was not handed out");
                    self.check_memory();
                    return None;
                }
                Received::OverBudget => {
                    assert_eq!(reading.bytes as usize, self.budget);
                    reading = Reading { budget: self.budget, ..Reading::default() };
                }
                Received::NoMemory => {
                    assert!(!self.kept.is_empty(), "it starves with all memory to itself");
                    self.kept.clear();
                }
                Received::Ended(reason) => {
                    self.check_end(reason);
                    return Some(reason);
                }
            }
        }
    }

    /// The four size bytes that come next, if they were written.
    fn size(&self) -> Option<[u8; 4]> {
        self.stream[self.taken..self.sent].first_chunk().copied()
    }

    /// The frame that is next, if it is legal and was wholly written.
    fn expected(&self) -> Option<&[u8]> {
        let size = u32::from_be_bytes(self.size()?) as usize;
        if size > self.max { None } else { self.stream[self.taken + 4..self.sent].get(..size) }
    }

    fn take(&mut self, frame: SharedLease) {
        let expected = self.expected().expect("a frame that is in the stream");
        assert!(*frame == *expected, "a frame of other bytes");
        self.taken += 4 + frame.len();
        self.kept.push_back(frame);
        while self.kept.len() > self.keep {
            self.kept.pop_front();
        }
    }

    /// The invariant of a receive that waits; with frames kept there may be no smaller block.
    fn check_memory(&self) {
        let most = 8 * (self.sent - self.taken) + self.first;
        let held = self.receive.held();
        assert!(self.keep > 0 || held <= most, "{held} bytes held, and {most} may be");
    }

    fn check_end(&self, reason: CloseReason) {
        let size = self.size();
        let right = match (reason, size) {
            (CloseReason::PeerClosed, _) => {
                let refused = size.is_some_and(|s| u32::from_be_bytes(s) as usize > self.max);
                self.sent == self.stream.len() && self.expected().is_none() && !refused
            }
            (CloseReason::Http, Some(s)) => s[..3].is_ascii() && s[0].is_ascii_uppercase(),
            (CloseReason::Tls, Some(s)) => s[..2] == [0x16, 0x03],
            (CloseReason::NegativeSize, Some(s)) => i32::from_be_bytes(s) < 0,
            (CloseReason::TooLarge(n), Some(s)) => {
                n == u32::from_be_bytes(s) && n as usize > self.max
            }
            _ => false,
        };
        assert!(right, "it ended with {reason:?} before {size:?}");
    }

    /// Nothing stays behind.
    fn end(mut self) {
        self.receive.discard();
        self.kept.clear();
        assert_eq!((self.pool.leases(), self.pool.in_use()), (0, 0));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// xorshift64*: the same inputs in every run.
    struct Rng(u64);

    impl Rng {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as usize % n
        }

        fn control(&mut self) -> Vec<u8> {
            (0..4).map(|_| self.below(256) as u8).collect()
        }
    }

    #[test]
    fn any_bytes() {
        let mut rng = Rng(1);
        for _ in 0..500 {
            let mut input = rng.control();
            let len = rng.below(200);
            // Sizes that can be are rare among random bytes.
            input.extend((0..len).map(|_| [0, 0, 0xfe, rng.below(256) as u8][rng.below(4)]));
            fuzz_frame(&input);
        }
    }

    /// Frames of all sizes up to the limits, and at the end, now and then, what is none.
    #[test]
    fn frames_and_what_is_none() {
        let ends: [&[u8]; 6] =
            [b"", b"GET / HTTP/1.1", &[0x16, 0x03, 1, 0, 5], &[0xff; 4], &[0x7f; 9], &[0, 0, 1]];
        let mut rng = Rng(2);
        for _ in 0..800 {
            let mut input = rng.control();
            let max = LIMITS[usize::from(input[0]) % LIMITS.len()];
            for _ in 0..rng.below(12) {
                // A size byte of 0xfe would not stand for itself.
                let size = rng.below(max + 1).min(1 << rng.below(18)) as u32;
                let size = if size.to_be_bytes().contains(&0xfe) { 1 } else { size };
                input.extend(size.to_be_bytes());
                for _ in 0..size / 64 / 255 {
                    input.extend([0xfe, 255]);
                }
                input.extend([0xfe, (size / 64 % 255) as u8]);
                input.extend((0..size % 64).map(|i| i as u8));
            }
            input.extend(ends[rng.below(ends.len())]);
            fuzz_frame(&input);
        }
    }
}
