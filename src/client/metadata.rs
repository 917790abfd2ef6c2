//! Metadata: the cached picture of topics, partitions and their leaders.
//!
//! Topics and partitions are numbered densely and keep their number for the client's life, so that
//! producers and consumers hold theirs in plain tables. A topic that grows gets another range of
//! numbers; one that shrinks keeps them.

use super::TopicId;
use super::random::Random;
use crate::error::Error;
use crate::net::ring::Ring;
use crate::protocol::messages::{MetadataPartition, MetadataTopic};
use crate::protocol::{ErrorCode, Uuid};
use crate::time::Instant;
use core::hash::BuildHasher;
use core::time::Duration;
use hashbrown::HashTable;

/// No node, no partition.
pub(super) const NOBODY: u32 = u32::MAX;
/// How often a topic can grow.
const RANGES: usize = 8;

/// What is known about a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopicState {
    /// Nothing yet.
    Unknown,
    /// Its partitions.
    Known,
    /// That it cannot be used; the code says why. A later answer may know better.
    Refused(ErrorCode),
}

#[derive(Debug)]
struct Topic {
    name: Box<str>,
    id: Uuid,
    state: TopicState,
    /// Since when the cluster says that it does not have the topic.
    missing_since: Option<Instant>,
    /// Was never asked for.
    fresh: bool,
    /// Ranges of partition numbers: the first, and how many.
    ranges: [(u32, u32); RANGES],
    /// Partitions it has now.
    count: u32,
}

