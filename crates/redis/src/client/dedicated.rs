//! A connection for one user alone, with all commands: also those that change its state.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::client::handle::Client;
use crate::client::observed::{Observed, Subject};
use crate::command::{Args, Command, Flags};
use crate::commands::{Commands, spec};
use crate::engine::hint;
use crate::engine::options::CallOptions;
use crate::engine::pool::Lease;
use crate::engine::route::Route;
use crate::engine::routing;
use crate::engine::submission::SubmissionError;
use crate::error::{Error, ErrorKind, Misuse, Ran, ServerError};
use crate::out::Out;
use crate::reply::{FromReply, Value, skipped};

/// A connection to one node that nobody else uses meanwhile.
///
/// It runs one command after the other, on its own node: redirects are not followed but are the error. Dropping it
/// gives the connection back to the client's pool. If anything was switched on that the next user would notice
/// (`SELECT`, `AUTH`, `CLIENT TRACKING`, keys that are still watched, a `MULTI` without its end), it is reset before it
/// is lent again: `RESET` and the handshake, in place of a new connection. It is closed if the server has no `RESET`
/// (before 6.2, or it does not tell its version, as in RESP2), if a command was given up in its middle, and after what
/// `RESET` may not undo: `CLIENT NO-EVICT` and the like, and commands that this client does not know.
///
/// Subscriptions are not for it ([`ErrorKind::Misuse`]), as their messages come unasked.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Command, Commands, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut connection = client.dedicated().await?;
/// connection.set("k", 1).await?;
/// let replicas: i64 = connection.wait(1, 100).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Dedicated {
    client: Client,
    lease: Lease,
    options: CallOptions,
    is_watching: bool,
    /// Between `MULTI` and its end.
    is_queueing: bool,
    /// The caller said who he is.
    has_own_identity: bool,
}

/// The future of a reply on a [`Dedicated`] connection. Nothing is sent before it is first polled.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Dedicated, Error};
/// # async fn example(connection: &mut Dedicated) -> Result<(), Error> {
/// let name: Option<String> = connection.get("name").read_as().await?;
/// # Ok(()) }
/// ```
///
/// # Cancel safety
/// Dropping it after it was polled closes the connection: a blocking command stops waiting.
#[must_use = "a command is sent when it is awaited"]
pub struct DedicatedCall<'d, T> {
    stage: Stage<'d>,
    options: CallOptions,
    reply: PhantomData<fn() -> T>,
}

enum Stage<'d> {
    New(&'d mut Dedicated, Command<'d>),
    Running(&'static str, Pin<Box<dyn Future<Output = Result<Value, Error>> + Send + 'd>>),
    Done,
}

impl Client {
    /// A connection of one's own to any primary.
    ///
    /// # Errors
    /// No connection can be made within the command timeout, or as many as
    /// [`max_blocking_connections`](crate::Config::max_blocking_connections) are in use for so long.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn dedicated(&self) -> Result<Dedicated, Error> {
        self.dedicated_on(Route::Any).await
    }

    /// A connection of one's own to the node of `route`: in a cluster, [`Route::primary_of`] a key.
    ///
    /// ```no_run
    /// # use pilotlight_redis::{Client, Error, Route};
    /// # async fn example(client: &Client) -> Result<(), Error> {
    /// let connection = client.dedicated_on(Route::primary_of("user:1")).await?;
    /// println!("{}", connection.node());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`dedicated`](Self::dedicated), or `route` is more than one node.
    ///
    /// # Cancel safety
    /// As [`dedicated`](Self::dedicated).
    pub async fn dedicated_on(&self, route: Route) -> Result<Dedicated, Error> {
        let options = CallOptions::by(self.core().config());
        let lease = routing::lease(self.core(), &route, options).await?;
        Ok(Dedicated {
            client: self.clone(),
            lease,
            options,
            is_watching: false,
            is_queueing: false,
            has_own_identity: false,
        })
    }
}

impl Dedicated {
    /// The node, as `host:port`.
    #[must_use]
    pub fn node(&self) -> &str {
        self.lease.node()
    }

