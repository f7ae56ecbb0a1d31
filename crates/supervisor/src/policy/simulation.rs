//! A service in virtual time: the decisions of this folder, with instances that are numbers.

use super::backoff::InstanceEnd;
use super::circuit::Circuit;
use super::orders::{Situation, decide};
use super::recycle::{Reached, RecycleLimits};
use super::scale::{Load, Scale, Window};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(5);

/// How a simulated service behaves.
#[derive(Clone, Copy, Debug)]
struct Nature {
    start_ticks: u32,
    request_ticks: u32,
    /// The first so many starts fail.
    failing_starts: u32,
}

#[derive(Debug)]
struct Instance {
    id: u32,
    starts: Option<(u32, bool)>,
    ready_at: Option<Instant>,
    /// Ticks left of each request.
    open: Vec<u32>,
    begun: u64,
    peak: u64,
    draining: bool,
    replaces: Option<u32>,
    recycle_limits: RecycleLimits,
}

impl Instance {
    fn is_ready(&self) -> bool {
        self.ready_at.is_some() && !self.draining
    }
}

struct World {
    scale: Scale,
    recycle_limits: RecycleLimits,
    nature: Nature,
    circuit: Circuit,
    window: Window,
    instances: Vec<Instance>,
    waiting: VecDeque<Instant>,
    now: Instant,
    starts: u32,
    answered: u32,
    refused: u32,
    most_ready: usize,
    idle_timeout: Option<u32>,
    idle_ticks: u32,
}

impl World {
    fn new(scale: Scale, recycle_limits: RecycleLimits, nature: Nature, idle_timeout: Option<u32>) -> Self {
        Self {
            scale,
            recycle_limits,
            nature,
            circuit: Circuit::new(3),
            window: Window::default(),
            instances: Vec::new(),
            waiting: VecDeque::new(),
            now: Instant::now(),
            starts: 0,
            answered: 0,
            refused: 0,
            most_ready: 0,
            idle_timeout,
            idle_ticks: 0,
        }
    }

    /// One step: so many requests come, time passes, decisions are taken.
    fn tick(&mut self, arrivals: u32, random: u32) {
        self.waiting.extend((0..arrivals).map(|_| self.now));
        self.serve();
        self.review(random);
        self.now += TICK;
        let had_ready = self.instances.iter().any(Instance::is_ready);
        self.progress(random);
        self.serve();
        self.review(random);
        self.serve();
        let ready = self.instances.iter().filter(|one| one.is_ready()).count();
        self.most_ready = self.most_ready.max(ready);
        assert!(ready as u32 <= self.scale.max, "{ready} ready, at most {}", self.scale.max);
        let idle_stop = self.idle();
        assert!(!had_ready || ready > 0 || idle_stop, "none is ready any more");
        let members = self.instances.iter().filter(|one| !one.draining && one.replaces.is_none()).count();
        assert!(members as u32 <= self.scale.max, "{members} at once, at most {}", self.scale.max);
    }

    fn progress(&mut self, random: u32) {
        let mut replaced = Vec::new();
        for one in &mut self.instances {
            one.open.iter_mut().for_each(|left| *left = left.saturating_sub(1));
            let before = one.open.len();
            one.open.retain(|left| *left > 0);
            self.answered += (before - one.open.len()) as u32;
            let Some((left, fails)) = one.starts else { continue };
            one.starts = Some((left.saturating_sub(1), fails));
            if left > 1 {
                continue;
            }
            one.starts = None;
            if fails {
                one.draining = true;
                one.replaces = None;
                self.circuit.ended(InstanceEnd::NeverReady, self.now, random);
            } else {
                one.ready_at = Some(self.now);
                self.circuit.started();
                self.window.reset();
                replaced.extend(one.replaces.take());
            }
        }
        for one in self.instances.iter_mut().filter(|one| replaced.contains(&one.id)) {
            one.draining = true;
        }
        self.instances.retain(|one| !(one.draining && one.open.is_empty()));
        if self.circuit.is_open() && !self.instances.iter().any(|one| one.is_ready() || one.starts.is_some()) {
            self.refused += self.waiting.drain(..).count() as u32;
        }
    }

