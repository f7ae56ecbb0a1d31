//! Metrics by the names of OpenTelemetry's conventions for clients of databases, for whatever exports them: this crate
//! knows no exporter.
//!
//! - [`Observer`] is told of each operation when it begins and ends ([`Config::observer`](crate::Config::observer)):
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

pub use crate::observer::{Beginning, Observer, Ongoing, Operation};
pub use durations::{BOUNDS, DurationSeries, Durations, MAX_SERIES};
pub use snapshot::{Metric, MetricKind};

/// Name of the histogram of what an [`Observer`] is told, in seconds.
pub const OPERATION_DURATION: &str = "db.client.operation.duration";
