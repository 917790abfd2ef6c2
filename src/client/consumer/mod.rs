//! Consumer: records of assigned partitions, from given positions on.
//!
//! **A partition's road.** Assigned at an offset, or *seeking* one (ListOffsets: end, beginning or a
//! time) → *reading*: it stands in the fetch list of the node that leads it → a Fetch takes all
//! that stand there → the answer's batches are checked where they were received and wait as one
//! event → the host takes the event, which moves the position → it is fetched again. If any of them
//! is compressed, they are inflated a block at a time, an event each, and only behind the last it is
//! fetched again (`completed_fetch`). So a partition has one event at most, and what a host does not
//! take is not fetched further.
//!
//! **One Fetch per consumer and node.** The next goes out when the answer has come and *all* events
//! made of it were taken: a partition that was taken early must not start a Fetch that waits at the
//! broker while the others have records.
//!
//! **What stops a partition**: a batch that is damaged, compressed by a codec that was not built, or
//! larger than the pool's largest block (as it came, or inflated), a code that does not go away, an
//! offset out of range with `auto.offset.reset=none`. One [`Failed`](super::ClientEvent::Failed) event says why and where;
//! the partition *parks* until it is assigned again.
//!
//! Absent: groups, fetch sessions, following a preferred replica, the check for a truncated log.

mod completed_fetch;
mod fetcher;
mod reset;
mod scan;
mod subscription;

use super::client::Client;
use super::config::{ClientLimits, ConsumerConfig};
use super::events::Source;
use super::lists::Lists;
use super::metadata::NOBODY;
use super::{ClientEvent, TopicId};
use crate::error::Error;
use crate::logging::Level;
use crate::net::SharedLease;
use crate::net::slots::{SlotId, Slots};
use crate::net::timers::Timers;
use crate::protocol::ErrorCode;
use crate::time::Instant;
use completed_fetch::CompletedFetch;
pub(super) use completed_fetch::INFLATE_TURN;

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) owner: u64,
    config: ConsumerConfig,
    /// By a partition's dense number its place in the table of assigned ones.
    by_part: Box<[u32]>,
    /// Rises with each assignment.
    round: u32,
    closing: bool,
}

/// Where to look for a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seek {
    End,
    Beginning,
    /// The first record at or after a time in milliseconds.
    Time(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    Seeking(Seek),
    Reading,
    /// Stopped by an error, until it is assigned again.
    Parked,
}

/// Batches that wait to be taken.
#[derive(Debug)]
struct Pending {
    batches: SharedLease,
    count: u32,
    /// The position behind them.
    next: i64,
    high_watermark: i64,
}

#[derive(Debug)]
pub(super) struct Assigned {
    consumer: SlotId,
    topic: TopicId,
    partition: i32,
    /// Its dense number; [`NOBODY`] while the topic is not known.
    part: u32,
    state: ReadState,
    /// The next offset to read; -1 while seeking.
    position: i64,
    paused: bool,
    backing_off: bool,
    /// Errors in a row.
    failures: u32,
    /// Positions in a row that were out of range.
    resets: u32,
    /// Since when the cluster has not had it, and whether that was told.
    missing: Option<(Instant, bool)>,
    /// It must be fetched alone: an answer with it was larger than a frame may be.
    alone: bool,
    records: Option<Pending>,
    /// What is to be inflated yet. While it is here nothing is fetched, sought or let go of.
    completed: Option<CompletedFetch>,
    eof: Option<i64>,
    /// The end that was told last.
    eof_told: i64,
    failure: Option<(Error, i64)>,
    /// The node whose Fetch waits for its events to be taken.
    holds: u32,
    round: u32,
}

impl Assigned {
    /// Whether it has something to tell.
    fn has_events(&self) -> bool {
        self.records.is_some() || self.eof.is_some() || self.failure.is_some()
    }
}

