//! A network of byte lists: what peers send is put in, what they get is taken out, nothing is timed.

use crate::error::Error;
use crate::net::pool::{Memory, PoolConfig, Priority, Term};
use crate::net::{
    BufferPool, ChannelOptions, CloseReason, ConnId, ExchangeId, Notice, Owner, Selectable,
    SendBuilder, SendRefused, SharedLease, Transport,
};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// One connection, as the network sees it.
#[derive(Debug, Default)]
struct Wire {
    generation: u32,
    open: bool,
    finishing: bool,
    muted: bool,
    refused: bool,
    /// The peer takes nothing: what is queued stays.
    stuck: bool,
    inbox: VecDeque<Vec<u8>>,
    /// Frames queued, with tokens.
    queue: Vec<(Vec<SharedLease>, Option<u64>)>,
    /// Frames written.
    sent: VecDeque<Vec<u8>>,
    notices: VecDeque<Notice>,
}

/// The network.
#[derive(Debug)]
pub(super) struct FakeNet {
    pool: BufferPool,
    wires: Vec<Wire>,
    /// Bytes a connection may have queued.
    pub queue_max: usize,
    /// The next so many sends find no memory.
    pub starve: usize,
    /// Whoever begins a send panics.
    pub explode: bool,
    /// Bytes that may be charged in a turn.
    pub budget: usize,
    /// Bytes that were charged in this turn.
    pub charged: usize,
}

impl FakeNet {
    pub(super) fn new() -> Self {
        let guaranteed = [Term { why: "tests", size: 1 << 20, blocks: 8 }];
        let memory = Memory::Map { prefault: false };
        let config =
            PoolConfig { guaranteed: &guaranteed, shared: 8 << 20, control_blocks: 0, memory };
        let pool = BufferPool::new(config).unwrap();
        FakeNet {
            pool,
            wires: vec![],
            queue_max: 1 << 20,
            starve: 0,
            explode: false,
            budget: usize::MAX,
            charged: 0,
        }
    }

    /// A peer connects.
    pub(super) fn connect(&mut self) -> ConnId {
        let index = self.wires.iter().position(|wire| !wire.open).unwrap_or_else(|| {
            self.wires.push(Wire::default());
            self.wires.len() - 1
        });
        let generation = self.wires[index].generation + 1;
        self.wires[index] = Wire { generation, open: true, ..Wire::default() };
        self.wires[index].notices.push_back(Notice::Accepted);
        ConnId::new(index as u32, generation)
    }

    /// A peer sends a frame.
    pub(super) fn put(&mut self, conn: ConnId, frame: Vec<u8>) {
        self.wire(conn).expect("connected").inbox.push_back(frame);
    }

    /// The next frame that a peer got.
    pub(super) fn got(&mut self, conn: ConnId) -> Option<Vec<u8>> {
        self.wires[conn.index()].sent.pop_front()
    }

    /// A peer goes.
    pub(super) fn hang_up(&mut self, conn: ConnId) {
        let wire = self.wire(conn).expect("connected");
        wire.inbox.clear();
        wire.queue.clear();
        wire.notices.push_back(Notice::Closed(CloseReason::PeerClosed));
    }

    /// Whether a peer takes what it is sent.
    pub(super) fn stick(&mut self, conn: ConnId, stuck: bool) {
        self.wire(conn).expect("connected").stuck = stuck;
    }

    /// Whether the peer sees an open connection.
    pub(super) fn is_open(&self, conn: ConnId) -> bool {
        let wire = &self.wires[conn.index()];
        wire.open && wire.generation == conn.generation() && !wire.finishing
    }

    pub(super) fn is_muted(&self, conn: ConnId) -> bool {
        self.wires[conn.index()].muted
    }

    /// The next notice of any connection.
    pub(super) fn notice(&mut self) -> Option<(ConnId, Notice)> {
        for (index, wire) in self.wires.iter_mut().enumerate() {
            if !wire.open || wire.finishing {
                continue;
            }
            let conn = ConnId::new(index as u32, wire.generation);
            if let Some(notice) = wire.notices.pop_front() {
                if let Notice::Closed(_) = notice {
                    wire.open = false;
                }
                return Some((conn, notice));
            }
        }
        let waits =
            |wire: &Wire| wire.open && !wire.finishing && !wire.muted && !wire.inbox.is_empty();
        if self.charged >= self.budget {
            return None;
        }
        let index = self.wires.iter().position(waits)?;
        Some((ConnId::new(index as u32, self.wires[index].generation), Notice::Frames))
    }

