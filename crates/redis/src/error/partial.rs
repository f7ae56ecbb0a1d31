//! A command over several slots, of which some parts failed.

use std::fmt;

use super::{Error, Ran};
use crate::proto::aggregate::Cause;
use crate::proto::split::Partial;
use crate::reply::Value;

/// What came of each key of a command that was split by slot, when not all parts succeeded.
#[derive(Clone)]
pub struct PartialFailure {
    keys: Vec<Result<Value, Error>>,
}

impl PartialFailure {
    pub(crate) fn new(partial: &Partial<Error>, command: &'static str) -> Self {
        let keys = (0..partial.len()).filter_map(|key| partial.key(key));
        let keys = keys.map(|reply| reply.cloned().map_err(|cause| error(cause, command)));
        Self { keys: keys.collect() }
    }

    /// For each key in the caller's order: its element of the reply, or, of a command with one reply for all keys, the
    /// reply to the part of the command that the key was in (`DEL`: how many of that part were deleted); or why there
    /// is none.
    pub fn keys(&self) -> &[Result<Value, Error>] {
        &self.keys
    }

    /// The keys that failed, counted from 0 in the caller's order, and why.
    pub fn failed(&self) -> impl Iterator<Item = (usize, &Error)> {
        self.keys.iter().enumerate().filter_map(|(key, reply)| reply.as_ref().err().map(|error| (key, error)))
    }

    /// Of the whole: not run if no part was, run if every part was.
    pub(crate) fn ran(&self) -> Ran {
        let of = |reply: &Result<Value, Error>| reply.as_ref().map_or_else(Error::ran, |_| Ran::Executed);
        match self.keys.first().map(of) {
            Some(first) if self.keys.iter().all(|reply| of(reply) == first) => first,
            _ => Ran::MaybeExecuted,
        }
    }
}

fn error(cause: &Cause<Error>, command: &'static str) -> Error {
    match cause {
        Cause::Failed(error) => error.clone(),
        Cause::Server(server) => Error::new(server.clone(), Ran::Executed, command),
        Cause::Shape { expected, found } => {
            let shape = super::ReplyError { expected, found, server: None };
            Error::new(shape, Ran::Executed, command)
        }
        Cause::Overflow => {
            let shape = super::ReplyError { expected: "a sum of 64 bits", found: "more", server: None };
            Error::new(shape, Ran::Executed, command)
        }
    }
}

impl fmt::Display for PartialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} keys failed", self.failed().count(), self.keys.len())?;
        match self.failed().next() {
            Some((key, error)) => write!(f, ", the first of them is key {key}: {error}"),
            None => Ok(()),
        }
    }
}

/// As the text: there may be very many keys.
impl fmt::Debug for PartialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartialFailure({self})")
    }
}

impl std::error::Error for PartialFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failed().next().map(|(_, error)| error as _)
    }
}
