//! Pipelines: many commands at once, one write and one wait for each lane they need.

mod run;

use std::ops::Range;
use std::time::Duration;

use crate::client::handle::Client;
use crate::client::replies::{PipelineId, Queued};
use crate::command::{Command, CommandSpec};
use crate::commands::Commands;
use crate::engine::options::CallOptions;
use crate::engine::routing;
use crate::out::Out;
use crate::proto::slot::Slot;
use crate::reply::FromReply;

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

enum Item<'a> {
    /// Goes to the lane of its slot.
    Encoded { spec: &'static CommandSpec, slot: Option<Slot>, range: Range<usize> },
    /// Goes its own way: split by slot, sent to several nodes, blocking.
    Whole(Command<'a>),
}

impl<'a> Pipeline<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        let options = CallOptions::by(client.core().config());
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
        let Ok(slot) = routing::short_way(self.client.core(), &command) else {
            self.items.push(Item::Whole(command));
            return;
        };
        let start = self.encoded.len();
        command.encode(&mut self.encoded);
        self.items.push(Item::Encoded { spec: command.spec(), slot, range: start..self.encoded.len() });
    }
}

impl Client {
    /// A pipeline: commands that are sent together.
    pub fn pipeline(&self) -> Pipeline<'_> {
        Pipeline::new(self)
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
