//! Wire: a `Selectable` without sockets. What is sent is kept as bytes; what a test puts in is
//! handed out as frames.

use crate::error::Error;
use crate::net::pool::{Memory, PoolConfig, Priority, Term};
use crate::net::{
    BufferPool, ChannelOptions, CloseReason, ConnId, ExchangeId, Notice, Owner, Selectable,
    SendBuilder, SendRefused, SharedLease, Transport,
};
use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;

#[derive(Debug)]
struct Channel {
    id: ConnId,
    to: SocketAddr,
    inbox: VecDeque<SharedLease>,
    /// Whole frames, without their size.
    outbox: VecDeque<(Vec<u8>, Option<u64>)>,
}

/// A question to a name server.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) id: ExchangeId,
    pub(super) server: SocketAddr,
    pub(super) over: Transport,
    pub(super) question: Vec<u8>,
    /// The scripted name server has read it.
    pub(super) seen: bool,
    inbox: VecDeque<Result<Vec<u8>, Error>>,
}

/// The network of a test.
#[derive(Debug)]
pub(super) struct Wire {
    pool: BufferPool,
    channels: Vec<Option<Channel>>,
    generation: u32,
    /// Frames that came in and found no memory.
    starved: VecDeque<(ConnId, Vec<u8>)>,
    pub(super) notices: VecDeque<(ConnId, Notice)>,
    /// Addresses that were connected to, in order.
    pub(super) connects: Vec<SocketAddr>,
    /// Connections that the client closed.
    pub(super) closed: Vec<SocketAddr>,
    /// Sends are refused while this is set.
    pub(super) refuse: Option<SendRefused>,
    /// `Sent` notices are kept back while this is set.
    pub(super) slow: bool,
    /// Questions under way.
    pub(super) exchanges: Vec<Exchange>,
    /// Questions so far.
    pub(super) asked: usize,
    /// The system refuses sockets for connections while this is set.
    pub(super) refuse_connects: bool,
    /// The system refuses sockets for questions while this is set.
    pub(super) refuse_asking: bool,
}

pub(super) fn pool(shared: usize) -> BufferPool {
    let guaranteed = [
        Term { why: "requests and answers", size: 4096, blocks: 64 },
        Term { why: "large answers", size: 1 << 20, blocks: 4 },
    ];
    let config = PoolConfig {
        guaranteed: &guaranteed,
        shared,
        control_blocks: 8,
        memory: Memory::Map { prefault: false },
    };
    BufferPool::new(config).unwrap()
}

impl Wire {
    pub(super) fn new(pool: BufferPool) -> Self {
        Wire {
            pool,
            channels: Vec::new(),
            generation: 0,
            starved: VecDeque::new(),
            notices: VecDeque::new(),
            connects: Vec::new(),
            closed: Vec::new(),
            refuse: None,
            slow: false,
            exchanges: Vec::new(),
            asked: 0,
            refuse_connects: false,
            refuse_asking: false,
        }
    }

    fn channel(&mut self, id: ConnId) -> Option<&mut Channel> {
        self.channels.get_mut(id.index())?.as_mut().filter(|channel| channel.id == id)
    }

    /// Connections that are open or connecting, with their addresses.
    pub(super) fn open(&self) -> Vec<(ConnId, SocketAddr)> {
        self.channels.iter().flatten().map(|channel| (channel.id, channel.to)).collect()
    }

    /// The next frame that the client sent on a connection; reports it as written.
    pub(super) fn take_sent(&mut self, id: ConnId) -> Option<Vec<u8>> {
        let slow = self.slow;
        let (frame, token) = self.channel(id)?.outbox.pop_front()?;
        if let Some(token) = token.filter(|_| !slow) {
            self.notices.push_back((id, Notice::Sent(token)));
        }
        Some(frame)
    }

    /// A frame comes in, when there is memory for it.
    pub(super) fn deliver(&mut self, id: ConnId, frame: &[u8]) {
        self.starved.push_back((id, frame.to_vec()));
        self.deliver_starved();
    }

    /// Frames that waited for memory come in; says whether any did. As the selector does, they take
    /// the block of a larger size if there is none of theirs.
    pub(super) fn deliver_starved(&mut self) -> bool {
        let (mut moved, mut stuck) = (false, HashSet::new());
        for (id, frame) in core::mem::take(&mut self.starved) {
            let Some(_) = self.channel(id) else { continue };
            let n = frame.len();
            if n > self.pool.largest() {
                self.end(id, CloseReason::TooLarge(n as u32));
                continue;
            }
            let sizes = [n, n.max(16 << 10), n.max(32 << 10), n.max(1 << 20), self.pool.largest()];
            let lease = |size: &usize| self.pool.lease(*size, Priority::Data);
            let lease = if stuck.contains(&id) { None } else { sizes.iter().find_map(lease) };
            let Some(mut lease) = lease else {
                stuck.insert(id);
                self.starved.push_back((id, frame));
                continue;
            };
            lease[..n].copy_from_slice(&frame);
            let shared = lease.share(n);
            if let Some(channel) = self.channel(id) {
                channel.inbox.push_back(shared);
                self.notices.push_back((id, Notice::Frames));
                moved = true;
            }
        }
        moved
    }

