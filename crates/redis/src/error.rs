//! What can go wrong with a command: who is to blame, whether it may have run, and what to do now.

mod outcome;
mod reason;
mod server;
pub(crate) mod table;
mod timeout;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pilotlight_resp::{DecodeError, Value};

use crate::command::CommandSpec;
pub use outcome::{Advice, Ran};
pub use reason::Reason;
pub use server::ServerError;
use table::Judgement;
pub use timeout::{TimeoutReport, TimeoutStage};

/// Why a command has no reply, or an unwanted one.
///
/// [`Error::ran`] and [`Error::advice`] answer by exhaustive match what a caller has to know before trying again.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error, Ran};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// match client.incr("visits").await {
///     Ok(visits) => println!("{visits}"),
///     Err(error) if error.ran() == Ran::NotSent => println!("not counted: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    ran: Ran,
    command: &'static str,
    node: Option<Arc<str>>,
    /// Of the command that the server answered, if it is known: it may have been a script that spoke.
    spec: Option<&'static CommandSpec>,
    /// What the caller can do about it.
    hint: Option<&'static str>,
}

/// The culprit.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error, ErrorKind};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// if let Err(error) = client.lpush("name", "x").await
///     && let ErrorKind::Server(answer) = error.kind()
/// {
///     println!("{} of {:?}", answer.code(), error.node());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something impossible.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The server answered with an error.
    #[error("the server answered: {0}")]
    Server(ServerError),
    /// The reply is of another type than was asked for.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The server broke the protocol; the connection was closed.
    #[error("the server broke the protocol: {0}")]
    Protocol(Arc<str>),
    /// No connection could be made.
    #[error("cannot connect: {0}")]
    Connect(Reason),
    /// No connection can be made, and trying again will not help: a wrong password, a bad certificate, an unknown name
    /// of a primary.
    #[error("cannot connect: {0}")]
    Rejected(Reason),
    /// The connection was lost before the reply.
    #[error("connection lost: {0}")]
    Connection(Arc<str>),
    /// The caller's writer of a reply failed ([`Client::copy`](crate::Client::copy)).
    #[error("the writer failed: {0}")]
    Writer(Arc<str>),
    /// The deadline passed.
    #[error("{0}")]
    Timeout(Box<TimeoutReport>),
    /// A limit of the client was reached and its policy is to reject.
    #[error("overloaded: {in_flight_bytes} bytes are queued or in flight and {limit} allows {max_bytes}")]
    Overloaded {
        /// The name of the limit.
        limit: &'static str,
        /// Bytes queued or in flight.
        in_flight_bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// As many calls as may wait for room in the byte budget do so already.
    #[error("overloaded: {waiting} commands wait for room in max_queued_bytes and {limit} allows {max}")]
    Crowded {
        /// The name of the limit.
        limit: &'static str,
        /// Calls that wait.
        waiting: usize,
        /// The limit.
        max: usize,
    },
    /// The nodes of the cluster do not agree who serves the slot: it was redirected up to
    /// [`max_redirects`](crate::config::ClusterConfig::max_redirects), or up to its deadline.
    #[error("redirected {redirects} times, the last one: {last}")]
    Redirects {
        /// Redirects that were followed.
        redirects: u32,
        /// The one that was not.
        last: ServerError,
    },
    /// The cluster has no node for it, after all retries.
    #[error("{0}")]
    Cluster(Reason),
    /// Some keys of a command over several slots failed, others did not.
    #[error("{0}")]
    Partial(Arc<PartialFailure>),
    /// A transaction was not run.
    #[error(transparent)]
    Aborted(#[from] Aborted),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

/// What came of each key of a command that was split by slot, when not all parts succeeded.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error, ErrorKind};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// if let Err(error) = client.mset([("a", 1), ("b", 2)]).await
///     && let ErrorKind::Partial(failure) = error.kind()
/// {
///     println!("{failure:?}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PartialFailure {
    keys: Vec<Result<Value, Error>>,
}

/// Why a transaction was not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Aborted {
    /// The server refused one of its commands when it was queued.
    #[error("the server refused command {index} ({command}): {error}")]
    Refused {
        /// Which command, counted from 0.
        index: usize,
        /// Its name.
        command: &'static str,
        /// What the server said.
        error: ServerError,
    },
    /// A watched key was changed, in each of the attempts.
    #[error("a watched key was changed ({attempts} attempts)")]
    Changed {
        /// Attempts made.
        attempts: u32,
    },
}

