//! Events for whoever listens. Without a listener they cost one comparison each.

use crate::error::Error;
use crate::proto::retry::Next;

/// A command goes another way after `error`.
pub(crate) fn follow_up(command: &'static str, error: &Error, next: &Next) {
    match next {
        Next::Fail(_) => {}
        Next::Redirect { to, .. } => {
            tracing::debug!(db.operation.name = command, server.address = error.node(), to = %to.announced, "redirected");
        }
        other => {
            tracing::debug!(db.operation.name = command, server.address = error.node(), %error, after = ?other.after(), "tried again");
        }
    }
}
