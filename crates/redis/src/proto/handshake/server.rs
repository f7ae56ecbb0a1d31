//! What a server says of itself.

use std::sync::Arc;

use bytes::Bytes;
use pilotlight_resp::{Protocol, Value};

/// What a server says of itself when a connection is made. RESP2 connections know little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// The protocol that was agreed on.
    pub protocol: Protocol,
    /// The server: `redis`, `valkey`, ….
    pub name: Option<Arc<str>>,
    /// Its version.
    pub version: Option<Arc<str>>,
    /// How it runs.
    pub mode: Option<ServerMode>,
    /// Its role when the connection was made.
    pub role: Option<Role>,
    /// The connection's number (`CLIENT ID`).
    pub id: Option<i64>,
    /// Its availability zone, if it is configured to know it (Valkey).
    pub availability_zone: Option<Arc<str>>,
    /// A script or function kept it busy when the connection was made.
    pub is_busy: bool,
}

/// How a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerMode {
    /// Alone, or with replicas.
    Standalone,
    /// As a node of a cluster.
    Cluster,
    /// As a Sentinel.
    Sentinel,
}

/// A server's role in replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It takes writes.
    Primary,
    /// It copies a primary.
    Replica,
}

impl ServerInfo {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            name: None,
            version: None,
            mode: None,
            role: None,
            id: None,
            availability_zone: None,
            is_busy: false,
        }
    }

    /// Whether it has `RESET`: Redis from 6.2 on, and Valkey. Who does not tell its version is not tried.
    pub(crate) fn knows_reset(&self) -> bool {
        let Some(version) = &self.version else { return false };
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next(), parts.next()) >= (Some(6), Some(2))
    }

    /// Reads the reply to `HELLO`: a map, or the same flattened by a server that stays with RESP2.
    pub(super) fn from_hello(value: &Value) -> Option<Self> {
        let mut server = match value {
            Value::Map(_) => Self::new(Protocol::Resp3),
            Value::Array(_) => Self::new(Protocol::Resp2),
            _ => return None,
        };
        match value {
            Value::Map(pairs) => pairs.iter().for_each(|(key, value)| server.add(key, value)),
            Value::Array(flat) => flat.chunks_exact(2).for_each(|pair| server.add(&pair[0], &pair[1])),
            _ => {}
        }
        Some(server)
    }

    /// Reads the section `server` of `INFO`.
    pub(super) fn add_info(&mut self, value: &Value) {
        let Some(text) = text(value) else { return };
        for (field, value) in text.lines().filter_map(|line| line.split_once(':')) {
            if field == "availability_zone" {
                self.availability_zone = non_empty(value.trim_end());
            }
        }
    }

    /// Reads the reply to `ROLE`.
    pub(super) fn add_role(&mut self, value: &Value) {
        if let Value::Array(items) = value {
            self.role = items.first().and_then(text).and_then(Role::parse);
        }
    }

    fn add(&mut self, key: &Value, value: &Value) {
        let Some(key) = text(key) else { return };
        match (key, value) {
            ("id", Value::Integer(id)) => self.id = Some(*id),
            ("proto", Value::Integer(3)) => self.protocol = Protocol::Resp3,
            ("proto", Value::Integer(2)) => self.protocol = Protocol::Resp2,
            (key, value) => {
                let Some(value) = text(value) else { return };
                match key {
                    "server" => self.name = non_empty(value),
                    "version" => self.version = non_empty(value),
                    "mode" => self.mode = ServerMode::parse(value),
                    "role" => self.role = Role::parse(value),
                    "availability_zone" => self.availability_zone = non_empty(value),
                    _ => {}
                }
            }
        }
    }
}

impl ServerMode {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "standalone" => Some(Self::Standalone),
            "cluster" => Some(Self::Cluster),
            "sentinel" => Some(Self::Sentinel),
            _ => None,
        }
    }
}

impl Role {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "master" | "primary" => Some(Self::Primary),
            "replica" | "slave" => Some(Self::Replica),
            _ => None,
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    let bytes: &Bytes = match value {
        Value::Bulk(bytes) | Value::Simple(bytes) | Value::Verbatim { text: bytes, .. } => bytes,
        _ => return None,
    };
    std::str::from_utf8(bytes).ok()
}

fn non_empty(text: &str) -> Option<Arc<str>> {
    if text.is_empty() { None } else { Some(text.into()) }
}
