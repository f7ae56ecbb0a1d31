//! Times as a log-linear histogram: eight buckets for each power of two, so that a bucket is at most an eighth wide.
//!
//! ```text
//!  unit 128 ns   0 1 2 3 4 5 6 7 │ 8 9 … 15 │ 16 18 … 30 │ 32 36 … 60 │ …  up to 18 minutes
//! ```

use std::sync::OnceLock;

use super::counter::Counter;

/// Buckets for each power of two, as a power of two.
const FINE_BITS: u32 = 3;
const FINE: usize = 1 << FINE_BITS;
/// The unit: 128 ns, as a power of two. What is shorter is in the first bucket.
const UNIT_BITS: u32 = 7;
/// Powers of two above the first [`FINE`] units.
const OCTAVES: usize = 30;
const BUCKETS: usize = FINE * (OCTAVES + 1);

/// 2 KiB once something was recorded, a word or two before.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: OnceLock<Box<Buckets>>,
    sum_ns: Counter,
}

#[derive(Debug)]
struct Buckets([Counter; BUCKETS]);

impl Histogram {
    /// Only for its one writer.
    pub(crate) fn record(&self, ns: u64) {
        self.record_all(1, ns);
    }

    /// So many things that took so long together, each counted with their mean. Only for its one writer.
    pub(crate) fn record_all(&self, count: u64, sum_ns: u64) {
        let mean_ns = if count > 1 { sum_ns / count } else { sum_ns };
        let buckets = self.buckets.get_or_init(|| Box::new(Buckets(std::array::from_fn(|_| Counter::default()))));
        buckets.0[bucket(mean_ns)].add(count);
        self.sum_ns.add(sum_ns);
    }
}

fn bucket(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    // Below FINE the exponent is that of FINE, and the shift 0.
    let shift = (units | FINE as u64).ilog2() - FINE_BITS;
    ((shift as usize * FINE) + (units >> shift) as usize).min(BUCKETS - 1)
}

/// Where a bucket begins.
fn lower_ns(bucket: usize) -> u64 {
    let units = match bucket.checked_sub(FINE) {
        None => bucket as u64,
        Some(above) => ((above % FINE + FINE) as u64) << (above / FINE),
    };
    units << UNIT_BITS
}

/// The sum of histograms.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distribution {
    /// Empty, or one for each bucket.
    counts: Vec<u64>,
    sum_ns: u64,
}

impl Distribution {
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        let Some(buckets) = histogram.buckets.get() else { return };
        self.counts.resize(BUCKETS, 0);
        self.counts.iter_mut().zip(&buckets.0).for_each(|(sum, counter)| *sum += counter.value());
        self.sum_ns += histogram.sum_ns.value();
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The time below which so many of a thousand are, to a sixteenth; `None` if there are none.
    pub(crate) fn quantile_ns(&self, per_mille: u64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|bucket| {
            seen += u128::from(*bucket);
            seen >= rank
        });
        let found = found.unwrap_or(BUCKETS - 1);
        Some(u64::midpoint(lower_ns(found), lower_ns(found + 1)))
    }

    /// For each power of two times 1.024 µs, `step` powers apart: its nanoseconds and how many were shorter.
    pub(crate) fn cumulative(&self, step: usize) -> impl Iterator<Item = (u64, u64)> {
        let mut below = 0;
        let bounds = (0..=OCTAVES).step_by(step).map(|octave| (octave + 1) * FINE);
        let mut from = 0;
        bounds.take_while(|to| *to < BUCKETS).map(move |to| {
            below += self.counts.get(from..to).map_or(0, |part| part.iter().sum::<u64>());
            from = to;
            (lower_ns(to), below)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        assert_eq!(lower_ns(0), 0);
        for at in 1..BUCKETS {
            assert_eq!(bucket(lower_ns(at)), at);
            assert_eq!(bucket(lower_ns(at) - 1), at - 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_is_timed_together_has_its_mean_each() {
        let histogram = Histogram::default();
        histogram.record_all(3, 3_001);
        let mut sum = Distribution::default();
        sum.add(&histogram);
        assert_eq!((sum.count(), sum.sum_ns()), (3, 3_001));
        assert_eq!(sum.counts[bucket(1_000)], 3);
    }

    #[test]
    fn nothing_has_no_quantile() {
        let mut sum = Distribution::default();
        sum.add(&Histogram::default());
        assert_eq!((sum.count(), sum.quantile_ns(500)), (0, None));
        assert!(sum.cumulative(1).all(|(_, below)| below == 0));
    }

    #[test]
    fn bounds_are_powers_of_two_and_the_last_has_nearly_all() {
        let histogram = Histogram::default();
        for ns in [100, 1_023, 1_024, 2_000_000, 90_000_000_000] {
            histogram.record(ns);
        }
        let mut sum = Distribution::default();
        sum.add(&histogram);
        let bounds: Vec<_> = sum.cumulative(2).collect();
        assert_eq!(bounds[0], (1_024, 2));
        assert_eq!(bounds[1], (4_096, 3));
        assert!(bounds.windows(2).all(|pair| pair[0].0 * 4 == pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(bounds.last().map(|last| last.1), Some(5));
        assert_eq!(sum.cumulative(1).last().map(|last| last.1), Some(5));
    }

    proptest! {
        #[test]
        fn quantiles_are_right_to_a_sixteenth(mut times in prop::collection::vec(2_000_u64..1 << 38, 1..200), per_mille in 1_u64..=1000) {
            let histogram = Histogram::default();
            times.iter().for_each(|ns| histogram.record(*ns));
            let mut sum = Distribution::default();
            sum.add(&histogram);
            times.sort_unstable();
            let rank = (times.len() as u64 * per_mille).div_ceil(1000).max(1) as usize;
            let (found, exact) = (sum.quantile_ns(per_mille).unwrap(), times[rank - 1]);
            prop_assert!(found.abs_diff(exact) <= exact / 16 + 1, "{found} {exact}");
            prop_assert_eq!(sum.count(), times.len() as u64);
            prop_assert_eq!(sum.sum_ns(), times.iter().sum::<u64>());
        }
    }
}
