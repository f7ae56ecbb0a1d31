//! Writes that so many servers have: `WAIT` and `WAITAOF` behind them, on the same connection.

use std::fmt;
use std::time::{Duration, Instant};

use super::pause::Pauses;
use crate::client::{Client, Dedicated, Route};
use crate::command::Command;
use crate::commands::Commands;
use crate::error::{Error, Ran};
use crate::reply::FromReply;

/// Between attempts to reach the primary, at most.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// Who has to have a write before it counts, and how long that may take.
///
/// Redis and Valkey replicate behind the reply: a failover can undo a write that was acknowledged to its caller. A
/// write that `n` replicas have is lost only if a server without it becomes the primary: it narrows the gap, it is no
/// consensus. A write that came to fewer is **not** undone.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Command};
/// # use pilotlight_redis::recipes::{Durability, DurabilityError};
/// # use std::time::Duration;
/// # async fn example(client: &Client) -> Result<(), DurabilityError> {
/// let two = Durability::replicas(2).within(Duration::from_millis(500));
/// let balance: i64 = two.write(client, Command::raw("INCRBY").arg("balance").arg(5)).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it says what a write needs, and writes nothing"]
pub struct Durability {
    replicas: u32,
    stage: Stage,
    patience: Duration,
}

/// Where the copies are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// `WAIT`.
    Memory,
    /// `WAITAOF`.
    Disk,
}

/// Who has a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// Replicas.
    pub replicas: u32,
    /// Whether the primary has it on its disk; always false of a [`Durability`] in memory, which does not ask.
    pub on_disk: bool,
}

/// Why a write does not count.
#[derive(Debug, thiserror::Error)]
pub enum DurabilityError {
    /// It failed; [`Error::ran`] says whether it may have been done.
    #[error(transparent)]
    Write(Error),
    /// It was done, and how many have it is not known.
    #[error("written, but who has it is not known: {0}")]
    Unknown(#[source] Error),
    /// It was done, and stays done, but fewer have it than were asked for.
    #[error("written, but not everywhere within {:?}: wanted {wanted}, acknowledged by {acknowledged}", .wanted.patience)]
    Fewer {
        /// What was asked for.
        wanted: Durability,
        /// What came of it.
        acknowledged: Acknowledged,
    },
}

impl Durability {
    /// So many replicas have it in memory (`WAIT`), within a second.
    pub fn replicas(count: u32) -> Self {
        Self { replicas: count, stage: Stage::Memory, patience: Duration::from_secs(1) }
    }

    /// The primary, and so many replicas, have it on disk (`WAITAOF`, since 7.2; all of them need `appendonly yes`),
    /// within a second.
    pub fn on_disk(replicas: u32) -> Self {
        Self { stage: Stage::Disk, ..Self::replicas(replicas) }
    }

    /// The same with another time for the acknowledgements, at least a millisecond. It comes on top of the write's own.
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Runs a command on a connection of its own, to the primary of its keys, and waits for the acknowledgements. What
    /// certainly was not run is tried again, within [`command_timeout`](crate::Config::command_timeout), also where its
    /// slot has moved.
    ///
    /// # Errors
    /// The command failed, or fewer servers have what it wrote.
    ///
    /// # Cancel safety
    /// The command may have been run. Its connection is closed.
    pub async fn write<T: FromReply>(self, client: &Client, command: Command<'_>) -> Result<T, DurabilityError> {
        let (mut connection, reply) = written(client, command).await.map_err(DurabilityError::Write)?;
        self.confirm(&mut connection).await?;
        Ok(reply)
    }

    /// Waits until as many servers have what was written on this connection before: for several commands, or a
    /// transaction.
    ///
    /// # Errors
    /// Fewer have it, or that is not known.
    ///
    /// # Cancel safety
    /// The connection is closed.
    pub async fn confirm(self, connection: &mut Dedicated) -> Result<Acknowledged, DurabilityError> {
        let milliseconds = i64::try_from(self.patience.as_millis()).unwrap_or(i64::MAX).max(1);
        let replicas = i64::from(self.replicas);
        let (local, replicas) = match self.stage {
            Stage::Memory => (0, connection.wait(replicas, milliseconds).await.map_err(DurabilityError::Unknown)?),
            Stage::Disk => connection.waitaof(1, replicas, milliseconds).await.map_err(DurabilityError::Unknown)?,
        };
        let acknowledged = Acknowledged { replicas: u32::try_from(replicas).unwrap_or(0), on_disk: local > 0 };
        let is_enough = acknowledged.replicas >= self.replicas && (acknowledged.on_disk || self.stage == Stage::Memory);
        if is_enough { Ok(acknowledged) } else { Err(DurabilityError::Fewer { wanted: self, acknowledged }) }
    }
}

/// Runs the command, and gives the connection that did.
async fn written<T: FromReply>(client: &Client, command: Command<'_>) -> Result<(Dedicated, T), Error> {
    let command = command.resolved();
    let name = command.name();
    let route = command.slot().map_or(Route::Any, Route::Primary);
    let limit = client.core().config().command_timeout;
    let (since, mut pauses) = (Instant::now(), Pauses::up_to(MAX_PAUSE));
    loop {
        let mut connection = client.dedicated_on(route.clone()).await?;
        let error = match connection.execute(command.clone()).await {
            Ok(reply) => {
                let reply = T::from_reply(reply).map_err(|error| Error::new(error, Ran::Executed, name))?;
                return Ok((connection, reply));
            }
            Err(error) => error,
        };
        let is_lost = error.ran() == Ran::NotSent && error.server().is_none() && !connection.is_open();
        let pause = pauses.take();
        let is_late = limit.is_some_and(|limit| since.elapsed() + pause >= limit);
        if is_late || !(is_lost || client.may_go_elsewhere(&connection, &error)) {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stage {
            Stage::Memory => write!(f, "{} replicas", self.replicas),
            Stage::Disk => write!(f, "the primary's disk and those of {} replicas", self.replicas),
        }
    }
}

impl fmt::Display for Acknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let disk = if self.on_disk { "the primary's disk and " } else { "" };
        write!(f, "{disk}{} replicas", self.replicas)
    }
}