    /// Writes what is queued; says how many frames.
    pub(super) fn flush(&mut self) -> usize {
        let mut frames = 0;
        for wire in self.wires.iter_mut().filter(|wire| wire.open && !wire.stuck) {
            for (pieces, token) in wire.queue.drain(..) {
                let slices: Vec<&[u8]> = pieces.iter().map(|piece| &**piece).collect();
                let bytes = slices.concat();
                let size = u32::from_be_bytes(bytes[..4].try_into().unwrap());
                assert_eq!(size as usize, bytes.len() - 4, "the frame's size is wrong");
                wire.sent.push_back(bytes[4..].to_vec());
                wire.notices.extend(token.map(Notice::Sent));
                frames += 1;
            }
            if wire.refused {
                wire.refused = false;
                wire.notices.push_back(Notice::Drained);
            }
            if wire.finishing {
                wire.open = false;
            }
        }
        frames
    }

    fn wire(&mut self, conn: ConnId) -> Option<&mut Wire> {
        let wire = self.wires.get_mut(conn.index())?;
        (wire.open && wire.generation == conn.generation()).then_some(wire)
    }

    fn bytes(wire: &Wire) -> usize {
        wire.queue.iter().flat_map(|(pieces, _)| pieces).map(|piece| piece.len()).sum()
    }
}

impl Selectable for FakeNet {
    fn connect(&mut self, _: SocketAddr, _: &ChannelOptions) -> Result<ConnId, Error> {
        unreachable!("a broker connects to nobody")
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(wire) = self.wire(conn) {
            wire.open = false;
            wire.queue.clear();
        }
    }

    fn close_after_flush(&mut self, conn: ConnId) {
        if let Some(wire) = self.wire(conn) {
            wire.finishing = true;
            wire.inbox.clear();
            wire.open = !wire.queue.is_empty();
        }
    }

    fn next_frame(&mut self, conn: ConnId) -> Option<SharedLease> {
        if self.charged >= self.budget {
            return None;
        }
        let pool = self.pool.clone();
        let wire = self.wire(conn).filter(|wire| !wire.muted && !wire.finishing)?;
        let frame = wire.inbox.pop_front()?;
        let mut lease = pool.lease(frame.len(), Priority::Data).expect("memory for a frame");
        lease[..frame.len()].copy_from_slice(&frame);
        Some(lease.share(frame.len()))
    }

    fn charge(&mut self, bytes: usize) {
        self.charged += bytes;
    }

    fn mute(&mut self, conn: ConnId) {
        if let Some(wire) = self.wire(conn) {
            wire.muted = true;
        }
    }

    fn unmute(&mut self, conn: ConnId) {
        if let Some(wire) = self.wire(conn) {
            wire.muted = false;
        }
    }

    fn begin_send(&mut self, conn: ConnId, scratch: usize) -> Result<SendBuilder, SendRefused> {
        assert!(!self.explode, "told to explode");
        let (pool, max) = (self.pool.clone(), self.queue_max);
        let wire = self.wire(conn).filter(|w| !w.finishing).ok_or(SendRefused::Stale)?;
        if Self::bytes(wire) >= max {
            wire.refused = true;
            return Err(SendRefused::Full);
        }
        if self.starve > 0 {
            self.starve -= 1;
            self.wire(conn).expect("connected").refused = true;
            return Err(SendRefused::NoMemory);
        }
        let lease = pool.lease(scratch + 4, Priority::Data).ok_or(SendRefused::NoMemory)?;
        SendBuilder::standalone(lease, scratch).ok_or(SendRefused::NoMemory)
    }

    fn send(&mut self, conn: ConnId, send: SendBuilder, token: Option<u64>) -> Result<(), Error> {
        let wire = self.wire(conn).filter(|wire| !wire.finishing).ok_or(Error::Stale)?;
        let mut pieces = vec![];
        send.finish(|piece| pieces.push(piece));
        wire.queue.push((pieces, token));
        Ok(())
    }

    fn can_send(&self, conn: ConnId) -> bool {
        let wire = self.wires.get(conn.index());
        wire.is_some_and(|wire| {
            wire.open
                && wire.generation == conn.generation()
                && !wire.finishing
                && Self::bytes(wire) < self.queue_max
        })
    }

    fn queued(&self, conn: ConnId) -> usize {
        let wire = self.wires.get(conn.index());
        let wire = wire.filter(|w| w.open && w.generation == conn.generation());
        wire.map_or(0, Self::bytes)
    }

    fn ask(
        &mut self,
        _: SocketAddr,
        _: Transport,
        _: &[u8],
        _: Owner,
    ) -> Result<ExchangeId, Error> {
        unreachable!("a broker asks nobody")
    }

    fn next_answer(&mut self, _: ExchangeId) -> Result<Option<SharedLease>, Error> {
        Err(Error::Stale)
    }

    fn end_exchange(&mut self, _: ExchangeId) {}

    fn peer(&self, conn: ConnId) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 1], 1000 + conn.index() as u16)))
    }

    fn local(&self, _: ConnId) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 2], 9092)))
    }

    fn pool(&self) -> &BufferPool {
        &self.pool
    }
}
