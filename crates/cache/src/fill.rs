//! What a leader does with the answer it got: record it, update a stored response, or let it pass.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AGE, CONTENT_LOCATION, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};

use crate::collapse::Landing;
use crate::policy::control::Control;
use crate::policy::freshness::Freshness;
use crate::policy::storing::{Candidate, Plan};
use crate::policy::{PolicyOptions, RouteRules, Timestamp, Timing, Unstored, fields, reference};
use crate::stored::Stored;

/// The smallest buffer of a recording whose length is not known.
const FIRST_BUFFER_BYTES: u64 = 4096;

/// The right and the duty to fetch an answer. Dropping it hands both to the next request that waits.
#[derive(Debug)]
pub struct Fill {
    landing: Landing,
    method: Method,
    /// What is being validated.
    stale: Option<Arc<Stored>>,
}

/// Whether an answer is stored, known with its head.
#[derive(Debug)]
#[must_use = "a recorder that is dropped stores nothing"]
pub enum Decision {
    /// Give the body to the recorder on its way to the client.
    Store(Box<Recorder>),
    /// Just pass it on.
    Pass(Unstored),
}

/// What a 304 to a conditional request means.
#[derive(Debug)]
pub enum Validated {
    /// Answer from this response. `Set-Cookie` lines of the 304 are not in it: they belong to this client alone, and the
    /// caller adds them to its answer.
    Answer {
        /// The stored response with the fields of the 304.
        stored: Arc<Stored>,
        /// Why the updated response is for this client only, `None` if it was stored.
        unstored: Option<Unstored>,
    },
    /// The 304 is not about the stored response: ask again without conditions.
    Mismatch(Fill),
}

impl Fill {
    pub(crate) fn new(landing: Landing, method: Method) -> Self {
        Self { landing, method, stale: None }
    }

    /// The answer is to validate this response: it goes if the answer shows that it is outdated and is not stored itself.
    #[must_use]
    pub fn validating(self, stored: &Arc<Stored>) -> Self {
        Self { stale: Some(Arc::clone(stored)), ..self }
    }

    /// Decides about an answer other than 304 to our own condition. Those who wait for one that is not stored go on at once.
    ///
    /// `request` is what the client sent, `headers` what the service sent, both without the gateway's own fields: a
    /// `Vary` by a request id would otherwise never match.
    pub fn response(
        self,
        request: &HeaderMap,
        status: StatusCode,
        headers: &HeaderMap,
        timing: Timing,
        rules: RouteRules,
    ) -> Decision {
        if self.method == Method::HEAD {
            self.describe(request, status, headers, timing, rules);
        }
        let policy = self.landing.cache().policy();
        let candidate = Candidate { method: &self.method, request, status, response: headers, timing, rules, policy };
        let max_object_bytes = self.landing.cache().options().max_object_bytes;
        match candidate.plan() {
            Ok(plan) if plan.length.is_some_and(|length| length > max_object_bytes) => {
                Decision::Pass(self.pass_on(Unstored::TooLarge, status, timing.received))
            }
            Ok(plan) => Decision::Store(Box::new(Recorder::new(self.landing, status, headers, plan, timing))),
            Err(why) => Decision::Pass(self.pass_on(why, status, timing.received)),
        }
    }

    /// Decides about the answer to a POST, after [`Cache::invalidate`] was told of it: it is stored as what a GET gets if the
    /// service says that it is that, and for how long (RFC 9110 §9.3.3).
    ///
    /// [`Cache::invalidate`]: crate::Cache::invalidate
    pub fn posted(
        mut self,
        request: &HeaderMap,
        status: StatusCode,
        headers: &HeaderMap,
        timing: Timing,
        rules: RouteRules,
    ) -> Decision {
        let key = self.landing.key().as_key();
        let location = headers.get(CONTENT_LOCATION).and_then(|at| reference::resolve_same_origin(&key, at.as_bytes()));
        // RFC 9110 §8.7: with 200 and its own URI in Content-Location it is a representation of the target.
        if status != StatusCode::OK || location.as_deref() != Some(key.target) {
            return Decision::Pass(Unstored::Method);
        }
        self.landing.discount_own_invalidation();
        self.response(request, status, headers, timing, rules)
    }

    /// Takes a 304 to the condition made by [`Stored::make_conditional`] (RFC 9111 §4.3.4).
    ///
    /// The update is stored only if the updated response could have been stored as an answer to this very request, so
    /// that the fields of one user's 304 do not reach another user.
    pub fn not_modified(
        self,
        stored: &Arc<Stored>,
        request: &HeaderMap,
        headers: &HeaderMap,
        timing: Timing,
        rules: RouteRules,
    ) -> Validated {
        if !stored.validators().confirmed_by(headers) {
            return Validated::Mismatch(self);
        }
        // What a 304 leaves out is as it was stored; Age and Set-Cookie are never stored, but theirs count.
        let mut judged = stored.merged_headers(headers, timing);
        for name in [AGE, SET_COOKIE] {
            for value in headers.get_all(&name) {
                judged.append(name.clone(), value.clone());
            }
        }
        let policy = self.landing.cache().policy();
        let (updated, verdict) = update(stored, request, (headers, &judged), timing, (rules, policy));
        let unstored = self.replace(stored, &updated, verdict).err();
        match unstored {
            Some(why) => {
                self.pass_on(why, stored.status(), timing.received);
            }
            None => land(self.landing, &updated, timing.received),
        }
        Validated::Answer { stored: updated, unstored }
    }

