//! A flight whose response was found in another tier.

use std::sync::Arc;

use super::Fill;
use crate::key::Key;
use crate::policy::Timestamp;
use crate::second::WriteBehind;
use crate::state::State;
use crate::stored::Stored;

impl Fill {
    /// What is to be fetched.
    pub fn key(&self) -> Key<'_> {
        self.leader.key().as_key()
    }

    /// Whether other requests may wait for this one's answer.
    pub fn is_shared(&self) -> bool {
        self.leader.is_shared()
    }

    /// Whether another tier may have a response, or have use for this one's: not if the target's last response could
    /// not be shared.
    pub fn is_worth_sharing(&self, now: Timestamp) -> bool {
        self.leader.is_shared() || !self.leader.state().flights().is_solo(self.leader.solo(), now)
    }

    /// Has what this flight stores passed on.
    pub fn write_behind(&mut self, behind: Box<dyn WriteBehind>) {
        self.leader.set_behind(behind);
    }

    /// Lands the flight with a response that another tier had, and puts it into memory, if there is room.
    pub fn adopt(mut self, stored: Arc<Stored>, now: Timestamp) -> Adopted {
        self.leader.forget_behind(); // it is where the response comes from
        if !self.keep(&stored) {
            return Adopted::Invalidated(self);
        }
        self.leader.land_stored(&stored, now);
        Adopted::Landed(stored)
    }

    /// Puts a response into memory that another tier had and that is to be validated: [`Fill::not_modified`] replaces
    /// it there. `false`: the target was invalidated since the flight began, so the response is of no use.
    pub fn keep(&self, stored: &Arc<Stored>) -> bool {
        let put = |state: &State| state.memory().put(self.leader.key().clone(), stored);
        // One that is too large for memory is still good for those who wait for it.
        self.leader.write(put).is_some()
    }
}

/// What became of a flight that was to land with the response of another tier.
#[derive(Debug)]
pub enum Adopted {
    /// It has landed.
    Landed(Arc<Stored>),
    /// The target was invalidated since the flight began, so the response may be from before that: ask the service.
    Invalidated(Fill),
}
