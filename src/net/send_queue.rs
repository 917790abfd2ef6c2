//! SendQueue: the frames of a channel that wait to be written. Scratch bytes of neighbouring frames
//! share a block and become one piece, so that many small answers cost one vector of one call.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::pool::{AppendBlock, SharedLease};
use super::send::{Cancelled, Part, Pieces, SIZE, SendBuilder};
use super::sys::socket;
use crate::sync::Arc;
use core::ops::Range;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::RawFd;

/// No node.
const NONE: u32 = u32::MAX;
/// Nodes that one frame can need: scratch before, between and behind its shared pieces.
const NODES_PER_SEND: usize = 2 * SendBuilder::MAX_PIECES + 1;
/// Pieces in one system call.
const PIECES_PER_CALL: usize = 64;

/// What all channels of a selector queue in: one table of nodes, and piece lists to build with.
#[derive(Debug)]
pub(super) struct SendTable {
    nodes: Box<[Node]>,
    free: u32,
    free_len: usize,
    pieces: Box<[Option<Box<Pieces>>]>,
    pieces_len: usize,
    /// Builders given out and not queued; those that were cancelled are counted in there.
    building: usize,
    cancelled: Arc<Cancelled>,
}

#[derive(Debug)]
struct Node {
    view: SharedLease,
    token: u64,
    next: u32,
    has_token: bool,
}

impl SendTable {
    /// Room for `max_pieces` queued pieces and `builders` frames in the making.
    pub(super) fn new(max_pieces: usize, builders: usize) -> Self {
        // What one frame in the making reserves comes on top.
        let count = max_pieces + NODES_PER_SEND;
        let next = |i: usize| if i + 1 < count { i as u32 + 1 } else { NONE };
        let node =
            |i| Node { view: SharedLease::empty(), token: 0, next: next(i), has_token: false };
        let cancelled = Cancelled::new(builders);
        let pieces = |_| Some(Box::new(Pieces::new(Arc::downgrade(&cancelled))));
        SendTable {
            nodes: (0..count).map(node).collect(),
            free: 0,
            free_len: count,
            pieces: (0..builders).map(pieces).collect(),
            pieces_len: builders,
            building: 0,
            cancelled,
        }
    }

    /// Bytes of a table of this shape.
    pub(super) const fn bytes(max_pieces: usize, builders: usize) -> usize {
        // A piece list, a place for it here, and one among the cancelled.
        let builder =
            size_of::<Pieces>() + size_of::<Option<Box<Pieces>>>() + 2 * size_of::<usize>();
        (max_pieces + NODES_PER_SEND) * size_of::<Node>() + builders * builder
    }

    /// Whether another frame can be begun and then surely be queued.
    pub(super) fn has_room(&self) -> bool {
        let building = self.building - self.cancelled.count();
        self.free_len >= NODES_PER_SEND * (building + 1) && building < self.pieces.len()
    }

    /// A piece list for a frame to build; `None` if too many are being built, or the nodes are
    /// used up.
    pub(super) fn begin(&mut self) -> Option<Box<Pieces>> {
        if !self.has_room() {
            return None;
        }
        let pieces = match self.pieces_len.checked_sub(1) {
            Some(last) => {
                self.pieces_len = last;
                self.pieces[last].take()
            }
            None => self.cancelled.take(),
        };
        self.building += usize::from(pieces.is_some());
        pieces
    }

    /// Takes a piece list back, of a frame that was queued or not begun after all.
    pub(super) fn end(&mut self, pieces: Box<Pieces>) {
        // Of a builder that this table did not make there is nothing to take back.
        if pieces.is_of(&self.cancelled) {
            self.building -= 1;
            if let Some(place) = self.pieces.get_mut(self.pieces_len) {
                *place = Some(pieces);
                self.pieces_len += 1;
            }
        }
    }

