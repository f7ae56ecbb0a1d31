//! Bytes of values. They are slices of one piece of noise, so that a value costs no more than its copy, and do not
//! compress.

use std::ops::Range;

use super::random::{self, Random};

/// What slices begin in: values that begin at different places are different.
const WINDOW_BYTES: usize = 4 << 20;

/// Noise by seed.
#[derive(Debug)]
pub(crate) struct Noise {
    seed: u64,
    bytes: Box<[u8]>,
}

impl Noise {
    /// Noise for values of up to `max_value_bytes`.
    pub(crate) fn new(seed: u64, max_value_bytes: usize) -> Self {
        let mut random = Random::seeded(seed);
        let words = (WINDOW_BYTES + max_value_bytes).div_ceil(8);
        let bytes = (0..words).flat_map(|_| random.next().to_le_bytes()).collect();
        Self { seed, bytes }
    }

    /// The bytes of the `element`-th value of the item `index`.
    #[inline]
    pub(crate) fn value(&self, index: u64, element: u64, size: usize) -> &[u8] {
        let place = random::at(self.seed ^ element.wrapping_mul(0x5851_F42D_4C95_7F2D), index);
        let start = random::scale(place, (self.bytes.len() - size) as u64 + 1) as usize;
        self.slice(start..start + size)
    }

    #[inline]
    fn slice(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_their_size_and_repeat_by_seed() {
        let (noise, same, other) = (Noise::new(1, 1000), Noise::new(1, 1000), Noise::new(2, 1000));
        for size in [1, 7, 64, 1000] {
            assert_eq!(noise.value(3, 0, size).len(), size);
            assert_eq!(noise.value(3, 0, size), same.value(3, 0, size));
        }
        assert_ne!(noise.value(3, 0, 64), noise.value(4, 0, 64));
        assert_ne!(noise.value(3, 0, 64), noise.value(3, 1, 64));
        assert_ne!(noise.value(3, 0, 64), other.value(3, 0, 64));
    }
}