    /// Lets the answer pass, for reasons of the caller's. Those who wait go on, each alone.
    pub fn pass(self) {
        self.landing.passed();
    }

    /// RFC 9111 §4.3.5: an answer to HEAD updates the stored response it describes, or shows that it is outdated.
    fn describe(
        &self,
        request: &HeaderMap,
        status: StatusCode,
        headers: &HeaderMap,
        timing: Timing,
        rules: RouteRules,
    ) {
        let key = self.landing.key();
        let Some(stored) = self.landing.cache().memory().select(&key.as_key(), request) else {
            return;
        };
        if status != StatusCode::OK || stored.status() != StatusCode::OK {
            return;
        }
        if stored.validators().described_by(headers, stored.headers()) {
            // Stricter than the RFC: other than 304, HEAD has all fields of GET (RFC 9110 §9.3.2), so what it does not say
            // about caching is not taken over from the stored response.
            let policy = self.landing.cache().policy();
            let (updated, verdict) = update(&stored, request, (headers, headers), timing, (rules, policy));
            if verdict.is_ok() {
                // Not replaced: it was invalidated or outgrew the store. HEAD itself is answered by the service.
                let _ = self.replace(&stored, &updated, verdict);
            }
        } else {
            self.landing.write(|cache| cache.memory().remove_variant(key, &stored));
        }
    }

    /// Puts an updated response in the place of the old one, if the verdict allows.
    fn replace(&self, old: &Arc<Stored>, new: &Arc<Stored>, verdict: Result<(), Unstored>) -> Result<(), Unstored> {
        let key = self.landing.key();
        let written = self.landing.write(|cache| match verdict {
            Ok(()) => match cache.memory().replace(key, old, new) {
                // Evicted, or replaced by an answer that may be newer than the one confirmed here.
                Ok(false) => Err(Unstored::Superseded),
                Ok(true) => Ok(()),
                Err(_) => Err(Unstored::TooLarge),
            },
            Err(why) => {
                // The service no longer wants it stored.
                if is_lasting(why) {
                    cache.memory().remove_variant(key, old);
                }
                Err(why)
            }
        });
        written.unwrap_or(Err(Unstored::Invalidated))
    }

    fn pass_on(self, why: Unstored, status: StatusCode, now: Timestamp) -> Unstored {
        // A failing service says nothing about its answers when it works.
        if is_lasting(why) && !status.is_server_error() {
            self.landing.cache().flights().remember_solo(self.landing.hash(), now);
            if let Some(stale) = &self.stale {
                // RFC 9111 §4.3.3: another answer came in its place, and that is not to be kept.
                self.landing.write(|cache| cache.memory().remove_variant(self.landing.key(), stale));
            }
        }
        self.landing.passed();
        why
    }
}

/// The stored response with the fields of `fresh`, and whether it may be stored as an answer to `request` that had the
/// fields `judged`.
fn update(
    stored: &Arc<Stored>,
    request: &HeaderMap,
    (fresh, judged): (&HeaderMap, &HeaderMap),
    timing: Timing,
    (rules, policy): (RouteRules, &PolicyOptions),
) -> (Arc<Stored>, Result<(), Unstored>) {
    let merged = stored.merged_headers(fresh, timing);
    let candidate =
        Candidate { method: &Method::GET, request, status: stored.status(), response: judged, timing, rules, policy };
    let (freshness, vary, verdict) = match candidate.plan() {
        Ok(plan) => (plan.freshness, stored.vary().and(&plan.vary), Ok(())),
        Err(why) => {
            let control = Control::of(judged, policy);
            let freshness = Freshness::of(judged, &control, timing, candidate.assumed(&control.directives));
            (freshness.unwrap_or_else(|| Freshness::stale(timing)), stored.vary().clone(), Err(why))
        }
    };
    (Arc::new(stored.with_headers(merged, freshness, vary)), verdict)
}

/// Whether the reason lies in the resource, so that the next answer will be no different.
fn is_lasting(why: Unstored) -> bool {
    match why {
        Unstored::NoStore
        | Unstored::Private
        | Unstored::SetCookie
        | Unstored::VaryAny
        | Unstored::VaryCookie
        | Unstored::VaryTooLong
        | Unstored::Malformed
        | Unstored::NoFreshness
        | Unstored::Stale
        | Unstored::TooLarge => true,
        Unstored::Method
        | Unstored::RequestBody
        | Unstored::Status
        | Unstored::RequestNoStore
        | Unstored::Authorization
        | Unstored::Credentials
        | Unstored::Busy
        | Unstored::Incomplete
        | Unstored::Invalidated
        | Unstored::Superseded => false,
    }
}

