//! The reconciler against servers in memory: whatever happens in whatever order, in the end everybody has what he wants
//! and nothing else.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use proptest::prelude::*;

use super::round::{Order, Verb};
use super::*;

/// A name, and the number of its node for shard channels.
type Node = u8;

const NODES: u8 = 3;
const TOPICS: usize = 9;
const SUBSCRIBERS: usize = 4;

/// Three of each kind.
fn topic(index: usize) -> Topic {
    let kind = [Kind::Channel, Kind::Pattern, Kind::Sharded][index % 3];
    Topic::new(kind, Bytes::from(format!("t{index}")))
}

/// What a server says.
#[derive(Debug, Clone)]
enum Said {
    Subscribed(Topic),
    Unsubscribed(Topic),
    Error(&'static str),
    Pong,
    Message(Topic, u64),
}

/// One server: its subscriptions by the only connection, and its output.
#[derive(Debug, Default)]
struct Server {
    topics: BTreeSet<Topic>,
    input: VecDeque<Option<Order>>,
    output: VecDeque<Said>,
    is_connected: bool,
}

/// Everything outside of the reconciler.
#[derive(Debug)]
struct World {
    subscriptions: Subscriptions<Node>,
    servers: Vec<Server>,
    subscribers: Vec<SubscriberId>,
    wanted: BTreeMap<usize, BTreeSet<usize>>,
    /// The owner of each topic, in truth and as it is known.
    owners: Vec<Node>,
    known: Vec<Node>,
    published: u64,
    /// By subscriber: messages and gaps.
    received: Vec<Vec<Received>>,
    forbidden: BTreeSet<usize>,
    /// Nodes to which a connection was asked for.
    asked_for: BTreeSet<Node>,
}

#[derive(Debug, Clone, PartialEq)]
enum Received {
    Message(Topic, u64),
    Gap,
    Refused(Topic),
}

#[derive(Debug, Clone)]
enum Step {
    Want(usize, usize),
    Unwant(usize, usize),
    /// The connection sends its next round.
    Send(Node),
    /// The server works on one command.
    Work(Node),
    /// The connection reads one thing.
    Read(Node),
    Connect(Node),
    Disconnect(Node),
    /// A topic moves: shard channels by their slot, others since their home does.
    Move(usize, Node),
    /// The client hears where things are.
    Learn,
    Publish(usize),
    Retry(Node),
}

impl World {
    fn new() -> Self {
        let mut subscriptions = Subscriptions::new();
        let subscribers = (0..SUBSCRIBERS).map(|_| subscriptions.add_subscriber()).collect();
        Self {
            subscriptions,
            servers: (0..NODES).map(|_| Server::default()).collect(),
            subscribers,
            wanted: BTreeMap::new(),
            owners: vec![0; TOPICS],
            known: vec![0; TOPICS],
            published: 0,
            received: vec![Vec::new(); SUBSCRIBERS],
            forbidden: BTreeSet::new(),
            asked_for: BTreeSet::new(),
        }
    }

    fn index(topic: &Topic) -> usize {
        usize::from(topic.name[1] - b'0')
    }

    fn step(&mut self, step: &Step) {
        let mut out = Vec::new();
        let mut message = None;
        match *step {
            Step::Want(who, index) => {
                let node = self.known[index];
                self.subscriptions.want(self.subscribers[who], &topic(index), |_| Some(node), &mut out);
                self.wanted.entry(who).or_default().insert(index);
            }
            Step::Unwant(who, index) => {
                self.subscriptions.unwant(self.subscribers[who], &topic(index), &mut out);
                self.wanted.entry(who).or_default().remove(&index);
            }
            Step::Send(node) => {
                if let Some(orders) = self.subscriptions.next_round(&node) {
                    let input = &mut self.servers[usize::from(node)].input;
                    input.extend(orders.into_iter().map(Some));
                    input.push_back(None);
                }
            }
            Step::Work(node) => self.work(node),
            Step::Read(node) => {
                if let Some(said) = self.servers[usize::from(node)].output.pop_front() {
                    message = self.read(node, said, &mut out);
                }
            }
            Step::Connect(node) => {
                let server = &mut self.servers[usize::from(node)];
                if !server.is_connected && self.asked_for.contains(&node) {
                    *server = Server { is_connected: true, ..Server::default() };
                    self.subscriptions.connected(&node);
                }
            }
            Step::Disconnect(node) => {
                self.servers[usize::from(node)] = Server::default();
                self.subscriptions.disconnected(&node);
            }
            Step::Move(index, node) => self.move_topic(index, node),
            Step::Learn => {
                self.known.clone_from(&self.owners);
                let known = self.known.clone();
                self.subscriptions.reroute(Reroute::All, |topic| Some(known[Self::index(topic)]), &mut out);
            }
            Step::Publish(index) => self.publish(index),
            Step::Retry(node) => self.subscriptions.retry(&node),
        }
        self.take(out, message.as_ref());
    }

