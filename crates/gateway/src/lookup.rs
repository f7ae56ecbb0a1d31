//! What the cache has for a request: memory first, then Redis, which the leader of a flight asks for all that wait.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, Method};
use pilotlight_cache::{
    Adopted, Cache, CacheStatus, Fill, Forward, Lookup, RequestDirectives, Stored, Timestamp, Turn,
};
use pilotlight_cache_redis::{Asked, Tier};

use crate::cache_key::{self, CacheKey};
use crate::options::{RouteCache, RouteSpec};
use crate::target::RequestUrl;
use crate::worker::{Common, Worker};

/// The time of day.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// A request, as far as the cache looks at it.
#[derive(Clone, Copy)]
pub(crate) struct CacheRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) url: RequestUrl<'a>,
    pub(crate) headers: &'a HeaderMap,
    /// A fact of its framing: fields do not tell, since those of the connection have been taken off.
    pub(crate) has_content: bool,
}

/// What the cache has for a request; `None` where the route does not use it.
pub(crate) fn look_up(common: &Common, route: &RouteSpec, request: CacheRequest<'_>, now: Timestamp) -> Option<Lookup> {
    let RouteCache::On { control, .. } = &route.cache else { return None };
    let cache = common.cache.as_ref()?;
    let control = control.as_deref();
    let CacheRequest { method, url, headers, has_content } = request;
    // RFC 9111 §5.2.1.7: whoever wants nothing but a stored response is not sent to the service by a rule either.
    let past = |why| match is_stored_method(method) && RequestDirectives::parse(headers).only_if_cached {
        true => Lookup::OnlyIfCached,
        false => Lookup::Bypass(why),
    };
    if let Some(control) = control
        && control.bypass.applies(method, url.target, headers).is_some()
    {
        return Some(past(Forward::Rule));
    }
    // RFC 9110 §9.3.1: content is in no key, and what a service makes of it is no other client's.
    if has_content && is_stored_method(method) {
        return Some(past(Forward::RequestBody));
    }
    Some(match CacheKey::of(control, url, headers) {
        Ok(key) => cache.lookup(&key.as_key(), method, headers, now),
        Err(why) => past(why),
    })
}

/// RFC 9111 §2: methods whose responses may come from the cache.
fn is_stored_method(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// What is between memory and the services, if anything is.
pub(crate) fn tiers(worker: &Worker) -> Option<(&Rc<Tier>, &Cache)> {
    worker.second.as_ref().zip(worker.common.cache.as_ref())
}

/// What a GET that memory cannot answer needs to be answered from Redis. Those who wait for others, or go alone, have
/// nothing of it.
pub(crate) fn lead<'a>(
    worker: &'a Worker,
    route: &RouteSpec,
    url: RequestUrl<'_>,
    headers: &HeaderMap,
    now: Timestamp,
) -> Option<(&'a Rc<Tier>, Fill)> {
    let (tier, cache) = tiers(worker)?;
    let key = CacheKey::of(cache_key::control(route), url, headers).ok()?;
    match cache.begin(&key.as_key(), &Method::GET, headers, now) {
        Turn::Leader(fill) => Some((tier, fill)).filter(|(_, fill)| fill.is_shared()),
        Turn::Hit(_) | Turn::Failed(_) | Turn::Follower(_) | Turn::Live(_) => None,
    }
}

/// What a response from Redis says of where it comes from.
pub(crate) fn hit_in_redis(stored: &Stored, now: Timestamp) -> CacheStatus {
    CacheStatus::hit(stored.ttl_s(now)).detailed("redis")
}

/// A flight for which Redis was asked, and what it had.
pub(crate) struct RedisLookup {
    pub(crate) fill: Fill,
    pub(crate) asked: Asked,
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

/// When it was received.
pub(crate) fn received(stored: &Stored) -> Timestamp {
    stored.freshness_parts().received
}
