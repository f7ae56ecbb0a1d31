//! Which requests are sampled.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

use crate::ids::IdSource;

/// The part of requests that is sampled, exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u32);

/// It is no number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatioError;

impl fmt::Display for RatioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it must be a number from 0 to 1")
    }
}

impl Ratio {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(BILLION);
    /// One of a hundred: what is sampled unless somebody says otherwise.
    pub const DEFAULT: Self = Self(BILLION / 100);

    fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(BILLION)
    }
}

const BILLION: u32 = 1_000_000_000;

impl FromStr for Ratio {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<Self, RatioError> {
        let ratio: f64 = text.parse().map_err(|_| RatioError)?;
        if !(0.0..=1.0).contains(&ratio) {
            return Err(RatioError);
        }
        Ok(Self((ratio * f64::from(BILLION)).round() as u32))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

/// Samples each request with the same chance, and looks only at a countdown to know: how many requests are passed over
/// until the next one is drawn in advance (a geometric distribution).
#[derive(Debug)]
pub struct Sampler {
    ratio: Cell<Ratio>,
    /// Requests before the next that is sampled.
    left: Cell<u64>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { ratio: Cell::new(Ratio::NONE), left: Cell::new(u64::MAX) }
    }
}

impl Sampler {
    /// Whether the request that comes next is sampled, which does not count it.
    #[inline]
    pub fn is_next_sampled(&self, ratio: Ratio, ids: &IdSource) -> bool {
        if self.ratio.get() != ratio {
            self.ratio.set(ratio);
            self.left.set(draw(ratio, ids));
        }
        self.left.get() == 0
    }

    /// Counts a request of which [`is_next_sampled`](Self::is_next_sampled) said that it is not.
    #[inline]
    pub fn pass(&self) {
        let left = self.left.get();
        if left != u64::MAX {
            self.left.set(left.saturating_sub(1));
        }
    }

    /// Counts a request; whether it is sampled.
    #[inline]
    pub fn take(&self, ratio: Ratio, ids: &IdSource) -> bool {
        let is_sampled = self.is_next_sampled(ratio, ids);
        match is_sampled {
            true => self.left.set(draw(ratio, ids)),
            false => self.pass(),
        }
        is_sampled
    }
}

/// Failures before the first success, by inversion: ⌊ln(u) / ln(1 − p)⌋.
fn draw(ratio: Ratio, ids: &IdSource) -> u64 {
    match ratio {
        Ratio::NONE => u64::MAX,
        Ratio::ALL => 0,
        Ratio(_) => {
            // In (0, 1], to 53 bits.
            let unit = ((ids.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            (unit.ln() / (-ratio.as_f64()).ln_1p()) as u64 // saturates
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Ratio>) {
        assert_eq!(text.parse().ok(), expected, "{text}");
    }

    #[test]
    fn ratios_are_from_0_to_1() {
        check("0", Some(Ratio::NONE));
        check("1", Some(Ratio::ALL));
        check("0.01", Some(Ratio::DEFAULT));
        check("1e-9", Some(Ratio(1)));
        for bad in ["-0.1", "1.1", "nan", "inf", "1%", ""] {
            check(bad, None);
        }
        assert_eq!(Ratio::DEFAULT.to_string(), "0.01");
    }

    #[test]
    fn a_request_that_is_looked_at_twice_counts_once() {
        let (ids, sampler) = (IdSource::new(3), Sampler::default());
        let ratio = "0.5".parse().unwrap();
        let mut sampled = 0;
        for _ in 0..10_000 {
            if sampler.is_next_sampled(ratio, &ids) {
                assert!(sampler.take(ratio, &ids));
                sampled += 1;
            } else {
                sampler.pass();
            }
        }
        assert!((4_700..5_300).contains(&sampled), "{sampled}");
    }

    #[test]
    fn another_ratio_counts_from_the_next_request() {
        let (ids, sampler) = (IdSource::new(3), Sampler::default());
        assert!(!sampler.take(Ratio::NONE, &ids));
        assert!(sampler.take(Ratio::ALL, &ids) && sampler.take(Ratio::ALL, &ids));
        assert!(!sampler.take(Ratio::NONE, &ids));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_ratio_is_kept(seed: u64, per_mille in 5_u32..=1000) {
            let (ids, sampler, ratio) = (IdSource::new(seed), Sampler::default(), Ratio(per_mille * 1_000_000));
            let sampled = (0..40_000).filter(|_| sampler.take(ratio, &ids)).count() as f64;
            let p = f64::from(per_mille) / 1000.0;
            let (mean, deviation) = (40_000.0 * p, (40_000.0 * p * (1.0 - p)).sqrt());
            prop_assert!((sampled - mean).abs() <= 6.0 * deviation, "{sampled} of {mean}");
        }
    }
}
