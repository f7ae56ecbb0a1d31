//! Whether a response may be stored (RFC 9111 §3).

use http::header::{AUTHORIZATION, COOKIE, EXPIRES, LAST_MODIFIED, SET_COOKIE, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};

use super::control::{Control, Field};
use super::directives::{RequestDirectives, ResponseDirectives, Seconds};
use super::fields::{self, Length};
use super::freshness::{Assumed, Freshness};
use super::lifetimes::RouteRules;
use super::options::PolicyOptions;
use super::time::Timing;
use super::unstored::Unstored;
use super::validate::ENTITY_TAG;
use super::vary::Selection;
use crate::request_fields::RequestFields;

/// What was learned about a response that may be stored, once, so that no later request parses it again.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) freshness: Freshness,
    pub(crate) vary: Selection,
    /// The announced length of the body.
    pub(crate) length: Option<u64>,
}

/// A request and its response, as far as storing is concerned.
pub(crate) struct Candidate<'a> {
    pub(crate) method: &'a Method,
    /// As received from the client.
    pub(crate) request: &'a HeaderMap,
    pub(crate) status: StatusCode,
    /// As received from the service.
    pub(crate) response: &'a HeaderMap,
    pub(crate) timing: Timing,
    pub(crate) rules: RouteRules,
    pub(crate) policy: &'a PolicyOptions,
}

impl Candidate<'_> {
    /// Whether the response may be stored, before its body is known.
    pub(crate) fn plan(&self) -> Result<Plan, Unstored> {
        self.request_allows()?;
        let control = Control::of(self.response, self.policy);
        let directives = &control.directives;
        self.response_allows(&control)?;
        // The key is the service's `Vary: Cookie`, but who promised it is the route: the service has to say `public` as
        // well.
        let is_keyed = self.rules.cookies_in_key && directives.public;
        let refused = (!is_keyed).then_some(&COOKIE);
        let vary = Selection::capture(self.response, self.request, refused, self.policy.language_order)?;
        let length = match fields::content_length(self.response) {
            Length::Unknown => None,
            Length::Known(length) => Some(length),
            Length::Invalid => return Err(Unstored::Malformed),
        };
        let freshness = self.freshness(&control)?;
        Ok(Plan { freshness, vary, length })
    }

    fn request_allows(&self) -> Result<(), Unstored> {
        // RFC 9111 §3: the request method is understood by the cache: GET, and POST whose response is what a GET gets.
        if self.method != Method::GET && self.method != Method::POST {
            return Err(Unstored::Method);
        }
        if self.method == Method::GET && has_body(self.request) {
            return Err(Unstored::RequestBody);
        }
        // RFC 9111 §5.2.1.5: no part of this request or of any response to it.
        if RequestDirectives::parse(self.request).no_store {
            return Err(Unstored::RequestNoStore);
        }
        Ok(())
    }

    fn response_allows(&self, control: &Control) -> Result<(), Unstored> {
        let directives = &control.directives;
        // RFC 9111 §3: a final status; 206 and 304 only by caches that understand them: ranges are not stored, and 304
        // goes to `freshen`.
        if self.status.is_informational() || matches!(self.status.as_u16(), 206 | 304) {
            return Err(Unstored::Status);
        }
        // Stricter than the RFC: they answer the conditions (RFC 9110 §15.5.13) or the range (§15.5.17) of one request,
        // which are in no key, so that one client could answer all others with them.
        if matches!(self.status.as_u16(), 412 | 416) {
            return Err(Unstored::Status);
        }
        // Stricter than RFC 9111 §7.3 asks: a response with Set-Cookie was made for one user.
        if self.response.contains_key(SET_COOKIE) {
            return Err(Unstored::SetCookie);
        }
        if directives.malformed {
            return Err(Unstored::Malformed);
        }
        // RFC 9111 §5.2.2.3: must-understand overrides no-store where the status is understood, and forbids storing
        // where it is not.
        let understood = is_understood(self.status);
        if directives.must_understand && !understood {
            return Err(Unstored::Status);
        }
        if directives.no_store && !directives.must_understand {
            return Err(Unstored::NoStore);
        }
        // RFC 9111 §5.2.2.7: a shared cache must not store it.
        if directives.private {
            return Err(Unstored::Private);
        }
        // RFC 9111 §3.5: only with must-revalidate, public or s-maxage.
        let shareable =
            directives.must_revalidate || directives.public || matches!(directives.s_maxage, Seconds::Valid(_));
        let is_authorized = self.rules.behind_credentials || self.request.contains_key(AUTHORIZATION);
        if is_authorized && !shareable {
            return Err(Unstored::Authorization);
        }
        // RFC 9111 §3: at least one of public, Expires, max-age, s-maxage or a heuristically cacheable status; no-cache
        // is not among them. Or the route says so.
        let is_marked = directives.public
            || directives.max_age != Seconds::Absent
            || directives.s_maxage != Seconds::Absent
            || (control.field == Field::CacheControl && self.response.contains_key(EXPIRES))
            || is_heuristically_cacheable(self.status)
            || self.rules.lifetime(self.status).is_some();
        if is_marked { Ok(()) } else { Err(Unstored::NoFreshness) }
    }

    fn freshness(&self, control: &Control) -> Result<Freshness, Unstored> {
        // RFC 9110 §9.3.3: a response to POST only with explicit freshness.
        let assumed = match *self.method {
            Method::POST => Assumed::default(),
            _ => self.assumed(&control.directives),
        };
        let freshness = Freshness::of(self.response, control, self.timing, assumed).ok_or(Unstored::NoFreshness)?;
        let freshness = freshness.at_most(self.rules.max_ttl);
        let has_credentials = self.rules.behind_credentials || has_credentials(self.request);
        if freshness.is_assumed() && has_credentials {
            return Err(Unstored::Credentials);
        }
        // Stored but never reusable is worth it only if validation can spare the body, or if it may be used stale.
        let validator = self.response.contains_key(ENTITY_TAG) || self.response.contains_key(LAST_MODIFIED);
        let is_of_use = freshness.is_reusable(self.timing.received) || freshness.has_stale_use();
        if !is_of_use && !validator {
            return Err(Unstored::Stale);
        }
        Ok(freshness)
    }

    /// What route and operator let this cache assume of a response that is silent.
    pub(crate) fn assumed(&self, directives: &ResponseDirectives) -> Assumed {
        // RFC 9111 §4.2.2: statuses that are heuristically cacheable, or a response that is marked as cacheable.
        let infers = directives.public || is_heuristically_cacheable(self.status);
        Assumed {
            ttl: self.rules.lifetime(self.status),
            max_heuristic: self.policy.max_heuristic.filter(|_| infers),
            stale_if_error: self.policy.stale_if_error,
        }
    }
}

/// The request carries something that tells one user from another.
pub(crate) fn has_credentials(request: &impl RequestFields) -> bool {
    request.has(&COOKIE) || request.has(&AUTHORIZATION)
}

/// The request has content (RFC 9110 §6.4, RFC 9112 §6.3).
pub(crate) fn has_body(request: &HeaderMap) -> bool {
    request.contains_key(TRANSFER_ENCODING)
        || request.get(http::header::CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0")
}

/// Statuses whose caching this crate conforms to (RFC 9111 §5.2.2.3): those of RFC 9110 §15 that need no more than the
/// general rules.
fn is_understood(status: StatusCode) -> bool {
    matches!(status.as_u16(),
        200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

/// RFC 9110 §15.1; 206 is not stored.
fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

#[cfg(test)]
mod tests;
