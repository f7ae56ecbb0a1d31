//! The client: a handle that many tasks share.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::engine::core::Core;
use crate::engine::lane_options::LaneOptions;
use crate::error::Error;
use crate::stats::Stats;

/// A client of one server, or of a cluster. Cloning it is cheap; clones share all connections.
///
/// Connections are made when they are first needed, on the tokio runtime of the task that needs them, and live there
/// until the client is closed or its last clone is dropped. That runtime has to be running while any clone is used, on
/// whatever thread. When it is shut down, commands in flight fail, and the next one connects anew, on the runtime of
/// its own task.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error};
/// # async fn example() -> Result<(), Error> {
/// let client = Client::connect("redis://localhost").await?;
/// let other = client.clone();
/// tokio::spawn(async move { other.set("name", "Ada").await });
/// let visits = client.incr("visits").await?;
/// println!("{visits}, {}", client.stats());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    core: Arc<Core>,
}

impl Client {
    /// A client that connects when it is first used. The server may start later.
    ///
    /// ```no_run
    /// use pilotlight_redis::{Client, Config};
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut config = Config::from_url("redis://localhost")?;
    /// config.command_timeout = Some(std::time::Duration::from_millis(500));
    /// let client = Client::new(config)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The configuration makes no sense.
    pub fn new(config: Config) -> Result<Self, Error> {
        Ok(Self::of(Core::new(config, &LaneOptions::default())))
    }

    pub(crate) fn of(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// What the client has done and is doing: connections by node, redirects and retries, the cluster's topology,
    /// caches. Print it for a table.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// Refuses new commands, lets those in flight finish, at most for `patience`, and closes the connections.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(client: &pilotlight_redis::Client) {
    /// client.close(Duration::from_secs(5)).await;
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future leaves the client closing.
    pub async fn close(&self, patience: Duration) {
        self.core.close(patience).await;
    }
}