    fn take_node(&mut self, view: SharedLease) -> u32 {
        let index = self.free;
        debug_assert!(index != NONE, "a frame was begun without nodes for it");
        let Some(node) = self.nodes.get_mut(index as usize) else { return NONE };
        self.free = node.next;
        self.free_len -= 1;
        *node = Node { view, token: 0, next: NONE, has_token: false };
        index
    }

    fn give_node(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        node.view = SharedLease::empty();
        node.next = self.free;
        self.free = index;
        self.free_len += 1;
    }
}

/// What came of writing a channel's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Nothing is left.
    All,
    /// The socket takes no more; an edge will tell when it does.
    Blocked,
    /// The socket failed; `errno`.
    Failed(i32),
}

/// What writing costs, for the selector's counters.
#[derive(Debug, Default)]
pub(super) struct Writing {
    pub(super) calls: u64,
    pub(super) bytes: u64,
}

/// The sends of one channel: lists of nodes in the selector's [`SendTable`].
#[derive(Debug)]
pub(super) struct SendQueue {
    head: u32,
    tail: u32,
    /// Nodes that are written and whose token was not handed out.
    sent_head: u32,
    sent_tail: u32,
    /// Bytes queued and not written.
    bytes: usize,
    /// The block that the next frame's scratch goes to, unless a builder has it.
    scratch: Option<AppendBlock>,
    /// Bytes of the next scratch block.
    scratch_bytes: u32,
}

/// The bounds of a scratch block that is not asked to be larger.
const SCRATCH_MIN: u32 = 4096 + 64;
const SCRATCH_MAX: u32 = SCRATCH_MIN << 4;

impl SendQueue {
    pub(super) const fn new() -> Self {
        SendQueue {
            head: NONE,
            tail: NONE,
            sent_head: NONE,
            sent_tail: NONE,
            bytes: 0,
            scratch: None,
            scratch_bytes: SCRATCH_MIN,
        }
    }

    /// Bytes queued and not written.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The block in use, if it has room for a frame with `room` scratch bytes. Otherwise the bytes
    /// the next block should have.
    pub(super) fn take_scratch(&mut self, room: usize) -> Result<AppendBlock, usize> {
        let need = room + SIZE;
        if let Some(mut block) = self.scratch.take() {
            if block.room() >= need || (block.reset() && block.capacity() >= need) {
                return Ok(block);
            }
            // Full before it was written: frames come faster than one block a turn.
            self.scratch_bytes = (self.scratch_bytes * 2).min(SCRATCH_MAX);
        }
        Err(need.max(self.scratch_bytes as usize))
    }

    /// Queues a finished frame and keeps its block for the next one.
    pub(super) fn push(
        &mut self,
        table: &mut SendTable,
        mut send: SendBuilder,
        token: Option<u64>,
    ) {
        let bytes = send.len() + SIZE;
        let Some((block, mut pieces)) = send.seal() else { return };
        let scratch = send.scratch_len();
        let start = block.len() - scratch;
        pieces.walk(scratch as u32, |part| match part {
            Part::Scratch(from, to) => {
                self.push_scratch(table, &block, start + from..start + to);
            }
            Part::Shared(piece) => self.push_node(table, piece),
        });
        self.bytes += bytes;
        if let (Some(token), Some(last)) = (token, table.nodes.get_mut(self.tail as usize)) {
            (last.token, last.has_token) = (token, true);
        }
        table.end(pieces);
        if self.scratch.as_ref().is_none_or(|other| other.room() < block.room()) {
            self.scratch = Some(block);
        }
    }

    fn push_scratch(&mut self, table: &mut SendTable, block: &AppendBlock, range: Range<usize>) {
        if let Some(last) = table.nodes.get_mut(self.tail as usize)
            && !last.has_token
            && block.extend(&mut last.view, range.clone())
        {
            return;
        }
        self.push_node(table, block.share(range));
    }

