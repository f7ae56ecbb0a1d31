//! The memory tier: stored responses by primary key, weighed in bytes, evicted by the store's CLOCK-Pro
//! (docs/adr/0021).
//!
//! Invariant: the weights of all resources and of all recordings together never exceed the budget. A resource's weight
//! counts its key, and body, fields and `Vary` of each of its variants, with a fixed overhead for each.
//! Invariant: writers of one key hold a lock of their own (see `flights`), so that read, change, write is one step.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use quick_cache::sync::Cache as Store;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use crate::body::PIECE_BYTES;
use crate::key::{Key, StoredKey};
use crate::options::OptionsError;
use crate::policy::{RequestDirectives, Timestamp};
use crate::purge::Purges;
use crate::request_fields::RequestFields;
use crate::stored::{Refusal, Stored};
use crate::tier::lending::Lending;
use crate::weight::of_recording;

/// How many variants (RFC 9111 §4.1) of one resource are kept; the oldest goes first.
pub const MAX_VARIANTS: usize = 32;

/// Memory of a resource besides its key and variants: the store's slot and its place in the index, each up to half
/// empty.
const RESOURCE_OVERHEAD_BYTES: usize = 192;
/// How many objects of the largest size fit into one shard at least, if the budget allows more than one shard.
const MIN_OBJECTS_PER_SHARD: u64 = 8;
/// More shards than this gain nothing: a read holds a shard for some nanoseconds.
const MAX_SHARDS: u64 = 64;
/// A guess, for the store's table of recently evicted keys, which has half as many entries as the guess makes
/// resources. Four times too large costs up to 4 points of hit ratio (docs/adr/0021).
const AVERAGE_RESOURCE_BYTES: u64 = 2048;
/// All recordings together take at most this part of the cache, or one object of the largest size.
const MAX_RECORDING_PART: u64 = 4;
/// Memory of one entry of that table; taken from the budget, as the store does not count it.
const EVICTED_ENTRY_BYTES: u64 = 128;

/// The responses stored for one target, newest first.
#[derive(Debug, Clone)]
enum Resource {
    /// By far the most frequent case, without a list to go through.
    One(Arc<Stored>),
    Many(Arc<[Arc<Stored>]>),
}

impl Resource {
    fn variants(&self) -> &[Arc<Stored>] {
        match self {
            Self::One(only) => std::slice::from_ref(only),
            Self::Many(all) => all,
        }
    }

    fn new(mut variants: Vec<Arc<Stored>>) -> Option<Self> {
        match variants.len() {
            0 => None,
            1 => variants.pop().map(Self::One),
            _ => Some(Self::Many(variants.into())),
        }
    }
}

#[derive(Debug, Clone)]
struct Weigh;

impl Weighter<StoredKey, Resource> for Weigh {
    fn weight(&self, key: &StoredKey, resource: &Resource) -> u64 {
        weight(key, resource.variants())
    }
}

/// What is being sent stays in the store, if it is large: its memory would stay as well, and count nowhere. Others go
/// instead.
#[derive(Debug, Clone)]
struct Sent;

impl Lifecycle<StoredKey, Resource> for Sent {
    /// What goes, which is freed when the store's lock is.
    type RequestState = Vec<(StoredKey, Resource)>;

    fn is_pinned(&self, _: &StoredKey, resource: &Resource) -> bool {
        resource.variants().iter().any(|stored| stored.body().is_shared())
    }

    fn on_evict(&self, gone: &mut Self::RequestState, key: StoredKey, resource: Resource) {
        gone.push((key, resource));
    }
}

fn weight(key: &StoredKey, variants: &[Arc<Stored>]) -> u64 {
    let sum: usize = variants.iter().map(|stored| stored.weight()).sum();
    // usize is at most 64 bits wide on every target of this crate.
    u64::try_from(RESOURCE_OVERHEAD_BYTES + key.weight() + sum).unwrap_or(u64::MAX)
}

