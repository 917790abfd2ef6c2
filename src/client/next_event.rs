//! Next event: events out, one at a time, made from what their sources keep.

use super::ClientEvent;
use super::client::Client;
use super::events::Source;
use crate::error::Error;
use crate::net::SharedLease;

impl Client {
    /// Whether [`Client::next_event`] has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the next event. What its source kept for it is free from now on; an event that points
    /// at memory keeps it until its lease is dropped.
    pub fn next_event(&mut self) -> Option<ClientEvent> {
        while let Some(source) = self.events.pop() {
            let owner = self.owner_value;
            let event = match source {
                Source::Ready => Some(ClientEvent::Ready { owner }),
                Source::ClientClosed => Some(ClientEvent::Closed { owner }),
                Source::ClientFailed => self.failure.take().map(|error| failed(owner, error)),
                Source::Writable(i) => {
                    self.producer_owner(i).map(|owner| ClientEvent::Writable { owner })
                }
                Source::Flushed(i) => self.flushed(i),
                Source::ProducerFailed(i) => self.producer_failed(i),
                Source::ProducerClosed(i) => self.producer_closed(i),
                Source::ConsumerClosed(i) => self.consumer_closed(i),
                Source::Batch(i) => self.delivered(i),
                Source::Assigned(i) => self.assigned_event(i),
                Source::Request(i) => self.reply(i),
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    fn producer_owner(&self, index: u32) -> Option<u64> {
        self.producers.at(index as usize).map(|(_, producer)| producer.owner)
    }

    fn flushed(&mut self, index: u32) -> Option<ClientEvent> {
        let (_, producer) = self.producers.at_mut(index as usize)?;
        let user = producer.take_flushed()?;
        if producer.has_flushed() {
            self.events.push(Source::Flushed(index));
        }
        Some(ClientEvent::Flushed { owner: producer.owner, user })
    }

    fn producer_failed(&mut self, index: u32) -> Option<ClientEvent> {
        let (_, producer) = self.producers.at_mut(index as usize)?;
        let error = producer.take_failure()?;
        Some(failed(producer.owner, error))
    }

    /// The end of a producer, when everything else of it was told. What is still to be told comes
    /// first, in front of the ends of others too: the client's is the last of all.
    fn producer_closed(&mut self, index: u32) -> Option<ClientEvent> {
        if let Some(event) = self.producer_failed(index).or_else(|| self.flushed(index)) {
            self.events.push_first(Source::ProducerClosed(index));
            return Some(event);
        }
        let (id, _) = self.producers.at(index as usize)?;
        let producer = self.producers.remove(id)?;
        self.events.remove(Source::Flushed(index));
        self.events.remove(Source::ProducerFailed(index));
        self.wants_turn = true;
        Some(ClientEvent::Closed { owner: producer.owner })
    }

    fn consumer_closed(&mut self, index: u32) -> Option<ClientEvent> {
        let (id, _) = self.consumers.at(index as usize)?;
        let consumer = self.consumers.remove(id)?;
        Some(ClientEvent::Closed { owner: consumer.owner })
    }

    fn delivered(&mut self, index: u32) -> Option<ClientEvent> {
        let batch = self.batches.get_mut(index)?;
        let end = batch.end?;
        let count = batch.count().unsigned_abs();
        let users = batch.take_users()?;
        let (topic, partition, producer) = (batch.topic, batch.partition, batch.producer);
        let owner = self.producers.get(producer).map_or(0, |producer| producer.owner);
        if self.batches.free_if_over(index) {
            // A producer may wait for a place in the table.
            self.wants_turn = true;
        }
        Some(ClientEvent::Delivered {
            owner,
            users,
            count,
            base_offset: end.base_offset,
            topic,
            partition,
            outcome: end.outcome,
            error: end.error,
        })
    }

    fn reply(&mut self, index: u32) -> Option<ClientEvent> {
        let (op, request) = self.requests.take_done(index)?;
        let body: Result<SharedLease, Error> = request.result.unwrap_or(Err(Error::Canceled));
        Some(ClientEvent::Reply {
            owner: self.owner_value,
            user: request.user,
            op,
            body,
            api_key: request.key.0,
            api_version: request.version,
        })
    }
}

/// A handle has something to report that is about no partition.
fn failed(owner: u64, error: Error) -> ClientEvent {
    ClientEvent::Failed { owner, error, topic: None, partition: -1, offset: -1 }
}
