//! Sender: drains what is ready into Produce requests, node by node, and takes answers.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::Producer;
use super::outcome::Verdict;
use super::producer_batch::{BatchState, NO_BATCH, ProducerBatch};
use super::sequence::Identity;
use crate::client::TopicId;
use crate::client::client::Client;
use crate::client::config::Acks;
use crate::client::in_flight::{InFlightRequest, Purpose};
use crate::client::network_client::NotSent;
use crate::client::node_connections::{ConnectionKind, NodeConnectionId};
use crate::logging::Level;
use crate::net::slots::SlotId;
use crate::net::{Selectable, SendBuilder};
use crate::protocol::declare::{Array, Message};
use crate::protocol::messages::{
    ProducePartitionData, ProduceRequest, ProduceResponse, ProduceTopicData,
};
use crate::protocol::writer::Cut;
use crate::protocol::{ApiKey, ArrayWriter, ErrorCode, Writer};
use crate::time::Instant;

/// Batches of one request at most: each is a piece of the frame.
const MAX_BATCHES: usize = SendBuilder::MAX_PIECES;

/// The batches of one request, those of a topic together.
struct Selection {
    batches: [u32; MAX_BATCHES],
    len: usize,
}

impl Selection {
    fn all(&self) -> &[u32] {
        self.batches.get(..self.len).unwrap_or(&[])
    }
}

