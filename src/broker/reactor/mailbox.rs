//! Mailbox: what other threads leave for one processor, and what it tells them.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::Response;
use crate::broker::BrokerStats;
use crate::net::BufferPool;
use crate::net::selector::Waker;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::os::fd::OwnedFd;

/// Connections that wait for their processor at most; the acceptor holds the next one.
const SOCKETS: usize = 64;

/// One processor as other threads see it.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// Connections that the acceptor dealt.
    pub sockets: ArrayQueue<OwnedFd>,
    /// What handlers have done.
    pub responses: ArrayQueue<Response>,
    /// Partitions that were appended to.
    pub board: Board,
    /// Somebody waits for appends.
    pub awaits_appends: CachePadded<AtomicBool>,
    /// A request waits for a place in the channel.
    pub wants_room: CachePadded<AtomicBool>,
    /// What the processor counts.
    pub published: Published,
    /// The pool of its selector, which large answers come from.
    pub pool: BufferPool,
    /// Wakes it.
    pub waker: Waker,
}

impl Mailbox {
    /// An empty one, with places for so many responses.
    pub(super) fn new(responses: usize, partitions: usize, pool: BufferPool, waker: Waker) -> Self {
        Mailbox {
            sockets: ArrayQueue::new(SOCKETS),
            responses: ArrayQueue::new(responses.max(1)),
            board: Board::new(partitions),
            awaits_appends: CachePadded::new(AtomicBool::new(false)),
            wants_room: CachePadded::new(AtomicBool::new(false)),
            published: Published::default(),
            pool,
            waker,
        }
    }

    /// Leaves a response. There is a place, because a processor counts what it has handed over, and
    /// the host has no more requests than places.
    pub(super) fn respond(&self, response: Response) {
        let pushed = self.responses.push(response);
        debug_assert!(pushed.is_ok(), "more responses than requests on the way");
        self.waker.wake();
    }
}

/// A bit per partition that was appended to.
#[derive(Debug)]
pub(crate) struct Board {
    dirty: CachePadded<AtomicBool>,
    words: Box<[AtomicU64]>,
}

impl Board {
    fn new(partitions: usize) -> Self {
        Board {
            dirty: CachePadded::new(AtomicBool::new(false)),
            words: (0..partitions.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Notes an append. [`Board::smudge`] follows after the last one.
    pub(super) fn note(&self, partition: u32) {
        if let Some(word) = self.words.get(partition as usize / 64) {
            word.fetch_or(1 << (partition % 64), Ordering::SeqCst);
        }
    }

    /// Says that there are bits; whether nobody said so before.
    pub(super) fn smudge(&self) -> bool {
        !self.dirty.swap(true, Ordering::SeqCst)
    }

    /// Whether there are bits to take.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::SeqCst)
    }

    /// As [`Board::is_dirty`], and whoever takes the bits now need not be told again.
    pub(crate) fn take_dirty(&self) -> bool {
        self.is_dirty() && self.dirty.swap(false, Ordering::SeqCst)
    }

    /// Takes all bits.
    pub(crate) fn take(&self, mut each: impl FnMut(u32)) {
        for (word, at) in self.words.iter().zip(0u32..) {
            // A look first: most words are 0.
            if word.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::SeqCst);
            while bits != 0 {
                each(at * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

macro_rules! published {
    ($($field:ident),*) => {
        /// A processor's own counts, written once a turn.
        #[derive(Debug, Default)]
        pub(crate) struct Published {
            $($field: AtomicU64),*
        }

        impl Published {
            /// Writes them down.
            pub(crate) fn publish(&self, own: &BrokerStats) {
                $(self.$field.store(own.$field, Ordering::Relaxed);)*
            }

            /// Adds them to a sum.
            pub(super) fn add_to(&self, sum: &mut BrokerStats) {
                $(sum.$field += self.$field.load(Ordering::Relaxed);)*
            }
        }
    };
}

published!(connections, accepted, refused, requests, answers, parked, wakes, panics);

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_types, clippy::disallowed_macros)]

    use super::*;

    #[test]
    fn a_board_gives_each_partition_once() {
        let board = Board::new(200);
        assert!(!board.take_dirty());
        for partition in [0, 63, 64, 199, 64] {
            board.note(partition);
        }
        assert!(board.smudge());
        assert!(!board.smudge());
        assert!(board.take_dirty());
        assert!(!board.is_dirty());
        let mut taken = Vec::new();
        board.take(|partition| taken.push(partition));
        assert_eq!(taken, [0, 63, 64, 199]);
        board.take(|_| panic!("taken twice"));
    }
}
