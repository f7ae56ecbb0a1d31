//! The cache as the gateway sees it: one handle, shared by all its workers.

use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_LOCATION, LOCATION, RANGE};
use http::{HeaderMap, Method, StatusCode};

use crate::fill::Fill;
use crate::key::Key;
use crate::leader::LeaderGuard;
use crate::lookup::{Lookup, unkeyed};
use crate::options::{CacheOptions, OptionsError};
use crate::policy::storing::has_credentials;
use crate::policy::{PolicyOptions, RequestDirectives, Timestamp, Unstored, reference};
use crate::purge::{Address, Mode, Purge, Purges, RecordName, Scope, TagFields, invalidated_groups, remove_tag_fields};
use crate::request_fields::RequestFields;
use crate::second::Invalidations;
use crate::state::State;
use crate::stored::Stored;
use crate::turn::{self, Asking, Company, Turn};

/// In front of a shared tier: so many bytes of the cache for each number of purges. Responses that share one share the
/// fate of a replaced record.
const BYTES_PER_STRIPE: u64 = 1024;
/// 512 KiB of numbers.
const MAX_STRIPES: u64 = 1 << 16;
/// What became invalid by an unsafe request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Invalidated {
    /// Targets that lost stored responses.
    pub targets: usize,
    /// What was purged, for whoever tells other nodes: groups, and targets whose keys hold more than their URL.
    pub purges: Vec<Purge>,
}

/// Where what answers a target is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The target as it stands in the key.
    pub target: String,
    /// Whether keys of it hold more ([`Key::extra`]), so that there may be many.
    pub has_extra: bool,
}

impl Place {
    /// Where it is without rules of a route.
    pub fn of(target: &str) -> Self {
        Self { target: target.to_owned(), has_extra: false }
    }
}

/// How full a cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that stored responses count for, never more than [`CacheOptions::max_bytes`].
    pub bytes: u64,
    /// Targets with at least one stored response.
    pub resources: usize,
}

/// A response cache in memory. A clone is another handle to the same cache.
#[derive(Debug, Clone)]
pub struct Cache {
    state: Arc<State>,
}

/// How a request was answered, as far as [`Cache::invalidate_as`] is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// The request's.
    pub method: &'a Method,
    /// The response's.
    pub status: StatusCode,
    /// The response's fields.
    pub response: &'a HeaderMap,
}

impl Cache {
    /// Makes an empty cache.
    ///
    /// # Errors
    /// The limits contradict each other.
    pub fn new(options: CacheOptions) -> Result<Self, OptionsError> {
        Self::with_purges(options, Purges::new(1, None, options.tag_fields))
    }

    /// Makes an empty cache in front of a tier that other caches share, which names its records by `record_name`.
    ///
    /// # Errors
    /// The limits contradict each other.
    pub fn shared(options: CacheOptions, record_name: RecordName) -> Result<Self, OptionsError> {
        let stripes = (options.max_bytes / BYTES_PER_STRIPE).clamp(1, MAX_STRIPES);
        let stripes = usize::try_from(stripes).unwrap_or(1);
        Self::with_purges(options, Purges::new(stripes, Some(record_name), options.tag_fields))
    }

    fn with_purges(options: CacheOptions, purges: Purges) -> Result<Self, OptionsError> {
        Ok(Self { state: Arc::new(State::new(options, purges)?) })
    }

    /// Makes other choices than [`PolicyOptions::default`] where the RFCs leave them, for answers that come from now
    /// on.
    pub fn set_policy(&self, policy: PolicyOptions) {
        self.state.set_policy(policy);
    }

    /// Looks for a stored response that may answer the request.
    pub fn lookup(&self, key: &Key<'_>, method: &Method, request: &HeaderMap, now: Timestamp) -> Lookup {
        self.state.lookup(key, method, request, now)
    }

    /// The same for a GET or HEAD that says nothing to caches and has no body; `None` if it does, or has one.
    #[inline]
    pub fn lookup_plain(&self, key: &Key<'_>, request: &impl RequestFields, now: Timestamp) -> Option<Lookup> {
        self.state.lookup_plain(key, request, now)
    }

    /// Gives a request that [`Cache::lookup`] found nothing usable for its turn: to ask the service, or to wait for
    /// another request that does.
    ///
    /// Requests whose responses are unlikely to be shared never wait: with `Authorization`, with a wish for validation
    /// or for no storing, with a range, HEAD, and those for a target, or a variant of it, whose last response could not
    /// be shared (for ten seconds; hit-for-miss).
    pub fn begin(&self, key: &Key<'_>, method: &Method, request: &HeaderMap, now: Timestamp) -> Turn {
        let directives = RequestDirectives::parse(request);
        let selection = self.state.selection(key, request);
        let solo = self.state.hash(key).of_variant(selection);
        let alone = method != Method::GET
            || directives.no_store
            || directives.wants_validation()
            || request.contains_key(AUTHORIZATION)
            // RFC 9111 §3.3: a response to it may be a part only.
            || request.contains_key(RANGE)
            || unkeyed(request).is_some()
            || self.state.flights().is_solo(solo, now)
            || (has_credentials(request) && self.state.flights().is_solo(solo.with_credentials(), now));
        let company = if alone { Company::None } else { Company::Any { waits: 0 } };
        turn::start(&self.state, &Asking { key, method, request, selection, now }, company)
    }

    /// The right to revalidate what [`Lookup::StaleWhileRevalidate`] gave out; `None` if another request does, or just
    /// has.
    pub fn refresh(&self, key: &Key<'_>, request: &HeaderMap, now: Timestamp) -> Option<Fill> {
        let selection = self.state.selection(key, request);
        let asking = Asking { key, method: &Method::GET, request, selection, now };
        match turn::start(&self.state, &asking, Company::Any { waits: 0 }) {
            Turn::Leader(fill) => Some(fill),
            Turn::Hit(_) | Turn::Live(_) | Turn::Follower(_) | Turn::Failed(_) => None,
        }
    }

