//! A node's connection: what is to be sent to it, and what follows from what it says.

use std::hash::Hash;

use super::link::{Link, Todo};
use super::round::{Blame, Order};
use super::{Desync, GapReason, Kind, Output, Reception, Subscriptions, Topic};
use crate::error::ServerError;

impl<N: Clone + Eq + Hash> Subscriptions<N> {
    /// A connection to the node is ready.
    pub(crate) fn connected(&mut self, node: &N) {
        let Some(link) = self.links.get_mut(node) else { return };
        let here = self.topics.iter().filter(|(_, entry)| entry.node.as_ref() == Some(node));
        *link = Link {
            is_connected: true,
            assigned: link.assigned,
            todo: here.map(|(topic, _)| topic.clone()).collect(),
            ..Link::default()
        };
    }

    /// The connection to the node is lost.
    pub(crate) fn disconnected(&mut self, node: &N) {
        let Some(link) = self.links.get_mut(node) else { return };
        let lost = std::mem::replace(link, Link { assigned: link.assigned, ..Link::default() });
        for topic in lost.confirmed {
            if self.is_at(&topic, node) {
                self.lose(&topic, GapReason::ConnectionLost);
            }
        }
    }

    /// Whether anything is assigned to the node.
    pub(crate) fn is_needed(&self, node: &N) -> bool {
        self.links.get(node).is_some_and(|link| link.assigned > 0)
    }

    /// The node's connection is to end if nothing is assigned to it: false if something is.
    pub(crate) fn release(&mut self, node: &N) -> bool {
        if self.is_needed(node) {
            return false;
        }
        self.links.remove(node);
        true
    }

    /// Begins a round if there is anything to do and none is under way: what to send, before a `PING`.
    pub(crate) fn next_round(&mut self, node: &N) -> Option<Vec<Order>> {
        let link = self.links.get_mut(node).filter(|link| !link.todo.is_empty() && link.is_ready())?;
        let (mut subscribe, mut unsubscribe) = (Vec::new(), Vec::new());
        let mut is_needed = false;
        for topic in std::mem::take(&mut link.todo) {
            let is_wanted = self.topics.get(&topic).is_some_and(|entry| entry.node.as_ref() == Some(node));
            let todo = link.plan(&topic, is_wanted);
            is_needed |= todo != Todo::Nothing;
            match todo {
                Todo::Subscribe => subscribe.push(topic),
                Todo::Unsubscribe => unsubscribe.push(topic),
                Todo::Ping | Todo::Nothing => {}
            }
        }
        is_needed.then(|| link.begin(subscribe, unsubscribe))
    }

    /// Begins a round that is a `PING` only; false if another one is under way.
    pub(crate) fn ping(&mut self, node: &N) -> bool {
        let Some(link) = self.links.get_mut(node).filter(|link| link.is_ready()) else { return false };
        link.begin(Vec::new(), Vec::new());
        true
    }

    /// Whether the answer to a round is due.
    pub(crate) fn is_waiting(&self, node: &N) -> bool {
        self.links.get(node).is_some_and(|link| link.round.is_some())
    }

    /// How many rounds in a row were not a full success, if something is to be tried again.
    pub(crate) fn failures(&self, node: &N) -> Option<u32> {
        self.links.get(node).filter(|link| link.is_ready() && !link.failed.is_empty()).map(|link| link.failures)
    }

    /// What has failed is to be tried again.
    pub(crate) fn retry(&mut self, node: &N) {
        if let Some(link) = self.links.get_mut(node) {
            link.todo.append(&mut link.failed);
        }
    }

    /// A topic was confirmed.
    pub(crate) fn subscribed(&mut self, node: &N, topic: &Topic, out: &mut Vec<Output<N>>) {
        let is_here = self.is_at(topic, node);
        let Some(link) = self.links.get_mut(node) else { return };
        link.confirm(topic);
        if !is_here {
            link.todo.insert(topic.clone());
        } else if link.receives(topic) {
            self.gain(topic, out);
        }
    }

    /// A topic was ended, by us or by the server.
    pub(crate) fn unsubscribed(&mut self, node: &N, topic: &Topic, out: &mut Vec<Output<N>>) {
        let is_here = self.is_at(topic, node);
        let Some(link) = self.links.get_mut(node) else { return };
        let was_confirmed = link.end(topic);
        if is_here && was_confirmed {
            link.todo.insert(topic.clone());
            self.lose(topic, GapReason::Moved);
            if topic.kind == Kind::Sharded {
                out.push(Output::Uprooted);
            }
        }
    }

    /// A command of the round failed.
    pub(crate) fn failed(&mut self, node: &N, error: &ServerError, out: &mut Vec<Output<N>>) -> Result<(), Desync> {
        let round = self.links.get_mut(node).and_then(|link| link.round.as_mut());
        let Some(round) = round else { return Err(Desync("an error came that nothing was sent for")) };
        match round.blame(error) {
            Blame::Subscribe(topics) => self.refuse(node, topics, error, out),
            Blame::Unsubscribe => {}
            Blame::Ping => self.end_round(node, out),
        }
        Ok(())
    }

    /// The `PING` of the round was answered.
    pub(crate) fn pong(&mut self, node: &N, out: &mut Vec<Output<N>>) -> Result<(), Desync> {
        let round = self.links.get(node).and_then(|link| link.round.as_ref());
        match round {
            None => Err(Desync("a reply came that nothing was sent for")),
            Some(round) if !round.is_subscribed() => Err(Desync("a subscription was neither confirmed nor refused")),
            Some(_) => {
                self.end_round(node, out);
                Ok(())
            }
        }
    }

    fn end_round(&mut self, node: &N, out: &mut Vec<Output<N>>) {
        let Some(link) = self.links.get_mut(node) else { return };
        let (unended, unfenced) = link.finish();
        let is_at = |topic: &Topic| self.topics.get(topic).is_some_and(|entry| entry.node.as_ref() == Some(node));
        // What could not be ended and is wanted again has a fence, which the next round ends.
        link.failed.extend(unended.into_iter().filter(|topic| !is_at(topic)));
        link.failures = if link.failed.is_empty() { 0 } else { link.failures.saturating_add(1) };
        for topic in unfenced {
            if self.is_received(&topic) {
                self.gain(&topic, out);
            }
        }
    }

    /// A message came: who gets it.
    pub(crate) fn message(&mut self, node: &N, topic: &Topic, out: &mut Vec<Output<N>>) {
        let Some(entry) = self.topics.get(topic).filter(|entry| entry.node.as_ref() == Some(node)) else { return };
        let mut to_tell = Vec::new();
        for (who, reception) in &entry.receivers {
            match reception {
                Reception::Live => out.push(Output::Deliver(*who)),
                Reception::Recovered => to_tell.push(*who),
                Reception::Awaited | Reception::Lost { .. } => {}
            }
        }
        for who in to_tell {
            self.tell_gap(who, out);
            out.push(Output::Deliver(who));
        }
    }

    fn is_at(&self, topic: &Topic, node: &N) -> bool {
        self.topics.get(topic).is_some_and(|entry| entry.node.as_ref() == Some(node))
    }
}
