//! A primary, its replicas, and the Sentinels that watch them.

use crate::error::Error;
use crate::server::Server;
use crate::server::builder::ServerBuilder;
use crate::server::{ADMIN_PASSWORD, ADMIN_USER, field};
use crate::wait::{EVERY, Look, until};
use std::net::SocketAddr;
use std::time::Duration;

const NAME: &str = "mymaster";
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
const DOWN_AFTER_MS: u32 = 500;
const FAILOVER_TIMEOUT_MS: u32 = 3_000;
const LIMIT: Duration = Duration::from_secs(60);
/// After this time a failover is requested once more.
const RETRY: Duration = Duration::from_secs(8);
/// Sentinels look around every 1, 2 and 10 seconds by default; Redis 7 lets tests hurry them while they find each
/// other.
const HURRY: [&str; 4] = ["publish-period", "100", "info-period", "100"];
/// Afterwards slower: a Sentinel that did not lead a failover demotes the new primary after 4 publish periods, and the
/// leader itself learns of the promotion only after a second.
const SETTLE: [&str; 4] = ["publish-period", "1000", "info-period", "1000"];

/// One primary, one or more replicas and three Sentinels, which take a node for down after 500 ms.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts them and waits until every Sentinel knows all servers and the other Sentinels.
    ///
    /// # Errors
    /// If a server cannot be started, or they do not find each other in time.
    pub fn start(replicas: usize) -> Result<Self, Error> {
        let starting = (0..=replicas).map(|_| Server::builder().spawn()).collect::<Result<Vec<_>, _>>()?;
        let servers = starting.into_iter().map(|server| server.ready()).collect::<Result<Vec<_>, _>>()?;
        let primary_port = servers[0].port().to_string();
        for replica in &servers[1..] {
            replica.command_ok(&["REPLICAOF", "127.0.0.1", &primary_port])?;
        }
        // Sentinels read the primary's list of replicas when they start, and then seldom.
        until("the replicas' links", LIMIT, EVERY, || {
            let up = servers[0].info("connected_slaves")?;
            let all_up =
                servers[1..].iter().all(|replica| replica.info("master_link_status").is_ok_and(|link| link == "up"));
            Ok(if all_up { Look::Here(()) } else { Look::NotYet(format!("{up} connected")) })
        })?;
        let starting = (0..SENTINELS).map(|_| sentinel(&primary_port).spawn()).collect::<Result<Vec<_>, _>>()?;
        let sentinels = starting.into_iter().map(|server| server.ready()).collect::<Result<Vec<_>, _>>()?;
        let this = Self { servers, sentinels };
        this.set_pace(&HURRY)?;
        this.wait_until_agreed()?;
        this.set_pace(&SETTLE)?;
        Ok(this)
    }

    /// The name of the monitored primary: `mymaster`.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The data servers, first the original primary.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The primary in the view of the first Sentinel that runs.
    ///
    /// # Errors
    /// If no Sentinel answers.
    pub fn primary(&self) -> Result<&Server, Error> {
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.is_responsive());
        let port = primary_port(sentinel.ok_or_else(|| Error::NoNode("is a Sentinel that answers".to_owned()))?)?;
        self.servers
            .iter()
            .find(|server| server.port() == port)
            .ok_or_else(|| Error::NoNode(format!("has port {port}")))
    }

    /// The servers that are not the primary.
    ///
    /// # Errors
    /// As [`primary`](Self::primary).
    pub fn replicas(&self) -> Result<Vec<&Server>, Error> {
        let primary = self.primary()?.port();
        Ok(self.servers.iter().filter(|server| server.port() != primary).collect())
    }

    /// Has a replica promoted while the primary lives; returns the new primary when all Sentinels agree on it.
    ///
    /// # Errors
    /// If the Sentinels refuse or do not agree in time.
    pub fn failover(&self) -> Result<&Server, Error> {
        let before = self.primary()?.addr();
        let request = || {
            // Refused as long as the last failover is not over (INPROG) or the replicas were not heard of lately
            // (NOGOODSLAVE).
            until("the start of a failover", LIMIT, EVERY, || {
                self.sentinels[0].command_ok(&["SENTINEL", "FAILOVER", NAME]).map(Look::Here)
            })
        };
        request()?;
        match self.wait_for_another(before, RETRY) {
            // On a busy machine a Sentinel may give a failover up, or another one may revert it.
            Err(Error::Timeout { .. }) if self.primary()?.addr() == before => {
                request()?;
                self.wait_for_new_primary(before)
            }
            other => other,
        }
    }

    /// Waits until all Sentinels that run agree on another primary than this one, and it is one.
    ///
    /// # Errors
    /// If they do not within 20 seconds.
    pub fn wait_for_new_primary(&self, before: SocketAddr) -> Result<&Server, Error> {
        self.wait_for_another(before, LIMIT)
    }

    fn wait_for_another(&self, before: SocketAddr, limit: Duration) -> Result<&Server, Error> {
        until("another primary", limit, EVERY, || {
            let primary = self.primary()?;
            if primary.addr() == before {
                return Ok(Look::NotYet(format!("still {before}")));
            }
            for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_responsive()) {
                let port = primary_port(sentinel)?;
                if port != primary.port() {
                    return Ok(Look::NotYet(format!("a Sentinel says {port}")));
                }
            }
            let role = primary.info("role")?;
            Ok(if role == "master" { Look::Here(primary) } else { Look::NotYet(format!("it is a {role}")) })
        })
    }

    fn set_pace(&self, pace: &[&str]) -> Result<(), Error> {
        let command = [&["SENTINEL", "DEBUG"], pace].concat();
        self.sentinels.iter().try_for_each(|sentinel| match sentinel.command_ok(&command) {
            // Older ones take their time.
            Err(Error::Refused { .. }) => Ok(()),
            other => other,
        })
    }

    fn wait_until_agreed(&self) -> Result<(), Error> {
        let expected = format!(
            "status=ok,address={},slaves={},sentinels={SENTINELS}",
            self.servers[0].addr(),
            self.servers.len() - 1
        );
        until("the Sentinels' knowledge of each other", LIMIT, EVERY, || {
            for sentinel in &self.sentinels {
                let info = sentinel.command(&["INFO", "sentinel"])?;
                let seen = field(&info.text(), "master0").unwrap_or_default().to_owned();
                if !seen.ends_with(&expected) {
                    return Ok(Look::NotYet(seen));
                }
            }
            Ok(Look::Here(()))
        })
    }
}

fn sentinel(primary_port: &str) -> ServerBuilder {
    Server::builder()
        .sentinel()
        .config(format!("sentinel monitor {NAME} 127.0.0.1 {primary_port} {QUORUM}"))
        .config(format!("sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}"))
        .config(format!("sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}"))
        .config(format!("sentinel auth-user {NAME} {ADMIN_USER}"))
        .config(format!("sentinel auth-pass {NAME} {ADMIN_PASSWORD}"))
}

fn primary_port(sentinel: &Server) -> Result<u16, Error> {
    let reply = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
    let port = reply.array().get(1).and_then(|port| u16::try_from(port.integer()?).ok());
    port.ok_or_else(|| Error::UnexpectedReply { command: "SENTINEL".to_owned(), reply: format!("{reply:?}") })
}
