//! A port for each node, and how it follows the nodes that come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::BytesMut;
use pilotlight_redis::config::{Config, DEFAULT_SENTINEL_PORT, NodeAddress, Topology};
use pilotlight_redis::raw::{NodeKind, NodeStream};
use pilotlight_redis::{ConnectError, ServerError, Value};
use pilotlight_resp::{Decoder, Frame, Limits, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{AbortHandle, JoinSet};

use crate::refusal::{self, Refusal};
use crate::tunnel::accept::{Acceptor, bind};
use crate::tunnel::announce::{Opened, announce};
use crate::tunnel::arguments::TunnelArgs;
use crate::tunnel::ports::{Ports, Target};

/// The nodes are asked for so often, and when a reply names one that is not known.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// At most so often.
const MIN_REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// A node is forgotten when so many answers in a row have not named it.
const MAX_ABSENCES: u32 = 3;

/// Most nodes.
const MAX_NODES: usize = 1000;

/// A node as it is known: where it is, and by which names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    node: NodeAddress,
    is_sentinel: bool,
    aliases: Vec<(String, u16)>,
}

struct Open {
    local: SocketAddr,
    task: AbortHandle,
    absences: u32,
    aliases: Vec<(String, u16)>,
}

/// Listens for all nodes.
///
/// # Errors
/// No node can be asked at the beginning, or there is no port.
pub(crate) async fn listen(args: &TunnelArgs, config: &Config, acceptor: &Arc<Acceptor>) -> anyhow::Result<()> {
    let ports = Arc::new(Ports::default());
    let mut listeners = Listeners {
        args,
        acceptor,
        ports: Arc::clone(&ports),
        open: BTreeMap::new(),
        tasks: JoinSet::new(),
        seeds: config.servers.clone(),
    };
    let nodes = listeners.ask(config).await.with_context(|| format!("cannot learn the nodes of {config}"))?;
    let opened = listeners.follow(nodes)?;
    announce(args, &opened)?;
    loop {
        let _ = tokio::time::timeout(REFRESH_INTERVAL, ports.wanted.notified()).await;
        if let Ok(nodes) = listeners.ask(config).await {
            let mut before: BTreeSet<SocketAddr> = listeners.open.values().map(|open| open.local).collect();
            for Opened { node, local } in listeners.follow(nodes)? {
                if !before.remove(&local) {
                    eprintln!("tunnel: {local} leads to {node}, which is new");
                }
            }
            ports.answers.send_modify(|answers| *answers += 1);
        }
        tokio::time::sleep(MIN_REFRESH_PAUSE).await;
    }
}

struct Listeners<'a> {
    args: &'a TunnelArgs,
    acceptor: &'a Arc<Acceptor>,
    ports: Arc<Ports>,
    open: BTreeMap<(NodeAddress, bool), Open>,
    tasks: JoinSet<()>,
    /// Whom to ask; the one that answered last is the first.
    seeds: Vec<NodeAddress>,
}

impl Listeners<'_> {
    /// All nodes, as the first that answers knows them.
    async fn ask(&mut self, config: &Config) -> anyhow::Result<Vec<Known>> {
        let mut problem = anyhow::anyhow!("no server is configured");
        for at in 0..self.seeds.len() {
            let seed = self.seeds[at].clone();
            let asked = tokio::time::timeout(config.connect_timeout, nodes(config, &seed)).await;
            match asked.context("no answer in time").and_then(|answer| answer) {
                Ok(nodes) => {
                    self.seeds.swap(0, at);
                    return Ok(nodes);
                }
                Err(error) => problem = explained(error, &seed),
            }
        }
        Err(problem)
    }

    /// Opens what is new and closes what has gone.
    fn follow(&mut self, nodes: Vec<Known>) -> anyhow::Result<Vec<Opened>> {
        if nodes.len() > MAX_NODES {
            bail!("{} nodes; the tunnel has ports for {MAX_NODES}", nodes.len());
        }
        for open in self.open.values_mut() {
            open.absences += 1;
        }
        for known in nodes {
            let key = (known.node.clone(), known.is_sentinel);
            if let Some(open) = self.open.get_mut(&key) {
                (open.absences, open.aliases) = (0, known.aliases);
                continue;
            }
            let listener = self.next_port()?;
            let local = listener.local_addr()?;
            let kind = if known.is_sentinel { NodeKind::Sentinel } else { NodeKind::Server };
            let target = Target { node: known.node.clone(), kind, ports: Arc::clone(&self.ports) };
            let acceptor = Arc::clone(self.acceptor);
            let task = self.tasks.spawn(async move { acceptor.accept(listener, Some(target)).await });
            self.open.insert(key, Open { local, task, absences: 0, aliases: known.aliases });
        }
        self.open.retain(|(node, _), open| {
            let stays = open.absences < MAX_ABSENCES;
            if !stays {
                eprintln!("tunnel: {} is closed: {node} has gone", open.local);
                open.task.abort();
            }
            stays
        });
        // Every node that is known can be asked.
        let is_cluster = self.open.keys().all(|(_, is_sentinel)| !is_sentinel);
        let wanted = self.open.keys().filter(|(_, is_sentinel)| is_cluster || *is_sentinel).map(|(node, _)| node);
        let more: Vec<_> = wanted.filter(|node| !self.seeds.contains(node)).cloned().collect();
        self.seeds.extend(more);
        let aliases = self.open.values().flat_map(|open| open.aliases.iter().map(|alias| (alias.clone(), open.local)));
        *self.ports.known.lock().unwrap_or_else(PoisonError::into_inner) = aliases.collect();
        Ok(self.open.iter().map(|((node, _), open)| Opened { node: node.to_string(), local: open.local }).collect())
    }

    /// The first port of the row that is free.
    fn next_port(&self) -> anyhow::Result<tokio::net::TcpListener> {
        let first = self.args.listen;
        if first == 0 || self.open.is_empty() {
            return bind(SocketAddr::new(self.args.bind, first));
        }
        let taken: BTreeSet<u16> = self.open.values().map(|open| open.local.port()).collect();
        (first..=u16::MAX)
            .filter(|port| !taken.contains(port))
            .take(MAX_NODES)
            .find_map(|port| bind(SocketAddr::new(self.args.bind, port)).ok())
            .with_context(|| format!("no port from {first} on is free"))
    }
}

