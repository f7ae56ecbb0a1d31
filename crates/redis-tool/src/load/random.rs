//! Random numbers by seed: SplitMix64 (Steele, Lea, Flood 2014). Fast, the same everywhere, and nothing for secrets.

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `bound`, which is at least 1.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }

    /// From 0 up to, without, 1.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The `index`-th number of a seed, without those before it.
#[inline]
pub(crate) fn at(seed: u64, index: u64) -> u64 {
    mix(mix(seed.wrapping_add(STEP)).wrapping_add(index.wrapping_mul(STEP)))
}

/// From all numbers to those below `bound`, evenly.
#[inline]
pub(crate) fn scale(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut one, mut other) = (Random::seeded(7), Random::seeded(7));
        assert!((0..100).all(|_| one.next() == other.next()));
        assert_ne!(at(7, 1), at(8, 1));
    }

    #[test]
    fn numbers_are_spread_below_their_bound() {
        let mut random = Random::seeded(1);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert!((0..1000).map(|_| random.unit()).all(|unit| (0.0..1.0).contains(&unit)));
    }
}
