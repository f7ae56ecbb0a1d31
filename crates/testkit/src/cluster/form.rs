//! Forming a cluster within the time that the servers themselves need.

use super::view::KnownNode;
use super::{AGREE_LIMIT, Cluster, Node};
use crate::error::Error;
use crate::server::builder::{ClientAuth, ServerBuilder};
use crate::server::certificates::Certificates;
use crate::wait::{EVERY, Look, until};
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const SLOTS: usize = 16_384;
/// New masters take no writes for two seconds: looking more often would only keep the machine busy.
const FORMED_EVERY: Duration = Duration::from_millis(20);

/// What a [`Cluster`] is started with.
#[derive(Debug, Clone)]
#[must_use]
pub struct ClusterBuilder {
    masters: usize,
    replicas_per_master: usize,
    node_timeout: Duration,
    /// Slots of the last master; `None`: as many as the others have.
    last_master_slots: Option<usize>,
    server: ServerBuilder,
}

impl Default for ClusterBuilder {
    /// Three masters without replicas; a node counts as failed after a second.
    fn default() -> Self {
        let node_timeout = Duration::from_secs(1);
        Self {
            masters: 3,
            replicas_per_master: 0,
            node_timeout,
            last_master_slots: None,
            server: ServerBuilder::default(),
        }
    }
}

impl ClusterBuilder {
    /// How many masters share the slots. An election needs at least three.
    pub fn masters(mut self, count: usize) -> Self {
        self.masters = count;
        self
    }

    /// How many replicas each master has.
    pub fn replicas_per_master(mut self, count: usize) -> Self {
        self.replicas_per_master = count;
        self
    }

    /// Gives the last of several masters this many slots, so that it is emptied in a moment.
    pub fn last_master_slots(mut self, count: usize) -> Self {
        self.last_master_slots = Some(count);
        self
    }

    /// `cluster-node-timeout`: after this silence a node is suspected to have failed.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// As [`ServerBuilder::config`], for every node.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.server = self.server.config(line);
        self
    }

    /// As [`ServerBuilder::program`], for every node.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.server = self.server.program(program);
        self
    }

    /// As [`ServerBuilder::requirepass`], for every node.
    pub fn requirepass(mut self, password: impl Into<String>) -> Self {
        self.server = self.server.requirepass(password);
        self
    }

    /// As [`ServerBuilder::user`], for every node.
    pub fn user(mut self, rule: &str) -> Self {
        self.server = self.server.user(rule);
        self
    }

    /// As [`ServerBuilder::debug_commands`], for every node.
    pub fn debug_commands(mut self) -> Self {
        self.server = self.server.debug_commands();
        self
    }

    /// TLS for clients and between the nodes, with one set of certificates for all.
    pub fn tls(mut self, client_auth: ClientAuth) -> Self {
        self.server = self.server.tls(client_auth);
        self
    }

    /// As [`tls`](Self::tls), with certificates made before.
    pub fn tls_with(mut self, certificates: Arc<Certificates>, client_auth: ClientAuth) -> Self {
        self.server = self.server.tls_with(certificates, client_auth);
        self
    }

    /// Starts the nodes, joins them, and waits until they agree.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start(self) -> Result<Cluster, Error> {
        let mut server = self.server.with_certificates()?;
        if server.has_tls() {
            server = server.config("tls-cluster yes");
        }
        let node_timeout = format!("cluster-node-timeout {}", self.node_timeout.as_millis());
        // Replicas stay where the test put them.
        for line in
            ["cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-migration-barrier 100", &node_timeout]
        {
            server = server.config(line);
        }
        let count = self.masters * (1 + self.replicas_per_master);
        let starting = (0..count).map(|_| server.clone().spawn()).collect::<Result<Vec<_>, _>>()?;
        let nodes = starting.into_iter().map(|starting| {
            let server = starting.ready()?;
            let id = server.command(&["CLUSTER", "MYID"])?.text().into_owned();
            Ok(Node { server, id })
        });
        let cluster = Cluster { nodes: nodes.collect::<Result<_, Error>>()? };
        cluster.form(self.masters, self.last_master_slots)?;
        Ok(cluster)
    }
}

impl Cluster {
    /// A cluster with this many masters, and this many replicas of each.
    ///
    /// # Errors
    /// If a server cannot be started, or the nodes do not agree in time.
    pub fn start(masters: usize, replicas_per_master: usize) -> Result<Self, Error> {
        Self::builder().masters(masters).replicas_per_master(replicas_per_master).start()
    }

    /// A cluster to be configured first.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// Waits until all nodes that run (killed or stopped ones do not) agree: every slot has one master, every node that
    /// runs is connected to every other one, replicas follow their masters.
    ///
    /// # Errors
    /// If they do not within 20 seconds; the error says who differs.
    pub fn wait_until_agreed(&self) -> Result<(), Error> {
        until("an agreement of all nodes", AGREE_LIMIT, EVERY, || Ok(look_at_agreement(&self.running())))
    }

