//! A shared cache read out of RFC 9111, sentence by sentence, without looking at ours: it keeps every exchange for ever
//! and asks of each whether it may answer a request. It knows messages as they were meant, not as they were written, so
//! no parser of ours is part of it.

use std::collections::BTreeMap;

/// Milliseconds; negative differences are meant to be.
pub(crate) type Millis = i128;

/// An argument of a directive as it was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    None,
    Seconds(u64),
    Fields(&'static str),
}

pub(crate) type Directives = BTreeMap<&'static str, Argument>;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) directives: Directives,
    pub(crate) authorization: Option<&'static str>,
    pub(crate) cookie: Option<&'static str>,
    /// Fields that a response may vary on.
    pub(crate) fields: BTreeMap<&'static str, &'static str>,
}

#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) directives: Directives,
    /// Relative to the receipt, whole seconds.
    pub(crate) date_s: Option<i64>,
    /// Relative to `date_s`, or to the receipt; `None` inside: not a date.
    pub(crate) expires_s: Option<Option<i64>>,
    pub(crate) age_s: Option<u64>,
    pub(crate) vary: Vec<&'static str>,
    pub(crate) sets_cookie: bool,
    pub(crate) etag: Option<&'static str>,
}

/// What was received, and how.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) request: Request,
    pub(crate) response: Response,
    /// Which answer of the service its body is.
    pub(crate) body: usize,
    pub(crate) request_time: Millis,
    pub(crate) response_time: Millis,
    /// Invalidated, or replaced by what a 304 made of it.
    pub(crate) is_gone: bool,
    /// A 304 that could not be stored itself was about it: it may be there as it was, or not at all.
    pub(crate) is_unsure: bool,
}

/// Where our cache stores or reuses less than the RFC allows, on purpose (docs/adr/0008).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stricter {
    SetCookie,
    VaryCookie,
    /// No freshness is assumed.
    NothingSaid,
    /// `private="…"` and `no-cache="…"` count for the whole response.
    FieldLists,
    /// Of use only to a request with `max-stale`.
    StaleOnArrival,
}

impl Entry {
    fn has(&self, name: &str) -> bool {
        self.response.directives.contains_key(name)
    }

    fn seconds(&self, name: &str) -> Option<u64> {
        match self.response.directives.get(name)? {
            Argument::Seconds(seconds) => Some(*seconds),
            Argument::None | Argument::Fields(_) => None,
        }
    }

    /// §3: "A cache MUST NOT store a response to a request unless: …". Its methods are only GET here.
    pub(crate) fn may_be_stored(&self) -> bool {
        let Response { status, .. } = self.response;
        // "the response status code is final"
        let is_final = status >= 200;
        // "if the response status code is 206 or 304, or the must-understand cache directive is present: the cache
        // understands the response status code"
        let is_understood = match status {
            206 | 304 => false,
            _ => !self.has("must-understand") || is_defined(status),
        };
        // "the no-store cache directive is not present in the response", but for §5.2.2.3: "a cache that implements it
        // SHOULD ignore the no-store directive" beside must-understand.
        let is_storable = !self.has("no-store") || self.has("must-understand");
        // "if the cache is shared: the private response directive is either not present or allows a shared cache to
        // store a modified response" (which fields are left out then is ours to do; we do not).
        let is_shared = !matches!(self.response.directives.get("private"), Some(Argument::None));
        // "if the cache is shared: the Authorization header field is not present in the request or a response directive
        // is present that explicitly allows shared caching" (§3.5: must-revalidate, public, s-maxage)
        let is_allowed = self.request.authorization.is_none()
            || self.has("must-revalidate")
            || self.has("public")
            || self.has("s-maxage");
        // "the response contains at least one of the following"
        let is_marked = self.has("public")
            || self.has("max-age")
            || self.has("s-maxage")
            || self.response.expires_s.is_some()
            || [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501].contains(&status);
        // §5.2.1.5: "a cache MUST NOT store any part of either this request or any response to it".
        let is_wanted = !self.request.directives.contains_key("no-store");
        is_final && is_understood && is_storable && is_shared && is_allowed && is_marked && is_wanted
    }

