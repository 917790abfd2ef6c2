//! Timers: a fixed number of deadlines in one indexed heap. Setting, moving and clearing one is
//! O(log n); the earliest is at hand.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::time::Instant;

/// One deadline per key; keys are small numbers below the capacity.
#[derive(Debug)]
pub struct Timers {
    /// Keys, ordered as a binary heap by deadline.
    heap: Box<[u32]>,
    len: usize,
    /// Per key its place in the heap, or `IDLE`.
    place: Box<[u32]>,
    /// Per key its deadline.
    deadline: Box<[Instant]>,
}

const IDLE: u32 = u32::MAX;

impl Timers {
    /// No deadline for any of the keys below `capacity`.
    pub fn new(capacity: usize) -> Self {
        Timers {
            heap: core::iter::repeat_n(0, capacity).collect(),
            len: 0,
            place: core::iter::repeat_n(IDLE, capacity).collect(),
            deadline: core::iter::repeat_n(Instant::FAR, capacity).collect(),
        }
    }

    /// Bytes for this capacity.
    pub const fn bytes(capacity: usize) -> usize {
        capacity * (2 * size_of::<u32>() + size_of::<Instant>())
    }

    /// The earliest deadline.
    #[inline]
    pub fn earliest(&self) -> Option<Instant> {
        if self.len == 0 { None } else { Some(self.deadline[self.heap[0] as usize]) }
    }

    /// The deadline of a key.
    pub fn get(&self, key: usize) -> Option<Instant> {
        if self.place[key] == IDLE { None } else { Some(self.deadline[key]) }
    }

    /// Sets or moves the deadline of a key.
    pub fn set(&mut self, key: usize, at: Instant) {
        let before = self.deadline[key];
        self.deadline[key] = at;
        if self.place[key] == IDLE {
            let place = self.len;
            self.len += 1;
            self.put(place, key as u32);
            self.rise(place);
        } else if at < before {
            self.rise(self.place[key] as usize);
        } else {
            self.sink(self.place[key] as usize);
        }
    }

    /// Clears the deadline of a key, if it has one.
    pub fn clear(&mut self, key: usize) {
        let place = self.place[key];
        if place == IDLE {
            return;
        }
        self.place[key] = IDLE;
        self.len -= 1;
        let place = place as usize;
        if place < self.len {
            self.put(place, self.heap[self.len]);
            self.rise(place);
            self.sink(self.place[self.heap[place] as usize] as usize);
        }
    }

    /// Takes a key whose deadline is not after `now`, earliest first.
    pub fn pop_due(&mut self, now: Instant) -> Option<usize> {
        if self.earliest()? > now {
            return None;
        }
        let key = self.heap[0] as usize;
        self.clear(key);
        Some(key)
    }

    fn put(&mut self, place: usize, key: u32) {
        self.heap[place] = key;
        self.place[key as usize] = place as u32;
    }

    fn at(&self, place: usize) -> Instant {
        self.deadline[self.heap[place] as usize]
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.at(parent) <= self.at(place) {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            if left >= self.len {
                return;
            }
            let right = left + 1;
            let least =
                if right < self.len && self.at(right) < self.at(left) { right } else { left };
            if self.at(place) <= self.at(least) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (at_a, at_b) = (self.heap[a], self.heap[b]);
        self.put(a, at_b);
        self.put(b, at_a);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_sorted_map() {
        let mut timers = Timers::new(32);
        let mut model: BTreeMap<usize, u64> = BTreeMap::new();
        let mut x = 7u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = (x >> 33) as usize % 32;
            let at = (x >> 40) % 1000;
            match (x >> 60) & 3 {
                0 => {
                    timers.clear(key);
                    model.remove(&key);
                }
                1 => {
                    let due = timers.pop_due(Instant::from_nanos(at));
                    let min = model.values().min().copied();
                    assert_eq!(due.is_some(), min.is_some_and(|m| m <= at));
                    if let Some(due) = due {
                        assert_eq!(model.remove(&due), min);
                    }
                }
                _ => {
                    timers.set(key, Instant::from_nanos(at));
                    model.insert(key, at);
                }
            }
            assert_eq!(timers.earliest().map(Instant::nanos), model.values().min().copied());
            assert_eq!(timers.get(key).map(Instant::nanos), model.get(&key).copied());
        }
    }
}