/// Which list of a consumer and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To be asked for their position.
    Seek = 0,
    /// Asked.
    SeekSent = 1,
    /// To be fetched.
    Fetch = 2,
    /// Being fetched.
    FetchSent = 3,
}

/// What is under way between one consumer and one node.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    seeking: bool,
    fetching: bool,
    /// Partitions whose events were not taken.
    held: u32,
}

/// The assigned partitions of all consumers.
#[derive(Debug)]
pub(super) struct Assignments {
    slots: Slots<Assigned>,
    /// Per consumer all of its own.
    owned: Lists,
    /// Per consumer and node, four.
    lists: Lists,
    traffic: Box<[Traffic]>,
    /// Those whose next block can be inflated now.
    to_inflate: Lists,
    nodes: usize,
    /// Per partition: when its backoff is over.
    pub(super) timers: Timers,
}

impl Assignments {
    pub(super) fn new(limits: &ClientLimits) -> Self {
        let pairs = limits.max_consumers * limits.max_nodes;
        Assignments {
            slots: Slots::new(limits.max_assigned),
            owned: Lists::new(limits.max_consumers, limits.max_assigned),
            lists: Lists::new(pairs * 4, limits.max_assigned),
            traffic: core::iter::repeat_n(Traffic::default(), pairs).collect(),
            to_inflate: Lists::new(1, limits.max_assigned),
            nodes: limits.max_nodes,
            timers: Timers::new(limits.max_assigned),
        }
    }

    fn get(&self, index: u32) -> Option<&Assigned> {
        self.slots.at(index as usize).map(|(_, assigned)| assigned)
    }

    fn get_mut(&mut self, index: u32) -> Option<&mut Assigned> {
        self.slots.at_mut(index as usize).map(|(_, assigned)| assigned)
    }

    fn pair(&self, consumer: SlotId, node: u32) -> usize {
        consumer.index() * self.nodes + node as usize
    }

    fn list(&self, consumer: SlotId, node: u32, kind: Kind) -> usize {
        self.pair(consumer, node) * 4 + kind as usize
    }

    fn traffic_mut(&mut self, consumer: SlotId, node: u32) -> Option<&mut Traffic> {
        let pair = self.pair(consumer, node);
        self.traffic.get_mut(pair)
    }

    fn traffic(&self, consumer: SlotId, node: u32) -> Traffic {
        self.traffic.get(self.pair(consumer, node)).copied().unwrap_or_default()
    }

    /// Whether it stands in a list of requests under way.
    fn is_sent(&self, index: u32) -> bool {
        let sent = [Kind::SeekSent as usize, Kind::FetchSent as usize];
        self.lists.list_of(index).is_some_and(|list| sent.contains(&(list % 4)))
    }
}

impl Client {
    /// Adds a consumer, which reads nothing until it is given an assignment.
    ///
    /// # Errors
    /// [`Error::Exhausted`] for one too many.
    pub fn add_consumer(
        &mut self,
        config: ConsumerConfig,
        owner_value: u64,
    ) -> Result<SlotId, Error> {
        self.open()?;
        let by_part = core::iter::repeat_n(NOBODY, self.limits.max_partitions).collect();
        let consumer = Consumer { owner: owner_value, config, by_part, round: 0, closing: false };
        let inserted = self.consumers.insert(consumer);
        let id = inserted.map_err(|_| Error::Exhausted("consumers (max_consumers)"))?;
        for node in 0..self.limits.max_nodes as u32 {
            if let Some(traffic) = self.assigned.traffic_mut(id, node) {
                *traffic = Traffic::default();
            }
        }
        Ok(id)
    }

    /// Ends a consumer at once; events of it that were not taken are dropped.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Closed`] if it is closing already.
    pub fn close_consumer(&mut self, consumer: SlotId) -> Result<(), Error> {
        let entry = self.consumers.get_mut(consumer).ok_or(Error::Stale)?;
        if core::mem::replace(&mut entry.closing, true) {
            return Err(Error::Closed);
        }
        while let Some(index) = self.assigned.owned.front(consumer.index()) {
            self.unassign(index);
        }
        self.events.push(Source::ConsumerClosed(consumer.index() as u32));
        Ok(())
    }