    /// §4.1
    pub(crate) fn is_selected_by(&self, request: &Request) -> bool {
        self.response.vary.iter().all(|name| match *name {
            // "A stored response with a Vary header field value containing a member "*" always fails to match."
            "*" => false,
            "cookie" => self.request.cookie == request.cookie,
            "authorization" => self.request.authorization == request.authorization,
            name => self.request.fields.get(name) == request.fields.get(name),
        })
    }

    /// §4.2.1
    fn freshness_lifetime(&self) -> Option<Millis> {
        // "If the cache is shared and the s-maxage response directive is present, use its value, or if the max-age
        // response directive is present, use its value, or if the Expires response header field is present, use its
        // value minus the value of the Date response header field … Otherwise, no explicit expiration time is present
        // in the response."
        let directive = self.seconds("s-maxage").or_else(|| self.seconds("max-age"));
        let seconds = directive.map(i128::from).or_else(|| match self.response.expires_s? {
            Some(seconds) => Some(i128::from(seconds).max(0)),
            // §5.3: "A cache recipient MUST interpret invalid date formats … as representing a time in the past".
            None => Some(0),
        })?;
        Some(seconds * 1000)
    }

    /// §4.2.3, in the letters of the RFC.
    fn current_age(&self, now: Millis) -> Millis {
        let seconds = |millis: Millis| millis.div_euclid(1000) * 1000;
        let age_value = Millis::from(self.response.age_s.unwrap_or(0)) * 1000;
        // A Date has whole seconds; so does what it is compared with.
        let received = seconds(self.response_time);
        let date_value = received + Millis::from(self.response.date_s.unwrap_or(0)) * 1000;
        let apparent_age = (received - date_value).max(0);
        let response_delay = self.response_time - self.request_time;
        let corrected_age_value = age_value + response_delay;
        let corrected_initial_age = apparent_age.max(corrected_age_value);
        let resident_time = now - self.response_time;
        corrected_initial_age + resident_time
    }

    /// §4: "When presented with a request, a cache MUST NOT reuse a stored response unless: …", without validation.
    pub(crate) fn may_be_reused(&self, request: &Request, now: Millis) -> bool {
        let wish = |name: &str| request.directives.get(name).copied();
        let seconds = |argument: Argument| match argument {
            Argument::Seconds(seconds) => Millis::from(seconds) * 1000,
            Argument::None | Argument::Fields(_) => Millis::MAX,
        };
        if self.is_gone || !self.may_be_stored() || !self.is_selected_by(request) {
            return false;
        }
        // "the stored response does not contain the no-cache directive, unless it is successfully validated"
        // (§5.2.2.4: with a list only those fields; we send them, so it has to be validated, too)
        if self.has("no-cache") || wish("no-cache").is_some() {
            return false;
        }
        let age = self.current_age(now);
        let lifetime = self.freshness_lifetime();
        // §5.2.1.1: "the client prefers a response whose age is less than or equal to the specified number of seconds"
        if wish("max-age").is_some_and(|max| age > seconds(max)) {
            return false;
        }
        // §5.2.1.3: "a response whose freshness lifetime is no less than its current age plus the specified time"
        if wish("min-fresh").is_some_and(|min| lifetime.unwrap_or(0) < age.saturating_add(seconds(min))) {
            return false;
        }
        // §4.2: "response_is_fresh = (freshness_lifetime > current_age)"
        let Some(lifetime) = lifetime else {
            // §4.2.2: a heuristic lifetime would be allowed; ours has none.
            return false;
        };
        if lifetime > age {
            return true;
        }
        // §4.2.4: not "if prohibited by an explicit in-protocol directive", and only if "it is explicitly permitted".
        let is_prohibited = ["must-revalidate", "proxy-revalidate", "s-maxage"].iter().any(|name| self.has(name));
        let is_permitted = wish("max-stale").is_some_and(|max| age - lifetime <= seconds(max));
        !is_prohibited && is_permitted
    }