/// Rounded down to whole shares, as the store would round up.
fn whole_shares(bytes: u64, shards: u64) -> u64 {
    bytes - bytes % shards
}

/// What the store has for a request.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    /// Only variants made for other requests.
    OtherVariants,
    Usable(Arc<Stored>),
    Refused(Arc<Stored>, Refusal),
}

/// The store is larger than this resource may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oversized;

/// Keys come from clients, so the hash is the standard library's keyed SipHash: slower by some nanoseconds than others,
/// and safe against targets that were made to collide.
#[derive(Debug)]
pub(crate) struct Memory {
    store: Store<StoredKey, Resource, Weigh, RandomState, Sent>,
    shards: u64,
    lending: Lending,
    /// Whether a key with an extra part was ever stored.
    has_extra: AtomicBool,
}

impl Memory {
    pub(crate) fn new(max_bytes: u64, max_object_bytes: u64) -> Result<Self, OptionsError> {
        // The shares of large objects must stay small in each shard, or one of them would flush it.
        let shards = (max_bytes / max_object_bytes.saturating_mul(MIN_OBJECTS_PER_SHARD).max(1)).clamp(1, MAX_SHARDS);
        let shards = 1 << shards.ilog2();
        let expected = max_bytes / AVERAGE_RESOURCE_BYTES;
        let budget = max_bytes - expected / 2 * EVICTED_ENTRY_BYTES;
        let lending = Lending::new(budget, (max_bytes / MAX_RECORDING_PART).max(of_recording(max_object_bytes)));
        let options = OptionsBuilder::new()
            .shards(shards)
            .weight_capacity(whole_shares(lending.left(), shards as u64))
            .estimated_items_capacity(usize::try_from(expected).unwrap_or(usize::MAX))
            .build()
            .map_err(|_| OptionsError::Store)?;
        let store = Store::with_options(options, Weigh, RandomState::new(), Sent);
        Ok(Self { store, shards: shards as u64, lending, has_extra: AtomicBool::new(false) })
    }

    /// Takes so many bytes of the budget for a recording, if there are as many for recordings, and what is stored can
    /// go for it.
    pub(crate) fn lend(&self, bytes: u64) -> bool {
        if !self.lending.take(bytes, |left| self.keep(left)) {
            return false;
        }
        // What was being sent has not gone for it, but may now. A piece is not worth the question, which locks each
        // shard.
        let fits = || bytes < PIECE_BYTES as u64 || self.lending.fits_beside(self.store.weight());
        let has_room = fits() || {
            self.lending.tell_again(|left| self.keep(left));
            fits()
        };
        if !has_room {
            self.take_back(bytes);
        }
        has_room
    }

    /// Evicts what goes beyond so many bytes, now and from now on.
    fn keep(&self, max_bytes: u64) {
        self.store.set_capacity(whole_shares(max_bytes, self.shards));
    }

    /// Gives back what was [lent](Self::lend).
    pub(crate) fn take_back(&self, bytes: u64) {
        self.lending.give_back(bytes, |left| self.keep(left));
    }

    /// The store rejects what does not fit into the hot part (97 %) of a shard; a part more is left to other resources.
    fn max_resource_bytes(&self) -> u64 {
        self.lending.left() / self.shards / 10 * 9
    }

    /// Bytes in use.
    pub(crate) fn weight(&self) -> u64 {
        self.store.weight()
    }

    /// Resources stored.
    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    pub(crate) fn find(
        &self,
        key: &Key<'_>,
        request: &impl RequestFields,
        directives: &RequestDirectives,
        now: Timestamp,
        purges: &Purges,
    ) -> Found {
        let Some(resource) = self.store.get(key) else {
            return Found::Nothing;
        };
        let mut found = Found::Nothing;
        // RFC 9111 §4.1: the most recent of those that match. Newest first, so it is the first one.
        for stored in resource.variants() {
            match stored.refusal(request, directives, now, purges.standing(key, stored.mark())) {
                // It stays until it is replaced or evicted.
                Some(Refusal::Gone) => {}
                Some(Refusal::OtherVariant) => found = Found::OtherVariants,
                Some(refusal) => return Found::Refused(Arc::clone(stored), refusal),
                None => return Found::Usable(Arc::clone(stored)),
            }
        }
        found
    }

