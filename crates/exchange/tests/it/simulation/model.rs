//! What is around the clients: a cache with flights, Redis, a service of several instances.
//!
//! Each key has a version at the service, which purges and unsafe requests count up. `floor` is the oldest version that
//! a request may be answered with that begins now: that of the last purge, or of the last unsafe request whose
//! invalidation is done.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use pilotlight_exchange::{Found, Handles, Tier, Turn};

pub(super) type Key = usize;
/// What is asked for here is for one user.
pub(super) const PRIVATE: Key = 2;
pub(super) const FRESH_MS: u64 = 150;
pub(super) const SWR_MS: u64 = 60;
pub(super) const STALE_MS: u64 = 2_000;
const MAX_WAITS: u32 = 3;

/// The handles of the model.
pub(super) struct Model;

impl Handles for Model {
    type Stored = Rc<Content>;
    type Fill = Fill;
    type Wait = Place;
    type Live = Rc<Content>;
    type Redis = Option<Rc<Content>>;
    type Body = Body;
    type Fetched = Content;
    type Recorder = ();
    type Unstored = &'static str;
    type Failure = &'static str;
    type Why = ();
}

/// A response, stored or on its way.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) key: Key,
    pub(super) version: u64,
    /// Whose it is, if it is private.
    pub(super) user: Option<usize>,
    pub(super) status: u16,
    pub(super) received: u64,
    /// Purges of its key when it was asked for.
    pub(super) epoch: u32,
    /// A 304 that is about something else.
    pub(super) is_mismatch: bool,
}

/// A whole body.
pub(super) struct Body;

#[derive(Clone)]
pub(super) enum Outcome {
    Stored(Rc<Content>),
    Live(Rc<Content>),
    Failed(Rc<Content>),
    Passed,
    Abandoned,
}

pub(super) struct Flight {
    pub(super) outcome: Option<Outcome>,
    pub(super) followers: usize,
    epoch: u32,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) now: u64,
    pub(super) version: HashMap<Key, u64>,
    pub(super) floor: HashMap<Key, u64>,
    pub(super) epoch: HashMap<Key, u32>,
    pub(super) memory: HashMap<Key, Rc<Content>>,
    pub(super) redis: HashMap<Key, Rc<Content>>,
    pub(super) redis_is_up: bool,
    pub(super) flights: Vec<Flight>,
    pub(super) table: HashMap<Key, usize>,
    pub(super) instance: u32,
    pub(super) draining: HashSet<u32>,
    pub(super) ended: HashSet<u32>,
    /// How often a client's request was carried out.
    pub(super) executed: HashMap<usize, u32>,
    /// Actions and responses, by name.
    pub(super) seen: BTreeSet<&'static str>,
    pub(super) fills: u32,
    pub(super) landed: u32,
}

#[derive(Clone, Default)]
pub(super) struct World(pub(super) Rc<RefCell<State>>);

/// A leader's right. It lands its flight once, when dropped at the latest.
pub(super) struct Fill {
    world: World,
    pub(super) key: Key,
    pub(super) flight: Option<usize>,
    pub(super) epoch: u32,
    outcome: Option<Outcome>,
}

impl Fill {
    pub(super) fn land(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.flight.is_some_and(|flight| self.world.0.borrow().flights[flight].followers > 0)
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        let state = &mut *self.world.0.borrow_mut();
        state.landed += 1;
        let Some(flight) = self.flight else { return };
        assert!(state.flights[flight].outcome.is_none(), "a flight landed twice");
        state.flights[flight].outcome = Some(self.outcome.take().unwrap_or(Outcome::Abandoned));
        if state.table.get(&self.key) == Some(&flight) {
            state.table.remove(&self.key);
        }
    }
}

/// A follower's place.
pub(super) struct Place {
    world: World,
    key: Key,
    pub(super) flight: usize,
    waits: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.world.0.borrow_mut().flights[self.flight].followers -= 1;
    }
}

impl State {
    /// How often a key was invalidated.
    pub(super) fn epoch(&self, key: Key) -> u32 {
        self.epoch.get(&key).copied().unwrap_or(0)
    }

    fn is_valid(&self, content: &Content) -> bool {
        self.epoch(content.key) == content.epoch
    }

    pub(super) fn is_fresh(&self, content: &Content) -> bool {
        self.is_valid(content) && self.now < content.received + FRESH_MS
    }

    pub(super) fn serves_if_error(&self, content: &Content) -> bool {
        self.is_valid(content) && self.now < content.received + STALE_MS
    }

    pub(super) fn found(&self, content: Option<&Rc<Content>>) -> Option<Found> {
        content.map(|content| Found {
            serves: self.is_fresh(content),
            is_selected: true,
            is_of_use: self.is_valid(content),
            received_ms: content.received,
        })
    }

    pub(super) fn invalidate(&mut self, key: Key) {
        *self.epoch.entry(key).or_default() += 1;
        self.memory.remove(&key);
    }
}

impl World {
    fn fill(&self, key: Key, flight: Option<usize>) -> Fill {
        let epoch = {
            let state = &mut *self.0.borrow_mut();
            state.fills += 1;
            state.epoch(key)
        };
        Fill { world: self.clone(), key, flight, epoch, outcome: None }
    }

    pub(super) fn fill_alone(&self, key: Key) -> Fill {
        self.fill(key, None)
    }

    /// A request's turn; `waits`: how often it has waited, `None` if it goes alone.
    pub(super) fn turn(&self, key: Key, waits: Option<u32>) -> Turn<Model> {
        let flight = {
            let state = &mut *self.0.borrow_mut();
            if let Some(stored) = state.memory.get(&key).filter(|stored| state.is_fresh(stored)) {
                return Turn::Hit(Rc::clone(stored));
            }
            let epoch = state.epoch(key);
            match waits.filter(|waits| *waits < MAX_WAITS) {
                None => None,
                Some(waits) => match state.table.get(&key).copied() {
                    Some(flight) if state.flights[flight].epoch == epoch => {
                        state.flights[flight].followers += 1;
                        return Turn::Follow(Place { world: self.clone(), key, flight, waits });
                    }
                    _ => {
                        state.flights.push(Flight { outcome: None, followers: 0, epoch });
                        state.table.insert(key, state.flights.len() - 1);
                        Some(state.flights.len() - 1)
                    }
                },
            }
        };
        let tier = if flight.is_some() { Tier::AsksRedis } else { Tier::AsksService };
        Turn::Lead(self.fill(key, flight), tier)
    }

    /// The turn after a wait.
    pub(super) fn landed(&self, place: &Place) -> Turn<Model> {
        let (outcome, now) = {
            let state = self.0.borrow();
            (state.flights[place.flight].outcome.clone().expect("it has landed"), state.now)
        };
        let next = Some(place.waits + 1);
        let is_valid = |content: &Content| self.0.borrow().is_valid(content);
        let waits = match outcome {
            Outcome::Stored(stored) if is_valid(&stored) && now < stored.received + FRESH_MS => {
                return Turn::Hit(stored);
            }
            Outcome::Live(live) if is_valid(&live) => return Turn::Live(live),
            Outcome::Failed(stale) if self.0.borrow().serves_if_error(&stale) => return Turn::Failed(stale),
            Outcome::Stored(stored) if is_valid(&stored) => None,
            Outcome::Stored(_) | Outcome::Live(_) | Outcome::Abandoned => next,
            Outcome::Failed(_) | Outcome::Passed => None,
        };
        self.turn(place.key, waits)
    }
}
