//! Where the time of a request goes: one clock reading at the end of each layer, each interval counted to exactly one layer.
//!
//! ```text
//!  first byte   head   route   cache    instance    head of the answer    last byte taken    written
//!     │ parse    │route │ cache │ queue, start │      service       │       body        │  write │
//!     ▼          ▼      ▼       ▼              ▼                    ▼                   ▼        ▼
//! ```
//!
//! Invariant: the layers add up to the total, to the nanosecond, whatever the order of the laps.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

use pilotlight_cache::Timestamp;
use pilotlight_supervisor::StartPhases;

/// A part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// From the first byte of the head to its last, and reading it.
    Parse,
    /// Finding the route.
    Route,
    /// Looking into the cache, and waiting for another request that asks for the same. All of a hit that is answered before
    /// hyper sees it.
    Cache,
    /// Waiting for an instance to be free, or for its start to begin.
    Queue,
    /// Waiting for an instance to become ready.
    Start,
    /// From there to the head of its answer; the request's body is sent in this time.
    Service,
    /// From there to the answer's last byte, at the client's pace.
    Body,
    /// Until the client's socket has taken everything.
    Write,
}

impl Layer {
    pub(crate) const ALL: [Self; 8] =
        [Self::Parse, Self::Route, Self::Cache, Self::Queue, Self::Start, Self::Service, Self::Body, Self::Write];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Route => "route",
            Self::Cache => "cache",
            Self::Queue => "queue",
            Self::Start => "start",
            Self::Service => "service",
            Self::Body => "body",
            Self::Write => "write",
        }
    }
}

/// The laps of one request.
#[derive(Debug)]
pub(crate) struct Timeline {
    begun: Instant,
    last: Cell<Instant>,
    spent_ns: [Cell<u64>; Layer::ALL.len()],
    /// What the request waited for while an instance was started for it.
    start: Cell<Option<StartPhases>>,
}

impl Timeline {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, last: Cell::new(begun), spent_ns: Default::default(), start: Cell::new(None) }
    }

    /// Counts the time since the last lap to a layer.
    pub(crate) fn lap(&self, layer: Layer, now: Instant) {
        let spent = now.saturating_duration_since(self.last.get());
        self.last.set(self.last.get() + spent);
        self.add(layer, spent);
    }

    /// Counts the time since the last lap to a start, of which `phases` are the parts.
    pub(crate) fn lap_start(&self, phases: StartPhases) {
        self.last.set(self.last.get() + phases.total());
        self.add(Layer::Queue, phases.queue);
        self.add(Layer::Start, phases.total() - phases.queue);
        let mut all = self.start.get().unwrap_or_default(); // a second try may start a second instance
        all.queue += phases.queue;
        all.spawn += phases.spawn;
        all.connect += phases.connect;
        all.ready += phases.ready;
        self.start.set(Some(all));
    }

    /// When the last lap ended.
    pub(crate) fn last(&self) -> Instant {
        self.last.get()
    }

    pub(crate) fn spent_ns(&self, layer: Layer) -> u64 {
        self.spent_ns[layer as usize].get()
    }

    /// Until the last lap.
    pub(crate) fn total_ns(&self) -> u64 {
        nanos(self.last.get() - self.begun)
    }

    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// The phases of the start that the request waited for.
    pub(crate) fn start(&self) -> Option<StartPhases> {
        self.start.get()
    }

    fn add(&self, layer: Layer, spent: Duration) {
        let cell = &self.spent_ns[layer as usize];
        cell.set(cell.get() + nanos(spent));
    }
}

/// Nanoseconds; 584 years fit.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How long a worker's idea of the time of day is used before it asks again.
const ANCHOR_TIME: Duration = Duration::from_millis(500);

/// The time of day of moments that were read from the monotonic clock, so that one reading serves both. A step of the system's
/// clock is followed within half a second.
#[derive(Debug)]
pub(crate) struct Clock {
    anchor: Cell<(Instant, SystemTime)>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { anchor: Cell::new((Instant::now(), SystemTime::now())) }
    }

    pub(crate) fn time_of_day(&self, at: Instant) -> SystemTime {
        let (anchor, wall) = self.anchor.get();
        match at.checked_duration_since(anchor) {
            Some(since) if since < ANCHOR_TIME => wall + since,
            None => wall, // just before the anchor was set
            Some(_) => {
                let (now, wall) = (Instant::now(), SystemTime::now());
                self.anchor.set((now, wall));
                wall - now.saturating_duration_since(at)
            }
        }
    }

    pub(crate) fn timestamp(&self, at: Instant) -> Timestamp {
        Timestamp::from_system(self.time_of_day(at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(timeline: &Timeline) -> u64 {
        Layer::ALL.iter().map(|layer| timeline.spent_ns(*layer)).sum()
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_adds_nothing() {
        let begun = Instant::now() + Duration::from_secs(1);
        let timeline = Timeline::new(begun);
        timeline.lap(Layer::Parse, begun);
        timeline.lap(Layer::Route, begun - Duration::from_millis(1));
        assert_eq!((sum(&timeline), timeline.total_ns()), (0, 0));
        timeline.lap(Layer::Service, begun + Duration::from_millis(2));
        assert_eq!((sum(&timeline), timeline.total_ns()), (2_000_000, 2_000_000));
    }

    #[test]
    fn the_time_of_day_follows() {
        let clock = Clock::new();
        let near = |a: SystemTime, b: SystemTime| {
            a.duration_since(b).or_else(|e| Ok::<_, ()>(e.duration())).unwrap() < Duration::from_millis(100)
        };
        assert!(near(clock.time_of_day(Instant::now()), SystemTime::now()));
        clock.anchor.set((Instant::now() - Duration::from_secs(9), SystemTime::UNIX_EPOCH)); // the clock was set
        assert!(near(clock.time_of_day(Instant::now()), SystemTime::now()));
    }

    proptest! {
        #[test]
        fn the_layers_are_the_total(laps in prop::collection::vec((0_usize..8, any::<u32>(), any::<[u32; 4]>(), any::<bool>()), 0..20)) {
            let timeline = Timeline::new(Instant::now());
            for (layer, ns, phases, starts) in laps {
                if starts {
                    let [queue, spawn, connect, ready] = phases.map(|ns| Duration::from_nanos(u64::from(ns)));
                    timeline.lap_start(StartPhases { queue, spawn, connect, ready });
                } else {
                    timeline.lap(Layer::ALL[layer], timeline.last() + Duration::from_nanos(u64::from(ns)));
                }
            }
            prop_assert_eq!(sum(&timeline), timeline.total_ns());
        }
    }
}