    /// The response selected for a request, fresh or not.
    pub(crate) fn select(&self, key: &Key<'_>, request: &HeaderMap) -> Option<Arc<Stored>> {
        let resource = self.store.peek(key)?;
        resource.variants().iter().find(|stored| stored.vary().matches(request)).cloned()
    }

    /// The newest response of a resource, whatever request it was made for.
    pub(crate) fn newest(&self, key: &Key<'_>) -> Option<Arc<Stored>> {
        self.store.peek(key)?.variants().first().cloned()
    }

    /// Every response of a resource, newest first.
    pub(crate) fn variants(&self, key: &Key<'_>) -> Vec<Arc<Stored>> {
        self.store.peek(key).map(|resource| resource.variants().to_vec()).unwrap_or_default()
    }

    /// Whether responses may be stored for one target under several keys ([`Key::extra`]).
    pub(crate) fn has_extra(&self) -> bool {
        self.has_extra.load(Ordering::Relaxed)
    }

    /// Adds a response in front of the others. The caller holds the key's lock.
    pub(crate) fn put(&self, key: StoredKey, stored: &Arc<Stored>) -> Result<(), Oversized> {
        let mut variants = vec![Arc::clone(stored)];
        if let Some(resource) = self.store.peek(&key.as_key()) {
            // What the new response is selected for in every case will not be selected again.
            let hidden = |old: &&Arc<Stored>| !stored.vary().is_empty() && old.vary() != stored.vary();
            variants.extend(resource.variants().iter().filter(hidden).take(MAX_VARIANTS - 1).cloned());
        }
        self.write(key, variants)
    }

    /// Puts `new` in the place of `old`, if that is still stored. The caller holds the key's lock.
    pub(crate) fn replace(&self, key: &StoredKey, old: &Arc<Stored>, new: &Arc<Stored>) -> Result<bool, Oversized> {
        let Some(resource) = self.store.peek(&key.as_key()) else {
            return Ok(false);
        };
        if !resource.variants().iter().any(|stored| Arc::ptr_eq(stored, old)) {
            return Ok(false);
        }
        // It is now the most recent one.
        let others = resource.variants().iter().filter(|stored| !Arc::ptr_eq(stored, old)).cloned();
        self.write(key.clone(), std::iter::once(Arc::clone(new)).chain(others).collect()).map(|()| true)
    }

    /// Removes one response of a resource. The caller holds the key's lock.
    pub(crate) fn remove_variant(&self, key: &StoredKey, gone: &Arc<Stored>) {
        if let Some(resource) = self.store.peek(&key.as_key()) {
            let rest = resource.variants().iter().filter(|stored| !Arc::ptr_eq(stored, gone)).cloned().collect();
            // Fewer variants than before fit.
            let _ = self.write(key.clone(), rest);
        }
    }

    /// Removes a resource and says whether there was one.
    pub(crate) fn remove(&self, key: &Key<'_>) -> bool {
        self.store.remove(key).is_some()
    }

    fn write(&self, key: StoredKey, mut variants: Vec<Arc<Stored>>) -> Result<(), Oversized> {
        let max_bytes = self.max_resource_bytes();
        while variants.len() > 1 && weight(&key, &variants) > max_bytes {
            variants.pop();
        }
        if weight(&key, &variants) > max_bytes {
            return Err(Oversized);
        }
        match Resource::new(variants) {
            Some(resource) => {
                if !key.as_key().extra.is_empty() {
                    self.has_extra.store(true, Ordering::Relaxed);
                }
                self.store.insert(key, resource);
            }
            None => drop(self.store.remove(&key.as_key())),
        }
        Ok(())
    }
}
