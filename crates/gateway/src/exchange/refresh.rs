//! Revalidation beside the client, who has been answered with what is stale (RFC 5861 §3).
//!
//! A refresh belongs to its worker: it ends when the worker begins to stop, and there are at most [`MAX_REFRESHES`] at
//! a time. For each stored response there is one, however many ask (the cache's flights see to that).

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{EXPECT, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use pilotlight_cache::{Fill, Forward, Stored};
use pilotlight_exchange::{Connection, Event, Lookup, MAX_REFRESHES, may_refresh};

use super::detached_fetch::DetachedFetch;
use super::handles::stale;
use super::inbound::{Caller, Inbound, IncomingRequest, Parted, Passage};
use crate::cache_key::{self, CacheKey};
use crate::downstream::Downstream;
use crate::head::Head;
use crate::lookup::now;
use crate::problem::Failure;
use crate::record::Record;
use crate::routes::Route;
use crate::target::{Origin, RequestUrl};
use crate::timing::{Moment, Timeline};
use crate::worker::Worker;

/// Begins to revalidate `stored` with the head of the request that it answers, unless that is under way.
pub(super) fn begin(
    worker: &Rc<Worker>,
    client: &dyn Downstream,
    route: &Arc<Route>,
    head: &Head,
    stored: &Arc<Stored>,
) {
    let (Some(cache), Some(passage)) = (&worker.common.cache, Passage::new(worker, route)) else { return };
    let Some(place) = RefreshPermit::take(worker) else {
        tracing::debug!(worker = worker.index, "a stale response is not refreshed now: {MAX_REFRESHES} others are");
        return;
    };
    let mut headers = head.headers().clone();
    // They are about the client's copy, or about a part of the response.
    for name in [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, EXPECT] {
        headers.remove(name);
    }
    // Of the request as it is: that is what the response was found under.
    let origin = Origin::of_head(head, client.hop(head));
    let key = CacheKey::of(cache_key::control(route), RequestUrl { origin, target: head.target() }, head.headers());
    let Some(fill) = key.ok().and_then(|key| cache.refresh(&key.as_key(), &headers, now())) else { return };
    let mut asks = Head::get(head.target().into(), head.authority().into(), headers);
    asks.version = head.version;
    let refresh =
        Refresh { place, caller: Caller::answered(client), passage, head: asks, fill, stored: Arc::clone(stored) };
    worker.spawner.spawn(refresh.run());
}

struct Refresh {
    place: RefreshPermit,
    caller: Caller,
    passage: Passage,
    head: Head,
    fill: Fill,
    stored: Arc<Stored>,
}

impl Refresh {
    async fn run(self) {
        let Self { place, caller, passage, head, fill, stored } = self;
        let worker = &place.0;
        let id = worker.ids.id(None);
        let record = Record::uncounted(worker, &passage.route.series, Timeline::new(Moment::now()));
        let detached_fetch = DetachedFetch::new(worker);
        let request = IncomingRequest { head, body: None, id: id.clone() };
        let mut inbound = Inbound::new(worker, caller, record, detached_fetch, passage, request);
        let mut end = pin!(worker.refreshes_end.notified());
        // Before the look at whether it has come already.
        end.as_mut().enable();
        if worker.is_stopping() {
            return;
        }
        let (filled, _) = tokio::select! {
            () = end => return,
            filled = inbound.refresh(fill, stored) => filled,
        };
        // What is stored is read to its end by its read-ahead, which needs no client; the rest nobody wants.
        if let Err(failure) = filled {
            let failure = failure.log_text();
            tracing::warn!(request_id = id.as_str(), "a stale response could not be refreshed: {failure}");
        }
    }
}

impl Inbound {
    /// Another gateway may have done it already.
    async fn refresh(&mut self, fill: Fill, stored: Arc<Stored>) -> (Result<Parted, Failure>, Connection) {
        self.stale = Some(Arc::clone(&stored));
        let tier = self.tier_for(&fill);
        let lookup = Lookup::Refresh(Box::new(fill), tier, stale(stored), Forward::Stale);
        self.respond(Event::Begin { lookup, redis: None }, Duration::ZERO).await
    }
}

/// One of a worker's [`MAX_REFRESHES`].
struct RefreshPermit(Rc<Worker>);

impl RefreshPermit {
    fn take(worker: &Rc<Worker>) -> Option<Self> {
        let taken = worker.refreshes.get();
        may_refresh(taken, worker.is_stopping()).then(|| {
            worker.refreshes.set(taken + 1);
            Self(Rc::clone(worker))
        })
    }
}

impl Drop for RefreshPermit {
    fn drop(&mut self) {
        self.0.refreshes.set(self.0.refreshes.get() - 1);
    }
}
