//! Fetcher: fetch requests out, batches in.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::compressed_fetch::CompressedFetch;
use super::scan::{Found, Rules, scan, without_holes};
use super::{Kind, Pending, ReadState};
use crate::client::TopicId;
use crate::client::client::Client;
use crate::client::in_flight::Purpose;
use crate::client::metadata::NOBODY;
use crate::client::network_client::NotSent;
use crate::client::node_connections::{ConnectionKind, NodeConnectionId};
use crate::error::Error;
use crate::logging::Level;
use crate::net::slots::SlotId;
use crate::net::{BufferPool, Selectable, SharedLease};
use crate::protocol::declare::{Array, Message};
use crate::protocol::messages::{
    FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic,
};
use crate::protocol::{ApiKey, ArrayWriter, ErrorCode};
use crate::time::Instant;

/// Partitions of one request at most; the others take their turn.
const MAX_PARTITIONS: usize = 512;
/// Bytes of an answer besides records: its head, and per partition without the topic's name.
const ANSWER_HEAD: usize = 512;
const ANSWER_PARTITION: usize = 96;

/// How long a Fetch may wait at the broker while others wait for their turn.
const NARROW_WAIT_MS: i32 = 50;

/// How large an answer to ask for: a 16th of the pool, because several nodes answer at a time and
/// the host holds records of answers before; but a block for a batch of the default size in any
/// case. A single batch that is larger still comes (KIP-74) and is read into the pool's largest.
fn fetch_room(pool: &BufferPool) -> usize {
    const BATCH: usize = (1 << 20) + (16 << 10);
    pool.largest().min(BATCH.max(pool.total() / 16))
}

/// What a request asks for.
#[derive(Clone, Copy)]
struct Limits {
    partitions: usize,
    max_wait_ms: i32,
    max_bytes: i32,
    partition_max_bytes: i32,
}

impl Client {
    /// Sends a Fetch wherever partitions are to be read and none is under way; after memory ran out
    /// only as many as the window allows, in turns.
    pub(in crate::client) fn send_fetches<N: Selectable>(&mut self, net: &mut N, now: Instant) {
        // What comes now would take the memory that others wait for.
        if self.assigned.starving.is_some() {
            return;
        }
        let used = (self.cluster.used() as usize).max(1);
        let turns = self.consumers.capacity() * used;
        self.assigned.in_use = self.consumers.len() * used;
        let mut room = self.assigned.room_in_window();
        let first = self.assigned.next_turn;
        for turn in (first..turns).chain(0..first.min(turns)) {
            if room == 0 {
                return;
            }
            let (i, node) = (turn / used, (turn % used) as u32);
            let Some((consumer, _)) = self.consumers.at(i) else { continue };
            let list = self.assigned.list(consumer, node, Kind::Fetch);
            let traffic = self.assigned.traffic(consumer, node);
            let connection = self.cluster.connection_id(node, ConnectionKind::Fetch(i as u32));
            if self.assigned.lists.is_empty(list)
                || traffic.fetching
                || traffic.held > 0
                || !self.cluster.ready(net, connection, now)
            {
                continue;
            }
            self.fetch(net, consumer, connection, now);
            if self.assigned.traffic(consumer, node).fetching {
                room -= 1;
                self.assigned.next_turn = turn + 1;
            }
        }
    }

    /// How many of the partitions that wait are fetched now, and how much of each. Never more than
    /// one block can hold, so that the answer fits.
    fn fetch_limits(&self, consumer: SlotId, list: usize) -> Option<Limits> {
        let config = &self.consumers.get(consumer)?.config;
        let first = self.assigned.lists.front(list)?;
        let alone = self.assigned.get(first)?.alone;
        let (mut partitions, mut overhead) = (0, ANSWER_HEAD);
        let mut at = Some(first);
        while let Some(index) = at.filter(|_| partitions < MAX_PARTITIONS) {
            let assigned = self.assigned.get(index)?;
            if partitions > 0 && (alone || assigned.alone) {
                break;
            }
            partitions += 1;
            let name = self.metadata.name(assigned.topic).map_or(0, str::len);
            overhead += ANSWER_PARTITION + name;
            at = self.assigned.lists.after(index);
        }
        let room = fetch_room(&self.pool).saturating_sub(overhead);
        let room = i32::try_from(room).unwrap_or(i32::MAX).max(1);
        let max_bytes = config.max_bytes.min(room);
        let wait = i32::try_from(config.max_wait.as_millis()).unwrap_or(i32::MAX);
        Some(Limits {
            partitions,
            // One that must go alone must not hold the others up, nor one that others wait for.
            max_wait_ms: match alone {
                true => 0,
                false if self.assigned.is_narrow() => wait.min(NARROW_WAIT_MS),
                false => wait,
            },
            max_bytes,
            partition_max_bytes: config.max_partition_bytes.min(max_bytes),
        })
    }

