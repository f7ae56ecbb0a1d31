//! Spans and events for whoever listens, with the names of OpenTelemetry's conventions for databases. Without a
//! listener they cost one comparison each.

use tracing::{Level, Span, field};

use crate::command::Command;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::proto::retry::Next;
use crate::reply::Value;

/// Whether anybody wants a span for each command.
#[inline]
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(target: "pilotlight_redis::command", Level::DEBUG)
}

/// The span of one command. Arguments are not in it: they may be secrets.
pub(crate) fn span(core: &Core, command: &Command<'_>) -> Span {
    let span = tracing::debug_span!(
        target: "pilotlight_redis::command",
        "redis",
        otel.kind = "client",
        otel.name = command.name(),
        db.system.name = "redis",
        db.operation.name = command.name(),
        db.namespace = %core.config().database,
        server.address = field::Empty,
        server.port = field::Empty,
        db.response.status_code = field::Empty,
        error.type = field::Empty,
    );
    // The node that is asked first.
    if let Ok(lane) = core.lane_for(command) {
        let address = lane.address();
        span.record("server.address", address.host().unwrap_or("localhost"));
        if let Some(port) = address.port() {
            span.record("server.port", port);
        }
    }
    span
}

/// Notes how it ended.
pub(crate) fn finish(span: &Span, result: &Result<Value, Error>) {
    let Err(error) = result else { return };
    if let Some(server) = error.server() {
        span.record("db.response.status_code", server.code());
    }
    span.record("error.type", error_type(error.kind()));
}

/// An error's kind as one word.
pub(crate) fn error_type(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Misuse(_) => "misuse",
        ErrorKind::Server(_) => "server",
        ErrorKind::Reply(_) => "reply",
        ErrorKind::Protocol(_) => "protocol",
        ErrorKind::Connect(_) => "connect",
        ErrorKind::Rejected(_) => "rejected",
        ErrorKind::Connection(_) => "connection",
        ErrorKind::Writer(_) => "writer",
        ErrorKind::Timeout(_) => "timeout",
        ErrorKind::Overloaded { .. } | ErrorKind::Crowded { .. } => "overloaded",
        ErrorKind::Redirects { .. } => "redirects",
        ErrorKind::Cluster(_) => "cluster",
        ErrorKind::Partial(_) => "partial",
        ErrorKind::Aborted(_) => "aborted",
        ErrorKind::Closed => "closed",
    }
}

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
