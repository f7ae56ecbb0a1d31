//! Where the time of a request goes: one clock reading at the end of each layer, each interval counted to exactly one
//! layer.
//!
//! ```text
//!  first byte   head   route   cache    instance    head of the response    last byte taken    written
//!     │ parse    │route │ cache │ queue, start │      service       │       body        │  write │
//!     ▼          ▼      ▼       ▼              ▼                    ▼                   ▼        ▼
//! ```
//!
//! Invariant: the layers add up to the total, to the nanosecond, whatever the order of the phases.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Add;
use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};
use pilotlight_balance::Ms;
use pilotlight_cache::Timestamp;
use pilotlight_supervisor::StartPhases;

/// A moment of the monotonic clock, in nanoseconds. `Instant` is the same and costs twice as much to read and to
/// subtract, for clocks that go back and times that do not fit; that is seen in the price of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now() -> Self {
        // Through the system's library, as Instant: rustix has its own way to the kernel's clock, which valgrind does
        // not survive. Every system has this clock. Since the boot of the machine: neither part is negative, and 584
        // years fit.
        clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Self(0), |time| {
            Self((time.tv_sec() as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec() as u64))
        })
    }

    /// What [`as_ns`](Self::as_ns) gave.
    pub(crate) fn of_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since some moment before the machine's boot was over.
    pub(crate) fn as_ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds, 0 if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(nanos(time)))
    }
}

/// The same for those who choose servers.
pub(crate) fn millis(moment: Moment) -> Ms {
    Ms(moment.as_ns() / 1_000_000)
}

/// Nanoseconds, as people are told them.
pub(crate) fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// A part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// From the first byte of the head to its last, and reading it.
    Parse,
    /// Finding the route.
    Route,
    /// Looking into the cache, and waiting for another request that asks for the same. All of a hit that is answered
    /// from its head alone.
    Cache,
    /// Waiting for an instance to be free, or for its start to begin.
    Queue,
    /// Waiting for an instance to become ready.
    Start,
    /// From there to the head of its response; the request's body is sent in this time.
    Service,
    /// From there to the response's last byte, at the client's pace.
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

/// Phases of one request that are marked; those beyond it are only counted.
const MAX_MARKS: usize = 64;

/// A phase, from when to when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) name: &'static str,
    pub(crate) from: Moment,
    pub(crate) to: Moment,
}

/// The phases of one request.
#[derive(Debug)]
pub(crate) struct Timeline {
    begun: Moment,
    last: Cell<Moment>,
    spent_ns: [Cell<u64>; Layer::ALL.len()],
    /// What the request waited for while an instance was started for it.
    start: Cell<Option<StartPhases>>,
    /// Each phase by itself, of requests that are traced.
    marks: OnceCell<Box<RefCell<Vec<Mark>>>>,
}

impl Timeline {
    pub(crate) fn new(begun: Moment) -> Self {
        Self {
            begun,
            last: Cell::new(begun),
            spent_ns: Default::default(),
            start: Cell::new(None),
            marks: OnceCell::new(),
        }
    }

    /// Marks each phase from now on.
    pub(crate) fn mark_phases(&self) {
        self.marks.get_or_init(Box::default);
    }

    /// The phases that were marked, in their order.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.marks.get().map(|marks| marks.borrow().clone()).unwrap_or_default()
    }

    /// Counts the time since the last phase ended to a layer.
    pub(crate) fn end_phase(&self, layer: Layer, now: Moment) {
        self.end_named(layer, layer.name(), now);
    }

    /// The same, marked by another name.
    pub(crate) fn end_named(&self, layer: Layer, name: &'static str, now: Moment) {
        let last = self.last.get();
        self.add(layer, now.since(last));
        self.last.set(last.max(now));
        if self.marks.get().is_some() {
            self.mark(name, last, now);
        }
    }

    #[cold]
    fn mark(&self, name: &'static str, from: Moment, to: Moment) {
        let Some(marks) = self.marks.get() else { return };
        let mut marks = marks.borrow_mut();
        if to > from && marks.len() < MAX_MARKS {
            marks.push(Mark { name, from, to });
        }
    }

    /// Counts the time since the last phase ended to a start, of which `phases` are the parts.
    pub(crate) fn end_start(&self, phases: StartPhases) {
        let mut from = self.last.get();
        self.last.set(from + phases.total());
        if self.marks.get().is_some() {
            let StartPhases { queue, spawn, connect, ready } = phases;
            for (name, time) in [("queue", queue), ("spawn", spawn), ("connect", connect), ("ready", ready)] {
                self.mark(name, from, from + time);
                from = from + time;
            }
        }
        self.add(Layer::Queue, nanos(phases.queue));
        self.add(Layer::Start, nanos(phases.total() - phases.queue));
        let mut all = self.start.get().unwrap_or_default(); // a second try may start a second instance
        all.queue += phases.queue;
        all.spawn += phases.spawn;
        all.connect += phases.connect;
        all.ready += phases.ready;
        self.start.set(Some(all));
    }

    /// When the last phase ended.
    pub(crate) fn last(&self) -> Moment {
        self.last.get()
    }

    pub(crate) fn spent_ns(&self, layer: Layer) -> u64 {
        self.spent_ns[layer as usize].get()
    }

    /// Until the end of the last phase.
    pub(crate) fn total_ns(&self) -> u64 {
        self.last.get().since(self.begun)
    }

    pub(crate) fn begun(&self) -> Moment {
        self.begun
    }

    /// The phases of the start that the request waited for.
    pub(crate) fn start(&self) -> Option<StartPhases> {
        self.start.get()
    }

    fn add(&self, layer: Layer, spent_ns: u64) {
        let cell = &self.spent_ns[layer as usize];
        cell.set(cell.get() + spent_ns);
    }
}

