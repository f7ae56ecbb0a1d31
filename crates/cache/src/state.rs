//! What all handles of a cache share: what is stored, what is on its way, and what was purged.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use crate::flights::Flights;
use crate::key::{Key, KeyHash};
use crate::options::{CacheOptions, OptionsError};
use crate::policy::PolicyOptions;
use crate::purge::Purges;
use crate::reasons::Reasons;
use crate::second::Invalidations;
use crate::tier::memory::Memory;

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    options: CacheOptions,
    policy: ArcSwap<PolicyOptions>,
    memory: Memory,
    flights: Flights,
    reasons: Reasons,
    purges: Purges,
    hasher: RandomState,
    invalidations: OnceLock<Arc<dyn Invalidations>>,
}

impl State {
    pub(crate) fn new(options: CacheOptions, purges: Purges) -> Result<Self, OptionsError> {
        let CacheOptions { max_bytes, max_object_bytes, .. } = options.checked()?;
        Ok(Self {
            options,
            policy: ArcSwap::from_pointee(PolicyOptions::default()),
            memory: Memory::new(max_bytes, max_object_bytes)?,
            flights: Flights::new(),
            reasons: Reasons::new(),
            purges,
            hasher: RandomState::new(),
            invalidations: OnceLock::new(),
        })
    }

    /// Removes every response stored for a target and says whether there was one. Answers on their way are not stored.
    pub(crate) fn remove(&self, key: &Key<'_>) -> bool {
        let mut locked = self.flights.lock(self.hash(key));
        locked.next_epoch();
        let was_there = self.memory.remove(key);
        self.tell_invalidated(key);
        was_there
    }

    /// Tells another tier from now on what is invalid. The first call counts.
    pub(crate) fn tell_invalidations(&self, to: Arc<dyn Invalidations>) {
        let _ = self.invalidations.set(to);
    }

    pub(crate) fn tell_invalidated(&self, key: &Key<'_>) {
        if let Some(invalidations) = self.invalidations.get() {
            invalidations.invalidated(key);
        }
    }

    pub(crate) fn set_policy(&self, policy: PolicyOptions) {
        self.policy.store(Arc::new(policy));
    }

    pub(crate) fn policy(&self) -> Arc<PolicyOptions> {
        self.policy.load_full()
    }

    pub(crate) fn hash(&self, key: &Key<'_>) -> KeyHash {
        KeyHash(self.hasher.hash_one(key))
    }

    pub(crate) fn hasher(&self) -> &RandomState {
        &self.hasher
    }

    pub(crate) fn options(&self) -> &CacheOptions {
        &self.options
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn flights(&self) -> &Flights {
        &self.flights
    }

    pub(crate) fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    pub(crate) fn purges(&self) -> &Purges {
        &self.purges
    }
}
