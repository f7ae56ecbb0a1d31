//! What a program holds: the client, and everything that is made from it.

pub mod blocking;
mod cached;
mod call;
mod connect;
mod copy;
mod dedicated;
mod handle;
mod monitor;
mod nodes;
mod observed;
mod pipeline;
pub mod raw;
mod replies;
mod scan;
mod script;
mod span;
mod stream;
mod subscription;
mod transaction;

pub use crate::engine::pubsub::{Event, Message};
pub use crate::engine::route::{NodeReply, Route};
pub use crate::proto::monitored::Monitored;
pub use crate::proto::subscriptions::GapReason;
pub use cached::{CacheConfig, CacheMode, Cached, CachedCall};
pub use call::Call;
pub use dedicated::{Dedicated, DedicatedCall};
pub use handle::Client;
pub use monitor::Monitor;
pub use pipeline::Pipeline;
pub use replies::{Queued, Replies};
pub use scan::{MemberScan, Scan, ScanToken, TokenError};
pub use script::{Invocation, Script, ScriptCommand};
pub use subscription::Subscription;
pub use transaction::Transaction;
