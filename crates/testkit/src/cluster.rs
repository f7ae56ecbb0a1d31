//! A real cluster: its nodes, what they know of each other, and failover.

pub(crate) mod form;
pub(crate) mod migrate;
pub(crate) mod view;

use view::KnownNode;

use crate::error::Error;
use crate::server::Server;
use crate::wait::{EVERY, Look, until};
use std::time::{Duration, Instant};

/// How long nodes have to agree after a change.
const AGREE_LIMIT: Duration = Duration::from_secs(60);
/// Tests measure from a promotion on.
const PROMOTION_EVERY: Duration = Duration::from_millis(1);

/// A cluster of real servers on the loopback interface.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

/// One server of a [`Cluster`].
#[derive(Debug)]
pub struct Node {
    server: Server,
    id: String,
}

impl Node {
    /// Its process.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Its node id: 40 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Its view of the cluster (`CLUSTER NODES`).
    ///
    /// # Errors
    /// If it does not answer.
    pub fn known_nodes(&self) -> Result<Vec<KnownNode>, Error> {
        view::parse(&self.server.command(&["CLUSTER", "NODES"])?.text())
    }

    fn is_master(&self) -> Result<bool, Error> {
        let role = self.server.command(&["ROLE"])?;
        Ok(role.array().first().is_some_and(|role| role.text() == "master"))
    }
}

/// How a replica takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failover {
    /// Agreed with the master; nothing is lost.
    Graceful,
    /// Without the master, elected by the other masters (`FORCE`).
    Force,
    /// Without anybody's consent (`TAKEOVER`).
    Takeover,
}

/// A replica that became a master.
#[derive(Debug, Clone, Copy)]
pub struct Promotion<'c> {
    /// Who.
    pub node: &'c Node,
    /// When it was first seen to be a master, at most a few milliseconds late.
    pub at: Instant,
}

impl Cluster {
    /// All nodes: first the original masters, in the order of their slots, then the original replicas: those of the
    /// first master, and so on.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The URL of every node.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.server.url()).collect()
    }

    /// The node with this id.
    ///
    /// # Errors
    /// If there is none.
    pub fn node(&self, id: &str) -> Result<&Node, Error> {
        self.nodes.iter().find(|node| node.id == id).ok_or_else(|| Error::NoNode(format!("with the id {id}")))
    }

    /// The master of a slot, as the first node that answers knows it. Nodes that were stopped are not waited for.
    ///
    /// # Errors
    /// If the slot is unassigned, or no node answers.
    pub fn node_for_slot(&self, slot: u16) -> Result<&Node, Error> {
        let owner = self.any_view()?.into_iter().find(|known| known.owns(slot) && !known.has_flag("fail"));
        self.node(&owner.ok_or_else(|| Error::NoNode(format!("has slot {slot}")))?.id)
    }

    /// The master of the slot of a key, and that slot.
    ///
    /// # Errors
    /// As [`node_for_slot`](Self::node_for_slot).
    pub fn node_for_key(&self, key: &str) -> Result<(&Node, u16), Error> {
        let slot = self.answering()?.server.command(&["CLUSTER", "KEYSLOT", key])?.integer();
        let slot = slot.and_then(|slot| u16::try_from(slot).ok());
        let slot = slot.ok_or_else(|| Error::NoNode(format!("knows the slot of {key:?}")))?;
        Ok((self.node_for_slot(slot)?, slot))
    }

    /// The master that this replica follows, by its own view.
    ///
    /// # Errors
    /// If the node is a master, or does not answer.
    pub fn primary_of(&self, replica: &Node) -> Result<&Node, Error> {
        let myself = replica.known_nodes()?.into_iter().find(|known| known.has_flag("myself"));
        let primary = myself.and_then(|known| known.primary);
        self.node(&primary.ok_or_else(|| Error::NoNode(format!("is the primary of {}", replica.id)))?)
    }

    /// The replicas of a master, as the first node that answers knows them: the master itself if it can.
    ///
    /// # Errors
    /// If no node answers.
    pub fn replicas_of(&self, primary: &Node) -> Result<Vec<&Node>, Error> {
        let view = if primary.server.is_responsive() { primary.known_nodes() } else { self.any_view() }?;
        view.iter()
            .filter(|known| known.primary.as_deref() == Some(&primary.id))
            .map(|known| self.node(&known.id))
            .collect()
    }

    /// The first replica of a master.
    ///
    /// # Errors
    /// If it has none, or no node answers.
    pub fn replica_of(&self, primary: &Node) -> Result<&Node, Error> {
        let first = self.replicas_of(primary)?.into_iter().next();
        first.ok_or_else(|| Error::NoNode(format!("is a replica of {}", primary.id)))
    }

    /// Makes a replica the master of its master's slots, and waits until it is.
    ///
    /// # Errors
    /// If it refuses, or is not promoted in time.
    pub fn failover(&self, replica: &Node, how: Failover) -> Result<Instant, Error> {
        let args: &[&str] = match how {
            Failover::Graceful => &["CLUSTER", "FAILOVER"],
            Failover::Force => &["CLUSTER", "FAILOVER", "FORCE"],
            Failover::Takeover => &["CLUSTER", "FAILOVER", "TAKEOVER"],
        };
        replica.server.command_ok(args)?;
        let promoted = self.node(&replica.id)?;
        Ok(self.wait_for_promotion(&[promoted])?.at)
    }

    /// Has a node announce another port to clients, such as that of a [`FaultProxy`](crate::FaultProxy) before it, and
    /// waits until all nodes tell that one. The node's replicas follow it through that port, too; the cluster bus does
    /// not change. Port 0 takes it back.
    ///
    /// # Errors
    /// If the node refuses, or the others do not hear of it in time.
    pub fn announce_port(&self, node: &Node, port: u16) -> Result<(), Error> {
        node.server.config_set("cluster-announce-port", &port.to_string())?;
        let announced = format!("127.0.0.1:{}", if port == 0 { node.port() } else { port });
        until("everybody's knowledge of an announced port", AGREE_LIMIT, EVERY, || {
            for other in self.running() {
                let known = other.known_nodes()?.into_iter().find(|known| known.id == node.id);
                if known.is_none_or(|known| known.addr != announced) {
                    return Ok(Look::NotYet(format!("port {} tells another address", other.port())));
                }
            }
            Ok(Look::Here(()))
        })
    }

    /// Waits until one of these nodes is a master.
    ///
    /// # Errors
    /// If none is within 20 seconds.
    pub fn wait_for_promotion<'c>(&'c self, candidates: &[&'c Node]) -> Result<Promotion<'c>, Error> {
        until("a promotion", AGREE_LIMIT, PROMOTION_EVERY, || {
            for node in candidates {
                if node.is_master()? {
                    return Ok(Look::Here(Promotion { node, at: Instant::now() }));
                }
            }
            Ok(Look::NotYet("only replicas".to_owned()))
        })
    }

    fn running(&self) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.server.is_responsive()).collect()
    }

    fn answering(&self) -> Result<&Node, Error> {
        let answers = |node: &&Node| node.server.is_responsive();
        self.nodes.iter().find(answers).ok_or_else(|| Error::NoNode("answers".to_owned()))
    }

    fn any_view(&self) -> Result<Vec<KnownNode>, Error> {
        self.answering()?.known_nodes()
    }
}
