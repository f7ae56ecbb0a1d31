//! Commands that do not simply go to the lane of their key: for all nodes, split by slot, blocking, or not for a shared
//! connection at all.
//!
//! What a command's description leaves open is decided here:
//!
//! | command | without a [`Route`] |
//! |---|---|
//! | `SCAN` in a cluster | refused: a cursor means nothing to another node; `Client::scan` |
//! | `PING`, `INFO`, `MEMORY …`, `LATENCY …`, `FUNCTION STATS` | any primary: replies of several nodes have no common meaning; `Client::on_all` |
//! | `RANDOMKEY` | one primary after the other, until one has a key |
//! | `WAIT`, `WAITAOF` | refused: they count the writes of their own connection; `Client::dedicated` |

mod blocking;
mod misuse;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::command::{Command, CommandSpec, Flags, RequestPolicy, ResponsePolicy, UNKNOWN};
use crate::commands::spec;
use crate::config::NodeAddress;
use crate::engine::core::Core;
use crate::engine::options::CallOptions;
use crate::engine::pool::Lease;
use crate::engine::request::{Payload, Request};
use crate::engine::retry::{self, Line};
use crate::engine::route::{NodeReply, Route, Target};
use crate::engine::submission::SubmissionError;
use crate::error::{Error, ErrorKind, Misuse, PartialFailure, Ran, ReplyError};
use crate::proto::aggregate::{AggregateError, Cause, aggregate};
use crate::proto::retry::Refresh;
use crate::proto::slot::Slot;
use crate::proto::split::{self, Split};
use crate::proto::topology::Role;
use crate::reply::Value;

/// How long to wait for the topology of a cluster before looking again.
pub(crate) const TOPOLOGY_PAUSE: Duration = Duration::from_millis(50);

/// How long a script is tried to be loaded at a replica.
const REPLICA_PATIENCE: Duration = Duration::from_secs(1);

/// A command that does not simply go to the lane of its key and back.
pub(crate) struct LongWay;

/// The slot of a command that takes the short way, to the lane of its key and back; none where a slot leads nowhere
/// else than none. It is computed here, and only here.
#[inline]
pub(crate) fn short_way(core: &Core, command: &Command<'_>) -> Result<Option<Slot>, LongWay> {
    short_way_by(core, command.spec(), || command)
}

/// The same of a command that is looked at only if its keys decide.
#[inline]
pub(crate) fn short_way_by<'a, C: Borrow<Command<'a>>>(
    core: &Core,
    spec: &CommandSpec,
    command: impl FnOnce() -> C,
) -> Result<Option<Slot>, LongWay> {
    if spec.flags.has_any(Flags::BLOCKING.and(Flags::CONNECTION_STATE).and(Flags::WHILE_BUSY)) {
        return Err(LongWay);
    }
    if !core.is_cluster() {
        return Ok(if core.config().lanes > 1 { command().borrow().slot() } else { None });
    }
    if spec.keys.is_empty() {
        return if spec.request == RequestPolicy::Default { Ok(None) } else { Err(LongWay) };
    }
    command().borrow().only_slot().map_err(|_| LongWay)
}

/// Runs such a command, or any on the way that its caller chose.
pub(crate) async fn run(
    core: &Core,
    command: &Command<'_>,
    route: Option<&Route>,
    options: CallOptions,
) -> Result<Value, Error> {
    misuse::check(command)?;
    if let Some(route) = route {
        return routed(core, command, route, options).await;
    }
    if !core.is_cluster() {
        return one(core, command, Target::Usual, options).await;
    }
    match split::route(command).map_err(|misuse| Error::new(misuse, Ran::NotSent, command.name()))? {
        split::Route::Slot(slot) => one_request(core, command, &Payload::Command(command).in_slot(slot), options).await,
        split::Route::Split(split) => parts(core, command, split, options).await,
        split::Route::Keyless => keyless(core, command, options).await,
    }
}

/// Whether a command may be sent where it is not its caller's own connection.
pub(crate) fn check(command: &Command<'_>) -> Result<(), Error> {
    misuse::check(command)
}

