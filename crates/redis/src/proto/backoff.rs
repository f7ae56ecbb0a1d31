//! Pauses between attempts: capped, exponential, with full jitter.

use std::time::Duration;

/// Pauses that grow from `min` to `max` by `factor`. Each is drawn uniformly from nothing to the current bound ("full
/// jitter"), so that clients that lost the same server do not come back together.
///
/// ```
/// use std::time::Duration;
///
/// use pilotlight_redis::config::Backoff;
///
/// let backoff = Backoff { max: Duration::from_secs(1), ..Backoff::default() };
/// assert_eq!(backoff.bound(3), Duration::from_millis(80));
/// assert_eq!(backoff.bound(100), Duration::from_secs(1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Bound of the first pause. Default: 20 ms.
    pub min: Duration,
    /// Bound of all pauses. Default: 5 s.
    pub max: Duration,
    /// Growth of the bound with each failure, at least 1. Default: 2.
    pub factor: f64,
}

impl Backoff {
    /// The bound of the pause after `failures` failures in a row (the first is 1).
    #[must_use]
    pub fn bound(&self, failures: u32) -> Duration {
        let growth = self.factor.max(1.0).powf(f64::from(failures.saturating_sub(1)));
        let seconds = (self.min.as_secs_f64() * growth).min(self.max.as_secs_f64());
        // `growth` may be infinite, and zero times infinity is not a number.
        Duration::try_from_secs_f64(seconds).unwrap_or(self.max)
    }

    /// The pause after `failures` failures in a row (the first is 1).
    #[must_use]
    pub fn pause(&self, failures: u32, random: &mut fastrand::Rng) -> Duration {
        self.bound(failures).mul_f64(random.f64())
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { min: Duration::from_millis(20), max: Duration::from_secs(5), factor: 2.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { min: Duration::from_millis(20), max: Duration::from_secs(5), factor: 2.0 };

    #[test]
    fn bounds_double_up_to_the_cap() {
        let bounds: Vec<u128> = (0..11).map(|failures| BACKOFF.bound(failures).as_millis()).collect();
        assert_eq!(bounds, [20, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]);
        assert_eq!(BACKOFF.bound(u32::MAX), BACKOFF.max);
    }

    #[test]
    fn odd_settings_are_harmless() {
        assert_eq!(Backoff { min: Duration::ZERO, ..BACKOFF }.bound(1), Duration::ZERO);
        assert_eq!(Backoff { min: Duration::ZERO, ..BACKOFF }.bound(u32::MAX), BACKOFF.max);
        assert_eq!(Backoff { factor: 0.0, ..BACKOFF }.bound(9), BACKOFF.min);
        assert_eq!(Backoff { factor: f64::NAN, ..BACKOFF }.bound(9), BACKOFF.min);
        assert_eq!(Backoff { max: Duration::from_millis(1), ..BACKOFF }.bound(1), Duration::from_millis(1));
    }

    #[test]
    fn a_thousand_clients_spread_over_the_window() {
        let mut tenths = [0_u32; 10];
        for seed in 0..1000 {
            let pause = BACKOFF.pause(20, &mut fastrand::Rng::with_seed(seed));
            assert!(pause <= BACKOFF.max);
            tenths[usize::try_from(pause.as_millis() / 500).unwrap().min(9)] += 1;
        }
        assert!(tenths.iter().all(|&count| (60..=140).contains(&count)), "{tenths:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_pauses() {
        let pauses = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            (1..9).map(|failures| BACKOFF.pause(failures, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(pauses(7), pauses(7));
        assert_ne!(pauses(7), pauses(8));
    }
}
