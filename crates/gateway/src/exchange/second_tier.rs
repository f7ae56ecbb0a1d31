//! The tier in Redis, between memory and the service: the leader of a flight asks it for all that wait.

use std::rc::Rc;
use std::sync::Arc;

use http::request::Parts;
use pilotlight_cache::{Adopted, Cache, CacheStatus, Fill, Stored};
use pilotlight_cache_redis::{Asked, Tier};

use super::{Inbound, Parted, now, target};
use crate::cache_key;
use crate::metrics::Verdict;
use crate::problem::Failure;
use crate::timing::Layer;

/// `detail` of `Cache-Status` where the answer was in Redis.
const DETAIL: &str = "redis";

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
        let Some((tier, cache)) = self.tiers().filter(|_| fill.is_worth_sharing(now())) else {
            return Second::Ask(fill, stale);
        };
        // In a box of its own: no other request pays for the size of what asking Redis needs.
        let asked = Box::pin(self.ask_redis((tier, cache), fill, stale)).await;
        self.record.lap(Layer::Cache);
        asked
    }

    async fn ask_redis(
        &self,
        (tier, cache): (&Rc<Tier>, &Cache),
        mut fill: Fill,
        stale: Option<Arc<Stored>>,
    ) -> Second {
        let headers = &self.parts().headers;
        let Asked { mut stored, ticket } = tier.ask(&fill.key(), headers, now()).await;
        // No answer: nothing is known about what may be written, either.
        let Some(mut ticket) = ticket else { return Second::Ask(fill, stale) };
        let received = |stored: &Arc<Stored>| stored.freshness_parts().received;
        // RFC 9111 §4: of two responses the most recent one is used. Redis may have lost the last writes (a failover), or never have got them.
        let is_older = |found: &Arc<Stored>| stale.as_ref().is_some_and(|stale| received(found) < received(stale));
        let serves =
            |fill: &Fill, found: &Arc<Stored>| !is_older(found) && cache.serves(&fill.key(), found, headers, now());
        if fill.is_shared() && !stored.as_ref().is_some_and(|found| serves(&fill, found)) {
            let patience = self.first_byte();
            patience.service_turn(); // another gateway's service takes as long as this one's may
            let key = fill.key();
            let lead = tier.lead(&mut ticket, &key, headers, now);
            if let Some(Some(theirs)) = patience.within(lead).await {
                stored = Some(theirs);
            }
        }
        if let Some(found) = stored.take_if(|found| serves(&fill, found)) {
            match fill.adopt(found, now()) {
                Adopted::Landed(stored) => return Second::Answer(self.hit_in_redis(&stored)),
                Adopted::Invalidated(again) => fill = again,
            }
        }
        let is_better = |found: &Arc<Stored>| {
            // Without a validator it is of use only in place of an error.
            (found.has_validator() || found.freshness_parts().stale_use_ms() > 0)
                && found.is_selected_by(headers)
                && stale.as_ref().is_none_or(|stale| received(stale) < received(found))
        };
        // In memory, so that the service's 304 has something to update, and an error something to be replaced by.
        let stale = stored.filter(|found| is_better(found) && fill.keep(found)).or(stale);
        fill.write_behind(Box::new(ticket));
        Second::Ask(fill, stale)
    }

    /// RFC 9111 §5.2.1.7: what Redis has is stored as well; the service is not asked.
    pub(super) async fn only_if_cached(&self) -> Result<Parted, Failure> {
        let Some((tier, cache)) = self.tiers() else { return Err(Failure::OnlyIfCached) };
        let Ok(key) = self.key() else { return Err(Failure::OnlyIfCached) };
        let key = key.as_key();
        let Parts { method, uri, headers, .. } = self.parts();
        // What a rule sends past the cache is answered from no tier of it.
        let bypass = cache_key::control(&self.route).map(|control| &control.bypass);
        if bypass.is_some_and(|rules| rules.applies(method, target(uri), headers).is_some()) {
            return Err(Failure::OnlyIfCached);
        }
        let asked = tier.ask(&key, headers, now()).await;
        self.record.lap(Layer::Cache);
        match asked.stored.filter(|stored| cache.serves(&key, stored, headers, now())) {
            Some(stored) => Ok(self.hit_in_redis(&stored)),
            None => Err(Failure::OnlyIfCached),
        }
    }

    fn tiers(&self) -> Option<(&Rc<Tier>, &Cache)> {
        self.worker.second.as_ref().zip(self.worker.common.cache.as_ref())
    }

    fn hit_in_redis(&self, stored: &Stored) -> Parted {
        self.record.verdict(Verdict::Redis);
        let status = CacheStatus::hit(stored.ttl_s(now())).detailed(DETAIL);
        self.answer_from(stored, Some(status))
    }
}
