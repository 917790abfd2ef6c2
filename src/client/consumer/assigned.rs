//! Assigned: a consumer's partitions, the state of each, and the lists that they wait in.
//!
//! | a partition | stands in | holds its node | its timer |
//! |---|---|---|---|
//! | seeks its position | `Kind::Seek`, then `SeekSent` | | |
//! | is to be fetched, is being fetched | `Kind::Fetch`, `FetchSent` | | |
//! | has an event that was not taken | the client's events | yes | |
//! | has batches to inflate | `to_inflate`, [`NOW`] | yes | |
//! | waits for memory to inflate in | `to_inflate`, [`STARVED`] | yes | when it gives that up |
//! | backs off | none | | when it is tried again |
//! | is paused, is parked, nobody leads it | none | | |
//!
//! A node that is *held* is not fetched from: what came from it was not taken yet.

use super::compressed_fetch::CompressedFetch;
use crate::client::TopicId;
use crate::client::client::Client;
use crate::client::config::ClientLimits;
use crate::client::events::Source;
use crate::client::lists::Lists;
use crate::client::metadata::NOBODY;
use crate::error::Error;
use crate::logging::Level;
use crate::net::SharedLease;
use crate::net::slots::{SlotId, Slots};
use crate::net::timers::Timers;
use crate::protocol::ErrorCode;
use crate::time::Instant;

/// The lists of those that have batches to inflate: now, and when a block has come home.
pub(super) const NOW: usize = 0;
pub(super) const STARVED: usize = 1;

/// Where to look for a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seek {
    End,
    Beginning,
    /// The first record at or after a time in milliseconds.
    Time(i64),
}

/// As `auto.offset.reset` names them.
impl core::fmt::Display for Seek {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Seek::End => write!(f, "latest"),
            Seek::Beginning => write!(f, "earliest"),
            Seek::Time(at) => write!(f, "the time {at}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    Seeking(Seek),
    Reading,
    /// Stopped by an error, until it is assigned again.
    Parked,
}

/// Batches that wait to be taken.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) batches: SharedLease,
    pub(super) count: u32,
    /// The position behind them.
    pub(super) next: i64,
    pub(super) high_watermark: i64,
}

#[derive(Debug)]
pub(in crate::client) struct Assigned {
    pub(super) consumer: SlotId,
    pub(super) topic: TopicId,
    pub(super) partition: i32,
    /// Its dense number; [`NOBODY`] while the topic is not known.
    pub(super) part: u32,
    pub(super) state: ReadState,
    /// The next offset to read; -1 while seeking.
    pub(super) position: i64,
    pub(super) paused: bool,
    pub(super) backing_off: bool,
    /// How often in a row it gave up waiting for memory to inflate in.
    pub(super) starvings: u32,
    /// Errors in a row.
    pub(super) failures: u32,
    /// Positions in a row that were out of range.
    pub(super) resets: u32,
    /// Since when the cluster has not had it, and whether that was told.
    pub(super) missing: Option<(Instant, bool)>,
    /// It must be fetched alone: an answer with it was larger than a frame may be.
    pub(super) alone: bool,
    pub(super) records: Option<Pending>,
    /// What is to be inflated yet. While it is here nothing is fetched, sought or let go of.
    pub(super) compressed: Option<CompressedFetch>,
    pub(super) eof: Option<i64>,
    /// The end that was told last.
    pub(super) eof_told: i64,
    pub(super) failure: Option<(Error, i64)>,
    /// The node whose Fetch waits for its events to be taken.
    pub(super) holds: u32,
    pub(super) round: u32,
}

impl Assigned {
    /// Whether it has something to tell.
    pub(super) fn has_events(&self) -> bool {
        self.records.is_some() || self.eof.is_some() || self.failure.is_some()
    }
}

/// Which list of a consumer and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Traffic {
    pub(super) seeking: bool,
    pub(super) fetching: bool,
    /// Partitions whose events were not taken.
    pub(super) held: u32,
}

/// The assigned partitions of all consumers.
#[derive(Debug)]
pub(in crate::client) struct Assignments {
    pub(super) slots: Slots<Assigned>,
    /// Per consumer all of its own.
    pub(super) owned: Lists,
    /// Per consumer and node, four.
    pub(super) lists: Lists,
    pub(super) traffic: Box<[Traffic]>,
    /// Those whose next block can be inflated now.
    pub(super) to_inflate: Lists,
    /// What the pool's count of returns was when those that starve were refused.
    pub(super) returns_seen: u64,
    /// Whose answer is waited with, if any partition starves: its consumer and node.
    pub(super) starving: Option<(SlotId, u32)>,
    /// How many answers may be asked for or held at a time: all there can be, or fewer after memory
    /// ran out. See `fetch_window`.
    pub(super) window: usize,
    /// Pairs of a consumer and a node that there are now.
    pub(super) in_use: usize,
    /// Answers since memory ran out or the window grew.
    pub(super) calm: u32,
    /// Whose turn it is to fetch: consumers times nodes, counted through.
    pub(super) next_turn: usize,
    pub(super) nodes: usize,
    /// Per partition: when its backoff is over.
    pub(in crate::client) timers: Timers,
}

