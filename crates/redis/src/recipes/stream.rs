//! A reliable consumer of a stream: one of a group, which between them handle each entry.
//!
//! ```text
//!            ┌ new entries (XREADGROUP >)        ┐   at most `max_prefetched`            ack ─► XACK
//!  stream ──►┤                                   ├─► that are not acknowledged ─► next() ──┤
//!            └ idle ones of others (XAUTOCLAIM)  ┘        ▲                                └ dropped: claimed again
//!                                                         └ kept from being claimed while they are held
//! ```
//!
//! **Nothing is lost.** An entry is pending in the server from its delivery until it is acknowledged. When its consumer
//! has died, or was cut off, it is idle for `claim_after` and another consumer claims it; so is what was delivered into
//! a connection that broke, and what was dropped without an acknowledgement. Trimming takes only what every group has
//! acknowledged.
//!
//! **Nothing is repeated silently.** [`Entry::deliveries`] is the server's count: 1 is the first time, anything more
//! says that it may have been handled before. While an entry is held, it is kept from being idle, so that only a
//! consumer that does not run loses it, and [`Entry::is_held`] says so. The pair of id and deliveries is a fencing
//! token: of two handlers of one entry, the later one has the larger count.
//!
//! **What that takes for granted.**
//! - The server keeps what it acknowledged: a failover may lose the latest entries, acknowledgements and deliveries, as
//!   replication is behind. Then lost acknowledgements mean repetitions that are told, and lost deliveries mean
//!   repetitions that are *not* told, as the new primary never heard of the first one. `min-replicas-to-write`, and
//!   [`Durability`](super::Durability) for what is added, narrow that.
//! - Others leave the stream alone: `XTRIM`, `XADD … MAXLEN` and `XDEL` delete entries that nobody has read.
//! - The group was made before what it is to read was trimmed.
//!
//! ```no_run
//! # use pilotlight_redis::{Client, Error};
//! # use pilotlight_redis::recipes::stream::{Consumer, ConsumerConfig, StreamError};
//! # async fn handle(fields: &[(bytes::Bytes, bytes::Bytes)]) -> bool { true }
//! # async fn example(client: &Client) -> Result<(), StreamError> {
//! let mut consumer = Consumer::open(client, ConsumerConfig::new("orders", "billing")).await?;
//! while let Some(entry) = consumer.next().await {
//!     let mut entry = entry?;
//!     if entry.deliveries() > 1 {
//!         println!("{:?}: perhaps handled before", entry.id());
//!     }
//!     if handle(entry.fields()).await {
//!         entry.ack().await?;
//!     }
//! }
//! # Ok(()) }
//! ```

mod config;
mod consumer;
mod entry;
mod held;
mod keeper;
mod scripts;
mod shared;
mod worker;

pub use config::{ConsumerConfig, DeadLetters, Start, StreamError, Trim};
pub use consumer::{Consumer, Stopper};
pub use entry::Entry;
