//! Transactions: `MULTI` … `EXEC` in one piece, so that they need no connection of their own.

mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::client::dedicated::Dedicated;
use crate::client::handle::Client;
use crate::client::observed::{Observed, Subject, batch_name, followed};
use crate::client::replies::{PipelineId, Queued, Replies};
use crate::command::{Command, CommandSpec, Flags};
use crate::commands::Commands;
use crate::engine::options::CallOptions;
use crate::engine::request::Payload;
use crate::engine::retry::{self, Line};
use crate::engine::sealed::{self, Sealed};
use crate::error::{Error, Misuse, Ran, ServerError};
use crate::out::Out;
use crate::proto::slot::Slot;
use crate::reply::{FromReply, Value};

/// Commands that run together: all of them or none, with no other command between them.
///
/// In a cluster all keys must be in one slot. A command that fails while it runs (`WRONGTYPE`) does not undo the
/// others: it says so in its own place.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut transaction = client.transaction();
/// let visits = transaction.incr("{user:1}:visits");
/// transaction.sadd("{user:1}:days", "monday");
/// let mut replies = transaction.run().await?;
/// let visits = replies.take(visits)?;
/// # Ok(()) }
/// ```
#[must_use = "a transaction is sent by `run`"]
pub struct Transaction<'a> {
    target: Target<'a>,
    id: PipelineId,
    /// `MULTI` and the commands.
    encoded: Out,
    specs: Vec<&'static CommandSpec>,
    slot: Option<Slot>,
    /// The first mistake.
    problem: Option<Error>,
    options: CallOptions,
}

enum Target<'a> {
    Shared(&'a Client),
    Own(&'a mut Dedicated),
}

impl Client {
    /// A transaction: commands that run together, or not at all. It is sent over a shared connection in one piece.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(Target::Shared(self), CallOptions::by(self.core().config()))
    }
}

impl Dedicated {
    /// A transaction on this connection: the only kind that [`watch`](Self::watch) has an effect on.
    pub fn transaction(&mut self) -> Transaction<'_> {
        Transaction::on(self)
    }
}

impl<'a> Transaction<'a> {
    fn on(connection: &'a mut Dedicated) -> Self {
        let options = connection.options();
        Self::new(Target::Own(connection), options)
    }

    fn new(target: Target<'a>, options: CallOptions) -> Self {
        let mut encoded = Out::contiguous_only();
        encoded.page().extend_from_slice(sealed::MULTI);
        Self { target, id: PipelineId::next(), encoded, specs: Vec::new(), slot: None, problem: None, options }
    }

