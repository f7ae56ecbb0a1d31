//! Reading `CLUSTER SLOTS` and `CLUSTER SHARDS`, of RESP2 (flat arrays) and RESP3 (maps).

use std::sync::Arc;

use super::{Health, Node, Role, Topology, TopologyError};
use crate::error::ServerError;
use crate::proto::asked::{Asked, Security};
use crate::proto::slot::Slot;
use crate::reply::Value;

/// `CLUSTER SLOTS`: `[[first, last, primary, replica…]…]`, each node `[endpoint, port, id, metadata]`.
pub(super) fn slots(reply: &Value, asked: &Asked<'_>) -> Result<Topology, TopologyError> {
    let mut topology = Topology::empty();
    for entry in array(reply, "the list of ranges")? {
        let [first, last, primary, replicas @ ..] = array(entry, "a range with its nodes")? else {
            return Err(malformed("a range with its nodes", entry));
        };
        let (first, last) = range(first, last)?;
        let primary = slots_node(primary, Role::Primary, asked)?;
        let replicas = replicas.iter().filter_map(|node| slots_node(node, Role::Replica, asked).transpose());
        let shard = topology.shard(primary, replicas.collect::<Result<_, _>>()?)?;
        topology.assign(first, last, shard)?;
    }
    topology.finish()
}

/// `CLUSTER SHARDS`: `[{slots: [first, last…], nodes: [{id, port, ip, endpoint, role, health…}…]}…]`.
pub(super) fn shards(reply: &Value, asked: &Asked<'_>) -> Result<Topology, TopologyError> {
    let mut topology = Topology::empty();
    for entry in array(reply, "the list of shards")? {
        let slots = array(
            field(entry, "slots").ok_or_else(|| malformed("the slots of a shard", entry))?,
            "the slots of a shard",
        )?;
        let nodes = array(
            field(entry, "nodes").ok_or_else(|| malformed("the nodes of a shard", entry))?,
            "the nodes of a shard",
        )?;
        let nodes =
            nodes.iter().filter_map(|node| shards_node(node, asked).transpose()).collect::<Result<Vec<_>, _>>()?;
        let (primary, replicas) = split_primary(nodes);
        let shard = topology.shard(primary, replicas)?;
        let (pairs, []) = slots.as_chunks::<2>() else { return Err(malformed("the end of a range", &Value::Null)) };
        for [first, last] in pairs {
            let (first, last) = range(first, last)?;
            topology.assign(first, last, shard)?;
        }
    }
    topology.finish()
}

/// `None`: the server knows no port of the node, which it has only heard of or forgotten.
fn slots_node(entry: &Value, role: Role, asked: &Asked<'_>) -> Result<Option<Node>, TopologyError> {
    let [endpoint, port, rest @ ..] = array(entry, "a node")? else { return Err(malformed("a node", entry)) };
    // Before Redis 4 there was no id, before Redis 7 no metadata.
    let id = rest.first().and_then(text).unwrap_or_default();
    let metadata = rest.get(1).unwrap_or(&Value::Null);
    let told = Told {
        endpoint: match endpoint {
            Value::Null => None,
            other => Some(text(other).ok_or_else(|| malformed("the endpoint of a node", other))?),
        },
        port: match self::port(port)? {
            0 => return Ok(None),
            port => port,
        },
        metadata,
    };
    Ok(Some(Node { id: id.into(), role, ..told.node(asked) }))
}

/// A node and how much it has replicated. `None`: as of [`slots_node`].
fn shards_node(entry: &Value, asked: &Asked<'_>) -> Result<Option<(Node, i64)>, TopologyError> {
    let port_name = match asked.security {
        Security::Plain => ["port", "tls-port"],
        Security::Tls => ["tls-port", "port"],
    };
    // A server without the port asked for was reached by a way that it does not know of; its other port is the best
    // guess.
    let mut known = None;
    for name in port_name {
        if let Some(port) = field(entry, name).map(self::port).transpose()? {
            known = known.filter(|&known| known > 0).or(Some(port));
        }
    }
    let port = match known {
        Some(0) => return Ok(None),
        Some(port) => port,
        None => return Err(malformed("the port of a node", entry)),
    };
    let told = Told { endpoint: field(entry, "endpoint").and_then(text), port, metadata: entry };
    let role = match field(entry, "role").and_then(text) {
        Some("master" | "primary") => Role::Primary,
        Some("replica" | "slave") => Role::Replica,
        _ => return Err(malformed("the role of a node", entry)),
    };
    let health = match field(entry, "health").and_then(text) {
        Some("online") | None => Health::Online,
        Some("loading") => Health::Loading,
        Some(_) => Health::Failing,
    };
    let id = field(entry, "id").and_then(text).unwrap_or_default();
    let offset = field(entry, "replication-offset").and_then(integer).unwrap_or(0);
    Ok(Some((Node { id: id.into(), role, health, ..told.node(asked) }, offset)))
}

