//! What a leader does with the response it got: record it, update a stored response, or let it pass.

pub(crate) mod adopt;

use std::sync::Arc;

use http::header::{AGE, CACHE_CONTROL, CONTENT_LOCATION, EXPIRES, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};

use crate::flight::Watch;
use crate::leader::LeaderGuard;
use crate::policy::control::Control;
use crate::policy::freshness::Freshness;
use crate::policy::storing::Candidate;
use crate::policy::{RouteRules, Timestamp, Timing, Unstored, fields, reference};
use crate::purge::Mark;
use crate::recorder::{Recorded, Recorder};
use crate::stored::Stored;

/// The right and the duty to fetch a response. Dropping it hands both to the next request that waits.
#[derive(Debug)]
pub struct Fill {
    leader: LeaderGuard,
    method: Method,
    /// What is being validated.
    stale: Option<Arc<Stored>>,
}

/// Whether a response is stored, known with its head.
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
    /// Answer from this response. `Set-Cookie` lines of the 304 are not in it: they belong to this client alone, and
    /// the caller adds them to its response.
    Response {
        /// The stored response with the fields of the 304.
        stored: Arc<Stored>,
        /// Why the updated response is for this client only, `None` if it was stored.
        unstored: Option<Unstored>,
    },
    /// The 304 is not about the stored response: ask again without conditions.
    Mismatch(Fill),
}

impl Fill {
    pub(crate) fn new(leader: LeaderGuard, method: Method) -> Self {
        Self { leader, method, stale: None }
    }

    /// The response is to validate this response: it goes if the response shows that it is outdated and is not stored
    /// itself.
    #[must_use]
    pub fn validating(self, stored: &Arc<Stored>) -> Self {
        Self { stale: Some(Arc::clone(stored)), ..self }
    }

    /// Tells, now and later, whether others wait for this.
    pub fn watch(&self) -> Watch {
        self.leader.watch()
    }

