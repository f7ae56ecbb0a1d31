//! The databases of one node: Redis clusters have database 0 only, clusters of Valkey 9 may have several
//! (`cluster-databases`). `CLUSTER COUNTKEYSINSLOT`, `CLUSTER GETKEYSINSLOT`, `DBSIZE` and `MIGRATE` see the database
//! of their connection only.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use pilotlight_redis::{Client, Command, Commands, Config, Error, Slot};

use super::nodes::{Facts, Node, client_in};

/// The databases of one node, with a client for each that was used.
pub(super) struct Databases<'n> {
    config: &'n Config,
    node: &'n Node,
    clients: BTreeMap<u16, Client>,
    /// Whether clients can select another than database 0.
    are_several: bool,
}

impl<'n> Databases<'n> {
    /// # Errors
    /// The node does not answer, or its user may not look for the databases that have keys.
    pub(super) async fn of(config: &'n Config, node: &'n Node) -> anyhow::Result<Self> {
        let mut databases = Self { config, node, clients: BTreeMap::new(), are_several: true };
        databases.are_several = databases.has(1).await?;
        databases.clients.remove(&1);
        databases.with_keys().await?;
        Ok(databases)
    }

    /// Whether the node has this database, or does not tell.
    pub(super) async fn has(&mut self, number: u16) -> anyhow::Result<bool> {
        let selected = self.client(number)?.run::<()>(Command::raw("PING")).await;
        Ok(selected.err().is_none_or(|error| {
            // A Redis cluster refuses SELECT, a Valkey cluster knows as many databases as it is configured for.
            let text = error.to_string();
            !text.contains("SELECT is not allowed") && !text.contains("out of range")
        }))
    }

    pub(super) fn are_several(&self) -> bool {
        self.are_several
    }

    /// The databases that have keys now; database 0 in any case where it is the only one.
    pub(super) async fn with_keys(&mut self) -> anyhow::Result<Vec<(u16, Client)>> {
        if !self.are_several {
            return Ok(vec![(0, self.client(0)?)]);
        }
        let numbers = match self.node.info("keyspace").await {
            Ok(facts) => numbers(&facts)?,
            Err(error) if is_forbidden(&error) => bail!(
                "{}: the user may not run INFO, which tells the databases that have keys: grant it +info",
                self.node.name()
            ),
            Err(error) => return Err(error).with_context(|| format!("{}: INFO keyspace", self.node.name())),
        };
        numbers.into_iter().map(|number| Ok((number, self.client(number)?))).collect()
    }

    /// Keys in each of these slots, in all databases together.
    pub(super) async fn counts(&mut self, slots: &[Slot]) -> anyhow::Result<Vec<usize>> {
        let mut counts = vec![0; slots.len()];
        for (_, client) in self.with_keys().await? {
            let mut pipeline = client.pipeline();
            let of_slot = |slot: &Slot| Command::raw("CLUSTER COUNTKEYSINSLOT").arg(u32::from(slot.number()));
            let queued: Vec<_> = slots.iter().map(|slot| pipeline.queue::<usize>(of_slot(slot))).collect();
            let mut replies = pipeline.run().await?;
            for (count, queued) in counts.iter_mut().zip(queued) {
                *count += replies.take(queued)?;
            }
        }
        Ok(counts)
    }

    fn client(&mut self, number: u16) -> anyhow::Result<Client> {
        if let Some(client) = self.clients.get(&number) {
            return Ok(client.clone());
        }
        let client = client_in(self.config, &self.config.address_map.apply(&self.node.address), number)?;
        self.clients.insert(number, client.clone());
        Ok(client)
    }
}

/// Keys of all databases, by `INFO keyspace`.
pub(super) fn total(facts: &Facts) -> u64 {
    facts.iter().filter_map(|(name, value)| database(name).and(keys(value))).sum()
}

/// Whether the server said that the user may not run the command.
pub(super) fn is_forbidden(error: &anyhow::Error) -> bool {
    let server = error.downcast_ref::<Error>().and_then(Error::server);
    server.is_some_and(|server| server.code() == "NOPERM")
}

fn numbers(facts: &Facts) -> anyhow::Result<Vec<u16>> {
    let names = facts.iter().filter_map(|(name, _)| database(name));
    let number = |text: &str| {
        text.parse().with_context(|| format!("database {text}: this program selects those up to {} only", u16::MAX))
    };
    names.map(number).collect()
}

/// `3` of `db3`.
fn database(name: &str) -> Option<&str> {
    name.strip_prefix("db").filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `5` of `keys=5,expires=0,avg_ttl=0`.
fn keys(value: &str) -> Option<u64> {
    value.split(',').find_map(|part| part.strip_prefix("keys="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_and_their_keys_are_read() {
        let facts =
            Facts::parse("# Keyspace\r\ndb0:keys=5,expires=0\r\ndb12:keys=7,expires=1,avg_ttl=0\r\ndbx:keys=9\r\n");
        assert_eq!((numbers(&facts).unwrap(), total(&facts)), (vec![0, 12], 12));
        assert!(numbers(&Facts::parse("db70000:keys=1\r\n")).unwrap_err().to_string().contains("65535"));
        assert_eq!(total(&Facts::parse("")), 0);
    }
}
