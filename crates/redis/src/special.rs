//! Commands that do not simply go to the lane of their key: for all nodes, split by slot, blocking, or not for a shared
//! connection at all.
//!
//! What a command's description leaves open is decided here:
//!
//! | command | without a [`Route`] |
//! |---|---|
//! | `SCAN` in a cluster | refused: a cursor means nothing to another node; [`Client::scan`] |
//! | `PING`, `INFO`, `MEMORY …`, `LATENCY …`, `FUNCTION STATS` | any primary: replies of several nodes have no common meaning; [`Client::on_all`] |
//! | `RANDOMKEY` | one primary after the other, until one has a key |
//! | `WAIT`, `WAITAOF` | refused: they count the writes of their own connection; [`Client::dedicated`] |

mod blocking;
mod misuse;

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::batch;
use crate::call::CallOptions;
use crate::client::Client;
use crate::command::{Command, Flags, RequestPolicy, ResponsePolicy, UNKNOWN};
use crate::config::NodeAddress;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Misuse, PartialFailure, Ran};
use crate::follow::{self, Line};
use crate::net::lane::SubmissionError;
use crate::pool::Lease;
use crate::proto::aggregate::{AggregateError, Cause, aggregate};
use crate::proto::retry::Refresh;
use crate::proto::slot::Slot;
use crate::proto::split::{self, Split};
use crate::reply::Value;
use crate::request::{Payload, Request};
use crate::route::{NodeReply, Route, Way};

/// How long to wait for the topology of a cluster before looking again.
pub(crate) const TOPOLOGY_PAUSE: Duration = Duration::from_millis(50);

/// A command that does not simply go to the lane of its key and back.
pub(crate) struct LongWay;

/// The slot of a command that takes the short way, to the lane of its key and back; none where a slot leads nowhere
/// else than none. It is computed here, and only here.
#[inline]
pub(crate) fn short_way(core: &Core, command: &Command<'_>) -> Result<Option<Slot>, LongWay> {
    let spec = command.spec();
    if spec.flags.has_any(Flags::BLOCKING.and(Flags::CONNECTION_STATE).and(Flags::WHILE_BUSY)) {
        return Err(LongWay);
    }
    if !core.is_cluster() {
        return Ok(if core.config().lanes > 1 { command.slot() } else { None });
    }
    if spec.keys.is_empty() {
        return if spec.request == RequestPolicy::Default { Ok(None) } else { Err(LongWay) };
    }
    command.only_slot().map_err(|_| LongWay)
}

/// Runs such a command, or any on the way that its caller chose.
pub(crate) async fn run(
    client: &Client,
    command: &Command<'_>,
    route: Option<&Route>,
    options: CallOptions,
) -> Result<Value, Error> {
    let core = client.core();
    misuse::check(command)?;
    if let Some(route) = route {
        return routed(core, command, route, options).await;
    }
    if !core.is_cluster() {
        return one(core, command, Way::Usual, options).await;
    }
    match split::route(command).map_err(|misuse| Error::new(misuse, Ran::NotSent, command.name()))? {
        split::Route::Slot(_) => one(core, command, Way::Usual, options).await,
        split::Route::Split(split) => parts(core, command, split, options).await,
        split::Route::Keyless => keyless(core, command, options).await,
    }
}

/// Whether a command may be sent where it is not its caller's own connection.
pub(crate) fn check(command: &Command<'_>) -> Result<(), Error> {
    misuse::check(command)
}

