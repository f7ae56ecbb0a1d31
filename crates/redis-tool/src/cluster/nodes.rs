//! All nodes of a cluster, each with a client of its own: what is told to one node is told to no other, and redirects
//! are answers.

use std::collections::BTreeMap;
use std::future::Future;

use anyhow::{Context, bail};
use pilotlight_redis::config::{NodeAddress, Topology, WhenDown};
use pilotlight_redis::{Client, Command, Commands, Config, Error, ErrorKind, FromReply};
use tokio::task::JoinSet;

use super::view::{Member, View};
use crate::advice;
use crate::connection::UsageError;
use crate::refusal;

/// A cluster that answered.
pub(super) struct Nodes {
    pub(super) config: Config,
    /// Primaries in the order of their slots, each with its replicas behind it.
    pub(super) list: Vec<Node>,
}

/// One of its nodes.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) address: NodeAddress,
    /// As itself sees it, or, while it does not answer, as the node that was asked first does.
    pub(super) member: Member,
    /// What it sees; or why it does not answer.
    pub(super) view: Result<View, String>,
    client: Client,
}

impl Nodes {
    /// Asks the configured servers, one after the other, for all nodes, and then each of these for its own view.
    pub(super) async fn find(config: Config) -> anyhow::Result<Self> {
        if matches!(config.topology, Topology::Sentinel(_)) {
            bail!(UsageError("--sentinel: Sentinels know no cluster; name one of its nodes by --host".to_owned()));
        }
        let (seed, members) = first_view(&config).await?;
        let seed_host = seed.host().unwrap_or("127.0.0.1");
        let mut asked = JoinSet::new();
        for (at, member) in members.members.into_iter().filter(Member::is_settled).enumerate() {
            let address = member.address(config.tls.is_some(), seed_host);
            let client = client(&config, &config.address_map.apply(&address))?;
            asked.spawn(async move {
                let view = view_of(&client).await;
                let own = view.as_ref().ok().and_then(View::myself).cloned();
                let view = view.map_err(|error| advice::causes(&error));
                (at, Node { address, member: own.unwrap_or(member), view, client })
            });
        }
        let list: BTreeMap<usize, Node> = asked.join_all().await.into_iter().collect();
        Ok(Self { config, list: in_order(&list.into_values().collect::<Vec<_>>()) })
    }

    /// The same nodes, asked again.
    pub(super) async fn look_again(&mut self) {
        let views = self.each(|node| async move { view_of(&node.client).await }).await;
        for (node, view) in self.list.iter_mut().zip(views) {
            if let Some(own) = view.as_ref().ok().and_then(View::myself) {
                node.member = own.clone();
            }
            node.view = view.map_err(|error| advice::causes(&error));
        }
    }

    /// Does something with each node at the same time; the answers are in the order of the nodes.
    pub(super) async fn each<T, F>(&self, work: impl Fn(Node) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let mut set = JoinSet::new();
        for (at, node) in self.list.iter().enumerate() {
            let work = work(node.clone());
            set.spawn(async move { (at, work.await) });
        }
        let done: BTreeMap<usize, T> = set.join_all().await.into_iter().collect();
        done.into_values().collect()
    }

    pub(super) fn primaries(&self) -> impl Iterator<Item = &Node> {
        self.list.iter().filter(|node| node.member.is_primary())
    }

    pub(super) fn answering(&self) -> impl Iterator<Item = &Node> {
        self.list.iter().filter(|node| node.view.is_ok())
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Node> {
        self.list.iter().find(|node| node.member.id == id)
    }

    /// The node that a person means: by `HOST:PORT`, by a port that only one node has, or by the beginning of its id.
    pub(super) fn named(&self, name: &str) -> Result<&Node, UsageError> {
        let port = name.strip_prefix(':').unwrap_or(name).parse::<u16>().ok();
        let by_address = |node: &&Node| node.address.to_string() == name;
        let by_port = |node: &&Node| port.is_some() && node.address.port() == port;
        let by_id = |node: &&Node| !name.is_empty() && node.member.id.starts_with(name);
        let matching = |is_it: &dyn Fn(&&Node) -> bool| self.list.iter().filter(|node| is_it(node)).collect::<Vec<_>>();
        for found in [matching(&by_address), matching(&by_port), matching(&by_id)] {
            match found.as_slice() {
                [] => {}
                [only] => return Ok(only),
                several => {
                    let names: Vec<_> = several.iter().map(|node| node.name()).collect();
                    return Err(UsageError(format!("{name:?} is several nodes: {}", names.join(", "))));
                }
            }
        }
        let names: Vec<_> = self.list.iter().map(Node::name).collect();
        Err(UsageError(format!("no node is {name:?}; there are: {}", names.join(", "))))
    }
}

impl Node {
    pub(super) async fn run<'a, T: FromReply>(&'a self, command: Command<'a>) -> anyhow::Result<T> {
        Ok(self.client.run::<T>(command).await?)
    }

