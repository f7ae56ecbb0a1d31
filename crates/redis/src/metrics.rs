//! Metrics by the names of OpenTelemetry's conventions for clients of databases, for whatever exports them: this crate
//! knows no exporter.
//!
//! - [`Observer`] is told of each operation when it ends ([`Config::observer`](crate::Config::observer)):
//!   `db.client.operation.duration`. Operations are commands, pipelines and transactions; not what a cache answers
//!   itself, and not messages. [`Durations`] is one that keeps histograms.
//! - [`Stats::metrics`](crate::Stats::metrics) has the rest, to be asked for at each export: connections, and what is
//!   this client's own.
//!
//! `examples/metrics.rs` writes both as text for Prometheus; with the `opentelemetry` crate an observer calls
//! `Histogram::record` with [`Operation::attributes`], and an observable instrument's callback goes through
//! `Stats::metrics`.

mod durations;
mod snapshot;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use durations::{BOUNDS, DurationSeries, Durations, MAX_SERIES};
pub use snapshot::{Metric, MetricKind};

use crate::config::Config;
use crate::error::Error;
use crate::observe::error_type;

/// Name of the histogram of what an [`Observer`] is told, in seconds.
pub const OPERATION_DURATION: &str = "db.client.operation.duration";

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

/// An operation that is observed, since its beginning.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) since: Instant,
    /// Known at the beginning.
    pub(crate) node: Option<Arc<str>>,
}

impl Observed {
    /// `None`: nobody observes.
    #[inline]
    pub(crate) fn begin(config: &Config) -> Option<Self> {
        config.observer.as_ref().map(|_| Self { since: Instant::now(), node: None })
    }

    /// The same, of a node that is known.
    pub(crate) fn begin_at(config: &Config, node: &Arc<str>) -> Option<Self> {
        Self::begin(config).map(|it| Self { node: Some(Arc::clone(node)), ..it })
    }

    /// Tells of one command.
    pub(crate) fn end(self, config: &Config, name: &'static str, error: Option<&Error>) {
        self.end_batch(config, Cow::Borrowed(name), None, error);
    }

    /// Tells of several.
    pub(crate) fn end_batch(
        self,
        config: &Config,
        name: Cow<'static, str>,
        batch_size: Option<usize>,
        error: Option<&Error>,
    ) {
        let Some(observer) = &config.observer else { return };
        let node = error.and_then(|error| error.node()).or(self.node.as_deref());
        let (database, duration) = (config.database, self.since.elapsed());
        observer.ended(&Operation { name, node, database, batch_size, duration, error });
    }
}

/// The name of an operation of several commands.
pub(crate) fn batch_name(kind: &'static str, mut names: impl Iterator<Item = &'static str>) -> Cow<'static, str> {
    let Some(first) = names.next() else { return Cow::Borrowed(kind) };
    if names.all(|name| name == first) { Cow::Owned(format!("{kind} {first}")) } else { Cow::Borrowed(kind) }
}
