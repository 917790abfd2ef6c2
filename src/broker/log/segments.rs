//! Segments: the segments of one partition in order, oldest first. Its places are taken when the
//! partition is created; each segment lies in a box that [`super::LogMemory`] lends.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::segment::Segment;

/// A place for a segment, which goes round between partitions and never to the allocator.
pub(crate) type Cell = Box<Option<Segment>>;

/// A queue of at most so many segments as it was made for.
#[derive(Debug)]
pub(super) struct Segments {
    places: Box<[Option<Cell>]>,
    head: usize,
    len: usize,
    /// How many were taken from the front so far: the number of the first one.
    first: u64,
}

impl Segments {
    pub(super) fn new(capacity: usize) -> Self {
        Segments { places: (0..capacity).map(|_| None).collect(), head: 0, len: 0, first: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.places.len()
    }

    /// The number of the oldest segment, and of the next one if there is none. A number is never
    /// given twice.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The segment with this number.
    pub(super) fn get(&self, number: u64) -> Option<&Segment> {
        self.places.get(self.place(number)?)?.as_ref()?.as_ref().as_ref()
    }

    /// The segment with this number.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Segment> {
        let place = self.place(number)?;
        self.places.get_mut(place)?.as_mut()?.as_mut().as_mut()
    }

    /// The newest segment's number.
    pub(super) fn last(&self) -> Option<u64> {
        Some(self.first + self.len.checked_sub(1)? as u64)
    }

    /// Puts a segment behind the others; gives it back if there is no place.
    pub(super) fn push(&mut self, cell: Cell) -> Result<u64, Cell> {
        if self.len == self.places.len() {
            return Err(cell);
        }
        let number = self.first + self.len as u64;
        self.len += 1;
        match self.place(number).and_then(|place| self.places.get_mut(place)) {
            Some(place) => *place = Some(cell),
            None => return Err(cell),
        }
        Ok(number)
    }

    /// Takes the oldest segment out.
    pub(super) fn pop(&mut self) -> Option<Cell> {
        let place = self.place(self.first)?;
        let cell = self.places.get_mut(place)?.take();
        self.head = if self.head + 1 == self.places.len() { 0 } else { self.head + 1 };
        self.len -= 1;
        self.first += 1;
        cell
    }

    /// The number of the first segment that `before` does not hold for; it must hold for a prefix.
    pub(super) fn first_not(&self, before: impl Fn(&Segment) -> bool) -> Option<u64> {
        let (mut low, mut high) = (self.first, self.first + self.len as u64);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Some(segment) if before(segment) => low = middle + 1,
                _ => high = middle,
            }
        }
        self.get(low).map(|_| low)
    }

    fn place(&self, number: u64) -> Option<usize> {
        let i = usize::try_from(number.checked_sub(self.first)?).ok()?;
        if i >= self.len {
            return None;
        }
        let at = self.head + i;
        Some(if at >= self.places.len() { at - self.places.len() } else { at })
    }
}