/// A mistake of the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// Keys of one command that cannot be split lie in different slots.
    #[error(
        "keys are in different slots ({first} and {second}): give them one hash tag, as in {{user:1}}:a and {{user:1}}:b"
    )]
    CrossSlot {
        /// Slot of the first key.
        first: u16,
        /// Another key's slot.
        second: u16,
    },
    /// The command is about the connection that it is sent on, which others share.
    #[error("{command} is about its own connection, and this one is shared: {instead}")]
    ConnectionState {
        /// The command.
        command: &'static str,
        /// What to use.
        instead: &'static str,
    },
    /// The command has no meaning for several nodes together, or not on this kind of connection.
    #[error("{command} cannot be sent this way: {instead}")]
    Unroutable {
        /// The command.
        command: &'static str,
        /// What to use.
        instead: &'static str,
    },
    /// The URL cannot be read.
    #[error("{0}")]
    Url(String),
    /// It has fewer or more arguments than the command takes.
    #[error("{0}")]
    Arguments(String),
    /// An argument is nothing that can be sent: a time of zero where the server would take it for something else, a
    /// value that is no JSON.
    #[error("{0}")]
    Argument(&'static str),
    /// The command is larger than a limit.
    #[error("the command has {bytes} bytes and {limit} allows {max_bytes}")]
    TooLarge {
        /// The name of the limit.
        limit: &'static str,
        /// Size of the command.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
}

/// The reply does not have the type that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, the server sent {found}{}{}", if detail.is_some() { ": " } else { "" }, detail.as_deref().unwrap_or_default())]
pub struct ReplyError {
    /// What was asked for.
    pub expected: &'static str,
    /// What came.
    pub found: &'static str,
    /// The error that the server sent in the place of the value, if that is why.
    pub server: Option<ServerError>,
    /// What a format within the reply has against it (`Json`, `Serde`).
    pub detail: Option<Box<str>>,
}

impl Error {
    /// An error of `command`.
    #[must_use]
    pub fn new(kind: impl Into<ErrorKind>, ran: Ran, command: &'static str) -> Self {
        Self(Box::new(Inner { kind: kind.into(), ran, command, node: None, spec: None, hint: None }))
    }

    /// The server's answer to a command of this description.
    pub(crate) fn answered(spec: &'static CommandSpec, error: ServerError) -> Self {
        let Judgement { ran, .. } = table::judge(spec, &error);
        Self(Box::new(Inner { kind: error.into(), ran, command: spec.name, node: None, spec: Some(spec), hint: None }))
    }

    /// The same error, at `node`.
    #[must_use]
    pub fn at(mut self, node: Arc<str>) -> Self {
        self.0.node = Some(node);
        self
    }

    /// The same error with what the caller can do about it.
    #[must_use]
    pub(crate) fn hinted(mut self, hint: Option<&'static str>) -> Self {
        self.0.hint = hint;
        self
    }

    /// The same with another culprit.
    #[must_use]
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The same error of a command that has run, or not.
    #[must_use]
    pub(crate) fn with_ran(mut self, ran: Ran) -> Self {
        self.0.ran = ran;
        self
    }

    /// The same error of a whole of which the command was a part. A deadline is that of the whole, and says why an
    /// attempt before failed.
    #[must_use]
    pub(crate) fn of_whole(mut self, timeout: Option<Duration>, age: Duration, before: Option<&Reason>) -> Self {
        if let ErrorKind::Timeout(report) = &mut self.0.kind {
            report.timeout = timeout.unwrap_or(report.timeout);
            report.age = report.age.max(age);
            report.problem = report.problem.take().or_else(|| before.cloned());
        }
        self
    }

    /// The reason that a deadline after this error gives. `None`: the error is a deadline itself, of unknown reason.
    #[must_use]
    pub(crate) fn as_problem(&self) -> Option<Reason> {
        match (&self.0.kind, self.reason()) {
            (ErrorKind::Timeout(_), reason) => reason.cloned(),
            (kind, Some(reason)) => Some(reason.told(kind.to_string())),
            (kind, None) => Some(kind.to_string().into()),
        }
    }

    /// The culprit.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Whether the command was run.
    #[must_use]
    pub fn ran(&self) -> Ran {
        self.0.ran
    }

    /// The node that it happened at, as `host:port`, if there was one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }

    /// The command's name.
    #[must_use]
    pub fn command(&self) -> &'static str {
        self.0.command
    }

    /// The server's error, if it is one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        match &self.0.kind {
            ErrorKind::Server(error) | ErrorKind::Redirects { last: error, .. } => Some(error),
            ErrorKind::Reply(error) => error.server.as_ref(),
            ErrorKind::Aborted(Aborted::Refused { error, .. }) => Some(error),
            _ => None,
        }
    }

    /// Why there is no connection, or was none until the deadline; or the last problem before a deadline.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        match &self.0.kind {
            ErrorKind::Connect(reason) | ErrorKind::Rejected(reason) | ErrorKind::Cluster(reason) => Some(reason),
            ErrorKind::Timeout(report) => report.problem.as_ref(),
            _ => None,
        }
    }

    /// What the server lacks for the command, if it says that it does not know it: a version, or a module.
    #[must_use]
    pub fn needs(&self) -> Option<&'static str> {
        let is_unknown = |error: &ServerError| {
            let message = error.message();
            ["unknown command", "unknown subcommand", "Unknown subcommand"].iter().any(|it| message.starts_with(it))
        };
        self.0.spec.filter(|_| self.server().is_some_and(is_unknown)).map(|spec| spec.needs)
    }

    /// What `error`, which is this one or its cause, means for the command.
    pub(crate) fn judge(&self, error: &ServerError) -> Judgement {
        self.0.spec.map_or_else(|| table::judge_own(error), |spec| table::judge(spec, error))
    }

    /// What to do now. Whether that is safe is [`Error::ran`]'s to say.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match &self.0.kind {
            ErrorKind::Misuse(_)
            | ErrorKind::Reply(_)
            | ErrorKind::Rejected(_)
            | ErrorKind::Writer(_)
            | ErrorKind::Closed => Advice::Never,
            ErrorKind::Server(error) => self.judge(error).remedy.advice(),
            ErrorKind::Aborted(Aborted::Refused { error, .. }) => error.advice(),
            ErrorKind::Aborted(Aborted::Changed { .. }) => Advice::Retry,
            ErrorKind::Partial(partial) => partial.failed().next().map_or(Advice::Never, |(_, error)| error.advice()),
            ErrorKind::Protocol(_) | ErrorKind::Connect(_) | ErrorKind::Connection(_) => Advice::Reconnect,
            ErrorKind::Timeout(_) | ErrorKind::Overloaded { .. } | ErrorKind::Crowded { .. } => Advice::Retry,
            ErrorKind::Redirects { .. } => Advice::Redirect,
            ErrorKind::Cluster(_) => Advice::RefreshTopology,
        }
    }
}

