//! Exchange: one question to a server and what comes back for it, over a UDP socket of its own or
//! over TCP with two bytes of length in front. What name servers speak; the bytes mean nothing here.
//!
//! An exchange knows no deadline: its owner ends it. Over UDP it stays open after an answer, because
//! anybody can send one, and only the owner knows whether that was it.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::list::IndexList;
use super::pool::{BufferPool, Lease, Priority, SharedLease};
use super::slots::{SlotId, Slots};
use super::sys::socket::{self, Options};
use super::{ExchangeId, Owner, Transport};
use crate::error::Error;
use mio::net::{TcpStream, UdpSocket};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// The longest answer that is taken over TCP, in bytes; no honest one about a name comes near it.
pub const ANSWER_MAX: usize = 16 * 1024;
/// The longest answer that is taken over UDP; what is longer is cut.
const DATAGRAM_MAX: usize = 4096;
/// The length in front of what goes over TCP.
const LENGTH: usize = 2;
/// Datagrams thrown away before the question leaves.
const STRAYS: usize = 16;

/// In the poller's token of an exchange: this bit and the place in the table. Listeners are fewer,
/// and a channel's token has something in its upper half.
pub(super) const TOKEN_BIT: usize = 1 << 31;

/// One question under way.
#[derive(Debug)]
pub(super) struct Exchange {
    socket: Socket,
    pub(super) owner: Owner,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream, Stream),
}

/// How far an exchange over TCP is.
#[derive(Debug)]
struct Stream {
    /// The question and its length, until it is written.
    question: Option<Lease>,
    len: usize,
    written: usize,
    head: [u8; LENGTH],
    answer: Option<Lease>,
    /// Bytes received, those of the length included.
    received: usize,
}

/// The exchanges of a selector.
#[derive(Debug)]
pub(super) struct Exchanges {
    table: Slots<Exchange>,
    /// Those whose sockets may have something.
    pub(super) ready: IndexList,
}

/// What looking for an answer found.
enum Looked {
    Answer(SharedLease),
    Nothing,
    /// Nothing of use, but there may be more.
    Again,
}

impl Exchanges {
    pub(super) fn new(capacity: usize) -> Self {
        Exchanges { table: Slots::new(capacity), ready: IndexList::new(capacity) }
    }

    /// Bytes of a table of this size.
    pub(super) const fn bytes(capacity: usize) -> usize {
        Slots::<Exchange>::bytes(capacity) + IndexList::bytes(capacity)
    }

    /// The socket at a place is ready for something.
    pub(super) fn on_edge(&mut self, place: usize) {
        if self.table.at(place).is_some() {
            self.ready.push_back(place);
        }
    }

    /// Takes one that may have an answer.
    pub(super) fn pop_ready(&mut self) -> Option<(ExchangeId, Owner)> {
        while let Some(place) = self.ready.pop_front() {
            if let Some((slot, exchange)) = self.table.at(place) {
                return Some((ExchangeId(slot.raw()), exchange.owner));
            }
        }
        None
    }

    pub(super) fn ask(
        &mut self,
        registry: &Registry,
        pool: &BufferPool,
        server: SocketAddr,
        over: Transport,
        question: &[u8],
        owner: Owner,
    ) -> Result<ExchangeId, Error> {
        let slot = self.table.next_id().ok_or(Error::Exhausted("exchanges"))?;
        let token = Token(TOKEN_BIT | slot.index());
        let socket = match over {
            Transport::Udp => Socket::Udp(datagram(registry, token, server, question)?),
            Transport::Tcp => {
                let stream = Stream::new(pool, question)?;
                let (socket, result) = socket::connect(server, Options::default())?;
                result?;
                let mut socket = TcpStream::from_std(socket);
                registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
                Socket::Tcp(socket, stream)
            }
        };
        let exchange = Exchange { socket, owner };
        let id = self.table.insert(exchange).map_err(|_| Error::Exhausted("exchanges"))?;
        Ok(ExchangeId(id.raw()))
    }

    /// Takes what has arrived. An error ends the exchange.
    pub(super) fn next_answer(
        &mut self,
        registry: &Registry,
        pool: &BufferPool,
        id: ExchangeId,
    ) -> Result<Option<SharedLease>, Error> {
        let slot = SlotId::from_raw(id.0);
        let exchange = self.table.get_mut(slot).ok_or(Error::Stale)?;
        let looked = match &mut exchange.socket {
            Socket::Udp(socket) => receive(socket, pool),
            Socket::Tcp(socket, stream) => stream.go_on(socket, pool),
        };
        match looked {
            Ok(Looked::Nothing) => Ok(None),
            Ok(Looked::Again) => {
                self.ready.push_back(slot.index());
                Ok(None)
            }
            Ok(Looked::Answer(answer)) => {
                // The edge is used up, and there may be a second datagram behind this one.
                self.ready.push_back(slot.index());
                Ok(Some(answer))
            }
            Err(error) => {
                self.end(registry, id);
                Err(error)
            }
        }
    }