    /// Decides about a response other than 304 to our own condition. Those who wait for one that is not stored go on at
    /// once.
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
        let policy = self.leader.state().policy();
        let candidate =
            Candidate { method: &self.method, request, status, response: headers, timing, rules, policy: &policy };
        let allowed = self.leader.state().options().max_object_bytes;
        let max_object_bytes = rules.max_object_bytes.map_or(allowed, |bytes| bytes.min(allowed));
        match candidate.plan() {
            Ok(plan) if plan.length.is_some_and(|length| length > max_object_bytes) => {
                Decision::Pass(self.pass_on(Unstored::TooLarge, status, timing.received))
            }
            Ok(plan) => {
                let headers = fields::to_store(headers);
                let response = Recorded { status, headers, plan, timing, max_object_bytes };
                Decision::Store(Box::new(Recorder::new(self.leader, response)))
            }
            Err(why) => Decision::Pass(self.pass_on(why, status, timing.received)),
        }
    }

    /// Decides about the response to a POST, after [`Cache::invalidate`] was told of it: it is stored as what a GET
    /// gets if the service says that it is that, and for how long (RFC 9110 §9.3.3).
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
        let key = self.leader.key().as_key();
        let location = headers.get(CONTENT_LOCATION).and_then(|at| reference::resolve_same_origin(&key, at.as_bytes()));
        // RFC 9110 §8.7: with 200 and its own URI in Content-Location it is a representation of the target.
        if status != StatusCode::OK || location.as_deref() != Some(key.target) {
            return Decision::Pass(Unstored::Method);
        }
        self.leader.discount_own_invalidation();
        self.response(request, status, headers, timing, rules)
    }

    /// Takes a 304 to the condition made by [`Stored::make_conditional`] (RFC 9111 §4.3.4).
    ///
    /// The update is stored only if the updated response could have been stored as a response to this very request, so
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
        let merged = stored.merged_headers(headers, timing);
        let mut judged = merged.clone();
        for name in [AGE, SET_COOKIE] {
            for value in headers.get_all(&name) {
                judged.append(name.clone(), value.clone());
            }
        }
        let mark = |merged: &HeaderMap| self.leader.mark(merged);
        let policy = self.leader.state().policy();
        let (method, status) = (&Method::GET, stored.status());
        let candidate = Candidate { method, request, status, response: &judged, timing, rules, policy: &policy };
        let (updated, verdict) = update(stored, &candidate, merged, mark);
        let unstored = self.replace(stored, &updated, verdict).err();
        match unstored {
            Some(why) => {
                self.pass_on(why, stored.status(), timing.received);
            }
            None => self.leader.land_stored(&updated, timing.received),
        }
        Validated::Response { stored: updated, unstored }
    }

    /// Lets a response pass because the route does not want it stored ([`crate::StoreRules::refuses`]).
    pub fn refuse(self, why: Unstored, status: StatusCode, now: Timestamp) -> Unstored {
        self.pass_on(why, status, now)
    }

    /// The service failed, and `stale` is used in place of its error. Those who wait may do the same if their requests
    /// allow it; the others go on, each alone.
    pub fn failed(self, stale: Arc<Stored>) {
        self.leader.failed(stale);
    }

    /// RFC 9111 §4.3.5: a response to HEAD updates the stored response it describes, or shows that it is outdated.
    fn describe(
        &self,
        request: &HeaderMap,
        status: StatusCode,
        headers: &HeaderMap,
        timing: Timing,
        rules: RouteRules,
    ) {
        let key = self.leader.key();
        let Some(stored) = self.leader.state().memory().select(&key.as_key(), request) else {
            return;
        };
        if status != StatusCode::OK || stored.status() != StatusCode::OK {
            return;
        }
        if stored.validators().described_by(headers, stored.headers()) {
            // Stricter than the RFC: other than 304, HEAD has all fields of GET (RFC 9110 §9.3.2), so what it does not
            // say about caching is not taken over from the stored response.
            let policy = self.leader.state().policy();
            let mut merged = stored.merged_headers(headers, timing);
            for name in [&CACHE_CONTROL, &EXPIRES].into_iter().chain(&policy.targets) {
                if !headers.contains_key(name) {
                    merged.remove(name);
                }
            }
            // It says nothing about the body, so what has been purged since that was fetched remains purged.
            let purges = self.leader.state().purges();
            let mark = |merged: &HeaderMap| purges.mark(&key.as_key(), merged, stored.position());
            let method = &Method::GET;
            let candidate = Candidate { method, request, status, response: headers, timing, rules, policy: &policy };
            let (updated, verdict) = update(&stored, &candidate, merged, mark);
            if verdict.is_ok() {
                // Not replaced: it was invalidated or outgrew the store. HEAD itself is answered by the service.
                let _ = self.replace(&stored, &updated, verdict);
            }
        } else {
            self.leader.write(|state| {
                state.memory().remove_variant(key, &stored);
                state.tell_invalidated(&key.as_key());
            });
        }
    }

    /// Puts an updated response in the place of the old one, if the verdict allows.
    fn replace(&self, old: &Arc<Stored>, new: &Arc<Stored>, verdict: Result<(), Unstored>) -> Result<(), Unstored> {
        let key = self.leader.key();
        let written = self.leader.write(|state| match verdict {
            Ok(()) => match state.memory().replace(key, old, new) {
                // Evicted, or replaced by a response that may be newer than the one confirmed here.
                Ok(false) => Err(Unstored::Superseded),
                Ok(true) => Ok(()),
                Err(_) => Err(Unstored::TooLarge),
            },
            Err(why) => {
                // The service no longer wants it stored.
                if why.is_lasting() {
                    state.memory().remove_variant(key, old);
                    state.tell_invalidated(&key.as_key());
                }
                Err(why)
            }
        });
        written.unwrap_or(Err(Unstored::Invalidated))
    }

    fn pass_on(self, why: Unstored, status: StatusCode, now: Timestamp) -> Unstored {
        self.leader.state().reasons().note(self.leader.hash(), why, now);
        // A failing service says nothing about its responses when it works.
        if why.is_lasting() && !status.is_server_error() {
            self.leader.state().flights().remember_solo(self.leader.solo(), now);
            if let Some(stale) = &self.stale {
                // RFC 9111 §4.3.3: another answer came in its place, and that is not to be kept. Another tier may still
                // call the old one fresh: the request may have wanted validation.
                self.leader.write(|state| {
                    state.memory().remove_variant(self.leader.key(), stale);
                    state.tell_invalidated(&self.leader.key().as_key());
                });
            }
        }
        if why == Unstored::Credentials {
            // It lies in the request as well, so it is remembered for those that are alike.
            self.leader.state().flights().remember_solo(self.leader.solo().with_credentials(), now);
        }
        self.leader.passed();
        why
    }
}

/// The stored response with the fields `merged`, and whether it may be stored as `candidate`.
fn update(
    stored: &Arc<Stored>,
    candidate: &Candidate<'_>,
    merged: HeaderMap,
    mark: impl FnOnce(&HeaderMap) -> Mark,
) -> (Arc<Stored>, Result<(), Unstored>) {
    let (freshness, vary, verdict) = match candidate.plan() {
        Ok(plan) => (plan.freshness, stored.vary().and(&plan.vary), Ok(())),
        Err(why) => {
            let Candidate { response, timing, policy, .. } = *candidate;
            let control = Control::of(response, policy);
            let freshness = Freshness::of(response, &control, timing, candidate.assumed(&control.directives));
            (freshness.unwrap_or_else(|| Freshness::stale(timing)), stored.vary().clone(), Err(why))
        }
    };
    let mark = mark(&merged);
    (Arc::new(stored.with_headers(merged, freshness, vary, mark)), verdict)
}
