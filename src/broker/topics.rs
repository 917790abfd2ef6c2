//! Topics: the table of topics, by name and by id, and what a topic may be called.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::log::LogMemory;
use super::partition::Partition;
use super::random::{Hasher, Random};
use crate::net::slots::{SlotId, Slots};
use crate::protocol::Uuid;
use crate::sync::{Arc, Mutex};
use core::hash::BuildHasher;
use hashbrown::HashTable;

/// Settings of a topic that change what the broker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopicConfig {
    /// `message.timestamp.type=LogAppendTime`: batches are stamped with the broker's time.
    pub log_append_time: bool,
    /// `max.message.bytes`: the largest batch.
    pub max_message_bytes: usize,
    /// `cleanup.policy` has `compact`: records must have keys.
    pub compact: bool,
    /// `message.timestamp.before.max.ms`: how old a timestamp may be.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far ahead a timestamp may be.
    pub after_max_ms: i64,
}

/// A topic. It does not change; a deleted one lives on until nobody looks at it any more.
#[derive(Debug)]
pub(crate) struct Topic {
    /// Its name.
    pub name: Box<str>,
    /// Its id, random and never zero.
    pub id: Uuid,
    /// Its settings.
    pub config: TopicConfig,
    /// Its partitions, by number.
    pub partitions: Box<[Arc<Partition>]>,
}

impl Topic {
    /// The partition with this number.
    pub(crate) fn partition(&self, number: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(number).ok()?)
    }
}

/// Why a topic cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The name is not one a topic may have.
    Name,
    /// There is one of this name.
    Exists,
    /// There is one whose name differs in `.` and `_` only; in metrics they would be one.
    Collides,
    /// There are as many topics, or partitions, as the broker may have.
    Full,
}

/// All topics.
#[derive(Debug)]
pub(crate) struct Topics {
    table: Mutex<Table>,
    hasher: Hasher,
    max_partitions: usize,
}

#[derive(Debug)]
struct Table {
    slots: Slots<Arc<Topic>>,
    /// By the name with each `.` as `_`.
    by_name: HashTable<SlotId>,
    by_id: HashTable<SlotId>,
    /// Partition indices that are free; the next one to give out stands last.
    free: Box<[u32]>,
    free_len: usize,
    serial: u64,
}

impl Topics {
    /// An empty table.
    pub(crate) fn new(max_topics: usize, max_partitions: usize, hasher: Hasher) -> Self {
        let most = u32::try_from(max_partitions).unwrap_or(u32::MAX);
        let table = Table {
            slots: Slots::new(max_topics),
            by_name: HashTable::with_capacity(max_topics),
            by_id: HashTable::with_capacity(max_topics),
            free: (0..most).rev().collect(),
            free_len: most as usize,
            serial: 0,
        };
        Topics { table: Mutex::new(table), hasher, max_partitions }
    }

    /// Topics at most.
    pub(crate) fn max_topics(&self) -> usize {
        self.table.lock().slots.capacity()
    }

    /// Partitions at most.
    pub(crate) fn max_partitions(&self) -> usize {
        self.max_partitions
    }

