//! How many instances a service should have.
//!
//! ```text
//!  needed   = the instances that requests in progress and waiting fill at `concurrency` each
//!  floor    = min_instances, or the spare: kept when nothing is asked for
//!  target   = needed + spare, between floor and max_instances
//!  up:   at once from nothing, and for the spare; otherwise when the oldest request has waited for `up_after`
//!  down: when over a whole `down_after` fewer would have been enough
//! ```
//! Instances that are still starting count as there, so one need is never answered with two starts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Looks at the load in one `down_after`.
const LOOKS: u32 = 10;

/// The settings of a service that decide how many instances it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Instances that are always there.
    pub(crate) min: u32,
    /// Most instances that take requests.
    pub(crate) max: u32,
    /// Instances beyond those that are needed.
    pub(crate) spare: u32,
    /// Requests of one instance at once; `None`: no limit, and so never a need for a second instance.
    pub(crate) concurrency: Option<u32>,
    /// How long a request waits before another instance is started.
    pub(crate) up_after: Duration,
    /// How long fewer must have been enough.
    pub(crate) down_after: Duration,
}

/// The instances of a service and what is asked of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Instances that take requests.
    pub(crate) ready: u32,
    /// Instances that will.
    pub(crate) starting: u32,
    /// Requests in progress at the ready ones.
    pub(crate) in_use: u64,
    /// Requests that wait.
    pub(crate) waiting: u64,
    /// Since when the one that waits the longest does.
    pub(crate) oldest: Option<Instant>,
}

/// What to do about the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Instances to start.
    pub(crate) start: u32,
    /// When to decide again, if nothing else happens before.
    pub(crate) look_at: Option<Instant>,
}

impl Scale {
    /// Instances that are kept without a request.
    pub(crate) fn floor(&self) -> u32 {
        self.min.max(self.spare).min(self.max)
    }

    /// Whether more are to be started.
    pub(crate) fn growth(&self, load: &Load, now: Instant) -> Growth {
        let have = load.ready + load.starting;
        let due = load.oldest.map(|oldest| oldest + self.up_after);
        let pressed = due.is_some_and(|due| due <= now);
        let first = u32::from(load.waiting > 0);
        let demand = if pressed { load.in_use + load.waiting } else { load.in_use };
        let target = self.within(self.filled(demand).max(first).saturating_add(self.spare));
        // Those who wait now may be enough for one more later, or may be all served by then.
        let look_at = due.filter(|_| load.waiting > 0 && have.max(target) < self.max);
        let look_at = look_at.map(|due| if pressed { now + self.pause() } else { due });
        Growth { start: target.saturating_sub(have), look_at }
    }

    /// How many of the ready ones are not needed, if no more than `peak` requests were in progress at once.
    pub(crate) fn surplus(&self, ready: u32, peak: u64) -> u32 {
        let keep = self.within(self.filled(peak).saturating_add(self.spare)).max(1);
        ready.saturating_sub(keep)
    }

    fn within(&self, count: u32) -> u32 {
        count.max(self.floor()).min(self.max)
    }

    /// How many instances this number of requests fills.
    fn filled(&self, requests: u64) -> u32 {
        match self.concurrency {
            Some(each) => u32::try_from(requests.div_ceil(u64::from(each.max(1)))).unwrap_or(u32::MAX),
            None => u32::from(requests > 0),
        }
    }

    /// Between two decisions about the same queue.
    fn pause(&self) -> Duration {
        self.up_after.max(Duration::from_millis(10))
    }

    /// Between two looks at the load.
    pub(crate) fn look_every(&self) -> Duration {
        self.down_after / LOOKS
    }
}

/// The load of the last `down_after`, as the highest number of requests at once between two looks.
#[derive(Debug, Default)]
pub(crate) struct Window {
    peaks: VecDeque<u64>,
    next: Option<Instant>,
}

impl Window {
    /// Begins anew: what was seen with other instances says nothing about these.
    pub(crate) fn reset(&mut self) {
        self.peaks.clear();
        self.next = None;
    }