    pub(super) fn end(&mut self, registry: &Registry, id: ExchangeId) {
        let slot = SlotId::from_raw(id.0);
        let Some(exchange) = self.table.remove(slot) else { return };
        self.ready.remove(slot.index());
        // Closing takes the socket out of the poller, unless somebody else holds it too.
        let _ = match exchange.socket {
            Socket::Udp(mut socket) => registry.deregister(&mut socket),
            Socket::Tcp(mut socket, _) => registry.deregister(&mut socket),
        };
    }
}

/// A UDP socket with a port of the system's choice, which takes datagrams from `server` only; the
/// question is on its way.
fn datagram(
    registry: &Registry,
    token: Token,
    server: SocketAddr,
    question: &[u8],
) -> Result<UdpSocket, Error> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let mut socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(server)?;
    // What came between the two calls may be from anybody.
    let mut stray = [0; 1];
    for _ in 0..STRAYS {
        if socket.recv(&mut stray).is_err() {
            break;
        }
    }
    registry.register(&mut socket, token, Interest::READABLE)?;
    socket.send(question)?;
    Ok(socket)
}

fn receive(socket: &UdpSocket, pool: &BufferPool) -> Result<Looked, Error> {
    // Without memory the datagram stays where it is, and the owner's deadline ends the exchange.
    let Some(mut room) = pool.lease(DATAGRAM_MAX, Priority::Control) else {
        return Ok(Looked::Nothing);
    };
    match socket.recv(&mut room) {
        Ok(0) => Ok(Looked::Again),
        Ok(n) => Ok(Looked::Answer(room.share(n))),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Looked::Nothing),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Looked::Again),
        Err(error) => Err(error.into()),
    }
}

impl Stream {
    fn new(pool: &BufferPool, question: &[u8]) -> Result<Self, Error> {
        let size = u16::try_from(question.len()).map_err(|_| Error::TooLarge)?;
        let len = LENGTH + question.len();
        let lease = pool.lease(len, Priority::Control);
        let mut lease = lease.ok_or(Error::Exhausted("the buffer pool"))?;
        lease[..LENGTH].copy_from_slice(&size.to_be_bytes());
        lease[LENGTH..len].copy_from_slice(question);
        Ok(Stream {
            question: Some(lease),
            len,
            written: 0,
            head: [0; LENGTH],
            answer: None,
            received: 0,
        })
    }

    /// Connects, writes and reads as far as the socket goes.
    fn go_on(&mut self, socket: &TcpStream, pool: &BufferPool) -> Result<Looked, Error> {
        if let Some(error) = socket.take_error()? {
            return Err(error.into());
        }
        if socket.peer_addr().is_err() {
            return Ok(Looked::Nothing);
        }
        match self.write(socket).and_then(|()| self.read(socket, pool)) {
            Ok(Some(answer)) => Ok(Looked::Answer(answer)),
            Ok(None) => Ok(Looked::Nothing),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Ok(Looked::Nothing),
                ErrorKind::UnexpectedEof => Err(Error::Closed),
                ErrorKind::InvalidData => Err(Error::TooLarge),
                ErrorKind::OutOfMemory => Err(Error::Exhausted("the buffer pool")),
                _ => Err(error.into()),
            },
        }
    }

    fn write(&mut self, socket: &TcpStream) -> io::Result<()> {
        while let Some(question) = &self.question {
            let rest = question.get(self.written..self.len).unwrap_or(&[]);
            if rest.is_empty() {
                self.question = None;
                break;
            }
            self.written += socket::send(socket.as_raw_fd(), rest)?;
        }
        Ok(())
    }

    fn read(&mut self, socket: &TcpStream, pool: &BufferPool) -> io::Result<Option<SharedLease>> {
        let fd = socket.as_raw_fd();
        loop {
            let size = usize::from(u16::from_be_bytes(self.head));
            let room = match &mut self.answer {
                _ if self.received < LENGTH => &mut self.head[self.received..],
                Some(answer) => &mut answer[self.received - LENGTH..size],
                None if size > ANSWER_MAX => return Err(ErrorKind::InvalidData.into()),
                None => {
                    let lease = pool.lease(size.max(1), Priority::Control);
                    self.answer = Some(lease.ok_or(ErrorKind::OutOfMemory)?);
                    continue;
                }
            };
            if room.is_empty() {
                self.received = 0;
                return Ok(self.answer.take().map(|answer| answer.share(size)));
            }
            match socket::receive(fd, room)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => self.received += n,
            }
        }
    }
}
