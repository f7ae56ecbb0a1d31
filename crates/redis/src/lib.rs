//! Client of Redis and Valkey: one server, several with a primary among them, Sentinel, or a cluster. Many tasks share
//! few connections.
//!
//! ```no_run
//! use pilotlight_redis::{Client, Commands};
//!
//! # async fn example() -> Result<(), pilotlight_redis::Error> {
//! let client = Client::connect("redis://localhost").await?;
//! client.set("name", "Ada").await?;
//! let name: Option<String> = client.get("name").read_as().await?;
//!
//! let mut pipeline = client.pipeline();
//! let visits = pipeline.incr("visits");
//! let day = pipeline.hget("user:1", "day");
//! let mut replies = pipeline.run().await?;
//! let (visits, day) = (replies.take(visits)?, replies.take(day)?);
//! # Ok(()) }
//! ```
//!
//! A [`Client`] is cheap to clone, and meant to be shared: there is no pool to be sized. Each command is a method of
//! [`Commands`]; what has no method is a [`Command::raw`]. A call is a future that sends its command when it is first
//! polled, and may be dropped at any time: no other reply is shifted by it.
//!
//! An [`Error`] says who is to blame ([`Error::kind`]), where ([`Error::node`]), whether the command was run
//! ([`Error::ran`]) and what helps ([`Error::advice`]). The client repeats by itself what certainly did not run, and
//! what only reads, up to the command's deadline.
//!
//! Everything is bounded by a named setting of [`Config`], each of which is an option of a URL, too. The guide,
//! `docs/guide/redis-client.md`, has them in a table, and tells of clusters, Sentinel, TLS, errors and overload;
//! `examples/` has programs.
//!
//! The client needs a tokio runtime with I/O and time enabled; [`blocking::Client`] brings its own, for programs
//! without. It forbids unsafe code.

mod batch;
pub mod blocking;
mod call;
mod client;
mod cluster;
pub mod command;
pub mod commands;
pub mod config;
mod copy;
mod core;
mod dedicated;
pub mod error;
mod finder;
mod follow;
mod large;
pub mod metrics;
mod monitor;
mod net;
mod node;
mod observe;
mod pipeline;
mod pool;
pub mod proto;
mod pubsub;
pub mod raw;
mod readers;
pub mod reply;
mod reply_check;
mod request;
mod route;
mod scan;
mod script;
mod sentinel;
mod single;
mod special;
mod stats;
mod stream;
mod tracking;
mod transaction;

pub use call::Call;
pub use client::Client;
pub use command::{Arg, Args, Command, Pairs};
pub use commands::Commands;
pub use config::Config;
pub use dedicated::{Dedicated, DedicatedCall};
pub use error::{Aborted, Advice, Error, ErrorKind, Misuse, PartialFailure, Ran, ReplyError, ServerError};
pub use monitor::{Monitor, Monitored};
pub use net::lane::{Counters, Snapshot};
pub use net::{AuthError, ConnectError, ConnectErrorKind, ConnectStage};
pub use pipeline::{Pipeline, Queued, Replies};
pub use pubsub::{Event, GapReason, Message, Subscription};
pub use reply::{FromReply, Value};
pub use route::{NodeReply, Route};
pub use scan::{MemberScan, Scan, ScanToken, TokenError};
pub use script::{Invocation, Script, ScriptCommand};
pub use stats::{LaneStats, PoolNodeStats, PoolStats, Stats, TopologyStats};
pub use tracking::{CacheConfig, CacheMode, CacheStats, Cached, CachedCall};
pub use transaction::Transaction;