    fn move_topic(&mut self, index: usize, node: Node) {
        let old = std::mem::replace(&mut self.owners[index], node);
        let topic = topic(index);
        let server = &mut self.servers[usize::from(old)];
        if old != node && topic.kind == Kind::Sharded && server.topics.remove(&topic) {
            server.output.push_back(Said::Unsubscribed(topic));
        }
    }

    fn publish(&mut self, index: usize) {
        self.published += 1;
        let topic = topic(index);
        for (node, server) in self.servers.iter_mut().enumerate() {
            let is_here = topic.kind != Kind::Sharded || usize::from(self.owners[index]) == node;
            if is_here && server.topics.contains(&topic) {
                server.output.push_back(Said::Message(topic.clone(), self.published));
            }
        }
    }

    fn work(&mut self, node: Node) {
        let server = &mut self.servers[usize::from(node)];
        let Some(command) = server.input.pop_front() else { return };
        let Some(Order { verb, topics }) = command else {
            server.output.push_back(Said::Pong);
            return;
        };
        let slots: BTreeSet<_> = topics.iter().map(Topic::slot).collect();
        assert_eq!(slots.len(), 1, "one command names several slots");
        let is_moved = topics[0].kind == Kind::Sharded && self.owners[Self::index(&topics[0])] != node;
        let is_forbidden = topics.iter().any(|topic| self.forbidden.contains(&Self::index(topic)));
        if is_moved {
            server.output.push_back(Said::Error("MOVED 1 127.0.0.1:1"));
        } else if is_forbidden && verb == Verb::Subscribe {
            server.output.push_back(Said::Error("NOPERM no"));
        } else {
            for topic in topics {
                match verb {
                    Verb::Subscribe => {
                        server.topics.insert(topic.clone());
                        server.output.push_back(Said::Subscribed(topic));
                    }
                    Verb::Unsubscribe => {
                        server.topics.remove(&topic);
                        server.output.push_back(Said::Unsubscribed(topic));
                    }
                }
            }
        }
    }

    fn read(&mut self, node: Node, said: Said, out: &mut Vec<Output<Node>>) -> Option<(Topic, u64)> {
        let subscriptions = &mut self.subscriptions;
        match said {
            Said::Subscribed(topic) => subscriptions.subscribed(&node, &topic, out),
            Said::Unsubscribed(topic) => subscriptions.unsubscribed(&node, &topic, out),
            Said::Error(text) => subscriptions.failed(&node, &ServerError::parse(text.as_bytes()), out).unwrap(),
            Said::Pong => subscriptions.pong(&node, out).unwrap(),
            Said::Message(topic, number) => {
                subscriptions.message(&node, &topic, out);
                return Some((topic, number));
            }
        }
        None
    }

