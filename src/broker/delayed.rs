//! Delayed: the purgatory. Requests that wait: long polls for appends, batches for memory of the
//! log, and whatever found no room to be answered.
//!
//! Each stands in one list per thing that it waits for: a partition, any partition (if it watches
//! more than there are nodes for), the log's memory, or room. When something happens, those in its
//! list become *ready*, once each; the rest is not looked at. Ready ones are handled anew once a
//! turn, however often they became so.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::request::WaitFor;
use crate::net::ring::Ring;
use crate::net::slots::{SlotId, Slots};
use crate::net::timers::Timers;
use crate::net::{ConnId, SharedLease};
use crate::time::Instant;

const NONE: u32 = u32::MAX;

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Its connection.
    pub conn: ConnId,
    /// Its frame, header included.
    pub frame: SharedLease,
    /// When it was first handled.
    pub arrived: Instant,
    /// What it waits for.
    pub on: WaitFor,
    ready: bool,
}

/// Something that can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// An append to the partition with this index.
    Partition(u32),
    /// An append to any partition.
    AnyPartition,
    /// A block of the log's memory that came home.
    LogMemory,
    /// Room for answers, or among the host's requests.
    Room,
}

/// A place in a circular list, whose head is a node too.
#[derive(Clone, Copy, Debug)]
struct Node {
    prev: u32,
    next: u32,
    /// The index of the request that waits.
    parked: u32,
    /// The next node of the same request, or the next free one.
    sibling: u32,
}

/// All requests that wait.
#[derive(Debug)]
pub(crate) struct Delayed {
    parked: Slots<Parked>,
    timers: Timers,
    ready: Ring<SlotId>,
    /// First one node of each request, then those that can be had besides, then the lists' heads.
    nodes: Box<[Node]>,
    free: u32,
    free_len: usize,
    heads: u32,
    partitions: u32,
}

impl Delayed {
    /// Places for `capacity` requests, which may wait for `partitions` partitions.
    pub(crate) fn new(capacity: usize, partitions: usize) -> Self {
        let extra = 4 * capacity + 2 * partitions;
        let heads = capacity + extra;
        let alone = |i: usize| Node { prev: i as u32, next: i as u32, parked: NONE, sibling: NONE };
        let mut nodes: Box<[Node]> = (0..heads + partitions + 3).map(alone).collect();
        for (i, node) in nodes.iter_mut().enumerate().take(heads).skip(capacity) {
            node.sibling = if i + 1 < heads { i as u32 + 1 } else { NONE };
        }
        Delayed {
            parked: Slots::new(capacity),
            timers: Timers::new(capacity),
            // A request that goes leaves its id here, so there is room for a second round.
            ready: Ring::new(2 * capacity),
            nodes,
            free: if extra == 0 { NONE } else { capacity as u32 },
            free_len: extra,
            heads: heads as u32,
            partitions: partitions as u32,
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.parked.len()
    }

    /// When the first of them will not wait any longer.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.earliest()
    }

    /// Whether there are ready ones.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Parks a request; `None` if there is no place. Of the partitions in `watch` any will wake it.
    pub(crate) fn park(
        &mut self,
        conn: ConnId,
        frame: SharedLease,
        arrived: Instant,
        (until, on): (Instant, WaitFor),
        watch: &[u32],
    ) -> Option<SlotId> {
        let parked = Parked { conn, frame, arrived, on, ready: false };
        let id = self.parked.insert(parked).ok()?;
        self.wait(id, until, on, watch);
        Some(id)
    }

    /// Parks a request again that was ready.
    pub(crate) fn park_again(
        &mut self,
        id: SlotId,
        (until, on): (Instant, WaitFor),
        watch: &[u32],
    ) {
        let Some(parked) = self.parked.get_mut(id) else { return };
        let before = core::mem::replace(&mut parked.on, on);
        if before == on && on == WaitFor::Appends {
            // What a long poll watches does not change while it waits.
            self.timers.set(id.index(), until);
            return;
        }
        self.unlink_all(id);
        self.wait(id, until, on, watch);
    }

    /// The request.
    pub(crate) fn get(&self, id: SlotId) -> Option<&Parked> {
        self.parked.get(id)
    }

    /// Takes a request out.
    pub(crate) fn remove(&mut self, id: SlotId) -> Option<Parked> {
        self.parked.get(id)?;
        self.unlink_all(id);
        self.timers.clear(id.index());
        self.parked.remove(id)
    }

    /// Something happened: those who wait for it are ready.
    pub(crate) fn wake(&mut self, source: Source) {
        let Some(head) = self.head(source) else { return };
        let mut at = self.next(head);
        while at != head {
            if let Some(node) = self.nodes.get(at as usize) {
                self.make_ready(node.parked as usize);
            }
            at = self.next(at);
        }
    }

