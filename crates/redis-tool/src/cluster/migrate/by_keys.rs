//! `MIGRATE`: a slot is open at both ends while its keys move, batch by batch, database by database.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use pilotlight_redis::{Arg, Client, Command, Commands, Slot};

use crate::cluster::databases::Databases;
use crate::cluster::nodes::{Node, Nodes};
use crate::connection::seconds;

/// How `MIGRATE` is used.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(in crate::cluster) struct MigrateArgs {
    /// Keys that one MIGRATE takes: the servers at both ends answer no other client while it runs. Valkey 9 moves slots
    /// without MIGRATE
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(in crate::cluster) batch: u32,
    /// Seconds that one MIGRATE may take
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(in crate::cluster) migrate_timeout: Duration,
}

/// Slots on their way from one node to another.
pub(super) struct Step<'n> {
    pub(super) nodes: &'n Nodes,
    pub(super) source: &'n Node,
    pub(super) target: &'n Node,
    pub(super) how: MigrateArgs,
    auth: Vec<Arg<'static>>,
}

impl<'n> Step<'n> {
    pub(super) async fn new(
        nodes: &'n Nodes,
        source: &'n Node,
        target: &'n Node,
        how: MigrateArgs,
    ) -> anyhow::Result<Self> {
        Ok(Self { nodes, source, target, how, auth: auth(nodes).await? })
    }

    /// Moves a slot with all of its keys, and returns their number.
    pub(super) async fn move_slot(&self, slot: Slot, databases: &mut Databases<'_>) -> anyhow::Result<usize> {
        // In this order: a redirected client must not find a target that knows nothing yet.
        set_slot(self.target, slot, "IMPORTING", &self.source.member.id).await?;
        set_slot(self.source, slot, "MIGRATING", &self.target.member.id).await?;
        let mut moved = 0;
        // No client can make a new key in the slot now, and Valkey refuses MOVE and COPY between databases while it
        // moves. The databases are asked until none has a key left all the same: a key that stays behind is deleted.
        loop {
            let mut keys = 0;
            for (number, client) in databases.with_keys().await? {
                keys += self.move_keys(slot, number, &client).await?;
            }
            moved += keys;
            if keys == 0 || !databases.are_several() {
                break;
            }
        }
        // The target first: until it owns the slot, everybody else would send clients back and forth.
        set_slot(self.target, slot, "NODE", &self.target.member.id).await?;
        if let Err(error) = set_slot(self.source, slot, "NODE", &self.target.member.id).await
            && !self.source_knows(slot).await
        {
            return Err(error);
        }
        for node in self.nodes.primaries().filter(|node| node.view.is_ok()) {
            if node.member.id != self.target.member.id && node.member.id != self.source.member.id {
                // A node that it does not reach hears of it from the target.
                let _ = set_slot(node, slot, "NODE", &self.target.member.id).await;
            }
        }
        Ok(moved)
    }

    /// Whether the source takes the target for the owner. With its last slot a primary becomes a replica of the target,
    /// as soon as it hears of that from the target itself, and refuses SETSLOT from then on.
    async fn source_knows(&self, slot: Slot) -> bool {
        let view = self.source.look().await;
        view.is_ok_and(|view| view.find(&self.target.member.id).is_some_and(|target| target.slots.contains(slot)))
    }

    /// Moves the keys of one database, and returns their number.
    async fn move_keys(&self, slot: Slot, database: u16, client: &Client) -> anyhow::Result<usize> {
        let mut moved = 0;
        loop {
            let of_slot = Command::raw("CLUSTER GETKEYSINSLOT").args([u32::from(slot.number()), self.how.batch]);
            let keys: Vec<Bytes> = client.run(of_slot).await?;
            if keys.is_empty() {
                return Ok(moved);
            }
            moved += keys.len();
            self.migrate(keys, database, client).await?;
        }
    }

    /// The source connects to the target, by the address that nodes know.
    async fn migrate(&self, keys: Vec<Bytes>, database: u16, client: &Client) -> anyhow::Result<()> {
        let host = match self.target.member.ip.as_str() {
            "" => self.target.address.host().unwrap_or("127.0.0.1").to_owned(),
            ip => ip.to_owned(),
        };
        let timeout_ms = u64::try_from(self.how.migrate_timeout.as_millis()).unwrap_or(u64::MAX);
        let mut command = Command::raw("MIGRATE")
            .arg(host)
            .arg(u32::from(self.target.member.port))
            .arg("")
            .arg(u32::from(database))
            .arg(timeout_ms);
        command = command.args(self.auth.clone()).arg("KEYS").args(keys);
        // The server's own limit comes first.
        let timeout = self.how.migrate_timeout.saturating_add(Duration::from_secs(5));
        Ok(client.run::<()>(command).timeout(timeout).await?)
    }
}

async fn set_slot(node: &Node, slot: Slot, what: &'static str, id: &str) -> anyhow::Result<()> {
    let command = Command::raw("CLUSTER SETSLOT").arg(u32::from(slot.number())).arg(what).arg(id.to_owned());
    node.run::<()>(command).await.with_context(|| format!("{}: CLUSTER SETSLOT {slot} {what}", node.name()))
}

/// Arguments by which `MIGRATE` logs in at the other node.
async fn auth(nodes: &Nodes) -> anyhow::Result<Vec<Arg<'static>>> {
    let Some(provider) = &nodes.config.credentials else { return Ok(Vec::new()) };
    let credentials = provider.credentials().await?;
    let (user, password) = (credentials.username().map(str::to_owned), credentials.secret().to_owned());
    Ok(match user {
        Some(user) => vec![Arg::from("AUTH2"), Arg::from(user), Arg::from(password)],
        None => vec![Arg::from("AUTH"), Arg::from(password)],
    })
}