    fn take(&mut self, out: Vec<Output<Node>>, message: Option<&(Topic, u64)>) {
        for output in out {
            let (who, received) = match output {
                Output::Deliver(who) => {
                    let (topic, number) = message.cloned().unwrap();
                    (who, Received::Message(topic, number))
                }
                Output::Gap(who, _) => (who, Received::Gap),
                Output::Refused(who, topic, _) => (who, Received::Refused(topic)),
                Output::Connect(node) => {
                    self.asked_for.insert(node);
                    continue;
                }
                _ => continue,
            };
            let who = self.subscribers.iter().position(|id| *id == who).unwrap();
            if let Received::Message(topic, number) = &received {
                let index = Self::index(topic);
                assert!(
                    self.wanted.get(&who).is_some_and(|it| it.contains(&index)),
                    "{topic:?} for one who does not want it"
                );
                let of_topic = self.received[who].iter().rev().find_map(|it| match it {
                    Received::Message(other, number) if other == topic => Some(*number),
                    _ => None,
                });
                assert!(of_topic.is_none_or(|before| before < *number), "a message came twice or too late");
            }
            if let Received::Refused(topic) = &received
                && !self.subscriptions.is_wanted(self.subscribers[who], topic)
            {
                self.wanted.entry(who).or_default().remove(&Self::index(topic));
            }
            self.received[who].push(received);
        }
    }

