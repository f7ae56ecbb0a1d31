//! What is sent to a connection at once, and which of it is answered. Its end is the answer to a `PING` behind all of
//! it.

use std::collections::{HashSet, VecDeque};

use pilotlight_resp::encode;

use super::topic::{Kind, Topic, by_slot};
use crate::error::ServerError;
use crate::error::table::{About, judge_own};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Subscribe,
    Unsubscribe,
}

/// One command. Its topics are of one kind, and of one slot if they have slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) verb: Verb,
    pub(crate) topics: Vec<Topic>,
}

/// A round under way.
#[derive(Debug)]
pub(super) struct Round {
    /// Commands in their order, each with what is not confirmed yet.
    subscribes: VecDeque<HashSet<Topic>>,
    /// Sent after those.
    unsubscribes: VecDeque<HashSet<Topic>>,
    /// All topics of `unsubscribes`.
    ending: HashSet<Topic>,
}

/// Which command an error answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Blame {
    Subscribe(Vec<Topic>),
    Unsubscribe,
    Ping,
}

impl Order {
    /// Appends the command in RESP.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode::array_header(out, self.topics.len() + 1);
        encode::bulk(out, self.name());
        self.topics.iter().for_each(|topic| encode::bulk(out, &topic.name));
    }

    fn name(&self) -> &'static [u8] {
        match (self.verb, self.topics.first().map(|topic| topic.kind)) {
            (Verb::Subscribe, Some(Kind::Channel) | None) => b"SUBSCRIBE",
            (Verb::Subscribe, Some(Kind::Pattern)) => b"PSUBSCRIBE",
            (Verb::Subscribe, Some(Kind::Sharded)) => b"SSUBSCRIBE",
            (Verb::Unsubscribe, Some(Kind::Channel) | None) => b"UNSUBSCRIBE",
            (Verb::Unsubscribe, Some(Kind::Pattern)) => b"PUNSUBSCRIBE",
            (Verb::Unsubscribe, Some(Kind::Sharded)) => b"SUNSUBSCRIBE",
        }
    }
}

impl Round {
    /// A round, and its commands in the order of their sending.
    pub(super) fn new(alone: Vec<Topic>, together: Vec<Topic>, unsubscribe: Vec<Topic>) -> (Self, Vec<Order>) {
        let set = |topics: &Vec<Topic>| topics.iter().cloned().collect::<HashSet<_>>();
        let ending = set(&unsubscribe);
        let alone = alone.into_iter().map(|topic| vec![topic]);
        let subscribe: Vec<_> = commands(together).into_iter().chain(alone).collect();
        let unsubscribe = commands(unsubscribe);
        let round = Self {
            subscribes: subscribe.iter().map(set).collect(),
            unsubscribes: unsubscribe.iter().map(set).collect(),
            ending,
        };
        let order = |verb| move |topics| Order { verb, topics };
        let subscribe = subscribe.into_iter().map(order(Verb::Subscribe));
        (round, subscribe.chain(unsubscribe.into_iter().map(order(Verb::Unsubscribe))).collect())
    }

    pub(super) fn is_ending(&self, topic: &Topic) -> bool {
        self.ending.contains(topic)
    }

    /// Whether a topic is being subscribed.
    pub(super) fn is_subscribing(&self, topic: &Topic) -> bool {
        self.subscribes.iter().any(|topics| topics.contains(topic))
    }

    /// Whether all subscribing commands are answered.
    pub(super) fn is_subscribed(&self) -> bool {
        self.subscribes.is_empty()
    }

    pub(super) fn subscribed(&mut self, topic: &Topic) {
        answer(&mut self.subscribes, topic);
    }

    pub(super) fn unsubscribed(&mut self, topic: &Topic) {
        answer(&mut self.unsubscribes, topic);
    }

    /// The command that an error answers: the oldest without an answer.
    pub(super) fn blame(&mut self, error: &ServerError) -> Blame {
        if let Some(topics) = self.subscribes.pop_front() {
            let mut topics: Vec<_> = topics.into_iter().collect();
            topics.sort_unstable();
            return Blame::Subscribe(topics);
        }
        // A node that has lost the slot ends the subscription by itself, and refuses to do it again
        // (valkey-io/valkey#1066): that command looks answered and is not. `PING` has no key.
        let is_about_slot = judge_own(error).about == About::Slot;
        if self.unsubscribes.pop_front().is_some() || is_about_slot { Blame::Unsubscribe } else { Blame::Ping }
    }

    pub(super) fn into_ending(self) -> HashSet<Topic> {
        self.ending
    }
}

/// Topics of all kinds as commands.
fn commands(topics: Vec<Topic>) -> Vec<Vec<Topic>> {
    let mut commands = Vec::new();
    let (sharded, others): (Vec<_>, Vec<_>) = topics.into_iter().partition(|topic| topic.kind == Kind::Sharded);
    let (patterns, channels): (Vec<_>, Vec<_>) = others.into_iter().partition(|topic| topic.kind == Kind::Pattern);
    commands.extend([channels, patterns].into_iter().filter(|topics| !topics.is_empty()));
    commands.extend(by_slot(sharded));
    commands
}

/// Strikes a topic off the oldest command that waits for it.
fn answer(commands: &mut VecDeque<HashSet<Topic>>, topic: &Topic) {
    if let Some(position) = commands.iter_mut().position(|topics| topics.remove(topic))
        && commands[position].is_empty()
    {
        commands.remove(position);
    }
}
