//! Collapsing: concurrent requests for what one upstream request can answer wait for it (RFC 9111 §4).
//!
//! The first request without a usable stored response *leads*; the others *follow*. A flight is known by its key and by
//! what the request selects as far as `Vary` of the resource is known already, so variants do not wait for each other.
//!
//! Invariant: each flight lands exactly once, whatever becomes of its leader (its
//! [`LeaderGuard`](crate::leader::LeaderGuard) lands it when dropped), and a landed flight is in no table.
//! Invariant: a response is stored before its flight leaves the table, and a leader looks into the store after it
//! entered the table, both under the key's lock; so no request can miss both.
//!
//! Invalidation is a count (epoch) for each of some thousand groups of keys: a response that was on its way when its
//! group was counted up is not stored, and requests that come later do not follow its flight.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::flight::{Flight, FollowerGuard};
use crate::key::{KeyHash, StoredKey};
use crate::policy::Timestamp;

const STRIPES: usize = 64;
const EPOCHS_PER_STRIPE: usize = 64;
/// Keys, or variants of them, known not to be worth waiting for (32 KiB); an older one gives its place to a newer one
/// of the same hash bits.
const SOLO_SLOTS: usize = 4096;
/// How long such a key is remembered.
const SOLO_MS: u64 = 10_000;

/// What a flight is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlightKey {
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
    pub(crate) fn join(&mut self, key: StoredKey, selection: u64) -> Joined {
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

    pub(crate) fn leave(&mut self, flight_key: &FlightKey, flight: &Arc<Flight>) {
        if self.stripe.flights.get(flight_key).is_some_and(|current| Arc::ptr_eq(current, flight)) {
            self.stripe.flights.remove(flight_key);
        }
    }
}

pub(crate) enum Joined {
    Leader(FlightKey, Arc<Flight>),
    Follower(FollowerGuard),
}