    /// What a POST that is about to be sent may put into the cache (RFC 9110 §9.3.3): see [`Fill::posted`].
    pub fn begin_post(&self, key: &Key<'_>) -> Fill {
        Fill::new(LeaderGuard::alone(&self.state, key), Method::POST)
    }

    /// Whether a stored response may be used in place of an error that asking the service for a newer one came to
    /// (RFC 5861 §4).
    pub fn serves_if_error(&self, key: &Key<'_>, stored: &Stored, request: &HeaderMap, now: Timestamp) -> bool {
        self.state.serves_if_error(key, stored, request, now)
    }

    /// Takes note of a response to an unsafe request (RFC 9111 §4.4, RFC 9875 §3).
    ///
    /// If the response is 2xx or 3xx, the request's target goes, and what `Location` and `Content-Location` name if it
    /// has the same origin, and the groups in `Cache-Group-Invalidation`. Answers that are on their way at this moment
    /// will not be stored. Safe methods change nothing.
    pub fn invalidate(
        &self,
        key: &Key<'_>,
        method: &Method,
        status: StatusCode,
        response: &HeaderMap,
        now: Timestamp,
    ) -> Invalidated {
        self.invalidate_as(key, Answered { method, status, response }, now, Place::of)
    }

    /// The same where keys are not made of what was received alone: `place` says where what answers a target is stored.
    /// The target of `key` is the one that was received.
    pub fn invalidate_as(
        &self,
        key: &Key<'_>,
        Answered { method, status, response }: Answered<'_>,
        now: Timestamp,
        place: impl Fn(&str) -> Place,
    ) -> Invalidated {
        // RFC 9111 §4.4: a non-error status code. RFC 9875 §3: the field is ignored in answers to safe methods; that it
        // is in those that report an error is our own reading.
        if is_safe(method) || !(status.is_success() || status.is_redirection()) {
            return Invalidated::default();
        }
        let mut invalidated = Invalidated { targets: 0, purges: invalidated_groups(key, response) };
        let references = [LOCATION, CONTENT_LOCATION].into_iter().filter_map(|name| response.get(name));
        let named = references.filter_map(|value| reference::resolve_same_origin(key, value.as_bytes()));
        // Once, so that the response to a POST knows what it has done itself.
        let mut places = vec![place(key.target)];
        for place in named.filter(|target| target != key.target).map(|target| place(&target)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        for place in places {
            let key = Key { target: &place.target, extra: "", ..*key };
            invalidated.targets += usize::from(self.remove(&key));
            if place.has_extra || self.state.memory().has_extra() {
                // Its keys are not known: as a purge it is found out when one of them is asked for.
                invalidated.purges.push(Purge { scope: Scope::Url(Address::of(&key)), mode: Mode::Hard });
            }
        }
        if !invalidated.purges.is_empty() {
            self.state.purges().apply(&invalidated.purges, now);
        }
        invalidated
    }

    /// Removes every response stored for a target and says whether there was one. Answers on their way are not stored.
    pub fn remove(&self, key: &Key<'_>) -> bool {
        self.state.remove(key)
    }

    /// Tells another tier from now on what is invalid. The first call counts.
    pub fn tell_invalidations(&self, to: Arc<dyn Invalidations>) {
        self.state.tell_invalidations(to);
    }

    /// Every response that is stored under a key, newest first, whatever a request would get of them.
    pub fn variants(&self, key: &Key<'_>) -> Vec<Arc<Stored>> {
        self.state.memory().variants(key)
    }

    /// Why the last response for a key that was not stored was not, as far as it is remembered, and how many seconds
    /// ago.
    pub fn last_unstored(&self, key: &Key<'_>, now: Timestamp) -> Option<(Unstored, u64)> {
        self.state.reasons().of(self.state.hash(key), now)
    }

    /// Applies purges and returns how many URLs among them had something stored under their plain key. When it returns,
    /// no lookup gives a response that they forbid, and none that is on its way will be given later.
    pub fn purge(&self, purges: &[Purge], now: Timestamp) -> usize {
        self.state.purges().apply(purges, now);
        let urls = purges.iter().filter_map(|purge| match &purge.scope {
            Scope::Url(address) => Some((address, purge.mode)),
            Scope::Prefix(_) | Scope::Tag(_) | Scope::Group { .. } | Scope::Everything => None,
        });
        let had = urls.filter(|(address, mode)| match mode {
            // Its memory is freed at once.
            Mode::Hard => self.remove(&address.key()),
            Mode::Soft => self.state.memory().newest(&address.key()).is_some(),
        });
        had.count()
    }

    /// Removes from a response of the service, on its way to a client, what is between the service and this cache
    /// ([`TagFields`]).
    pub fn finish(&self, headers: &mut HeaderMap) {
        if self.state.options().tag_fields == TagFields::Removed {
            remove_tag_fields(headers);
        }
    }

    /// The order of purges, for what shares it between caches.
    pub fn purges(&self) -> &Purges {
        self.state.purges()
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        Usage { bytes: self.state.memory().weight(), resources: self.state.memory().len() }
    }

    /// The limits it was made with.
    pub fn options(&self) -> &CacheOptions {
        self.state.options()
    }
}

/// The safe methods of the IANA registry; any other, and any unknown one, may change its target (RFC 9111 §4.4).
fn is_safe(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PROPFIND" | "REPORT" | "SEARCH" | "QUERY")
}
