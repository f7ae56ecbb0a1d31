//! Programs that speak JSON lines on their standard streams, answered over HTTP with event streams: the adapter that is
//! the instance of such a service ([`run`]).
//!
//! ```text
//!  gateway ── Pipe/1 ──▶ adapter (this crate)  ── stdin, stdout ──▶ one process for each session, or each request
//!
//!  settings            what the configuration says, and the argument in which the adapter gets it
//!  message             a line as a message of JSON-RPC: request, notification or response, and what routes it
//!  streams             which message goes to which event stream of a session; what is kept to be sent again
//!  headers             what the fields of a request must be: Origin, Accept, those that repeat the body
//!  reply               answers of the adapter itself: errors, events
//!  lines               lines of bounded length
//!  program             one process: its lines, and its end: stdin closed, SIGTERM, SIGKILL
//!  crew                all processes of the adapter: how many there may be, and their end
//!  session             a client's own process, from `initialize` to DELETE or idleness (MCP until 2025-11-25)
//!  turn                a process that has one request at a time, of any client (MCP since 2026-07-28, and `lines`)
//!  events              the body of an event stream
//!  endpoint            HTTP: which of them a request is for
//! ```
//! `message`, `streams`, `headers` and `reply` do no I/O. The supervisor knows nothing of all this: the adapter is a
//! service over the pipe like any other, started by its first request and stopped when idle.

#![forbid(unsafe_code)]

mod adapter;
mod child;
mod crew;
mod endpoint;
mod events;
mod headers;
mod lines;
mod message;
mod program;
mod reply;
mod session;
mod settings;
mod streams;
mod turn;

pub use adapter::{COMMAND, RunError, command, run};
pub use lines::{Line, Lines};
pub use settings::{Mode, StdioOptions, Timeouts};
