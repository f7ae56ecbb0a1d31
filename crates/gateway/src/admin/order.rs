//! What the interface cannot do by itself: orders to the process as a whole.

use serde_json::Value;
use tokio::sync::oneshot;

/// What only the process as a whole can do, and who waits for it.
#[derive(Debug)]
pub struct Order {
    /// What.
    pub asked: Asked,
    /// Told what was done, or why it was not.
    pub reply: oneshot::Sender<Result<Value, NotDone>>,
}

/// What somebody wants of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Read the configuration again, and follow it.
    Reload(Emptying),
    /// Let another process take over.
    Upgrade {
        /// The name of the file in the runtime folder that names its program; that of this process if there is none.
        program_file: Option<String>,
    },
}

/// Whether a reload may follow a file that has no service or no route, where there were some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptying {
    /// Such a file is refused: it may be one that is being written, or that was truncated.
    Refused,
    /// It was said aloud that this is meant.
    Forced,
}

/// Why something was not done; everything goes on as before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// The configuration is wrong.
    Invalid(String),
    /// Something else went wrong.
    Failed(String),
}
