//! Thousands of seeded schedules: clients, a cache with flights, Redis, a service of several instances, and what goes
//! wrong with them, on virtual time.
//!
//! Each client gets one whole right answer or one honest error: nothing of another user's, nothing older than what a
//! purge or an unsafe request had made invalid before it came. No flight is left, each fill lands once, no request is
//! carried out twice that must not be, and every schedule ends.
//!
//! `SEED=n cargo test -p pilotlight-exchange schedules` plays one of them.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pilotlight_exchange::{
    Abandoned, Company, Exchange, Leaving, Limits, Lookup, Method, OnlyIfCached, Request, Tier, Turn, Upstream,
};

mod answers;
mod client;
mod model;
mod names;
mod service;

use client::{Asks, Client, Context, stale_of};
use model::{FRESH_MS, Key, Model, SWR_MS, World};

const SCHEDULES: u64 = 10_000;
/// Kinds of actions and responses that they have to meet: all there are.
const KINDS: usize = 39;
/// In events; more is a circle.
const MAX_EVENTS: u32 = 2_000;
const CLIENTS: usize = 8;
const LAST_EVENT_MS: u64 = 700;

#[derive(Clone, Copy)]
enum Happens {
    Comes,
    Leaves(usize),
    Purge(Key),
    InstanceEnds,
    InstanceDrains,
    RedisChanges,
}

