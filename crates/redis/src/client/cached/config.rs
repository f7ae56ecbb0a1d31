//! What a cache is told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::command::Command;
use crate::commands::spec;
use crate::error::Misuse;

/// How much is kept, for how long, and how the server knows what.
///
/// ```no_run
/// # use pilotlight_redis::{CacheConfig, CacheMode, Client, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mode = CacheMode::Broadcast { prefixes: vec!["user:".into()] };
/// let cached = client.cached(CacheConfig { max_bytes: 16 << 20, mode, ..CacheConfig::default() })?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheConfig {
    /// Memory for keys and values, with what keeping them costs, in bytes. Default: 64 MiB.
    pub max_bytes: u64,
    /// No reply is used for longer, even if the server's word that it changed were lost. Default: 10 minutes.
    pub max_age: Duration,
    /// How the server knows what to tell. Default: [`CacheMode::OptIn`].
    pub mode: CacheMode,
}

/// How the server knows of which keys it has to tell that they changed (Redis, `CLIENT TRACKING`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// It remembers the keys that were read for the cache (`OPTIN`): memory of the server's, and no message but for
    /// those.
    #[default]
    OptIn,
    /// It tells of every key that begins with one of these prefixes (`BCAST`), read or not: no memory of the server's,
    /// more messages. Other keys are not cached. No prefix at all: every key.
    Broadcast {
        /// None may begin with another.
        prefixes: Vec<Bytes>,
    },
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_age: Duration::from_secs(600), mode: CacheMode::default() }
    }
}

impl CacheConfig {
    pub(super) fn check(&self) -> Result<(), Misuse> {
        if self.max_bytes == 0 || self.max_age.is_zero() {
            return Err(Misuse::Arguments("a cache needs max_bytes and max_age above zero".into()));
        }
        let CacheMode::Broadcast { prefixes } = &self.mode else { return Ok(()) };
        for (index, prefix) in prefixes.iter().enumerate() {
            let overlaps = |other: &Bytes| other.starts_with(prefix) || prefix.starts_with(other);
            if prefixes[index + 1..].iter().any(overlaps) {
                return Err(Misuse::Arguments("of a cache's prefixes, one begins with another".into()));
            }
        }
        Ok(())
    }
}

impl CacheMode {
    /// What is sent at the end of each connection's handshake.
    pub(super) fn setup(&self) -> Arc<[Command<'static>]> {
        let tracking = Command::new(&spec::CLIENT_TRACKING).arg("ON");
        let tracking = match self {
            Self::OptIn => tracking.arg("OPTIN"),
            Self::Broadcast { prefixes } => {
                let with_prefix = |command: Command<'static>, prefix: &Bytes| command.arg("PREFIX").arg(prefix.clone());
                prefixes.iter().fold(tracking.arg("BCAST"), with_prefix)
            }
        };
        Arc::new([tracking])
    }

    /// Whether the server tells when `key` changes.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        match self {
            Self::OptIn => true,
            Self::Broadcast { prefixes } => {
                prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prefixes: &[&'static str], is_accepted: bool) {
        let prefixes = prefixes.iter().map(|prefix| Bytes::from_static(prefix.as_bytes())).collect();
        let config = CacheConfig { mode: CacheMode::Broadcast { prefixes }, ..CacheConfig::default() };
        assert_eq!(config.check().is_ok(), is_accepted);
    }

    #[test]
    fn prefixes_must_not_overlap() {
        check(&[], true);
        check(&["user:", "session:"], true);
        check(&["user:", "user:1"], false);
        check(&["user:1", "x", "user:"], false);
        check(&["same", "same"], false);
        check(&["", "any"], false);
    }

    #[test]
    fn a_cache_of_nothing_is_refused() {
        assert!(CacheConfig { max_bytes: 0, ..CacheConfig::default() }.check().is_err());
        assert!(CacheConfig { max_age: Duration::ZERO, ..CacheConfig::default() }.check().is_err());
    }
}
