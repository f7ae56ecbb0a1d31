//! Which subscriber wants which channels, and what has to be sent to which connection so that he gets their messages.
//!
//! ```text
//!  wanted topics ──route──▶ assigned node ──┐
//!                                           ├─ difference ─▶ round: SUBSCRIBE …, UNSUBSCRIBE …, PING ─▶ (node)
//!  what the node has confirmed ─────────────┘                                                             │
//!        ▲── subscribe, unsubscribe, sunsubscribe, errors, PONG ◀─────────────────────────────────────────┘
//! ```
//!
//! Invariant: the confirmed set of a connection changes only by what the server says, in the order it says it. So it is
//! the server's own set at that place of the stream, whoever caused the change: our command, a slot that moved away, or
//! both at once (valkey-io/valkey#1066). Nothing is counted.
//!
//! Invariant: one round is under way on a connection at a time, and it ends with the answer to its `PING`. Subscribing
//! and unsubscribing the same channel never race, and an error reply belongs to the oldest command of the round that is
//! not confirmed: a subscription has no other reply (redis/redis#11784).
//!
//! Invariant: a topic's messages are taken from the node that it is assigned to and from nowhere else, so each is
//! delivered once. When a topic comes back to a connection that is still subscribed to it, older messages may wait
//! there unread that another node has delivered meanwhile: none is taken until a `PING` that was sent since is
//! answered.

mod link;
mod round;
mod said;
mod topic;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::error::{Advice, ServerError};
use link::Link;
pub(crate) use topic::{Kind, Topic};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SubscriberId(u64);

/// Why messages may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GapReason {
    /// The connection was lost.
    ConnectionLost,
    /// The node stopped serving the channel: its slot has moved, or the node has left the cluster.
    Moved,
}

/// What is to be done about a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output<N> {
    /// A connection to this node is wanted for the first time.
    Connect(N),
    /// The message in hand is for this subscriber.
    Deliver(SubscriberId),
    /// Messages may be missing before this point; what follows is complete again.
    Gap(SubscriberId, GapReason),
    /// Nothing that this subscriber asked for is without an answer.
    Settled(SubscriberId),
    /// The server does not allow the topic. A subscriber that has not had it yet has lost it; for others it is tried
    /// on.
    Refused(SubscriberId, Topic, ServerError),
    /// The server says where the slot of a topic is now.
    Redirected(ServerError),
    /// The node has dropped a shard channel: somebody else has its slot.
    Uprooted,
}

/// The server says what cannot follow from what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Desync(pub(crate) &'static str);

/// Which topics are given a node again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reroute {
    /// Those whose messages do not come. A server that loses the slot of another will say so.
    Missing,
    All,
}

/// Redirects followed at once before a topic waits for its turn.
const MAX_REDIRECTS: u32 = 5;

/// See the module.
#[derive(Debug)]
pub(crate) struct Subscriptions<N> {
    topics: HashMap<Topic, Entry<N>>,
    subscribers: HashMap<SubscriberId, Subscriber>,
    links: HashMap<N, Link>,
    next_id: u64,
    /// Receptions that are awaited or lost.
    missing: usize,
}

#[derive(Debug)]
struct Entry<N> {
    receivers: Vec<(SubscriberId, Reception)>,
    node: Option<N>,
    /// Answers since it was last confirmed that said: not here, or not now.
    detours: u32,
}

#[derive(Debug, Default)]
struct Subscriber {
    topics: HashSet<Topic>,
    awaited: usize,
    lost: usize,
    recovered: usize,
    /// Why the first of the lost ones was.
    reason: Option<GapReason>,
}

/// What one subscriber has of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reception {
    /// He never had it yet.
    Awaited,
    Live,
    /// He had it, and will be told of the gap when he has it again. Whether he knows that it is refused now.
    Lost {
        told: bool,
    },
    /// He has it again, but other topics are still lost, and he was not told of the gap yet.
    Recovered,
}

impl<N: Clone + Eq + Hash> Subscriptions<N> {
    pub(crate) fn new() -> Self {
        Self { topics: HashMap::new(), subscribers: HashMap::new(), links: HashMap::new(), next_id: 0, missing: 0 }
    }

    pub(crate) fn add_subscriber(&mut self) -> SubscriberId {
        let id = SubscriberId(self.next_id);
        self.next_id += 1;
        self.subscribers.insert(id, Subscriber::default());
        id
    }

    /// The subscriber has gone.
    pub(crate) fn remove_subscriber(&mut self, who: SubscriberId, out: &mut Vec<Output<N>>) {
        let topics = self.subscribers.get(&who).map(|it| it.topics.clone()).unwrap_or_default();
        topics.iter().for_each(|topic| self.unwant(who, topic, out));
        self.subscribers.remove(&who);
    }