    /// One request is ready.
    pub(crate) fn wake_one(&mut self, id: SlotId) {
        if self.parked.get(id).is_some() {
            self.make_ready(id.index());
        }
    }

    /// Those who will not wait any longer are ready.
    pub(crate) fn wake_due(&mut self, now: Instant) {
        while let Some(index) = self.timers.pop_due(now) {
            self.make_ready(index);
        }
    }

    /// All of them are ready.
    pub(crate) fn wake_all(&mut self) {
        for index in 0..self.parked.capacity() {
            self.make_ready(index);
        }
    }

    /// How many ready ones there are to take now.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Takes a ready one, in the order in which they became so.
    pub(crate) fn take_ready(&mut self) -> Option<SlotId> {
        let id = self.ready.pop_front()?;
        if let Some(parked) = self.parked.get_mut(id) {
            parked.ready = false;
        }
        Some(id)
    }

    /// Whether somebody waits for this.
    pub(crate) fn is_awaited(&self, source: Source) -> bool {
        self.head(source).is_some_and(|head| self.next(head) != head)
    }

    fn make_ready(&mut self, index: usize) {
        let Some((id, parked)) = self.parked.at_mut(index) else { return };
        if parked.ready {
            return;
        }
        parked.ready = true;
        if self.ready.push_back(id).is_err() {
            self.forget_gone();
            // One id per request fits, since none of them stands there twice.
            let _kept = self.ready.push_back(id);
        }
    }

    /// Drops ids of requests that are gone.
    fn forget_gone(&mut self) {
        for _ in 0..self.ready.len() {
            if let Some(id) = self.ready.pop_front()
                && self.parked.get(id).is_some()
            {
                // It has just left the place that it goes back to.
                let _kept = self.ready.push_back(id);
            }
        }
    }

    fn wait(&mut self, id: SlotId, until: Instant, on: WaitFor, watch: &[u32]) {
        let own = id.index() as u32;
        if until == Instant::FAR {
            self.timers.clear(id.index());
        } else {
            self.timers.set(id.index(), until);
        }
        match on {
            WaitFor::LogMemory => self.link(own, own, Source::LogMemory),
            WaitFor::Room => self.link(own, own, Source::Room),
            WaitFor::Appends => {
                if watch.len() > self.free_len + 1 {
                    return self.link(own, own, Source::AnyPartition);
                }
                let Some((first, others)) = watch.split_first() else { return };
                self.link(own, own, Source::Partition(*first));
                for partition in others {
                    let node = self.take_node(own);
                    self.link(node, own, Source::Partition(*partition));
                }
            }
        }
    }

    fn head(&self, source: Source) -> Option<u32> {
        let nth = match source {
            Source::Partition(index) if index < self.partitions => index,
            Source::Partition(_) => return None,
            Source::AnyPartition => self.partitions,
            Source::LogMemory => self.partitions + 1,
            Source::Room => self.partitions + 2,
        };
        Some(self.heads + nth)
    }

    fn next(&self, at: u32) -> u32 {
        self.nodes.get(at as usize).map_or(at, |node| node.next)
    }

