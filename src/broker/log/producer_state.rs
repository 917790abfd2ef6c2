//! Producers: the last batches of each idempotent producer in each partition, by which a batch that
//! was sent again is known and a gap is seen (KIP-98).
//!
//! A fixed number of (producer, partition) pairs is remembered; the one that was not seen for the
//! longest is forgotten for a new one. A producer that is not known may begin with any sequence, as
//! in Kafka since 2.5 (KIP-360), so a forgotten one goes on undisturbed.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::sync::Mutex;
use core::hash::BuildHasher;
use hashbrown::HashTable;

/// As many batches as a producer may have in flight (`max.in.flight.requests.per.connection`).
const REMEMBERED: usize = 5;
const NONE: u32 = u32::MAX;

/// The sequence part of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequenced {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The first record's sequence number.
    pub first: i32,
    /// The last record's sequence number.
    pub last: i32,
}

/// What a batch's sequence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the next one: append it.
    Next,
    /// It is in the log, at this offset, stamped with this time or -1.
    Duplicate {
        /// Its base offset.
        base_offset: i64,
        /// The broker's time, or -1.
        append_time: i64,
    },
    /// A batch before it is missing.
    OutOfOrder,
    /// A newer epoch of the producer was seen.
    Fenced,
}

#[derive(Clone, Copy, Debug, Default)]
struct Past {
    first: i32,
    last: i32,
    base_offset: i64,
    append_time: i64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    producer_id: i64,
    partition: u64,
    epoch: i16,
    /// How many of `past` count; the newest stands last.
    len: u8,
    past: [Past; REMEMBERED],
    /// Neighbours in the order of last use.
    newer: u32,
    older: u32,
}

/// The table of producers.
#[derive(Debug)]
pub(crate) struct Producers<S>(Mutex<Table<S>>);

#[derive(Debug)]
struct Table<S> {
    by_key: HashTable<u32>,
    entries: Box<[Entry]>,
    used: usize,
    newest: u32,
    oldest: u32,
    hasher: S,
}

impl<S: BuildHasher> Producers<S> {
    /// An empty table for `capacity` pairs.
    pub(crate) fn new(capacity: usize, hasher: S) -> Self {
        let empty = Entry {
            producer_id: -1,
            partition: 0,
            epoch: -1,
            len: 0,
            past: [Past::default(); REMEMBERED],
            newer: NONE,
            older: NONE,
        };
        Producers(Mutex::new(Table {
            // Twice as many, so that removing and putting in never makes it grow.
            by_key: HashTable::with_capacity(2 * capacity),
            entries: (0..capacity).map(|_| empty).collect(),
            used: 0,
            newest: NONE,
            oldest: NONE,
            hasher,
        }))
    }

    /// What to do with a batch. The partition stays locked until it was appended and
    /// [`Producers::appended`] was called.
    pub(crate) fn check(&self, partition: u64, batch: &Sequenced) -> Verdict {
        let table = self.0.lock();
        match table.find(batch.producer_id, partition).and_then(|i| table.entries.get(i)) {
            Some(entry) => entry.check(batch),
            None => Verdict::Next,
        }
    }

    /// Remembers a batch that was appended.
    pub(crate) fn appended(&self, partition: u64, batch: &Sequenced, base: i64, time: i64) {
        let mut table = self.0.lock();
        let Some(i) = table.find_or_add(batch.producer_id, partition) else { return };
        let Some(entry) = table.entries.get_mut(i) else { return };
        if entry.epoch != batch.epoch {
            entry.epoch = batch.epoch;
            entry.len = 0;
        }
        let (first, last) = (batch.first, batch.last);
        entry.remember(Past { first, last, base_offset: base, append_time: time });
    }
}

impl Entry {
    fn check(&self, batch: &Sequenced) -> Verdict {
        if batch.epoch < self.epoch {
            return Verdict::Fenced;
        }
        if batch.epoch > self.epoch {
            return if batch.first == 0 { Verdict::Next } else { Verdict::OutOfOrder };
        }
        let past = self.past.get(..usize::from(self.len)).unwrap_or(&[]);
        if let Some(same) = past.iter().find(|p| p.first == batch.first && p.last == batch.last) {
            let Past { base_offset, append_time, .. } = *same;
            return Verdict::Duplicate { base_offset, append_time };
        }
        // A sequence follows i32::MAX with 0.
        match past.last() {
            Some(last) if batch.first != last.last.wrapping_add(1) & i32::MAX => {
                Verdict::OutOfOrder
            }
            _ => Verdict::Next,
        }
    }

    fn remember(&mut self, batch: Past) {
        if usize::from(self.len) == REMEMBERED {
            self.past.rotate_left(1);
            self.len -= 1;
        }
        if let Some(place) = self.past.get_mut(usize::from(self.len)) {
            *place = batch;
            self.len += 1;
        }
    }
}

impl<S: BuildHasher> Table<S> {
    fn find(&self, producer_id: i64, partition: u64) -> Option<usize> {
        let hash = self.hasher.hash_one((producer_id, partition));
        let same = |i: &u32| self.is(*i, producer_id, partition);
        self.by_key.find(hash, same).map(|i| *i as usize)
    }

    fn is(&self, i: u32, producer_id: i64, partition: u64) -> bool {
        let entry = self.entries.get(i as usize);
        entry.is_some_and(|e| e.producer_id == producer_id && e.partition == partition)
    }

