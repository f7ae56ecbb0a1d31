//! Collapsing: concurrent requests for what one upstream request can answer wait for it (RFC 9111 §4).
//!
//! The first request without a usable stored response *leads*; the others *follow*. A flight is known by its key and by
//! what the request selects as far as `Vary` of the resource is known already, so variants do not wait for each other.
//!
//! Invariant: each flight lands exactly once, whatever becomes of its leader (its [`LeaderGuard`] lands it when
//! dropped), and a landed flight is in no table.
//! Invariant: a response is stored before its flight leaves the table, and a leader looks into the store after it
//! entered the table, both under the key's lock; so no request can miss both.
//!
//! Invalidation is a count (epoch) for each of some thousand groups of keys: a response that was on its way when its
//! group was counted up is not stored, and requests that come later do not follow its flight.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::{HeaderMap, Method};
use tokio::sync::Notify;

use crate::cache::{Cache, MAX_WAITS, Turn};
use crate::key::{Key, KeyHash, StoredKey};
use crate::live::{Live, LiveAnswer};
use crate::policy::Timestamp;
use crate::purge::{Mark, Position};
use crate::second::WriteBehind;
use crate::stored::{Refusal, Stored};

const STRIPES: usize = 64;
const EPOCHS_PER_STRIPE: usize = 64;
/// Keys, or variants of them, known not to be worth waiting for (32 KiB); an older one gives its place to a newer one
/// of the same hash bits.
const SOLO_SLOTS: usize = 4096;
/// How long such a key is remembered.
const SOLO_MS: u64 = 10_000;

/// How a flight ended.
#[derive(Debug, Clone)]
enum Outcome {
    /// With a response that was stored, or could not be kept for lack of room but is as good.
    Stored(Arc<Stored>),
    /// Not yet, but a part of an answer is here that will be stored if it becomes whole.
    Live(LiveAnswer),
    /// With an error in whose place the leader used this stale response (RFC 5861 §4).
    Failed(Arc<Stored>),
    /// With an answer that is not to be shared: everybody asks alone, at the same time.
    Passed,
    /// The leader went away: someone else leads.
    Abandoned,
}

#[derive(Debug)]
struct Flight {
    epoch: u32,
    outcome: OnceLock<Outcome>,
    /// An answer that is under way, of which a part has come.
    live: OnceLock<LiveAnswer>,
    /// Told of both.
    landed: Notify,
    /// Who waits for it, or reads what there is of it.
    followers: AtomicUsize,
    /// It began before a purge that forbids its answer: nobody follows it any more.
    is_outdated: AtomicBool,
}

impl Flight {
    fn new(epoch: u32) -> Self {
        let (outcome, live) = (OnceLock::new(), OnceLock::new());
        Self {
            epoch,
            outcome,
            live,
            landed: Notify::new(),
            followers: AtomicUsize::new(0),
            is_outdated: AtomicBool::new(false),
        }
    }

    fn may_be_followed(&self, epoch: u32) -> bool {
        self.epoch == epoch && !self.is_outdated.load(Ordering::Relaxed)
    }
}

/// A follower's place in a flight, given back when dropped.
#[derive(Debug)]
pub(crate) struct FollowerGuard(Arc<Flight>);

impl FollowerGuard {
    fn take(flight: &Arc<Flight>) -> Self {
        flight.followers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(flight))
    }
}

impl Drop for FollowerGuard {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells whether others wait for what a leader is doing.
#[derive(Debug, Clone)]
pub struct Watch(Option<Arc<Flight>>);

impl Watch {
    /// Whether anybody could wait: what is asked for is one answer for all.
    pub fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    /// Whether anybody waits for the answer, or reads what has come of it.
    pub fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|flight| flight.followers.load(Ordering::Relaxed) > 0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FlightKey {
    key: StoredKey,
    selection: u64,
    /// Of both, by the cache's own hasher: it is known before there is a flight.
    hash: KeyHash,
}

impl Hash for FlightKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash.0);
    }
}

/// Hands on a hash that was made with a key of its own already.
#[derive(Debug, Default)]
struct HandOn(u64);

impl Hasher for HandOn {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        // The lowest bits are those of the stripe, so they say nothing within it.
        self.0.rotate_left(32)
    }
}

#[derive(Debug)]
struct Stripe {
    /// As many as there are requests on their way upstream, which the gateway limits.
    flights: HashMap<FlightKey, Arc<Flight>, BuildHasherDefault<HandOn>>,
    epochs: [u32; EPOCHS_PER_STRIPE],
}