    fn fetch<N: Selectable>(
        &mut self,
        net: &mut N,
        consumer: SlotId,
        connection: NodeConnectionId,
        now: Instant,
    ) {
        let list = self.assigned.list(consumer, connection.node(), Kind::Fetch);
        let Some(version) = self.cluster.version(connection, ApiKey::FETCH) else {
            while let Some(index) = self.assigned.lists.pop_front(list) {
                let offset = self.assigned.get(index).map_or(-1, |assigned| assigned.position);
                self.park(index, ErrorCode::UNSUPPORTED_VERSION.into(), offset, None);
            }
            return;
        };
        let Some(limits) = self.fetch_limits(consumer, list) else { return };
        match self.send_fetch(net, consumer, connection, version, limits, now) {
            Ok(()) => {
                let out = self.assigned.list(consumer, connection.node(), Kind::FetchSent);
                for _ in 0..limits.partitions {
                    let Some(index) = self.assigned.lists.pop_front(list) else { break };
                    self.assigned.lists.push_back(out, index);
                }
                if let Some(traffic) = self.assigned.traffic_mut(consumer, connection.node()) {
                    traffic.fetching = true;
                }
                self.stats.fetches += 1;
            }
            Err(NotSent::Later) => self.cluster.wake_soon(now),
            Err(NotSent::Gone) => {}
            Err(NotSent::Unwritable(why)) => {
                self.log(Level::Error, format_args!("Fetch cannot be said: {why}"));
            }
        }
    }

