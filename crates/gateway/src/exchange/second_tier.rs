//! The tier in Redis, between memory and the service: the leader of a flight asks it for all that wait.

use std::sync::Arc;

use pilotlight_cache::{Adopted, Fill};
use pilotlight_cache_redis::Asked;
use pilotlight_exchange::{Adopted as Landed, Event, Found, Keep, RedisReply, Tier as Tiers};

use super::handles::{Ours, stale};
use super::inbound::Inbound;
use crate::cache_key;
use crate::lookup::{RedisLookup, now, received, tiers};
use crate::timing::Layer;

impl Inbound {
    /// Whether the leader of a flight asks Redis.
    pub(super) fn tier_for(&self, fill: &Fill) -> Tiers {
        match tiers(&self.worker) {
            Some(_) if fill.is_worth_sharing(now()) => Tiers::AsksRedis,
            _ => Tiers::AsksService,
        }
    }

    /// A flight for which Redis was asked.
    pub(super) fn asked(&self, lookup: RedisLookup) -> (Box<Fill>, RedisReply<Ours>) {
        let RedisLookup { fill, asked } = lookup;
        let answer = match asked.ticket {
            // No response: nothing is known about what may be written, either.
            None => RedisReply::Silent,
            Some(_) => {
                let found = self.found(&fill, &asked);
                RedisReply::Answered { redis: Box::new(asked), is_shared: fill.is_shared(), found }
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
        let Some((tier, _)) = tiers(&self.worker) else { return Event::Redis(fill, RedisReply::Silent) };
        let lookup = RedisLookup::ask(tier, *fill, self.head().headers()).await;
        self.record.end_named(Layer::Cache, "redis");
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
