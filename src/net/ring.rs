//! Ring: a bounded first-in-first-out queue over storage taken at construction.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

/// A queue of at most `capacity` elements; full is an answer, not a growth.
#[derive(Debug)]
pub struct Ring<T> {
    slots: Box<[Option<T>]>,
    head: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// An empty ring for `capacity` elements.
    pub fn new(capacity: usize) -> Self {
        Ring { slots: (0..capacity).map(|_| None).collect(), head: 0, len: 0 }
    }

    /// How many elements it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if it takes no more.
    pub fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    /// Appends; gives the element back if the ring is full.
    pub fn push_back(&mut self, value: T) -> Result<(), T> {
        if self.is_full() {
            return Err(value);
        }
        let at = self.at(self.len);
        self.slots[at] = Some(value);
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest element.
    pub fn pop_front(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots[self.head].take();
        self.head = self.at(1);
        self.len -= 1;
        value
    }

    /// The oldest element.
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// The oldest element.
    pub fn front_mut(&mut self) -> Option<&mut T> {
        if self.len == 0 { None } else { self.slots[self.head].as_mut() }
    }

    /// The newest element.
    pub fn back_mut(&mut self) -> Option<&mut T> {
        let last = self.len.checked_sub(1)?;
        let at = self.at(last);
        self.slots[at].as_mut()
    }

    /// The element `i` places behind the oldest.
    pub fn get(&self, i: usize) -> Option<&T> {
        if i < self.len { self.slots[self.at(i)].as_ref() } else { None }
    }

    /// All elements, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).filter_map(|i| self.get(i))
    }

    fn at(&self, i: usize) -> usize {
        let at = self.head + i;
        if at >= self.slots.len() { at - self.slots.len() } else { at }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_refuses_when_full() {
        let mut ring = Ring::new(3);
        for round in 0..10 {
            assert!(ring.push_back(round).is_ok());
            assert!(ring.push_back(round + 100).is_ok());
            assert!(ring.push_back(round + 200).is_ok());
            assert_eq!(ring.push_back(0), Err(0));
            assert_eq!(ring.iter().copied().collect::<Vec<_>>(), [round, round + 100, round + 200]);
            assert_eq!(ring.pop_front(), Some(round));
            assert_eq!(ring.pop_front(), Some(round + 100));
            assert_eq!(ring.back_mut(), Some(&mut (round + 200)));
            assert_eq!(ring.pop_front(), Some(round + 200));
            assert_eq!(ring.pop_front(), None);
        }
    }
}
