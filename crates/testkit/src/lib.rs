//! Parts for tests of what uses Redis or Valkey: a mock in the test's process, real servers on free ports and in
//! temporary folders of their own, and faults between.
//!
//! - [`MockServer`]: answers as the test expects, and says at the end what did not come, and what should not have.
//! - [`Server`], [`Cluster`], [`Sentinels`]: processes of the installed `redis-server` (or `valkey-server`), to be
//!   killed, paused, failed over and resharded. Their calls block; they take `&self`, so a test shares them through
//!   `Arc` and moves long calls to `tokio::task::spawn_blocking`.
//! - [`FaultProxy`]: between a client and a real server; delays, drips, cuts, swallows, resets.
//! - [`ScriptedServer`]: a peer that plays a [`Script`] byte by byte, or answers by a closure.
//!
//! ```no_run
//! use pilotlight_redis::{Client, Commands};
//! use pilotlight_testkit::Server;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().config("maxmemory 10mb").start()?;
//! let client = Client::connect(&server.url()).await?;
//! client.set("k", "v").await?;
//! server.kill()?;
//! # Ok(()) }
//! ```
//!
//! Any client may be tested with it: it shares no code with `pilotlight-redis`, not even the codec, so a bug there
//! cannot hide itself here. Linux and macOS; `PILOTLIGHT_REDIS_SERVER` names another program than the one on the path.
//!
//! Invariants: nothing listens outside the loopback interface; only processes started here are signalled, by their id;
//! no process outlives the test process, even when that is killed; every wait is bounded.

mod admin;
mod cluster;
mod error;
mod mock;
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
pub use mock::{Expect, MockError, MockReply, MockServer, MockServerBuilder};
pub use port::{PortLease, keep_port_locks_in};
pub use proxy::{Accepting, DirectionFaults, Ending, FaultProxy, Faults, ProxiedConnection, ProxyStats};
pub use script::{
    Answer, Handshake, ReceivedCommand, Script, ScriptError, ScriptedServer, ScriptedServerBuilder, Signal, SlotRange,
    cluster_slots,
};
pub use sentinel::Sentinels;
pub use server::Server;
pub use server::builder::{ClientAuth, ServerBuilder};
pub use server::certificates::Certificates;