    fn serve(&mut self) {
        let limit = self.scale.concurrency.map_or(usize::MAX, |each| each as usize);
        while !self.waiting.is_empty() {
            let room = self.instances.iter_mut().filter(|one| one.is_ready() && one.open.len() < limit);
            let Some(one) = room.min_by_key(|one| one.open.len()) else { return };
            one.open.push(self.nature.request_ticks);
            one.begun += 1;
            one.peak = one.peak.max(one.open.len() as u64);
            self.waiting.pop_front();
        }
    }

    fn review(&mut self, random: u32) {
        let members = || self.instances.iter().filter(|one| !one.draining && one.replaces.is_none());
        let ready = members().filter(|one| one.is_ready());
        let load = Load {
            ready: ready.clone().count() as u32,
            starting: members().filter(|one| one.starts.is_some()).count() as u32,
            in_use: ready.clone().map(|one| one.open.len() as u64).sum(),
            waiting: self.waiting.len() as u64,
            oldest: self.waiting.front().copied(),
        };
        let replaceable = ready.clone().find(|one| {
            let reached =
                Reached { requests: one.begun, ready_at: one.ready_at.unwrap_or(self.now), memory: one.begun << 10 };
            one.recycle_limits.reached(&reached, self.now).is_some()
        });
        let replaceable = replaceable.map(|one| one.id);
        let replacing = self.instances.iter().any(|one| one.replaces.is_some());
        let situation = Situation {
            scale: &self.scale,
            circuit: &self.circuit,
            load,
            start_asked: false,
            replaceable: replaceable.is_some(),
            replacing,
        };
        let orders = decide(&situation, self.now);
        if orders.probe {
            self.circuit.probe();
        }
        if let Some(keep) = orders.keep.filter(|keep| *keep < self.waiting.len()) {
            self.refused += self.waiting.drain(keep..).count() as u32;
        }
        self.look_down(&load);
        for _ in 0..orders.start {
            self.start(None, random);
        }
        if orders.replace {
            self.start(replaceable, random);
        }
        // Whoever waits has something to wait for.
        let coming = self.instances.iter().any(|one| !one.draining) || orders.look_at.is_some();
        assert!(self.waiting.is_empty() || coming, "requests wait for ever");
    }

    fn start(&mut self, replaces: Option<u32>, random: u32) {
        self.starts += 1;
        self.window.reset();
        self.instances.push(Instance {
            id: self.starts,
            starts: Some((self.nature.start_ticks, self.starts <= self.nature.failing_starts)),
            ready_at: None,
            open: Vec::new(),
            begun: 0,
            peak: 0,
            draining: false,
            replaces,
            recycle_limits: self.recycle_limits.jittered(random),
        });
    }

    fn look_down(&mut self, load: &Load) {
        if load.ready <= self.scale.floor().max(1) || load.waiting > 0 {
            return self.window.reset();
        }
        if !self.window.is_due(self.now) {
            return;
        }
        let peak = self.instances.iter_mut().filter(|one| one.is_ready());
        let peak = peak.map(|one| std::mem::replace(&mut one.peak, one.open.len() as u64)).sum();
        let surplus =
            self.window.note(&self.scale, peak, self.now).map_or(0, |peak| self.scale.surplus(load.ready, peak));
        for _ in 0..surplus {
            let ready = self.instances.iter_mut().filter(|one| one.is_ready());
            let Some(one) = ready.min_by_key(|one| one.open.len()) else { return };
            one.draining = true;
            let retired = Some(one.id);
            // What was to take its place has a place now.
            self.instances.iter_mut().filter(|one| one.replaces == retired).for_each(|one| one.replaces = None);
        }
    }

    /// Stops all of them for idleness; whether it did.
    fn idle(&mut self) -> bool {
        let quiet = self.waiting.is_empty() && self.instances.iter().all(|one| one.open.is_empty());
        self.idle_ticks = if quiet { self.idle_ticks + 1 } else { 0 };
        let stop = self.scale.floor() == 0 && self.idle_timeout.is_some_and(|after| self.idle_ticks >= after);
        if stop {
            self.instances.retain(|one| one.starts.is_some());
            for one in &mut self.instances {
                one.replaces = None;
            }
        }
        stop
    }
}

fn any_scale() -> impl Strategy<Value = Scale> {
    (0..=1u32, 1..=6u32, 0..=1u32, prop::option::of(1..=20u32), 0..=40u32, 1..=100u32).prop_map(
        |(min, max, spare, concurrency, up, down)| Scale {
            min,
            max: if concurrency.is_some() { max } else { 1 },
            spare,
            concurrency,
            up_after: up * TICK,
            down_after: down * TICK,
        },
    )
}

