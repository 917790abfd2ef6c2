//! Listeners: sockets that give channels, each with its back-off when descriptors run out.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::ChannelOptions;
use super::sys::socket::{self, Options};
use crate::error::Error;
use core::time::Duration;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::SocketAddr;

/// How long a listener rests when the system has no descriptor for another connection.
pub(super) const BACK_OFF: Duration = Duration::from_millis(100);

/// Names a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub u32);

/// One listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    pub(super) options: ChannelOptions,
    id: ListenerId,
    /// Connections may wait: an edge was seen and no empty accept since.
    pub(super) pending: bool,
    /// It rests until its timer; the timer is set when the time is known.
    pub(super) rest: Rest,
}

/// Whether a listener rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    No,
    Wanted,
    Timed,
}

/// What came of taking a connection.
#[derive(Debug)]
pub(super) enum Accepted {
    Connection(TcpStream, SocketAddr),
    /// None waits.
    Empty,
    /// That one is gone already; there may be others.
    Lost,
    /// The system has no descriptor or no memory for it; `errno`.
    Exhausted(i32),
}

/// A fixed number of listeners.
#[derive(Debug)]
pub(super) struct Listeners {
    table: Box<[Option<Listener>]>,
    /// How many were ever made: ids are not used again.
    made: u32,
}

impl Listeners {
    pub(super) fn new(capacity: usize) -> Self {
        Listeners { table: (0..capacity).map(|_| None).collect(), made: 0 }
    }

    /// Bytes for this capacity.
    pub(super) const fn bytes(capacity: usize) -> usize {
        capacity * size_of::<Option<Listener>>()
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn at(&mut self, place: usize) -> Option<&mut Listener> {
        self.table.get_mut(place)?.as_mut()
    }

    /// Whether a listener wants to accept now.
    #[inline]
    pub(super) fn any_pending(&self) -> bool {
        self.table.iter().flatten().any(Listener::is_due)
    }

    /// Listens and registers it with the token of its place.
    pub(super) fn add(
        &mut self,
        registry: &Registry,
        at: SocketAddr,
        backlog: i32,
        options: &ChannelOptions,
    ) -> Result<(ListenerId, SocketAddr), Error> {
        let socket = socket::listen(at, backlog, Options::of(options))?;
        self.adopt(registry, socket, options)
    }

    /// Registers a socket that listens and does not block.
    pub(super) fn adopt(
        &mut self,
        registry: &Registry,
        socket: std::net::TcpListener,
        options: &ChannelOptions,
    ) -> Result<(ListenerId, SocketAddr), Error> {
        let place = self.table.iter().position(Option::is_none);
        let place = place.ok_or(Error::Exhausted("listeners"))?;
        let mut socket = TcpListener::from_std(socket);
        let bound = socket.local_addr()?;
        registry.register(&mut socket, Token(place), Interest::READABLE)?;
        let id = ListenerId(self.made);
        self.made = self.made.wrapping_add(1);
        let listener = Listener { socket, options: *options, id, pending: false, rest: Rest::No };
        self.table[place] = Some(listener);
        Ok((id, bound))
    }

    /// Takes a listener out: the place that it had, and its socket, which listens on. An id that
    /// names none is ignored.
    pub(super) fn remove(
        &mut self,
        registry: &Registry,
        id: ListenerId,
    ) -> Option<(usize, std::net::TcpListener)> {
        let place = self.table.iter().position(|l| l.as_ref().is_some_and(|l| l.id == id))?;
        let mut listener = self.table[place].take()?;
        // It fails only for a socket that is not in the poller, which is what is wanted.
        let _ = registry.deregister(&mut listener.socket);
        Some((place, listener.socket.into()))
    }
}

impl Listener {
    fn is_due(&self) -> bool {
        self.pending && self.rest == Rest::No
    }

    /// Takes one connection. Without one, nothing is pending until the next edge.
    pub(super) fn accept(&mut self) -> Accepted {
        if !self.is_due() {
            return Accepted::Empty;
        }
        let error = match self.socket.accept() {
            Ok((stream, peer)) => return Accepted::Connection(stream, peer),
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(errno @ (libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) => {
                self.rest = Rest::Wanted;
                Accepted::Exhausted(errno)
            }
            _ if error.kind() == io::ErrorKind::WouldBlock => {
                self.pending = false;
                Accepted::Empty
            }
            // Errors of the connection, which the system hands out here: not the listener's.
            _ => Accepted::Lost,
        }
    }
}

impl Options {
    /// The socket's part of a channel's options.
    pub(super) fn of(options: &ChannelOptions) -> Self {
        Options { send_buffer: options.send_buffer, receive_buffer: options.receive_buffer }
    }
}
