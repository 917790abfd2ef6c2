//! Events: who has something to tell, in order.
//!
//! There is no queue that could overflow. Each batch, partition, request and handle keeps its own
//! pending event and stands in one intrusive list until the host takes it; a place in that list
//! came with the thing itself.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::config::ClientLimits;
use super::lists::Lists;

/// Who has something to tell; the number is a place in the table of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The client has its first metadata.
    Ready,
    /// A host of the client's cannot be resolved.
    ClientFailed,
    /// The client is closed.
    ClientClosed,
    /// A producer takes records again.
    Writable(u32),
    /// A producer's flush is over.
    Flushed(u32),
    /// A producer cannot go on.
    ProducerFailed(u32),
    /// A producer is closed.
    ProducerClosed(u32),
    /// A consumer is closed.
    ConsumerClosed(u32),
    /// A batch has its outcome.
    Batch(u32),
    /// A partition has records, an end or an error.
    Assigned(u32),
    /// A raw request has its answer.
    Request(u32),
}

#[derive(Debug)]
pub(super) struct Events {
    list: Lists,
    /// The first number of producers' sources, consumers', batches', assigned partitions' and
    /// requests', and the end.
    from: [u32; 6],
}

const PER_PRODUCER: u32 = 4;

impl Events {
    pub(super) fn new(limits: &ClientLimits) -> Self {
        let sizes = [
            limits.max_producers as u32 * PER_PRODUCER,
            limits.max_consumers as u32,
            limits.max_batches as u32,
            limits.max_assigned as u32,
            limits.max_requests as u32,
        ];
        let mut from = [3; 6];
        let mut at = 3;
        for (start, size) in from.iter_mut().skip(1).zip(sizes) {
            at += size;
            *start = at;
        }
        Events { list: Lists::new(1, at as usize), from }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty(0)
    }

    fn number(&self, source: Source) -> u32 {
        let [producers, consumers, batches, assigned, requests, _] = self.from;
        match source {
            Source::Ready => 0,
            Source::ClientClosed => 1,
            Source::ClientFailed => 2,
            Source::Writable(i) => producers + i * PER_PRODUCER,
            Source::Flushed(i) => producers + i * PER_PRODUCER + 1,
            Source::ProducerFailed(i) => producers + i * PER_PRODUCER + 2,
            Source::ProducerClosed(i) => producers + i * PER_PRODUCER + 3,
            Source::ConsumerClosed(i) => consumers + i,
            Source::Batch(i) => batches + i,
            Source::Assigned(i) => assigned + i,
            Source::Request(i) => requests + i,
        }
    }

    fn source(&self, number: u32) -> Source {
        let [producers, consumers, batches, assigned, requests, _] = self.from;
        match number {
            0 => Source::Ready,
            1 => Source::ClientClosed,
            2 => Source::ClientFailed,
            n if n < consumers => {
                let i = (n - producers) / PER_PRODUCER;
                match (n - producers) % PER_PRODUCER {
                    0 => Source::Writable(i),
                    1 => Source::Flushed(i),
                    2 => Source::ProducerFailed(i),
                    _ => Source::ProducerClosed(i),
                }
            }
            n if n < batches => Source::ConsumerClosed(n - consumers),
            n if n < assigned => Source::Batch(n - batches),
            n if n < requests => Source::Assigned(n - assigned),
            n => Source::Request(n - requests),
        }
    }

    /// The source has something to tell; one that stands in the list keeps its place.
    pub(super) fn push(&mut self, source: Source) {
        self.list.push_back(0, self.number(source));
    }

    /// The source, which was just taken, is not through: it comes next again.
    pub(super) fn push_first(&mut self, source: Source) {
        self.list.push_front(0, self.number(source));
    }

    /// The source has nothing to tell any more.
    pub(super) fn remove(&mut self, source: Source) {
        self.list.remove(self.number(source));
    }

    /// Takes the source that has waited for longest.
    pub(super) fn pop(&mut self) -> Option<Source> {
        self.list.pop_front(0).map(|number| self.source(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_its_own_place() {
        let limits = ClientLimits {
            max_producers: 2,
            max_consumers: 2,
            max_batches: 3,
            max_assigned: 2,
            max_requests: 2,
            ..ClientLimits::default()
        };
        let all = [
            Source::Ready,
            Source::ClientClosed,
            Source::ClientFailed,
            Source::Writable(1),
            Source::Flushed(0),
            Source::Flushed(1),
            Source::ProducerFailed(0),
            Source::ProducerClosed(1),
            Source::ConsumerClosed(1),
            Source::Batch(0),
            Source::Batch(2),
            Source::Assigned(1),
            Source::Request(0),
            Source::Request(1),
        ];
        let mut events = Events::new(&limits);
        all.iter().for_each(|&source| events.push(source));
        all.iter().for_each(|&source| events.push(source));
        events.remove(Source::Batch(0));
        assert_eq!(events.pop(), Some(Source::Ready));
        events.push_first(Source::Ready);
        for source in all.into_iter().filter(|&source| source != Source::Batch(0)) {
            assert_eq!(events.pop(), Some(source));
        }
        assert!(events.is_empty());
        assert_eq!(events.pop(), None);
    }
}
