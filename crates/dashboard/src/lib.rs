//! The dashboard of a running gateway: a page in the browser of the one who operates it.
//!
//! ```text
//!  browser ── HTTP on 127.0.0.1 ──▶ this ── HTTP on a Unix socket ──▶ the gateway's admin interface
//! ```
//!
//! It runs in a process of its own, so an idle gateway pays nothing for it, and the admin interface stays where only
//! its owner reaches it. What it owns: the page, who may see what (see [`sessions`]), and which requests are passed on.
//! It keeps no data of the gateway and understands none of it.
//!
//! Invariants: nothing of the gateway is told, and nothing is passed on, without both halves of a session. No request
//! is answered that names another host than this one. The page runs nothing but its own script, whatever it is told.

#![forbid(unsafe_code)]

mod allowed;
mod guard;
mod page;
mod pass;
mod serve;
pub mod sessions;

pub use serve::{Connect, Dashboard, MAX_CONNECTIONS};
