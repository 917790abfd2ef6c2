//! Random: the client's own seeded generator, for jitter and for the sticky partitioner.

use core::time::Duration;

/// SplitMix64: one word of state, and every seed is a good one.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u32
    }

    /// `by`, made up to a fifth shorter or longer.
    pub(super) fn jitter(&mut self, by: Duration) -> Duration {
        let permille = 800 + self.below(401);
        by.saturating_mul(permille) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.next() == b.next()));
        let mut seen = [0u32; 3];
        (0..3000).for_each(|_| seen[a.below(3) as usize] += 1);
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert_eq!(a.below(0), 0);
    }

    #[test]
    fn jitter_is_a_fifth_at_most() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            let ms = random.jitter(Duration::from_millis(1000)).as_millis();
            assert!((800..=1200).contains(&ms));
        }
    }
}