    fn push_node(&mut self, table: &mut SendTable, view: SharedLease) {
        let index = table.take_node(view);
        match table.nodes.get_mut(self.tail as usize) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    /// Whether a frame was written whose token was not handed out.
    pub(super) fn has_sent(&self) -> bool {
        self.sent_head != NONE
    }

    /// The token of the oldest frame that is written and has one.
    pub(super) fn take_sent(&mut self, table: &mut SendTable) -> Option<u64> {
        let index = self.sent_head;
        let node = table.nodes.get(index as usize)?;
        let token = node.token;
        self.sent_head = node.next;
        if self.sent_head == NONE {
            self.sent_tail = NONE;
        }
        table.give_node(index);
        Some(token)
    }

    /// Writes until the queue is empty or the socket is full: one call, unless there are more
    /// pieces than one call takes.
    pub(super) fn write(
        &mut self,
        table: &mut SendTable,
        fd: RawFd,
        writing: &mut Writing,
    ) -> Written {
        while self.head != NONE {
            writing.calls += 1;
            let (offered, result) = self.offer(table, fd);
            match result {
                Ok(n) => {
                    writing.bytes += n as u64;
                    self.written(table, n);
                    // The kernel took part of it, so it has noted that we wait for room.
                    if n < offered {
                        return Written::Blocked;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Written::Blocked,
                Err(error) => return Written::Failed(error.raw_os_error().unwrap_or(0)),
            }
        }
        self.rest();
        Written::All
    }

    /// One call with as many pieces as it takes; how many bytes that was, and what came of it.
    fn offer(&self, table: &SendTable, fd: RawFd) -> (usize, std::io::Result<usize>) {
        let first = &table.nodes[self.head as usize];
        if first.next == NONE {
            return (first.view.len(), socket::send(fd, &first.view));
        }
        let mut pieces = [IoSlice::new(&[]); PIECES_PER_CALL];
        let (mut count, mut bytes, mut at) = (0, 0, self.head);
        while let (Some(node), true) = (table.nodes.get(at as usize), count < PIECES_PER_CALL) {
            pieces[count] = IoSlice::new(&node.view);
            count += 1;
            bytes += node.view.len();
            at = node.next;
        }
        (bytes, socket::send_pieces(fd, &pieces[..count]))
    }

    /// The first `n` bytes of the queue are with the kernel.
    fn written(&mut self, table: &mut SendTable, mut n: usize) {
        self.bytes -= n;
        while n > 0 {
            let index = self.head;
            let node = &mut table.nodes[index as usize];
            if n < node.view.len() {
                node.view.skip(n);
                return;
            }
            n -= node.view.len();
            self.head = node.next;
            if self.head == NONE {
                self.tail = NONE;
            }
            if node.has_token {
                node.view = SharedLease::empty();
                node.next = NONE;
                self.push_sent(table, index);
            } else {
                table.give_node(index);
            }
        }
    }

    fn push_sent(&mut self, table: &mut SendTable, index: u32) {
        match table.nodes.get_mut(self.sent_tail as usize) {
            Some(last) => last.next = index,
            None => self.sent_head = index,
        }
        self.sent_tail = index;
    }

    /// Gives the scratch block back when all is written.
    fn rest(&mut self) {
        if let Some(block) = self.scratch.take()
            && block.len() * 4 < self.scratch_bytes as usize
        {
            self.scratch_bytes = (self.scratch_bytes / 2).max(SCRATCH_MIN);
        }
    }

    /// Drops everything that is not written; tokens of what is written stay.
    pub(super) fn discard(&mut self, table: &mut SendTable) {
        while let Some(node) = table.nodes.get(self.head as usize) {
            let index = self.head;
            self.head = node.next;
            table.give_node(index);
        }
        self.tail = NONE;
        self.bytes = 0;
        self.scratch = None;
    }

    /// Drops everything.
    pub(super) fn clear(&mut self, table: &mut SendTable) {
        self.discard(table);
        while self.take_sent(table).is_some() {}
    }
}
