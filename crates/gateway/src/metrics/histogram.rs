//! Times as a log-linear histogram: eight buckets for each power of two, so that a bucket is at most an eighth wide.
//!
//! ```text
//!  unit 128 ns   0 1 2 3 4 5 6 7 │ 8 9 … 15 │ 16 18 … 30 │ 32 36 … 60 │ …  up to 18 minutes
//! ```

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::counter::Counter;
use super::exemplar::{Exemplar, Exemplars};

/// Buckets for each power of two, as a power of two.
const FINE_BITS: u32 = 3;
const FINE: usize = 1 << FINE_BITS;
/// The unit: 128 ns, as a power of two. What is shorter is in the first bucket.
const UNIT_BITS: u32 = 7;
/// Powers of two above the first [`FINE`] units.
const OCTAVES: usize = 30;
const BUCKETS: usize = FINE * RANGES;
/// Ranges that have an exemplar each: the first [`FINE`] units, and each power of two above.
const RANGES: usize = OCTAVES + 1;
const _: () = assert!(BUCKETS <= 1 << u8::BITS, "Sparse numbers them with a byte");

/// Buckets that are allocated together: four powers of two.
const SPAN: usize = FINE * 4;
const SPANS: usize = BUCKETS.div_ceil(SPAN);
/// Buckets that are counted before any is allocated.
const FEW: usize = 4;
/// Where the number of a bucket begins in an entry of [`Few`], above its count.
const NUMBER_BITS: u32 = u64::BITS - u8::BITS;
const COUNT: u64 = (1 << NUMBER_BITS) - 1;

/// Its buckets are allocated as times fall into them: a service that was asked a few times has some words, a busy one
/// up to 2 KiB.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    few: Few,
    spans: OnceLock<Box<Spans>>,
    sum_ns: Counter,
    exemplars: Exemplars<RANGES>,
}

/// The first buckets that times fall into, with what was counted before there were spans; an entry is empty, or a
/// bucket and its count.
#[derive(Debug, Default)]
struct Few([AtomicU64; FEW]);

#[derive(Debug, Default)]
struct Spans([OnceLock<Box<Span>>; SPANS]);

#[derive(Debug, Default)]
struct Span([Counter; SPAN]);

impl Few {
    /// Only for its one writer. False: it has other buckets.
    fn add(&self, bucket: usize, count: u64) -> bool {
        let number = (bucket as u64) << NUMBER_BITS;
        let is_it = |entry: u64| entry == 0 || entry & !COUNT == number;
        let Some(entry) = self.0.iter().find(|entry| is_it(entry.load(Relaxed))) else { return false };
        entry.store(number | (entry.load(Relaxed) & COUNT).wrapping_add(count) & COUNT, Relaxed);
        true
    }

    /// Buckets and their counts.
    fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        let entries = self.0.iter().map(|entry| entry.load(Acquire)).filter(|entry| *entry > 0);
        entries.map(|entry| ((entry >> NUMBER_BITS) as usize, entry & COUNT))
    }
}

impl Spans {
    fn add(&self, bucket: usize, count: u64) {
        self.0[bucket / SPAN].get_or_init(Box::default).0[bucket % SPAN].add(count);
    }

    /// Buckets and their counts.
    fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        let spans = self.0.iter().enumerate().filter_map(|(at, span)| Some((at * SPAN, span.get()?)));
        spans.flat_map(|(from, span)| span.0.iter().enumerate().map(move |(at, one)| (from + at, one.value())))
    }
}

impl Histogram {
    /// Only for its one writer.
    pub(crate) fn record(&self, ns: u64) {
        self.record_all(1, ns);
    }

    /// So many things that took so long together, each counted with their mean. Only for its one writer.
    pub(crate) fn record_all(&self, count: u64, sum_ns: u64) {
        let mean_ns = if count > 1 { sum_ns / count } else { sum_ns };
        let bucket = bucket(mean_ns);
        match self.spans.get() {
            Some(spans) => spans.add(bucket, count),
            None if self.few.add(bucket, count) => {}
            None => self.spans.get_or_init(Box::default).add(bucket, count),
        }
        self.sum_ns.add(sum_ns);
    }

