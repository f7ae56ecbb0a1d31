//! Spans for whoever listens, with the names of OpenTelemetry's conventions for databases. Without a listener they cost
//! one comparison each.

use tracing::{Level, Span, field};

use crate::command::Command;
use crate::engine::core::Core;
use crate::error::Error;
use crate::observer::error_type;
use crate::reply::Value;

/// Whether anybody wants a span for each command.
#[inline]
pub(super) fn is_traced() -> bool {
    tracing::enabled!(target: "pilotlight_redis::command", Level::DEBUG)
}

/// The span of one command. Arguments are not in it: they may be secrets.
pub(super) fn span(core: &Core, command: &Command<'_>) -> Span {
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
pub(super) fn finish(span: &Span, result: &Result<Value, Error>) {
    let Err(error) = result else { return };
    if let Some(server) = error.server() {
        span.record("db.response.status_code", server.code());
    }
    span.record("error.type", error_type(error.kind()));
}
