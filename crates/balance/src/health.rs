//! Whether a server is to be asked, by what came of what it was asked before.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::budget::Retries;
use crate::time::Ms;

/// When a server is left out, and how it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Failures in a row by which it is ejected. Default 3.
    pub max_failures: u32,
    /// For how long; twice as long each time until it has answered, [`MAX_EJECTION`](Self::MAX_EJECTION) at most.
    /// Default 10 s.
    pub eject_time: Duration,
    /// How long a server that comes back, or joins others, takes to its full share, from a tenth of it. Default 0.
    pub slow_start: Duration,
    /// Health requests in a row that have to be answered well until a server that was left out gets requests again.
    /// Default 2.
    pub healthy: u32,
    /// Health requests in a row that have to fail until a server is left out. Default 3.
    pub unhealthy: u32,
    /// Requests that may be open at one server. Default `None`: as many as there are.
    pub max_open: Option<u32>,
    /// What may be sent again.
    pub retries: Retries,
}

/// What a health request found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was answered as it should be.
    Healthy,
    /// It was not.
    Unhealthy,
}

/// What a verdict changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// The server gets no requests from now on.
    Out,
    /// It gets requests again.
    Back,
}

/// Whether a server gets requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    In,
    /// It is left out for this long, because requests failed there.
    Ejected(Duration),
    /// It is left out until health requests are answered well.
    Unhealthy,
}

impl Settings {
    /// Longest ejection.
    pub const MAX_EJECTION: Duration = Duration::from_secs(300);
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_failures: 3,
            eject_time: Duration::from_secs(10),
            slow_start: Duration::ZERO,
            healthy: 2,
            unhealthy: 3,
            max_open: None,
            retries: Retries::default(),
        }
    }
}

/// Of one server.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Whether anything is in `record`: answers of a server that has never failed take no lock.
    is_marked: AtomicBool,
    record: Mutex<Record>,
    /// 0: it is not ejected. [`UNHEALTHY`]: by health requests.
    ejected_until: AtomicU64,
    /// When it came back, or joined others; 0: neither.
    back_since: AtomicU64,
    /// Until when it is not connected to, because it has refused that; 0: it has not, or has answered since.
    refuses_until: AtomicU64,
}

/// For how long nobody connects to a server that has refused a connection.
const REFUSAL: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
struct Record {
    /// In a row.
    failures: u32,
    /// In a row, without an answer between them.
    ejections: u32,
    /// Health requests in a row that were answered well.
    healthy: u32,
    /// That were not.
    unhealthy: u32,
}

/// Until health requests say otherwise.
const UNHEALTHY: u64 = u64::MAX;

impl Health {
    /// It comes to others that are there already.
    pub(crate) fn joins(&self, now: Ms) {
        self.back_since.store(now.0.max(1), Relaxed);
    }