    fn form(&self, masters: usize, last_master_slots: Option<usize>) -> Result<(), Error> {
        for (index, node) in self.nodes.iter().enumerate() {
            // Distinct epochs from the start, or masters would argue them out one gossip round at a time.
            node.server.command_ok(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        let (primaries, replicas) = self.nodes.split_at(masters);
        for (index, node) in primaries.iter().enumerate() {
            let border = |of: usize| match last_master_slots {
                Some(last) if of < masters => of * (SLOTS - last) / (masters - 1).max(1),
                _ => of * SLOTS / masters,
            };
            assign(node, border(index)..border(index + 1))?;
        }
        self.introduce_all()?;
        let replicas_per_master = replicas.len() / masters.max(1);
        for (index, replica) in replicas.iter().enumerate() {
            // Refused until the replica has heard of the master.
            until("a replica's knowledge of its master", AGREE_LIMIT, EVERY, || {
                let primary = &primaries[index / replicas_per_master].id;
                replica.server.command_ok(&["CLUSTER", "REPLICATE", primary]).map(Look::Here)
            })?;
        }
        until("an agreement of the new cluster", AGREE_LIMIT, FORMED_EVERY, || {
            let nodes: Vec<_> = self.nodes.iter().collect();
            Ok(match look_at_roles(&nodes, replicas.len()) {
                Look::Here(()) => look_at_agreement(&nodes),
                not_yet @ Look::NotYet(_) => not_yet,
            })
        })
    }

    /// Everybody meets everybody: nobody has to wait for gossip.
    fn introduce_all(&self) -> Result<(), Error> {
        for (index, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[index + 1..] {
                node.server.command_ok(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()])?;
            }
        }
        Ok(())
    }
}

fn assign(node: &Node, slots: Range<usize>) -> Result<(), Error> {
    let (first, last) = (slots.start.to_string(), (slots.end - 1).to_string());
    match node.server.command_ok(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]) {
        // Redis 6.2 has no ranges.
        Err(Error::Refused { .. }) => {
            let words = ["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            node.server.command_ok(&words.into_iter().chain(slots.map(|slot| slot.to_string())).collect::<Vec<_>>())
        }
        other => other,
    }
}

fn look_at_roles(nodes: &[&Node], replicas: usize) -> Look<()> {
    for node in nodes {
        match node.known_nodes() {
            Ok(known) if known.iter().filter(|known| known.primary.is_some()).count() == replicas => {}
            Ok(known) => return Look::NotYet(format!("port {} knows {known:?}", node.port())),
            Err(error) => return Look::NotYet(error.to_string()),
        }
    }
    Look::Here(())
}

/// By id: its primary and its slots, in the ranges that every node tells alike: rising, as long as can be.
type Owners = BTreeMap<String, (Option<String>, Vec<RangeInclusive<u16>>)>;

/// Whether all of these nodes see the same cluster, whole and connected.
fn look_at_agreement(nodes: &[&Node]) -> Look<()> {
    let mut agreed: Option<Owners> = None;
    for node in nodes {
        let seen = match node.settled_view(nodes) {
            Ok(Look::Here(seen)) => seen,
            Ok(Look::NotYet(seen)) => return Look::NotYet(format!("port {}: {seen}", node.port())),
            Err(error) => return Look::NotYet(format!("port {}: {error}", node.port())),
        };
        if agreed.as_ref().is_some_and(|agreed| *agreed != seen) {
            return Look::NotYet(format!("port {} sees other owners", node.port()));
        }
        agreed = Some(seen);
    }
    Look::Here(())
}

impl Node {
    /// Who owns what, if this node sees all of `nodes` alive.
    fn settled_view(&self, nodes: &[&Self]) -> Result<Look<Owners>, Error> {
        let info = self.server.command(&["CLUSTER", "INFO"])?;
        if !info.text().contains("cluster_state:ok") {
            return Ok(Look::NotYet("its cluster_state is not ok".to_owned()));
        }
        let known = self.known_nodes()?;
        let alive = |known: &&KnownNode| nodes.iter().any(|node| node.id == known.id);
        let alive: Vec<_> = known.iter().filter(alive).collect();
        if alive.len() < nodes.len() {
            return Ok(Look::NotYet(format!("it knows {} of {} nodes", alive.len(), nodes.len())));
        }
        let doubtful = |flag: &String| ["fail", "fail?", "handshake", "noaddr"].contains(&flag.as_str());
        if let Some(doubted) = alive.iter().find(|known| !known.is_connected || known.flags.iter().any(doubtful)) {
            return Ok(Look::NotYet(format!("it doubts {doubted:?}")));
        }
        if known.iter().any(|known| known.has_flag("myself") && known.primary.is_some())
            && self.server.info("master_link_status")? != "up"
        {
            return Ok(Look::NotYet("its link to its master is down".to_owned()));
        }
        let owners = alive.into_iter().map(|known| (known.id.clone(), (known.primary.clone(), known.slots.clone())));
        Ok(Look::Here(owners.collect()))
    }
}
