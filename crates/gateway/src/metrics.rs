//! Counters and histograms: written by the workers without sharing, merged by whoever reads.
//!
//! Each worker has a [`Book`] for each series, in memory of its own. A number in it is an atomic only so that others
//! may read it: it has one writer, which loads, adds and stores (three plain instructions, no locked one). A series is
//! a configured route and its service, so no client can make one.
//!
//! Invariant: a number of a book is only written by the worker that the book belongs to, and never becomes smaller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pilotlight_cache::{Timestamp, Unstored};
use pilotlight_supervisor::StartPhases;
use pilotlight_traces::TraceContext;

use crate::admission::refusal::Refused;
use crate::timing::{Layer, Timeline, nanos};

mod counter;
mod exemplar;
mod histogram;
pub(crate) mod recent;
pub(crate) mod sums;
mod upgrades;

pub(crate) use counter::Counter;
pub(crate) use exemplar::Exemplar;
pub(crate) use histogram::{Distribution, Histogram, Step};
pub(crate) use pilotlight_exchange::Verdict;
pub(crate) use upgrades::{Upgraded, Upgrades};

/// Classes of statuses; the first is for requests whose client went before there was a response.
pub(crate) const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The phases of a start.
pub(crate) const PHASES: [&str; 4] = ["queue", "spawn", "connect", "ready"];

/// A request that is over.
#[derive(Debug)]
pub(crate) struct FinishedRequest<'a> {
    /// 0: there was no response.
    pub(crate) status: u16,
    pub(crate) verdict: Verdict,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) timeline: &'a Timeline,
}

/// One worker's numbers of one series.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Book {
    answers: [[Counter; Verdict::ALL.len()]; CLASSES.len()],
    begun: Counter,
    ended: Counter,
    received_bytes: Counter,
    sent_bytes: Counter,
    /// Hits that were answered from their heads alone: their total is their time in the cache's layer.
    hits: Histogram,
    total: Histogram,
    /// The part of `total` that waited for a start.
    cold: Histogram,
    layers: [Histogram; Layer::ALL.len()],
    phases: [Histogram; PHASES.len()],
    unstored: [Counter; Unstored::ALL.len()],
    refused: [Counter; Refused::ALL.len()],
}

impl Book {
    /// A hit, in memory or in Redis, whose time is told by [`Book::hits_took`].
    pub(crate) fn hit(&self, verdict: Verdict, status: u16, sent_bytes: u64) {
        self.answers[class(status)][verdict as usize].add(1);
        self.sent_bytes.add(sent_bytes);
    }

    /// So many hits took so long together, whole.
    pub(crate) fn hits_took(&self, hits: u64, took_ns: u64) {
        self.hits.record_all(hits, took_ns);
    }

    /// A hit whose time was told by [`Book::hits_took`], alone, is sampled.
    pub(crate) fn hit_sampled(&self, context: &TraceContext, begun: Timestamp, took_ns: u64) {
        let at = Timestamp(begun.0 + took_ns / 1_000_000);
        self.hits.exemplify(&Exemplar::of(context, took_ns, at));
    }

    /// A request whose end will be told by [`Book::ended`].
    pub(crate) fn begun(&self) {
        self.begun.add(1);
    }

    pub(crate) fn ended(&self, outcome: &FinishedRequest<'_>) {
        let FinishedRequest { status, verdict, received_bytes, sent_bytes, timeline } = outcome;
        self.ended.add(1);
        self.received_bytes.add(*received_bytes);
        self.sent_bytes.add(*sent_bytes);
        self.times(timeline, Histogram::record);
        // Whoever sees that it was counted sees its times as well.
        self.answers[class(*status)][*verdict as usize].add_last();
    }

    /// A request that was told to [`Book::ended`] is sampled.
    pub(crate) fn sampled(&self, timeline: &Timeline, context: &TraceContext, begun: Timestamp) {
        let at = Timestamp(begun.0 + timeline.total_ns() / 1_000_000);
        self.times(timeline, |histogram, ns| histogram.exemplify(&Exemplar::of(context, ns, at)));
    }

    /// Each time of a request, with its histogram.
    fn times(&self, timeline: &Timeline, tell: impl Fn(&Histogram, u64)) {
        tell(&self.total, timeline.total_ns());
        for layer in Layer::ALL {
            let spent = timeline.spent_ns(layer);
            if spent > 0 {
                tell(&self.layers[layer as usize], spent);
            }
        }
        if let Some(StartPhases { queue, spawn, connect, ready }) = timeline.start() {
            self.cold.record(timeline.total_ns());
            for (histogram, phase) in self.phases.iter().zip([queue, spawn, connect, ready]) {
                tell(histogram, nanos(phase));
            }
        }
    }

    /// A response without a request that could be read.
    pub(crate) fn rejected(&self, status: u16) {
        self.answers[class(status)][Verdict::Off as usize].add(1);
    }

    /// A request that was not let in.
    pub(crate) fn refused(&self, why: Refused) {
        self.refused[why as usize].add(1);
    }

    pub(crate) fn unstored(&self, why: Unstored) {
        self.unstored[why as usize].add(1);
    }
}