impl Client {
    /// Sends what is ready and can be sent, for all producers.
    pub(in crate::client) fn send_batches<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        for index in 0..self.producers.capacity() {
            let Some((id, p)) = self.producers.at_mut(index) else { continue };
            if p.unfinished == 0 {
                continue;
            }
            if !p.ready.is_empty(p.leaderless()) {
                self.refresh.need();
            }
            let Some(p) = self.producers.get(id) else { continue };
            if !matches!(p.identity, Identity::NotWanted | Identity::Has(_)) {
                self.ask_producer_id(net, id, now);
                continue;
            }
            for node in 0..self.cluster.used() {
                self.drain(net, id, node, now);
            }
        }
    }

    /// Sends one request after the other to a node, while something is ready and there is room in
    /// flight.
    fn drain<N: Selectable>(&mut self, net: &mut N, producer: SlotId, node: u32, now: Instant) {
        let connection = self.cluster.connection_id(node, ConnectionKind::Control);
        loop {
            let Some(p) = self.producers.get(producer) else { return };
            let in_flight = p.in_flight.get(node as usize).copied().unwrap_or(0);
            if p.ready.is_empty(node as usize)
                || in_flight as usize >= p.config.max_in_flight
                || !self.cluster.ready(net, connection, now)
            {
                return;
            }
            let Some(version) = self.cluster.version(connection, ApiKey::PRODUCE) else {
                self.refuse_all(producer, node, now);
                return;
            };
            let selection = self.select(producer, node);
            if selection.len == 0 {
                let ready = |p: &Producer| !p.ready.is_empty(node as usize);
                if self.producers.get(producer).is_some_and(ready) {
                    self.cluster.wake_soon(now);
                }
                return;
            }
            match self.send_produce(net, producer, connection, version, &selection, now) {
                Ok(()) => self.sent(producer, node, &selection),
                Err(not_sent) => {
                    self.not_sent(producer, &selection);
                    if not_sent == NotSent::Later {
                        self.cluster.wake_soon(now);
                    }
                    if let NotSent::Unwritable(why) = not_sent {
                        self.log(Level::Error, format_args!("Produce cannot be said: {why}"));
                        self.refuse_all(producer, node, now);
                    }
                    return;
                }
            }
        }
    }

    /// The broker has no version of Produce that the client speaks: what is ready for it fails.
    fn refuse_all(&mut self, producer: SlotId, node: u32, now: Instant) {
        while let Some(part) =
            self.producers.get(producer).and_then(|p| p.ready.front(node as usize))
        {
            let head = self.producers.get_mut(producer).and_then(|p| {
                p.ready.remove(part);
                let queue = p.queues.get_mut(part as usize)?;
                let index = queue.pop_front(&mut self.batches)?;
                // Counted as sent, since that is how it is completed.
                queue.in_flight += 1;
                let again = self.batches.get(index).is_some_and(|batch| batch.attempts > 1);
                queue.retried += u32::from(again);
                Some(index)
            });
            let Some(index) = head else { return };
            let code = ErrorCode::UNSUPPORTED_VERSION;
            let verdict = Verdict::Answer { code, base_offset: -1, log_start: -1 };
            self.complete(index, verdict, now);
        }
    }

    /// Chooses one batch of each partition that is ready, oldest readiness first, up to
    /// `max.request.size`; gives them numbers and seals them. Leaves the lists as they are.
    fn select(&mut self, producer: SlotId, node: u32) -> Selection {
        let mut selection = Selection { batches: [NO_BATCH; MAX_BATCHES], len: 0 };
        let Some(p) = self.producers.get_mut(producer) else { return selection };
        let mut bytes = 0;
        let mut at = p.ready.front(node as usize);
        while let Some(part) = at {
            at = p.ready.after(part);
            let Some(queue) = p.queues.get_mut(part as usize) else { continue };
            let index = queue.head;
            let Some(batch) = self.batches.get_mut(index) else { continue };
            let full = selection.len == MAX_BATCHES;
            if full || (selection.len > 0 && bytes + batch.len() > p.config.max_request_size) {
                break;
            }
            match (p.identity, batch.sequence) {
                (Identity::NotWanted, _) | (Identity::Has(_), Some(_)) => {}
                (Identity::Has(id), None) if queue.takes_new(id) => {
                    batch.sequence = Some(queue.sequences.assign(index, batch.count(), id));
                }
                // Another partition has changed the epoch, or used up the last one, since this one
                // was found ready. It comes back when its own older batches are over, or with the
                // new id.
                _ => {
                    p.ready.remove(part);
                    continue;
                }
            }
            if !batch.seal(&self.pool) {
                continue;
            }
            bytes += batch.len();
            batch.epoch = self.metadata.epoch(part);
            if let Some(place) = selection.batches.get_mut(selection.len) {
                *place = index;
                selection.len += 1;
            }
        }
        let topic = |&index: &u32| self.batches.get(index).map(|batch| batch.topic.0);
        if let Some(chosen) = selection.batches.get_mut(..selection.len) {
            // Insertion sort of at most 32, and most requests are in order already.
            for i in 1..chosen.len() {
                let mut j = i;
                while j > 0 && chosen.get(j - 1).and_then(topic) > chosen.get(j).and_then(topic) {
                    chosen.swap(j - 1, j);
                    j -= 1;
                }
            }
        }
        selection
    }

    fn send_produce<N: Selectable>(
        &mut self,
        net: &mut N,
        producer: SlotId,
        connection: NodeConnectionId,
        version: i16,
        selection: &Selection,
        now: Instant,
    ) -> Result<(), NotSent> {
        let Client { cluster, batches, metadata, producers, .. } = self;
        let p = producers.get(producer).ok_or(NotSent::Gone)?;
        let chosen = selection.all();
        let batch = |index: u32| -> Option<&ProducerBatch> { batches.get(index) };
        let topic = |index: u32| batch(index).map(|batch| batch.topic);
        let topics = chosen.chunk_by(|a, b| topic(*a) == topic(*b)).count();
        let emit = |out: &mut ArrayWriter<'_, '_, ProduceTopicData<'static>>| {
            for run in chosen.chunk_by(|a, b| topic(*a) == topic(*b)) {
                let emit = |out: &mut ArrayWriter<'_, '_, ProducePartitionData<'static>>| {
                    for batch in run.iter().filter_map(|&index| batch(index)) {
                        let records = batch.payload().map(|bytes| &**bytes);
                        out.push(&ProducePartitionData { index: batch.partition, records });
                    }
                };
                let first = run.first().and_then(|&index| topic(index));
                out.push(&ProduceTopicData {
                    name: first.and_then(|topic| metadata.name(topic)).unwrap_or(""),
                    partition_data: Array::emit(run.len(), &emit),
                    ..Default::default()
                });
            }
        };
        let timeout = cluster.config().request_timeout.as_millis();
        let request = ProduceRequest {
            transactional_id: None,
            acks: p.config.acks.wire(),
            timeout_ms: i32::try_from(timeout).unwrap_or(i32::MAX),
            topic_data: Array::emit(topics, &emit),
        };
        let silent = p.config.acks == Acks::None;
        let payloads: usize =
            chosen.iter().filter_map(|&index| batch(index)).map(ProducerBatch::len).sum();
        let room = request.encoded_len(version).saturating_sub(payloads);
        let first = chosen.first().copied().unwrap_or(NO_BATCH);
        let purpose = Purpose::Produce { producer, first };
        cluster.send(
            net,
            connection,
            ApiKey::PRODUCE,
            version,
            purpose,
            silent,
            room,
            now,
            |send| {
                let mut cuts = [Cut::default(); MAX_BATCHES];
                let mut w = Writer::gathering(send.scratch(), &mut cuts);
                request.encode(&mut w, version);
                let n = w.finish()?;
                let mut at = 0;
                for (cut, &index) in cuts.iter().zip(chosen) {
                    send.advance(cut.at.saturating_sub(at));
                    at = cut.at;
                    let payload = batch(index)
                        .and_then(ProducerBatch::payload)
                        .ok_or("a batch is not sealed")?;
                    send.append(payload.clone()).map_err(|_| "more batches than a frame holds")?;
                }
                send.advance(n - at);
                Ok(())
            },
        )
    }

    /// A request is on its way: its batches leave their queues and are chained.
    fn sent(&mut self, producer: SlotId, node: u32, selection: &Selection) {
        let chosen = selection.all();
        for (i, &index) in chosen.iter().enumerate() {
            let Some(batch) = self.batches.get_mut(index) else { continue };
            let part = batch.part;
            batch.attempts += 1;
            batch.renumbered = false;
            batch.state = BatchState::InFlight;
            batch.in_request = true;
            batch.next_in_request = chosen.get(i + 1).copied().unwrap_or(NO_BATCH);
            let (again, expires) = (batch.attempts > 1, batch.expires);
            self.batches.timers.set(index as usize, expires);
            if let Some(p) = self.producers.get_mut(producer)
                && let Some(queue) = p.queues.get_mut(part as usize)
            {
                queue.pop_front(&mut self.batches);
                queue.in_flight += 1;
                queue.retried += u32::from(again);
                // To the end of the list, if there is more: other partitions first.
                p.ready.remove(part);
            }
            self.relink(producer, part);
        }
        if let Some(p) = self.producers.get_mut(producer)
            && let Some(in_flight) = p.in_flight.get_mut(node as usize)
        {
            *in_flight += 1;
        }
    }

    /// A request was not sent after all: numbers given for it are taken back.
    fn not_sent(&mut self, producer: SlotId, selection: &Selection) {
        for &index in selection.all() {
            let Some(batch) = self.batches.get_mut(index).filter(|batch| batch.attempts == 0)
            else {
                continue;
            };
            let Some(sequence) = batch.sequence.take() else { continue };
            let part = batch.part as usize;
            if let Some(queue) =
                self.producers.get_mut(producer).and_then(|p| p.queues.get_mut(part))
            {
                queue.sequences.take_back(index, sequence.base);
            }
        }
    }

    /// One request fewer is in flight.
    fn request_done(&mut self, producer: SlotId, connection: NodeConnectionId) {
        if let Some(p) = self.producers.get_mut(producer)
            && let Some(in_flight) = p.in_flight.get_mut(connection.node() as usize)
        {
            *in_flight = in_flight.saturating_sub(1);
        }
    }

    /// Takes an answer. `Err` ends the connection it came by.
    pub(in crate::client) fn on_produce(
        &mut self,
        connection: NodeConnectionId,
        request: &InFlightRequest,
        body: &[u8],
        now: Instant,
    ) -> Result<i32, &'static str> {
        let Purpose::Produce { producer, mut first } = request.purpose else { return Ok(0) };
        self.request_done(producer, connection);
        let answer = match ProduceResponse::decode(body, request.version) {
            Ok(answer) => answer,
            Err(bad) => {
                self.lose_chain(first, ErrorCode::NETWORK_EXCEPTION, true, now);
                return Err(bad.0);
            }
        };
        for topic in answer.responses {
            let Some(id) = self.metadata.find(topic.name) else { continue };
            for partition in topic.partition_responses {
                let leader = partition.current_leader;
                if leader.leader_id >= 0 {
                    let place = (id, partition.index);
                    self.hint(place, leader.leader_id, leader.leader_epoch);
                }
                let Some(index) = self.unchain(&mut first, id, partition.index) else { continue };
                let verdict = Verdict::Answer {
                    code: ErrorCode(partition.error_code),
                    base_offset: partition.base_offset,
                    log_start: partition.log_start_offset,
                };
                self.complete(index, verdict, now);
            }
        }
        // What the answer does not name has no outcome yet.
        self.lose_chain(first, ErrorCode::NETWORK_EXCEPTION, true, now);
        Ok(answer.throttle_time_ms)
    }

    /// Takes a partition's batch out of a request's chain.
    fn unchain(&mut self, first: &mut u32, topic: TopicId, partition: i32) -> Option<u32> {
        let mut before = NO_BATCH;
        let mut at = *first;
        loop {
            let batch = self.batches.get(at)?;
            let next = batch.next_in_request;
            if batch.topic == topic && batch.partition == partition {
                match self.batches.get_mut(before) {
                    Some(before) => before.next_in_request = next,
                    None => *first = next,
                }
                return Some(at);
            }
            before = at;
            at = next;
        }
    }

    /// A broker says who leads a partition in its place (KIP-951).
    pub(in crate::client) fn hint(
        &mut self,
        (topic, partition): (TopicId, i32),
        leader: i32,
        epoch: i32,
    ) {
        let Some(part) = self.metadata.part(topic, partition) else { return };
        // Only news, only with an epoch, and only a node that is known.
        if epoch > self.metadata.epoch(part)
            && let Some(node) = self.cluster.find(leader)
        {
            self.metadata.lead(part, node, epoch);
            self.leaders_changed();
        }
    }

    /// A request without an answer is wholly written.
    pub(in crate::client) fn on_produce_written(
        &mut self,
        connection: NodeConnectionId,
        request: &InFlightRequest,
        now: Instant,
    ) {
        let Purpose::Produce { producer, first } = request.purpose else { return };
        self.request_done(producer, connection);
        self.complete_chain(first, Verdict::Written, now);
    }

    /// A request will not be answered.
    pub(in crate::client) fn on_produce_lost(
        &mut self,
        connection: NodeConnectionId,
        request: &InFlightRequest,
        code: ErrorCode,
        answered: bool,
        now: Instant,
    ) {
        let Purpose::Produce { producer, first } = request.purpose else { return };
        self.request_done(producer, connection);
        // One without an answer that is not wholly written cannot have been read.
        self.lose_chain(first, code, answered, now);
    }

    fn lose_chain(&mut self, first: u32, code: ErrorCode, sent: bool, now: Instant) {
        self.complete_chain(first, Verdict::Lost { code, sent }, now);
    }

    fn complete_chain(&mut self, mut at: u32, verdict: Verdict, now: Instant) {
        while let Some(batch) = self.batches.get(at) {
            let next = batch.next_in_request;
            self.complete(at, verdict, now);
            at = next;
        }
    }
}
