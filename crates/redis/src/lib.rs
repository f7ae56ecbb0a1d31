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
//! without. It forbids unsafe code. Features are in the README.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod client;
pub mod command;
pub mod commands;
pub mod config;
mod credentials;
mod engine;
pub mod error;
pub mod metrics;
mod net;
mod observer;
mod out;
mod proto;
pub mod recipes;
pub mod reply;
mod stats;

pub use client::{
    CacheConfig, CacheMode, Cached, CachedCall, Call, Client, Dedicated, DedicatedCall, Event, GapReason, Invocation,
    MemberScan, Message, Monitor, Monitored, NodeReply, Pipeline, Queued, Replies, Route, Scan, ScanToken, Script,
    ScriptCommand, Subscription, TokenError, Transaction, blocking, raw,
};
pub use command::{Arg, Args, Command, Pairs};
pub use commands::Commands;
pub use config::Config;
pub use error::{Aborted, Advice, Error, ErrorKind, Misuse, PartialFailure, Ran, Reason, ReplyError, ServerError};
pub use net::{AuthError, ConnectError, ConnectErrorKind, ConnectStage, TlsError};
/// Examples of the derived `FromReply`.
///
/// ```
/// use pilotlight_redis::{FromReply, Value};
///
/// #[derive(FromReply, Debug, PartialEq)]
/// #[redis(rename_all = "kebab-case")]
/// struct User {
///     full_name: String,
///     age: Option<u8>,
///     #[redis(default)]
///     visits: u64,
///     #[redis(rename = "state")]
///     status: Status,
/// }
///
/// #[derive(FromReply, Debug, PartialEq)]
/// #[redis(rename_all = "lowercase")]
/// enum Status {
///     Active,
///     Gone,
/// }
///
/// // As HGETALL answers in RESP2.
/// let words = ["state", "active", "full-name", "Ada", "unknown", "x"];
/// let reply = Value::Array(words.iter().map(|word| Value::Bulk((*word).into())).collect());
/// let user = User::from_reply(reply).unwrap();
/// assert_eq!(user, User { full_name: "Ada".into(), age: None, visits: 0, status: Status::Active });
/// ```
///
/// A type that cannot be read is refused where the derive is written:
///
/// ```compile_fail
/// #[derive(pilotlight_redis::FromReply)]
/// enum Shape {
///     Circle(f64), // variants have no data
/// }
/// ```
/// ```compile_fail
/// #[derive(pilotlight_redis::FromReply)]
/// struct User {
///     #[redis(renamed = "x")] // no such attribute
///     name: String,
/// }
/// ```
/// ```compile_fail
/// #[derive(pilotlight_redis::FromReply)]
/// struct User {
///     socket: std::net::TcpStream, // no reply can be read as this
/// }
/// ```
#[cfg(feature = "derive")]
pub use pilotlight_redis_derive::FromReply;
/// Examples of the derived `ToArgs`.
///
/// ```
/// use pilotlight_redis::{Command, ToArgs};
///
/// #[derive(ToArgs)]
/// struct User {
///     name: String,
///     age: Option<u8>,
///     #[redis(skip)]
///     is_new: bool,
///     #[redis(flatten)]
///     address: Address,
/// }
///
/// #[derive(ToArgs)]
/// struct Address {
///     #[redis(rename = "zip-code")]
///     zip: Zip,
/// }
///
/// #[derive(ToArgs)]
/// struct Zip(u32);
///
/// let user = User { name: "Ada".into(), age: None, is_new: true, address: Address { zip: Zip(90133) } };
/// let command = Command::raw("HSET").arg("user:1").pairs(&user);
/// let words: Vec<_> = command.arguments().iter().map(|arg| String::from_utf8_lossy(&arg.to_bytes()).into_owned()).collect();
/// assert_eq!(words, ["user:1", "name", "Ada", "zip-code", "90133"]);
/// ```
///
/// ```compile_fail
/// #[derive(pilotlight_redis::ToArgs)]
/// struct User {
///     socket: std::net::TcpStream, // nothing that can be sent
/// }
/// ```
#[cfg(feature = "derive")]
pub use pilotlight_redis_derive::ToArgs;
pub use proto::slot::{SLOTS, Slot};
pub use proto::slot_set::{SlotSet, SlotSetError};
pub use proto::topology::Role;
#[cfg(feature = "json")]
pub use reply::Json;
#[cfg(feature = "serde")]
pub use reply::Serde;
pub use reply::{FromReply, Value};
pub use stats::{CacheStats, Counters, LaneStats, PoolNodeStats, PoolStats, Snapshot, Stats, TopologyStats};