fn class(status: u16) -> usize {
    usize::from(status / 100).min(CLASSES.len() - 1)
}

/// A configured route and its service.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) route: Box<str>,
    pub(crate) service: Box<str>,
    /// Each worker's, made with its first request: a route without requests costs next to nothing.
    books: Box<[OnceLock<Box<Book>>]>,
}

impl Series {
    fn new(route: &str, service: &str, workers: usize) -> Self {
        Self { route: route.into(), service: service.into(), books: (0..workers).map(|_| OnceLock::new()).collect() }
    }

    /// A worker's numbers. Only that worker may write to them.
    pub(crate) fn book(&self, worker: usize) -> &Book {
        // A worker that does not exist shares the last one's: there are as many books as workers.
        self.books[worker.min(self.books.len() - 1)].get_or_init(Box::default)
    }

    fn all(&self) -> impl Iterator<Item = &Book> {
        self.books.iter().filter_map(|book| book.get().map(|book| &**book))
    }
}

/// What is counted for each worker, whatever the route.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Connections {
    pub(crate) accepted: Counter,
    pub(crate) closed: Counter,
    /// Handshakes of TLS.
    pub(crate) full_handshakes: Counter,
    pub(crate) resumed_handshakes: Counter,
    pub(crate) failed_handshakes: Counter,
    /// Connections that speak HTTP/2, and the requests on them.
    pub(crate) http2: Counter,
    pub(crate) http2_requests: Counter,
    pub(crate) upgrades: Upgrades,
}

/// Route and service.
type Name = (Box<str>, Box<str>);

/// All series. It outlives changes of the routes: a route that comes back goes on counting.
#[derive(Debug)]
pub(crate) struct Registry {
    series: Mutex<BTreeMap<Name, Arc<Series>>>,
    /// For requests without a route.
    pub(crate) none: Arc<Series>,
    pub(crate) connections: Box<[Connections]>,
}

impl Registry {
    pub(crate) fn new(workers: usize) -> Self {
        let none = Arc::new(Series::new("none", "none", workers));
        let connections = (0..workers).map(|_| Connections::default()).collect();
        Self { series: Mutex::default(), none, connections }
    }

    /// The series of a route, made if need be.
    pub(crate) fn series(&self, route: &str, service: &str) -> Arc<Series> {
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(Series::new(route, service, self.connections.len()));
        Arc::clone(all.entry((route.into(), service.into())).or_insert_with(made))
    }

    /// Every series, that without a route first.
    pub(crate) fn all(&self) -> Vec<Arc<Series>> {
        let all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.none).chain(all.values()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::sums::Sums;
    use super::*;
    use crate::timing::Moment;

    #[test]
    fn books_of_workers_are_merged_and_layers_add_up() {
        let registry = Registry::new(2);
        let series = registry.series("/a", "a");
        assert!(Arc::ptr_eq(&series, &registry.series("/a", "a")));
        for worker in 0..2 {
            let book = series.book(worker);
            book.hit(Verdict::Hit, 200, 10);
            book.hits_took(1, 5_000);
            let begun = Moment::now();
            let timeline = Timeline::new(begun);
            timeline.end_phase(Layer::Cache, begun + Duration::from_micros(1));
            timeline.end_phase(Layer::Service, begun + Duration::from_millis(20));
            timeline.end_phase(Layer::Write, begun + Duration::from_millis(21));
            book.begun();
            let verdict = Verdict::Miss;
            book.ended(&FinishedRequest {
                status: 503,
                verdict,
                received_bytes: 1,
                sent_bytes: 2,
                timeline: &timeline,
            });
            book.begun();
        }
        let sums = Sums::of(&series);
        assert_eq!((sums.requests(), sums.in_flight(), sums.with_verdict(Verdict::Hit)), (4, 2, 2));
        assert_eq!((sums.sent_bytes, sums.received_bytes), (24, 2));
        assert_eq!(sums.times.total.count(), 4);
        let layers: u64 = sums.layers.iter().map(|layer| layer.sum_ns()).sum();
        assert_eq!(layers, sums.times.total.sum_ns());
        assert_eq!(sums.layers[Layer::Start as usize].count(), 0);
    }

    #[test]
    fn the_times_of_what_is_counted_are_there() {
        let series = Series::new("/a", "a", 1);
        let begun = Moment::now();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..200_000 {
                    let (status, verdict, received_bytes, sent_bytes) = (200, Verdict::Off, 1, 2);
                    let outcome = FinishedRequest {
                        status,
                        verdict,
                        received_bytes,
                        sent_bytes,
                        timeline: &Timeline::new(begun),
                    };
                    series.book(0).ended(&outcome);
                }
            });
            while !writer.is_finished() {
                let sums = Sums::of(&series);
                assert!(
                    sums.times.total.count() >= sums.requests(),
                    "{} of {}",
                    sums.times.total.count(),
                    sums.requests()
                );
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn statuses_have_classes() {
        for (status, expected) in [(0, "none"), (101, "1xx"), (204, "2xx"), (304, "3xx"), (499, "4xx"), (999, "5xx")] {
            assert_eq!(CLASSES[class(status)], expected);
        }
    }
}