/// See [`Client::on_all`].
pub(crate) async fn on_all(
    client: &Client,
    route: &Route,
    command: &Command<'_>,
    options: CallOptions,
) -> Result<Vec<NodeReply>, Error> {
    let core = client.core();
    misuse::check(command)?;
    if blocking::wait_of(command).is_some() {
        let instead = "it may wait, so send it to one node: call.on(Route::Node(…))";
        return Err(Error::new(Misuse::Unroutable { command: command.name(), instead }, Ran::NotSent, command.name()));
    }
    let since = Instant::now();
    let targets = match route {
        Route::AllPrimaries => targets(core, command, Everywhere::Primaries, options).await?,
        Route::AllNodes => targets(core, command, Everywhere::Nodes, options).await?,
        one => {
            let lane = core.lane_by(&way(core, command, one)?, command.spec(), None)?;
            vec![(lane.address(), Way::Node(lane))]
        }
    };
    // Each node's own answer is asked for, also where another has taken its place meanwhile.
    let lane = |(node, way): (NodeAddress, Way)| Ok((node, Way::Node(core.lane_by(&way, command.spec(), None)?)));
    let targets = targets.into_iter().map(lane).collect::<Result<Vec<_>, Error>>()?;
    let replies = everywhere(core, command, &targets, left(options, since)).await;
    Ok(targets.into_iter().zip(replies).map(|((node, _), reply)| NodeReply { node, reply }).collect())
}

/// A connection of its own to the node of `route`.
pub(crate) async fn lease(client: &Client, route: &Route, options: CallOptions) -> Result<Lease, Error> {
    const NAME: &str = "dedicated";
    let core = client.core();
    if matches!(route, Route::AllPrimaries | Route::AllNodes) {
        let instead = "name one node";
        return Err(Error::new(Misuse::Unroutable { command: NAME, instead }, Ran::NotSent, NAME));
    }
    let nothing = Command::new(&UNKNOWN);
    let way = way(core, &nothing, route)?;
    let since = Instant::now();
    loop {
        let topology_version = core.topology_version();
        let remaining = || options.timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
        let error = match core.lane_by(&way, &UNKNOWN, None) {
            Ok(lane) => match core.pool().lease(&lane, remaining()).await {
                Ok(lease) => return Ok(lease),
                Err(SubmissionError { kind, ran, .. }) => Error::new(kind, ran, NAME).at(lane.node()),
            },
            Err(error) => error,
        };
        // A node that cannot be reached may be replaced by another, and one without a topology gets one.
        let is_hopeless = !matches!(error.kind(), ErrorKind::Cluster(_) | ErrorKind::Connect(_));
        if is_hopeless || remaining() == Some(Duration::ZERO) {
            return Err(error);
        }
        core.want_refresh(Refresh::Urgent);
        core.pause_or_new_topology(TOPOLOGY_PAUSE, Refresh::Urgent, topology_version).await;
    }
}

/// The deadline of a command on a connection of its own.
pub(crate) fn bounded(core: &Core, command: &Command<'_>, options: CallOptions) -> CallOptions {
    match blocking::wait_of(command) {
        Some(wait) => wait.bound(options, options.timeout.or(core.config().command_timeout)),
        None => options,
    }
}

/// The deadline of a whole of which this command is a part: what blocks prolongs it by its own time-out, unless the
/// caller chose it.
pub(crate) fn extended(command: &Command<'_>, options: CallOptions) -> CallOptions {
    match blocking::wait_of(command) {
        Some(wait) => wait.bound(options, options.timeout),
        None => options,
    }
}

/// What is left of a deadline that began `since`.
fn left(options: CallOptions, since: Instant) -> CallOptions {
    CallOptions { timeout: options.timeout.map(|timeout| timeout.saturating_sub(since.elapsed())), ..options }
}

/// A command for one node.
async fn one(core: &Core, command: &Command<'_>, way: Way, options: CallOptions) -> Result<Value, Error> {
    let request = Request { payload: Payload::Command(command), way };
    match blocking::wait_of(command) {
        Some(wait) => {
            let options = wait.bound(options, core.config().command_timeout);
            follow::begin(core, &request, options, Instant::now(), Line::Own).await
        }
        None if command.spec().flags.has(Flags::WHILE_BUSY) => {
            follow::begin(core, &request, options, Instant::now(), Line::Bare).await
        }
        None => follow::begin(core, &request, options, Instant::now(), Line::Shared).await,
    }
}

