//! Who is told of each operation when it ends, and what.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// Is told of operations when they end: on the tasks of their callers, so it should be quick. What is dropped before
/// its end is not told.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// An operation has ended.
    fn ended(&self, operation: &Operation<'_>);
}

/// A command, a pipeline or a transaction that has ended. It names no arguments: they may be secrets.
#[derive(Debug, Clone)]
pub struct Operation<'o> {
    /// The command; of a pipeline `PIPELINE`, of a transaction `MULTI`, followed by the command if all are the same.
    pub name: Cow<'static, str>,
    /// The node that was asked, last or first, as `host:port`; `None`: several, or none.
    pub node: Option<&'o str>,
    /// The database.
    pub database: u16,
    /// Commands of a pipeline or transaction.
    pub batch_size: Option<usize>,
    /// From the first poll to the end.
    pub duration: Duration,
    /// Why it failed; of a pipeline, its first command that did.
    pub error: Option<&'o Error>,
}

impl Operation<'_> {
    /// Its attributes by OpenTelemetry's names (the conventions for Redis), without the size of a batch, which is too
    /// many values for a metric.
    pub fn attributes(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let (host, port) = self.node.map_or((None, None), |node| match node.rsplit_once(':') {
            Some((host, port)) => (Some(host.trim_start_matches('[').trim_end_matches(']')), Some(port)),
            // A Unix socket.
            None => (Some(node), None),
        });
        let status = self.error.and_then(|error| error.server()).map(|server| Cow::Borrowed(server.code()));
        let attributes = [
            ("db.system.name", Some(Cow::Borrowed("redis"))),
            ("db.operation.name", Some(Cow::Borrowed(&*self.name))),
            ("db.namespace", Some(self.database.to_string().into())),
            ("server.address", host.map(Cow::Borrowed)),
            ("server.port", port.map(Cow::Borrowed)),
            ("db.response.status_code", status),
            ("error.type", self.error.map(|error| Cow::Borrowed(error_type(error.kind())))),
        ];
        attributes.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
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