/// The healthiest primary, then the one with the most data: during a failover the old one is still listed as such.
fn split_primary(nodes: Vec<(Node, i64)>) -> (Option<Node>, Vec<Node>) {
    let best = nodes
        .iter()
        .enumerate()
        .filter(|(_, (node, _))| node.role == Role::Primary)
        .max_by_key(|(_, (node, offset))| (node.health, *offset))
        .map(|(at, _)| at);
    let (mut primary, mut replicas) = (None, Vec::new());
    for (at, (node, _)) in nodes.into_iter().enumerate() {
        if Some(at) == best {
            primary = Some(node);
        } else {
            replicas.push(Node { role: Role::Replica, ..node });
        }
    }
    (primary, replicas)
}

/// What a reply says about where a node is.
struct Told<'v> {
    endpoint: Option<&'v str>,
    port: u16,
    metadata: &'v Value,
}

impl Told<'_> {
    fn node(&self, asked: &Asked<'_>) -> Node {
        let named = |name| field(self.metadata, name).and_then(text).filter(|text| !matches!(*text, "" | "?"));
        let ip = named("ip");
        // `?` is a node that should announce a host name and has none: not the one that was asked, if its IP address is
        // told.
        let endpoint =
            self.endpoint.filter(|&endpoint| endpoint != "?").or_else(|| ip.filter(|_| self.endpoint == Some("?")));
        let announced = asked.announced(endpoint, self.port);
        let zone = named("availability-zone").or_else(|| named("availability_zone"));
        Node {
            hostname: named("hostname").map(Arc::from),
            ip: ip.map(Arc::from),
            availability_zone: zone.map(Arc::from),
            ..Node::told_of(announced.clone(), asked.dialled(&announced))
        }
    }
}

fn range(first: &Value, last: &Value) -> Result<(Slot, Slot), TopologyError> {
    let first = integer(first).ok_or_else(|| malformed("the first slot of a range", first))?;
    let last = integer(last).ok_or_else(|| malformed("the last slot of a range", last))?;
    let slot = |number: i64| u16::try_from(number).ok().and_then(Slot::new);
    match (slot(first), slot(last)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        _ => Err(TopologyError::Range { first, last }),
    }
}

fn port(value: &Value) -> Result<u16, TopologyError> {
    let number = integer(value).ok_or_else(|| malformed("the port of a node", value))?;
    u16::try_from(number).map_err(|_| TopologyError::Port(number))
}

/// The value of a field, of a map or of a flat array of names and values.
fn field<'v>(entry: &'v Value, name: &str) -> Option<&'v Value> {
    match entry {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| text(key) == Some(name)).map(|(_, value)| value),
        Value::Array(flat) => {
            flat.as_chunks::<2>().0.iter().find(|[key, _]| text(key) == Some(name)).map(|[_, value]| value)
        }
        _ => None,
    }
}

fn array<'v>(value: &'v Value, expected: &'static str) -> Result<&'v [Value], TopologyError> {
    match value {
        Value::Array(items) | Value::Set(items) => Ok(items),
        Value::Attributed(inner) => array(&inner.value, expected),
        Value::Error(text) => Err(TopologyError::Server(ServerError::parse(text))),
        other => Err(malformed(expected, other)),
    }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) | Value::Verbatim { text: bytes, .. } => {
            std::str::from_utf8(bytes).ok()
        }
        _ => None,
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        other => text(other)?.parse().ok(),
    }
}

fn malformed(expected: &'static str, found: &Value) -> TopologyError {
    TopologyError::Malformed { expected, found: found.type_name() }
}
