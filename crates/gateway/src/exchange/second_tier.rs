//! The tier in Redis, between memory and the service: the leader of a flight asks it for all that wait.

use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, Method};
use pilotlight_cache::{Adopted, Cache, CacheStatus, Fill, Stored, Timestamp, Turn};
use pilotlight_cache_redis::{Asked, Tier};
use pilotlight_exchange::{Adopted as Landed, Event, Found, Keep, RedisAnswer, Tier as Tiers};

use super::handles::{Ours, stale};
use super::inbound::{Inbound, now};
use crate::cache_key::{self, CacheKey};
use crate::options::RouteSpec;
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

impl Inbound {
    /// Whether the leader of a flight asks Redis.
    pub(super) fn tier_for(&self, fill: &Fill) -> Tiers {
        match tiers(&self.worker) {
            Some(_) if fill.is_worth_sharing(now()) => Tiers::AsksRedis,
            _ => Tiers::AsksService,
        }
    }

    /// A flight for which Redis was asked.
    pub(super) fn asked(&self, lookup: RedisLookup) -> (Box<Fill>, RedisAnswer<Ours>) {
        let RedisLookup { fill, asked } = lookup;
        let answer = match asked.ticket {
            // No answer: nothing is known about what may be written, either.
            None => RedisAnswer::Silent,
            Some(_) => {
                let found = self.found(&fill, &asked);
                RedisAnswer::Answered { redis: Box::new(asked), is_shared: fill.is_shared(), found }
            }
        };
        (Box::new(fill), answer)
    }

    fn found(&self, fill: &Fill, asked: &Asked) -> Option<Found> {
        let (found, (_, cache)) = (asked.stored.as_ref()?, tiers(&self.worker)?);
        let headers = self.head().headers();
        Some(Found {
            serves: cache.serves(&fill.key(), found, headers, now()),
            is_selected: found.is_selected_by(headers),
            // Without a validator it is of use only in place of an error.
            is_of_use: found.has_validator() || found.freshness_parts().stale_use_ms() > 0,
            received_ms: received(found).0,
        })
    }

    pub(super) async fn ask_redis(&self, fill: Box<Fill>) -> Event<Ours> {
        let Some((tier, _)) = tiers(&self.worker) else { return Event::Redis(fill, RedisAnswer::Silent) };
        let lookup = RedisLookup::ask(tier, *fill, self.head().headers()).await;
        self.record.end_phase(Layer::Cache);
        let (fill, answer) = self.asked(lookup);
        Event::Redis(fill, answer)
    }

    /// Another gateway may be asking its service, which takes as long as this one's may.
    pub(super) async fn await_lead(&self, fill: Box<Fill>, mut redis: Box<Asked>) -> Event<Ours> {
        let first_byte = self.new_wait();
        first_byte.service_turn();
        if let (Some((tier, _)), Some(ticket)) = (tiers(&self.worker), &mut redis.ticket) {
            let key = fill.key();
            let lead = tier.lead(ticket, &key, self.head().headers(), now);
            if let Some(Some(theirs)) = first_byte.within(lead).await {
                redis.stored = Some(theirs);
            }
        }
        self.record.end_phase(Layer::Cache);
        let found = self.found(&fill, &redis);
        Event::Lead(fill, redis, found)
    }

    pub(super) fn adopt(&self, fill: Fill, mut redis: Box<Asked>) -> Event<Ours> {
        let adopted = match redis.stored.take() {
            Some(stored) => fill.adopt(stored, now()),
            None => Adopted::Invalidated(fill),
        };
        self.record.end_phase(Layer::Cache);
        Event::Adopted(match adopted {
            Adopted::Landed(stored) => Landed::Landed(stored),
            Adopted::Invalidated(fill) => Landed::Invalidated(Box::new(fill), redis),
        })
    }

    /// Keeps what Redis has in memory, so that the service's 304 has something to update, and an error something to be
    /// replaced by.
    pub(super) fn prepare(&mut self, mut fill: Box<Fill>, redis: Asked, keep: Keep) -> Event<Ours> {
        let Asked { stored, ticket } = redis;
        let kept = stored.filter(|found| keep == Keep::Found && fill.keep(found));
        if let Some(ticket) = ticket {
            fill.write_behind(Box::new(ticket));
        }
        self.record.end_phase(Layer::Cache);
        if let Some(kept) = &kept {
            self.stale = Some(Arc::clone(kept));
        }
        Event::Prepared(fill, kept.map(stale))
    }

    /// Whether what Redis has may answer a request that wants nothing but a stored response.
    pub(super) fn has_second_tier_for_stored(&self) -> bool {
        let head = self.head();
        // What a rule sends past the cache is answered from no tier of it.
        let bypass = cache_key::control(&self.route).map(|control| &control.bypass);
        let is_sent_past =
            bypass.is_some_and(|rules| rules.applies(&head.method, head.target(), head.headers()).is_some());
        tiers(&self.worker).is_some() && self.key().is_ok() && !is_sent_past
    }

    /// RFC 9111 §5.2.1.7: what Redis has is stored as well; the service is not asked.
    pub(super) async fn ask_redis_only(&self) -> Event<Ours> {
        let (Some((tier, cache)), Ok(key)) = (tiers(&self.worker), self.key()) else { return Event::RedisOnly(None) };
        let (key, headers) = (key.as_key(), self.head().headers());
        let asked = tier.ask(&key, headers, now()).await;
        self.record.end_phase(Layer::Cache);
        Event::RedisOnly(asked.stored.filter(|stored| cache.serves(&key, stored, headers, now())))
    }
}