    /// How it sees the cluster now.
    pub(super) async fn look(&self) -> anyhow::Result<View> {
        view_of(&self.client).await
    }

    /// Its id, short enough for people.
    pub(super) fn short_id(&self) -> &str {
        self.member.id.get(..8).unwrap_or(&self.member.id)
    }

    /// How messages call it.
    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.address, self.short_id())
    }

    pub(super) async fn info(&self, section: &str) -> anyhow::Result<Facts> {
        let text: String = self.run(Command::raw("INFO").arg(section)).await?;
        Ok(Facts::parse(&text))
    }
}

/// `name:value` lines, as `INFO` and `CLUSTER INFO` have them.
#[derive(Debug, Default)]
pub(super) struct Facts(BTreeMap<String, String>);

impl Facts {
    pub(super) fn parse(text: &str) -> Self {
        let facts = text.lines().filter_map(|line| line.split_once(':'));
        Self(facts.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}

/// A client of one node alone, which says at once that the node is not there.
pub(super) fn client(config: &Config, address: &NodeAddress) -> anyhow::Result<Client> {
    client_in(config, address, 0)
}

/// The same for another database: whatever `--db` says, a cluster is looked after as a whole.
pub(super) fn client_in(config: &Config, address: &NodeAddress, database: u16) -> anyhow::Result<Client> {
    let config = Config {
        servers: vec![address.clone()],
        database,
        topology: Topology::Standalone,
        when_down: WhenDown::FailFast,
        ..config.clone()
    };
    Ok(Client::new(config)?)
}

async fn view_of(client: &Client) -> anyhow::Result<View> {
    let text = client.run::<String>(Command::raw("CLUSTER NODES")).await?;
    View::parse(&text).map_err(anyhow::Error::msg)
}

/// From the first server that answers.
async fn first_view(config: &Config) -> anyhow::Result<(NodeAddress, View)> {
    let mut last = anyhow::anyhow!("no server is named");
    for server in &config.servers {
        match view_of(&client(config, server)?).await {
            Ok(view) => return Ok((server.clone(), view)),
            Err(error) if format!("{error:#}").contains("cluster support disabled") => {
                bail!(
                    "{server}: this server is no node of a cluster (`cluster-enabled yes` in its configuration makes it one)"
                );
            }
            Err(error) => last = error,
        }
    }
    if let Some(error) = last.downcast_ref::<Error>().filter(|error| matches!(error.kind(), ErrorKind::Rejected(_))) {
        return Err(refusal::unusable(config, error).await);
    }
    let servers: Vec<_> = config.servers.iter().map(NodeAddress::to_string).collect();
    if last.downcast_ref::<Error>().is_some_and(|error| error.server().is_some()) {
        return Err(last).with_context(|| format!("{} tells nothing of a cluster", servers.join(", ")));
    }
    Err(last).with_context(|| {
        format!(
            "no node of a cluster answers at {} (-p PORT names another; `pilotlight redis cluster start` makes one to try)",
            servers.join(", ")
        )
    })
}

fn in_order(nodes: &[Node]) -> Vec<Node> {
    let place =
        |node: &Node| (node.member.slots.iter().next().map_or(u16::MAX, |slot| slot.number()), node.address.clone());
    let mut primaries: Vec<_> = nodes.iter().filter(|node| node.member.is_primary()).collect();
    primaries.sort_by_key(|node| place(node));
    let rank = |node: &Node| {
        let head = node.member.primary.as_ref().unwrap_or(&node.member.id);
        primaries.iter().position(|primary| primary.member.id == *head).unwrap_or(usize::MAX)
    };
    let mut order: Vec<_> = nodes
        .iter()
        .map(|node| (rank(node), node.member.primary.is_some(), node.address.clone(), node.clone()))
        .collect();
    order.sort_by(|one, other| (one.0, one.1, &one.2).cmp(&(other.0, other.1, &other.2)));
    order.into_iter().map(|(_, _, _, node)| node).collect()
}
