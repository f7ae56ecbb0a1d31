//! A group in virtual time: random services, requests, crashes and budgets. `GROUP_SCHEDULES` says how many schedules.

use super::*;
use std::collections::VecDeque;

const TICK: Duration = Duration::from_millis(10);
/// Ticks in which requests come.
const BUSY_TICKS: u32 = 300;

/// A seeded source of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn within(&mut self, from: u32, to: u32) -> u32 {
        from + (self.next() % u64::from(to - from + 1)) as u32
    }

    fn one_in(&mut self, chances: u32) -> bool {
        self.within(1, chances) == 1
    }
}

#[derive(Clone, Copy, Debug)]
struct Nature {
    memory: u64,
    start_ticks: u32,
    /// At most; each request has its own.
    request_ticks: u32,
    /// How long open requests may go on when it is drained.
    drain_ticks: u32,
    stop_ticks: u32,
    /// Requests of an instance at once.
    concurrency: usize,
    max_instances: usize,
    is_kept: bool,
    /// A request comes in one of so many ticks.
    rarity: u32,
}

#[derive(Debug)]
enum Stage {
    Starting(u32),
    Ready { since: Instant, last_use: Instant },
    Draining(u32),
    Stopping(u32),
}

#[derive(Debug)]
struct Instance {
    id: u64,
    service: usize,
    stage: Stage,
    /// Ticks left of each request.
    open: Vec<u32>,
}

struct World {
    seed: u64,
    random: Random,
    budget: Budget,
    natures: Vec<Nature>,
    waiting: Vec<VecDeque<Instant>>,
    instances: Vec<Instance>,
    over_since: Option<Instant>,
    now: Instant,
    last_id: u64,
    /// What is counted.
    found: Found,
}

