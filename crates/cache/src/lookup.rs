//! Looking for a stored response that may answer a request.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, PRAGMA, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method};

use crate::key::Key;
use crate::policy::storing::has_body;
use crate::policy::{Forward, RequestDirectives, Selection, Timestamp};
use crate::purge::Standing;
use crate::request_fields::RequestFields;
use crate::state::State;
use crate::stored::{Refusal, Stored};
use crate::tier::memory::Found;

/// Fields whose presence makes a request another than a plain one. One look at each name of a request costs less than a
/// search for each of these.
const WISHES: [HeaderName; 4] = [CACHE_CONTROL, PRAGMA, CONTENT_LENGTH, TRANSFER_ENCODING];

/// What the cache has for a request.
#[derive(Debug)]
pub enum Lookup {
    /// Answer from this response ([`Stored::answer`]). It is fresh, or as stale as the request accepts.
    Hit(Arc<Stored>),
    /// Nothing usable: [`Cache::begin`](crate::Cache::begin), then ask the service.
    Miss(Forward),
    /// Stale, and usable now if it is validated soon (RFC 5861 §3): answer from this response, then
    /// [`Cache::begin`](crate::Cache::begin) and ask the service conditionally, beside the client.
    StaleWhileRevalidate(Arc<Stored>),
    /// Usable after validation: [`Cache::begin`](crate::Cache::begin), then ask the service conditionally
    /// ([`Stored::make_conditional`]).
    Stale(Arc<Stored>, Forward),
    /// Ask the service; the response will not be stored.
    Bypass(Forward),
    /// The request wants a stored response or none: answer 504 (RFC 9111 §5.2.1.7).
    OnlyIfCached,
}

impl State {
    /// Looks for a stored response that may answer the request.
    pub(crate) fn lookup(&self, key: &Key<'_>, method: &Method, request: &HeaderMap, now: Timestamp) -> Lookup {
        if method != Method::GET && method != Method::HEAD {
            return Lookup::Bypass(Forward::Method);
        }
        if let Some(lookup) = self.lookup_plain(key, request, now) {
            return lookup;
        }
        let directives = RequestDirectives::parse(request);
        let found = match unkeyed(request) {
            Some(why) => Err(why),
            None => Ok(self.memory().find(key, request, &directives, now, self.purges())),
        };
        Self::looked_up(found, &directives)
    }

    /// The same for a GET or HEAD that says nothing to caches and has no body; `None` if it does, or has one.
    #[inline]
    pub(crate) fn lookup_plain(&self, key: &Key<'_>, request: &impl RequestFields, now: Timestamp) -> Option<Lookup> {
        if request.has_any(&WISHES) {
            return None;
        }
        let directives = RequestDirectives::default();
        let found = self.memory().find(key, request, &directives, now, self.purges());
        Some(Self::looked_up(Ok(found), &directives))
    }

    #[inline]
    fn looked_up(found: Result<Found, Forward>, directives: &RequestDirectives) -> Lookup {
        match found {
            Ok(Found::Usable(stored)) => Lookup::Hit(stored),
            // RFC 9111 §5.2.1.7
            _ if directives.only_if_cached => Lookup::OnlyIfCached,
            Err(why) => Lookup::Bypass(why),
            // RFC 9111 §5.2.1.5: a stored response may answer it, but nothing of it may be stored.
            _ if directives.no_store => Lookup::Bypass(Forward::Request),
            Ok(Found::Nothing | Found::Refused(_, Refusal::Gone)) => Lookup::Miss(Forward::UriMiss),
            Ok(Found::OtherVariants | Found::Refused(_, Refusal::OtherVariant)) => Lookup::Miss(Forward::VaryMiss),
            Ok(Found::Refused(_, Refusal::NotFor(why))) => Lookup::Miss(why),
            Ok(Found::Refused(stored, Refusal::Revalidate)) => Lookup::StaleWhileRevalidate(stored),
            Ok(Found::Refused(stored, Refusal::Validate(why))) => Lookup::Stale(stored, why),
        }
    }

    /// Why the response that a flight has landed with does not answer the request.
    pub(crate) fn landed_refusal(
        &self,
        key: &Key<'_>,
        stored: &Stored,
        request: &HeaderMap,
        now: Timestamp,
    ) -> Option<Refusal> {
        let standing = match self.purges().standing(key, stored.mark()) {
            Standing::Good => Standing::Good,
            Standing::Stale(_) | Standing::Unknown | Standing::Gone => Standing::Gone,
        };
        stored.refusal(request, &RequestDirectives::parse(request), now, standing)
    }

    /// Whether a stored response may be used in place of an error that asking the service for a newer one came to
    /// (RFC 5861 §4).
    pub(crate) fn serves_if_error(&self, key: &Key<'_>, stored: &Stored, request: &HeaderMap, now: Timestamp) -> bool {
        // It may have been purged since it was found.
        stored.serves_if_error(request, now, self.purges().standing(key, stored.mark()))
    }

    /// A hash of what the request selects, as far as it is known what the resource varies on.
    pub(crate) fn selection(&self, key: &Key<'_>, request: &HeaderMap) -> u64 {
        self.memory().newest(key).map_or(0, |stored| self.selection_by(stored.vary(), request))
    }

    /// A hash of what the request selects by these fields, 0 without any.
    pub(crate) fn selection_by(&self, vary: &Selection, request: &HeaderMap) -> u64 {
        let mut state = self.hasher().build_hasher();
        vary.hash_selection(request, &mut state);
        if vary.is_empty() { 0 } else { state.finish() }
    }

    /// The response that answers the request right now.
    pub(crate) fn usable(
        &self,
        key: &Key<'_>,
        method: &Method,
        request: &HeaderMap,
        now: Timestamp,
    ) -> Option<Arc<Stored>> {
        match self.lookup(key, method, request, now) {
            Lookup::Hit(stored) => Some(stored),
            Lookup::Miss(_)
            | Lookup::Stale(..)
            | Lookup::StaleWhileRevalidate(_)
            | Lookup::Bypass(_)
            | Lookup::OnlyIfCached => None,
        }
    }
}

/// Something in the request that changes its response and is not in the key.
pub(crate) fn unkeyed(request: &HeaderMap) -> Option<Forward> {
    // A GET with a body could otherwise put its own answer under everybody's key.
    has_body(request).then_some(Forward::RequestBody)
}