struct Schedule {
    world: World,
    rng: Rng,
    base: Instant,
    clients: Vec<Option<Client>>,
    abandoned: Abandoned,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let abandoned = if rng.bool() { Abandoned::Finish } else { Abandoned::Drop };
        let world = World::default();
        world.0.borrow_mut().redis_is_up = rng.bool();
        Self { world, rng, base: Instant::now(), clients: Vec::new(), abandoned }
    }

    /// Gives the kinds of actions and responses that it has met.
    fn run(mut self) -> BTreeSet<&'static str> {
        let mut happens: Vec<(u64, Happens)> = Vec::new();
        for id in 0..CLIENTS {
            happens.push((self.rng.u64(0..LAST_EVENT_MS), Happens::Comes));
            if self.rng.u32(0..5) == 0 {
                happens.push((self.rng.u64(0..LAST_EVENT_MS), Happens::Leaves(id)));
            }
        }
        for _ in 0..self.rng.u32(0..5) {
            let what = match self.rng.u32(0..5) {
                0 | 1 => Happens::Purge(self.rng.usize(0..3)),
                2 => Happens::InstanceEnds,
                3 => Happens::InstanceDrains,
                _ => Happens::RedisChanges,
            };
            happens.push((self.rng.u64(0..LAST_EVENT_MS), what));
        }
        happens.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for _ in 0..MAX_EVENTS {
            let world = self.world.clone();
            let context = Context { world: &world, rng: &mut self.rng, base: self.base };
            let next = |client: &Option<Client>| client.as_ref()?.next(&context);
            let first = self.clients.iter().enumerate().filter_map(|(at, client)| Some((next(client)?, at))).min();
            match (first, happens.last().map(|(at, _)| *at)) {
                (Some((at, client)), outside) if outside.is_none_or(|outside| at <= outside) => {
                    self.advance(at);
                    self.go_on(client);
                }
                (_, Some(at)) => {
                    self.advance(at);
                    let (_, what) = happens.pop().unwrap();
                    self.happen(what);
                }
                (_, None) => {
                    self.check();
                    return std::mem::take(&mut self.world.0.borrow_mut().seen);
                }
            }
        }
        panic!("it does not end");
    }

    fn advance(&mut self, to: u64) {
        let now = &mut self.world.0.borrow_mut().now;
        *now = to.max(*now);
    }

    fn go_on(&mut self, at: usize) {
        let Some(client) = &mut self.clients[at] else { return };
        client.go_on(&mut Context { world: &self.world, rng: &mut self.rng, base: self.base });
        self.refresh(at);
    }

    fn happen(&mut self, what: Happens) {
        let state = || self.world.0.borrow_mut();
        match what {
            Happens::Comes => self.come(),
            Happens::Leaves(id) => self.leave(id),
            Happens::Purge(key) => {
                let mut state = state();
                let version = state.version.entry(key).or_default();
                *version += 1;
                let version = *version;
                state.floor.insert(key, version);
                state.invalidate(key);
            }
            Happens::InstanceEnds => {
                let mut state = state();
                let instance = state.instance;
                state.ended.insert(instance);
                state.instance += 1;
            }
            Happens::InstanceDrains => {
                let mut state = state();
                let instance = state.instance;
                state.draining.insert(instance);
                state.instance += 1;
            }
            Happens::RedisChanges => {
                let mut state = state();
                state.redis_is_up = !state.redis_is_up;
            }
        }
    }

    fn come(&mut self) {
        let method = match self.rng.u32(0..10) {
            0 => Method::Post,
            1 => Method::Idempotent,
            2 => Method::Other,
            _ => Method::Safe,
        };
        let only_if_cached = method.is_safe() && self.rng.u32(0..12) == 0;
        let asks = Asks { id: self.clients.len(), key: self.rng.usize(0..3), method, only_if_cached };
        let lookup = self.look_up(asks);
        self.add(asks, lookup);
    }

    fn look_up(&mut self, asks: Asks) -> Lookup<Model> {
        if !asks.method.is_safe() {
            return Lookup::Bypass { why: (), is_by_method: self.rng.u32(0..4) > 0 };
        }
        if self.rng.u32(0..15) == 0 && !asks.only_if_cached {
            return Lookup::Off(());
        }
        let state = self.world.0.borrow();
        let stored = state.memory.get(&asks.key).cloned();
        match stored {
            Some(stored) if state.is_fresh(&stored) => Lookup::Hit(stored),
            _ if asks.only_if_cached => Lookup::OnlyIfCached(OnlyIfCached::RedisToo),
            Some(stored) if state.now < stored.received + FRESH_MS + SWR_MS => Lookup::StaleWhileRevalidate(stored),
            Some(stored) => Lookup::Stale(stale_of(stored), ()),
            None => Lookup::Miss(()),
        }
    }

    fn add(&mut self, asks: Asks, lookup: Lookup<Model>) {
        let timeout = self.rng.bool().then(|| self.rng.u64(100..600));
        let limits = Limits {
            timeout: timeout.map(Duration::from_millis),
            general_response: Some(Duration::from_millis(200)),
            max_request_time: self.rng.bool().then_some(Duration::from_millis(150)),
            route_response: None,
        };
        let upstream = if self.rng.u32(0..4) == 0 { Upstream::External } else { Upstream::Managed };
        let request = Request {
            method: asks.method,
            has_body: !asks.method.is_safe(),
            expects_continue: false,
            has_cache: true,
            upstream,
            limits,
            already_took: Duration::ZERO,
        };
        let mut client = Client::new(asks, Exchange::new(request), timeout, &self.world);
        client.begin(lookup, &mut Context { world: &self.world, rng: &mut self.rng, base: self.base });
        self.clients.push(Some(client));
        self.refresh(self.clients.len() - 1);
    }

    /// Begins the refreshes that a client has asked for.
    fn refresh(&mut self, at: usize) {
        let Some(client) = &mut self.clients[at] else { return };
        for stored in std::mem::take(&mut client.refreshes) {
            let turn = self.world.turn(stored.key, Some(0));
            if let Turn::Lead(fill, tier) = turn {
                let asks =
                    Asks { id: self.clients.len(), key: stored.key, method: Method::Safe, only_if_cached: false };
                let tier = if self.rng.bool() { tier } else { Tier::AsksService };
                self.add(asks, Lookup::Refresh(fill, tier, stale_of(Rc::clone(&stored)), ()));
            }
        }
    }

    fn leave(&mut self, id: usize) {
        let Some(Some(client)) = self.clients.get_mut(id) else { return };
        if client.responses > 0 {
            return;
        }
        let has_room = self.rng.bool();
        let leaving = client.exchange.leads().map_or(Leaving::Drop, |fill| {
            let company = Company { is_shared: fill.flight.is_some(), is_awaited: fill.is_awaited(), has_room };
            self.abandoned.leaving(company)
        });
        if leaving == Leaving::Drop {
            self.clients[id] = None;
        }
    }

    fn check(&self) {
        for client in self.clients.iter().flatten() {
            assert_eq!(client.responses, 1, "{:?} was not answered once", client.asks);
        }
        let state = self.world.0.borrow();
        assert!(state.table.is_empty(), "flights are left");
        assert_eq!(state.fills, state.landed, "a fill has not landed");
        assert!(state.flights.iter().all(|flight| flight.outcome.is_some() && flight.followers == 0));
    }
}

#[test]
fn schedules() {
    let one = std::env::var("SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = one.map_or(0..SCHEDULES, |seed| seed..seed + 1);
    let (mut seen, mut failed) = (BTreeSet::new(), Vec::new());
    for seed in seeds.clone() {
        match catch_unwind(AssertUnwindSafe(|| Schedule::new(seed).run())) {
            Ok(kinds) => seen.extend(kinds),
            Err(_) => failed.push(seed),
        }
        if failed.len() == 3 {
            break;
        }
    }
    assert!(failed.is_empty(), "these seeds fail: {failed:?}");
    assert!(seeds.end - seeds.start == 1 || seen.len() == KINDS, "only {} of {KINDS} kinds: {seen:?}", seen.len());
}
