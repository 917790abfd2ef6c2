//! IndexList: a queue of table indices that each stand in it at most once, linked in two arrays.
//! Adding, taking and removing from the middle are O(1) and allocate nothing.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

/// End of the list.
const NONE: u32 = u32::MAX;
/// In `prev`: the index is not in the list.
const ABSENT: u32 = u32::MAX - 1;

/// A queue of distinct indices below its capacity.
#[derive(Debug)]
pub(super) struct IndexList {
    head: u32,
    tail: u32,
    next: Box<[u32]>,
    prev: Box<[u32]>,
}

impl IndexList {
    /// An empty one for the indices below `capacity`.
    pub(super) fn new(capacity: usize) -> Self {
        debug_assert!(capacity < ABSENT as usize);
        let table = |value| core::iter::repeat_n(value, capacity).collect();
        IndexList { head: NONE, tail: NONE, next: table(NONE), prev: table(ABSENT) }
    }

    /// Bytes for this capacity.
    pub(super) const fn bytes(capacity: usize) -> usize {
        capacity * 2 * size_of::<u32>()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(super) fn contains(&self, index: usize) -> bool {
        self.prev[index] != ABSENT
    }

    /// The first index.
    #[inline]
    pub(super) fn front(&self) -> Option<usize> {
        if self.head == NONE { None } else { Some(self.head as usize) }
    }

    /// The index behind `index`, which is in the list.
    pub(super) fn after(&self, index: usize) -> Option<usize> {
        let next = self.next[index];
        if next == NONE { None } else { Some(next as usize) }
    }

    /// Appends an index, unless it is in the list already.
    #[inline]
    pub(super) fn push_back(&mut self, index: usize) {
        if self.contains(index) {
            return;
        }
        self.prev[index] = self.tail;
        self.next[index] = NONE;
        if self.tail == NONE {
            self.head = index as u32;
        } else {
            self.next[self.tail as usize] = index as u32;
        }
        self.tail = index as u32;
    }

    /// Takes an index out, if it is in the list.
    #[inline]
    pub(super) fn remove(&mut self, index: usize) {
        if !self.contains(index) {
            return;
        }
        let (next, prev) = (self.next[index], self.prev[index]);
        if prev == NONE {
            self.head = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            self.prev[next as usize] = prev;
        }
        self.prev[index] = ABSENT;
    }

    /// Takes the first index.
    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<usize> {
        let first = self.front()?;
        self.remove(first);
        Some(first)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn agrees_with_a_queue() {
        let mut list = IndexList::new(8);
        let mut model: VecDeque<usize> = VecDeque::new();
        let mut x = 3u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let index = (x >> 33) as usize % 8;
            match (x >> 60) & 3 {
                0 => assert_eq!(list.pop_front(), model.pop_front()),
                1 => {
                    list.remove(index);
                    model.retain(|i| *i != index);
                }
                _ => {
                    list.push_back(index);
                    if !model.contains(&index) {
                        model.push_back(index);
                    }
                }
            }
            assert_eq!(list.is_empty(), model.is_empty());
            assert_eq!(list.contains(index), model.contains(&index));
            let walk: VecDeque<usize> =
                core::iter::successors(list.front(), |i| list.after(*i)).collect();
            assert_eq!(walk, model);
        }
    }
}
