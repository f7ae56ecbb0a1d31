//! The times of the last minutes: numbers as they are now, less what they were then.
//!
//! Books only grow. Once in [`TURN`] a mark is made of what has been counted; the path of a request knows nothing of
//! it. A service that has answered nothing between two marks shares one record between them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::histogram::{Distribution, Sparse};
use super::sums::Times;

/// How often a mark is made.
pub(crate) const TURN: Duration = Duration::from_secs(60);
/// Marks that are kept: the oldest is between five and six minutes old.
const MAX_MARKS: usize = 6;

/// The marks.
#[derive(Debug)]
pub(crate) struct Recent {
    begun: Instant,
    marks: VecDeque<Mark>,
    /// How many were ever made.
    made: u64,
}

#[derive(Debug)]
struct Mark {
    at: Instant,
    services: HashMap<Arc<str>, Arc<Counted>>,
}

#[derive(Debug)]
struct Counted {
    requests: u64,
    total: Sparse,
    cold: Sparse,
}

/// What was counted since the oldest mark.
#[derive(Debug, Default)]
pub(crate) struct RecentTimes {
    /// Requests that waited for no start.
    pub(crate) warm: Distribution,
    /// Requests that did.
    pub(crate) cold: Distribution,
}

/// The same, to be kept.
#[derive(Debug, Default)]
pub(crate) struct SparseTimes {
    warm: Sparse,
    cold: Sparse,
}

impl RecentTimes {
    pub(crate) fn add(&mut self, other: &Self) {
        self.warm.merge(&other.warm);
        self.cold.merge(&other.cold);
    }

    /// What was added before.
    pub(crate) fn remove(&mut self, other: &SparseTimes) {
        self.warm.remove(&other.warm);
        self.cold.remove(&other.cold);
    }

    pub(crate) fn sparse(&self) -> SparseTimes {
        SparseTimes { warm: self.warm.sparse(), cold: self.cold.sparse() }
    }
}

impl Recent {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, marks: VecDeque::with_capacity(MAX_MARKS), made: 0 }
    }

    /// Makes a mark: each service's requests so far, and its times, which are only asked for if it has answered any
    /// since the last mark.
    pub(crate) fn turn<'a>(
        &mut self,
        now: Instant,
        services: impl Iterator<Item = (&'a str, u64)>,
        times: impl Fn(&str) -> Times,
    ) {
        let last = self.marks.back().map(|mark| &mark.services);
        let mut marked = HashMap::new();
        for (name, requests) in services.filter(|(_, requests)| *requests > 0) {
            let (name, counted) = match last.and_then(|services| services.get_key_value(name)) {
                Some((name, counted)) if counted.requests == requests => (Arc::clone(name), Arc::clone(counted)),
                known => {
                    let Times { total, cold } = times(name);
                    let counted = Counted { requests, total: total.sparse(), cold: cold.sparse() };
                    (known.map_or_else(|| name.into(), |(name, _)| Arc::clone(name)), Arc::new(counted))
                }
            };
            marked.insert(name, counted);
        }
        if self.marks.len() == MAX_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { at: now, services: marked });
        self.made += 1;
    }

    /// Another number after each mark.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// How long ago the oldest mark was made; before there is one, how long the gateway runs.
    pub(crate) fn window(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.marks.front().map_or(self.begun, |mark| mark.at))
    }

    /// What a service has answered since.
    pub(crate) fn since(&self, service: &str, times: &Times) -> RecentTimes {
        let then = self.marks.front().and_then(|mark| mark.services.get(service));
        let cold = times.cold.since(then.map(|then| &then.cold));
        let total = times.total.since(then.map(|then| &then.total));
        RecentTimes { warm: total.less(&cold), cold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Histogram;

    /// Times of a service that has answered so.
    struct Service {
        total: Histogram,
        cold: Histogram,
    }

    impl Service {
        fn new() -> Self {
            Self { total: Histogram::default(), cold: Histogram::default() }
        }

        fn times(&self) -> Times {
            let mut times = Times::default();
            times.total.add(&self.total);
            times.cold.add(&self.cold);
            times
        }

        fn answer(&self, ns: u64) {
            self.total.record(ns);
        }

        fn answer_cold(&self, ns: u64) {
            self.total.record(ns);
            self.cold.record(ns);
        }

        fn turn(&self, recent: &mut Recent, now: Instant) {
            let requests = self.times().total.count();
            recent.turn(now, [("a", requests)].into_iter(), |_| self.times());
        }
    }

    #[test]
    fn what_is_older_than_the_oldest_mark_does_not_count() {
        let begun = Instant::now();
        let (mut recent, service) = (Recent::new(begun), Service::new());
        service.answer(1_000_000_000);
        assert_eq!(recent.window(begun + TURN), TURN);
        assert_eq!(recent.since("a", &service.times()).warm.count(), 1, "since the start, before there is a mark");
        for turn in 1..=MAX_MARKS as u32 + 1 {
            service.turn(&mut recent, begun + TURN * turn);
            service.answer(1_000);
        }
        let now = begun + TURN * (MAX_MARKS as u32 + 2);
        assert_eq!(recent.window(now), TURN * MAX_MARKS as u32);
        let times = recent.since("a", &service.times());
        assert_eq!((times.warm.count(), times.warm.sum_ns()), (MAX_MARKS as u64, 1_000 * MAX_MARKS as u64));
        assert_eq!(recent.since("b", &Times::default()).warm.count(), 0);
    }

    #[test]
    fn starts_are_apart() {
        let begun = Instant::now();
        let (mut recent, service) = (Recent::new(begun), Service::new());
        service.answer_cold(1 << 40);
        service.turn(&mut recent, begun + TURN);
        service.answer_cold(1 << 30);
        service.answer(1 << 20);
        let times = recent.since("a", &service.times());
        assert_eq!((times.warm.count(), times.cold.count()), (1, 1));
        assert_eq!((times.warm.sum_ns(), times.cold.sum_ns()), (1 << 20, 1 << 30));
        assert!(times.warm.quantile_ns(990) < Some(2 << 20));
    }

    #[test]
    fn one_that_answers_nothing_is_recorded_once() {
        let begun = Instant::now();
        let (mut recent, service) = (Recent::new(begun), Service::new());
        service.answer(1);
        service.turn(&mut recent, begun);
        service.turn(&mut recent, begun + TURN);
        let [one, other] = [0, 1].map(|mark: usize| &recent.marks[mark].services["a"]);
        assert!(Arc::ptr_eq(one, other));
        assert_eq!(recent.made(), 2);
    }
}
