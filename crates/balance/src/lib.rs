//! Which of several servers of one service takes a request. No I/O, no clock, no source of chance: all three come in as
//! arguments, and what workers share is in atomics.
//!
//! ```
//! use pilotlight_balance::{Ask, Group, Ms, Server, Settings};
//!
//! let servers = [Server::new("10.0.0.1:9000", 1), Server::new("10.0.0.2:9000", 1)];
//! let group = Group::new(&servers, Settings::default());
//! let first = group.choose(Ask { now: Ms(0), chance: 7, ..Ask::default() }).unwrap();
//! let second = group.choose(Ask { now: Ms(0), chance: 8, ..Ask::default() }).unwrap();
//! assert_ne!(first, second); // the other one has a request open
//! group.answered(first);
//! group.ended(first);
//! ```
//!
//! Why it is as it is: `docs/adr/0055-several-servers.md`, `docs/adr/0063-servers-that-come-and-go.md`.

mod budget;
mod group;
mod hash;
mod health;
mod time;
mod tried;

pub use budget::{Retries, RetryCounts};
pub use group::{Ask, Group, MAX_SERVERS, MAX_WEIGHT, Server};
pub use hash::key;
pub use health::{Change, Settings, State, Verdict};
pub use time::Ms;
pub use tried::Tried;
