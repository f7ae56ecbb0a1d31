//! The commands: their descriptions and typed methods, generated from the servers' own command files.
//!
//! [`Commands`] has a method for each command, [`options`] and [`words`] hold what their parameters are made of,
//! [`spec`] what is known about each command before it is sent. `COMMANDS.md` lists them all.

mod choices;
#[cfg(feature = "modules")]
pub mod modules;
mod named;
pub mod options;
pub mod spec;
mod typed;
pub mod words;

use crate::command::CommandSpec;

pub use typed::Commands;

/// The description of a command by its name (`"get"`, `"CLIENT INFO"`), without regard to case.
///
/// ```
/// use pilotlight_redis::commands::lookup;
///
/// assert_eq!(lookup("client info").map(|spec| spec.name), Some("CLIENT INFO"));
/// assert!(lookup("nonsense").is_none());
/// ```
#[must_use]
pub fn lookup(name: &str) -> Option<&'static CommandSpec> {
    let upper = || name.bytes().map(|byte| byte.to_ascii_uppercase());
    let found = spec::ALL.binary_search_by(|spec| spec.name.bytes().cmp(upper())).ok()?;
    spec::ALL.get(found).copied()
}

#[cfg(test)]
mod tests;
