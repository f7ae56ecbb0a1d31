//! Hits in Redis are answered as those in memory are ([`super::hits`]).
//!
//! ```text
//!  head, nothing fresh in memory ──▶ PendingLookup ──▶ answer written, next head
//!                                      │ Redis has nothing that answers, or does not answer
//!                                      ▼
//!                                    RedisMiss: a request, whose exchange goes on from there
//! ```
//!
//! For each connection Redis is asked for one request at a time, and for no longer than [`Tier::ask`] waits
//! (`cache.redis.budget`). Nothing is read or looked at behind it meanwhile: answers keep the order of their requests,
//! and a client that has gone is found out afterwards.
//!
//! Invariant: Redis is asked once for a request, on one flight, whoever answers it. (`exchange/second_tier.rs`
//! decides.)
//! Invariant: whether or not the client takes its responses, a flight goes on as soon as Redis has answered.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pilotlight_cache::{Fill, Stored};
use pilotlight_cache_redis::Tier;

use super::Client;
use super::hits::{self, MAX_BODY};
use super::pending_lookup::LookupRequest;
use super::received::{ReceivedRequest, RedisMiss};
use crate::admission::Checked;
use crate::head::Head;
use crate::lookup::{self, RedisLookup};
use crate::scratch::Scratch;
use crate::timing::Moment;
use crate::worker::Worker;

/// What has become of a [`super::pending_lookup::PendingLookup`].
pub(super) enum LookedUp {
    /// It was a hit, whose response was written by then.
    Hit(Moment),
    /// It is a request as any other.
    Other(Box<ReceivedRequest>),
}

impl Client {
    /// Asks Redis for what a flight is to land with.
    pub(super) fn ask(&self, tier: &Rc<Tier>, fill: Fill, request: LookupRequest) {
        let tier = Rc::clone(tier);
        let lookup = async move { (RedisLookup::ask(&tier, fill, &request.headers).await, request) };
        *self.pending_lookup.borrow_mut() = Some(Box::pin(lookup));
    }

    /// Whether Redis is being asked for a request.
    pub(crate) fn has_pending_lookup(&self) -> bool {
        self.pending_lookup.borrow().is_some()
    }

    /// Goes on with the request for which Redis is being asked; pending if there is none.
    #[inline(never)] // hits in memory do not pay for it
    pub(super) fn poll_lookup(&self, cx: &mut Context<'_>, worker: &Worker, scratch: &mut Scratch) -> Poll<LookedUp> {
        let mut pending = self.pending_lookup.borrow_mut();
        let Some(lookup) = pending.as_mut() else { return Poll::Pending };
        let (redis, request) = ready!(lookup.as_mut().poll(cx));
        *pending = None;
        Poll::Ready(match land(worker, redis, &request) {
            Ok(stored) => {
                let written = self.write(worker, &request, &stored);
                scratch.headers = request.headers; // warm memory, for the next head
                LookedUp::Hit(written)
            }
            Err(redis) => LookedUp::Other(Box::new(request.received(redis))),
        })
    }

    fn write(&self, worker: &Worker, request: &LookupRequest, stored: &Stored) -> Moment {
        let now = lookup::now();
        let io = &mut *self.io.borrow_mut();
        stored.write_response_as(lookup::hit_in_redis(stored, now), now, &mut io.out);
        // It is a response to the request for which Redis was asked.
        let _ = io.http.sent_whole();
        let written = Moment::now();
        hits::count(worker, self, request, stored, written);
        written
    }
}

impl LookupRequest {
    fn received(self, redis: Box<RedisLookup>) -> ReceivedRequest {
        let head = Head::get(self.target, self.authority, self.headers);
        let redis = RedisMiss { redis, asked: self.asked, answered: Moment::now() };
        ReceivedRequest {
            head,
            body: None,
            begun: self.begun,
            read: self.asked,
            checked: Checked::Granted,
            known: None,
            redis: Some(redis),
        }
    }
}

/// A hit, if it is one and may be written here.
fn land(worker: &Worker, redis: RedisLookup, request: &LookupRequest) -> Result<Arc<Stored>, Box<RedisLookup>> {
    // The last response on a connection says so.
    let fits = redis.body_len().is_some_and(|length| length <= MAX_BODY);
    let is_written_here = fits && !worker.is_leaving() && !request.route.changes_responses;
    match &worker.common.cache {
        Some(cache) if is_written_here => redis.land(cache, &request.headers, request.stale.as_ref()),
        _ => Err(Box::new(redis)),
    }
}