/// The flights of a cache, and the locks of its writers.
#[derive(Debug)]
pub(crate) struct Flights {
    stripes: Box<[Mutex<Stripe>]>,
    solo: Box<[AtomicU64]>,
}

impl Flights {
    pub(crate) fn new() -> Self {
        let stripe = || Mutex::new(Stripe { flights: HashMap::default(), epochs: [0; EPOCHS_PER_STRIPE] });
        Self {
            stripes: (0..STRIPES).map(|_| stripe()).collect(),
            solo: (0..SOLO_SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Locks a key, and its neighbours, for writing.
    pub(crate) fn lock(&self, hash: KeyHash) -> Locked<'_> {
        // There is a stripe for every index, as their number is a power of two.
        let stripe = &self.stripes[hash.bits(0, STRIPES)];
        // The state is consistent between any two statements, so a panic elsewhere does not spoil it.
        Locked { stripe: stripe.lock().unwrap_or_else(PoisonError::into_inner), hash }
    }

    /// Remembers that answers under this key are not worth waiting for.
    pub(crate) fn remember_solo(&self, hash: KeyHash, now: Timestamp) {
        self.solo_slot(hash).store(solo_entry(hash, now.0.saturating_add(SOLO_MS)), Ordering::Relaxed);
    }

    /// Forgets it.
    pub(crate) fn forget_solo(&self, hash: KeyHash) {
        let slot = self.solo_slot(hash);
        if solo_tag(slot.load(Ordering::Relaxed)) == solo_tag(solo_entry(hash, 0)) {
            slot.store(0, Ordering::Relaxed);
        }
    }

    /// Whether answers under this key are known not to be worth waiting for.
    pub(crate) fn is_solo(&self, hash: KeyHash, now: Timestamp) -> bool {
        let entry = self.solo_slot(hash).load(Ordering::Relaxed);
        solo_tag(entry) == solo_tag(solo_entry(hash, 0)) && entry & SOLO_TIME > now.0 & SOLO_TIME
    }

    fn solo_slot(&self, hash: KeyHash) -> &AtomicU64 {
        &self.solo[hash.bits(12, SOLO_SLOTS)]
    }
}

/// The low 42 bits hold a time in milliseconds (until the year 2109), the others a tag from the hash.
const SOLO_TIME: u64 = (1 << 42) - 1;

fn solo_entry(hash: KeyHash, until_ms: u64) -> u64 {
    (hash.0 & !SOLO_TIME) | until_ms & SOLO_TIME
}

fn solo_tag(entry: u64) -> u64 {
    entry & !SOLO_TIME
}

/// A key under lock.
pub(crate) struct Locked<'a> {
    stripe: MutexGuard<'a, Stripe>,
    hash: KeyHash,
}

impl Locked<'_> {
    pub(crate) fn epoch(&self) -> u32 {
        self.stripe.epochs[self.epoch_at()]
    }

    /// Makes every response under way for this key one that is not stored.
    pub(crate) fn next_epoch(&mut self) {
        let at = self.epoch_at();
        self.stripe.epochs[at] = self.stripe.epochs[at].wrapping_add(1);
    }

    fn epoch_at(&self) -> usize {
        self.hash.bits(6, EPOCHS_PER_STRIPE)
    }

    /// Joins the flight of a key and selection, or begins it.
    fn join(&mut self, key: StoredKey, selection: u64) -> Joined {
        let epoch = self.epoch();
        let flight_key = FlightKey { key, selection, hash: self.hash.of_variant(selection) };
        if let Some(flight) = self.stripe.flights.get(&flight_key).filter(|flight| flight.may_be_followed(epoch)) {
            return Joined::Follower(FollowerGuard::take(flight));
        }
        // A flight from before an invalidation or a purge leaves the table here; it still lands for those who follow
        // it.
        let flight = Arc::new(Flight::new(epoch));
        self.stripe.flights.insert(flight_key.clone(), Arc::clone(&flight));
        Joined::Leader(flight_key, flight)
    }

    fn leave(&mut self, flight_key: &FlightKey, flight: &Arc<Flight>) {
        if self.stripe.flights.get(flight_key).is_some_and(|current| Arc::ptr_eq(current, flight)) {
            self.stripe.flights.remove(flight_key);
        }
    }
}

enum Joined {
    Leader(FlightKey, Arc<Flight>),
    Follower(FollowerGuard),
}

