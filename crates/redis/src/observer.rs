//! Who is told of each operation when it begins and when it ends, and what.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::proto::slot::Slot;

/// Is told of operations: on the tasks of their callers, so it should be quick. What is dropped before its end is not
/// told, but for what was made of its beginning, which is dropped, too.
///
/// It is the hook for metrics, traces and tests. Without one, a command looks once at whether there is one, and nothing
/// is measured. A span for each command, beside those that the client has by itself (target
/// `pilotlight_redis::command`, level DEBUG):
///
/// ```
/// use pilotlight_redis::metrics::{Beginning, Observer, Ongoing, Operation};
///
/// #[derive(Debug)]
/// struct Spans;
///
/// impl Observer for Spans {
///     fn begun(&self, beginning: &Beginning<'_>) -> Option<Box<dyn Ongoing>> {
///         let slot = beginning.slot.map(|slot| slot.number());
///         let attempts = tracing::field::Empty;
///         Some(Box::new(CommandSpan(tracing::info_span!("redis", name = beginning.name, slot, attempts))))
///     }
///
///     fn ended(&self, _: &Operation<'_>) {}
/// }
///
/// struct CommandSpan(tracing::Span);
///
/// impl Ongoing for CommandSpan {
///     fn ended(self: Box<Self>, operation: &Operation<'_>) {
///         self.0.record("attempts", operation.attempts);
///         if let Some(error) = operation.error {
///             self.0.in_scope(|| tracing::warn!(%error, "failed"));
///         }
///     }
/// }
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = pilotlight_redis::Config::from_url("redis://localhost")?;
/// let client = pilotlight_redis::Client::new(pilotlight_redis::Config {
///     observer: Some(std::sync::Arc::new(Spans)),
///     ..config
/// })?;
/// # Ok(()) }
/// ```
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// An operation begins: it is polled for the first time, and nothing is sent yet. What is returned goes with it: it
    /// is told of the end, after [`ended`](Self::ended), or dropped with an operation that its caller gave up. Default:
    /// nothing.
    fn begun(&self, beginning: &Beginning<'_>) -> Option<Box<dyn Ongoing>> {
        let _ = beginning;
        None
    }

    /// An operation has ended.
    fn ended(&self, operation: &Operation<'_>);
}

/// What an [`Observer`] made of an operation's beginning.
///
/// ```no_run
/// use std::time::Instant;
///
/// use pilotlight_redis::metrics::{Ongoing, Operation};
///
/// struct Stopwatch(Instant);
///
/// impl Ongoing for Stopwatch {
///     fn ended(self: Box<Self>, operation: &Operation<'_>) {
///         println!("{}: {:?}", operation.name, self.0.elapsed());
///     }
/// }
/// ```
pub trait Ongoing: Send {
    /// The operation has ended.
    fn ended(self: Box<Self>, operation: &Operation<'_>);
}

/// A command, a pipeline or a transaction that begins. It names no arguments: they may be secrets.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Beginning<'o> {
    /// As [`Operation::name`].
    pub name: &'o str,
    /// As [`Operation::slot`].
    pub slot: Option<Slot>,
    /// The node that is asked first, as far as is known now.
    pub node: Option<&'o str>,
    /// The database.
    pub database: u16,
    /// Commands of a pipeline or transaction.
    pub batch_size: Option<usize>,
}

/// A command, a pipeline or a transaction that has ended. It names no arguments: they may be secrets.
///
/// ```no_run
/// use pilotlight_redis::metrics::{Observer, Operation};
///
/// #[derive(Debug)]
/// struct Failures;
///
/// impl Observer for Failures {
///     fn ended(&self, operation: &Operation<'_>) {
///         if let Some(error) = operation.error {
///             eprintln!("{} failed after {} attempts: {error}", operation.name, operation.attempts);
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Operation<'o> {
    /// The command; of a pipeline `PIPELINE`, of a transaction `MULTI`, followed by the command if all are the same.
    pub name: Cow<'static, str>,
    /// The slot of its first key; `None`: it has no key, or it is a pipeline.
    pub slot: Option<Slot>,
    /// The node that was asked, last or first, as `host:port`; `None`: several, or none.
    pub node: Option<&'o str>,
    /// The database.
    pub database: u16,
    /// Commands of a pipeline or transaction.
    pub batch_size: Option<usize>,
    /// 1, and 1 more for each time that it, or a command or part of it, was sent again: after a redirect, or a failure.
    pub attempts: u32,
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
            ("db.namespace", Some(if self.database == 0 { "0".into() } else { self.database.to_string().into() })),
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
