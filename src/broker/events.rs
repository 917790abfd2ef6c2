//! Events: what the host is to be told, in order. There is no queue that could overflow: each
//! source of events (a connection, a request of the host's, the broker itself) stands in one list
//! until its event is taken, and keeps the event itself.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::net::ConnId;

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// The connection with this index.
    Connection(usize),
    /// The host's request with this index.
    Host(usize),
    /// The broker.
    Broker,
}

/// What a connection has to tell.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// The one before it in this place is gone.
    gone: Option<ConnId>,
    /// It was taken.
    opened: Option<ConnId>,
}

/// The sources that have something to tell, oldest first.
#[derive(Debug)]
pub(crate) struct Events {
    lives: Box<[Life]>,
    /// Per source the next one in the list, or one of the marks below.
    next: Box<[u32]>,
    first: u32,
    last: u32,
    hosts: usize,
}

/// Not in the list.
const OUT: u32 = u32::MAX;
/// The last in the list.
const END: u32 = u32::MAX - 1;

impl Events {
    /// Nothing to tell.
    pub(crate) fn new(connections: usize, hosts: usize) -> Self {
        Events {
            lives: (0..connections).map(|_| Life::default()).collect(),
            next: (0..connections + hosts + 1).map(|_| OUT).collect(),
            first: END,
            last: END,
            hosts,
        }
    }

    /// True if there is nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == END
    }

    /// Puts a source behind the others, unless it stands there.
    pub(crate) fn push(&mut self, source: EventSource) {
        let number = self.number(source);
        match self.next.get_mut(number as usize) {
            Some(next @ &mut OUT) => *next = END,
            _ => return,
        }
        match self.next.get_mut(self.last as usize) {
            Some(next) => *next = number,
            None => self.first = number,
        }
        self.last = number;
    }

    /// Takes the oldest source.
    pub(crate) fn pop(&mut self) -> Option<EventSource> {
        let number = self.first;
        let next = self.next.get_mut(number as usize)?;
        self.first = core::mem::replace(next, OUT);
        if self.first == END {
            self.last = END;
        }
        let number = number as usize;
        let connections = self.lives.len();
        Some(match number.checked_sub(connections) {
            None => EventSource::Connection(number),
            Some(host) if host < self.hosts => EventSource::Host(host),
            Some(_) => EventSource::Broker,
        })
    }

    /// A connection was taken.
    pub(crate) fn opened(&mut self, conn: ConnId) {
        if let Some(life) = self.lives.get_mut(conn.index()) {
            life.opened = Some(conn);
            self.push(EventSource::Connection(conn.index()));
        }
    }

    /// A connection is gone. If the host did not hear of it yet, it never will.
    pub(crate) fn gone(&mut self, conn: ConnId) {
        if let Some(life) = self.lives.get_mut(conn.index())
            && life.opened.take() != Some(conn)
        {
            life.gone = Some(conn);
            self.push(EventSource::Connection(conn.index()));
        }
    }

    /// Takes what a connection's place has to tell: which one, and whether it opened. `None` if
    /// there is nothing any more.
    pub(crate) fn take_life(&mut self, index: usize) -> Option<(ConnId, bool)> {
        let life = self.lives.get_mut(index)?;
        let told = match life.gone.take() {
            Some(gone) => (gone, false),
            None => (life.opened.take()?, true),
        };
        if life.opened.is_some() {
            self.push(EventSource::Connection(index));
        }
        Some(told)
    }

    fn number(&self, source: EventSource) -> u32 {
        let number = match source {
            EventSource::Connection(index) => index,
            EventSource::Host(index) => self.lives.len() + index,
            EventSource::Broker => self.lives.len() + self.hosts,
        };
        number as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_stands_once_and_in_order() {
        let mut events = Events::new(4, 2);
        assert_eq!(events.pop(), None);
        events.push(EventSource::Host(1));
        events.push(EventSource::Broker);
        events.push(EventSource::Host(1));
        events.push(EventSource::Connection(3));
        assert_eq!(events.pop(), Some(EventSource::Host(1)));
        events.push(EventSource::Host(1));
        for source in [EventSource::Broker, EventSource::Connection(3), EventSource::Host(1)] {
            assert!(!events.is_empty());
            assert_eq!(events.pop(), Some(source));
        }
        assert!(events.is_empty());
        assert_eq!(events.pop(), None);
    }

    #[test]
    fn a_connection_that_was_not_heard_of_is_not_missed() {
        let mut events = Events::new(2, 0);
        let (first, second, third) = (ConnId::new(1, 1), ConnId::new(1, 2), ConnId::new(1, 3));
        events.opened(first);
        assert_eq!(events.pop(), Some(EventSource::Connection(1)));
        assert_eq!(events.take_life(1), Some((first, true)));
        events.gone(first);
        events.opened(second);
        events.gone(second);
        events.opened(third);
        assert_eq!(events.pop(), Some(EventSource::Connection(1)));
        assert_eq!(events.take_life(1), Some((first, false)));
        assert_eq!(events.pop(), Some(EventSource::Connection(1)));
        assert_eq!(events.take_life(1), Some((third, true)));
        assert_eq!(events.take_life(1), None);
        assert!(events.is_empty());
    }
}