/// The leader's side of a flight, or of a request that goes alone. Lands as abandoned when dropped.
#[derive(Debug)]
pub(crate) struct LeaderGuard {
    cache: Cache,
    hash: KeyHash,
    key: StoredKey,
    selection: u64,
    epoch: u32,
    /// Where the order of purges was when the fetch began.
    position: Position,
    flight: Option<(FlightKey, Arc<Flight>)>,
    behind: Option<Box<dyn WriteBehind>>,
}

impl LeaderGuard {
    /// For a request that goes alone.
    pub(crate) fn alone(cache: &Cache, key: &Key<'_>) -> Self {
        let position = cache.purges().position();
        let hash = cache.hash(key);
        let epoch = cache.flights().lock(hash).epoch();
        let (cache, key) = (cache.clone(), key.to_stored());
        Self { cache, hash, key, selection: 0, epoch, position, flight: None, behind: None }
    }

    /// The request itself has invalidated its key once since it began. Whatever else has, counts as ever.
    pub(crate) fn discount_own_invalidation(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    pub(crate) fn set_behind(&mut self, behind: Box<dyn WriteBehind>) {
        self.behind = Some(behind);
    }

    pub(crate) fn forget_behind(&mut self) {
        self.behind = None;
    }

    /// Passes what was stored on to another tier.
    pub(crate) fn write_behind(&mut self, stored: &Arc<Stored>) {
        if let Some(behind) = self.behind.take() {
            behind.stored(&self.key.as_key(), stored);
        }
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn key(&self) -> &StoredKey {
        &self.key
    }

    pub(crate) fn hash(&self) -> KeyHash {
        self.hash
    }

    /// What answers that are not worth waiting for are remembered by: the key, and the variant as far as it is known.
    pub(crate) fn solo(&self) -> KeyHash {
        self.hash.of_variant(self.selection)
    }

    /// What a response with these fields is to carry that was fetched on this flight.
    pub(crate) fn mark(&self, headers: &HeaderMap) -> Mark {
        self.cache.purges().mark(&self.key.as_key(), headers, self.position)
    }

    /// Runs `write` under the key's lock unless the key was invalidated since the request began.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&Cache) -> T) -> Option<T> {
        let locked = self.cache.flights().lock(self.hash);
        (locked.epoch() == self.epoch).then(|| write(&self.cache))
    }

    /// Whether others may wait for this.
    pub(crate) fn is_shared(&self) -> bool {
        self.flight.is_some()
    }

    /// Tells whether others do.
    pub(crate) fn watch(&self) -> Watch {
        Watch(self.flight.as_ref().map(|(_, flight)| Arc::clone(flight)))
    }

    /// Ends the flight for those to come, unless somebody waits for it; whether it did. Who would join meanwhile begins
    /// a flight of its own instead of reading an answer that is about to break off.
    pub(crate) fn close_unless_awaited(&self) -> bool {
        let Some((flight_key, flight)) = &self.flight else { return true };
        // Seats are taken under this lock.
        let mut locked = self.cache.flights().lock(self.hash);
        let is_awaited = flight.followers.load(Ordering::Relaxed) > 0;
        if !is_awaited {
            locked.leave(flight_key, flight);
        }
        !is_awaited
    }

    /// Lets followers read an answer of which a part is here, unless the key was invalidated since the request began.
    pub(crate) fn publish(&self, answer: LiveAnswer) {
        let Some((_, flight)) = &self.flight else { return };
        if self.cache.flights().lock(self.hash).epoch() == self.epoch && flight.live.set(answer).is_ok() {
            flight.landed.notify_waiters();
        }
    }

    /// Gives followers this response.
    pub(crate) fn stored(mut self, stored: Arc<Stored>) {
        self.land(Outcome::Stored(stored));
    }

    /// Tells followers that the service failed, and what was used in place of its answer.
    pub(crate) fn failed(mut self, stale: Arc<Stored>) {
        self.land(Outcome::Failed(stale));
    }

    /// Lets followers go on, each alone.
    pub(crate) fn passed(mut self) {
        self.land(Outcome::Passed);
    }

    fn land(&mut self, outcome: Outcome) {
        if let Some((flight_key, flight)) = self.flight.take() {
            self.cache.flights().lock(self.hash).leave(&flight_key, &flight);
            // Only this leader sets it, once, as it took the flight.
            let _ = flight.outcome.set(outcome);
            flight.landed.notify_waiters();
        }
    }
}

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        self.land(Outcome::Abandoned);
    }
}

