//! One connection as the reconciler sees it.

use std::collections::{BTreeSet, HashMap, HashSet};

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
    /// Topics that came back while older messages could still be unread: until when nothing of them is taken.
    pub(super) fences: HashMap<Topic, Fence>,
}

/// Until when nothing of a topic is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    /// The end of the next round: the one under way was sent too early.
    NextRound,
    /// The end of the round under way.
    ThisRound,
}

/// What the next round does about a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Todo {
    Subscribe,
    Unsubscribe,
    /// Nothing but its `PING`: what comes before the answer may be from before the topic came back.
    Ping,
    Nothing,
}

impl Link {
    /// Whether a round may begin.
    pub(super) fn is_ready(&self) -> bool {
        self.is_connected && self.round.is_none()
    }

    /// Whether messages of a topic come, and go on coming, and none of them is from before it was assigned.
    pub(super) fn receives(&self, topic: &Topic) -> bool {
        let is_ending = self.round.as_ref().is_some_and(|round| round.is_ending(topic));
        self.confirmed.contains(topic) && !is_ending && !self.fences.contains_key(topic)
    }

    /// A topic is to come from here.
    pub(super) fn assign(&mut self, topic: &Topic) {
        self.assigned += 1;
        self.todo.insert(topic.clone());
        if self.confirmed.contains(topic) || self.round.as_ref().is_some_and(|round| round.is_subscribing(topic)) {
            self.fences.insert(topic.clone(), Fence::NextRound);
        }
    }

    /// A topic is not to come from here any more.
    pub(super) fn dismiss(&mut self, topic: &Topic) {
        self.assigned -= 1;
        self.todo.insert(topic.clone());
        self.fences.remove(topic);
    }

    /// What a round that begins now does about a topic.
    pub(super) fn plan(&mut self, topic: &Topic, is_wanted: bool) -> Todo {
        match (is_wanted, self.confirmed.contains(topic)) {
            (true, false) => {
                // Nothing old comes after a new subscription.
                self.fences.remove(topic);
                Todo::Subscribe
            }
            (true, true) => self.fences.get_mut(topic).map_or(Todo::Nothing, |fence| {
                *fence = Fence::ThisRound;
                Todo::Ping
            }),
            (false, true) => Todo::Unsubscribe,
            (false, false) => Todo::Nothing,
        }
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

    /// Ends the round: what was to be ended and is still there, and what is without a fence now.
    pub(super) fn finish(&mut self) -> (Vec<Topic>, Vec<Topic>) {
        let ending = self.round.take().map(Round::into_ending).unwrap_or_default();
        let unended = ending.into_iter().filter(|topic| self.confirmed.contains(topic)).collect();
        let unfenced = self.fences.extract_if(|_, fence| *fence == Fence::ThisRound);
        (unended, unfenced.map(|(topic, _)| topic).collect())
    }
}
