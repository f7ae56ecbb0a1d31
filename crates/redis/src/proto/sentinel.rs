//! What Sentinels say, and in which order they are asked.
//!
//! Replies are those of Redis 2.8 and newer: flat arrays of names and values in RESP2, maps in RESP3.

use super::asked::Asked;
use crate::config::NodeAddress;
use crate::error::ServerError;
use crate::reply::Value;

/// Sentinels that are remembered; a group has seldom more than five.
const MAX_KNOWN: usize = 32;

/// A Sentinel's answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SentinelError {
    #[error("the Sentinel answered: {0}")]
    Server(ServerError),
    #[error("the Sentinel sent {found} instead of {expected}")]
    Malformed { expected: &'static str, found: &'static str },
}

/// Reads a reply to `SENTINEL GET-MASTER-ADDR-BY-NAME`. `None`: this Sentinel does not watch a primary of that name.
pub(crate) fn primary(reply: &Value, asked: &Asked<'_>) -> Result<Option<NodeAddress>, SentinelError> {
    match reply {
        Value::Null => Ok(None),
        Value::Error(text) => Err(SentinelError::Server(ServerError::parse(text))),
        Value::Array(items) => match items.as_slice() {
            [host, port] => {
                address(text(host), text(port), asked).map(Some).ok_or_else(|| malformed("an address", reply))
            }
            _ => Err(malformed("an address", reply)),
        },
        other => Err(malformed("an address", other)),
    }
}

/// Reads a reply to `SENTINEL SENTINELS`: the other Sentinels of the group.
pub(crate) fn sentinels(reply: &Value, asked: &Asked<'_>) -> Result<Vec<NodeAddress>, SentinelError> {
    Ok(entries(reply, "the list of Sentinels")?.iter().filter_map(|entry| address_of(entry, asked)).collect())
}

/// Reads a reply to `SENTINEL REPLICAS`: those that the Sentinel can reach.
pub(crate) fn replicas(reply: &Value, asked: &Asked<'_>) -> Result<Vec<NodeAddress>, SentinelError> {
    let entries = entries(reply, "the list of replicas")?;
    Ok(entries.iter().filter(|entry| !is_down(entry)).filter_map(|entry| address_of(entry, asked)).collect())
}

/// Reads a message of the channel `+switch-master`: the new address of the primary called `name`.
pub(crate) fn switched(message: &[u8], name: &str, asked: &Asked<'_>) -> Option<NodeAddress> {
    let mut words = std::str::from_utf8(message).ok()?.rsplitn(5, ' ');
    let (port, host) = (words.next()?, words.next()?);
    let (_old_port, _old_host) = (words.next()?, words.next()?);
    // What is left may contain blanks.
    (words.next()? == name).then(|| address(Some(host), Some(port), asked)).flatten()
}

/// The Sentinels that are known, in the order in which they are asked: who answered last comes first, who failed last
/// comes last.
#[derive(Debug)]
pub(crate) struct Order {
    known: Vec<NodeAddress>,
    configured: Vec<NodeAddress>,
}

impl Order {
    pub(crate) fn new(configured: &[NodeAddress]) -> Self {
        Self { known: configured.to_vec(), configured: configured.to_vec() }
    }

    pub(crate) fn addresses(&self) -> Vec<NodeAddress> {
        self.known.clone()
    }

    /// This one answered.
    pub(crate) fn answered(&mut self, sentinel: &NodeAddress) {
        if let Some(at) = self.known.iter().position(|known| known == sentinel) {
            self.known[..=at].rotate_right(1);
        }
    }

    /// This one did not.
    pub(crate) fn failed(&mut self, sentinel: &NodeAddress) {
        if let Some(at) = self.known.iter().position(|known| known == sentinel) {
            self.known[at..].rotate_left(1);
        }
    }

    /// `teller` knows these others. The configured ones are never forgotten; learnt ones are, when nobody names them
    /// any more.
    pub(crate) fn learn(&mut self, teller: &NodeAddress, others: &[NodeAddress]) {
        let configured = &self.configured;
        self.known.retain(|known| known == teller || configured.contains(known) || others.contains(known));
        for other in others {
            if self.known.len() < MAX_KNOWN && !self.known.contains(other) {
                self.known.push(other.clone());
            }
        }
    }
}

fn entries<'v>(reply: &'v Value, expected: &'static str) -> Result<&'v [Value], SentinelError> {
    match reply {
        Value::Array(items) => Ok(items),
        Value::Error(text) => Err(SentinelError::Server(ServerError::parse(text))),
        other => Err(malformed(expected, other)),
    }
}

fn address_of(entry: &Value, asked: &Asked<'_>) -> Option<NodeAddress> {
    address(field(entry, "ip"), field(entry, "port"), asked)
}

fn address(host: Option<&str>, port: Option<&str>, asked: &Asked<'_>) -> Option<NodeAddress> {
    Some(asked.announced(Some(host?), port?.parse().ok().filter(|port| *port > 0)?))
}

fn is_down(entry: &Value) -> bool {
    let flags = field(entry, "flags").unwrap_or_default();
    flags.split(',').any(|flag| matches!(flag, "s_down" | "o_down" | "disconnected"))
}

/// The value of a field, of a map or of a flat array of names and values.
fn field<'v>(entry: &'v Value, name: &str) -> Option<&'v str> {
    let value = match entry {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| text(key) == Some(name)).map(|(_, value)| value),
        Value::Array(flat) => {
            flat.as_chunks::<2>().0.iter().find(|[key, _]| text(key) == Some(name)).map(|[_, value]| value)
        }
        _ => None,
    };
    value.and_then(text)
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn malformed(expected: &'static str, found: &Value) -> SentinelError {
    SentinelError::Malformed { expected, found: found.type_name() }
}

#[cfg(test)]
mod tests;