    /// Returns whether it is ejected by this.
    pub(crate) fn failed(&self, settings: &Settings, now: Ms) -> bool {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_marked.store(true, Relaxed);
        // Requests that were on their way when it was ejected say nothing new.
        if self.is_ejected(now) {
            return false;
        }
        record.healthy = 0;
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

    /// Nobody listens there.
    pub(crate) fn refused(&self, now: Ms) {
        self.refuses_until.store(now.0.saturating_add(millis(REFUSAL)).max(1), Relaxed);
    }

    /// Whether it has refused a connection just now.
    pub(crate) fn refuses(&self, now: Ms) -> bool {
        self.refuses_until.load(Relaxed) > now.0
    }

    /// Whether a request may go there. After a refusal it is one at a time that finds out whether that is over.
    pub(crate) fn lets_try(&self, now: Ms) -> bool {
        let until = self.refuses_until.load(Relaxed);
        let next = now.0.saturating_add(millis(REFUSAL)).max(1);
        until == 0 || until <= now.0 && self.refuses_until.compare_exchange(until, next, Relaxed, Relaxed).is_ok()
    }

    /// Returns whether it had been ejected.
    pub(crate) fn answered(&self) -> bool {
        if self.refuses_until.load(Relaxed) != 0 {
            self.refuses_until.store(0, Relaxed);
        }
        if !self.is_marked.load(Relaxed) {
            return false;
        }
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let was_away = record.ejections > 0;
        (record.failures, record.ejections) = (0, 0);
        self.is_marked.store(false, Relaxed);
        // What health requests have found only they take back.
        if self.ejected_until.load(Relaxed) != UNHEALTHY {
            self.ejected_until.store(0, Relaxed);
        }
        was_away
    }

    /// A health request came to this. It ends an ejection as well, but the next failure is the start of a longer one.
    pub(crate) fn examined(&self, verdict: Verdict, settings: &Settings, now: Ms) -> Change {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        match verdict {
            Verdict::Healthy => {
                record.unhealthy = 0;
                record.healthy = record.healthy.saturating_add(1);
                if !self.is_ejected(now) || record.healthy < settings.healthy {
                    return Change::None;
                }
                self.ejected_until.store(0, Relaxed);
                self.back_since.store(now.0.max(1), Relaxed);
                Change::Back
            }
            Verdict::Unhealthy => {
                record.healthy = 0;
                record.unhealthy = record.unhealthy.saturating_add(1);
                let is_known = self.ejected_until.load(Relaxed) == UNHEALTHY;
                if is_known || record.unhealthy < settings.unhealthy {
                    return Change::None;
                }
                self.ejected_until.store(UNHEALTHY, Relaxed);
                Change::Out
            }
        }
    }

    pub(crate) fn state(&self, now: Ms) -> State {
        match self.ejected_until.load(Relaxed) {
            UNHEALTHY => State::Unhealthy,
            until if until > now.0 => State::Ejected(Duration::from_millis(until - now.0)),
            _ => State::In,
        }
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

    const SETTINGS: Settings = Settings {
        max_failures: 3,
        eject_time: Duration::from_secs(10),
        slow_start: Duration::from_secs(20),
        healthy: 2,
        unhealthy: 3,
        max_open: None,
        retries: Retries { percent: 20, per_second: 10 },
    };

    fn examine(health: &Health, verdicts: &[Verdict], now: u64) -> Vec<Change> {
        verdicts.iter().map(|verdict| health.examined(*verdict, &SETTINGS, Ms(now))).collect()
    }

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
    fn who_refused_a_connection_is_tried_by_one_request_at_a_time_until_it_answers() {
        let health = Health::default();
        assert!(health.lets_try(Ms(0)) && !health.refuses(Ms(0)));
        health.refused(Ms(1000));
        assert!(health.refuses(Ms(1249)) && !health.lets_try(Ms(1249)));
        assert!(!health.refuses(Ms(1250)) && health.lets_try(Ms(1250)));
        assert!(health.refuses(Ms(1250)) && !health.lets_try(Ms(1250)), "the one before has not come back");
        assert!(health.lets_try(Ms(1500)), "it never did");
        assert!(!health.answered());
        assert!(!health.refuses(Ms(1501)) && health.lets_try(Ms(1501)) && health.lets_try(Ms(1501)));
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

    #[test]
    fn health_requests_take_a_server_out_and_bring_it_back_slowly() {
        use Verdict::{Healthy, Unhealthy};
        let health = Health::default();
        let changes = examine(&health, &[Unhealthy, Unhealthy, Healthy, Unhealthy, Unhealthy], 5);
        assert_eq!(changes, [Change::None; 5], "not three in a row");
        assert_eq!(examine(&health, &[Unhealthy, Unhealthy], 6), [Change::Out, Change::None]);
        assert_eq!(health.state(Ms(u64::MAX - 1)), State::Unhealthy);
        assert!(!health.answered() && health.is_ejected(Ms(7)), "an answer proves nothing");
        assert_eq!(examine(&health, &[Healthy, Unhealthy, Healthy], 1000), [Change::None; 3]);
        assert_eq!(examine(&health, &[Healthy], 1000), [Change::Back]);
        assert_eq!(health.state(Ms(1000)), State::In);
        assert_eq!([1000, 11_000, 21_000].map(|at| health.share(&SETTINGS, Ms(at))), [100, 550, 1000]);
    }

    #[test]
    fn health_requests_end_an_ejection_but_not_what_is_remembered_of_it() {
        use Verdict::Healthy;
        let health = Health::default();
        examine(&health, &[Healthy; 5], 0);
        while !health.failed(&SETTINGS, Ms(0)) {}
        assert_eq!(health.state(Ms(4000)), State::Ejected(Duration::from_secs(6)));
        let changes = examine(&health, &[Healthy; 3], 4000);
        assert_eq!(changes, [Change::None, Change::Back, Change::None], "those before the failures do not count");
        assert!(health.failed(&SETTINGS, Ms(5000)), "one failure is enough");
        assert_eq!(health.state(Ms(5000)), State::Ejected(Duration::from_secs(20)));
    }
}
