//! Times of requests: recorded without allocation, so that recording disturbs nothing.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

/// Longer times count as this long.
const MAX_NS: u64 = 120_000_000_000;
/// Percentiles are right to a thousandth.
const SIGNIFICANT_DIGITS: u8 = 3;
const NS_PER_MS: f64 = 1e6;

/// A distribution of times. Moments and extremes are exact, percentiles right to a thousandth.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    mean_ns: f64,
    /// Sum of squared differences from the mean (Welford 1962).
    squares: f64,
    min_ns: u64,
    max_ns: u64,
}

/// One bar of a histogram: times in `from_ms ..= to_ms`, without `from_ms` but for the first bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Lower edge.
    pub from_ms: f64,
    /// Upper edge.
    pub to_ms: f64,
    /// Times in it.
    pub count: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// No times yet.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::expect_used, reason = "constants that the crate documents as valid")]
        let histogram = Histogram::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS).expect("valid bounds");
        Self { histogram, mean_ns: 0.0, squares: 0.0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Adds one.
    pub fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).clamp(1, MAX_NS);
        self.histogram.saturating_record(ns);
        let before = ns as f64 - self.mean_ns;
        self.mean_ns += before / self.count() as f64;
        self.squares += before * (ns as f64 - self.mean_ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        #[expect(clippy::expect_used, reason = "both have the same bounds")]
        self.histogram.add(&other.histogram).expect("the same bounds");
        // Chan, Golub and LeVeque 1979: moments of two samples together
        let (of_self, of_other) = ((self.count() - other.count()) as f64, other.count() as f64);
        let (all, apart) = (of_self + of_other, other.mean_ns - self.mean_ns);
        self.squares += other.squares + apart * apart * of_self * of_other / all;
        self.mean_ns += apart * of_other / all;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// As tools of HDR histograms read it: V2, deflated, in base64; values are nanoseconds.
    #[must_use]
    pub fn hdr(&self) -> String {
        let mut bytes = Vec::new();
        #[expect(clippy::expect_used, reason = "memory takes what is written, and counts have no other limit")]
        V2DeflateSerializer::new().serialize(&self.histogram, &mut bytes).expect("written to memory");
        BASE64.encode(bytes)
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Their mean; 0 if there are none, as everything below.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.mean_ns / NS_PER_MS
    }

    /// Their sum.
    #[must_use]
    pub fn sum_ms(&self) -> f64 {
        self.mean_ms() * self.count() as f64
    }

    /// The variance of the sample (divided by n − 1), in square milliseconds.
    #[must_use]
    pub fn variance(&self) -> f64 {
        match self.count() {
            0 | 1 => 0.0,
            count => self.squares / (count - 1) as f64 / (NS_PER_MS * NS_PER_MS),
        }
    }

    /// The standard deviation of the sample.
    #[must_use]
    pub fn deviation_ms(&self) -> f64 {
        self.variance().sqrt()
    }

    /// The shortest.
    #[must_use]
    pub fn min_ms(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.min_ns as f64 / NS_PER_MS }
    }

    /// The longest.
    #[must_use]
    pub fn max_ms(&self) -> f64 {
        self.max_ns as f64 / NS_PER_MS
    }

    /// The time that `percent` of all do not exceed (nearest rank).
    #[must_use]
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let ns = self.histogram.value_at_quantile(percent / 100.0);
        ns.clamp(self.min_ns, self.max_ns) as f64 / NS_PER_MS
    }

    /// The median.
    #[must_use]
    pub fn median_ms(&self) -> f64 {
        self.percentile_ms(50.0)
    }

    /// `count` bars of the same width from the shortest to the longest; none if there are no times.
    #[must_use]
    pub fn bins(&self, count: usize) -> Vec<Bin> {
        if self.is_empty() || count == 0 {
            return Vec::new();
        }
        let (from, to) = (self.min_ms(), self.max_ms());
        let width = (to - from) / count as f64;
        let edge = |index: usize| if index == count { to } else { from + width * index as f64 };
        let mut bins: Vec<Bin> = (0..count).map(|i| Bin { from_ms: edge(i), to_ms: edge(i + 1), count: 0 }).collect();
        for step in self.histogram.iter_recorded() {
            let at = (step.value_iterated_to().clamp(self.min_ns, self.max_ns)) as f64 / NS_PER_MS;
            let index = bins.iter().position(|bin| at <= bin.to_ms).unwrap_or(count - 1);
            bins[index].count += step.count_at_value();
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    fn of(milliseconds: &[f64]) -> Times {
        let mut times = Times::new();
        for ms in milliseconds {
            times.record(Duration::from_secs_f64(ms / 1000.0));
        }
        times
    }

    #[track_caller]
    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= wanted.abs() * 0.001 + 1e-9, "{found} where {wanted} was due");
    }

    #[test]
    fn moments_of_a_known_sample() {
        // NIST/SEMATECH e-Handbook: mean 5, population variance 4, sample variance 32/7.
        let times = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(times.count(), 8);
        close(times.mean_ms(), 5.0);
        close(times.sum_ms(), 40.0);
        close(times.variance(), 32.0 / 7.0);
        close(times.deviation_ms(), (32.0_f64 / 7.0).sqrt());
        close(times.min_ms(), 2.0);
        close(times.max_ms(), 9.0);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times = of(&(1..=100).map(f64::from).collect::<Vec<_>>());
        for percent in [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0] {
            close(times.percentile_ms(percent), percent);
        }
        close(times.percentile_ms(99.9), 100.0);
        close(of(&[3.0]).percentile_ms(99.9), 3.0);
    }

    #[test]
    fn merged_times_are_those_of_one_distribution() {
        let (first, second) = ([2.0, 4.0, 4.0, 4.0], [5.0, 5.0, 7.0, 9.0]);
        let mut merged = of(&first);
        merged.merge(&of(&second));
        merged.merge(&Times::new());
        let mut from_nothing = Times::new();
        from_nothing.merge(&merged);
        let whole = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        for times in [merged, from_nothing] {
            assert_eq!((times.count(), times.hdr()), (whole.count(), whole.hdr()));
            close(times.mean_ms(), 5.0);
            close(times.variance(), 32.0 / 7.0);
            assert_eq!((times.min_ms(), times.max_ms()), (whole.min_ms(), whole.max_ms()));
        }
    }

    #[test]
    fn a_kept_histogram_can_be_read_again() {
        let times = of(&(1..=100).map(f64::from).collect::<Vec<_>>());
        let bytes = BASE64.decode(times.hdr()).expect("base64");
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).expect("V2");
        assert_eq!(read, times.histogram);
    }

    #[test]
    fn an_empty_distribution_has_no_moments() {
        let times = Times::new();
        assert!(times.is_empty());
        for value in [times.mean_ms(), times.variance(), times.min_ms(), times.max_ms(), times.median_ms()] {
            close(value, 0.0);
        }
        assert_eq!(times.bins(10), []);
    }

    #[test]
    fn bins_have_one_width_and_lose_nothing() {
        let times = of(&[1.0, 1.5, 1.9, 4.9, 11.0]);
        let bins = times.bins(10);
        assert_eq!(bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [3, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        close(bins[0].from_ms, 1.0);
        close(bins[9].to_ms, 11.0);
        for same in [of(&[4.0]), of(&[4.0, 4.0])] {
            assert_eq!(same.bins(10).iter().map(|bin| bin.count).sum::<u64>(), same.count());
        }
    }

    #[test]
    fn times_beyond_the_limit_count_as_the_limit() {
        let times = of(&[1e9]);
        close(times.max_ms(), MAX_NS as f64 / NS_PER_MS);
    }
}