    fn send_fetch<N: Selectable>(
        &mut self,
        net: &mut N,
        consumer: SlotId,
        connection: NodeConnectionId,
        version: i16,
        limits: Limits,
        now: Instant,
    ) -> Result<(), NotSent> {
        let Client { assigned, metadata, cluster, consumers, .. } = self;
        let config = &consumers.get(consumer).ok_or(NotSent::Gone)?.config;
        let list = assigned.list(consumer, connection.node(), Kind::Fetch);
        let topic = |index: u32| assigned.get(index).map(|entry| entry.topic);
        // Neighbours of one topic stand together; a topic may stand there more than once, since
        // partitions come in the order of their turn.
        let run = |from: u32, left: usize| {
            let next = |&index: &u32| assigned.lists.after(index);
            core::iter::successors(Some(from), next)
                .take(left)
                .take_while(move |&index| topic(index) == topic(from))
        };
        let runs = |each: &mut dyn FnMut(u32, usize)| {
            let (mut at, mut left) = (assigned.lists.front(list), limits.partitions);
            while let Some(from) = at.filter(|_| left > 0) {
                let len = run(from, left).count();
                each(from, len);
                left -= len;
                at = run(from, len).last().and_then(|last| assigned.lists.after(last));
            }
        };
        let mut topics = 0;
        runs(&mut |_, _| topics += 1);
        let emit = |out: &mut ArrayWriter<'_, '_, FetchTopic<'static>>| {
            runs(&mut |from, len| {
                let emit = |out: &mut ArrayWriter<'_, '_, FetchPartition>| {
                    for entry in run(from, len).filter_map(|index| assigned.get(index)) {
                        out.push(&FetchPartition {
                            partition: entry.partition,
                            current_leader_epoch: metadata.epoch(entry.part),
                            fetch_offset: entry.position,
                            partition_max_bytes: limits.partition_max_bytes,
                            ..Default::default()
                        });
                    }
                };
                out.push(&FetchTopic {
                    topic: topic(from).and_then(|topic| metadata.name(topic)).unwrap_or(""),
                    partitions: Array::emit(len, &emit),
                    ..Default::default()
                });
            });
        };
        let request = FetchRequest {
            max_wait_ms: limits.max_wait_ms,
            min_bytes: config.min_bytes,
            max_bytes: limits.max_bytes,
            isolation_level: i8::from(config.read_committed),
            topics: Array::emit(topics, &emit),
            ..Default::default()
        };
        let purpose = Purpose::Fetch(consumer);
        cluster.send_message(net, connection, ApiKey::FETCH, version, purpose, &request, now)
    }

    /// The place of a partition that a consumer holds and whose topic is known.
    pub(super) fn find_by_part(
        &self,
        consumer: SlotId,
        topic: TopicId,
        partition: i32,
    ) -> Option<u32> {
        let part = self.metadata.part(topic, partition)?;
        let index = *self.consumers.get(consumer)?.by_part.get(part as usize)?;
        if index == NOBODY { None } else { Some(index) }
    }

    /// Takes an answer. `Err` ends the connection it came by.
    pub(in crate::client) fn on_fetch(
        &mut self,
        connection: NodeConnectionId,
        consumer: SlotId,
        body: &SharedLease,
        version: i16,
        now: Instant,
    ) -> Result<i32, &'static str> {
        let answer = match FetchResponse::decode(body, version) {
            Ok(answer) => answer,
            Err(bad) => {
                self.fetch_over(connection, consumer, false, now);
                return Err(bad.0);
            }
        };
        let out = self.assigned.list(consumer, connection.node(), Kind::FetchSent);
        for topic in answer.responses {
            let Some(id) = self.metadata.find(topic.topic) else { continue };
            for partition in topic.partitions {
                let leader = partition.current_leader;
                if leader.leader_id >= 0 {
                    let place = (id, partition.partition_index);
                    self.hint(place, leader.leader_id, leader.leader_epoch);
                }
                let index = self.find_by_part(consumer, id, partition.partition_index);
                // It may have been assigned anew since, or have another leader.
                let index = index.filter(|&i| self.assigned.lists.list_of(i) == Some(out));
                if let Some(index) = index {
                    self.assigned.lists.remove(index);
                    self.take_partition(index, &partition, body, connection.node(), now);
                }
            }
        }
        self.fetch_over(connection, consumer, false, now);
        Ok(answer.throttle_time_ms)
    }

    fn take_partition(
        &mut self,
        index: u32,
        answer: &FetchPartitionResponse<'_>,
        body: &SharedLease,
        node: u32,
        now: Instant,
    ) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        if assigned.paused || assigned.state != ReadState::Reading {
            self.relink_assigned(index);
            return;
        }
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => {
                assigned.failures = 0;
                assigned.resets = 0;
                assigned.alone = false;
                self.take_records(index, answer, body, node, now);
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => self.out_of_range(index, node, now),
            code => self.partition_error(index, code, node, now),
        }
    }

    fn take_records(
        &mut self,
        index: u32,
        answer: &FetchPartitionResponse<'_>,
        body: &SharedLease,
        node: u32,
        now: Instant,
    ) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let Some(consumer) = self.consumers.get(assigned.consumer) else { return };
        let config = &consumer.config;
        let records = answer.records.unwrap_or(&[]);
        let rules = Rules {
            position: assigned.position,
            check_crcs: config.check_crcs,
            aborted: answer.aborted_transactions.filter(|_| config.read_committed),
        };
        let found = scan(records, &rules);
        let mut batches = None;
        if found.count > 0 && found.holes {
            batches = without_holes(records, &found, &rules, &self.pool);
            if batches.is_none() {
                // No memory for the copy: fetch the same again, later.
                self.back_off_assigned(index, now);
                return;
            }
        } else if found.count > 0 {
            batches = view(body, records, &found);
        }
        let last = if config.read_committed && answer.last_stable_offset >= 0 {
            answer.last_stable_offset
        } else {
            answer.high_watermark
        };
        let at_end = config.partition_eof && found.next == last && assigned.eof_told != last;
        if let Some(batches) = batches.take_if(|_| found.compressed) {
            assigned.compressed = Some(CompressedFetch {
                batches,
                at: 0,
                next: found.next,
                high_watermark: answer.high_watermark,
                eof: at_end.then_some(last),
                least: 0,
                starved: false,
            });
            self.hold(index, node);
            return self.relink_assigned(index);
        }
        assigned.eof = at_end.then_some(last);
        match batches {
            Some(batches) => {
                assigned.records = Some(Pending {
                    batches,
                    count: found.count,
                    next: found.next,
                    high_watermark: answer.high_watermark,
                });
                self.tell(index, Some(node));
            }
            // Markers and gaps only: on to what is behind them.
            None if found.next > assigned.position => {
                assigned.position = found.next;
                if at_end {
                    self.tell(index, Some(node));
                }
            }
            None => match found.error {
                Some(error) => {
                    let offset = assigned.position;
                    self.park(index, error, offset, Some(node));
                }
                None if at_end => self.tell(index, Some(node)),
                None => {}
            },
        }
        self.relink_assigned(index);
    }

    /// A request is over: partitions that it did not answer are fetched again. If the answer was
    /// larger than a frame may be, they are fetched one by one, and the one that is too large alone
    /// stops.
    pub(in crate::client) fn fetch_over(
        &mut self,
        connection: NodeConnectionId,
        consumer: SlotId,
        too_large: bool,
        now: Instant,
    ) {
        if self.consumers.get(consumer).is_none() {
            return;
        }
        if let Some(traffic) = self.assigned.traffic_mut(consumer, connection.node()) {
            traffic.fetching = false;
        }
        self.assigned.widen_window();
        let out = self.assigned.list(consumer, connection.node(), Kind::FetchSent);
        let first = self.assigned.lists.front(out);
        let only = first.is_some_and(|first| self.assigned.lists.after(first).is_none());
        while let Some(index) = self.assigned.lists.pop_front(out) {
            let Some(assigned) = self.assigned.get_mut(index) else { continue };
            if too_large && only {
                let offset = assigned.position;
                self.park(index, Error::TooLarge, offset, None);
            } else if too_large {
                assigned.alone = true;
                self.relink_assigned(index);
            } else {
                self.back_off_assigned(index, now);
            }
        }
        self.wants_turn = true;
    }
}

/// The batches that were found, as a view into the answer.
fn view(body: &SharedLease, records: &[u8], found: &Found) -> Option<SharedLease> {
    // The records are a slice of the answer; where it begins there is what a view needs.
    let start = (records.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let (from, to) = (start + found.range.0, start + found.range.1);
    body.get(from..to)?;
    Some(body.slice(from..to))
}