    /// The buckets that are counted, and their counts; a bucket may come twice.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.few.all().chain(self.spans.get().into_iter().flat_map(|spans| spans.all()))
    }

    /// A sampled request that was recorded before. Only for its one writer.
    pub(crate) fn exemplify(&self, exemplar: &Exemplar) {
        self.exemplars.set(bucket(exemplar.ns) / FINE, exemplar);
    }
}

impl Histogram {
    /// What everything in it took together.
    pub(crate) fn sum_ns(&self) -> u64 {
        self.sum_ns.value()
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
    /// Empty, or the newest one of each range.
    exemplars: Vec<Option<Exemplar>>,
}

/// The times below a bound that are not below the one before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// `None`: there is no bound.
    pub(crate) bound_ns: Option<u64>,
    /// How many are below the bound, those of the steps before included.
    pub(crate) below: u64,
    /// The newest of this step alone.
    pub(crate) exemplar: Option<Exemplar>,
}

/// The buckets of a sum that are not empty, by number.
#[derive(Debug, Default)]
pub(crate) struct Sparse {
    counts: Box<[(u8, u64)]>,
    sum_ns: u64,
}

impl Distribution {
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        if histogram.few.all().next().is_none() {
            return;
        }
        // First: of what has an exemplar, the time is counted.
        for (range, exemplar) in histogram.exemplars.all().enumerate() {
            self.exemplars.resize(RANGES, None);
            let newest = &mut self.exemplars[range];
            *newest = [*newest, exemplar].into_iter().flatten().max_by_key(|exemplar| exemplar.at.0);
        }
        self.counts.resize(BUCKETS, 0);
        for (bucket, count) in histogram.counts() {
            // The last span has more places than there are buckets.
            if let Some(sum) = self.counts.get_mut(bucket) {
                *sum += count;
            }
        }
        self.sum_ns += histogram.sum_ns.value();
    }

    /// Both together.
    pub(crate) fn merge(&mut self, other: &Self) {
        if !other.counts.is_empty() {
            self.counts.resize(BUCKETS, 0);
            self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        }
        self.sum_ns += other.sum_ns;
    }

    /// Without those of a part of it.
    pub(crate) fn less(mut self, part: &Self) -> Self {
        // A part that was read later may have more.
        self.counts.iter_mut().zip(&part.counts).for_each(|(count, less)| *count = count.saturating_sub(*less));
        self.sum_ns = self.sum_ns.saturating_sub(part.sum_ns);
        self
    }

    /// What has come since it was recorded; `None`: when it was empty.
    pub(crate) fn since(&self, earlier: Option<&Sparse>) -> Self {
        let mut rest = self.clone();
        if let Some(earlier) = earlier {
            rest.remove(earlier);
        }
        rest
    }

    /// Takes a part out of it.
    pub(crate) fn remove(&mut self, part: &Sparse) {
        for (bucket, count) in &part.counts {
            if let Some(rest) = self.counts.get_mut(usize::from(*bucket)) {
                *rest = rest.saturating_sub(*count);
            }
        }
        self.sum_ns = self.sum_ns.saturating_sub(part.sum_ns);
    }

    /// To be kept.
    pub(crate) fn sparse(&self) -> Sparse {
        let some = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let counts = some.filter_map(|(bucket, count)| Some((u8::try_from(bucket).ok()?, *count))).collect();
        Sparse { counts, sum_ns: self.sum_ns }
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

    /// A step for each power of two times 1.024 µs, `octaves` powers apart, and one for all that is longer.
    pub(crate) fn steps(&self, octaves: usize) -> impl Iterator<Item = Step> {
        let ends = (1..RANGES).step_by(octaves).map(Some).chain(std::iter::once(None));
        let (mut below, mut from) = (0, 0);
        ends.map(move |end| {
            let to = end.unwrap_or(RANGES);
            let counts = self.counts.get(from * FINE..to * FINE).unwrap_or_default();
            below += counts.iter().sum::<u64>();
            let exemplars = self.exemplars.get(from..to).unwrap_or_default();
            from = to;
            Step {
                bound_ns: end.map(|end| lower_ns(end * FINE)),
                below,
                exemplar: exemplars.iter().flatten().max_by_key(|exemplar| exemplar.at.0).copied(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use pilotlight_cache::Timestamp;
    use pilotlight_traces::IdSource;
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
    fn the_first_buckets_and_those_that_were_allocated_are_one() {
        let histogram = Histogram::default();
        let times = [200, 3_000, 50_000, 200, 800_000, 13_000_000, 200, 3_000, 13_000_000, u64::MAX >> 2];
        for (at, ns) in times.into_iter().enumerate() {
            histogram.record(ns);
            assert_eq!(histogram.spans.get().is_some(), at >= 5, "{at}");
        }
        let mut sum = Distribution::default();
        sum.add(&histogram);
        sum.add(&histogram);
        let found: Vec<_> = sum.sparse().counts.iter().map(|(at, count)| (usize::from(*at), *count)).collect();
        let wanted = [(200, 6), (3_000, 4), (50_000, 2), (800_000, 2), (13_000_000, 4), (u64::MAX >> 2, 2)];
        assert_eq!(found, wanted.map(|(ns, count)| (bucket(ns), count)));
        assert_eq!(sum.count(), 20);
    }

    #[test]
    fn nothing_has_no_quantile() {
        let mut sum = Distribution::default();
        sum.add(&Histogram::default());
        assert_eq!((sum.count(), sum.quantile_ns(500)), (0, None));
        assert!(sum.steps(1).all(|step| step.below == 0 && step.exemplar.is_none()));
    }

    #[test]
    fn bounds_are_powers_of_two_and_the_last_has_nearly_all() {
        let histogram = Histogram::default();
        for ns in [100, 1_023, 1_024, 2_000_000, 90_000_000_000] {
            histogram.record(ns);
        }
        let mut sum = Distribution::default();
        sum.add(&histogram);
        let steps: Vec<_> = sum.steps(2).map(|step| (step.bound_ns, step.below)).collect();
        assert_eq!(steps[0], (Some(1_024), 2));
        assert_eq!(steps[1], (Some(4_096), 3));
        let (all, bounded) = steps.split_last().unwrap();
        assert_eq!(*all, (None, 5));
        assert!(bounded.windows(2).all(|pair| pair[0].0.map(|ns| ns * 4) == pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(bounded.last().map(|last| last.1), Some(5));
        assert_eq!(sum.steps(1).last().map(|last| (last.bound_ns, last.below)), Some((None, 5)));
    }

    #[test]
    fn a_step_has_the_newest_exemplar_within_its_bounds() {
        let ids = IdSource::new(1);
        let exemplar = |ns, at| Exemplar { trace_id: ids.trace_id(), span_id: ids.span_id(), ns, at: Timestamp(at) };
        let (first, second) = (Histogram::default(), Histogram::default());
        let of_first = [exemplar(100, 1), exemplar(1_500, 5), exemplar(2_500, 2), exemplar(u64::MAX, 3)];
        let of_second = [exemplar(1_400, 4), exemplar(3_000, 9)];
        for (histogram, exemplars) in [(&first, &of_first[..]), (&second, &of_second)] {
            for exemplar in exemplars {
                histogram.record(exemplar.ns);
                histogram.exemplify(exemplar);
            }
        }
        let mut sum = Distribution::default();
        sum.add(&first);
        sum.add(&second);
        let found: Vec<_> = sum.steps(1).filter_map(|step| Some((step.bound_ns, step.exemplar?))).collect();
        assert_eq!(
            found,
            [(Some(1_024), of_first[0]), (Some(2_048), of_first[1]), (Some(4_096), of_second[1]), (None, of_first[3])]
        );
        let coarse: Vec<_> = sum.steps(2).filter_map(|step| Some((step.bound_ns, step.exemplar?))).collect();
        assert_eq!(coarse, [(Some(1_024), of_first[0]), (Some(4_096), of_second[1]), (None, of_first[3])]);
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
