//! Slots: a fixed table addressed by (index, generation), so that a stale id is refused.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

/// Names an entry: index and generation in one number. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(u64);

impl SlotId {
    /// The id as one number.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The id with this number; whether it names a live entry shows when it is used.
    pub const fn from_raw(raw: u64) -> Self {
        SlotId(raw)
    }

    /// The index in the table.
    pub const fn index(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    /// How often the place was used before and is now.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A table of at most `capacity` entries.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Box<[Slot<T>]>,
    free: u32,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    next_free: u32,
    value: Option<T>,
}

const NONE: u32 = u32::MAX;

impl<T> Slots<T> {
    /// An empty table for `capacity` entries.
    ///
    /// # Panics
    /// If `capacity` is not below `u32::MAX`.
    pub fn new(capacity: usize) -> Self {
        let end = u32::try_from(capacity).unwrap_or(NONE);
        assert!(end < NONE, "a table of 2^32 entries");
        let next = |i: u32| if i + 1 < end { i + 1 } else { NONE };
        let entries =
            (0..end).map(|i| Slot { generation: 1, next_free: next(i), value: None }).collect();
        Slots { entries, free: if end == 0 { NONE } else { 0 }, len: 0 }
    }

    /// Bytes of a table of this capacity.
    pub const fn bytes(capacity: usize) -> usize {
        capacity * size_of::<Slot<T>>()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if there is no place left.
    pub fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// How many entries it can hold.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The id the next [`Slots::insert`] gives; `None` if the table is full.
    pub fn next_id(&self) -> Option<SlotId> {
        let slot = self.entries.get(self.free as usize)?;
        Some(id(self.free, slot.generation))
    }

    /// Puts an entry in; gives it back if the table is full.
    pub fn insert(&mut self, value: T) -> Result<SlotId, T> {
        let index = self.free;
        let Some(slot) = self.entries.get_mut(index as usize) else { return Err(value) };
        self.free = slot.next_free;
        slot.value = Some(value);
        self.len += 1;
        Ok(id(index, slot.generation))
    }

    /// Takes an entry out; its id is stale from now on.
    pub fn remove(&mut self, id: SlotId) -> Option<T> {
        let slot = self.entries.get_mut(id.index())?;
        if slot.generation != id.generation() {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        slot.next_free = self.free;
        self.free = id.index() as u32;
        self.len -= 1;
        Some(value)
    }

    /// The entry, if the id is not stale.
    #[inline]
    pub fn get(&self, id: SlotId) -> Option<&T> {
        let slot = self.entries.get(id.index())?;
        if slot.generation == id.generation() { slot.value.as_ref() } else { None }
    }

    /// The entry, if the id is not stale.
    #[inline]
    pub fn get_mut(&mut self, id: SlotId) -> Option<&mut T> {
        let slot = self.entries.get_mut(id.index())?;
        if slot.generation == id.generation() { slot.value.as_mut() } else { None }
    }

    /// The entry at a table index, with its id.
    pub fn at_mut(&mut self, index: usize) -> Option<(SlotId, &mut T)> {
        let slot = self.entries.get_mut(index)?;
        let id = id(index as u32, slot.generation);
        slot.value.as_mut().map(|value| (id, value))
    }

    /// The entry at a table index, with its id.
    pub fn at(&self, index: usize) -> Option<(SlotId, &T)> {
        let slot = self.entries.get(index)?;
        slot.value.as_ref().map(|value| (id(index as u32, slot.generation), value))
    }

    /// All entries with their ids, by index.
    pub fn iter(&self) -> impl Iterator<Item = (SlotId, &T)> {
        (0..self.entries.len()).filter_map(|i| self.at(i))
    }
}

const fn id(index: u32, generation: u32) -> SlotId {
    SlotId((generation as u64) << 32 | index as u64)
}

#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_is_refused() {
        let mut slots = Slots::new(2);
        let a = slots.insert("a").unwrap();
        let b = slots.insert("b").unwrap();
        assert_eq!(slots.insert("c"), Err("c"));
        assert_eq!(slots.remove(a), Some("a"));
        assert_eq!(slots.remove(a), None);
        let next = slots.next_id().unwrap();
        let c = slots.insert("c").unwrap();
        assert_eq!(next, c);
        assert_eq!(c.index(), a.index());
        assert_eq!(slots.get(a), None);
        assert_eq!(slots.get_mut(a), None);
        assert_eq!((slots.get(b), slots.get(c)), (Some(&"b"), Some(&"c")));
        assert_eq!(slots.len(), 2);
    }
}