/// A place behind another request that is on its way upstream.
///
/// It has no time limit of its own: the leader lands at the latest when its own exchange ends. The caller bounds the
/// wait by its request's deadline.
#[derive(Debug)]
pub struct Wait {
    cache: Cache,
    method: Method,
    follower: FollowerGuard,
    waits: u32,
}

impl Wait {
    /// Waits until the other request has an answer, or a part of one that may be read, or has none to share.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the flight; the leader and other followers do not notice.
    pub async fn landed(self) -> Landed {
        let flight = &self.follower.0;
        let outcome = loop {
            // Made before the look at the outcome: it is then told of any leader after it.
            let notified = flight.landed.notified();
            if let Some(outcome) = flight.outcome.get() {
                break outcome.clone();
            }
            if let Some(live) = flight.live.get() {
                break Outcome::Live(live.clone());
            }
            notified.await;
        };
        Landed { cache: self.cache, method: self.method, outcome, follower: self.follower, waits: self.waits }
    }
}

/// The end of a [`Wait`].
#[derive(Debug)]
pub struct Landed {
    cache: Cache,
    method: Method,
    outcome: Outcome,
    follower: FollowerGuard,
    waits: u32,
}

impl Landed {
    /// What to do now. Takes what `begin` was given, at the present time.
    pub fn turn(self, key: &Key<'_>, request: &HeaderMap, now: Timestamp) -> Turn {
        let next = Company::Any { waits: self.waits + 1 };
        let mut selection = None;
        let company = match self.outcome {
            Outcome::Stored(stored) => match self.cache.landed_refusal(key, &stored, request, now) {
                None => return Turn::Hit(stored),
                // The flight began before a purge, this request may have come after it. One of those that waited asks
                // again.
                Some(Refusal::Gone) => next,
                // Its variant has a flight of its own, now that it is known what the resource varies on.
                Some(Refusal::OtherVariant) => next,
                Some(Refusal::Revalidate | Refusal::Validate(_) | Refusal::NotFor(_)) => Company::None,
            },
            Outcome::Live(live) => match self.cache.landed_refusal(key, &live.head, request, now) {
                None => return Turn::Live(Live::new(live, self.follower)),
                // As above, but that flight is still in the table.
                Some(Refusal::Gone) => {
                    self.follower.0.is_outdated.store(true, Ordering::Relaxed);
                    next
                }
                Some(Refusal::OtherVariant) => {
                    selection = Some(self.cache.selection_by(live.head.vary(), request));
                    next
                }
                Some(Refusal::Revalidate | Refusal::Validate(_) | Refusal::NotFor(_)) => Company::None,
            },
            Outcome::Abandoned => next,
            // Who may use what the leader used does not ask a service that has just failed.
            Outcome::Failed(stale) if self.cache.serves_if_error(key, &stale, request, now) => {
                return Turn::Failed(stale);
            }
            Outcome::Failed(_) => Company::None,
            // All at the same time, not one behind the other.
            Outcome::Passed => Company::None,
        };
        let selection = selection.unwrap_or_else(|| self.cache.selection(key, request));
        start(&self.cache, key, &self.method, (request, selection), now, company)
    }
}

/// Whether a request may share the answer of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    Any {
        /// How often the request has waited already.
        waits: u32,
    },
    None,
}

/// Gives a request that needs an upstream answer its turn.
pub(crate) fn start(
    cache: &Cache,
    key: &Key<'_>,
    method: &Method,
    (request, selection): (&HeaderMap, u64),
    now: Timestamp,
    company: Company,
) -> Turn {
    // Before anything is asked for: what is purged from here on is found out, whenever the answer is stored.
    let position = cache.purges().position();
    let hash = cache.hash(key);
    let mut locked = cache.flights().lock(hash);
    // Between the caller's lookup and this lock a leader may have stored an answer and left.
    if let Some(stored) = cache.usable(key, method, request, now) {
        return Turn::Hit(stored);
    }
    let leader = |epoch, flight| {
        let (cache, key) = (cache.clone(), key.to_stored());
        LeaderGuard { cache, hash, key, selection, epoch, position, flight, behind: None }
    };
    let waits = match company {
        Company::Any { waits } if waits < MAX_WAITS => waits,
        Company::Any { .. } | Company::None => return Turn::lead(leader(locked.epoch(), None), method),
    };
    match locked.join(key.to_stored(), selection) {
        Joined::Follower(follower) => {
            Turn::Follower(Wait { cache: cache.clone(), method: method.clone(), follower, waits })
        }
        Joined::Leader(flight_key, flight) => Turn::lead(leader(flight.epoch, Some((flight_key, flight))), method),
    }
}