    fn find_or_add(&mut self, producer_id: i64, partition: u64) -> Option<usize> {
        if let Some(i) = self.find(producer_id, partition) {
            self.unlink(i as u32);
            self.link_newest(i as u32);
            return Some(i);
        }
        let i = self.vacate()?;
        let entry = self.entries.get_mut(i as usize)?;
        *entry = Entry { producer_id, partition, epoch: -1, len: 0, ..*entry };
        self.link_newest(i);
        let hash = self.hasher.hash_one((producer_id, partition));
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_key.insert_unique(hash, i, |&i| {
            let entry = entries.get(i as usize);
            hasher.hash_one(entry.map_or((-1, 0), |e| (e.producer_id, e.partition)))
        });
        Some(i as usize)
    }

    /// An entry that is in no list and not in the table: an unused one, or the oldest.
    fn vacate(&mut self) -> Option<u32> {
        if self.used < self.entries.len() {
            self.used += 1;
            return Some(self.used as u32 - 1);
        }
        let oldest = self.oldest;
        let old = self.entries.get(oldest as usize)?;
        let hash = self.hasher.hash_one((old.producer_id, old.partition));
        if let Ok(found) = self.by_key.find_entry(hash, |i| *i == oldest) {
            found.remove();
        }
        self.unlink(oldest);
        Some(oldest)
    }

    fn unlink(&mut self, i: u32) {
        let Some(entry) = self.entries.get(i as usize) else { return };
        let (newer, older) = (entry.newer, entry.older);
        match self.entries.get_mut(newer as usize) {
            Some(neighbour) => neighbour.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(neighbour) => neighbour.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, i: u32) {
        let before = core::mem::replace(&mut self.newest, i);
        match self.entries.get_mut(before as usize) {
            Some(neighbour) => neighbour.newer = i,
            None => self.oldest = i,
        }
        if let Some(entry) = self.entries.get_mut(i as usize) {
            entry.newer = NONE;
            entry.older = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldhash::fast::FixedState;

    fn batch(producer_id: i64, epoch: i16, first: i32, last: i32) -> Sequenced {
        Sequenced { producer_id, epoch, first, last }
    }

    #[test]
    fn the_last_five_are_known_again() {
        let producers = Producers::new(4, FixedState::with_seed(1));
        let mut next = 0;
        for i in 0..7 {
            let b = batch(9, 0, next, next + 1);
            assert_eq!(producers.check(1, &b), Verdict::Next);
            producers.appended(1, &b, i * 100, -1);
            next += 2;
        }
        for i in 0..7 {
            let b = batch(9, 0, i * 2, i * 2 + 1);
            let known = Verdict::Duplicate { base_offset: i64::from(i) * 100, append_time: -1 };
            let expected = if i < 2 { Verdict::OutOfOrder } else { known };
            assert_eq!(producers.check(1, &b), expected, "{i}");
        }
        assert_eq!(producers.check(1, &batch(9, 0, 15, 15)), Verdict::OutOfOrder);
        assert_eq!(producers.check(1, &batch(9, 0, 14, 20)), Verdict::Next);
        // Another partition and another producer are strangers.
        assert_eq!(producers.check(2, &batch(9, 0, 77, 77)), Verdict::Next);
        assert_eq!(producers.check(1, &batch(8, 0, 77, 77)), Verdict::Next);
    }

    #[test]
    fn epochs_and_the_end_of_the_numbers() {
        let producers = Producers::new(4, FixedState::with_seed(1));
        let last = batch(1, 3, i32::MAX - 1, i32::MAX);
        producers.appended(7, &last, 5, 99);
        assert_eq!(producers.check(7, &batch(1, 3, 0, 0)), Verdict::Next);
        assert_eq!(producers.check(7, &batch(1, 3, 1, 1)), Verdict::OutOfOrder);
        assert_eq!(producers.check(7, &batch(1, 2, 0, 0)), Verdict::Fenced);
        assert_eq!(producers.check(7, &batch(1, 4, 1, 1)), Verdict::OutOfOrder);
        assert_eq!(producers.check(7, &batch(1, 4, 0, 0)), Verdict::Next);
        let known = Verdict::Duplicate { base_offset: 5, append_time: 99 };
        assert_eq!(producers.check(7, &last), known);
        producers.appended(7, &batch(1, 4, 0, 0), 6, -1);
        assert_eq!(producers.check(7, &last), Verdict::Fenced);
    }

    #[test]
    fn the_least_recently_seen_is_forgotten() {
        let producers = Producers::new(3, FixedState::with_seed(1));
        for id in 0..3 {
            producers.appended(0, &batch(id, 0, 0, 0), id, -1);
        }
        producers.appended(0, &batch(0, 0, 1, 1), 10, -1);
        for id in 3..1000 {
            producers.appended(0, &batch(id, 0, 0, 0), id, -1);
            producers.appended(0, &batch(0, 0, id as i32, id as i32), 10 + id, -1);
            assert_eq!(producers.check(0, &batch(0, 0, 0, 9)), Verdict::OutOfOrder);
            assert_eq!(producers.check(0, &batch(1, 0, 5, 5)), Verdict::Next);
            assert_ne!(producers.check(0, &batch(id, 0, 0, 0)), Verdict::Next);
        }
    }
}
