//! What the prompt and its editor, which are on two threads, both need.

use pilotlight_redis::Client;

use crate::cli::commands::Table;

/// What the editor and the prompt share.
pub(super) struct Shared {
    /// Of the present database and credentials: keys are looked for with it.
    pub(super) client: Client,
    pub(super) table: Table,
}