    /// Another deadline for the whole.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self.options.is_chosen = true;
        self
    }

    /// Allows the whole to be sent again although it may have been executed already. Without effect on a connection of
    /// one's own.
    pub fn retryable(mut self) -> Self {
        self.options.is_retryable = true;
        self
    }

    /// Commands so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether there are none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Queues any command.
    pub fn queue<T: FromReply>(&mut self, command: Command<'_>) -> Queued<T> {
        Commands::run(self, command)
    }

    fn push(&mut self, command: &Command<'_>) {
        if let Err(error) = self.check(command) {
            self.problem.get_or_insert(error);
        }
        command.encode(&mut self.encoded);
        self.specs.push(command.spec());
    }

    fn check(&mut self, command: &Command<'_>) -> Result<(), Error> {
        let (name, spec) = (command.name(), command.spec());
        let misuse = |misuse| Err(Error::new(misuse, Ran::NotSent, name));
        if let Some(why) = command.refusal() {
            return misuse(Misuse::Argument(why));
        }
        if spec.flags.has(Flags::CONNECTION_STATE) {
            return misuse(Misuse::Unroutable { command: name, instead: "it cannot be part of a transaction" });
        }
        if !self.client().core().is_cluster() {
            self.slot = self.slot.or_else(|| command.slot());
            return Ok(());
        }
        for position in command.key_positions() {
            let Some(slot) = command.arguments().get(position).map(Command::slot_of) else { continue };
            let first = *self.slot.get_or_insert(slot);
            if first != slot {
                return misuse(Misuse::CrossSlot { first: first.number(), second: slot.number() });
            }
        }
        Ok(())
    }

    fn client(&self) -> &Client {
        match &self.target {
            Target::Shared(client) => client,
            Target::Own(connection) => connection.client(),
        }
    }

    /// Sends the whole and awaits its replies. Without commands nothing is sent.
    ///
    /// # Errors
    /// Nothing was run: a command cannot be part of a transaction or has a key in another slot
    /// ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)), the server refused one
    /// ([`Aborted::Refused`](crate::Aborted::Refused)), or a key that the connection watches was changed
    /// ([`Aborted::Changed`](crate::Aborted::Changed)). Or the connection was lost: [`Error::ran`] says whether it may
    /// have been run.
    ///
    /// # Cancel safety
    /// Dropping the future before the whole was written means that it is never run; later, that its replies are
    /// discarded.
    pub async fn run(self) -> Result<Replies, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if self.specs.is_empty() {
            return Ok(Replies::new(self.id, Vec::new(), Vec::new()));
        }
        let max_bytes = self.client().core().config().max_queued_bytes;
        let Self { target, id, mut encoded, specs, slot, options, .. } = self;
        encoded.page().extend_from_slice(sealed::EXEC);
        if encoded.len() > max_bytes {
            let misuse = Misuse::TooLarge { limit: "max_queued_bytes", bytes: encoded.len(), max_bytes };
            return Err(Error::new(misuse, Ran::NotSent, "transaction"));
        }
        let client = match &target {
            Target::Shared(client) => *client,
            Target::Own(connection) => &connection.client().clone(),
        };
        let config = client.core().config();
        let observed = Observed::begin(config, || Subject {
            name: batch_name("MULTI", specs.iter().map(|spec| spec.name)),
            slot,
            node: None,
            batch_size: Some(specs.len()),
        });
        let sealed = Sealed::new(encoded, specs, slot);
        let values = match target {
            Target::Shared(client) => {
                followed(observed.as_deref().map(Observed::trail), shared(client, &sealed, options)).await
            }
            Target::Own(connection) => own(connection, &sealed, options).await,
        };
        if let Some(observed) = observed {
            observed.end(config, values.as_ref().err());
        }
        Ok(replies(id, values?, &sealed))
    }
}

/// Each reply in the place of its command. Errors of commands are theirs.
fn replies(id: PipelineId, values: Vec<Value>, sealed: &Sealed) -> Replies {
    let reply = |(value, &spec): (Value, &&'static CommandSpec)| {
        Some(match value {
            Value::Error(text) => Err(Error::answered(spec, ServerError::parse(&text)).with_ran(Ran::Executed)),
            value => Ok(value),
        })
    };
    let replies = values.into_iter().zip(sealed.specs()).map(reply).collect();
    Replies::new(id, replies, sealed.specs().iter().map(|spec| spec.name).collect())
}

async fn shared(client: &Client, sealed: &Sealed, options: CallOptions) -> Result<Vec<Value>, Error> {
    let request = Payload::Transaction(sealed).usual();
    match retry::one(client.core(), &request, options, Line::Shared).await? {
        Value::Array(values) => Ok(values),
        other => Ok(vec![other]),
    }
}

async fn own(connection: &mut Dedicated, sealed: &Sealed, options: CallOptions) -> Result<Vec<Value>, Error> {
    let replies = connection.exchange_all(sealed.out(), sealed.replies(), options.timeout, "EXEC").await?;
    connection.note_end_of_transaction();
    sealed.settle(replies).map_err(|error| error.at(Arc::clone(connection.lease().node())))
}

impl<'a> Commands<'a> for &mut Transaction<'_> {
    type Out<T: FromReply> = Queued<T>;

    fn run<T: FromReply>(self, command: Command<'a>) -> Queued<T> {
        self.push(&command.resolved());
        Queued::new(self.id, self.specs.len() - 1)
    }
}