async fn routed(core: &Core, command: &Command<'_>, route: &Route, options: CallOptions) -> Result<Value, Error> {
    let everywhere = match route {
        Route::AllPrimaries => Everywhere::Primaries,
        Route::AllNodes => Everywhere::Nodes,
        _ => return one(core, command, way(core, command, route)?, options).await,
    };
    if blocking::wait_of(command).is_some() {
        let instead = "it may wait, so send it to one node";
        return Err(Error::new(Misuse::Unroutable { command: command.name(), instead }, Ran::NotSent, command.name()));
    }
    fan_out(core, command, everywhere, options).await
}

pub(crate) fn way(core: &Core, command: &Command<'_>, route: &Route) -> Result<Way, Error> {
    Ok(match route {
        Route::Primary(slot) => Way::Primary(Some(*slot)),
        Route::Node(address) => Way::Node(core.lane_to(address, command.spec())?),
        Route::Replica(slot) => {
            // Where the topology is known and has no replica, waiting brings none.
            if !core.primaries().is_empty() {
                core.lane_by(&Way::Replica(*slot), command.spec(), None)?;
            }
            Way::Replica(*slot)
        }
        Route::Any | Route::AllPrimaries | Route::AllNodes => Way::Primary(None),
    })
}

/// A command without keys, in a cluster.
async fn keyless(core: &Core, command: &Command<'_>, options: CallOptions) -> Result<Value, Error> {
    let spec = command.spec();
    let everywhere = match (spec.request, spec.response) {
        (RequestPolicy::Special, _) => {
            let instead = "its cursor means nothing to another node; use client.scan(), or call.on(Route::Node(…))";
            return Err(Error::new(Misuse::Unroutable { command: spec.name, instead }, Ran::NotSent, spec.name));
        }
        (RequestPolicy::AllShards, ResponsePolicy::Special) if spec.name == "RANDOMKEY" => {
            return random_key(core, command, options).await;
        }
        (RequestPolicy::Default | RequestPolicy::MultiShard, _) | (_, ResponsePolicy::Special) => {
            return one(core, command, Way::Usual, options).await;
        }
        _ if spec.name == "PING" => return one(core, command, Way::Usual, options).await,
        (RequestPolicy::AllShards, _) => Everywhere::Primaries,
        (RequestPolicy::AllNodes, _) => Everywhere::Nodes,
    };
    fan_out(core, command, everywhere, options).await
}

/// Any key of any node that has one. Which node is asked first is left to chance; how many keys it has does not matter.
async fn random_key(core: &Core, command: &Command<'_>, options: CallOptions) -> Result<Value, Error> {
    let since = Instant::now();
    let mut targets = targets(core, command, Everywhere::Primaries, options).await?;
    fastrand::shuffle(&mut targets);
    let mut reply = Value::Null;
    for (_, way) in targets {
        reply = one(core, command, way, left(options, since)).await?;
        if reply != Value::Null {
            break;
        }
    }
    Ok(reply)
}

/// A command whose keys are in several slots: one command for each slot, all at once.
async fn parts(core: &Core, command: &Command<'_>, split: Split<'_>, options: CallOptions) -> Result<Value, Error> {
    let requests: Vec<_> = split.parts.iter().map(|part| Payload::Command(&part.command).usual()).collect();
    let replies = batch::run(core, &requests, options).await;
    join(split, replies, command.name())
}

/// The parts of a command whose keys are in several slots, if it can be split.
pub(crate) fn split<'a>(core: &Core, command: &Command<'a>) -> Option<Split<'a>> {
    if !core.is_cluster() || misuse::check(command).is_err() {
        return None;
    }
    match split::route(command) {
        Ok(split::Route::Split(split)) => Some(split),
        _ => None,
    }
}

/// The reply of a command from those of its parts.
pub(crate) fn join(split: Split<'_>, parts: Vec<Result<Value, Error>>, name: &'static str) -> Result<Value, Error> {
    split.join.join(parts).map_err(|partial| {
        let failure = PartialFailure::new(&partial, name);
        let ran = failure.ran();
        Error::new(ErrorKind::Partial(Arc::new(failure)), ran, name)
    })
}

#[derive(Debug, Clone, Copy)]
enum Everywhere {
    Primaries,
    Nodes,
}