/// What a node's answer means for whoever started the tunnel.
fn explained(error: anyhow::Error, node: &NodeAddress) -> anyhow::Error {
    let (refusal, text) = match (error.downcast_ref::<ConnectError>(), error.downcast_ref::<ServerError>()) {
        // Its text names the node.
        (Some(error), _) => (Refusal::of(error.kind()), error.to_string()),
        (None, Some(answer)) => (Refusal::of_answer(answer), format!("{node}: {}", answer.text().trim_end())),
        (None, None) => return error.context(node.to_string()),
    };
    anyhow::anyhow!(refusal::advised(&text, &refusal))
}

/// All nodes, as this one knows them.
async fn nodes(config: &Config, seed: &NodeAddress) -> anyhow::Result<Vec<Known>> {
    match &config.topology {
        Topology::Standalone => Ok(config.servers.iter().map(|server| known(server.clone(), false)).collect()),
        Topology::Cluster => {
            let mut asked = Asked::open(config, seed, NodeKind::Server).await?;
            let text = asked.text(&["CLUSTER", "NODES"]).await?;
            Ok(text.lines().filter_map(|line| node_of(line, seed)).collect())
        }
        Topology::Sentinel(sentinel) => {
            let name = &*sentinel.master_name;
            let mut asked = Asked::open(config, seed, NodeKind::Sentinel).await?;
            let master = asked.value(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]).await?;
            let Value::Array(master) = master else { bail!("the Sentinel at {seed} knows no {name:?}") };
            let texts: Vec<String> = master.iter().filter_map(text).collect();
            let [host, port] = &texts[..] else { bail!("the Sentinel at {seed} gives no address") };
            let mut found = vec![known(NodeAddress::tcp(host.as_str(), port.parse()?), false)];
            for server in &config.servers {
                found.push(known(server.clone(), true));
            }
            for (question, is_sentinel) in [("REPLICAS", false), ("SENTINELS", true)] {
                if let Value::Array(instances) = asked.value(&["SENTINEL", question, name]).await? {
                    let addresses = instances.iter().filter_map(instance_address);
                    found.extend(addresses.map(|address| known(address, is_sentinel)));
                }
            }
            found.sort();
            found.dedup();
            Ok(found)
        }
    }
}

fn known(node: NodeAddress, is_sentinel: bool) -> Known {
    let alias = node.host().map(|host| (host.to_owned(), node.port().unwrap_or(DEFAULT_SENTINEL_PORT)));
    Known { node, is_sentinel, aliases: alias.into_iter().collect() }
}

/// `id host:port@bus[,hostname] flags …`
fn node_of(line: &str, seed: &NodeAddress) -> Option<Known> {
    let mut words = line.split(' ');
    let (place, flags) = (words.nth(1)?, words.next()?);
    if flags.split(',').any(|flag| matches!(flag, "noaddr" | "handshake")) {
        return None;
    }
    let (endpoint, rest) = place.split_once('@')?;
    let (host, port) = endpoint.rsplit_once(':')?;
    let host = if host.is_empty() { seed.host()? } else { host };
    let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
    let mut known = known(NodeAddress::tcp(host, port), false);
    let hostname = rest.split(',').nth(1).filter(|name| !name.is_empty() && !name.contains('='));
    known.aliases.extend(hostname.map(|name| (name.to_owned(), port)));
    Some(known)
}

fn instance_address(instance: &Value) -> Option<NodeAddress> {
    let Value::Array(items) = instance else { return None };
    let find =
        |name: &str| items.chunks_exact(2).find_map(|pair| if text(&pair[0])? == name { text(&pair[1]) } else { None });
    Some(NodeAddress::tcp(find("ip")?, find("port")?.parse().ok()?))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(text) | Value::Simple(text) | Value::Verbatim { text, .. } => {
            Some(String::from_utf8_lossy(text).into_owned())
        }
        _ => None,
    }
}

/// A connection for a few questions.
struct Asked {
    stream: NodeStream,
    decoder: Decoder,
    input: BytesMut,
}

impl Asked {
    async fn open(config: &Config, node: &NodeAddress, kind: NodeKind) -> anyhow::Result<Self> {
        let stream = NodeStream::open(config, node, kind).await?;
        Ok(Self { stream, decoder: Decoder::new(Limits::default()), input: BytesMut::new() })
    }

    async fn text(&mut self, words: &[&str]) -> anyhow::Result<String> {
        let value = self.value(words).await?;
        text(&value).with_context(|| format!("{}: not a text", words.join(" ")))
    }

    async fn value(&mut self, words: &[&str]) -> anyhow::Result<Value> {
        let mut out = Vec::new();
        encode::command(&mut out, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;
        loop {
            match self.decoder.decode(&mut self.input)? {
                Some(Frame::Reply(Value::Error(text))) => bail!(ServerError::parse(&text)),
                Some(Frame::Reply(value)) => return Ok(value),
                Some(Frame::Push(_)) => {}
                None if self.stream.read_buf(&mut self.input).await? == 0 => bail!("the connection was closed"),
                None => {}
            }
        }
    }
}
