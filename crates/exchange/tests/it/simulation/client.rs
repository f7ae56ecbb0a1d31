//! One exchange on virtual time: does what the machine says, and checks what it says.

use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pilotlight_exchange::retry::{MAX_MOVES, MAX_TRIES};
use pilotlight_exchange::{
    Action, Adopted, BodyLeft, Event, Exchange, Keep, Lookup, Method, RedisReply, Stale, Wait, WaitsFor,
};

use super::model::{Body, Content, Fill, Key, Model, Outcome, Place, World};
use super::names::name;

/// Steps of one exchange; more is a circle.
const MAX_STEPS: u32 = 60;

/// Who asks for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    pub(super) id: usize,
    pub(super) key: Key,
    pub(super) method: Method,
    pub(super) only_if_cached: bool,
}

/// What is being waited for. The body of a `Send` is the service's.
pub(super) enum Op {
    Follow(Place),
    Redis(Fill),
    Lead(Fill, Option<Rc<Content>>),
    RedisOnly,
    Hold(Body),
    Place,
    Read,
    Answer(Content),
    End,
    Drain,
}

pub(super) struct Pending {
    pub(super) op: Op,
    /// When it is done; `None`: never by itself.
    pub(super) at: Option<u64>,
    pub(super) wait: Option<Wait>,
}

pub(super) struct Client {
    pub(super) asks: Asks,
    pub(super) exchange: Exchange<Model>,
    pub(super) pending: Option<Pending>,
    pub(super) responses: u32,
    pub(super) refreshes: Vec<Rc<Content>>,
    pub(super) begun: u64,
    pub(super) floor: u64,
    pub(super) timeout: Option<u64>,
    /// What it has waited for that the route's timeout does not bound: Redis, ends of instances, rests of bodies.
    pub(super) unbounded_ms: u64,
    pub(super) faults: u32,
    steps: u32,
    pub(super) tries: u16,
    /// Of them, those at instances that were told to go.
    pub(super) moves: u16,
    pub(super) has_mismatched: bool,
    pub(super) has_invalidated: bool,
    pub(super) is_suspect: bool,
    wait: Option<Wait>,
    pub(super) instance: u32,
    pub(super) condition: Option<Rc<Content>>,
    /// The body that is with the service.
    pub(super) sent: Option<Body>,
}

pub(super) struct Context<'a> {
    pub(super) world: &'a World,
    pub(super) rng: &'a mut Rng,
    pub(super) base: Instant,
}

impl Context<'_> {
    pub(super) fn now(&self) -> u64 {
        self.world.0.borrow().now
    }

    fn instant(&self) -> Instant {
        self.base + Duration::from_millis(self.now())
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }
}

impl Client {
    pub(super) fn new(asks: Asks, exchange: Exchange<Model>, timeout: Option<u64>, world: &World) -> Self {
        let (begun, floor) = {
            let state = world.0.borrow();
            (state.now, state.floor.get(&asks.key).copied().unwrap_or(0))
        };
        Self {
            asks,
            exchange,
            pending: None,
            responses: 0,
            refreshes: Vec::new(),
            begun,
            floor,
            timeout,
            unbounded_ms: 0,
            faults: 0,
            steps: 0,
            tries: 0,
            moves: 0,
            has_mismatched: false,
            has_invalidated: false,
            is_suspect: false,
            wait: None,
            instance: 0,
            condition: None,
            sent: None,
        }
    }

    pub(super) fn begin(&mut self, lookup: Lookup<Model>, context: &mut Context<'_>) {
        self.run(Event::Begin { lookup, redis: None }, context);
    }

    /// When something happens to it next.
    pub(super) fn next(&self, context: &Context<'_>) -> Option<u64> {
        let pending = self.pending.as_ref()?;
        let landed = match &pending.op {
            Op::Follow(place) => {
                context.world.0.borrow().flights[place.flight].outcome.is_some().then(|| context.now())
            }
            _ => pending.at,
        };
        landed.into_iter().chain(self.due(context)).min()
    }

    fn due(&self, context: &Context<'_>) -> Option<u64> {
        let due = self.pending.as_ref()?.wait?.due()?;
        Some(u64::try_from((due - context.base).as_millis()).unwrap())
    }