/// Nanoseconds; 584 years fit.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How long a worker's idea of the time of day is used before it asks again.
const ANCHOR_NS: u64 = 500_000_000;

/// The time of day of moments that were read from the monotonic clock, so that one reading serves both. A step of the
/// system's clock is followed within half a second.
#[derive(Debug)]
pub(crate) struct Clock {
    anchor: Cell<(Moment, Timestamp)>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { anchor: Cell::new(Self::read()) }
    }

    fn read() -> (Moment, Timestamp) {
        (Moment::now(), Timestamp::from_system(SystemTime::now()))
    }

    pub(crate) fn timestamp(&self, at: Moment) -> Timestamp {
        let (anchor, time) = self.anchor.get();
        let since_ns = at.since(anchor); // 0 just before the anchor was set
        if since_ns < ANCHOR_NS {
            return Timestamp(time.0 + since_ns / 1_000_000);
        }
        let (now, time) = Self::read();
        self.anchor.set((now, time));
        Timestamp(time.0.saturating_sub(now.since(at) / 1_000_000))
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
        let begun = Moment::now();
        let earlier = Moment(begun.0 - 1_000_000);
        let timeline = Timeline::new(begun);
        timeline.end_phase(Layer::Parse, begun);
        timeline.end_phase(Layer::Route, earlier);
        assert_eq!((sum(&timeline), timeline.total_ns()), (0, 0));
        timeline.end_phase(Layer::Service, begun + Duration::from_millis(2));
        assert_eq!((sum(&timeline), timeline.total_ns()), (2_000_000, 2_000_000));
    }

    #[test]
    fn the_time_of_day_follows() {
        let clock = Clock::new();
        let now = || Timestamp::from_system(SystemTime::now());
        assert!(clock.timestamp(Moment::now()).0.abs_diff(now().0) < 100);
        let long_ago = Moment(Moment::now().0.saturating_sub(9_000_000_000));
        clock.anchor.set((long_ago, Timestamp(0))); // the clock was set
        assert!(clock.timestamp(Moment::now()).0.abs_diff(now().0) < 100);
    }

    #[test]
    fn what_is_marked_follows_each_other() {
        let begun = Moment::now();
        let timeline = Timeline::new(begun);
        let at = |ms| begun + Duration::from_millis(ms);
        timeline.end_phase(Layer::Parse, at(1));
        assert!(timeline.marks().is_empty());
        timeline.mark_phases();
        timeline.end_named(Layer::Cache, "redis", at(2));
        let ms = Duration::from_millis;
        timeline.end_start(StartPhases { queue: ms(0), spawn: ms(2), connect: ms(3), ready: ms(4) });
        timeline.end_phase(Layer::Write, at(20));
        let marks: Vec<_> =
            timeline.marks().iter().map(|mark| (mark.name, mark.from.since(begun), mark.to.since(begun))).collect();
        let expected = [("redis", 1, 2), ("spawn", 2, 4), ("connect", 4, 7), ("ready", 7, 11), ("write", 11, 20)];
        assert_eq!(marks, expected.map(|(name, from, to)| (name, from * 1_000_000, to * 1_000_000)));
        (0..200).for_each(|ms| timeline.end_phase(Layer::Body, at(21 + ms)));
        assert_eq!(timeline.marks().len(), MAX_MARKS);
    }

    proptest! {
        #[test]
        fn the_layers_are_the_total(phases in prop::collection::vec((0_usize..8, any::<u32>(), any::<[u32; 4]>(), any::<bool>()), 0..20)) {
            let timeline = Timeline::new(Moment::now());
            for (layer, ns, phases, starts) in phases {
                if starts {
                    let [queue, spawn, connect, ready] = phases.map(|ns| Duration::from_nanos(u64::from(ns)));
                    timeline.end_start(StartPhases { queue, spawn, connect, ready });
                } else {
                    timeline.end_phase(Layer::ALL[layer], timeline.last() + Duration::from_nanos(u64::from(ns)));
                }
            }
            prop_assert_eq!(sum(&timeline), timeline.total_ns());
        }
    }
}
