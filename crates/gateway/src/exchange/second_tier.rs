//! The tier in Redis, between memory and the service: the leader of a flight asks it for all that wait.

use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, Method};
use pilotlight_cache::{Adopted, Cache, CacheStatus, Fill, Stored, Timestamp, Turn};
use pilotlight_cache_redis::{Asked, Tier};

use super::{Inbound, Parted, now};
use crate::cache_key::{self, CacheKey};
use crate::metrics::Verdict;
use crate::options::RouteSpec;
use crate::problem::Failure;
use crate::target::Origin;
use crate::timing::Layer;
use crate::worker::Worker;

/// What is between memory and the services, if anything is.
fn tiers(worker: &Worker) -> Option<(&Rc<Tier>, &Cache)> {
    worker.second.as_ref().zip(worker.common.cache.as_ref())
}

/// What a GET that memory cannot answer needs to be answered from Redis. Those who wait for others, or go alone, have
/// nothing of it.
pub(crate) fn lead<'a>(
    worker: &'a Worker,
    route: &RouteSpec,
    (origin, target): (Origin<'_>, &str),
    headers: &HeaderMap,
    now: Timestamp,
) -> Option<(&'a Rc<Tier>, Fill)> {
    let (tier, cache) = tiers(worker)?;
    let key = CacheKey::of(cache_key::control(route), origin, target, headers).ok()?;
    match cache.begin(&key.as_key(), &Method::GET, headers, now) {
        Turn::Leader(fill) => Some((tier, fill)).filter(|(_, fill)| fill.is_shared()),
        Turn::Hit(_) | Turn::Failed(_) | Turn::Follower(_) | Turn::Live(_) => None,
    }
}

/// What an answer from Redis says of where it comes from.
pub(crate) fn hit_in_redis(stored: &Stored, now: Timestamp) -> CacheStatus {
    CacheStatus::hit(stored.ttl_s(now)).detailed("redis")
}

/// A flight for which Redis was asked, and what it had.
pub(crate) struct RedisLookup {
    fill: Fill,
    asked: Asked,
}

impl RedisLookup {
    /// Asks for what the flight is to land with.
    pub(crate) async fn ask(tier: &Tier, fill: Fill, headers: &HeaderMap) -> Self {
        let asked = tier.ask(&fill.key(), headers, now()).await;
        Self { fill, asked }
    }

    /// The length of the body that was found.
    pub(crate) fn body_len(&self) -> Option<usize> {
        self.asked.stored.as_ref().map(|found| found.body().len())
    }

    /// For this request?
    pub(crate) fn is_for(&self, key: &CacheKey<'_>) -> bool {
        self.fill.key() == key.as_key()
    }

    /// Lands the flight with what was found, if that answers the request and is no older than what memory has.
    pub(crate) fn land(
        mut self,
        cache: &Cache,
        headers: &HeaderMap,
        stale: Option<&Arc<Stored>>,
    ) -> Result<Arc<Stored>, Box<Self>> {
        let serves = self.serves(cache, headers, stale);
        let Some(found) = self.asked.stored.take_if(|_| serves) else { return Err(Box::new(self)) };
        match self.fill.adopt(found, now()) {
            Adopted::Landed(stored) => Ok(stored),
            Adopted::Invalidated(fill) => Err(Box::new(Self { fill, ..self })),
        }
    }

    fn serves(&self, cache: &Cache, headers: &HeaderMap, stale: Option<&Arc<Stored>>) -> bool {
        let Some(found) = &self.asked.stored else { return false };
        // RFC 9111 §4: of two responses the most recent one is used. Redis may have lost the last writes (a failover),
        // or never have got them.
        let is_older = stale.is_some_and(|stale| received(found) < received(stale));
        !is_older && cache.serves(&self.fill.key(), found, headers, now())
    }
}

fn received(stored: &Stored) -> Timestamp {
    stored.freshness_parts().received
}

/// What the second tier leads to.
pub(super) enum Second {
    /// It had the answer.
    Answer(Parted),
    /// The service is to be asked, conditionally if there is a stored response.
    Ask(Fill, Option<Arc<Stored>>),
}

