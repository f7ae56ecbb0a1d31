//! Small messages of many connections, given to the kernel together.
//!
//! A thread that serves many connections in one turn of its event loop sends a message on each. A system call apiece
//! costs more than the messages, and each may wake its receiver, which then takes the processor from the sender. Here
//! the messages of a turn wait in a [`Batch`], and go out at its end: by one `io_uring_enter` where the system allows
//! io_uring, by a `send` each where it does not. What that saves is in docs/adr/0026.
//!
//! ```text
//!   task ── put ──▶ Batch ── end of the turn ──▶ kernel
//!    ▲                                             │ sent whole: nothing more to do
//!    └── woken: settle ◀── a rest, or an error ────┘
//! ```
//!
//! - [`Stream`]: a TCP or Unix socket.
//! - [`Batched`]: a stream that may put messages in a batch. It owns its stream, so that no descriptor is closed, and
//!   no later byte written, while a message for it waits.
//! - [`Batch`]: what waits, and the turn's end: a task that the first message wakes, and which therefore runs behind
//!   all that were ready before.
//!
//! This crate knows nothing of HTTP, and of tokio only its sockets and wakers.
//!
//! Invariant: when [`Batch::send`] returns, the kernel has let go of all bytes. (`ring`)
//!
//! Invariant: a message is sent before its stream is closed, and before anything else is written to it. (`batched`)

mod batch;
mod batched;
mod each;
mod message;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled in tests, so that it keeps compiling"))]
mod no_ring;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(not(target_os = "linux"))]
use no_ring as ring;
mod stream;

pub use batch::Batch;
pub use batched::{Batched, Settled};
pub use message::{MAX_BYTES, MAX_MESSAGE_BYTES, MAX_MESSAGES};
pub use stream::Stream;