    /// Whether it is time for a look.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// When it is.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Notes the peak since the last look; the peak of the whole time once it is over.
    pub(crate) fn note(&mut self, scale: &Scale, peak: u64, now: Instant) -> Option<u64> {
        let first = self.next.is_none();
        self.next = Some(now + scale.look_every());
        if first {
            return None; // what came before is of another time
        }
        if self.peaks.len() == LOOKS as usize {
            self.peaks.pop_front();
        }
        self.peaks.push_back(peak);
        if self.peaks.len() == LOOKS as usize { self.peaks.iter().copied().max() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const SCALE: Scale = Scale {
        min: 0,
        max: 4,
        spare: 0,
        concurrency: Some(10),
        up_after: Duration::from_millis(100),
        down_after: Duration::from_secs(60),
    };

    /// `waited_ms`: of the oldest request. Gives the starts and the time of the next look.
    #[track_caller]
    fn check(
        scale: &Scale,
        ready: u32,
        starting: u32,
        in_use: u64,
        waiting: u64,
        waited_ms: u32,
        expected: (u32, Option<u32>),
    ) {
        let start = Instant::now();
        let now = start + waited_ms * MS;
        let load = Load { ready, starting, in_use, waiting, oldest: (waiting > 0).then_some(start) };
        let growth = scale.growth(&load, now);
        assert_eq!(growth, Growth { start: expected.0, look_at: expected.1.map(|ms| start + ms * MS) });
    }

    #[test]
    fn growth() {
        check(&SCALE, 0, 0, 0, 0, 0, (0, None));
        check(&SCALE, 0, 0, 0, 1, 0, (1, Some(100)));
        check(&SCALE, 0, 0, 0, 1000, 0, (1, Some(100)));
        check(&SCALE, 0, 1, 0, 1000, 50, (0, Some(100)));
        check(&SCALE, 0, 1, 0, 1000, 100, (3, None));
        check(&SCALE, 0, 4, 0, 1000, 200, (0, None));
        check(&SCALE, 0, 1, 0, 10, 200, (0, Some(300))); // the one that starts will do
        check(&SCALE, 1, 0, 10, 1, 99, (0, Some(100)));
        check(&SCALE, 1, 0, 10, 1, 100, (1, Some(200)));
        check(&SCALE, 1, 1, 10, 10, 500, (0, Some(600)));
        check(&SCALE, 1, 1, 10, 11, 500, (1, Some(600)));
        check(&SCALE, 4, 0, 40, 500, 9000, (0, None));
        let one = Scale { max: 1, concurrency: None, ..SCALE };
        check(&one, 0, 0, 0, 1000, 0, (1, None));
        check(&one, 0, 1, 0, 1000, 5000, (0, None));
        let spare = Scale { spare: 1, ..SCALE };
        check(&spare, 0, 0, 0, 0, 0, (1, None));
        check(&spare, 1, 0, 0, 0, 0, (0, None));
        check(&spare, 1, 0, 1, 0, 0, (1, None));
        check(&spare, 2, 0, 11, 0, 0, (1, None));
        check(&spare, 4, 0, 40, 0, 0, (0, None));
        check(&Scale { min: 1, ..SCALE }, 0, 0, 0, 0, 0, (1, None));
        check(&Scale { spare: 1, max: 1, concurrency: None, ..SCALE }, 0, 0, 0, 0, 0, (1, None));
    }

    #[test]
    fn surplus() {
        let spare = Scale { spare: 1, ..SCALE };
        for (scale, ready, peak, expected) in [
            (&SCALE, 4, 0, 3),
            (&SCALE, 4, 11, 2),
            (&SCALE, 4, 40, 0),
            (&SCALE, 1, 0, 0),
            (&spare, 4, 10, 2),
            (&spare, 2, 0, 1),
        ] {
            assert_eq!(scale.surplus(ready, peak), expected, "{ready} with {peak}");
        }
    }

    #[test]
    fn only_a_whole_quiet_window_counts() {
        let (mut window, start, step) = (Window::default(), Instant::now(), SCALE.look_every());
        assert_eq!(window.note(&SCALE, 40, start), None);
        for look in 1..10 {
            assert!(!window.is_due(start + step * look - MS));
            assert!(window.is_due(start + step * look));
            assert_eq!(window.note(&SCALE, u64::from(look == 1) * 25, start + step * look), None);
        }
        assert_eq!(window.note(&SCALE, 0, start + step * 10), Some(25));
        assert_eq!(window.note(&SCALE, 0, start + step * 11), Some(0));
        window.reset();
        assert_eq!(window.note(&SCALE, 0, start + step * 12), None);
    }

    fn any_scale() -> impl Strategy<Value = Scale> {
        (0..=1u32, 1..=8u32, 0..=1u32, prop::option::of(1..=100u32), 0..=1000u32, 1..=1000u32).prop_map(
            |(min, max, spare, concurrency, up, down)| Scale {
                min,
                max: if concurrency.is_some() { max } else { 1 },
                spare,
                concurrency,
                up_after: up * MS,
                down_after: down * MS,
            },
        )
    }

    proptest! {
        #[test]
        fn never_too_many_never_none(
            scale in any_scale(), ready in 0..9u32, starting in 0..9u32, in_use in 0..900u64, waiting in 0..2000u64, waited in 0..2000u32,
        ) {
            let start = Instant::now();
            let now = start + waited * MS;
            let load = Load { ready, starting, in_use, waiting, oldest: (waiting > 0).then_some(start) };
            let growth = scale.growth(&load, now);
            let have = ready + starting;
            prop_assert!(growth.start == 0 || have + growth.start <= scale.max);
            // What was started is there at the next decision, which then starts nothing more.
            let after = Load { starting: starting + growth.start, ..load };
            prop_assert_eq!(scale.growth(&after, now).start, 0);
            // Who waits has an instance to come, or the decision is taken again.
            prop_assert!(waiting == 0 || have + growth.start > 0);
            prop_assert!(growth.look_at.is_none_or(|at| at > now));
            let stuck = waiting > 0 && have + growth.start < scale.max && growth.look_at.is_none();
            prop_assert!(!stuck, "nobody will look at the queue again");
        }

        #[test]
        fn what_is_retired_is_not_started_again(scale in any_scale(), ready in 1..9u32, peak in 0..900u64) {
            let surplus = scale.surplus(ready, peak);
            prop_assert!(surplus < ready);
            let load = Load { ready: ready - surplus, in_use: peak, ..Load::default() };
            prop_assert!(surplus == 0 || scale.growth(&load, Instant::now()).start == 0);
        }
    }
}