impl Inbound<'_> {
    /// Asks Redis before the service is asked. `stale` is what memory has.
    pub(super) async fn second_tier(&self, fill: Fill, stale: Option<Arc<Stored>>) -> Second {
        let Some((tier, cache)) = tiers(self.worker).filter(|_| fill.is_worth_sharing(now())) else {
            return Second::Ask(fill, stale);
        };
        // In a box of its own: no other request pays for the size of what asking Redis needs.
        let asked = Box::pin(async {
            let asked = RedisLookup::ask(tier, fill, self.head().headers()).await;
            self.use_redis((tier, cache), asked, stale).await
        });
        let second = asked.await;
        self.record.end_phase(Layer::Cache);
        second
    }

    /// Goes on where Redis was asked before there was a request.
    pub(super) async fn go_on(&self, asked: RedisLookup, stale: Option<Arc<Stored>>) -> Second {
        let Some(tiers) = tiers(self.worker) else { return Second::Ask(asked.fill, stale) };
        let second = Box::pin(self.use_redis(tiers, asked, stale)).await;
        self.record.end_phase(Layer::Cache);
        second
    }

    async fn use_redis(
        &self,
        (tier, cache): (&Rc<Tier>, &Cache),
        mut redis: RedisLookup,
        stale: Option<Arc<Stored>>,
    ) -> Second {
        let headers = self.head().headers();
        // No answer: nothing is known about what may be written, either.
        let Some(mut ticket) = redis.asked.ticket.take() else { return Second::Ask(redis.fill, stale) };
        if redis.fill.is_shared() && !redis.serves(cache, headers, stale.as_ref()) {
            let first_byte = self.first_byte();
            first_byte.service_turn(); // another gateway's service takes as long as this one's may
            let key = redis.fill.key();
            let lead = tier.lead(&mut ticket, &key, headers, now);
            if let Some(Some(theirs)) = first_byte.within(lead).await {
                redis.asked.stored = Some(theirs);
            }
        }
        let RedisLookup { mut fill, asked } = match redis.land(cache, headers, stale.as_ref()) {
            Ok(stored) => return Second::Answer(self.hit_in_redis(&stored)),
            Err(redis) => *redis,
        };
        let is_better = |found: &Arc<Stored>| {
            // Without a validator it is of use only in place of an error.
            (found.has_validator() || found.freshness_parts().stale_use_ms() > 0)
                && found.is_selected_by(headers)
                && stale.as_ref().is_none_or(|stale| received(stale) < received(found))
        };
        // In memory, so that the service's 304 has something to update, and an error something to be replaced by.
        let stale = asked.stored.filter(|found| is_better(found) && fill.keep(found)).or(stale);
        fill.write_behind(Box::new(ticket));
        Second::Ask(fill, stale)
    }

    /// RFC 9111 §5.2.1.7: what Redis has is stored as well; the service is not asked.
    pub(super) async fn only_if_cached(&self) -> Result<Parted, Failure> {
        let Some((tier, cache)) = tiers(self.worker) else { return Err(Failure::OnlyIfCached) };
        let Ok(key) = self.key() else { return Err(Failure::OnlyIfCached) };
        let key = key.as_key();
        let headers = self.head().headers();
        // What a rule sends past the cache is answered from no tier of it.
        let bypass = cache_key::control(&self.route).map(|control| &control.bypass);
        if bypass.is_some_and(|rules| rules.applies(&self.head().method, self.head().target(), headers).is_some()) {
            return Err(Failure::OnlyIfCached);
        }
        let asked = tier.ask(&key, headers, now()).await;
        self.record.end_phase(Layer::Cache);
        match asked.stored.filter(|stored| cache.serves(&key, stored, headers, now())) {
            Some(stored) => Ok(self.hit_in_redis(&stored)),
            None => Err(Failure::OnlyIfCached),
        }
    }

    fn hit_in_redis(&self, stored: &Stored) -> Parted {
        self.record.verdict(Verdict::Redis);
        self.answer_from(stored, Some(hit_in_redis(stored, now())))
    }
}
