//! What the lanes of a client have beyond its configuration.

use std::sync::Arc;

use crate::command::Command;
use crate::engine::credential_refresh::CredentialRefresh;
use crate::engine::lane::Watch;
use crate::net::budget::ReplyBudget;
use crate::net::connection::Connection;

/// See the module.
#[derive(Clone)]
pub(crate) struct LaneOptions {
    /// Sent at the end of each handshake; each has to succeed.
    pub(crate) setup: Arc<[Command<'static>]>,
    /// Is told what happens to the lanes.
    pub(crate) watch: Arc<dyn Watch>,
    /// Runs while there are lanes.
    pub(crate) credential_refresh: Arc<CredentialRefresh>,
    /// What becomes of replies.
    pub(crate) replies: Replies,
}

/// What a client's lanes do with replies.
#[derive(Debug, Clone)]
pub(crate) enum Replies {
    /// They are read.
    Read,
    /// They are passed through: each is a bulk string with its bytes ([`pilotlight_resp::Decoder::pass_through`]).
    /// Large ones may have a budget.
    PassThrough(Option<Arc<ReplyBudget>>),
}

impl Replies {
    /// Prepares a connection after its handshake.
    pub(crate) fn prepare(&self, mut connection: Connection) -> Connection {
        if let Self::PassThrough(budget) = self {
            connection.decoder.pass_through();
            connection.budget.clone_from(budget);
        }
        connection
    }
}

impl Default for LaneOptions {
    fn default() -> Self {
        Self { setup: Arc::new([]), watch: Arc::new(()), credential_refresh: Arc::default(), replies: Replies::Read }
    }
}

impl std::fmt::Debug for LaneOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneOptions")
            .field("setup", &self.setup)
            .field("credential_refresh", &self.credential_refresh)
            .finish_non_exhaustive()
    }
}