    /// Goes on at the time that [`Self::next`] said.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) {
        let is_over = self.due(context).is_some_and(|due| due <= context.now());
        let pending = self.pending.take().unwrap();
        if is_over {
            self.faults += 1;
            let has_body = matches!(pending.op, Op::Hold(_)) || self.sent.is_some();
            let body = if has_body { BodyLeft::Spent } else { BodyLeft::NONE };
            let event = match pending.op {
                // What is known, however the wait has ended.
                Op::Lead(fill, redis) => {
                    let found = context.world.0.borrow().found(redis.as_ref());
                    Event::Lead(fill, redis, found)
                }
                Op::Follow(_) | Op::Place => Event::TimeOver { waits_for: WaitsFor::Service, body: BodyLeft::NONE },
                _ => Event::TimeOver { waits_for: pending.wait.unwrap().waits_for(), body },
            };
            return self.run(event, context);
        }
        if let Some(event) = self.done(pending, context) {
            self.run(event, context);
        }
    }

    fn done(&mut self, pending: Pending, context: &mut Context<'_>) -> Option<Event<Model>> {
        let key = self.asks.key;
        Some(match pending.op {
            Op::Follow(place) => Event::Turn(context.world.landed(&place)),
            Op::Redis(fill) => {
                let state = context.world.0.borrow();
                if !state.redis_is_up {
                    drop(state);
                    return Some(Event::Redis(fill, RedisReply::Silent));
                }
                let redis = state.redis.get(&key).cloned();
                let (found, is_shared) = (state.found(redis.as_ref()), fill.flight.is_some());
                drop(state);
                Event::Redis(fill, RedisReply::Answered { redis, is_shared, found })
            }
            Op::Lead(fill, redis) => {
                let state = context.world.0.borrow();
                let redis = state.redis.get(&key).cloned().or(redis);
                let found = state.found(redis.as_ref());
                drop(state);
                Event::Lead(fill, redis, found)
            }
            Op::RedisOnly => {
                let state = context.world.0.borrow();
                Event::RedisOnly(state.redis.get(&key).filter(|c| state.redis_is_up && state.is_fresh(c)).cloned())
            }
            Op::Hold(body) if context.chance(95) => Event::BodyHeld(body),
            Op::Hold(body) => {
                self.faults += 1;
                Event::Failed { failure: "the body dripped", status: 408, body: Some(body) }
            }
            Op::Place if context.chance(96) => {
                self.instance = context.world.0.borrow().instance;
                Event::Placed
            }
            Op::Place => {
                self.faults += 1;
                Event::Failed { failure: "no start", status: 503, body: None }
            }
            Op::Read => return self.read(pending.wait, context),
            Op::Answer(content) => self.answer(content, context),
            Op::End => Event::Instance(self.instance_state(context)),
            Op::Drain => Event::Drained(context.chance(80)),
        })
    }

    /// Steps until something has to be waited for.
    fn run(&mut self, event: Event<Model>, context: &mut Context<'_>) {
        let mut event = event;
        loop {
            self.steps += 1;
            assert!(self.steps <= MAX_STEPS, "{:?} goes round in a circle", self.asks);
            let action = self.exchange.step(event, context.instant());
            context.world.0.borrow_mut().seen.insert(name(&action));
            match self.act(action, context) {
                Some(next) => event = next,
                None => return,
            }
        }
    }

    fn wait_for(&mut self, op: Op, (from, to): (u64, u64), wait: Option<Wait>, context: &mut Context<'_>) {
        let takes = context.rng.u64(from..to);
        if wait.is_none() {
            self.unbounded_ms += takes;
        }
        self.pending = Some(Pending { op, at: Some(context.now() + takes), wait });
    }

    fn send(&mut self, body: Option<Body>, condition: Option<Rc<Content>>, wait: Wait, context: &mut Context<'_>) {
        self.tries += 1;
        assert!(self.tries <= MAX_TRIES + self.moves, "{:?} was sent {} times", self.asks, self.tries);
        assert!(self.moves <= MAX_MOVES, "{:?} moved {} times", self.asks, self.moves);
        assert!(!self.is_suspect, "{:?} was sent after it may have ended an instance", self.asks);
        assert!(!(self.has_mismatched && condition.is_some()), "{:?} has a condition again", self.asks);
        assert_eq!(body.is_some(), !self.asks.method.is_safe(), "{:?} was sent without its body", self.asks);
        self.sent = body;
        self.condition = condition;
        let mut wait = wait;
        wait.service_turn(context.instant());
        self.wait = Some(wait);
        self.wait_for(Op::Read, (1, 60), Some(wait), context);
        if context.chance(3) {
            self.pending.as_mut().unwrap().at = None; // it hangs
        }
    }

    /// Does what takes no time, begins what does.
    fn act(&mut self, action: Action<Model>, context: &mut Context<'_>) -> Option<Event<Model>> {
        let key = self.asks.key;
        match action {
            Action::Respond { response, connection } => {
                self.respond(response, connection, context);
                return None;
            }
            Action::Refresh(stored) => {
                self.refreshes.push(stored);
                return Some(Event::Refreshing);
            }
            Action::TakeTurn => {
                return Some(Event::Turn(context.world.turn(key, Some(0))));
            }
            Action::Follow(place, wait) => {
                self.pending = Some(Pending { op: Op::Follow(place), at: None, wait: Some(wait) });
            }
            Action::AskRedis(fill) => self.wait_for(Op::Redis(fill), (0, 50), None, context),
            Action::AwaitLead(fill, redis, wait) => self.wait_for(Op::Lead(fill, redis), (0, 200), Some(wait), context),
            Action::Adopt(fill, redis) => return Some(Event::Adopted(adopt(fill, redis, context))),
            Action::Prepare(fill, redis, keep) => {
                let state = &mut *context.world.0.borrow_mut();
                let kept = redis.filter(|_| keep == Keep::Found && fill.epoch == state.epoch(key));
                if let Some(kept) = &kept {
                    state.memory.insert(key, Rc::clone(kept));
                }
                return Some(Event::Prepared(fill, kept.map(stale_of)));
            }
            Action::AskRedisOnly => self.wait_for(Op::RedisOnly, (0, 50), None, context),
            Action::OpenBody if context.chance(96) => return Some(Event::BodyOpened(Some(Body))),
            Action::OpenBody => {
                self.faults += 1;
                return Some(Event::Failed { failure: "too large", status: 413, body: None });
            }
            Action::HoldBody(body, wait) => self.wait_for(Op::Hold(body), (0, 300), Some(wait), context),
            Action::BeginPost => return Some(Event::PostBegun(Some(context.world.fill_alone(key)))),
            Action::TakePlace(_, wait) => self.wait_for(Op::Place, (0, 150), Some(wait), context),
            Action::Send { body, condition, wait } => self.send(body, condition, wait, context),
            Action::SendAgain { body, condition } => {
                let wait = self.wait.expect("it was sent before");
                self.send(body, condition, wait, context);
            }
            Action::AwaitEnd(within) => {
                let within = u64::try_from(within.as_millis()).unwrap();
                self.wait_for(Op::End, (0, within), None, context);
            }
            Action::ReportStuck => return Some(Event::Reported),
            Action::Drain { within, .. } => {
                let within = u64::try_from(within.as_millis()).unwrap();
                self.wait_for(Op::Drain, (0, within), None, context);
            }
            action => return Some(self.act_on_answer(action, context)),
        }
        None
    }
}

/// A stored response that needs validation.
pub(super) fn stale_of(stored: Rc<Content>) -> Stale<Model> {
    Stale { received_ms: stored.received, has_validator: true, stored }
}

fn adopt(fill: Fill, redis: Option<Rc<Content>>, context: &Context<'_>) -> Adopted<Model> {
    let found = redis.expect("it serves");
    let is_valid = {
        let state = &mut *context.world.0.borrow_mut();
        let is_valid = state.epoch(fill.key) == fill.epoch;
        if is_valid {
            state.memory.insert(fill.key, Rc::clone(&found));
        }
        is_valid
    };
    if !is_valid {
        return Adopted::Invalidated(fill, None);
    }
    fill.land(Outcome::Stored(Rc::clone(&found)));
    Adopted::Landed(found)
}