    /// A name server's bytes come in, or the way to it fails.
    pub(super) fn name_answer(&mut self, id: ExchangeId, answer: Result<Vec<u8>, Error>) {
        if let Some(exchange) = self.exchanges.iter_mut().find(|exchange| exchange.id == id) {
            exchange.inbox.push_back(answer);
            self.notices.push_back((ConnId::NONE, Notice::Answered(id)));
        }
    }

    /// The other end ends a connection.
    pub(super) fn end(&mut self, id: ConnId, reason: CloseReason) {
        if self.channel(id).is_some() {
            self.channels[id.index()] = None;
            self.notices.retain(|(conn, _)| *conn != id);
            self.notices.push_back((id, Notice::Closed(reason)));
        }
    }
}

impl Selectable for Wire {
    fn connect(&mut self, to: SocketAddr, _: &ChannelOptions) -> Result<ConnId, Error> {
        if self.refuse_connects {
            return Err(Error::Io(24));
        }
        self.connects.push(to);
        self.generation += 1;
        let place = self.channels.iter().position(Option::is_none).unwrap_or(self.channels.len());
        let id = ConnId::new(place as u32, self.generation);
        let channel = Channel { id, to, inbox: VecDeque::new(), outbox: VecDeque::new() };
        if place == self.channels.len() {
            self.channels.push(None);
        }
        self.channels[place] = Some(channel);
        Ok(id)
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(channel) = self.channel(conn) {
            let to = channel.to;
            self.channels[conn.index()] = None;
            self.notices.retain(|(id, _)| *id != conn);
            self.closed.push(to);
        }
    }

    fn close_after_flush(&mut self, conn: ConnId) {
        self.close(conn);
    }

    fn next_frame(&mut self, conn: ConnId) -> Option<SharedLease> {
        self.channel(conn)?.inbox.pop_front()
    }

    fn charge(&mut self, _: usize) {}

    fn mute(&mut self, _: ConnId) {}

    fn unmute(&mut self, _: ConnId) {}

    fn begin_send(&mut self, conn: ConnId, scratch: usize) -> Result<SendBuilder, SendRefused> {
        if let Some(refused) = self.refuse {
            return Err(refused);
        }
        self.channel(conn).ok_or(SendRefused::Stale)?;
        let lease = self.pool.lease(scratch + 4, Priority::Control);
        let lease = lease.ok_or(SendRefused::NoMemory)?;
        Ok(SendBuilder::standalone(lease, scratch).expect("the block has the room"))
    }

    fn send(&mut self, conn: ConnId, send: SendBuilder, token: Option<u64>) -> Result<(), Error> {
        let mut bytes = Vec::new();
        send.finish(|piece| bytes.extend_from_slice(&piece));
        let size = u32::from_be_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(size as usize, bytes.len() - 4, "the size stands in front");
        let channel = self.channel(conn).ok_or(Error::Stale)?;
        channel.outbox.push_back((bytes.split_off(4), token));
        Ok(())
    }

    fn can_send(&self, conn: ConnId) -> bool {
        self.refuse != Some(SendRefused::Full)
            && self.channels.get(conn.index()).is_some_and(Option::is_some)
    }

    fn queued(&self, _: ConnId) -> usize {
        0
    }

    fn ask(
        &mut self,
        server: SocketAddr,
        over: Transport,
        question: &[u8],
        _: Owner,
    ) -> Result<ExchangeId, Error> {
        if self.refuse_asking {
            return Err(Error::Io(101));
        }
        self.generation += 1;
        let id = ExchangeId(u64::from(self.generation));
        self.asked += 1;
        let question = question.to_vec();
        self.exchanges.push(Exchange {
            id,
            server,
            over,
            question,
            seen: false,
            inbox: VecDeque::new(),
        });
        Ok(id)
    }

    fn next_answer(&mut self, id: ExchangeId) -> Result<Option<SharedLease>, Error> {
        let found = self.exchanges.iter_mut().find(|exchange| exchange.id == id);
        let Some(answer) = found.ok_or(Error::Stale)?.inbox.pop_front() else { return Ok(None) };
        match answer {
            Ok(bytes) => {
                let mut lease =
                    self.pool.lease(bytes.len().max(1), Priority::Data).expect("memory");
                lease[..bytes.len()].copy_from_slice(&bytes);
                Ok(Some(lease.share(bytes.len())))
            }
            Err(error) => {
                self.end_exchange(id);
                Err(error)
            }
        }
    }

    fn end_exchange(&mut self, id: ExchangeId) {
        self.exchanges.retain(|exchange| exchange.id != id);
        self.notices.retain(|(_, notice)| *notice != Notice::Answered(id));
    }

    fn peer(&self, _: ConnId) -> Option<SocketAddr> {
        None
    }

    fn local(&self, _: ConnId) -> Option<SocketAddr> {
        None
    }

    fn pool(&self) -> &BufferPool {
        &self.pool
    }
}