impl Topic {
    fn unused() -> Self {
        Topic {
            name: Box::from(""),
            id: [0; 16],
            state: TopicState::Unknown,
            missing_since: None,
            fresh: true,
            ranges: [(0, 0); RANGES],
            count: 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Partition {
    /// The leader's place in the table of nodes.
    leader: u32,
    /// The leader's epoch; -1 if it is not known.
    epoch: i32,
    /// Stands in the ring of changed ones.
    changed: bool,
}

#[derive(Debug)]
pub(super) struct Metadata {
    topics: Box<[Topic]>,
    /// Topics in use.
    used: usize,
    names: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
    parts: Box<[Partition]>,
    used_parts: usize,
    /// Partitions whose leader changed and whose holders were not told.
    changed: Ring<u32>,
    /// Whether the answer that is being read brought anything new.
    news: bool,
}

impl Metadata {
    pub(super) fn new(max_topics: usize, max_partitions: usize, seed: u64) -> Self {
        let part = Partition { leader: NOBODY, epoch: -1, changed: false };
        Metadata {
            topics: (0..max_topics).map(|_| Topic::unused()).collect(),
            used: 0,
            names: HashTable::with_capacity(max_topics),
            hasher: foldhash::fast::FixedState::with_seed(seed),
            parts: core::iter::repeat_n(part, max_partitions).collect(),
            used_parts: 0,
            changed: Ring::new(max_partitions),
            news: false,
        }
    }

    fn entry(&self, topic: TopicId) -> Option<&Topic> {
        self.topics.get(topic.0 as usize).filter(|topic| !topic.name.is_empty())
    }

    fn in_use(&self) -> &[Topic] {
        self.topics.get(..self.used).unwrap_or(&[])
    }

    /// The id of a name that is known already.
    pub(super) fn find(&self, name: &str) -> Option<TopicId> {
        let hash = self.hasher.hash_one(name);
        let is = |&i: &u32| self.topics.get(i as usize).is_some_and(|topic| &*topic.name == name);
        self.names.find(hash, is).copied().map(TopicId)
    }

    /// The id of a name, and whether it is new.
    ///
    /// # Errors
    /// The name cannot be a topic's, or there is no room.
    pub(super) fn intern(&mut self, name: &str) -> Result<(TopicId, bool), Error> {
        if let Some(topic) = self.find(name) {
            return Ok((topic, false));
        }
        check_name(name)?;
        let index = self.used as u32;
        let Some(topic) = self.topics.get_mut(self.used) else {
            return Err(Error::Exhausted("topics (max_topics)"));
        };
        topic.name = Box::from(name);
        self.used += 1;
        let Metadata { topics, names, hasher, .. } = self;
        let hash = |&i: &u32| {
            topics.get(i as usize).map_or(0, |topic: &Topic| hasher.hash_one(&*topic.name))
        };
        names.insert_unique(hasher.hash_one(name), index, hash);
        Ok((TopicId(index), true))
    }

    pub(super) fn name(&self, topic: TopicId) -> Option<&str> {
        self.entry(topic).map(|topic| &*topic.name)
    }

    pub(super) fn state(&self, topic: TopicId) -> Option<TopicState> {
        self.entry(topic).map(|topic| topic.state)
    }

    /// Whether the cluster has said for `longer` that it does not have the topic.
    pub(super) fn is_missing(&self, topic: TopicId, longer: Duration, now: Instant) -> bool {
        let since = self.entry(topic).and_then(|topic| topic.missing_since);
        since.is_some_and(|since| now.since(since) >= longer)
    }

    /// How many partitions a topic has.
    pub(super) fn count(&self, topic: TopicId) -> u32 {
        self.entry(topic).map_or(0, |topic| topic.count)
    }

    /// The dense number of a partition that exists.
    #[inline]
    pub(super) fn part(&self, topic: TopicId, partition: i32) -> Option<u32> {
        let topic = self.entry(topic)?;
        let partition = u32::try_from(partition).ok().filter(|&p| p < topic.count)?;
        place(&topic.ranges, partition)
    }

    /// The node that leads a partition.
    #[inline]
    pub(super) fn leader(&self, part: u32) -> Option<u32> {
        self.parts.get(part as usize).map(|part| part.leader).filter(|&leader| leader != NOBODY)
    }

    /// The epoch of that leadership; -1 if it is not known.
    pub(super) fn epoch(&self, part: u32) -> i32 {
        self.parts.get(part as usize).map_or(-1, |part| part.epoch)
    }

    /// A partition for records without a key: any that has a leader; any at all if none has.
    pub(super) fn any_partition(&self, topic: TopicId, random: &mut Random) -> Option<i32> {
        let count = self.count(topic);
        let led = |number: u32| {
            self.part(topic, number as i32).is_some_and(|part| self.leader(part).is_some())
        };
        // Drawing again until it has a leader is as good as choosing among those that have one;
        // only when most have none are they counted.
        for _ in 0..4 {
            let number = random.below(count);
            if led(number) {
                return Some(number as i32);
            }
        }
        let leaders = (0..count).filter(|&number| led(number)).count() as u32;
        let skip = random.below(if leaders == 0 { count } else { leaders }) as usize;
        if leaders == 0 {
            return if count == 0 { None } else { Some(skip as i32) };
        }
        (0..count).filter(|&number| led(number)).nth(skip).map(|number| number as i32)
    }

    /// How many names there are, and how many of them were never asked for.
    pub(super) fn asked(&self) -> (usize, usize) {
        (self.used, self.in_use().iter().filter(|topic| topic.fresh).count())
    }

    /// The names to ask for: all, or those that were never asked for.
    pub(super) fn names(&self, fresh_only: bool) -> impl Iterator<Item = &str> {
        let wanted = move |topic: &&Topic| topic.fresh || !fresh_only;
        self.in_use().iter().filter(wanted).map(|topic| &*topic.name)
    }

    /// They were asked for.
    pub(super) fn set_asked(&mut self) {
        self.topics.iter_mut().take(self.used).for_each(|topic| topic.fresh = false);
    }

    /// Whether some topic's state is still open.
    pub(super) fn has_unknown(&self) -> bool {
        self.in_use().iter().any(|topic| topic.state == TopicState::Unknown)
    }

    /// An answer is about to be read.
    pub(super) fn begin_update(&mut self) {
        self.news = false;
    }

    /// Whether the answer brought anything new.
    pub(super) fn had_news(&self) -> bool {
        self.news
    }

    /// Takes over what an answer says about one topic. `node` gives a broker's place in the table
    /// of nodes; `epochs` says whether the answer's epochs can be relied on. Gives the topic, if it
    /// is one of ours.
    pub(super) fn update(
        &mut self,
        answer: &MetadataTopic<'_>,
        epochs: bool,
        node: impl Fn(i32) -> Option<u32>,
        now: Instant,
    ) -> Option<TopicId> {
        let id = self.find(answer.name?)?;
        let topic = self.topics.get_mut(id.0 as usize)?;
        let code = ErrorCode(answer.error_code);
        if code.is_retriable() {
            // A topic that is being created, or one that is gone: what is known stays.
            if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
                topic.missing_since.get_or_insert(now);
            }
            return Some(id);
        }
        let before = topic.state;
        topic.missing_since = None;
        // A topic that is being created may have no partition yet.
        if code.is_ok() && answer.partitions.is_empty() {
            return Some(id);
        }
        if !code.is_ok() {
            topic.state = TopicState::Refused(code);
            self.news |= before != topic.state;
            return Some(id);
        }
        // Another id is another topic of the same name: its epochs start anew (KIP-516).
        let none = [0; 16];
        let recreated = topic.id != none && answer.topic_id != none && answer.topic_id != topic.id;
        topic.id = answer.topic_id;
        topic.state = TopicState::Known;
        self.news |= before != TopicState::Known;
        // Partitions are numbered from 0 without gaps: how many are named is how many there are,
        // and a number beyond that is nothing to make room for.
        self.grow(id, answer.partitions.len() as u32);
        for partition in answer.partitions {
            self.update_partition(id, &partition, epochs, recreated, &node);
        }
        Some(id)
    }

    fn update_partition(
        &mut self,
        topic: TopicId,
        answer: &MetadataPartition<'_>,
        epochs: bool,
        recreated: bool,
        node: impl Fn(i32) -> Option<u32>,
    ) {
        let Some(part) = self.part(topic, answer.partition_index) else { return };
        // Epochs of answers below v9 are not reliable: brokers of that time could go back.
        let epoch = if epochs { answer.leader_epoch } else { -1 };
        if recreated && let Some(part) = self.parts.get_mut(part as usize) {
            part.epoch = -1;
        }
        self.lead(part, node(answer.leader_id).unwrap_or(NOBODY), epoch);
    }

    /// Sets who leads a partition, unless an older epoch says so. Gives whether that is news.
    pub(super) fn lead(&mut self, part: u32, leader: u32, epoch: i32) -> bool {
        let Some(entry) = self.parts.get_mut(part as usize) else { return false };
        if epoch >= 0 && epoch < entry.epoch {
            return false;
        }
        let news = entry.leader != leader || (epoch >= 0 && epoch != entry.epoch);
        entry.leader = leader;
        if epoch >= 0 {
            entry.epoch = epoch;
        }
        if news && !entry.changed && self.changed.push_back(part).is_ok() {
            entry.changed = true;
        }
        self.news |= news;
        news
    }

    /// Takes a partition whose leader changed.
    pub(super) fn pop_changed(&mut self) -> Option<u32> {
        let part = self.changed.pop_front()?;
        self.parts.get_mut(part as usize)?.changed = false;
        Some(part)
    }

    /// Nodes that are gone lead nothing.
    pub(super) fn forget_nodes(&mut self, stays: impl Fn(u32) -> bool) {
        for part in 0..self.used_parts as u32 {
            if self.leader(part).is_some_and(|leader| !stays(leader)) {
                self.lead(part, NOBODY, -1);
            }
        }
    }

    /// Makes room for `count` partitions of a topic.
    fn grow(&mut self, id: TopicId, count: u32) {
        let free = (self.parts.len() - self.used_parts) as u32;
        let Some(topic) = self.topics.get_mut(id.0 as usize) else { return };
        let room: u32 = topic.ranges.iter().map(|range| range.1).sum();
        let more = count.saturating_sub(room).min(free);
        let range = topic.ranges.iter_mut().find(|range| range.1 == 0);
        let more = if range.is_some() { more } else { 0 };
        if let Some(range) = range.filter(|_| more > 0) {
            *range = (self.used_parts as u32, more);
            self.used_parts += more as usize;
        }
        let count = count.min(room + more);
        self.news |= topic.count != count;
        topic.count = count;
    }
}

#[inline]
fn place(ranges: &[(u32, u32); RANGES], mut number: u32) -> Option<u32> {
    for &(first, len) in ranges {
        if number < len {
            return Some(first + number);
        }
        number -= len;
    }
    None
}

/// What Kafka allows as a topic's name.
fn check_name(name: &str) -> Result<(), Error> {
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > 249 || name == "." || name == ".." {
        return Err(Error::Invalid("a topic's name has 1 to 249 bytes and is not . or .."));
    }
    if !name.bytes().all(legal) {
        return Err(Error::Invalid("a topic's name has letters, digits, '.', '_' and '-' only"));
    }
    Ok(())
}
