//! A lock with fencing tokens, on one key of one server.

mod acquire;
mod guard;
mod keeper;
mod server;
mod state;

pub use acquire::{Lock, LockError};
pub use guard::LockGuard;
pub use state::Lost;
