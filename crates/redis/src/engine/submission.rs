//! What is asked of a connection, and what came of it.

use std::time::Duration;

use pilotlight_resp::Value;

use crate::error::{ErrorKind, Ran};

/// What a caller asks a lane to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission {
    /// Replies that the bytes will be answered with.
    pub(crate) replies: u32,
    /// How many of them, the first ones, nobody wants (`ASKING`).
    pub(crate) skip: u32,
    /// One value, or the list of all.
    pub(crate) kind: Kind,
    /// How long the caller waits; `None`: for ever.
    pub(crate) timeout: Option<Duration>,
}

/// What the cell gathers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One reply.
    One,
    /// Several, in order.
    Many,
}

/// What came of a submission.
#[derive(Debug)]
pub(crate) enum Outcome {
    One(Value),
    Many(Vec<Value>),
    Failed(Box<SubmissionError>),
}

/// Why there is no reply, or not every one.
#[derive(Debug, Clone)]
pub(crate) struct SubmissionError {
    pub(crate) kind: ErrorKind,
    /// Of the whole: [`Ran::NotSent`] only if no command of it was run.
    pub(crate) ran: Ran,
    /// Of [`Kind::Many`]: the replies that came before.
    pub(crate) replies: Vec<Value>,
    /// How many of its bytes were handed to the kernel, as far as is known.
    pub(crate) sent_bytes: usize,
}