/// `{:?}` is what a `main` that returns the error prints: the sentence, readable. `{:#?}` shows the parts.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { self.0.fmt(f) } else { write!(f, "{self}") }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.command)?;
        if let Some(node) = &self.0.node {
            write!(f, " at {node}")?;
        }
        write!(f, ": {}", self.0.kind)?;
        match (self.0.hint, self.needs()) {
            (Some(hint), _) => write!(f, "; {hint}")?,
            (None, Some(needs)) => write!(f, "; {} needs {needs}", self.0.command)?,
            (None, None) => {}
        }
        match self.0.ran {
            Ran::NotSent => write!(f, " (not sent)"),
            Ran::MaybeExecuted => write!(f, " (may have been executed)"),
            Ran::Executed => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Server(error) | ErrorKind::Redirects { last: error, .. } => Some(error),
            ErrorKind::Reply(error) => Some(error),
            ErrorKind::Partial(error) => Some(&**error),
            _ => Some(self.reason()?.cause()?),
        }
    }
}

impl From<ServerError> for ErrorKind {
    fn from(error: ServerError) -> Self {
        Self::Server(error)
    }
}

impl From<DecodeError> for ErrorKind {
    fn from(error: DecodeError) -> Self {
        Self::Protocol(error.to_string().into())
    }
}

impl PartialFailure {
    /// By key, in the caller's order.
    pub(crate) fn new(keys: Vec<Result<Value, Error>>) -> Self {
        Self { keys }
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
