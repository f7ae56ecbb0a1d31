//! Ready-made parts above the client: a reliable consumer of streams, a lock with fencing tokens, a rate limiter,
//! writes that replicas have acknowledged.
//!
//! Each is a plain use of [`Client`](crate::Client) and names what it takes for granted: clocks, failovers, who else
//! writes to its keys.

mod durability;
mod limit;
mod lock;
mod pause;
pub mod stream;

pub use durability::{Acknowledged, Durability, DurabilityError};
pub use limit::{Decision, RateLimit};
pub use lock::{Lock, LockError, LockGuard, Lost};
