//! How a pipeline runs: in its order, within its one deadline.
//!
//! Commands of one slot, and the parts of commands that are split by slot, go together in one batch: each lane gets its
//! share in the order of the pipeline, so the commands of a key keep theirs. A command for several nodes, or one that
//! blocks, waits for all before it, and all behind it wait for it.

use std::time::{Duration, Instant};

use super::{Item, Pipeline};
use crate::client::observed::{Observed, Subject, batch_name, followed};
use crate::client::replies::Replies;
use crate::engine::core::Core;
use crate::engine::options::CallOptions;
use crate::engine::request::{Payload, Request};
use crate::engine::retry::{self, Line};
use crate::engine::routing;
use crate::error::{Error, Ran, TimeoutReport, TimeoutStage};
use crate::proto::split::Split;
use crate::reply::Value;

type Reply = Result<Value, Error>;

impl Pipeline<'_> {
    /// Sends all commands and awaits all replies. A command that failed says so in its own place. A pipeline of more
    /// than [`max_queued_bytes`](crate::Config::max_queued_bytes) is sent in parts of that size, each when the one
    /// before was answered.
    ///
    /// # Errors
    /// None: each command has its own.
    ///
    /// # Cancel safety
    /// Dropping the future before the commands were written means that they are never sent; later, that their replies
    /// are discarded.
    pub async fn run(self) -> Result<Replies, Error> {
        let config = self.client.core().config();
        let observed = Observed::begin(config, || Subject {
            name: batch_name("PIPELINE", self.items.iter().map(Item::name)),
            slot: None,
            node: None,
            batch_size: Some(self.items.len()),
        });
        let values = followed(observed.as_deref().map(Observed::trail), all(self.client.core(), &self)).await;
        if let Some(observed) = observed {
            let error = values.iter().flatten().find_map(|value| value.as_ref().err());
            observed.end(config, error);
        }
        Ok(Replies::new(self.id, values, self.items.iter().map(Item::name).collect()))
    }
}

/// Runs all commands of a pipeline: a reply for each, in their order.
async fn all(core: &Core, pipeline: &Pipeline<'_>) -> Vec<Option<Reply>> {
    let clock = Clock::new(pipeline);
    let bytes = pipeline.encoded.contiguous(Default::default()).unwrap_or_default();
    let mut replies = Vec::with_capacity(pipeline.items.len());
    let mut rest = &pipeline.items[..];
    while !rest.is_empty() {
        let batch = Batch::first_of(core, rest);
        let (run, options) = (batch.length.max(1), clock.options());
        match (&rest[0], options) {
            (_, Err(_)) => replies.extend(rest[..run].iter().map(|item| Some(Err(clock.timeout(item.name()))))),
            (Item::Whole(command), Ok(options)) if batch.length == 0 => {
                replies.push(Some(routing::run(core, command, None, options).await));
            }
            (_, Ok(options)) => {
                let requests = batch.requests(&rest[..run], bytes);
                let done = retry::run(core, &requests, options, Line::Shared).await;
                batch.settle(&rest[..run], done, &mut replies);
            }
        }
        rest = &rest[run..];
    }
    replies
}

/// Items that can go together, from the first on.
struct Batch<'a> {
    /// None: the first item has to go alone.
    length: usize,
    /// Those that are split, by their places.
    splits: Vec<(usize, Split<'a>)>,
}

impl<'a> Batch<'a> {
    fn first_of(core: &Core, items: &[Item<'a>]) -> Self {
        let mut splits = Vec::new();
        let mut bytes_left = core.config().max_queued_bytes;
        let length = items.iter().enumerate().take_while(|(index, item)| match item {
            Item::Encoded { range, .. } => {
                // A larger command goes alone.
                let fits = range.len() <= bytes_left || *index == 0;
                bytes_left = bytes_left.saturating_sub(range.len());
                fits
            }
            Item::Whole(command) => match routing::split(core, command) {
                Some(split) => {
                    splits.push((*index, split));
                    true
                }
                None => false,
            },
        });
        let length = length.count();
        Self { length, splits }
    }

    fn requests<'p>(&'p self, items: &'p [Item<'a>], bytes: &'p [u8]) -> Vec<Request<'p, 'a>> {
        let mut splits = self.splits.iter();
        let mut requests = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::Encoded { spec, slot, range } => {
                    requests.push(Payload::Encoded { spec, slot: *slot, bytes: &bytes[range.clone()] }.usual());
                }
                Item::Whole(_) => {
                    let parts = splits.next().into_iter().flat_map(|(_, split)| &split.parts);
                    requests.extend(parts.map(|part| Payload::Command(&part.command).in_slot(part.slot)));
                }
            }
        }
        requests
    }

    /// The reply of each item from those of its requests.
    fn settle(self, items: &[Item<'a>], done: Vec<Reply>, replies: &mut Vec<Option<Reply>>) {
        let mut done = done.into_iter();
        let mut next = 0;
        for (index, split) in self.splits {
            replies.extend(done.by_ref().take(index - next).map(Some));
            let parts = done.by_ref().take(split.parts.len()).collect();
            replies.push(Some(routing::join(split, parts, items[index].name())));
            next = index + 1;
        }
        replies.extend(done.map(Some));
    }
}

/// The deadline of the whole.
struct Clock {
    since: Instant,
    options: CallOptions,
}

/// There is no time left.
struct Late;

impl Clock {
    /// What blocks has its own time-out beside that of the whole, unless the caller has chosen one for all.
    fn new(pipeline: &Pipeline<'_>) -> Self {
        let mut options = pipeline.options;
        let whole = pipeline.items.iter().filter_map(|item| match item {
            Item::Whole(command) => Some(command),
            Item::Encoded { .. } => None,
        });
        for command in whole {
            options = routing::extended(command, options);
        }
        Self { since: Instant::now(), options: CallOptions { is_chosen: true, ..options } }
    }

    /// For what runs now.
    fn options(&self) -> Result<CallOptions, Late> {
        let Some(timeout) = self.options.timeout else { return Ok(self.options) };
        let elapsed = self.since.elapsed();
        match timeout.checked_sub(elapsed) {
            Some(left) => Ok(CallOptions { timeout: Some(left), ..self.options }),
            None => Err(Late),
        }
    }

    fn timeout(&self, name: &'static str) -> Error {
        let report = TimeoutReport {
            timeout: self.options.timeout.unwrap_or_default(),
            age: self.since.elapsed(),
            stage: TimeoutStage::Queued,
            problem: None,
            queued: 0,
            in_flight: 0,
            in_flight_bytes: 0,
            queued_bytes: 0,
            unparsed_bytes: 0,
            last_read: None,
            runtime_lag: Duration::ZERO,
        };
        Error::new(crate::error::ErrorKind::Timeout(Box::new(report)), Ran::NotSent, name)
    }
}