    /// The subscriber wants a topic; false if he has asked for it already. `route` says who serves it now.
    pub(crate) fn want(
        &mut self,
        who: SubscriberId,
        topic: &Topic,
        route: impl FnOnce(&Topic) -> Option<N>,
        out: &mut Vec<Output<N>>,
    ) -> bool {
        let Some(subscriber) = self.subscribers.get_mut(&who) else { return false };
        if !subscriber.topics.insert(topic.clone()) {
            return false;
        }
        subscriber.awaited += 1;
        self.missing += 1;
        let receiver = (who, Reception::Awaited);
        if let Some(entry) = self.topics.get_mut(topic) {
            entry.receivers.push(receiver);
            if self.is_received(topic) {
                self.gain(topic, out);
            }
        } else {
            self.topics.insert(topic.clone(), Entry { receivers: vec![receiver], node: None, detours: 0 });
            self.assign(topic, route(topic), out);
        }
        true
    }

    /// The subscriber does not want a topic any more.
    pub(crate) fn unwant(&mut self, who: SubscriberId, topic: &Topic, out: &mut Vec<Output<N>>) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        let Some(position) = entry.receivers.iter().position(|(id, _)| *id == who) else { return };
        let (_, reception) = entry.receivers.swap_remove(position);
        if entry.receivers.is_empty() {
            let node = entry.node.take();
            self.topics.remove(topic);
            if let Some(link) = node.and_then(|node| self.links.get_mut(&node)) {
                link.dismiss(topic);
            }
        }
        let Some(subscriber) = self.subscribers.get_mut(&who) else { return };
        subscriber.topics.remove(topic);
        match reception {
            Reception::Awaited => {
                subscriber.awaited -= 1;
                self.missing -= 1;
                if subscriber.awaited == 0 {
                    out.push(Output::Settled(who));
                }
            }
            Reception::Lost { .. } => {
                subscriber.lost -= 1;
                self.missing -= 1;
                self.tell_if_whole(who, out);
            }
            Reception::Recovered => subscriber.recovered -= 1,
            Reception::Live => {}
        }
    }

    /// Whether the subscriber still waits for a topic to be confirmed for the first time.
    pub(crate) fn is_awaited(&self, who: SubscriberId, topic: &Topic) -> bool {
        self.topics.get(topic).is_some_and(|entry| entry.receivers.contains(&(who, Reception::Awaited)))
    }

    /// Whether the subscriber wants a topic.
    pub(crate) fn is_wanted(&self, who: SubscriberId, topic: &Topic) -> bool {
        self.subscribers.get(&who).is_some_and(|subscriber| subscriber.topics.contains(topic))
    }

    /// Whether the subscriber gets the messages of all that he wants.
    pub(crate) fn is_whole(&self, who: SubscriberId) -> bool {
        self.subscribers.get(&who).is_some_and(|it| it.awaited + it.lost == 0)
    }

    /// Topics awaited by anybody whose node is `node`.
    pub(crate) fn awaited_at(&self, node: &N) -> Vec<(SubscriberId, Topic)> {
        let here = self.topics.iter().filter(|(_, entry)| entry.node.as_ref() == Some(node));
        let awaited = here.flat_map(|(topic, entry)| {
            let receivers = entry.receivers.iter().filter(|(_, reception)| *reception == Reception::Awaited);
            receivers.map(|(who, _)| (*who, topic.clone()))
        });
        awaited.collect()
    }

    /// Whether anybody is without messages because a node cannot be reached or is not the right one.
    pub(crate) fn is_stranded(&self) -> bool {
        let is_lost = |(topic, entry): (&Topic, &Entry<N>)| {
            let link = entry.node.as_ref().and_then(|node| self.links.get(node));
            !link.is_some_and(|link| link.receives(topic) || (link.is_connected && entry.detours == 0))
        };
        self.missing > 0 && self.topics.iter().any(is_lost)
    }

    /// Gives topics the nodes that serve them now.
    pub(crate) fn reroute(&mut self, which: Reroute, route: impl Fn(&Topic) -> Option<N>, out: &mut Vec<Output<N>>) {
        let chosen: Vec<Topic> =
            self.topics.keys().filter(|topic| which == Reroute::All || !self.is_received(topic)).cloned().collect();
        for topic in chosen {
            // A node that is not known to be replaced keeps what it has.
            if let Some(node) = route(&topic) {
                self.assign(&topic, Some(node), out);
            }
        }
    }

    fn assign(&mut self, topic: &Topic, node: Option<N>, out: &mut Vec<Output<N>>) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        if entry.node == node {
            return;
        }
        let old = std::mem::replace(&mut entry.node, node.clone());
        if let Some(link) = old.and_then(|old| self.links.get_mut(&old)) {
            link.dismiss(topic);
        }
        self.lose(topic, GapReason::Moved);
        let Some(node) = node else { return };
        let link = self.links.entry(node.clone()).or_insert_with(|| {
            out.push(Output::Connect(node));
            Link::default()
        });
        link.assign(topic);
    }

    /// The messages of a topic come, from its node.
    fn is_received(&self, topic: &Topic) -> bool {
        let node = self.topics.get(topic).and_then(|entry| entry.node.as_ref());
        node.and_then(|node| self.links.get(node)).is_some_and(|link| link.receives(topic))
    }

    fn gain(&mut self, topic: &Topic, out: &mut Vec<Output<N>>) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        entry.detours = 0;
        let mut whole = Vec::new();
        for (who, reception) in &mut entry.receivers {
            let Some(subscriber) = self.subscribers.get_mut(who) else { continue };
            match reception {
                Reception::Awaited => {
                    *reception = Reception::Live;
                    subscriber.awaited -= 1;
                    self.missing -= 1;
                    if subscriber.awaited == 0 {
                        out.push(Output::Settled(*who));
                    }
                }
                Reception::Lost { .. } => {
                    *reception = Reception::Recovered;
                    subscriber.lost -= 1;
                    subscriber.recovered += 1;
                    self.missing -= 1;
                    whole.push(*who);
                }
                Reception::Live | Reception::Recovered => {}
            }
        }
        whole.into_iter().for_each(|who| self.tell_if_whole(who, out));
    }

    fn lose(&mut self, topic: &Topic, reason: GapReason) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        for (who, reception) in &mut entry.receivers {
            let Some(subscriber) = self.subscribers.get_mut(who) else { continue };
            match reception {
                Reception::Awaited | Reception::Lost { .. } => continue,
                Reception::Recovered => subscriber.recovered -= 1,
                Reception::Live => {}
            }
            *reception = Reception::Lost { told: false };
            subscriber.lost += 1;
            subscriber.reason.get_or_insert(reason);
            self.missing += 1;
        }
    }

    fn tell_if_whole(&mut self, who: SubscriberId, out: &mut Vec<Output<N>>) {
        if self.subscribers.get(&who).is_some_and(|subscriber| subscriber.lost == 0) {
            self.tell_gap(who, out);
        }
    }

    /// Tells a subscriber of the gap in all topics that he has again.
    fn tell_gap(&mut self, who: SubscriberId, out: &mut Vec<Output<N>>) {
        let Some(subscriber) = self.subscribers.get_mut(&who) else { return };
        let reason = if subscriber.lost == 0 { subscriber.reason.take() } else { subscriber.reason };
        if std::mem::take(&mut subscriber.recovered) == 0 {
            return;
        }
        out.push(Output::Gap(who, reason.unwrap_or(GapReason::ConnectionLost)));
        for topic in &subscriber.topics {
            let receivers = self.topics.get_mut(topic).into_iter().flat_map(|entry| &mut entry.receivers);
            for (_, reception) in receivers.filter(|(id, reception)| *id == who && *reception == Reception::Recovered) {
                *reception = Reception::Live;
            }
        }
    }

    fn refuse(&mut self, node: &N, topics: Vec<Topic>, error: &ServerError, out: &mut Vec<Output<N>>) {
        let Some(link) = self.links.get_mut(node) else { return };
        match error.advice() {
            // Which of them is it? The next round asks for each by itself.
            Advice::Never if topics.len() > 1 => {
                link.todo.extend(topics.iter().cloned());
                link.suspects.extend(topics);
            }
            Advice::Never => {
                link.failed.extend(topics.iter().cloned());
                topics.iter().for_each(|topic| self.refuse_one(topic, error, out));
            }
            advice => {
                link.failed.extend(topics.iter().cloned());
                let mut is_patient = true;
                for topic in &topics {
                    let Some(entry) = self.topics.get_mut(topic) else { continue };
                    entry.detours = entry.detours.saturating_add(1);
                    is_patient &= entry.detours <= MAX_REDIRECTS;
                }
                if advice == Advice::Redirect && is_patient {
                    out.push(Output::Redirected(error.clone()));
                }
            }
        }
    }

    fn refuse_one(&mut self, topic: &Topic, error: &ServerError, out: &mut Vec<Output<N>>) {
        let Some(entry) = self.topics.get_mut(topic) else { return };
        let mut vain = Vec::new();
        for (who, reception) in &mut entry.receivers {
            match reception {
                Reception::Awaited => vain.push(*who),
                Reception::Lost { told: false } => *reception = Reception::Lost { told: true },
                _ => continue,
            }
            out.push(Output::Refused(*who, topic.clone(), error.clone()));
        }
        vain.into_iter().for_each(|who| self.unwant(who, topic, out));
    }
}

#[cfg(test)]
mod tests;
