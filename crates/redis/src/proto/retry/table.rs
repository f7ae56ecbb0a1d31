//! The servers' error codes: whether the command ran, and what helps.

use crate::error::{Ran, ServerError};

/// What is known about one error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The first word of the error.
    pub code: &'static str,
    /// [`Ran::NotSent`]: the server refuses before it runs anything. [`Ran::Executed`]: it may have begun.
    pub ran: Ran,
    /// What helps.
    pub remedy: Remedy,
}

/// What helps against an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: the same command fails again.
    GiveUp,
    /// The node that the error names.
    Redirect,
    /// Time, at the same node.
    Wait,
    /// Time; but only a reader waits for a script that keeps the server busy.
    WaitIfReading,
    /// Time and a new map of the cluster.
    Refresh,
    /// The server became a replica, or another one has its address: a new connection, perhaps elsewhere.
    Reconnect,
    /// A new connection presents the credentials; once.
    ReconnectOnce,
}

const fn refused(code: &'static str, remedy: Remedy) -> Row {
    Row { code, ran: Ran::NotSent, remedy }
}

/// All codes that mean something to a client; of any other, the command counts as run and is not repeated.
pub static TABLE: &[Row] = &[
    refused("MOVED", Remedy::Redirect),
    refused("ASK", Remedy::Redirect),
    refused("REDIRECT", Remedy::Redirect),
    refused("TRYAGAIN", Remedy::Wait),
    refused("LOADING", Remedy::Wait),
    refused("BUSY", Remedy::WaitIfReading),
    refused("CLUSTERDOWN", Remedy::Refresh),
    refused("MASTERDOWN", Remedy::Refresh),
    refused("READONLY", Remedy::Reconnect),
    // A blocked command whose server was demoted or whose slot left.
    refused("UNBLOCKED", Remedy::Reconnect),
    refused("NOAUTH", Remedy::ReconnectOnce),
    refused("WRONGPASS", Remedy::GiveUp),
    refused("NOPERM", Remedy::GiveUp),
    refused("NOPROTO", Remedy::GiveUp),
    refused("DENIED", Remedy::GiveUp),
    refused("OOM", Remedy::GiveUp),
    refused("MISCONF", Remedy::GiveUp),
    refused("NOREPLICAS", Remedy::GiveUp),
    refused("CROSSSLOT", Remedy::GiveUp),
    refused("NOSCRIPT", Remedy::GiveUp),
    refused("EXECABORT", Remedy::GiveUp),
    refused("NOTBUSY", Remedy::GiveUp),
];

static OTHER: Row = Row { code: "", ran: Ran::Executed, remedy: Remedy::GiveUp };

/// What is known about an error code.
#[must_use]
pub fn row(code: &str) -> &'static Row {
    TABLE.iter().find(|row| row.code == code).unwrap_or(&OTHER)
}

/// Whether a command that was answered with `error` was run.
///
/// An error that a script passed on says nothing about what the script did before it.
#[must_use]
pub fn ran(error: &ServerError) -> Ran {
    match row(error.code()).ran {
        Ran::NotSent if is_of_a_script(error) => Ran::MaybeExecuted,
        ran => ran,
    }
}

/// Somebody ended a blocked command with `CLIENT UNBLOCK … ERROR`: its caller wants to know.
pub(super) fn is_deliberate(error: &ServerError) -> bool {
    error.code() == "UNBLOCKED" && error.text().contains("CLIENT UNBLOCK")
}

/// Servers from version 7 on append where in the script it happened.
fn is_of_a_script(error: &ServerError) -> bool {
    error.text().contains(" script: ")
}