    fn node(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)
    }

    /// A free node, chained behind the request's own.
    fn take_node(&mut self, own: u32) -> u32 {
        let taken = self.free;
        let Some(node) = self.nodes.get_mut(taken as usize) else { return NONE };
        let after = node.sibling;
        self.free = after;
        self.free_len -= 1;
        let chain = self.node(own).map_or(NONE, |own| core::mem::replace(&mut own.sibling, taken));
        if let Some(node) = self.node(taken) {
            node.sibling = chain;
        }
        taken
    }

    /// Puts a node at the end of a list.
    fn link(&mut self, at: u32, parked: u32, source: Source) {
        let Some(head) = self.head(source) else { return };
        let Some(last) = self.node(head).map(|node| core::mem::replace(&mut node.prev, at)) else {
            return;
        };
        if let Some(node) = self.node(last) {
            node.next = at;
        }
        if let Some(node) = self.node(at) {
            *node = Node { prev: last, next: head, parked, ..*node };
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(node) = self.node(at) else { return };
        let (prev, next) = (node.prev, node.next);
        (node.prev, node.next) = (at, at);
        if let Some(node) = self.node(prev) {
            node.next = next;
        }
        if let Some(node) = self.node(next) {
            node.prev = prev;
        }
    }

    /// Takes a request out of all lists.
    fn unlink_all(&mut self, id: SlotId) {
        let own = id.index() as u32;
        self.unlink(own);
        let mut at = self.node(own).map_or(NONE, |own| core::mem::replace(&mut own.sibling, NONE));
        while at != NONE {
            self.unlink(at);
            let free = self.free;
            let next = self.node(at).map_or(NONE, |n| core::mem::replace(&mut n.sibling, free));
            self.free = at;
            self.free_len += 1;
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_types, clippy::disallowed_macros)]

    use super::*;
    use std::collections::BTreeMap;

    fn take_all(delayed: &mut Delayed) -> Vec<SlotId> {
        core::iter::from_fn(|| delayed.take_ready()).collect()
    }

    /// Parking, waking and taking out at random, beside a map of who waits for what.
    #[test]
    #[expect(clippy::too_many_lines, reason = "one model, step by step")]
    fn agrees_with_a_map() {
        const PARTITIONS: u32 = 6;
        let mut delayed = Delayed::new(5, PARTITIONS as usize);
        let free = delayed.free_len;
        let mut model: BTreeMap<u64, (Vec<u32>, WaitFor, Instant)> = BTreeMap::new();
        let mut x = 1u64;
        for step in 0..50_000u64 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = |shift: u32, below: u64| (x >> shift) % below;
            let conn = ConnId::new(1, 1);
            match random(60, 8) {
                0..=2 => {
                    // Now and then more than there are nodes for, and some partitions twice.
                    let len = if random(50, 20) == 0 { 40 } else { 1 + random(40, 6) };
                    let watch: Vec<u32> = (0..len)
                        .map(|i| ((x >> (i % 20)) % u64::from(PARTITIONS)) as u32)
                        .collect();
                    let on = [WaitFor::Appends, WaitFor::LogMemory, WaitFor::Room]
                        [random(30, 3) as usize];
                    let until = Instant::from_nanos(step + 1 + random(20, 500));
                    let frame = SharedLease::empty();
                    let id = delayed.park(conn, frame, Instant::default(), (until, on), &watch);
                    assert_eq!(id.is_none(), model.len() == 5);
                    if let Some(id) = id {
                        let any = watch.len() > 5 * 4 + 2 * PARTITIONS as usize;
                        let watch = if any { (0..PARTITIONS).collect() } else { watch };
                        model.insert(id.raw(), (watch, on, until));
                    }
                }
                3 => {
                    if let Some((&raw, _)) = model.iter().nth(random(20, 5) as usize) {
                        assert!(delayed.remove(SlotId::from_raw(raw)).is_some());
                        assert!(delayed.remove(SlotId::from_raw(raw)).is_none());
                        model.remove(&raw);
                    }
                }
                4 | 5 => {
                    let partition = random(20, u64::from(PARTITIONS)) as u32;
                    delayed.wake(Source::Partition(partition));
                    delayed.wake(Source::Partition(partition));
                    delayed.wake(Source::AnyPartition);
                    let woken: Vec<u64> =
                        take_all(&mut delayed).iter().map(|id| id.raw()).collect();
                    for (raw, (watch, on, _)) in &model {
                        let times = woken.iter().filter(|woken| *woken == raw).count();
                        let waits = *on == WaitFor::Appends && watch.contains(&partition);
                        // One that could not note its partitions may be woken for nothing.
                        let vague = *on == WaitFor::Appends && watch.len() == 6;
                        assert!(times == usize::from(waits) || (vague && times == 1));
                    }
                }
                6 => {
                    let (source, on) = match random(20, 2) {
                        0 => (Source::LogMemory, WaitFor::LogMemory),
                        _ => (Source::Room, WaitFor::Room),
                    };
                    delayed.wake(source);
                    let mut woken: Vec<u64> =
                        take_all(&mut delayed).iter().map(|i| i.raw()).collect();
                    woken.sort_unstable();
                    let waits = model.iter().filter(|(_, (_, o, _))| *o == on).map(|(raw, _)| *raw);
                    assert!(waits.eq(woken));
                }
                _ => {
                    let now = Instant::from_nanos(step);
                    delayed.wake_due(now);
                    let due = model.values().filter(|(_, _, until)| *until <= now).count();
                    let ready = take_all(&mut delayed);
                    assert_eq!(ready.len(), due);
                    for id in ready {
                        // It goes, or it waits for something else.
                        if id.raw() % 2 == 0 {
                            let until = Instant::from_nanos(step + 100);
                            delayed.park_again(id, (until, WaitFor::Room), &[]);
                            model.insert(id.raw(), (vec![], WaitFor::Room, until));
                        } else {
                            delayed.remove(id);
                            model.remove(&id.raw());
                        }
                    }
                }
            }
            let earliest = model.values().map(|(_, _, until)| *until).min();
            assert_eq!(delayed.next_deadline(), earliest);
            assert_eq!(delayed.len(), model.len());
        }
        for (raw, _) in model {
            delayed.remove(SlotId::from_raw(raw));
        }
        assert_eq!(delayed.free_len, free, "nodes were lost");
        for partition in 0..PARTITIONS {
            assert!(!delayed.is_awaited(Source::Partition(partition)));
        }
    }
}
