//! Acceptor: a listener with a poller of its own, for a thread that takes sockets and hands them to
//! selectors of other threads.

use super::ChannelOptions;
use super::listener::{Accepted, BACK_OFF, Listeners, Rest};
use super::sys::level::Signal;
use super::waker::Waker;
use crate::error::Error;
use crate::time::{Clock, Instant};
use mio::{Events, Poll, Token};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

/// The poller's token of the signal; the listener's is its place, 0.
const SIGNAL: Token = Token(usize::MAX);

/// One listener and its poller. One thread at a time.
#[derive(Debug)]
pub struct Acceptor {
    poll: Poll,
    events: Events,
    listeners: Listeners,
    waker: Waker,
    address: SocketAddr,
    /// Until when the listener rests, if it does.
    rests_until: Option<Instant>,
}

/// What [`Acceptor::accept`] gives.
#[derive(Debug)]
pub enum Incoming {
    /// A connection, and its peer.
    Socket(OwnedFd, SocketAddr),
    /// None waits: [`Acceptor::wait`].
    Empty,
    /// The system has no descriptor or memory for another; the listener rests for a while. `errno`.
    Exhausted(i32),
}

impl Acceptor {
    /// Listens; port 0 picks one. What sockets inherit of `options` is set.
    ///
    /// # Errors
    /// The address cannot be had, or the system refuses a descriptor.
    pub fn listen(
        at: SocketAddr,
        backlog: i32,
        options: &ChannelOptions,
    ) -> Result<Acceptor, Error> {
        let add = |listeners: &mut Listeners, poll: &Poll| {
            listeners.add(poll.registry(), at, backlog, options)
        };
        Acceptor::with(add)
    }

    /// Goes on with a listening socket, and with the connections that wait there.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn adopt(socket: TcpListener, options: &ChannelOptions) -> Result<Acceptor, Error> {
        Acceptor::with(|listeners, poll| listeners.adopt(poll.registry(), socket, options))
    }

    fn with<Id>(
        add: impl FnOnce(&mut Listeners, &Poll) -> Result<(Id, SocketAddr), Error>,
    ) -> Result<Acceptor, Error> {
        let poll = Poll::new()?;
        let waker = Waker::new(Signal::new(poll.registry(), SIGNAL)?);
        let mut listeners = Listeners::new(1);
        let (_, address) = add(&mut listeners, &poll)?;
        Ok(Acceptor {
            poll,
            events: Events::with_capacity(4),
            listeners,
            waker,
            address,
            rests_until: None,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends [`Acceptor::wait`] from any thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Sleeps until a connection may wait, the listener has rested, or a wake.
    ///
    /// # Errors
    /// The poller failed.
    pub fn wait(&mut self, clock: &impl Clock) -> Result<(), Error> {
        let rests = self.listeners.at(0).is_some_and(|listener| listener.rest != Rest::No);
        if rests && self.rests_until.is_none() {
            self.rests_until = Some(clock.now().after(BACK_OFF));
        }
        let timeout = self.rests_until.map(|until| until.since(clock.now()));
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let Some(listener) = self.listeners.at(0) else { return Ok(()) };
        // By the clock: connections that come meanwhile are edges, and would prolong the rest.
        if self.rests_until.is_some_and(|until| until <= clock.now()) {
            self.rests_until = None;
            listener.rest = Rest::No;
        }
        for event in &self.events {
            if event.token() == SIGNAL {
                // In this order: whoever wakes after the first line is heard in the next wait.
                self.waker.take_posted();
                self.waker.clear();
            } else {
                listener.pending = true;
            }
        }
        Ok(())
    }

    /// Takes one connection, without waiting.
    pub fn accept(&mut self) -> Incoming {
        loop {
            let Some(listener) = self.listeners.at(0) else { return Incoming::Empty };
            match listener.accept() {
                Accepted::Connection(socket, peer) => return Incoming::Socket(socket.into(), peer),
                Accepted::Empty => return Incoming::Empty,
                Accepted::Lost => {}
                Accepted::Exhausted(errno) => return Incoming::Exhausted(errno),
            }
        }
    }
}