#[derive(Debug, Default)]
struct Found {
    answered: u64,
    starts: u64,
    drained: u64,
    over_budget: u64,
    cut_in_grace: u64,
    longest: Duration,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let has_memory = random.one_in(2);
        let max_running = if has_memory && random.one_in(2) { None } else { Some(random.within(1, 4)) };
        let memory = has_memory.then(|| u64::from(random.within(10, 30)));
        let count = random.within(2, 6);
        let natures: Vec<Nature> = (0..count)
            .map(|_| Nature {
                memory: u64::from(random.within(0, 10)),
                start_ticks: random.within(1, 40),
                request_ticks: random.within(1, 60),
                drain_ticks: random.within(0, 30),
                stop_ticks: random.within(1, 10),
                concurrency: if random.one_in(3) { random.within(1, 4) as usize } else { usize::MAX },
                max_instances: if random.one_in(3) { 3 } else { 1 },
                is_kept: random.one_in(5),
                rarity: random.within(2, 80),
            })
            .collect();
        Self {
            seed,
            budget: Budget { max_running, memory, grace: TICK * random.within(0, 50) },
            waiting: natures.iter().map(|_| VecDeque::new()).collect(),
            natures,
            random,
            instances: Vec::new(),
            over_since: None,
            now: Instant::now(),
            last_id: 0,
            found: Found::default(),
        }
    }

    fn tick(&mut self, requests_come: bool) {
        self.now += TICK;
        if requests_come {
            for service in 0..self.natures.len() {
                while self.random.one_in(self.natures[service].rarity) {
                    self.waiting[service].push_back(self.now);
                }
            }
            if self.random.one_in(100) && !self.instances.is_empty() {
                let index = self.random.within(0, self.instances.len() as u32 - 1) as usize;
                self.instances.remove(index); // it is killed
            }
            if self.random.one_in(150) {
                self.change_budget();
            }
        }
        self.progress();
        self.let_in();
        // As the owner does: decide, follow, and decide again for whoever has been granted something.
        for _ in 0..4 {
            self.review();
        }
        self.let_in();
    }

    fn change_budget(&mut self) {
        if let Some(max) = &mut self.budget.max_running {
            *max = self.random.within(1, 4);
        }
        if let Some(memory) = &mut self.budget.memory {
            *memory = u64::from(self.random.within(10, 30));
        }
    }

    fn progress(&mut self) {
        for one in &mut self.instances {
            one.open.iter_mut().for_each(|left| *left = left.saturating_sub(1));
            let before = one.open.len();
            one.open.retain(|left| *left > 0);
            self.found.answered += (before - one.open.len()) as u64;
            let nature = self.natures[one.service];
            one.stage = match one.stage {
                Stage::Starting(0) => Stage::Ready { since: self.now, last_use: self.now },
                Stage::Starting(left) => Stage::Starting(left - 1),
                Stage::Ready { since, .. } if before > 0 => Stage::Ready { since, last_use: self.now },
                Stage::Ready { since, last_use } => Stage::Ready { since, last_use },
                Stage::Draining(left) if left == 0 || one.open.is_empty() => Stage::Stopping(nature.stop_ticks),
                Stage::Draining(left) => Stage::Draining(left - 1),
                Stage::Stopping(left) => Stage::Stopping(left.saturating_sub(1)),
            };
        }
        self.instances.retain(|one| !matches!(one.stage, Stage::Stopping(0)));
    }

    fn let_in(&mut self) {
        for service in 0..self.natures.len() {
            let Nature { concurrency, request_ticks, .. } = self.natures[service];
            while let Some(since) = self.waiting[service].front().copied() {
                let mut ready = self.instances.iter_mut().filter(|one| {
                    one.service == service && matches!(one.stage, Stage::Ready { .. }) && one.open.len() < concurrency
                });
                let Some(one) = ready.next() else { break };
                one.open.push(self.random.within(1, request_ticks));
                self.waiting[service].pop_front();
                self.found.longest = self.found.longest.max(self.now - since);
            }
        }
    }

    fn group(&self) -> Group {
        let members = self.instances.iter().map(|one| Member {
            id: one.id,
            service: one.service,
            memory: self.natures[one.service].memory,
            standing: match one.stage {
                Stage::Starting(_) => Standing::Starting,
                Stage::Ready { since, last_use } => Standing::Ready {
                    since,
                    last_use,
                    is_busy: !one.open.is_empty(),
                    waited_for: self.waiting[one.service].front().copied(),
                },
                Stage::Draining(_) | Stage::Stopping(_) => Standing::Ending,
            },
        });
        let wants = (0..self.natures.len()).filter_map(|service| self.want(service));
        Group { budget: self.budget, members: members.collect(), wants: wants.collect(), over_since: self.over_since }
    }

    fn want(&self, service: usize) -> Option<Want> {
        let nature = self.natures[service];
        let serving =
            |one: &&Instance| one.service == service && matches!(one.stage, Stage::Starting(_) | Stage::Ready { .. });
        let have = self.instances.iter().filter(serving).count();
        let oldest = self.waiting[service].front().copied();
        let need = match oldest {
            Some(_) if have == 0 => Need::First,
            Some(_) if have < nature.max_instances => Need::More,
            None if have == 0 && nature.is_kept => Need::Kept,
            _ => return None,
        };
        Some(Want { service, need, since: oldest.unwrap_or(self.now), count: 1, memory: nature.memory })
    }

    fn review(&mut self) {
        let group = self.group();
        let before = self.budget.fits(group.used());
        let decision = group.decide(self.now);
        self.over_since = decision.is_over.then(|| self.over_since.unwrap_or(self.now));
        if let Some(since) = self.over_since {
            let limit =
                self.budget.grace + TICK * self.natures.iter().map(|one| one.start_ticks + 2).max().unwrap_or(0);
            assert!(
                self.now - since <= limit,
                "seed {}: over the smaller budget for {:?}",
                self.seed,
                self.now - since
            );
        }
        for id in &decision.drain {
            self.make_room(*id, &group);
        }
        for (service, count) in decision.grants {
            for _ in 0..count {
                self.last_id += 1;
                self.found.starts += 1;
                let stage = Stage::Starting(self.natures[service].start_ticks);
                self.instances.push(Instance { id: self.last_id, service, stage, open: Vec::new() });
            }
            // Nothing is started over the budget, whatever the budget was before.
            self.found.over_budget += u64::from(!self.budget.fits(self.group().used()));
        }
        // And what was within it stays so.
        self.found.over_budget += u64::from(before && !self.budget.fits(self.group().used()));
    }

    fn make_room(&mut self, id: u64, group: &Group) {
        let Some(one) = self.instances.iter_mut().find(|one| one.id == id) else { return };
        let Stage::Ready { since, .. } = one.stage else {
            self.found.cut_in_grace += 1;
            return;
        };
        let in_grace = !one.open.is_empty() && since + group.budget.grace > self.now;
        self.found.cut_in_grace += u64::from(in_grace);
        self.found.drained += 1;
        one.stage = Stage::Draining(self.natures[one.service].drain_ticks);
    }

    /// How long a request may wait: every other service may have its turn before, each with its start, its grace and
    /// its end, and with those who had waited for longer; and so may two instances of which nobody knew.
    fn queue_limit(&self) -> Duration {
        let ticks = |of: fn(&Nature) -> u32| self.natures.iter().map(of).max().unwrap_or_default();
        let turn = 2 * ticks(|one| one.start_ticks) + ticks(|one| one.drain_ticks) + ticks(|one| one.stop_ticks) + 20;
        let turns = self.natures.len() as u32 + 2;
        let backlog: u32 = self.natures.iter().map(|one| one.request_ticks * (BUSY_TICKS / one.rarity + 20)).sum();
        let is_limited = self.natures.iter().any(|one| one.concurrency != usize::MAX);
        (self.budget.grace + turn * TICK) * turns + TICK * if is_limited { backlog } else { 0 }
    }

    fn run(mut self) -> Found {
        for _ in 0..BUSY_TICKS {
            self.tick(true);
        }
        let limit = self.queue_limit();
        let until = self.now + limit + limit;
        while self.waiting.iter().any(|queue| !queue.is_empty()) {
            self.tick(false);
            let (seed, budget, natures) = (self.seed, self.budget, &self.natures);
            assert!(
                self.now < until,
                "seed {seed}: somebody waits for ever: {budget:?} {natures:?} {:?}",
                self.instances
            );
        }
        let Found { over_budget, cut_in_grace, longest, .. } = self.found;
        assert_eq!((over_budget, cut_in_grace), (0, 0), "seed {}", self.seed);
        assert!(longest <= limit, "seed {}: one waited for {longest:?}, at most {limit:?}", self.seed);
        self.found
    }
}

/// The figure of issue 20: never over the budget, and nobody starves.
#[test]
fn random_schedules_stay_within_the_budget_and_nobody_starves() {
    let schedules = std::env::var("GROUP_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(1000);
    let mut sum = Found::default();
    for seed in 0..schedules {
        let found = World::new(seed).run();
        sum.answered += found.answered;
        sum.starts += found.starts;
        sum.drained += found.drained;
        sum.longest = sum.longest.max(found.longest);
    }
    println!("{schedules} schedules: {sum:?}");
    assert!(sum.answered > schedules * 50 && sum.drained > schedules, "{sum:?}");
}
