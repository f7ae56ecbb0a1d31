//! The cache as the gateway sees it: one handle, shared by all its workers.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, LOCATION, PRAGMA, RANGE, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, Method, StatusCode};

use crate::collapse::{self, Company, Flights, LeaderGuard, Wait};
use crate::fill::Fill;
use crate::key::{Key, KeyHash};
use crate::live::Live;
use crate::policy::storing::{has_body, has_credentials};
use crate::policy::vary::Selection;
use crate::policy::{Forward, PolicyOptions, RequestDirectives, Timestamp, Unstored, reference};
use crate::purge::{
    Address, Mode, Purge, Purges, RecordName, Scope, Standing, TagFields, invalidated_groups, remove_tag_fields,
};
use crate::reasons::Reasons;
use crate::request_fields::RequestFields;
use crate::second::Invalidations;
use crate::stored::{Refusal, Stored};
use crate::tier::memory::{Found, Memory};

/// A request waits for others at most so many times, then goes alone.
pub const MAX_WAITS: u32 = 3;

/// Fields whose presence makes a request another than a plain one. One look at each name of a request costs less than a
/// search for each of these.
const WISHES: [HeaderName; 4] = [CACHE_CONTROL, PRAGMA, CONTENT_LENGTH, TRANSFER_ENCODING];

/// In front of a shared tier: so many bytes of the cache for each number of purges. Responses that share one share the
/// fate of a replaced record.
const BYTES_PER_STRIPE: u64 = 1024;
/// 512 KiB of numbers.
const MAX_STRIPES: u64 = 1 << 16;
/// The smallest useful cache.
const MIN_BYTES: u64 = 64 * 1024;

/// Limits of a [`Cache`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheOptions {
    /// Memory of all stored responses, keys and fields included, and of answers that are being recorded, which take up
    /// to a quarter of it; 64 MiB by default, at least 64 KiB.
    pub max_bytes: u64,
    /// The longest body that is stored, 1 MiB by default, at most half of `max_bytes`.
    pub max_object_bytes: u64,
    /// What becomes of fields with tags on the way to clients; removed by default.
    pub tag_fields: TagFields,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_object_bytes: 1 << 20, tag_fields: TagFields::default() }
    }
}

/// Limits that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// `max_bytes` is below the minimum.
    #[error(
        "a cache of {max_bytes} bytes is too small to be of use; give it at least {MIN_BYTES} bytes, or switch it off"
    )]
    TooSmall {
        /// The value given.
        max_bytes: u64,
    },
    /// An object may fill more than half of the cache.
    #[error(
        "the largest object ({max_object_bytes} bytes) must be at most half of the cache ({max_bytes} bytes); \
         lower the one or raise the other"
    )]
    ObjectTooLarge {
        /// The value given.
        max_object_bytes: u64,
        /// The value given.
        max_bytes: u64,
    },
    /// The store refused its options, which is a bug of ours.
    #[error("the store refused its options")]
    Store,
}

/// What the cache has for a request.
#[derive(Debug)]
pub enum Lookup {
    /// Answer from this response ([`Stored::answer`]). It is fresh, or as stale as the request accepts.
    Hit(Arc<Stored>),
    /// Nothing usable: [`Cache::begin`], then ask the service.
    Miss(Forward),
    /// Stale, and usable now if it is validated soon (RFC 5861 §3): answer from this response, then [`Cache::begin`]
    /// and ask the service conditionally, beside the client.
    StaleWhileRevalidate(Arc<Stored>),
    /// Usable after validation: [`Cache::begin`], then ask the service conditionally ([`Stored::make_conditional`]).
    Stale(Arc<Stored>, Forward),
    /// Ask the service; the answer will not be stored.
    Bypass(Forward),
    /// The request wants a stored response or none: answer 504 (RFC 9111 §5.2.1.7).
    OnlyIfCached,
}

/// What a request that needs an upstream answer does.
#[derive(Debug)]
pub enum Turn {
    /// An answer was stored a moment ago: use it.
    Hit(Arc<Stored>),
    /// Ask the service.
    Leader(Fill),
    /// Another request is asking: wait for it, then take [`crate::Landed::turn`].
    Follower(Wait),
    /// Another request is getting the answer, and a part of it is here: read it as it comes.
    Live(Live),
    /// Another request was answered by an error: use this stale response in its place (RFC 5861 §4).
    Failed(Arc<Stored>),
}

