//! What every Rust program of this workspace shares: options, workloads, the measured loop and its report.
//!
//! A program is started as `NAME WORKLOAD key=value…` and prints two lines: `START` when it has warmed up and begins to
//! measure, `END {json}` when it has measured. Whoever started it samples the servers at these two lines.
mod cluster;
mod options;
mod peer;
mod report;
mod resp;
mod workload;

pub use cluster::Topology;
pub use options::Options;
pub use peer::{Peer, run};
pub use report::{Measured, Measurement, Tally};
pub use resp::{Reply, push_get, push_set, scan};
pub use workload::{BATCH, KEYS, Kind, Random, Step, Workload, published_key};
