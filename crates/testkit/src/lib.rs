//! Real parts for tests of Redis and Valkey clients, each on free ports and in a temporary folder of its own.
//!
//! - [`Server`], [`Cluster`], [`Sentinels`]: processes of the installed `redis-server`, to be killed, paused, failed
//!   over and resharded. Their calls block; they take `&self`, so a test shares them through `Arc` and moves long calls
//!   to `tokio::task::spawn_blocking`.
//! - [`ScriptedServer`]: a peer that plays a [`Script`] byte by byte, or answers by a closure.
//! - [`FaultProxy`]: between a client and a real server; delays, drips, cuts, swallows, resets.
//!
//! It refuses to know the client under test: it shares no code with it, not even the codec, so a bug there cannot hide
//! itself here.
//!
//! Invariants: nothing listens outside the loopback interface; only processes started here are signalled, by their id;
//! no process outlives the test process, even when that is killed; every wait is bounded.

mod admin;
mod cluster;
mod error;
mod port;
mod process;
mod proxy;
mod reaper;
mod script;
mod sentinel;
mod server;
mod wait;

pub use admin::Reply;
pub use cluster::form::ClusterBuilder;
pub use cluster::migrate::SlotMove;
pub use cluster::view::KnownNode;
pub use cluster::{Cluster, Failover, Node, Promotion};
pub use error::Error;
pub use port::PortLease;
pub use proxy::{Accepting, DirectionFaults, Ending, FaultProxy, Faults, ProxiedConnection, ProxyStats};
pub use script::{
    Answer, Handshake, ReceivedCommand, Script, ScriptError, ScriptedServer, ScriptedServerBuilder, Signal, SlotRange,
    cluster_slots,
};
pub use sentinel::Sentinels;
pub use server::Server;
pub use server::builder::{ClientAuth, ServerBuilder};
pub use server::certificates::Certificates;