    /// Why our cache need not have it, although it may.
    pub(crate) fn exceptions(&self) -> Vec<Stricter> {
        let has_fields = |name: &str| matches!(self.response.directives.get(name), Some(Argument::Fields(_)));
        let is_stale = |lifetime: Millis| lifetime <= self.current_age(self.response_time);
        let all = [
            (self.response.sets_cookie, Stricter::SetCookie),
            (self.response.vary.contains(&"cookie"), Stricter::VaryCookie),
            (self.freshness_lifetime().is_none(), Stricter::NothingSaid),
            (self.freshness_lifetime().is_some_and(is_stale) && self.response.etag.is_none(), Stricter::StaleOnArrival),
            (has_fields("private") || has_fields("no-cache"), Stricter::FieldLists),
        ];
        all.into_iter().filter(|(applies, _)| *applies).map(|(_, stricter)| stricter).collect()
    }
}

/// Stricter, too: `max-age=0` is how browsers ask for validation, so what is not a moment old is validated as well.
fn is_reload(request: &Request) -> bool {
    request.directives.get("max-age") == Some(&Argument::Seconds(0))
}

/// The status codes that RFC 9110 §15 defines, without those that need more than a cache can know (206, 304).
fn is_defined(status: u16) -> bool {
    let classes = [200..=205, 300..=303, 305..=305, 307..=308, 400..=417, 421..=422, 426..=426, 500..=505];
    classes.iter().any(|class| class.contains(&status))
}

/// Everything that was received for one target, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) entries: Vec<Entry>,
}

impl Model {
    /// §4: "When more than one suitable response is stored, a cache MUST use the most recent one": the one that a
    /// perfect cache would reuse for this request without asking.
    pub(crate) fn best(&self, request: &Request, now: Millis) -> Option<usize> {
        let is_kept = |entry: &Entry| !entry.is_gone && entry.may_be_stored();
        let (place, newest) =
            self.entries.iter().enumerate().rfind(|(_, entry)| is_kept(entry) && entry.is_selected_by(request))?;
        // One that our cache may have or not hides those before it, or does not.
        let is_certain = !newest.is_unsure && newest.exceptions().is_empty() && !is_reload(request);
        (is_certain && newest.may_be_reused(request, now)).then_some(place)
    }

    /// §4.4: "A cache MUST invalidate the target URI when it receives a non-error status code in response to an unsafe
    /// request method."
    pub(crate) fn invalidate(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.is_gone = true);
    }

    /// §4.3.4: the stored response with the fields of a 304 is a new one, selected by the request that the old one was
    /// made for, and stored only if it could be as a response to the request that has validated it.
    pub(crate) fn freshen(&mut self, body: usize, by: &Entry) {
        let old = self.entries.iter_mut().filter(|entry| entry.body == body && !entry.is_gone);
        let updated: Vec<Entry> = old
            .map(|old| {
                let mut entry = old.updated(by);
                let is_certain = !old.is_unsure && entry.exceptions().is_empty() && entry.may_be_stored();
                entry.is_unsure = !is_certain;
                old.is_gone = is_certain;
                old.is_unsure = true;
                entry
            })
            .collect();
        self.entries.extend(updated);
    }
}

impl Entry {
    /// §3.2: what a 304 has replaces what is stored.
    fn updated(&self, by: &Self) -> Self {
        let mut response = self.response.clone();
        if !by.response.directives.is_empty() {
            response.directives.clone_from(&by.response.directives);
        }
        // Age and Date are those of the new exchange.
        response.date_s = by.response.date_s;
        response.age_s = by.response.age_s;
        response.expires_s = by.response.expires_s.or_else(|| {
            // An Expires that stays is a point in time: seen from the new Date it is another number.
            let date =
                |entry: &Self| entry.response_time.div_euclid(1000) + Millis::from(entry.response.date_s.unwrap_or(0));
            let moved = date(self) - date(by);
            let expires = self.response.expires_s?;
            Some(expires.and_then(|seconds| i64::try_from(Millis::from(seconds) + moved).ok()))
        });
        response.sets_cookie |= by.response.sets_cookie;
        let Request { directives, authorization, .. } = by.request.clone();
        Self {
            request: Request { directives, authorization, ..self.request.clone() },
            response,
            body: self.body,
            request_time: by.request_time,
            response_time: by.response_time,
            is_gone: false,
            is_unsure: false,
        }
    }
}
