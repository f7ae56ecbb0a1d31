//! The client: a handle that many tasks share.

use std::sync::Arc;
use std::time::Duration;

use crate::call::Call;
use crate::command::Command;
use crate::commands::Commands;
use crate::config::Config;
use crate::core::Core;
use crate::error::{Error, Misuse, Ran};
use crate::node::LaneOptions;
use crate::pipeline::Pipeline;
use crate::reply::{FromReply, Value};
use crate::stats::Stats;
use crate::tracking::{CacheConfig, Cached};

/// A client of one server, or of a cluster. Cloning it is cheap; clones share all connections.
///
/// Connections are made when they are first needed, on the tokio runtime of the task that needs them, and live there
/// until the client is closed or its last clone is dropped. That runtime has to be running while any clone is used, on
/// whatever thread. When it is shut down, commands in flight fail, and the next one connects anew, on the runtime of
/// its own task.
#[derive(Debug, Clone)]
pub struct Client {
    core: Arc<Core>,
}

impl Client {
    /// A client that connects when it is first used. The server may start later.
    ///
    /// # Errors
    /// The configuration makes no sense.
    pub fn new(config: Config) -> Result<Self, Error> {
        Ok(Self::of(Core::new(config, &LaneOptions::default())))
    }

    pub(crate) fn of(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    /// A client of the server that a URL names (see [`Config::from_url`]), connected: a first `ECHO` has been answered.
    ///
    /// # Errors
    /// The URL is malformed, or no server answers within the command timeout.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let config = Config::from_url(url)
            .map_err(|error| Error::new(Misuse::Url(error.to_string()), Ran::NotSent, "connect"))?;
        let client = Self::new(config)?;
        client.run::<Value>(Command::new(&crate::commands::spec::ECHO).arg("")).await?;
        Ok(client)
    }

    /// A pipeline: commands that are sent together.
    pub fn pipeline(&self) -> Pipeline<'_> {
        Pipeline::new(self)
    }

    /// A cache of what is read, kept coherent by the servers. It has connections of its own, which are made when they
    /// are first needed.
    ///
    /// # Errors
    /// The configuration makes no sense, or this client speaks RESP2 only.
    pub fn cached(&self, config: CacheConfig) -> Result<Cached, Error> {
        let cached =
            Cached::new(self.core.config(), config).map_err(|misuse| Error::new(misuse, Ran::NotSent, "cached"))?;
        self.core.register(cached.cache());
        Ok(cached)
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
    /// # Cancel safety
    /// Dropping the future leaves the client closing.
    pub async fn close(&self, patience: Duration) {
        self.core.close(patience).await;
    }
}

impl<'a> Commands<'a> for &'a Client {
    type Out<T: FromReply> = Call<'a, T>;

    #[inline]
    fn run<T: FromReply>(self, command: Command<'a>) -> Call<'a, T> {
        Call::new(self, command.resolved())
    }
}
