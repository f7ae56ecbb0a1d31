//! Hits in Redis are answered before hyper sees them, as those in memory are ([`super::hits`]).
//!
//! ```text
//!  head, nothing fresh in memory ──▶ Asking ──▶ answer written, next head
//!                                      │ Redis has nothing that answers, or does not answer
//!                                      ▼
//!                                    Ahead: hyper gets the head, and its exchange goes on from there
//! ```
//!
//! For each connection Redis is asked for one request at a time, and for no longer than [`Tier::ask`] waits (`cache.redis.budget`). The head stays
//! among the unread bytes meanwhile, and nothing is read or looked at behind it: answers keep the order of their requests, and a client that has
//! gone is found out afterwards.
//!
//! Invariant: Redis is asked once for a request, on one flight, whoever answers it. (`exchange/second_tier.rs` decides.)
//! Invariant: whether or not the client takes its answers, a flight goes on as soon as Redis has answered.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::HeaderMap;
use pilotlight_cache::{Fill, Stored};
use pilotlight_cache_redis::Tier;

use super::Client;
use super::hits::{self, Desk, MAX_BODY};
use crate::exchange::{self, AskedRedis};
use crate::routes::Route;
use crate::timing::Moment;
use crate::worker::Worker;

/// A request for which Redis is being asked: what it had, and the request.
pub(super) type Asking = Pin<Box<dyn Future<Output = (AskedRedis, Asked)>>>;

pub(super) struct Asked {
    /// Of the head.
    length: usize,
    headers: HeaderMap,
    /// When its first byte came.
    begun: Moment,
    /// When Redis was asked.
    asked: Moment,
    route: Arc<Route>,
    /// What memory had.
    stale: Option<Arc<Stored>>,
    /// Only for the access log.
    target: Option<Box<str>>,
}

/// What has become of an [`Asking`].
pub(super) enum Turned {
    /// It was a hit: so many bytes of head, whose answer was written by then.
    Hit(usize, Moment),
    /// It is hyper's: so many bytes of head, which began to come then.
    Other(usize, Moment),
}

/// What Redis had for a request that hyper gets.
pub(crate) struct Ahead {
    pub(crate) redis: Box<AskedRedis>,
    asked: Moment,
    answered: Moment,
}

impl Ahead {
    /// From when to when it was asked.
    pub(crate) fn between(&self) -> (Moment, Moment) {
        (self.asked, self.answered)
    }

    /// How long that took.
    pub(crate) fn took(&self) -> Duration {
        Duration::from_nanos(self.answered.since(self.asked))
    }
}

impl Client {
    /// Asks Redis for what a flight is to land with.
    pub(super) fn ask(
        &self,
        worker: &Worker,
        begun: Moment,
        route: &Arc<Route>,
        (target, length): (&str, usize),
        (headers, stale): (HeaderMap, Option<Arc<Stored>>),
        (tier, fill): (&Rc<Tier>, Fill),
    ) {
        let target = worker.access_log.is_some().then(|| target.into());
        let request = Asked { length, headers, begun, asked: Moment::now(), route: Arc::clone(route), stale, target };
        let tier = Rc::clone(tier);
        let asking = async move { (AskedRedis::ask(&tier, fill, &request.headers).await, request) };
        *self.asking.borrow_mut() = Some(Box::pin(asking));
    }

    /// Whether Redis is being asked for a request.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.borrow().is_some()
    }

    /// What Redis had for the request that hyper was given.
    pub(crate) fn take_ahead(&self) -> Option<Ahead> {
        self.ahead.take()
    }

    /// Goes on with the request for which Redis is being asked; pending if there is none.
    #[inline(never)] // hits in memory do not pay for it
    pub(super) fn poll_asking(&self, cx: &mut Context<'_>, worker: &Worker, desk: &mut Desk) -> Poll<Turned> {
        let mut asking = self.asking.borrow_mut();
        let Some(answer) = asking.as_mut() else { return Poll::Pending };
        let (redis, request) = ready!(answer.as_mut().poll(cx));
        *asking = None;
        let turned = match land(worker, redis, &request) {
            Ok(stored) => self.write(worker, &request, &stored),
            Err(redis) => {
                self.ahead.set(Some(Ahead { redis, asked: request.asked, answered: Moment::now() }));
                Turned::Other(request.length, request.begun)
            }
        };
        desk.headers = request.headers; // warm memory, for the next head
        Poll::Ready(turned)
    }

    fn write(&self, worker: &Worker, request: &Asked, stored: &Stored) -> Turned {
        let now = exchange::now();
        stored.write_answer_as(exchange::hit_in_redis(stored, now), now, &mut self.io.borrow_mut().out);
        let written = Moment::now();
        let Asked { length, headers, begun, route, target, .. } = request;
        let answer = (stored.status().as_u16(), stored.body().len() as u64);
        let asked = (&*self.peer, target.as_deref().unwrap_or_default(), headers);
        hits::count(worker, route, (*begun, written), asked, answer);
        Turned::Hit(*length, written)
    }
}

/// A hit, if it is one and may be written here.
fn land(worker: &Worker, redis: AskedRedis, request: &Asked) -> Result<Arc<Stored>, Box<AskedRedis>> {
    // hyper says that an answer is the last one.
    let is_hypers = worker.is_leaving() || redis.body_len().is_none_or(|length| length > MAX_BODY);
    match &worker.common.cache {
        Some(cache) if !is_hypers => redis.land(cache, &request.headers, request.stale.as_ref()),
        _ => Err(Box::new(redis)),
    }
}