/// See `Client::on_all`.
pub(crate) async fn on_all(
    core: &Core,
    route: &Route,
    command: &Command<'_>,
    options: CallOptions,
) -> Result<Vec<NodeReply>, Error> {
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
            let lane = core.lane_by(&target(core, command, one)?, command.spec(), None)?;
            vec![(lane.address(), Target::Node(lane))]
        }
    };
    // Each node's own answer is asked for, also where another has taken its place meanwhile.
    let lane =
        |(node, target): (NodeAddress, Target)| Ok((node, Target::Node(core.lane_by(&target, command.spec(), None)?)));
    let targets = targets.into_iter().map(lane).collect::<Result<Vec<_>, Error>>()?;
    let replies = everywhere(core, command, &targets, left(options, since)).await;
    Ok(targets.into_iter().zip(replies).map(|((node, _), reply)| NodeReply { node, reply }).collect())
}

/// A connection of its own to the node of `route`.
pub(crate) async fn lease(core: &Core, route: &Route, options: CallOptions) -> Result<Lease, Error> {
    const NAME: &str = "dedicated";
    if matches!(route, Route::AllPrimaries | Route::AllNodes) {
        let instead = "name one node";
        return Err(Error::new(Misuse::Unroutable { command: NAME, instead }, Ran::NotSent, NAME));
    }
    let nothing = Command::new(&UNKNOWN);
    let target = target(core, &nothing, route)?;
    let since = Instant::now();
    let mut problem = None;
    loop {
        let topology_version = core.topology_version();
        let remaining = || options.timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
        let error = match core.lane_by(&target, &UNKNOWN, None) {
            Ok(lane) => match core.pool().lease(&lane, remaining()).await {
                Ok(lease) => return Ok(lease),
                Err(SubmissionError { kind, ran, .. }) => Error::new(kind, ran, NAME).at(lane.node()),
            },
            Err(error) => error,
        };
        // A node that cannot be reached may be replaced by another, and one without a topology gets one.
        let is_hopeless = !matches!(error.kind(), ErrorKind::Cluster(_) | ErrorKind::Connect(_));
        if is_hopeless || remaining() == Some(Duration::ZERO) {
            return Err(error.of_whole(options.timeout, since.elapsed(), problem.as_ref()));
        }
        problem = error.as_problem().or(problem);
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
async fn one(core: &Core, command: &Command<'_>, target: Target, options: CallOptions) -> Result<Value, Error> {
    one_request(core, command, &Request::new(Payload::Command(command), target), options).await
}

async fn one_request(
    core: &Core,
    command: &Command<'_>,
    request: &Request<'_, '_>,
    options: CallOptions,
) -> Result<Value, Error> {
    let (options, line) = match blocking::wait_of(command) {
        Some(wait) => (wait.bound(options, core.config().command_timeout), Line::Own),
        None => (options, shared_line(command)),
    };
    retry::one(core, request, options, line).await
}

/// On which connections a command travels that does not wait in the server.
fn shared_line(command: &Command<'_>) -> Line {
    if command.spec().flags.has(Flags::WHILE_BUSY) { Line::Bare } else { Line::Shared }
}

async fn routed(core: &Core, command: &Command<'_>, route: &Route, options: CallOptions) -> Result<Value, Error> {
    let everywhere = match route {
        Route::AllPrimaries => Everywhere::Primaries,
        Route::AllNodes => Everywhere::Nodes,
        _ => return one(core, command, target(core, command, route)?, options).await,
    };
    if blocking::wait_of(command).is_some() {
        let instead = "it may wait, so send it to one node";
        return Err(Error::new(Misuse::Unroutable { command: command.name(), instead }, Ran::NotSent, command.name()));
    }
    fan_out(core, command, everywhere, options).await
}

pub(crate) fn target(core: &Core, command: &Command<'_>, route: &Route) -> Result<Target, Error> {
    Ok(match route {
        Route::Primary(slot) => Target::Primary(Some(*slot)),
        Route::Node(address) => Target::Node(core.lane_to(address, command.spec())?),
        Route::Replica(slot) => {
            // Where the topology is known and has no replica, waiting brings none.
            if !core.primaries().is_empty() {
                core.lane_by(&Target::Replica(*slot), command.spec(), None)?;
            }
            Target::Replica(*slot)
        }
        Route::Any | Route::AllPrimaries | Route::AllNodes => Target::Primary(None),
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
            return one(core, command, Target::Usual, options).await;
        }
        _ if spec.name == "PING" => return one(core, command, Target::Usual, options).await,
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
    for (_, target) in targets {
        reply = one(core, command, target, left(options, since)).await?;
        if reply != Value::Null {
            break;
        }
    }
    Ok(reply)
}

/// A command whose keys are in several slots: one command for each slot, all at once.
async fn parts(core: &Core, command: &Command<'_>, split: Split<'_>, options: CallOptions) -> Result<Value, Error> {
    let requests: Vec<_> = split.parts.iter().map(|part| Payload::Command(&part.command).in_slot(part.slot)).collect();
    let replies = retry::run(core, &requests, options, Line::Shared).await;
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
        let keys = (0..partial.len()).filter_map(|key| partial.key(key));
        let failure =
            PartialFailure::new(keys.map(|reply| reply.cloned().map_err(|cause| of_part(cause, name))).collect());
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
    let mut targets = targets(core, command, to, options).await?;
    let replies = if std::ptr::eq(command.spec(), &spec::SCRIPT_LOAD) {
        load_script(core, command, &mut targets, left(options, since)).await
    } else {
        everywhere(core, command, &targets, left(options, since)).await
    };
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

/// Loads a script at all primaries, and at those replicas that are there: a replica without it says so
/// (`NOSCRIPT`), and loses it whenever it starts again. The targets are those that have answered.
async fn load_script(
    core: &Core,
    command: &Command<'_>,
    targets: &mut Vec<(NodeAddress, Target)>,
    options: CallOptions,
) -> Vec<Result<Value, Error>> {
    let is_replica =
        |(_, target): &(NodeAddress, Target)| matches!(target, Target::Node(lane) if lane.role() == Role::Replica);
    let (replicas, primaries) = std::mem::take(targets).into_iter().partition::<Vec<_>, _>(is_replica);
    let patience = options.timeout.map_or(REPLICA_PATIENCE, |timeout| timeout.min(REPLICA_PATIENCE));
    let (mut replies, copies) = tokio::join!(
        everywhere(core, command, &primaries, options),
        everywhere(core, command, &replicas, CallOptions { timeout: Some(patience), ..options }),
    );
    *targets = primaries;
    for (target, copy) in replicas.into_iter().zip(copies).filter(|(_, copy)| copy.is_ok()) {
        targets.push(target);
        replies.push(copy);
    }
    replies
}

/// The error of one key, of a command that was split.
fn of_part(cause: &Cause<Error>, command: &'static str) -> Error {
    match cause {
        Cause::Failed(error) => error.clone(),
        Cause::Server(server) => Error::new(server.clone(), Ran::Executed, command),
        Cause::Shape { expected, found } => {
            Error::new(ReplyError { expected, found, server: None, detail: None }, Ran::Executed, command)
        }
        Cause::Overflow => Error::new(OVERFLOW, Ran::Executed, command),
    }
}

const OVERFLOW: ReplyError = ReplyError { expected: "a sum of 64 bits", found: "more", server: None, detail: None };

fn cause_of(cause: Cause<Error>, command: &Command<'_>) -> Error {
    match cause {
        Cause::Failed(error) => error,
        Cause::Server(server) => Error::answered(command.spec(), server).with_ran(Ran::Executed),
        Cause::Shape { expected, found } => {
            Error::new(ReplyError { expected, found, server: None, detail: None }, Ran::Executed, command.name())
        }
        Cause::Overflow => Error::new(OVERFLOW, Ran::Executed, command.name()),
    }
}

async fn everywhere(
    core: &Core,
    command: &Command<'_>,
    targets: &[(NodeAddress, Target)],
    options: CallOptions,
) -> Vec<Result<Value, Error>> {
    let request = |(_, target): &(NodeAddress, Target)| Request::new(Payload::Command(command), target.clone());
    retry::run(core, &targets.iter().map(request).collect::<Vec<_>>(), options, shared_line(command)).await
}

/// Who is to be asked; waits for the topology if it is not known yet. A primary is asked for by one of its slots, so
/// that a replica that is promoted meanwhile takes its place.
async fn targets(
    core: &Core,
    command: &Command<'_>,
    to: Everywhere,
    options: CallOptions,
) -> Result<Vec<(NodeAddress, Target)>, Error> {
    let since = Instant::now();
    loop {
        let topology_version = core.topology_version();
        let primary = |slot: Option<Slot>| Target::Primary(slot);
        let found: Vec<_> = match to {
            Everywhere::Primaries => {
                let primaries = core.primaries().into_iter();
                primaries.map(|(lane, slot)| (lane.address(), primary(slot))).collect()
            }
            Everywhere::Nodes => {
                core.all_nodes().into_iter().map(|lane| (lane.address(), Target::Node(lane))).collect()
            }
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