impl Assignments {
    pub(in crate::client) fn new(limits: &ClientLimits) -> Self {
        let pairs = limits.max_consumers * limits.max_nodes;
        Assignments {
            slots: Slots::new(limits.max_assigned),
            owned: Lists::new(limits.max_consumers, limits.max_assigned),
            lists: Lists::new(pairs * 4, limits.max_assigned),
            traffic: core::iter::repeat_n(Traffic::default(), pairs).collect(),
            to_inflate: Lists::new(2, limits.max_assigned),
            returns_seen: 0,
            starving: None,
            window: pairs,
            in_use: 0,
            calm: 0,
            next_turn: 0,
            nodes: limits.max_nodes,
            timers: Timers::new(limits.max_assigned),
        }
    }

    pub(super) fn get(&self, index: u32) -> Option<&Assigned> {
        self.slots.at(index as usize).map(|(_, assigned)| assigned)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Assigned> {
        self.slots.at_mut(index as usize).map(|(_, assigned)| assigned)
    }

    pub(super) fn pair(&self, consumer: SlotId, node: u32) -> usize {
        consumer.index() * self.nodes + node as usize
    }

    pub(super) fn list(&self, consumer: SlotId, node: u32, kind: Kind) -> usize {
        self.pair(consumer, node) * 4 + kind as usize
    }

    pub(super) fn traffic_mut(&mut self, consumer: SlotId, node: u32) -> Option<&mut Traffic> {
        let pair = self.pair(consumer, node);
        self.traffic.get_mut(pair)
    }

    pub(super) fn traffic(&self, consumer: SlotId, node: u32) -> Traffic {
        self.traffic.get(self.pair(consumer, node)).copied().unwrap_or_default()
    }

    /// Whether there is something to inflate that this turn had no room for.
    pub(in crate::client) fn has_to_inflate(&self) -> bool {
        !self.to_inflate.is_empty(NOW)
    }

    /// Whether it stands in a list of requests under way.
    pub(super) fn is_sent(&self, index: u32) -> bool {
        let sent = [Kind::SeekSent as usize, Kind::FetchSent as usize];
        self.lists.list_of(index).is_some_and(|list| sent.contains(&(list % 4)))
    }
}

impl Client {
    /// Takes a partition out of its consumer's assignment, and its events with it.
    pub(super) fn unassign(&mut self, index: u32) {
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
    pub(super) fn let_go(&mut self, index: u32) {
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
    pub(super) fn tell(&mut self, index: u32, node: Option<u32>) {
        self.events.push(Source::Assigned(index));
        if let Some(node) = node {
            self.hold(index, node);
        }
    }

    /// Nothing is fetched from `node` before [`Client::let_go`]: what came from it must be taken
    /// first. It holds one node back at most.
    pub(super) fn hold(&mut self, index: u32, node: u32) {
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

    /// A partition stops, and says why.
    pub(super) fn park(&mut self, index: u32, error: Error, offset: i64, node: Option<u32>) {
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
    pub(super) fn back_off_assigned(&mut self, index: u32, now: Instant) {
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        let failures = assigned.failures;
        assigned.failures = failures.saturating_add(1);
        self.rest_assigned(index, failures, now);
    }

    /// A partition waits, longer after more attempts.
    pub(super) fn rest_assigned(&mut self, index: u32, attempts: u32, now: Instant) {
        let retry = self.cluster.config().retry;
        let wait = retry.delay(attempts, &mut self.random);
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        assigned.backing_off = true;
        self.assigned.timers.set(index as usize, now.after(wait));
        self.relink_assigned(index);
    }

    /// Its wait is over: for its next attempt, or for memory to inflate in.
    pub(in crate::client) fn assigned_due(&mut self, index: u32, now: Instant) {
        if self.assigned.to_inflate.list_of(index) == Some(STARVED) {
            return self.give_up_inflating(index, now);
        }
        if let Some(assigned) = self.assigned.get_mut(index) {
            assigned.backing_off = false;
            self.relink_assigned(index);
        }
    }

    /// Puts a partition into the list in which it can go on, or into none. What is in a request
    /// stays there: [`Client::restart`] takes it out.
    pub(super) fn relink_assigned(&mut self, index: u32) {
        if self.assigned.is_sent(index) {
            return;
        }
        let Some(assigned) = self.assigned.get(index) else { return };
        let has_events = assigned.has_events();
        if assigned.compressed.is_some() {
            if !has_events && self.assigned.to_inflate.list_of(index) != Some(STARVED) {
                self.assigned.to_inflate.push_back(NOW, index);
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
    pub(super) fn restart(&mut self, index: u32) {
        self.let_go(index);
        self.events.remove(Source::Assigned(index));
        self.assigned.lists.remove(index);
        self.assigned.to_inflate.remove(index);
        self.assigned.timers.clear(index as usize);
        let Some(assigned) = self.assigned.get_mut(index) else { return };
        assigned.records = None;
        assigned.compressed = None;
        assigned.eof = None;
        assigned.eof_told = -1;
        assigned.failure = None;
        assigned.backing_off = false;
        assigned.failures = 0;
        assigned.resets = 0;
        assigned.starvings = 0;
        assigned.alone = false;
        self.relink_assigned(index);
    }

    /// What an error code of a partition means, besides success and a position out of range.
    pub(super) fn partition_error(&mut self, index: u32, code: ErrorCode, node: u32, now: Instant) {
        let about_metadata = crate::client::producer::is_about_metadata(code);
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
