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
    min_ns: u64,
    max_ns: u64,
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
        Self { histogram, mean_ns: 0.0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Adds one.
    pub fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).clamp(1, MAX_NS);
        self.histogram.saturating_record(ns);
        let before = ns as f64 - self.mean_ns;
        self.mean_ns += before / self.count() as f64;
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
        self.mean_ns += (other.mean_ns - self.mean_ns) * other.count() as f64 / self.count() as f64;
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
        let times = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(times.count(), 8);
        close(times.mean_ms(), 5.0);
        close(times.sum_ms(), 40.0);
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
        for value in [times.mean_ms(), times.min_ms(), times.max_ms(), times.median_ms()] {
            close(value, 0.0);
        }
    }

    #[test]
    fn times_beyond_the_limit_count_as_the_limit() {
        let times = of(&[1e9]);
        close(times.max_ms(), MAX_NS as f64 / NS_PER_MS);
    }
}
