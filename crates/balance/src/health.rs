//! Whether a server is to be asked, by what came of what it was asked before.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Milliseconds of a clock that does not go back, from any point of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ms(pub u64);

/// When a server is left out, and how it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Failures in a row by which it is ejected. Default 3.
    pub max_failures: u32,
    /// For how long; twice as long each time until it has answered, [`MAX_EJECTION`](Self::MAX_EJECTION) at most.
    /// Default 10 s.
    pub eject_time: Duration,
    /// How long a server that comes back takes to its full share, from a tenth of it. Default 0.
    pub slow_start: Duration,
}

impl Settings {
    /// Longest ejection.
    pub const MAX_EJECTION: Duration = Duration::from_secs(300);
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_failures: 3, eject_time: Duration::from_secs(10), slow_start: Duration::ZERO }
    }
}

/// Of one server.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Whether anything is in `record`: answers of a server that has never failed take no lock.
    is_marked: AtomicBool,
    record: Mutex<Record>,
    /// 0: it is not ejected.
    ejected_until: AtomicU64,
    /// When it came back; 0: it was never away.
    back_since: AtomicU64,
}

#[derive(Debug, Default)]
struct Record {
    /// In a row.
    failures: u32,
    /// In a row, without an answer between them.
    ejections: u32,
}

impl Health {
    /// Returns whether it is ejected by this.
    pub(crate) fn failed(&self, settings: &Settings, now: Ms) -> bool {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_marked.store(true, Relaxed);
        // Requests that were on their way when it was ejected say nothing new.
        if self.is_ejected(now) {
            return false;
        }
        record.failures = record.failures.saturating_add(1);
        if record.failures < settings.max_failures {
            return false;
        }
        let base = millis(settings.eject_time).max(1);
        let time = base.saturating_mul(1 << record.ejections.min(32)).min(millis(Settings::MAX_EJECTION).max(base));
        record.ejections = record.ejections.saturating_add(1);
        record.failures = settings.max_failures.saturating_sub(1); // one more is enough then
        let until = now.0.saturating_add(time).max(1);
        self.ejected_until.store(until, Relaxed);
        self.back_since.store(until, Relaxed);
        true
    }

    /// Returns whether it had been ejected.
    pub(crate) fn answered(&self) -> bool {
        if !self.is_marked.load(Relaxed) {
            return false;
        }
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let was_away = record.ejections > 0;
        *record = Record::default();
        self.is_marked.store(false, Relaxed);
        self.ejected_until.store(0, Relaxed);
        was_away
    }

    pub(crate) fn is_ejected(&self, now: Ms) -> bool {
        self.ejected_until.load(Relaxed) > now.0
    }

    /// What of its weight counts, in thousandths.
    pub(crate) fn share(&self, settings: &Settings, now: Ms) -> u64 {
        const WHOLE: u64 = 1000;
        let (since, slow) = (self.back_since.load(Relaxed), millis(settings.slow_start));
        let away = now.0.saturating_sub(since);
        if since == 0 || slow == 0 || away >= slow {
            return WHOLE;
        }
        WHOLE / 10 + WHOLE * 9 / 10 * away / slow
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings =
        Settings { max_failures: 3, eject_time: Duration::from_secs(10), slow_start: Duration::from_secs(20) };

    #[test]
    fn three_failures_in_a_row_and_each_time_twice_as_long() {
        let health = Health::default();
        assert!(!health.failed(&SETTINGS, Ms(1)) && !health.failed(&SETTINGS, Ms(2)));
        assert!(!health.answered(), "it was not away");
        assert!(!health.failed(&SETTINGS, Ms(3)) && !health.failed(&SETTINGS, Ms(4)));
        assert!(health.failed(&SETTINGS, Ms(5)));
        assert!(health.is_ejected(Ms(10_004)) && !health.is_ejected(Ms(10_005)));
        assert!(!health.failed(&SETTINGS, Ms(6)), "what was on its way");
        let mut now = 10_005;
        for seconds in [20, 40, 80, 160, 300, 300] {
            assert!(health.failed(&SETTINGS, Ms(now)), "one is enough behind an ejection");
            assert!(health.is_ejected(Ms(now + seconds * 1000 - 1)));
            now += seconds * 1000;
            assert!(!health.is_ejected(Ms(now)), "{seconds} s");
        }
        assert!(health.answered());
        assert!(!health.failed(&SETTINGS, Ms(now)), "it begins anew");
    }

    #[test]
    fn it_comes_back_slowly() {
        let health = Health::default();
        assert_eq!(health.share(&SETTINGS, Ms(0)), 1000, "it was never away");
        for _ in 0..3 {
            health.failed(&SETTINGS, Ms(0));
        }
        let shares = [10_000, 20_000, 29_999, 30_000].map(|at| health.share(&SETTINGS, Ms(at)));
        assert_eq!(shares, [100, 550, 999, 1000]);
    }
}
