//! Pipelines: many commands at once, one write and one wait for each lane they need.

mod run;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::call::CallOptions;
use crate::client::Client;
use crate::command::{Command, CommandSpec};
use crate::commands::Commands;
use crate::error::{Error, Misuse, Ran};
use crate::metrics::{Observed, batch_name};
use crate::net::out::Out;
use crate::proto::slot::Slot;
use crate::reply::{FromReply, Value};
use crate::special;

/// Commands that are sent together. Their replies come back in the order they were queued; each may fail alone.
///
/// Commands of one lane are written and answered in order, with nothing of this pipeline between them; other callers'
/// commands may be between them, as a pipeline is no transaction. In a cluster the pipeline is split by node: the
/// commands of one key keep their order, also those with keys in several slots. A command for several nodes, or one
/// that blocks, runs after all that were queued before it, and before all that were queued after it.
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
    id: PipelineId,
    encoded: Out,
    items: Vec<Item<'a>>,
    options: CallOptions,
}

/// Tells pipelines and transactions of this process apart, so that no handle is taken for another one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PipelineId(u64);

/// The place of one reply of type `T` in a pipeline's [`Replies`].
#[derive(Debug)]
pub struct Queued<T> {
    of: PipelineId,
    index: usize,
    reply: PhantomData<fn() -> T>,
}

/// The replies of a pipeline.
#[derive(Debug)]
pub struct Replies {
    of: PipelineId,
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
        Self { client, id: PipelineId::next(), encoded: Out::contiguous_only(), items: Vec::new(), options }
    }

    /// Another deadline for the whole. The default is [`command_timeout`](crate::Config::command_timeout), and beside
    /// it the time-outs of commands that block.
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
        let Ok(slot) = special::short_way(self.client.core(), &command) else {
            self.items.push(Item::Whole(command));
            return;
        };
        let start = self.encoded.len();
        command.encode(&mut self.encoded);
        self.items.push(Item::Encoded { spec: command.spec(), slot, range: start..self.encoded.len() });
    }

    /// Sends all commands and awaits all replies. A command that failed says so in its own place.
    ///
    /// # Errors
    /// The pipeline cannot be run at all: it is larger than a lane's byte budget.
    ///
    /// # Cancel safety
    /// Dropping the future before the commands were written means that they are never sent; later, that their replies
    /// are discarded.
    pub async fn run(self) -> Result<Replies, Error> {
        let max_bytes = self.client.core().config().max_queued_bytes;
        if self.encoded.len() > max_bytes {
            let misuse = Misuse::TooLarge { limit: "max_queued_bytes", bytes: self.encoded.len(), max_bytes };
            return Err(Error::new(misuse, Ran::NotSent, "pipeline"));
        }
        let config = self.client.core().config();
        let observed = Observed::begin(config);
        let values = run::all(self.client, &self).await;
        if let Some(observed) = observed {
            let name = batch_name("PIPELINE", self.items.iter().map(Item::name));
            let error = values.iter().flatten().find_map(|value| value.as_ref().err());
            observed.end_batch(config, name, Some(values.len()), error);
        }
        Ok(Replies::new(self.id, values, self.items.iter().map(Item::name).collect()))
    }
}

impl PipelineId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
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
        Queued::new(self.id, self.items.len() - 1)
    }
}

impl<T> Queued<T> {
    pub(crate) fn new(of: PipelineId, index: usize) -> Self {
        Self { of, index, reply: PhantomData }
    }

    /// The same reply, read as another type.
    #[must_use]
    pub fn read_as<U: FromReply>(self) -> Queued<U> {
        Queued::new(self.of, self.index)
    }
}

impl Replies {
    pub(crate) fn new(of: PipelineId, values: Vec<Option<Result<Value, Error>>>, names: Vec<&'static str>) -> Self {
        Self { of, values, names }
    }

    /// The reply of one command.
    ///
    /// # Errors
    /// The command failed, or its reply has another type. The handle is of another pipeline or transaction: a mistake
    /// of the caller, and nothing is taken.
    #[expect(clippy::needless_pass_by_value, reason = "a handle is good for one reply")]
    pub fn take<T: FromReply>(&mut self, queued: Queued<T>) -> Result<T, Error> {
        let name = self.names.get(queued.index).copied().unwrap_or("unknown");
        let foreign = || {
            let misuse = Misuse::Arguments("this handle is of another pipeline or transaction".into());
            Error::new(misuse, Ran::NotSent, "take")
        };
        let own = Some(&mut self.values).filter(|_| queued.of == self.of);
        let value = own.and_then(|values| values.get_mut(queued.index)?.take()).ok_or_else(foreign)??;
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