    /// How many topics and partitions there are.
    pub(crate) fn count(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.slots.len(), self.max_partitions - table.free_len)
    }

    /// The topic of this name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Topic>> {
        let hash = self.hash_name(name);
        let table = self.table.lock();
        table.named(hash, |topic| *topic.name == *name).cloned()
    }

    /// The topic with this id.
    pub(crate) fn by_id(&self, id: &Uuid) -> Option<Arc<Topic>> {
        let hash = self.hasher.hash_one(id);
        let table = self.table.lock();
        let slot = table.by_id.find(hash, |slot| table.is(*slot, |topic| topic.id == *id))?;
        table.slots.get(*slot).cloned()
    }

    /// The topic at a place of the table, from 0 on; `None` behind the last place.
    pub(crate) fn at(&self, place: usize) -> Option<Option<Arc<Topic>>> {
        let table = self.table.lock();
        (place < table.slots.capacity())
            .then(|| table.slots.at(place).map(|(_, topic)| Arc::clone(topic)))
    }

    /// Whether a topic could be created now.
    pub(crate) fn check(&self, name: &str, partitions: usize) -> Result<(), Refused> {
        if !is_valid_name(name) {
            return Err(Refused::Name);
        }
        let hash = self.hash_name(name);
        self.table.lock().check(hash, name, partitions)
    }

    /// Creates a topic.
    pub(crate) fn create(
        &self,
        name: &str,
        partitions: usize,
        config: TopicConfig,
        random: &Random,
        memory: &LogMemory,
    ) -> Result<Arc<Topic>, Refused> {
        if !is_valid_name(name) {
            return Err(Refused::Name);
        }
        let (hash, id) = (self.hash_name(name), random.uuid());
        let segments = memory.segments_per_partition();
        let mut table = self.table.lock();
        table.check(hash, name, partitions)?;
        let partitions = (0..partitions)
            .map_while(|number| Some(Arc::new(table.partition(number as i32, segments)?)))
            .collect();
        let topic = Arc::new(Topic { name: name.into(), id, config, partitions });
        let slot = table.slots.insert(Arc::clone(&topic)).map_err(|_| Refused::Full)?;
        let id_hash = self.hasher.hash_one(id);
        let Table { slots, by_name, by_id, .. } = &mut *table;
        let name_of = |slot: &SlotId| slots.get(*slot).map_or(0, |t| self.hash_name(&t.name));
        by_name.insert_unique(hash, slot, name_of);
        let id_of = |slot: &SlotId| slots.get(*slot).map_or(0, |t| self.hasher.hash_one(t.id));
        by_id.insert_unique(id_hash, slot, id_of);
        Ok(topic)
    }

    /// Takes a topic out of the table, so that nobody finds it any more; says whether it was there.
    /// Its partitions are ended next ([`Partition::delete`]), and then released.
    pub(crate) fn remove(&self, topic: &Topic) -> bool {
        let (by_name, by_id) = (self.hash_name(&topic.name), self.hasher.hash_one(topic.id));
        let mut table = self.table.lock();
        let slots = &table.slots;
        let same = |slot: &SlotId| slots.get(*slot).is_some_and(|t| t.id == topic.id);
        let Some(slot) = table.by_id.find(by_id, same).copied() else { return false };
        let Table { by_name: names, by_id: ids, slots, .. } = &mut *table;
        if let Ok(entry) = names.find_entry(by_name, |s| *s == slot) {
            entry.remove();
        }
        if let Ok(entry) = ids.find_entry(by_id, |s| *s == slot) {
            entry.remove();
        }
        slots.remove(slot).is_some()
    }

    /// Gives the partition indices of a removed topic out again.
    pub(crate) fn release(&self, topic: &Topic) {
        let mut table = self.table.lock();
        for partition in &topic.partitions {
            table.release(partition.index);
        }
    }

    fn hash_name(&self, name: &str) -> u64 {
        self.hasher.hash_bytes(name.bytes().map(normal))
    }
}

impl Table {
    fn named(&self, hash: u64, same: impl Fn(&Topic) -> bool) -> Option<&Arc<Topic>> {
        let slot = self.by_name.find(hash, |slot| self.is(*slot, &same))?;
        self.slots.get(*slot)
    }

    fn is(&self, slot: SlotId, same: impl Fn(&Topic) -> bool) -> bool {
        self.slots.get(slot).is_some_and(|topic| same(topic))
    }

    fn check(&self, hash: u64, name: &str, partitions: usize) -> Result<(), Refused> {
        let alike = |topic: &Topic| {
            topic.name.len() == name.len()
                && topic.name.bytes().map(normal).eq(name.bytes().map(normal))
        };
        match self.named(hash, alike) {
            Some(topic) if *topic.name == *name => Err(Refused::Exists),
            Some(_) => Err(Refused::Collides),
            None if self.slots.is_full() || partitions > self.free_len => Err(Refused::Full),
            None => Ok(()),
        }
    }

    fn partition(&mut self, number: i32, segments: usize) -> Option<Partition> {
        let left = self.free_len.checked_sub(1)?;
        let index = *self.free.get(left)?;
        self.free_len = left;
        let serial = self.serial;
        self.serial += 1;
        Some(Partition::new(number, index, serial, segments))
    }

    fn release(&mut self, index: u32) {
        if let Some(place) = self.free.get_mut(self.free_len) {
            *place = index;
            self.free_len += 1;
        }
    }
}

fn normal(byte: u8) -> u8 {
    if byte == b'.' { b'_' } else { byte }
}

/// Whether a topic may be called so: 1 to 249 of `[a-zA-Z0-9._-]`, and neither `.` nor `..`.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(allowed)
}
