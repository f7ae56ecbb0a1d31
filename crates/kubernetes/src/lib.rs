//! `pilotlight kubernetes`: the gateway as the controller of Gateways and Ingresses of a cluster, and as what wakes its
//! workloads. Everything that talks to the API server, and everything that decides what the cluster means.
//!
//! ```text
//! API server ──watch, convert──▶ snapshot ──translate──▶ configuration ──owner──▶ the gateway, by an ordinary reload
//!                                   │      └───────────▶ conditions ────statuses──▶ API server (the leader)
//!                                   └──────endpoints───▶ servers of the gateway, without a reload
//! the gateway: who waits, what is open ──scale──▶ /scale (anybody wakes, the leader scales to zero)
//! ```
//!
//! Pure: `snapshot`, `translate`, `endpoints`, `conditions`, `scale`, `lease`. State is in the API server alone; on
//! disk are certificates, in a folder that goes with the process. (docs/adr/0062)

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking"))]

pub mod api;
pub mod arguments;
pub mod base;
pub mod certificates;
pub mod conditions;
pub mod convert;
pub mod coordination;
pub mod duration;
pub mod endpoints;
pub mod failure;
pub mod lease;
pub mod owner;
pub mod probe;
mod run;
pub mod scale;
pub mod scaling;
pub mod servers;
pub mod snapshot;
pub mod statuses;
pub mod translate;
pub mod watch;

pub use run::run;
