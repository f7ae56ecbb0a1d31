//! The leader's side of a flight: what it may write, and how it lands.

use std::sync::Arc;

use http::HeaderMap;

use crate::flight::{Flight, FlightOutcome, Watch};
use crate::flights::FlightKey;
use crate::key::{Key, KeyHash, StoredKey};
use crate::policy::Timestamp;
use crate::purge::{Mark, Position};
use crate::recording::LiveResponse;
use crate::second::WriteBehind;
use crate::state::State;
use crate::stored::Stored;

/// The leader's side of a flight, or of a request that goes alone. Lands as abandoned when dropped.
#[derive(Debug)]
pub(crate) struct LeaderGuard {
    pub(crate) state: Arc<State>,
    pub(crate) hash: KeyHash,
    pub(crate) key: StoredKey,
    pub(crate) selection: u64,
    pub(crate) epoch: u32,
    /// Where the order of purges was when the fetch began.
    pub(crate) position: Position,
    pub(crate) flight: Option<(FlightKey, Arc<Flight>)>,
    pub(crate) behind: Option<Box<dyn WriteBehind>>,
}

impl LeaderGuard {
    /// For a request that goes alone.
    pub(crate) fn alone(state: &Arc<State>, key: &Key<'_>) -> Self {
        let position = state.purges().position();
        let hash = state.hash(key);
        let epoch = state.flights().lock(hash).epoch();
        let (state, key) = (Arc::clone(state), key.to_stored());
        Self { state, hash, key, selection: 0, epoch, position, flight: None, behind: None }
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

    pub(crate) fn state(&self) -> &State {
        &self.state
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
        self.state.purges().mark(&self.key.as_key(), headers, self.position)
    }

    /// Runs `write` under the key's lock unless the key was invalidated since the request began.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&State) -> T) -> Option<T> {
        let locked = self.state.flights().lock(self.hash);
        (locked.epoch() == self.epoch).then(|| write(&self.state))
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
    /// a flight of its own instead of reading a response that is about to break off.
    pub(crate) fn close_unless_awaited(&self) -> bool {
        let Some((flight_key, flight)) = &self.flight else { return true };
        // Seats are taken under this lock.
        let mut locked = self.state.flights().lock(self.hash);
        let is_awaited = flight.is_awaited();
        if !is_awaited {
            locked.leave(flight_key, flight);
        }
        !is_awaited
    }

    /// Lets followers read a response of which a part is here, unless the key was invalidated since the request began.
    pub(crate) fn publish(&self, answer: LiveResponse) {
        let Some((_, flight)) = &self.flight else { return };
        if self.state.flights().lock(self.hash).epoch() == self.epoch {
            flight.publish(answer);
        }
    }

    /// Gives followers this response.
    pub(crate) fn stored(mut self, stored: Arc<Stored>) {
        self.land(FlightOutcome::Stored(stored));
    }

    /// Lands with a response that was just stored: passes it on to another tier, and to followers, if they can use it.
    pub(crate) fn land_stored(mut self, stored: &Arc<Stored>, now: Timestamp) {
        self.write_behind(stored);
        let solo = self.solo();
        if stored.is_reusable(now) {
            self.state.flights().forget_solo(solo);
            self.stored(Arc::clone(stored));
        } else {
            // Everybody has to validate: nobody gains by waiting.
            self.state.flights().remember_solo(solo, now);
            self.passed();
        }
    }

    /// Tells followers that the service failed, and what was used in place of its response.
    pub(crate) fn failed(mut self, stale: Arc<Stored>) {
        self.land(FlightOutcome::Failed(stale));
    }

    /// Lets followers go on, each alone.
    pub(crate) fn passed(mut self) {
        self.land(FlightOutcome::Passed);
    }

    fn land(&mut self, outcome: FlightOutcome) {
        if let Some((flight_key, flight)) = self.flight.take() {
            self.state.flights().lock(self.hash).leave(&flight_key, &flight);
            flight.land(outcome);
        }
    }
}

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        self.land(FlightOutcome::Abandoned);
    }
}
