//! Log-linear histogram of durations: 64 steps for each doubling, so a value is known to within 1.6 %.
use std::time::Duration;

const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.ilog2();

pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; (STEPS * u64::from(u64::BITS)) as usize], count: 0, max_ns: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, duration: Duration) {
        let nanoseconds = duration.as_nanos() as u64;
        self.buckets[bucket(nanoseconds)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(nanoseconds);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1000.0
    }

    /// The middle of the bucket that holds the given share of the values; 0 when there are none.
    pub fn percentile_us(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        let index = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted && seen > 0
        });
        index.map_or(0.0, |index| middle_ns(index) / 1000.0)
    }
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < STEPS {
        return nanoseconds as usize;
    }
    let exponent = nanoseconds.ilog2();
    let step = (nanoseconds >> (exponent - STEP_BITS)) % STEPS;
    (u64::from(exponent - STEP_BITS + 1) * STEPS + step) as usize
}

fn middle_ns(bucket: usize) -> f64 {
    let (octave, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if octave == 0 {
        return step as f64;
    }
    let width = 2_f64.powi(octave as i32 - 1);
    ((STEPS + step) as f64 + 0.5) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_again_within_its_bucket() {
        for nanoseconds in [0, 1, 63, 64, 65, 127, 128, 999, 1_000_000, 123_456_789, u64::MAX / 2] {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_nanos(nanoseconds));
            let found = histogram.percentile_us(0.5) * 1000.0;
            let error = (found - nanoseconds as f64).abs();
            assert!(error <= nanoseconds as f64 / 64.0, "{nanoseconds} came back as {found}");
        }
    }

    #[test]
    fn percentiles_rank_by_count() {
        let mut histogram = Histogram::default();
        for microseconds in 1..=100 {
            histogram.add(Duration::from_micros(microseconds));
        }
        assert!((histogram.percentile_us(0.5) - 50.0).abs() < 1.0);
        assert!((histogram.percentile_us(0.99) - 99.0).abs() < 2.0);
        assert_eq!(histogram.count(), 100);
        assert_eq!(histogram.max_us(), 100.0);
    }
}