async fn fan_out(core: &Core, command: &Command<'_>, to: Everywhere, options: CallOptions) -> Result<Value, Error> {
    let since = Instant::now();
    let targets = targets(core, command, to, options).await?;
    let replies = everywhere(core, command, &targets, left(options, since)).await;
    let policy = match command.spec().response {
        ResponsePolicy::Special => ResponsePolicy::Default,
        policy => policy,
    };
    aggregate(policy, replies).map_err(|error| {
        let at = |reply: usize, error: Error| match targets.get(reply) {
            Some((node, _)) if error.node().is_none() => error.at(node.to_string().into()),
            _ => error,
        };
        match error {
            AggregateError::Part { reply, cause } => at(reply, cause_of(cause, command)),
            AggregateError::NoReplies | AggregateError::NoRule => {
                let kind = ErrorKind::Cluster(error.to_string().into());
                Error::new(kind, Ran::NotSent, command.name())
            }
        }
    })
}

fn cause_of(cause: Cause<Error>, command: &Command<'_>) -> Error {
    match cause {
        Cause::Failed(error) => error,
        Cause::Server(server) => Error::answered(command.spec(), server).with_ran(Ran::Executed),
        Cause::Shape { expected, found } => {
            Error::new(crate::error::ReplyError { expected, found, server: None }, Ran::Executed, command.name())
        }
        Cause::Overflow => {
            let shape = crate::error::ReplyError { expected: "a sum of 64 bits", found: "more", server: None };
            Error::new(shape, Ran::Executed, command.name())
        }
    }
}

async fn everywhere(
    core: &Core,
    command: &Command<'_>,
    targets: &[(NodeAddress, Way)],
    options: CallOptions,
) -> Vec<Result<Value, Error>> {
    if command.spec().flags.has(Flags::WHILE_BUSY) {
        return all(targets.iter().map(|(_, way)| one(core, command, way.clone(), options)).collect()).await;
    }
    let request = |(_, way): &(NodeAddress, Way)| Request { payload: Payload::Command(command), way: way.clone() };
    batch::run(core, &targets.iter().map(request).collect::<Vec<_>>(), options).await
}

/// Awaits all of them at once.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.into_iter().map(|future| (Some(Box::pin(future)), None)).collect();
    poll_fn(|cx| {
        for (future, output) in &mut waiting {
            if let Some(Poll::Ready(ready)) = future.as_mut().map(|future| future.as_mut().poll(cx)) {
                (*future, *output) = (None, Some(ready));
            }
        }
        if waiting.iter().any(|(future, _)| future.is_some()) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    waiting.into_iter().filter_map(|(_, output)| output).collect()
}

/// Who is to be asked; waits for the topology if it is not known yet. A primary is asked for by one of its slots, so
/// that a replica that is promoted meanwhile takes its place.
async fn targets(
    core: &Core,
    command: &Command<'_>,
    to: Everywhere,
    options: CallOptions,
) -> Result<Vec<(NodeAddress, Way)>, Error> {
    let since = Instant::now();
    loop {
        let topology_version = core.topology_version();
        let primary = |slot: Option<Slot>| Way::Primary(slot);
        let found: Vec<_> = match to {
            Everywhere::Primaries => {
                let primaries = core.primaries().into_iter();
                primaries.map(|(lane, slot)| (lane.address(), primary(slot))).collect()
            }
            Everywhere::Nodes => core.all_nodes().into_iter().map(|lane| (lane.address(), Way::Node(lane))).collect(),
        };
        if !found.is_empty() {
            return Ok(found);
        }
        // The router says why there is no topology, and whether there will be none.
        let why = core.lane_of(command.spec(), None).err();
        let is_hopeless = why.as_ref().is_some_and(|why| !matches!(why.kind(), ErrorKind::Cluster(_)));
        if is_hopeless || options.timeout.is_some_and(|timeout| since.elapsed() >= timeout) {
            let no_node = || Error::new(ErrorKind::Cluster("no node is known".into()), Ran::NotSent, command.name());
            return Err(why.unwrap_or_else(no_node));
        }
        core.pause_or_new_topology(TOPOLOGY_PAUSE, Refresh::Urgent, topology_version).await;
    }
}
