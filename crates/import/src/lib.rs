//! Configurations of other servers, read into a `pilotlight.toml`.
//!
//! Owns the words of those servers and what they are in Pilotlight. Every option of a file is told of: mapped, not
//! needed, or not mapped, with its line and the reason. Does no I/O, and knows nothing of how `check` reads the result;
//! the command does both.
//!
//! Sites of Caddy and nginx have different words for the same things: both end in `rules`, which makes their routes.
//!
//! Invariant: whatever the text is, the result is TOML, and no text has more than [`MAX_BYTES`] or [`MAX_LINES`] read.

#![forbid(unsafe_code)]

mod caddy;
mod directive;
mod document;
mod door;
mod gunicorn;
mod json;
mod model;
mod nginx;
mod origin;
mod pattern;
mod procfile;
mod program;
mod python;
mod read;
mod rules;
mod settings;
mod settle;
mod unit;
mod uwsgi;
mod written;

pub use model::{Became, Draft, ImportError, Kind, MAX_BYTES, MAX_LINES, Noted};
pub use origin::{Origin, Variable};
pub use read::{import, import_from};