impl Turn {
    pub(crate) fn lead(leader: LeaderGuard, method: &Method) -> Self {
        Self::Leader(Fill::new(leader, method.clone()))
    }
}

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
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: CacheOptions,
    policy: ArcSwap<PolicyOptions>,
    memory: Memory,
    flights: Flights,
    reasons: Reasons,
    purges: Purges,
    hasher: RandomState,
    invalidations: OnceLock<Arc<dyn Invalidations>>,
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
        let CacheOptions { max_bytes, max_object_bytes, .. } = options;
        if max_bytes < MIN_BYTES {
            return Err(OptionsError::TooSmall { max_bytes });
        }
        if max_object_bytes > max_bytes / 2 {
            return Err(OptionsError::ObjectTooLarge { max_object_bytes, max_bytes });
        }
        let memory = Memory::new(max_bytes, max_object_bytes)?;
        let inner = Inner {
            options,
            policy: ArcSwap::from_pointee(PolicyOptions::default()),
            memory,
            flights: Flights::new(),
            reasons: Reasons::new(),
            purges,
            hasher: RandomState::new(),
            invalidations: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes other choices than [`PolicyOptions::default`] where the RFCs leave them, for answers that come from now
    /// on.
    pub fn set_policy(&self, policy: PolicyOptions) {
        self.inner.policy.store(Arc::new(policy));
    }

    /// Looks for a stored response that may answer the request.
    pub fn lookup(&self, key: &Key<'_>, method: &Method, request: &HeaderMap, now: Timestamp) -> Lookup {
        if method != Method::GET && method != Method::HEAD {
            return Lookup::Bypass(Forward::Method);
        }
        if let Some(lookup) = self.lookup_plain(key, request, now) {
            return lookup;
        }
        let directives = RequestDirectives::parse(request);
        let found = match unkeyed(request) {
            Some(why) => Err(why),
            None => Ok(self.inner.memory.find(key, request, &directives, now, self.purges())),
        };
        Self::looked_up(found, &directives)
    }

    /// The same for a GET or HEAD that says nothing to caches and has no body; `None` if it does, or has one.
    #[inline]
    pub fn lookup_plain(&self, key: &Key<'_>, request: &impl RequestFields, now: Timestamp) -> Option<Lookup> {
        if request.has_any(&WISHES) {
            return None;
        }
        let directives = RequestDirectives::default();
        let found = self.inner.memory.find(key, request, &directives, now, self.purges());
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

    /// Gives a request that [`Cache::lookup`] found nothing usable for its turn: to ask the service, or to wait for
    /// another request that does.
    ///
    /// Requests whose answers are unlikely to be shared never wait: with `Authorization`, with a wish for validation or
    /// for no storing, with a range, HEAD, and those for a target, or a variant of it, whose last answer could not be
    /// shared (for ten seconds; hit-for-miss).
    pub fn begin(&self, key: &Key<'_>, method: &Method, request: &HeaderMap, now: Timestamp) -> Turn {
        let directives = RequestDirectives::parse(request);
        let selection = self.selection(key, request);
        let solo = self.hash(key).of_variant(selection);
        let alone = method != Method::GET
            || directives.no_store
            || directives.wants_validation()
            || request.contains_key(AUTHORIZATION)
            // RFC 9111 §3.3: an answer to it may be a part only.
            || request.contains_key(RANGE)
            || unkeyed(request).is_some()
            || self.inner.flights.is_solo(solo, now)
            || (has_credentials(request) && self.inner.flights.is_solo(solo.with_credentials(), now));
        let company = if alone { Company::None } else { Company::Any { waits: 0 } };
        collapse::start(self, key, method, (request, selection), now, company)
    }

    /// The right to revalidate what [`Lookup::StaleWhileRevalidate`] gave out; `None` if another request does, or just
    /// has.
    pub fn refresh(&self, key: &Key<'_>, request: &HeaderMap, now: Timestamp) -> Option<Fill> {
        let asked = (request, self.selection(key, request));
        match collapse::start(self, key, &Method::GET, asked, now, Company::Any { waits: 0 }) {
            Turn::Leader(fill) => Some(fill),
            Turn::Hit(_) | Turn::Live(_) | Turn::Follower(_) | Turn::Failed(_) => None,
        }
    }

    /// What a POST that is about to be sent may put into the cache (RFC 9110 §9.3.3): see [`Fill::posted`].
    pub fn begin_post(&self, key: &Key<'_>) -> Fill {
        Fill::new(LeaderGuard::alone(self, key), Method::POST)
    }

    /// Whether a stored response may be used in place of an error that asking the service for a newer one came to
    /// (RFC 5861 §4).
    pub fn serves_if_error(&self, key: &Key<'_>, stored: &Stored, request: &HeaderMap, now: Timestamp) -> bool {
        // It may have been purged since it was found.
        stored.serves_if_error(request, now, self.purges().standing(key, stored.mark()))
    }

    /// Takes note of an answer to an unsafe request (RFC 9111 §4.4, RFC 9875 §3).
    ///
    /// If the answer is 2xx or 3xx, the request's target goes, and what `Location` and `Content-Location` name if it
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
        self.invalidate_as(key, (method, status), response, now, Place::of)
    }

    /// The same where keys are not made of what was received alone: `place` says where what answers a target is stored.
    /// The target of `key` is the one that was received.
    pub fn invalidate_as(
        &self,
        key: &Key<'_>,
        (method, status): (&Method, StatusCode),
        response: &HeaderMap,
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
        // Once, so that the answer to a POST knows what it has done itself.
        let mut places = vec![place(key.target)];
        for place in named.filter(|target| target != key.target).map(|target| place(&target)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        for place in places {
            let key = Key { target: &place.target, extra: "", ..*key };
            invalidated.targets += usize::from(self.remove(&key));
            if place.has_extra {
                // Its keys are not known: as a purge it is found out when one of them is asked for.
                invalidated.purges.push(Purge { scope: Scope::Url(Address::of(&key)), mode: Mode::Hard });
            }
        }
        if !invalidated.purges.is_empty() {
            self.inner.purges.apply(&invalidated.purges, now);
        }
        invalidated
    }

    /// Removes every response stored for a target and says whether there was one. Answers on their way are not stored.
    pub fn remove(&self, key: &Key<'_>) -> bool {
        let mut locked = self.inner.flights.lock(self.hash(key));
        locked.next_epoch();
        let was_there = self.inner.memory.remove(key);
        self.tell_invalidated(key);
        was_there
    }

    /// Tells another tier from now on what is invalid. The first call counts.
    pub fn tell_invalidations(&self, to: Arc<dyn Invalidations>) {
        let _ = self.inner.invalidations.set(to);
    }

    pub(crate) fn tell_invalidated(&self, key: &Key<'_>) {
        if let Some(invalidations) = self.inner.invalidations.get() {
            invalidations.invalidated(key);
        }
    }

    /// Every response that is stored under a key, newest first, whatever a request would get of them.
    pub fn variants(&self, key: &Key<'_>) -> Vec<Arc<Stored>> {
        self.inner.memory.variants(key)
    }

    /// Why the last answer for a key that was not stored was not, as far as it is remembered, and how many seconds ago.
    pub fn last_unstored(&self, key: &Key<'_>, now: Timestamp) -> Option<(Unstored, u64)> {
        self.inner.reasons.of(self.hash(key), now)
    }

    /// Applies purges and returns how many URLs among them had something stored under their plain key. When it returns,
    /// no lookup gives an answer that they forbid, and none that is on its way will be given later.
    pub fn purge(&self, purges: &[Purge], now: Timestamp) -> usize {
        self.inner.purges.apply(purges, now);
        let urls = purges.iter().filter_map(|purge| match &purge.scope {
            Scope::Url(address) => Some((address, purge.mode)),
            Scope::Prefix(_) | Scope::Tag(_) | Scope::Group { .. } | Scope::Everything => None,
        });
        let had = urls.filter(|(address, mode)| match mode {
            // Its memory is freed at once.
            Mode::Hard => self.remove(&address.key()),
            Mode::Soft => self.inner.memory.newest(&address.key()).is_some(),
        });
        had.count()
    }

    /// Removes from an answer of the service, on its way to a client, what is between the service and this cache
    /// ([`TagFields`]).
    pub fn finish(&self, headers: &mut HeaderMap) {
        if self.inner.options.tag_fields == TagFields::Removed {
            remove_tag_fields(headers);
        }
    }

    /// The order of purges, for what shares it between caches.
    pub fn purges(&self) -> &Purges {
        &self.inner.purges
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        Usage { bytes: self.inner.memory.weight(), resources: self.inner.memory.len() }
    }

    /// The limits it was made with.
    pub fn options(&self) -> &CacheOptions {
        &self.inner.options
    }

    pub(crate) fn policy(&self) -> Arc<PolicyOptions> {
        self.inner.policy.load_full()
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

    pub(crate) fn memory(&self) -> &Memory {
        &self.inner.memory
    }

    pub(crate) fn flights(&self) -> &Flights {
        &self.inner.flights
    }

    pub(crate) fn reasons(&self) -> &Reasons {
        &self.inner.reasons
    }

    pub(crate) fn hash(&self, key: &Key<'_>) -> KeyHash {
        KeyHash(self.inner.hasher.hash_one(key))
    }

    /// A hash of what the request selects, as far as it is known what the resource varies on.
    pub(crate) fn selection(&self, key: &Key<'_>, request: &HeaderMap) -> u64 {
        self.inner.memory.newest(key).map_or(0, |stored| self.selection_by(stored.vary(), request))
    }

    /// A hash of what the request selects by these fields, 0 without any.
    pub(crate) fn selection_by(&self, vary: &Selection, request: &HeaderMap) -> u64 {
        let mut state = self.inner.hasher.build_hasher();
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

/// Something in the request that changes its answer and is not in the key.
fn unkeyed(request: &HeaderMap) -> Option<Forward> {
    // A GET with a body could otherwise put its own answer under everybody's key.
    has_body(request).then_some(Forward::RequestBody)
}

/// The safe methods of the IANA registry; any other, and any unknown one, may change its target (RFC 9111 §4.4).
fn is_safe(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PROPFIND" | "REPORT" | "SEARCH" | "QUERY")
}
