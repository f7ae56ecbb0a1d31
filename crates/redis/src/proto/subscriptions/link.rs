//! One connection as the reconciler sees it.

use std::collections::{BTreeSet, HashSet};

use super::round::{Order, Round};
use super::topic::Topic;

#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) is_connected: bool,
    /// Topics that are to come from here.
    pub(super) assigned: usize,
    /// What the server has confirmed and not ended.
    pub(super) confirmed: HashSet<Topic>,
    /// Topics for which wanted and confirmed may differ.
    pub(super) todo: BTreeSet<Topic>,
    /// Topics for which they do, and that wait for another try.
    pub(super) failed: BTreeSet<Topic>,
    /// Topics of a command that was refused: one of them is to blame.
    pub(super) suspects: HashSet<Topic>,
    pub(super) failures: u32,
    pub(super) round: Option<Round>,
}

impl Link {
    /// Whether a round may begin.
    pub(super) fn is_ready(&self) -> bool {
        self.is_connected && self.round.is_none()
    }

    /// Whether messages of a topic come, and go on coming.
    pub(super) fn receives(&self, topic: &Topic) -> bool {
        self.confirmed.contains(topic) && !self.round.as_ref().is_some_and(|round| round.is_ending(topic))
    }

    /// Begins a round.
    pub(super) fn begin(&mut self, subscribe: Vec<Topic>, unsubscribe: Vec<Topic>) -> Vec<Order> {
        let suspects = std::mem::take(&mut self.suspects);
        let (alone, together) = subscribe.into_iter().partition(|topic| suspects.contains(topic));
        let (round, orders) = Round::new(alone, together, unsubscribe);
        self.round = Some(round);
        orders
    }

    /// A topic is subscribed now.
    pub(super) fn confirm(&mut self, topic: &Topic) {
        self.confirmed.insert(topic.clone());
        if let Some(round) = &mut self.round {
            round.subscribed(topic);
        }
    }

    /// A topic is not subscribed any more; false if it was not.
    pub(super) fn end(&mut self, topic: &Topic) -> bool {
        if let Some(round) = &mut self.round {
            round.unsubscribed(topic);
        }
        self.confirmed.remove(topic)
    }

    /// Ends the round: what was to be ended and is still there.
    pub(super) fn finish(&mut self) -> Vec<Topic> {
        let ending = self.round.take().map(Round::into_ending).unwrap_or_default();
        ending.into_iter().filter(|topic| self.confirmed.contains(topic)).collect()
    }
}