fn any_recycle_limits() -> impl Strategy<Value = RecycleLimits> {
    let maybe = |range: std::ops::Range<u64>| prop::option::of(range);
    (maybe(1..200), maybe(10..400), maybe(1..200)).prop_map(|(requests, ticks, memory)| RecycleLimits {
        max_requests: requests,
        max_age: ticks.map(|ticks| TICK * ticks as u32),
        max_memory: memory.map(|requests| requests << 10),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the settings: every request of a service that works is answered, and never is an instance too many, or
    /// none left.
    #[test]
    fn whatever_the_settings_requests_are_answered(
        scale in any_scale(),
        recycle_limits in any_recycle_limits(),
        nature in (1..60u32, 1..20u32).prop_map(|(start_ticks, request_ticks)| Nature { start_ticks, request_ticks, failing_starts: 0 }),
        idle in prop::option::of(1..50u32),
        arrivals in prop::collection::vec(prop_oneof![6 => Just(0u32), 3 => 0..5u32, 1 => 0..300u32], 1..400),
        random in any::<u32>(),
    ) {
        let mut world = World::new(scale, recycle_limits, nature, idle);
        let mut asked = 0;
        for (index, count) in arrivals.iter().enumerate() {
            world.tick(*count, random.wrapping_mul(index as u32 + 1));
            asked += count;
        }
        for index in 0..200_000 {
            if world.answered == asked {
                break;
            }
            world.tick(0, random.wrapping_add(index));
        }
        prop_assert_eq!((world.answered, world.refused), (asked, 0));
    }

    /// A service that fails to start a few times and then works is found working, with a request now and then; while it
    /// fails, it is not started for each of many requests.
    #[test]
    fn failures_are_few_and_end(scale in any_scale(), failing_starts in 1..12u32, each in 1..50u32, random in any::<u32>()) {
        let nature = Nature { start_ticks: 2, request_ticks: 1, failing_starts };
        let mut world = World::new(scale, RecycleLimits::default(), nature, None);
        let mut ticks = 0;
        while world.answered == 0 && ticks < 100_000 {
            world.tick(each, random.wrapping_mul(ticks + 1));
            ticks += 1;
        }
        prop_assert!(world.answered > 0, "never found working");
        // At least the shortest pauses lie between the failures.
        prop_assert!(world.starts <= failing_starts + 2 * scale.max, "{} starts", world.starts);
    }
}

/// The figure of issue 4.
#[test]
fn a_thousand_first_requests_start_what_is_needed() {
    let scale = Scale {
        min: 0,
        max: 4,
        spare: 0,
        concurrency: Some(100),
        up_after: Duration::from_millis(100),
        down_after: Duration::from_secs(60),
    };
    for (start_ticks, request_ticks, expected) in [(80, 1, 4), (10, 1, 1), (10, 100, 4)] {
        let nature = Nature { start_ticks, request_ticks, failing_starts: 0 };
        let mut world = World::new(scale, RecycleLimits::default(), nature, None);
        world.tick(1000, 0);
        for _ in 0..1000 {
            world.tick(0, 0);
        }
        assert_eq!((world.answered, world.starts), (1000, expected), "start {start_ticks}, request {request_ticks}");
    }
}

#[test]
fn a_burst_is_followed_by_fewer_and_the_spare_is_kept() {
    let scale = Scale { min: 0, max: 5, spare: 1, concurrency: Some(10), up_after: 4 * TICK, down_after: 100 * TICK };
    let nature = Nature { start_ticks: 10, request_ticks: 2, failing_starts: 0 };
    let mut world = World::new(scale, RecycleLimits::default(), nature, Some(50));
    for _ in 0..20 {
        world.tick(0, 0);
    }
    let ready = |world: &World| world.instances.iter().filter(|one| one.is_ready()).count();
    assert_eq!(ready(&world), 1, "the spare is there before the first request");
    for _ in 0..200 {
        world.tick(20, 0);
    }
    assert_eq!(ready(&world), 5);
    for _ in 0..400 {
        world.tick(1, 0);
    }
    assert_eq!(ready(&world), 2, "one that is used, one that is spare");
    for _ in 0..400 {
        world.tick(0, 0);
    }
    assert_eq!(ready(&world), 1);
}