    /// Takes a partition out of its consumer's assignment, and its events with it.
    fn unassign(&mut self, index: u32) {
        self.let_go(index);
        self.events.remove(Source::Assigned(index));
        self.assigned.lists.remove(index);
        self.assigned.to_inflate.remove(index);
        self.assigned.owned.remove(index);
        self.assigned.timers.clear(index as usize);
        let Some((id, assigned)) = self.assigned.slots.at(index as usize) else { return };
        let (consumer, part) = (assigned.consumer, assigned.part);
        if let Some(consumer) = self.consumers.get_mut(consumer)
            && let Some(place) = consumer.by_part.get_mut(part as usize)
        {
            *place = NOBODY;
        }
        self.assigned.slots.remove(id);
    }

    /// What it had was taken or dropped, events and what was to be inflated: the node it held back may
    /// be fetched from.
    fn let_go(&mut self, index: u32) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let node = core::mem::replace(&mut assigned.holds, NOBODY);
        let consumer = assigned.consumer;
        if node != NOBODY
            && let Some(traffic) = self.assigned.traffic_mut(consumer, node)
        {
            traffic.held = traffic.held.saturating_sub(1);
            self.wants_turn = true;
        }
    }

    /// It has something to tell, by an answer of `node` or without one.
    fn tell(&mut self, index: u32, node: Option<u32>) {
        self.events.push(Source::Assigned(index));
        if let Some(node) = node {
            self.hold(index, node);
        }
    }

    /// Nothing is fetched from `node` before [`Client::let_go`]: what came from it must be taken
    /// first. It holds one node back at most.
    fn hold(&mut self, index: u32, node: u32) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        if assigned.holds != NOBODY {
            return;
        }
        assigned.holds = node;
        let consumer = assigned.consumer;
        if let Some(traffic) = self.assigned.traffic_mut(consumer, node) {
            traffic.held += 1;
        }
    }

    /// Takes the event of a partition: records first, then their end, then an error.
    pub(super) fn assigned_event(&mut self, index: u32) -> Option<ClientEvent> {
        let assigned = self.assigned.get_mut(index)?;
        let owner = self.consumers.get(assigned.consumer)?.owner;
        let (topic, partition) = (assigned.topic, assigned.partition);
        let event = if let Some(records) = assigned.records.take() {
            let from = core::mem::replace(&mut assigned.position, records.next);
            let Pending { batches, count, high_watermark, .. } = records;
            self.stats.records_fetched += u64::from(count);
            self.stats.bytes_fetched += batches.len() as u64;
            Some(ClientEvent::Records {
                owner,
                batches,
                from,
                count,
                high_watermark,
                topic,
                partition,
            })
        } else if let Some(offset) = assigned.eof.take() {
            assigned.eof_told = offset;
            Some(ClientEvent::Eof { owner, topic, partition, offset })
        } else if let Some((error, offset)) = assigned.failure.take() {
            Some(ClientEvent::Failed { owner, error, topic: Some(topic), partition, offset })
        } else {
            None
        };
        if assigned.eof.is_some() || assigned.failure.is_some() {
            self.events.push(Source::Assigned(index));
        } else {
            if assigned.completed.is_none() {
                self.let_go(index);
            }
            self.relink_assigned(index);
        }
        event
    }

    /// A partition stops, and says why.
    fn park(&mut self, index: u32, error: Error, offset: i64, node: Option<u32>) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        assigned.state = ReadState::Parked;
        assigned.failure = Some((error, offset));
        let (topic, partition) = (assigned.topic, assigned.partition);
        let name = self.metadata.name(topic).unwrap_or("");
        self.log(Level::Warn, format_args!("{name}-{partition} stops at {offset}: {error}"));
        self.tell(index, node);
        self.relink_assigned(index);
    }

    /// A partition waits before it is tried again.
    fn back_off_assigned(&mut self, index: u32, now: Instant) {
        let retry = self.cluster.config().retry;
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let wait = retry.delay(assigned.failures, &mut self.random);
        assigned.failures = assigned.failures.saturating_add(1);
        assigned.backing_off = true;
        self.assigned.timers.set(index as usize, now.after(wait));
        self.relink_assigned(index);
    }

    /// The wait is over.
    pub(super) fn assigned_due(&mut self, index: u32) {
        if let Some(assigned) = self.assigned.get_mut(index) {
            assigned.backing_off = false;
            self.relink_assigned(index);
        }
    }

    /// Puts a partition into the list in which it can go on, or into none. What is in a request
    /// stays there: [`Client::restart`] takes it out.
    fn relink_assigned(&mut self, index: u32) {
        if self.assigned.is_sent(index) {
            return;
        }
        let Some(assigned) = self.assigned.get(index) else { return };
        let has_events = assigned.has_events();
        if assigned.completed.is_some() {
            if !has_events && !assigned.backing_off {
                self.assigned.to_inflate.push_back(0, index);
                self.wants_turn = true;
            }
            return;
        }
        let kind = match assigned.state {
            _ if assigned.paused || assigned.backing_off || has_events => None,
            ReadState::Parked => None,
            ReadState::Seeking(_) => Some(Kind::Seek),
            ReadState::Reading => Some(Kind::Fetch),
        };
        let (consumer, part) = (assigned.consumer, assigned.part);
        let leader = self.metadata.leader(part);
        match (kind, leader) {
            (Some(kind), Some(node)) => {
                let list = self.assigned.list(consumer, node, kind);
                self.assigned.lists.push_back(list, index);
            }
            (kind, _) => {
                self.assigned.lists.remove(index);
                // Somebody wants to read where nobody leads.
                if kind.is_some() {
                    self.refresh.need();
                }
            }
        }
        self.wants_turn = true;
    }

    /// Whatever is under way for a partition is for nothing: it starts from its present state.
    fn restart(&mut self, index: u32) {
        self.let_go(index);
        self.events.remove(Source::Assigned(index));
        self.assigned.lists.remove(index);
        self.assigned.to_inflate.remove(index);
        self.assigned.timers.clear(index as usize);
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        assigned.records = None;
        assigned.completed = None;
        assigned.eof = None;
        assigned.eof_told = -1;
        assigned.failure = None;
        assigned.backing_off = false;
        assigned.failures = 0;
        assigned.resets = 0;
        assigned.alone = false;
        self.relink_assigned(index);
    }

    /// A partition has another leader.
    pub(super) fn leader_changed_for_consumers(&mut self, part: u32) {
        for i in 0..self.consumers.capacity() {
            let Some((_, consumer)) = self.consumers.at(i) else { continue };
            let index = consumer.by_part.get(part as usize).copied().unwrap_or(NOBODY);
            if index == NOBODY {
                continue;
            }
            // What is in flight with the old leader is given up; its answer finds nobody.
            if self.assigned.is_sent(index) {
                self.assigned.lists.remove(index);
            }
            self.relink_assigned(index);
        }
    }

    /// What an error code of a partition means, besides success and a position out of range.
    fn partition_error(&mut self, index: u32, code: ErrorCode, node: u32, now: Instant) {
        let about_metadata = super::producer::is_about_metadata(code);
        if about_metadata {
            self.refresh.need();
        }
        if about_metadata || code.is_retriable() || code == ErrorCode::UNKNOWN_SERVER_ERROR {
            self.back_off_assigned(index, now);
        } else {
            let offset = self.assigned.get(index).map_or(-1, |assigned| assigned.position);
            self.park(index, code.into(), offset, Some(node));
        }
    }
}
