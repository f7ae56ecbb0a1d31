//! One worker's way to the servers: clients of each protocol and database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilotlight_redis::config::{Config, ProtocolChoice, Topology};
use pilotlight_redis::raw::{RawClient, ReplyBudget};
use pilotlight_redis::{Client, Command, Commands, Error, Value};
use pilotlight_resp::Protocol;

use crate::refusal;

/// Connections to servers get so long to end at the tunnel's end.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Databases that the clients of a tunnel may use at the same time: each has connections of its own.
const MAX_DATABASES: usize = 64;

/// One worker's way to the servers.
#[derive(Debug)]
pub(crate) struct Upstream {
    config: Config,
    /// Of the whole tunnel.
    replies: Arc<ReplyBudget>,
    ends: Mutex<HashMap<(u8, u16), End>>,
    facts: tokio::sync::OnceCell<Facts>,
}

/// The clients of one protocol and database.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) raw: RawClient,
    pub(crate) whole: Client,
}

/// What a server says of itself to `HELLO`.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) server: String,
    pub(crate) version: String,
}

impl Upstream {
    pub(crate) fn new(config: Config, replies: Arc<ReplyBudget>) -> Self {
        Self { config, replies, ends: Mutex::default(), facts: tokio::sync::OnceCell::new() }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.config.topology, Topology::Cluster)
    }

    /// The database that clients begin with.
    pub(crate) fn database(&self) -> u16 {
        self.config.database
    }

    /// Whether clients may speak RESP3.
    pub(crate) fn has_resp3(&self) -> bool {
        self.config.protocol != ProtocolChoice::Resp2
    }

    /// How long a command may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.config.command_timeout.unwrap_or(Duration::from_secs(86_400))
    }

    /// The clients of a protocol and database.
    ///
    /// # Errors
    /// The configuration makes no sense, or too many databases are in use.
    pub(crate) fn end(&self, protocol: Protocol, database: u16) -> Result<End, String> {
        let choice = match protocol {
            Protocol::Resp2 => (2, ProtocolChoice::Resp2),
            Protocol::Resp3 => (3, ProtocolChoice::Resp3),
        };
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = ends.get(&(choice.0, database)) {
            return Ok(end.clone());
        }
        if ends.len() >= 2 * MAX_DATABASES {
            return Err(format!("ERR the tunnel has connections to {MAX_DATABASES} databases and makes no more"));
        }
        let config = Config { protocol: choice.1, database, ..self.config.clone() };
        let failed = |error: Error| format!("ERR the tunnel: {error}");
        let raw = RawClient::within(config.clone(), Arc::clone(&self.replies)).map_err(failed)?;
        let end = End { raw, whole: Client::new(config).map_err(failed)? };
        ends.insert((choice.0, database), end.clone());
        Ok(end)
    }

    /// What the servers are, asked once.
    pub(crate) async fn facts(&self) -> Facts {
        let unknown = || Facts { server: "redis".to_owned(), version: "7.0.0".to_owned() };
        let asked = self.facts.get_or_try_init(|| async {
            let end = self.end(Protocol::Resp2, self.config.database).map_err(|_| ())?;
            let info: String = end.whole.run(Command::raw("INFO").arg("server")).await.map_err(|_| ())?;
            let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            Ok::<_, ()>(Facts {
                server: of("server_name:").unwrap_or_else(|| "redis".to_owned()),
                version: of("redis_version:").unwrap_or_else(|| unknown().version),
            })
        });
        asked.await.cloned().unwrap_or_else(|()| unknown())
    }

    /// Whether the servers answer.
    ///
    /// # Errors
    /// They do not within the command timeout.
    pub(crate) async fn check(&self) -> anyhow::Result<()> {
        let end = self.end(Protocol::Resp2, self.config.database).map_err(anyhow::Error::msg)?;
        match end.whole.run::<Value>(Command::raw("PING")).await {
            Ok(_) => Ok(()),
            Err(error) if refusal::is_answer(&error) => Ok(()),
            Err(error) => Err(refusal::unusable(&self.config, &error).await),
        }
    }

    /// Closes all connections.
    pub(crate) async fn close(&self, timeout: Duration) {
        let ends: Vec<End> = {
            let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
            ends.drain().map(|(_, end)| end).collect()
        };
        for end in ends {
            end.raw.close(timeout).await;
            end.whole.close(timeout).await;
        }
    }
}
