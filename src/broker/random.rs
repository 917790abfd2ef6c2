//! Random: ids and hash keys from the one seed that a broker is given.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::protocol::Uuid;
use crate::sync::{AtomicU64, Ordering};
use core::hash::{BuildHasher, Hasher as _};
use std::hash::DefaultHasher;

/// A generator (SplitMix64); its next number can be told from the seed and from nothing else that
/// is handed out.
#[derive(Debug)]
pub(crate) struct Random {
    state: AtomicU64,
    key: u64,
}

impl Random {
    /// A generator of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random { state: AtomicU64::new(seed), key: 0 };
        let key = random.raw();
        Random { key, ..random }
    }

    /// The next number.
    pub(crate) fn next(&self) -> u64 {
        // Behind a keyed hash, so that nobody computes the state from an id he was given.
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.key);
        hasher.write_u64(self.raw());
        hasher.finish()
    }

    /// A random id, never zero and never one that Kafka would print with a leading `-`.
    pub(crate) fn uuid(&self) -> Uuid {
        let mut id = [0; 16];
        let (high, low) = id.split_at_mut(8);
        high.copy_from_slice(&self.next().to_be_bytes());
        low.copy_from_slice(&self.next().to_be_bytes());
        // The marks of a random UUID (RFC 9562, version 4); they also keep it from being zero.
        id[0] &= 0x7f;
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        id
    }

    /// A hasher with keys of its own.
    pub(crate) fn hasher(&self) -> Hasher {
        Hasher { keys: [self.next(), self.next()] }
    }

    fn raw(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// SipHash behind two secret numbers: the keys of the tables are chosen by peers.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    keys: [u64; 2],
}

impl Hasher {
    /// The hash of these bytes.
    pub(crate) fn hash_bytes(&self, bytes: impl Iterator<Item = u8>) -> u64 {
        let mut hasher = self.build_hasher();
        let mut chunk = [0; 64];
        let mut len = 0;
        for byte in bytes {
            if let Some(place) = chunk.get_mut(len) {
                *place = byte;
                len += 1;
            }
            if len == chunk.len() {
                hasher.write(&chunk);
                len = 0;
            }
        }
        hasher.write(chunk.get(..len).unwrap_or(&[]));
        hasher.finish()
    }
}

impl BuildHasher for Hasher {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.keys[0]);
        hasher.write_u64(self.keys[1]);
        hasher
    }
}

/// The text form of an id: 22 characters of URL-safe base64 without padding.
pub(crate) fn uuid_text(id: &Uuid) -> [u8; 22] {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from_be_bytes(*id);
    // 128 bits and four of padding make 22 letters of six.
    core::array::from_fn(|i| {
        let letter = if i < 21 { bits >> (128 - 6 * (i + 1)) } else { bits << 4 };
        LETTERS[(letter & 0x3f) as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_marked_and_differ() {
        let random = Random::new(7);
        let mut seen = std::collections::BTreeSet::new();
        // Few where each takes an interpreter's time (.ci/miri).
        for _ in 0..if cfg!(miri) { 20 } else { 1000 } {
            let id = random.uuid();
            assert!(id[0] < 0x80 && id[6] >> 4 == 4 && id[8] >> 6 == 2);
            let text = uuid_text(&id);
            assert_ne!(text[0], b'-');
            assert!(seen.insert(text));
        }
        assert_eq!(&uuid_text(&[0xff; 16]), b"_____________________w");
        assert_eq!(&uuid_text(&[0; 16]), b"AAAAAAAAAAAAAAAAAAAAAA");
    }

    #[test]
    fn hashes_depend_on_the_seed_and_on_all_bytes() {
        let (a, b) = (Random::new(1).hasher(), Random::new(2).hasher());
        let name = || b"some-topic-with-a-name".iter().copied();
        assert_eq!(a.hash_bytes(name()), a.clone().hash_bytes(name()));
        assert_ne!(a.hash_bytes(name()), b.hash_bytes(name()));
        let long = |n: usize, last: u8| core::iter::repeat_n(b'x', n).chain([last]);
        for n in [0, 1, 62, 63, 64, 65, 248] {
            assert_ne!(a.hash_bytes(long(n, 1)), a.hash_bytes(long(n, 2)), "{n}");
        }
    }
}
