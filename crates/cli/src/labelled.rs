//! Services that containers declare by their labels (`[containers] discover`): found at the engine, added to what the
//! configuration file says, followed as containers come and go. `docs/guide/containers.md`
//!
//! [`text`] makes configuration of labels (pure). [`Found`] is what the engine had when the configuration was read
//! last. [`Follower`] asks for a reload when that is no longer so.

mod found;
mod text;
mod watch;

pub(crate) use found::{Found, load_for, wanted};
pub(crate) use text::end_of_file;
pub(crate) use watch::Follower;