    /// Whether it can be used still. Once an exchange has failed, or was dropped, it cannot.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.lease.is_open()
    }

    /// Another deadline for its commands; `None`: none.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.options.timeout = timeout;
    }

    /// Watches keys: the next transaction of this connection runs only if they stay as they are.
    ///
    /// # Errors
    /// As any command.
    ///
    /// # Cancel safety
    /// As [`DedicatedCall`].
    pub fn watch<'d>(&'d mut self, keys: impl Args<'d>) -> DedicatedCall<'d, ()> {
        self.run(Command::new(&spec::WATCH).args(keys))
    }

    /// Watches nothing any more.
    ///
    /// # Errors
    /// As any command.
    ///
    /// # Cancel safety
    /// As [`DedicatedCall`].
    pub fn unwatch(&mut self) -> DedicatedCall<'_, ()> {
        self.run(Command::new(&spec::UNWATCH))
    }

    /// It is closed after its use, not lent again.
    pub(crate) fn spoil(&mut self) {
        self.lease.spoil();
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn options(&self) -> CallOptions {
        self.options
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn is_watching(&self) -> bool {
        self.is_watching
    }

    pub(crate) async fn execute(&mut self, command: Command<'_>) -> Result<Value, Error> {
        self.exchange(command, self.options).await
    }

    async fn exchange(&mut self, command: Command<'_>, options: CallOptions) -> Result<Value, Error> {
        let observed = Observed::begin(self.client.core().config(), || Subject {
            name: command.name().into(),
            slot: command.slot(),
            node: Some(Arc::clone(self.lease.node())),
            batch_size: None,
        });
        let result = self.exchange_unobserved(command, options).await;
        if let Some(observed) = observed {
            observed.end(self.client.core().config(), result.as_ref().err());
        }
        result
    }

    async fn exchange_unobserved(&mut self, command: Command<'_>, options: CallOptions) -> Result<Value, Error> {
        let (name, spec) = (command.name(), command.spec());
        check(&command)?;
        self.note(&command);
        if self.has_own_identity {
            self.lease.hold_renewal(true);
        }
        let options = routing::bounded(self.client.core(), &command, options);
        let mut out = Out::contiguous_only();
        command.encode(&mut out);
        let value = self.exchange_all(&out, 1, options.timeout, name).await?.pop().unwrap_or(Value::Null);
        match value {
            Value::Error(text) => {
                let error = Error::answered(spec, ServerError::parse(&text)).at(Arc::clone(self.lease.node()));
                let hint = hint::of(self.client.core(), self.lease.lane(), &error);
                Err(error.hinted(hint))
            }
            Value::Skipped(limit) => {
                Err(Error::new(skipped(limit), Ran::Executed, name).at(Arc::clone(self.lease.node())))
            }
            value => Ok(value),
        }
    }

    /// Sends what is encoded and reads so many replies.
    pub(crate) async fn exchange_all(
        &mut self,
        out: &Out,
        replies: u32,
        timeout: Option<Duration>,
        name: &'static str,
    ) -> Result<Vec<Value>, Error> {
        let exchanged = self.lease.exchange(out, replies, timeout).await;
        self.lease.hold_renewal(self.is_queueing || self.has_own_identity);
        exchanged
            .map_err(|SubmissionError { kind, ran, .. }| Error::new(kind, ran, name).at(Arc::clone(self.lease.node())))
    }

    /// The transaction is over, and with it what was watched for it.
    pub(crate) fn note_end_of_transaction(&mut self) {
        self.is_watching = false;
        self.is_queueing = false;
    }

    /// What the command leaves behind, be it refused or not.
    fn note(&mut self, command: &Command<'_>) {
        let spec = command.spec();
        match spec.name {
            "WATCH" => self.is_watching = true,
            "UNWATCH" => self.is_watching = false,
            "MULTI" => self.is_queueing = true,
            "EXEC" | "DISCARD" => self.note_end_of_transaction(),
            _ if spec.flags.has(Flags::CONNECTION_STATE) || spec.words == 0 => {
                self.has_own_identity |= matches!(spec.name, "AUTH" | "HELLO" | "RESET");
                if is_undone_by_reset(spec.name) {
                    self.lease.change();
                } else {
                    self.lease.spoil();
                }
            }
            _ => {}
        }
    }
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        if self.is_watching || self.is_queueing {
            self.lease.change();
        }
    }
}

/// Whether `RESET`, or the handshake behind it, undoes what the command does (Redis, "RESET").
fn is_undone_by_reset(name: &str) -> bool {
    matches!(
        name,
        "ASKING"
            | "AUTH"
            | "CLIENT CACHING"
            | "CLIENT SETINFO"
            | "CLIENT SETNAME"
            | "CLIENT TRACKING"
            | "HELLO"
            | "READONLY"
            | "READWRITE"
            | "RESET"
            | "SELECT"
    )
}

/// Commands whose replies do not come one for one.
fn check(command: &Command<'_>) -> Result<(), Error> {
    if let Some(why) = command.refusal() {
        return Err(Error::new(Misuse::Argument(why), Ran::NotSent, command.name()));
    }
    let instead = match command.name() {
        "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" => {
            "messages come unasked; use client.subscribe(), psubscribe() or ssubscribe()"
        }
        "MONITOR" => "use client.monitor()",
        "SYNC" | "PSYNC" | "CLIENT REPLY" => "this client does not support it",
        _ => return Ok(()),
    };
    Err(Error::new(Misuse::Unroutable { command: command.name(), instead }, Ran::NotSent, command.name()))
}

impl<'d> Commands<'d> for &'d mut Dedicated {
    type Out<T: FromReply> = DedicatedCall<'d, T>;

    fn run<T: FromReply>(self, command: Command<'d>) -> DedicatedCall<'d, T> {
        let options = self.options;
        DedicatedCall { stage: Stage::New(self, command.resolved()), options, reply: PhantomData }
    }
}

impl<'d, T: FromReply> DedicatedCall<'d, T> {
    /// The same command with its reply read as another type.
    pub fn read_as<U: FromReply>(self) -> DedicatedCall<'d, U> {
        DedicatedCall { stage: self.stage, options: self.options, reply: PhantomData }
    }

    /// The same command with another deadline, counted from its first poll.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self.options.is_chosen = true;
        self
    }
}

impl<T: FromReply> Future for DedicatedCall<'_, T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.stage, Stage::New(..))
            && let Stage::New(connection, command) = std::mem::replace(&mut this.stage, Stage::Done)
        {
            let (name, options) = (command.name(), this.options);
            this.stage = Stage::Running(name, Box::pin(connection.exchange(command, options)));
        }
        let Stage::Running(name, future) = &mut this.stage else {
            return Poll::Ready(Err(Error::new(ErrorKind::Closed, Ran::Executed, "polled after completion")));
        };
        let Poll::Ready(result) = future.as_mut().poll(cx) else { return Poll::Pending };
        let read =
            result.and_then(|value| T::from_reply(value).map_err(|error| Error::new(error, Ran::Executed, name)));
        this.stage = Stage::Done;
        Poll::Ready(read)
    }
}
