//! The acceptor's thread: takes connections and deals them to the processors in turn.

use super::Shared;
use crate::error::Error;
use crate::logging::Level;
use crate::net::acceptor::{Acceptor, Incoming};
use crate::sync::Ordering;
use std::os::fd::OwnedFd;

/// What the acceptor's thread does until the reactor stops; the listening socket closes behind it.
///
/// # Errors
/// The poller failed.
pub(super) fn work(shared: &Shared, mut acceptor: Acceptor) -> Result<(), Error> {
    let mut dealer = Dealer { shared, next: 0 };
    // A connection that no processor had a place for; none is taken behind it.
    let mut held: Option<OwnedFd> = None;
    while !shared.stops_accepting.load(Ordering::SeqCst) {
        if let Some(socket) = held.take() {
            held = dealer.deal(socket);
        }
        while held.is_none() && !shared.stops_accepting.load(Ordering::SeqCst) {
            match acceptor.accept() {
                Incoming::Socket(socket, _) => held = dealer.admit(socket),
                Incoming::Empty => break,
                Incoming::Exhausted(errno) => {
                    let line = format_args!("no connections are taken for now: errno {errno}");
                    shared.core.logger.line(Level::Warn, line);
                    break;
                }
            }
        }
        if held.is_some() {
            // Whoever takes a connection after this wakes the acceptor; one that was taken before
            // made room for another attempt.
            shared.acceptor_holds.store(true, Ordering::SeqCst);
            held = held.and_then(|socket| dealer.deal(socket));
        }
        acceptor.wait(&shared.clock)?;
    }
    Ok(())
}

/// Whose turn it is.
struct Dealer<'a> {
    shared: &'a Shared,
    next: usize,
}

impl Dealer<'_> {
    /// Deals a new connection, or closes it if there are too many. Gives it back if no processor
    /// has a place now.
    fn admit(&mut self, socket: OwnedFd) -> Option<OwnedFd> {
        let shared = self.shared;
        if shared.open.load(Ordering::Relaxed) >= shared.max_connections {
            shared.too_many.fetch_add(1, Ordering::Relaxed);
            let line = format_args!("a connection is refused: there are too many");
            shared.core.logger.line(Level::Warn, line);
            return None;
        }
        shared.open.fetch_add(1, Ordering::Relaxed);
        self.deal(socket)
    }

    fn deal(&mut self, mut socket: OwnedFd) -> Option<OwnedFd> {
        let processors = self.shared.mailboxes.len();
        for _ in 0..processors {
            let at = self.next;
            self.next = (at + 1) % processors;
            let Some(mailbox) = self.shared.mailboxes.get(at) else { continue };
            match mailbox.sockets.push(socket) {
                Ok(()) => {
                    mailbox.waker.wake();
                    return None;
                }
                Err(refused) => socket = refused,
            }
        }
        Some(socket)
    }
}
