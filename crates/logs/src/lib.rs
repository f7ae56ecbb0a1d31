//! Where log lines go, and how they look there.
//!
//! ```text
//!  Record ─ Shape ─▶ bytes of one line or message ─▶ Outlet (bounded queue) ─▶ its thread ─▶ Out: file, stream, socket
//! ```
//! This crate knows the native protocol of the systemd journal, syslog in both of its forms, and sockets whose other
//! end goes away and comes back. It knows nothing of requests, services or the configuration file.
//!
//! Invariant: who has a line written never waits for its destination; what finds no room is dropped and counted.

mod destination;
mod file;
mod journal;
mod link;
mod out;
mod outlet;
mod record;
mod shape;
mod syslog;
mod time;

pub use destination::{BadDestination, Destination, Facility, Peer, SyslogFormat};
pub use out::{Lost, Out};
pub use outlet::Outlet;
pub use record::{Field, Names, Record, Severity};
pub use shape::Shape;
pub use time::rfc3339;
