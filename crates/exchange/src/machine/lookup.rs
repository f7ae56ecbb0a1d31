//! What memory's word leads to, and the flight (RFC 9111 §4: requests for the same may be collapsed into one).

use std::time::Instant;

use super::{Asking, Exchange, State};
use crate::action::{Action, Refusal, Response, Status, Verdict};
use crate::event::{Lookup, OnlyIfCached, RedisReply, Tier, Turn};
use crate::handles::Handles;
use crate::request::Method;
use crate::wait::Wait;

impl<H: Handles> Exchange<H> {
    /// What memory has decides. A fill for which Redis was asked is dropped where it is of no use any more: memory, or
    /// the rules of the route, have changed meanwhile.
    pub(super) fn look(
        &mut self,
        lookup: Lookup<H>,
        redis: Option<(H::Fill, RedisReply<H>)>,
        now: Instant,
    ) -> Action<H> {
        let asking = match lookup {
            Lookup::Refused { failure, status } => {
                return self.finish(Response::Failure(Refusal::Given(failure, status)));
            }
            Lookup::Hit(stored) => {
                self.verdict = Verdict::Hit;
                return self.at_once(Response::Stored(stored, Status::Hit));
            }
            // RFC 5861 §3: answered now, revalidated beside.
            Lookup::StaleWhileRevalidate(stored) => {
                self.verdict = Verdict::Stale;
                self.state = State::Refreshing(stored.clone());
                return Action::Refresh(stored);
            }
            Lookup::Off(why) => return self.pass(why, self.request.has_cache),
            Lookup::Bypass { why, is_by_method } => return self.bypass(why, is_by_method),
            Lookup::OnlyIfCached(from) => return self.only_if_cached(from),
            Lookup::Refresh(fill, tier, stale, why) => {
                return self.lead(Asking { why, stale: Some(stale) }, fill, tier);
            }
            Lookup::Miss(why) => Asking { why, stale: None },
            Lookup::Stale(stale, why) => Asking { why, stale: Some(stale) },
        };
        self.verdict = Verdict::Miss;
        match redis {
            Some((fill, answer)) => self.redis(asking, fill, answer, now),
            None => {
                self.state = State::Turn(asking, self.wait_for_other(now));
                Action::TakeTurn
            }
        }
    }

    /// The response is not that of a GET. That of a POST may say that it is one for later GETs (RFC 9110 §9.3.3),
    /// unless the route keeps the request away from the cache.
    fn bypass(&mut self, why: H::Why, is_by_method: bool) -> Action<H> {
        self.verdict = Verdict::Bypass;
        let may_post = is_by_method && self.request.method == Method::Post && self.request.has_cache;
        if may_post { self.begin_post(why) } else { self.pass(why, self.request.has_cache) }
    }

    /// RFC 9111 §5.2.1.7: what Redis has is stored as well; the service is not asked.
    fn only_if_cached(&mut self, from: OnlyIfCached) -> Action<H> {
        match from {
            OnlyIfCached::MemoryOnly => self.finish(Response::Failure(Refusal::OnlyIfCached)),
            OnlyIfCached::RedisToo => {
                self.state = State::RedisOnly;
                Action::AskRedisOnly
            }
        }
    }

    pub(super) fn turn(&mut self, asking: Asking<H>, wait: Wait, turn: Turn<H>) -> Action<H> {
        let why = asking.why;
        match turn {
            Turn::Lead(fill, tier) => self.lead(asking, fill, tier),
            // The same wait for all that it waits for.
            Turn::Follow(place) => {
                self.state = State::Turn(asking, wait);
                Action::Follow(place, wait)
            }
            Turn::Alone => self.pass(why, false),
            Turn::Hit(stored) => {
                self.verdict = Verdict::Collapsed;
                self.finish(Response::Stored(stored, Status::Collapsed(why)))
            }
            Turn::Live(live) => {
                self.verdict = Verdict::Collapsed;
                self.finish(Response::Live(live, why))
            }
            // RFC 5861 §4: who may use what the leader used does not ask a service that has just failed.
            Turn::Failed(stored) => {
                self.verdict = Verdict::Stale;
                self.finish(Response::Stored(stored, Status::CollapsedStale(why)))
            }
        }
    }

    fn lead(&mut self, asking: Asking<H>, fill: H::Fill, tier: Tier) -> Action<H> {
        match tier {
            Tier::AsksRedis => {
                self.state = State::Redis(asking);
                Action::AskRedis(fill)
            }
            Tier::AsksService => self.fill(asking, fill),
        }
    }
}