/// Lands a flight with a response that was just stored.
fn land(landing: Landing, stored: &Arc<Stored>, now: Timestamp) {
    let flights = landing.cache().flights();
    if stored.is_reusable(now) {
        flights.forget_solo(landing.hash());
        landing.stored(Arc::clone(stored));
    } else {
        // Everybody has to validate: nobody gains by waiting.
        flights.remember_solo(landing.hash(), now);
        landing.passed();
    }
}

/// Takes the body of an answer on its way to the client. Dropping it unfinished stores nothing, and the next request that
/// waits leads.
#[derive(Debug)]
pub struct Recorder {
    /// `None` once the recording was given up.
    landing: Option<Landing>,
    status: StatusCode,
    headers: HeaderMap,
    plan: Plan,
    timing: Timing,
    body: Vec<u8>,
    /// Bytes taken from the budget that all recordings share.
    reserved_bytes: u64,
    failure: Unstored,
}

impl Recorder {
    fn new(landing: Landing, status: StatusCode, headers: &HeaderMap, plan: Plan, timing: Timing) -> Self {
        Self {
            landing: Some(landing),
            status,
            headers: fields::to_store(headers),
            plan,
            timing,
            body: Vec::new(),
            reserved_bytes: 0,
            failure: Unstored::Incomplete,
        }
    }

    /// The remaining freshness lifetime that the response will have, for `Cache-Status`.
    pub fn ttl_s(&self, now: Timestamp) -> i64 {
        self.plan.freshness.ttl_s(self.plan.freshness.age_s(now))
    }

    /// Records the next bytes of the body. They are copied: a chunk may be a small slice of a large read buffer, which
    /// keeping it would keep.
    ///
    /// # Errors
    /// Why the recording is over: the body is too large or longer than announced, or too many are recorded at once. Further
    /// calls say the same; the answer itself goes on to the client.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Unstored> {
        let Some(landing) = &self.landing else {
            return Err(self.failure);
        };
        let options = landing.cache().options();
        let needed = self.body.len() as u64 + chunk.len() as u64;
        // An answer longer than announced is broken; it ends as incomplete.
        if needed > self.plan.length.unwrap_or(options.max_object_bytes) {
            let why = if self.plan.length.is_some() { Unstored::Incomplete } else { Unstored::TooLarge };
            return self.give_up(why);
        }
        if needed > self.reserved_bytes {
            let doubled = (self.reserved_bytes * 2).max(FIRST_BUFFER_BYTES).min(options.max_object_bytes).max(needed);
            let wanted = self.plan.length.unwrap_or(doubled);
            let more = wanted - self.reserved_bytes;
            if !landing.cache().recording().take(more) {
                return self.give_up(Unstored::Busy);
            }
            self.reserved_bytes = wanted;
            self.body.reserve_exact(usize::try_from(wanted).unwrap_or(usize::MAX) - self.body.len());
        }
        self.body.extend_from_slice(chunk);
        Ok(())
    }

    /// Stores the response, whose body is now complete, and wakes those who wait for it.
    ///
    /// # Errors
    /// Why it was not stored: the body is not as long as announced, too large, or the target was changed meanwhile.
    pub fn finish(mut self, now: Timestamp) -> Result<Arc<Stored>, Unstored> {
        if self.plan.length.is_some_and(|length| length != self.body.len() as u64) && self.landing.is_some() {
            // Those who wait are woken by the drop: another attempt may end well.
            return Err(Unstored::Incomplete);
        }
        let Some(landing) = self.landing.take() else {
            return Err(self.failure);
        };
        let mut body = std::mem::take(&mut self.body);
        body.shrink_to_fit();
        let headers = std::mem::take(&mut self.headers);
        let stored = Stored::new(self.status, headers, Bytes::from(body), self.plan.clone(), self.timing);
        self.release(&landing);
        let stored = Arc::new(stored);
        match landing.write(|cache| cache.memory().put(landing.key().clone(), &stored)) {
            None => Err(Unstored::Invalidated),
            Some(Err(_)) => {
                landing.stored(stored);
                Err(Unstored::TooLarge)
            }
            Some(Ok(())) => {
                land(landing, &stored, now);
                Ok(stored)
            }
        }
    }

    fn give_up(&mut self, why: Unstored) -> Result<(), Unstored> {
        self.failure = why;
        self.body = Vec::new();
        if let Some(landing) = self.landing.take() {
            self.release(&landing);
            if is_lasting(why) {
                landing.cache().flights().remember_solo(landing.hash(), self.timing.received);
            }
            landing.passed();
        }
        Err(why)
    }

    fn release(&mut self, landing: &Landing) {
        landing.cache().recording().give_back(std::mem::take(&mut self.reserved_bytes));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(landing) = self.landing.take() {
            self.release(&landing);
        }
    }
}
