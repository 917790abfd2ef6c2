//! Index: where in a block a batch stands, sparse, kept at the end of the block itself.
//!
//! An entry is written for about every [`EVERY`] bytes of batches. The last bytes of a block are
//! set aside for as many entries as that can give, first entry last, so that the index of a block
//! comes and goes with it, costs no table, and grows towards the batches. Readers never see it:
//! they see only what was published.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

/// Bytes of batches between two entries, at least.
const EVERY: u32 = 4096;
/// Bytes of one entry.
const ENTRY: usize = 20;

/// One batch of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The batch's base offset.
    pub offset: i64,
    /// Where the batch stands.
    pub position: u32,
    /// The largest timestamp of all batches *before* this one in the segment.
    pub max_before: i64,
}

/// The entries of one segment; the bytes are handed in, because the block owns them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Index {
    len: u32,
    last: u32,
}

/// Bytes that are set aside at the end of a block of `capacity` bytes.
pub(super) const fn reserved(capacity: usize) -> usize {
    capacity / EVERY as usize * ENTRY
}

impl Index {
    /// Notes a batch, if the last note is far enough away. `tail` are the block's reserved bytes.
    pub(super) fn note(&mut self, tail: &mut [u8], entry: Entry) {
        if entry.position < self.last.saturating_add(EVERY) {
            return;
        }
        let Some(bytes) = slot_mut(tail, self.len as usize) else { return };
        let (offset, rest) = bytes.split_at_mut(8);
        let (position, max_before) = rest.split_at_mut(4);
        offset.copy_from_slice(&entry.offset.to_ne_bytes());
        position.copy_from_slice(&entry.position.to_ne_bytes());
        max_before.copy_from_slice(&entry.max_before.to_ne_bytes());
        self.len += 1;
        self.last = entry.position;
    }

    /// The position of the last noted batch that `below` holds for, 0 if there is none. `below`
    /// must hold for a prefix of the entries.
    pub(super) fn last_where(&self, tail: &[u8], below: impl Fn(Entry) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len as usize);
        while low < high {
            let middle = low + (high - low) / 2;
            match get(tail, middle) {
                Some(entry) if below(entry) => low = middle + 1,
                _ => high = middle,
            }
        }
        let last = low.checked_sub(1).and_then(|last| get(tail, last));
        last.map_or(0, |entry| entry.position)
    }
}

fn slot_mut(tail: &mut [u8], i: usize) -> Option<&mut [u8]> {
    let end = tail.len().checked_sub(i * ENTRY)?;
    tail.get_mut(end.checked_sub(ENTRY)?..end)
}

fn get(tail: &[u8], i: usize) -> Option<Entry> {
    let end = tail.len().checked_sub(i * ENTRY)?;
    let bytes = tail.get(end.checked_sub(ENTRY)?..end)?;
    let (offset, rest) = bytes.split_first_chunk::<8>()?;
    let (position, rest) = rest.split_first_chunk::<4>()?;
    Some(Entry {
        offset: i64::from_ne_bytes(*offset),
        position: u32::from_ne_bytes(*position),
        max_before: i64::from_ne_bytes(*rest.first_chunk::<8>()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_last_note_before() {
        let mut tail = [0; ENTRY * 3];
        let mut index = Index::default();
        let at = |position: u32| Entry {
            offset: i64::from(position) * 2,
            position,
            max_before: i64::from(position) + 7,
        };
        assert_eq!(index.last_where(&tail, |_| true), 0);
        index.note(&mut tail, at(EVERY - 1));
        assert_eq!(index.len, 0, "too near the front");
        for position in [EVERY, EVERY + 1, 2 * EVERY, 4 * EVERY, 9 * EVERY] {
            index.note(&mut tail, at(position));
        }
        assert_eq!(index.len, 3, "one was too near, one found no room");
        for (offset, position) in [
            (0, 0),
            (2 * EVERY - 1, 0),
            (2 * EVERY, EVERY),
            (4 * EVERY, 2 * EVERY),
            (8 * EVERY, 4 * EVERY),
            (u32::MAX, 4 * EVERY),
        ] {
            let found = index.last_where(&tail, |e| e.offset <= i64::from(offset));
            assert_eq!(found, position, "{offset}");
        }
        assert_eq!(get(&tail, 1), Some(at(2 * EVERY)));
        assert_eq!(get(&tail, 3), None);
    }
}
