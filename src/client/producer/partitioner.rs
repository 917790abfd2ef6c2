//! Partitioner: which partition a record goes to, exactly as Kafka's own client chooses.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

/// MurmurHash2 with Kafka's seed; the result as Java sees it, signed.
pub fn murmur2(bytes: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut h = 0x9747_b28c ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (i, &byte) in tail.iter().enumerate() {
            h ^= u32::from(byte) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    (h ^ (h >> 15)) as i32
}

/// The partition of a key among `count`, whether it has a leader or not. The sign is masked, not
/// taken off, as Kafka does.
pub fn partition_of_key(key: &[u8], count: u32) -> i32 {
    ((murmur2(key) & i32::MAX) as u32 % count.max(1)) as i32
}

/// The partition that records without a key stick to, per topic (KIP-480, KIP-794).
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct Sticky {
    /// The partition; -1 before the first record.
    partition: i32,
    /// Bytes that went there since it was chosen.
    bytes: usize,
}

impl Sticky {
    pub(in crate::client) const fn new() -> Self {
        Sticky { partition: -1, bytes: 0 }
    }

    /// The present partition, if it is one of `count`.
    pub(in crate::client) fn current(&self, count: u32) -> Option<i32> {
        u32::try_from(self.partition).ok().filter(|&p| p < count).map(|_| self.partition)
    }

    /// Another partition's turn.
    pub(in crate::client) fn choose(&mut self, partition: i32) {
        *self = Sticky { partition, bytes: 0 };
    }

    /// `bytes` more went to the present partition.
    pub(in crate::client) fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Whether it is time for another partition: after a batch's worth, once the partition's last
    /// batch is full, so that no small batch is left behind; after two at any rate.
    pub(in crate::client) fn is_over(&self, batch_size: usize, last_is_full: bool) -> bool {
        (last_is_full && self.bytes >= batch_size) || self.bytes >= batch_size.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_vectors_of_kafka() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn the_sign_is_masked() {
        // -973932308 & 0x7fffffff = 1173551340
        assert_eq!(partition_of_key(b"21", 7), 1_173_551_340 % 7);
        for (key, count, partition) in [
            ("", 10, 1),
            ("TT0124", 15, 10),
            ("fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26),
            // 3, if the sign were taken off.
            ("f562ac3b-2224-4e25-a0ab-56094e10c239", 10, 5),
        ] {
            assert_eq!(partition_of_key(key.as_bytes(), count), partition, "{key}");
        }
        assert!(partition_of_key(b"x", 0) == 0);
    }

    #[test]
    fn switches_after_a_batch_when_it_is_full_and_after_two_anyway() {
        let mut sticky = Sticky::new();
        assert_eq!(sticky.current(3), None);
        sticky.choose(2);
        assert_eq!((sticky.current(3), sticky.current(2)), (Some(2), None));
        sticky.count(99);
        assert!(!sticky.is_over(100, true));
        sticky.count(1);
        assert!(sticky.is_over(100, true) && !sticky.is_over(100, false));
        sticky.count(100);
        assert!(sticky.is_over(100, false));
    }
}
