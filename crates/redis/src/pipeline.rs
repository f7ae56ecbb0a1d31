//! Pipelines: many commands at once, one write and one wait for each lane they need.

use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;

use crate::batch;
use crate::call::CallOptions;
use crate::client::Client;
use crate::command::{Command, CommandSpec};
use crate::commands::Commands;
use crate::error::{Error, ErrorKind, Misuse, Ran};
use crate::follow;
use crate::metrics::{Observed, batch_name};
use crate::net::out::Out;
use crate::parcel::{Errand, Parcel};
use crate::proto::slot::Slot;
use crate::reply::{FromReply, Value};
use crate::special;

/// Commands that are sent together. Their replies come back in the order they were queued; each may fail alone.
///
/// Commands of one lane are written and answered in order, with nothing of this pipeline between them; other callers' commands may be between them, as a
/// pipeline is no transaction. In a cluster the pipeline is split by node.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut pipeline = client.pipeline();
/// let name = pipeline.get("user:1:name");
/// let visits = pipeline.incr("user:1:visits");
/// let mut replies = pipeline.run().await?;
/// let (name, visits) = (replies.take(name)?, replies.take(visits)?);
/// # Ok(()) }
/// ```
#[must_use = "a pipeline is sent by `run`"]
pub struct Pipeline<'a> {
    client: &'a Client,
    encoded: Out,
    items: Vec<Item<'a>>,
    options: CallOptions,
}

/// The place of one reply of type `T` in a pipeline's [`Replies`].
#[derive(Debug)]
pub struct Queued<T> {
    index: usize,
    reply: PhantomData<fn() -> T>,
}

/// The replies of a pipeline.
#[derive(Debug)]
pub struct Replies {
    values: Vec<Option<Result<Value, Error>>>,
    names: Vec<&'static str>,
}

enum Item<'a> {
    /// Goes to the lane of its slot.
    Encoded { spec: &'static CommandSpec, slot: Option<Slot>, range: Range<usize> },
    /// Goes its own way: split by slot, sent to several nodes, blocking.
    Whole(Command<'a>),
}

impl<'a> Pipeline<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        let options = CallOptions::of(client);
        Self { client, encoded: Out::contiguous_only(), items: Vec::new(), options }
    }

    /// Another deadline for the whole.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self.options.is_chosen = true;
        self
    }

    /// Allows all commands to be sent again although they may have been executed already.
    pub fn retryable(mut self) -> Self {
        self.options.is_retryable = true;
        self
    }

    /// Commands so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Queues any command.
    pub fn queue<T: FromReply>(&mut self, command: Command<'a>) -> Queued<T> {
        Commands::run(self, command)
    }

    fn push(&mut self, command: Command<'a>) {
        if !follow::is_ordinary(self.client.core(), &command) {
            self.items.push(Item::Whole(command));
            return;
        }
        let start = self.encoded.len();
        command.encode(&mut self.encoded);
        let (spec, slot) = (command.spec(), command.slot());
        self.items.push(Item::Encoded { spec, slot, range: start..self.encoded.len() });
    }

    /// Sends all commands and awaits all replies. A command that failed says so in its own place.
    ///
    /// # Errors
    /// The pipeline cannot be run at all: it is larger than a lane's byte budget.
    ///
    /// # Cancel safety
    /// Dropping the future before the commands were written means that they are never sent; later, that their replies are discarded.
    pub async fn run(self) -> Result<Replies, Error> {
        let max_bytes = self.client.core().config().max_queued_bytes;
        if self.encoded.len() > max_bytes {
            let misuse = Misuse::TooLarge { limit: "max_queued_bytes", bytes: self.encoded.len(), max_bytes };
            return Err(Error::new(misuse, Ran::NotSent, "pipeline"));
        }
        let config = self.client.core().config();
        let observed = Observed::begin(config);
        let mut encoded = batch::run(self.client.core(), &self.errands(), self.options).await.into_iter();
        let mut values = Vec::with_capacity(self.items.len());
        for item in &self.items {
            values.push(match item {
                Item::Encoded { .. } => encoded.next(),
                Item::Whole(command) => Some(special::run(self.client, command, None, self.options).await),
            });
        }
        if let Some(observed) = observed {
            let name = batch_name("PIPELINE", self.items.iter().map(Item::name));
            let error = values.iter().flatten().find_map(|value| value.as_ref().err());
            observed.end_batch(config, name, Some(values.len()), error);
        }
        Ok(Replies::new(values, self.items.iter().map(Item::name).collect()))
    }

    fn errands(&self) -> Vec<Errand<'_, 'a>> {
        let bytes = self.encoded.contiguous(Default::default()).unwrap_or_default();
        let encoded = self.items.iter().filter_map(|item| match item {
            Item::Encoded { spec, slot, range } => {
                Some(Parcel::Encoded { spec, slot: *slot, bytes: &bytes[range.clone()] }.usual())
            }
            Item::Whole(_) => None,
        });
        encoded.collect()
    }
}

impl Item<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Encoded { spec, .. } => spec.name,
            Self::Whole(command) => command.name(),
        }
    }
}

impl<'a> Commands<'a> for &mut Pipeline<'a> {
    type Out<T: FromReply> = Queued<T>;

    fn run<T: FromReply>(self, command: Command<'a>) -> Queued<T> {
        self.push(command.resolved());
        Queued::new(self.items.len() - 1)
    }
}

impl<T> Queued<T> {
    pub(crate) fn new(index: usize) -> Self {
        Self { index, reply: PhantomData }
    }

    /// The same reply, read as another type.
    #[must_use]
    pub fn of<U: FromReply>(self) -> Queued<U> {
        Queued::new(self.index)
    }
}

impl Replies {
    pub(crate) fn new(values: Vec<Option<Result<Value, Error>>>, names: Vec<&'static str>) -> Self {
        Self { values, names }
    }

    /// The reply of one command.
    ///
    /// # Errors
    /// The command failed, or its reply has another type.
    #[expect(clippy::needless_pass_by_value, reason = "a handle is good for one reply")]
    pub fn take<T: FromReply>(&mut self, queued: Queued<T>) -> Result<T, Error> {
        let name = self.names.get(queued.index).copied().unwrap_or("unknown");
        let value = self.values.get_mut(queued.index).and_then(Option::take);
        let value = value.unwrap_or_else(|| {
            Err(Error::new(
                ErrorKind::Misuse(Misuse::Arguments("this handle is of another pipeline".into())),
                Ran::Executed,
                name,
            ))
        })?;
        T::from_reply(value).map_err(|error| Error::new(error, Ran::Executed, name))
    }

    /// All replies that were not taken, in the order of their commands.
    pub fn into_values(self) -> impl Iterator<Item = Result<Value, Error>> {
        self.values.into_iter().flatten()
    }

    /// Number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
