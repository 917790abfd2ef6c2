//! Connections: what the broker knows of each, by the index in its id.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::net::ConnId;
use crate::net::slots::SlotId;

/// What a connection is at. While it waits nothing is read from it, so that answers leave in the
/// order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It may send the next request.
    Ready,
    /// It does not take its answers: the next request waits until it does.
    Blocked,
    /// Its request is parked.
    Parked(SlotId),
    /// Its request is with a handler thread, or on the way.
    Dispatched,
    /// Its request is with the host.
    Host(SlotId),
    /// Its last answers are being written.
    Ending,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Connections {
    places: Box<[Option<(ConnId, State)>]>,
    len: usize,
}

impl Connections {
    /// No connection, and places for those with an index below `capacity`.
    pub(crate) fn new(capacity: usize) -> Self {
        Connections { places: (0..capacity).map(|_| None).collect(), len: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes a new one; says whether there was a place.
    pub(crate) fn open(&mut self, conn: ConnId) -> bool {
        match self.places.get_mut(conn.index()) {
            Some(place @ None) => {
                *place = Some((conn, State::Ready));
                self.len += 1;
                true
            }
            _ => false,
        }
    }

    /// What a connection is at; `None` if it is gone.
    pub(crate) fn state(&self, conn: ConnId) -> Option<State> {
        match self.places.get(conn.index()) {
            Some(Some((id, state))) if *id == conn => Some(*state),
            _ => None,
        }
    }

    /// Changes what a connection is at.
    pub(crate) fn set(&mut self, conn: ConnId, now: State) {
        if let Some(Some((id, state))) = self.places.get_mut(conn.index())
            && *id == conn
        {
            *state = now;
        }
    }

    /// Forgets one, and gives what it was at.
    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<State> {
        let state = self.state(conn)?;
        *self.places.get_mut(conn.index())? = None;
        self.len -= 1;
        Some(state)
    }

    /// The one at an index.
    pub(crate) fn at(&self, index: usize) -> Option<(ConnId, State)> {
        *self.places.get(index)?
    }

    /// Indices go up to here.
    pub(crate) fn capacity(&self) -> usize {
        self.places.len()
    }
}
