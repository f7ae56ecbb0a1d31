//! Which key comes next.

use std::fmt;
use std::str::FromStr;

use super::random::Random;

/// How keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Distribution {
    /// Each as often as any other.
    Uniform,
    /// One after the other.
    Sequential,
    /// The k-th with a probability proportional to `k^-exponent`.
    Zipf(f64),
    /// Around the middle, with a standard deviation of this part of the number of keys.
    Gaussian(f64),
}

const ZIPF_EXPONENT: f64 = 0.99;
const GAUSSIAN_DEVIATION: f64 = 1.0 / 6.0;

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let number = |default: f64| match parameter.map(str::parse) {
            None => Ok(default),
            Some(Ok(number)) if number > 0.0 && number <= 10.0 => Ok(number),
            Some(_) => Err(format!("{name}: a number above 0, up to 10, is wanted after the colon")),
        };
        match name {
            "uniform" if parameter.is_none() => Ok(Self::Uniform),
            "sequential" if parameter.is_none() => Ok(Self::Sequential),
            "zipf" => number(ZIPF_EXPONENT).map(Self::Zipf),
            "gaussian" => number(GAUSSIAN_DEVIATION).map(Self::Gaussian),
            _ => Err("uniform, sequential, zipf[:EXPONENT] or gaussian[:DEVIATION]".to_owned()),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Sequential => f.write_str("sequential"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::Gaussian(deviation) => write!(f, "gaussian:{deviation:.4}"),
        }
    }
}

/// Draws numbers of keys.
#[derive(Debug, Clone)]
pub(crate) enum Draw {
    Uniform { keys: u64 },
    Sequential { keys: u64, next: u64, step: u64 },
    Zipf(Zipf),
    Gaussian { keys: u64, deviation: f64 },
}

impl Draw {
    /// Draws from `keys` keys, at least 1. Of `of` workers, the `worker`-th takes every so-many-th key where they go in
    /// sequence.
    pub(crate) fn new(distribution: Distribution, keys: u64, worker: u64, of: u64) -> Self {
        let keys = keys.max(1);
        match distribution {
            Distribution::Uniform => Self::Uniform { keys },
            Distribution::Sequential => Self::Sequential { keys, next: worker % keys, step: of },
            Distribution::Zipf(exponent) => Self::Zipf(Zipf::new(keys, exponent)),
            Distribution::Gaussian(deviation) => Self::Gaussian { keys, deviation },
        }
    }

    #[inline]
    pub(crate) fn next(&mut self, random: &mut Random) -> u64 {
        match self {
            Self::Uniform { keys } => random.below(*keys),
            Self::Sequential { keys, next, step } => {
                let number = *next;
                *next = (number + *step) % *keys;
                number
            }
            Self::Zipf(zipf) => zipf.next(random),
            Self::Gaussian { keys, deviation } => loop {
                // Box and Muller (1958); what lies outside is drawn again.
                let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * random.unit()).cos();
                let place = 0.5 + normal * *deviation;
                if (0.0..1.0).contains(&place) {
                    return ((place * *keys as f64) as u64).min(*keys - 1);
                }
            },
        }
    }
}

/// Zipf's law in constant time and space, by rejection-inversion: Hörmann and Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions" (1996).
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    keys: u64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    accept: f64,
}

impl Zipf {
    fn new(keys: u64, exponent: f64) -> Self {
        let mut zipf = Self { keys, exponent, integral_first: 0.0, integral_last: 0.0, accept: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(keys as f64 + 0.5);
        zipf.accept = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn next(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.keys as f64);
            if k - x <= self.accept || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        ratio((1.0 - self.exponent) * log, f64::exp_m1) * log
    }

    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        (ratio(t, f64::ln_1p) * x).exp()
    }
}

/// `f(x) / x`, also where both are nearly nothing.
fn ratio(x: f64, f: fn(f64) -> f64) -> f64 {
    if x.abs() > 1e-9 { f(x) / x } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: Distribution, keys: u64, draws: u64) -> Vec<u64> {
        let (mut random, mut draw) = (Random::seeded(3), Draw::new(distribution, keys, 0, 1));
        let mut counts = vec![0; keys as usize];
        (0..draws).for_each(|_| counts[draw.next(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn zipf_follows_its_law() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let (keys, draws) = (1000_u64, 400_000_u64);
            let counts = counts(Distribution::Zipf(exponent), keys, draws);
            let total: f64 = (1..=keys).map(|k| (k as f64).powf(-exponent)).sum();
            for k in [1, 2, 3, 10] {
                let expected = draws as f64 * (k as f64).powf(-exponent) / total;
                let found = counts[k - 1] as f64;
                assert!(
                    (found - expected).abs() < 5.0 * expected.sqrt() + 1.0,
                    "{exponent} {k}: {found}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn the_others_are_what_they_are_called() {
        assert_eq!(counts(Distribution::Sequential, 7, 14), [2; 7]);
        assert!(counts(Distribution::Uniform, 10, 100_000).iter().all(|count| (9_500..10_500).contains(count)));
        let gaussian = counts(Distribution::Gaussian(0.1), 100, 100_000);
        let within: u64 = gaussian[40..60].iter().sum();
        assert!((67_000..70_000).contains(&within), "{within}");
        assert_eq!(counts(Distribution::Zipf(0.99), 1, 5), [5]);
    }

    #[test]
    fn names_are_read_and_written() {
        for text in ["uniform", "sequential", "zipf:1.2", "gaussian:0.1000"] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
        for text in ["zipf:0", "zipf:x", "uniform:1", "normal", ""] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
    }
}