    /// Everything goes on until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..12 {
            self.step(&Step::Learn);
            for node in 0..NODES {
                self.step(&Step::Connect(node));
                self.step(&Step::Retry(node));
                self.step(&Step::Send(node));
                while !self.servers[usize::from(node)].input.is_empty() {
                    self.step(&Step::Work(node));
                }
                while !self.servers[usize::from(node)].output.is_empty() {
                    self.step(&Step::Read(node));
                }
            }
        }
    }

    fn check_settled(&mut self) {
        for node in 0..NODES {
            let here =
                |&index: &usize| self.owners[index] == node && self.wanted.values().any(|it| it.contains(&index));
            let expected: BTreeSet<Topic> = (0..TOPICS).filter(here).map(topic).collect();
            assert_eq!(self.servers[usize::from(node)].topics, expected, "at node {node}");
        }
        for who in 0..SUBSCRIBERS {
            assert!(self.subscriptions.is_whole(self.subscribers[who]), "subscriber {who}");
        }
        assert!(!self.subscriptions.is_stranded());
        // And messages come, to exactly those who want them, without a gap.
        for index in 0..TOPICS {
            let before: Vec<_> = self.received.iter().map(Vec::len).collect();
            self.step(&Step::Publish(index));
            (0..NODES).for_each(|node| self.step(&Step::Read(node)));
            for (who, before) in before.into_iter().enumerate() {
                let is_wanted = self.wanted.get(&who).is_some_and(|it| it.contains(&index));
                let expected = if is_wanted { vec![Received::Message(topic(index), self.published)] } else { vec![] };
                assert_eq!(self.received[who][before..], expected[..], "topic {index} for {who}");
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let (who, index, node) = (0..SUBSCRIBERS, 0..TOPICS, 0..NODES);
    prop_oneof![
        4 => (who.clone(), index.clone()).prop_map(|(who, index)| Step::Want(who, index)),
        3 => (who, index.clone()).prop_map(|(who, index)| Step::Unwant(who, index)),
        6 => node.clone().prop_map(Step::Send),
        8 => node.clone().prop_map(Step::Work),
        10 => node.clone().prop_map(Step::Read),
        3 => node.clone().prop_map(Step::Connect),
        1 => node.clone().prop_map(Step::Disconnect),
        2 => (index.clone(), node.clone()).prop_map(|(index, node)| Step::Move(index, node)),
        2 => Just(Step::Learn),
        4 => index.prop_map(Step::Publish),
        2 => node.prop_map(Step::Retry),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_converges(steps in proptest::collection::vec(step(), 0..200)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        world.settle();
        world.check_settled();
    }

    #[test]
    fn what_is_forbidden_is_refused_and_hurts_nobody_else(
        forbidden in proptest::collection::btree_set(0..TOPICS, 1..4),
        steps in proptest::collection::vec(step(), 0..150),
    ) {
        let mut world = World::new();
        world.forbidden = forbidden.clone();
        steps.iter().for_each(|step| world.step(step));
        world.settle();
        prop_assert!(world.wanted.values().all(|wanted| wanted.is_disjoint(&forbidden)));
        world.check_settled();
    }
}

/// All connected, everybody at node 0.
fn world(wanted: &[(usize, usize)]) -> World {
    let mut world = World::new();
    wanted.iter().for_each(|&(who, index)| world.step(&Step::Want(who, index)));
    world.settle();
    world
}

fn gaps(world: &World, who: usize) -> usize {
    world.received[who].iter().filter(|it| **it == Received::Gap).count()
}

#[test]
fn a_lost_connection_is_one_gap_for_each_subscriber_that_it_concerns() {
    let mut world = world(&[(0, 0), (0, 1), (0, 2), (0, 5), (1, 0)]);
    assert_eq!((gaps(&world, 0), gaps(&world, 1), gaps(&world, 2)), (0, 0, 0));
    world.step(&Step::Disconnect(0));
    assert_eq!(gaps(&world, 0), 0, "told when it is over");
    assert!(!world.subscriptions.is_whole(world.subscribers[0]));
    world.step(&Step::Want(2, 0));
    world.settle();
    assert_eq!((gaps(&world, 0), gaps(&world, 1), gaps(&world, 2)), (1, 1, 0));
    world.check_settled();
}

#[test]
fn a_slot_that_moves_is_one_gap_whoever_tells_first() {
    for is_map_first in [true, false] {
        let mut world = world(&[(0, 2), (0, 0)]);
        world.step(&Step::Move(2, 1));
        if is_map_first {
            world.step(&Step::Learn);
        }
        world.step(&Step::Read(0));
        world.settle();
        assert_eq!(gaps(&world, 0), 1);
        world.check_settled();
    }
}

#[test]
fn a_slot_that_moves_away_and_back_is_whole_again() {
    let mut world = world(&[(0, 2)]);
    world.step(&Step::Move(2, 1));
    world.step(&Step::Learn);
    world.step(&Step::Send(0));
    world.step(&Step::Move(2, 0));
    world.settle();
    world.check_settled();
    assert_eq!(gaps(&world, 0), 1);
}

#[test]
fn what_another_node_has_delivered_comes_from_no_unread_stream_again() {
    for is_confirmed in [true, false] {
        let mut world = World::new();
        world.step(&Step::Want(0, 0));
        world.step(&Step::Connect(0));
        world.step(&Step::Send(0));
        if is_confirmed {
            world.settle();
        }
        world.step(&Step::Move(0, 1));
        world.step(&Step::Learn);
        world.step(&Step::Connect(1));
        world.step(&Step::Send(1));
        world.step(&Step::Work(0));
        world.step(&Step::Work(1));
        world.step(&Step::Publish(0));
        world.step(&Step::Read(1));
        world.step(&Step::Read(1));
        let message = |number| Received::Message(topic(0), number);
        let gap = is_confirmed.then_some(Received::Gap);
        assert_eq!(world.received[0], gap.iter().cloned().chain([message(1)]).collect::<Vec<_>>());
        // It comes back before its first node has said anything; what that says now was delivered.
        world.step(&Step::Move(0, 0));
        world.settle();
        world.check_settled();
        let then = [message(1), Received::Gap, message(2)];
        assert_eq!(world.received[0], gap.into_iter().chain(then).collect::<Vec<_>>());
    }
}

#[test]
fn the_gap_comes_before_the_first_message_after_it() {
    let mut world = world(&[(0, 2), (0, 5)]);
    assert_ne!(topic(2).slot(), topic(5).slot());
    world.step(&Step::Disconnect(0));
    world.step(&Step::Connect(0));
    world.step(&Step::Send(0));
    // The first slot is confirmed and has a message before the second is.
    world.step(&Step::Work(0));
    let first = world.servers[0].topics.iter().next().cloned().unwrap();
    world.step(&Step::Publish(World::index(&first)));
    world.step(&Step::Read(0));
    world.step(&Step::Read(0));
    assert_eq!(world.received[0], [Received::Gap, Received::Message(first, 1)]);
    world.settle();
    assert_eq!(world.received[0].last(), Some(&Received::Gap), "the second slot was away for longer");
}

#[test]
fn subscribing_again_while_it_is_being_ended() {
    let mut world = world(&[(0, 0)]);
    world.step(&Step::Unwant(0, 0));
    world.step(&Step::Send(0));
    world.step(&Step::Want(1, 0));
    assert!(world.subscriptions.is_awaited(world.subscribers[1], &topic(0)));
    assert!(world.subscriptions.next_round(&0).is_none(), "a round is under way");
    world.settle();
    world.check_settled();
    assert_eq!(gaps(&world, 1), 0);
}

#[test]
fn a_lost_channel_that_is_forbidden_now_is_told_once() {
    let mut world = world(&[(0, 0), (0, 3)]);
    world.forbidden.insert(0);
    world.step(&Step::Disconnect(0));
    world.settle();
    assert_eq!(world.received[0], [Received::Refused(topic(0))]);
    world.forbidden.clear();
    world.settle();
    assert_eq!(world.received[0], [Received::Refused(topic(0)), Received::Gap]);
    world.check_settled();
}

/// The words of a round.
fn words(orders: &[Order]) -> String {
    let mut out = Vec::new();
    orders.iter().for_each(|order| order.encode(&mut out));
    let text = String::from_utf8(out).unwrap();
    let words: Vec<_> = text.split("\r\n").filter(|word| !word.starts_with('$')).collect();
    words.join(" ").trim_end().to_owned()
}

#[test]
fn a_round_subscribes_first_and_names_one_slot_at_a_time() {
    let mut subscriptions = Subscriptions::new();
    let who = subscriptions.add_subscriber();
    let mut out = Vec::new();
    let topics = [
        (Kind::Sharded, "{a}1"),
        (Kind::Sharded, "b"),
        (Kind::Pattern, "p*"),
        (Kind::Channel, "c"),
        (Kind::Sharded, "{a}2"),
        (Kind::Channel, "d"),
    ];
    let topics = topics.map(|(kind, name)| Topic::new(kind, Bytes::from(name)));
    for topic in &topics {
        assert!(subscriptions.want(who, topic, |_| Some(0), &mut out));
        assert!(!subscriptions.want(who, topic, |_| Some(0), &mut out));
    }
    assert_eq!(out, [Output::Connect(0)]);
    assert_eq!(subscriptions.next_round(&0), None, "not connected");
    subscriptions.connected(&0);
    let round = subscriptions.next_round(&0).unwrap();
    assert_eq!(words(&round), "*3 SUBSCRIBE c d *2 PSUBSCRIBE p* *2 SSUBSCRIBE b *3 SSUBSCRIBE {a}1 {a}2");
    for topic in &topics {
        subscriptions.subscribed(&0, topic, &mut out);
    }
    subscriptions.pong(&0, &mut out).unwrap();
    subscriptions.remove_subscriber(who, &mut out);
    let round = subscriptions.next_round(&0).unwrap();
    assert_eq!(words(&round), "*3 UNSUBSCRIBE c d *2 PUNSUBSCRIBE p* *2 SUNSUBSCRIBE b *3 SUNSUBSCRIBE {a}1 {a}2");
    // Each says that it cannot, and so does PING: the round is over.
    for error in ["MOVED 1 h:1", "MOVED 1 h:1", "ERR no", "ERR no", "BUSY wait"] {
        assert!(subscriptions.is_waiting(&0));
        subscriptions.failed(&0, &ServerError::parse(error.as_bytes()), &mut out).unwrap();
    }
    assert!(!subscriptions.is_waiting(&0));
    assert_eq!(subscriptions.failures(&0), Some(1));
    assert!(subscriptions.release(&0));
}

#[test]
fn what_cannot_be_is_a_desync() {
    let mut subscriptions = Subscriptions::new();
    let who = subscriptions.add_subscriber();
    let mut out = Vec::new();
    subscriptions.want(who, &topic(0), |_| Some(0), &mut out);
    subscriptions.connected(&0);
    assert!(subscriptions.pong(&0, &mut out).is_err());
    assert!(subscriptions.failed(&0, &ServerError::parse(b"ERR no"), &mut out).is_err());
    subscriptions.next_round(&0).unwrap();
    assert!(subscriptions.pong(&0, &mut out).is_err(), "not confirmed");
}
