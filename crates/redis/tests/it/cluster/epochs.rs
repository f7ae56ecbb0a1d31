//! Views that are older than what the client knows: after a graceful failover some nodes are told late.

use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Commands, Config};
use pilotlight_testkit::{Handshake, ScriptedServer, cluster_slots};

use crate::bed::{SECOND, within};

/// `a` and `b`, one of them the primary of all slots and the other its replica; each answers with its name.
struct Pair {
    nodes: [ScriptedServer; 2],
    client: Client,
}

const NAMES: [&str; 2] = ["a", "b"];

/// What both nodes say when they are asked for epochs.
#[derive(Clone, Copy)]
enum Epoch {
    Of(u64),
    Refused,
    Silence,
}

impl Pair {
    /// Of which `b` has become the primary in epoch 2.
    async fn new(epoch: Epoch) -> Self {
        let node = async |name: &'static str| {
            ScriptedServer::respond(move |_: Vec<Bytes>| format!("$1\r\n{name}\r\n")).await.unwrap()
        };
        let nodes = [node("a").await, node("b").await];
        let mut config = Config::cluster(nodes.iter().map(|node| NodeAddress::tcp("127.0.0.1", node.port())));
        config.cluster.refresh_interval = Some(Duration::from_millis(50));
        config.cluster.refresh_min_interval = Duration::from_millis(50);
        let pair = Self { nodes, client: Client::new(config).unwrap() };
        pair.all_say(1, epoch, true);
        pair.is_answered_by("b").await;
        pair
    }

    /// Both nodes say that `primary` has all slots, in this epoch; whether they know the other one.
    fn all_say(&self, primary: usize, epoch: Epoch, knows_other: bool) {
        let other = 1 - primary;
        let node = |index: usize| ("127.0.0.1", self.nodes[index].port(), NAMES[index]);
        let known = if knows_other { vec![node(primary), node(other)] } else { vec![node(primary)] };
        let mut handshake = Handshake::default().with_cluster_slots(cluster_slots(&[(0, 16_383, &known)]));
        if let Epoch::Of(epoch) = epoch {
            let line = |index: usize, role: &str, epoch: u64, slots: &str| {
                let (port, id) = (self.nodes[index].port(), NAMES[index]);
                format!("{id} 127.0.0.1:{port}@1{port} {role} 0 0 {epoch} connected{slots}\n")
            };
            let text = line(primary, "myself,master -", epoch, " 0-16383") + &line(other, "slave a", epoch, "");
            handshake = handshake.with_cluster("NODES", format!("${}\r\n{text}\r\n", text.len()));
        } else if let Epoch::Silence = epoch {
            handshake = handshake.with_cluster("NODES", "");
        }
        self.nodes.iter().for_each(|node| node.set_handshake(handshake.clone()));
    }

    async fn answer(&self) -> Bytes {
        within(2 * SECOND, "the value", async { self.client.get("k").await }).await.unwrap().unwrap()
    }

    async fn is_answered_by(&self, name: &str) {
        self.is_answered_within(5 * SECOND, name).await;
    }

    async fn is_answered_within(&self, limit: Duration, name: &str) {
        let asking = async {
            while self.answer().await != name {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(limit, "the other primary", asking).await;
    }

    async fn is_answered_by_b_during_refreshes(&self, count: u64) {
        let refreshes = || self.client.stats().topology.unwrap().refreshes;
        let begin = refreshes();
        while refreshes() < begin + count {
            assert_eq!(self.answer().await, "b");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn a_former_primary_is_not_asked_again_because_the_others_were_not_told_yet() {
    let pair = Pair::new(Epoch::Of(2)).await;
    pair.all_say(0, Epoch::Of(1), true);
    pair.is_answered_by_b_during_refreshes(10).await;
    // It has taken its slots back by another failover.
    pair.all_say(0, Epoch::Of(3), true);
    pair.is_answered_by("a").await;
}

/// What they say is kept back for 15 seconds at most: a node that nobody can reach may never tell of its failover.
#[tokio::test]
async fn a_former_primary_that_all_go_on_to_name_is_believed_in_the_end() {
    let pair = Pair::new(Epoch::Of(2)).await;
    pair.all_say(0, Epoch::Of(1), true);
    pair.is_answered_by_b_during_refreshes(20).await;
    pair.is_answered_within(30 * SECOND, "a").await;
}

#[tokio::test]
async fn epochs_that_do_not_come_in_time_are_taken_for_older_ones() {
    let pair = Pair::new(Epoch::Of(2)).await;
    pair.all_say(0, Epoch::Silence, true);
    pair.is_answered_by_b_during_refreshes(3).await;
    pair.all_say(0, Epoch::Of(3), true);
    pair.is_answered_by("a").await;
}

#[tokio::test]
async fn an_owner_whose_epoch_was_not_told_again_is_still_newer() {
    let pair = Pair::new(Epoch::Of(2)).await;
    pair.all_say(1, Epoch::Silence, true);
    pair.is_answered_by_b_during_refreshes(3).await;
    pair.all_say(0, Epoch::Of(1), true);
    pair.is_answered_by_b_during_refreshes(10).await;
}

#[tokio::test]
async fn a_primary_that_the_others_have_forgotten_is_not_waited_for() {
    let pair = Pair::new(Epoch::Of(2)).await;
    pair.all_say(0, Epoch::Of(1), false);
    pair.is_answered_by("a").await;
}

#[tokio::test]
async fn nodes_that_refuse_to_tell_epochs_from_now_on_are_believed_at_once() {
    let pair = Pair::new(Epoch::Of(2)).await;
    pair.all_say(0, Epoch::Refused, true);
    pair.is_answered_by("a").await;
}

/// A user without the right to `CLUSTER NODES`; the refusal stands in the server's log, so that once is enough.
#[tokio::test]
async fn without_epochs_the_nodes_are_believed_and_asked_for_them_once() {
    let pair = Pair::new(Epoch::Refused).await;
    pair.all_say(0, Epoch::Refused, true);
    pair.is_answered_by("a").await;
    let is_question = |words: &[Bytes]| words.len() == 2 && words[1].eq_ignore_ascii_case(b"NODES");
    let asked = pair.nodes.iter().flat_map(ScriptedServer::commands).filter(|it| is_question(&it.words)).count();
    // Both may be asked at the same time.
    assert!((1..=2).contains(&asked), "{asked} questions");
}
