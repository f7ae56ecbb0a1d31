//! For programs that pass commands and replies on, such as a proxy: commands that are encoded already, and replies that
//! nobody reads.
//!
//! A [`RawClient`] has the lanes, the topology, the retries and the deadlines of a [`Client`]; it only leaves the
//! replies as they came. A [`NodeStream`] is one connection after its handshake, and nothing more.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::client::dedicated::Dedicated;
use crate::client::handle::Client;
pub use crate::client::stream::{NodeKind, NodeStream};
use crate::command::{Command, CommandSpec};
use crate::commands::Commands;
use crate::config::{Config, NodeAddress};
use crate::engine::core::Core;
use crate::engine::lane_options::{LaneOptions, Replies};
use crate::engine::options::CallOptions;
use crate::engine::request::{Payload, Request};
use crate::engine::retry::{self, Line};
use crate::engine::route::Route;
use crate::engine::routing;
use crate::error::Error;
pub use crate::net::budget::ReplyBudget;
use crate::out::Out;
use crate::proto::slot::Slot;
use crate::reply::{Value, skipped};

/// A client whose replies are the bytes of their frames, in the protocol that it was configured for:
/// [`ProtocolChoice`](crate::config::ProtocolChoice).
///
/// What makes one reply of several (keys in several slots, commands for all nodes) needs a [`Client`], as do
/// subscriptions.
///
/// ```no_run
/// # use pilotlight_redis::{Command, Config, Error, raw::RawClient};
/// # async fn example() -> Result<(), Error> {
/// let client = RawClient::new(Config::default())?;
/// let frame = client.run(Command::raw("GET").arg("name"), None).await?;
/// assert_eq!(&frame[..], b"$3\r\nAda\r\n");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RawClient {
    client: Client,
}

/// A command that is encoded, and known to go to one lane and back.
#[derive(Debug, Clone, Copy)]
pub struct Encoded<'p> {
    spec: &'static CommandSpec,
    slot: Option<Slot>,
    bytes: &'p [u8],
}

/// A connection of one's own, with replies as they come ([`RawClient::dedicated`]).
///
/// ```no_run
/// use std::time::Duration;
///
/// use pilotlight_redis::raw::{RawClient, RawReply};
/// use pilotlight_redis::{Error, Route, Slot};
///
/// # async fn example(client: RawClient) -> Result<(), Error> {
/// let connection = client.dedicated(Route::Primary(Slot::of(b"jobs"))).await?;
/// println!("connected to {}", connection.node());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RawConnection {
    dedicated: Dedicated,
}

/// One reply on a [`RawConnection`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawReply {
    /// The whole frame.
    Frame(Bytes),
    /// The text of an error.
    Error(Bytes),
}

impl RawClient {
    /// A client that connects when it is first used.
    ///
    /// # Errors
    /// The configuration makes no sense.
    pub fn new(config: Config) -> Result<Self, Error> {
        Self::of(config, None)
    }

    /// The same; its large replies count against `budget`, which others may share.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn within(config: Config, budget: Arc<ReplyBudget>) -> Result<Self, Error> {
        Self::of(config, Some(budget))
    }

    fn of(config: Config, budget: Option<Arc<ReplyBudget>>) -> Result<Self, Error> {
        let lane_options = LaneOptions { replies: Replies::PassThrough(budget), ..LaneOptions::default() };
        // What is passed on keeps its order.
        let config = Config { large_bytes: None, ..config };
        Ok(Self { client: Client::of(Core::new(config, &lane_options)) })
    }

    /// Takes `bytes` as the encoded form of `command`, if that is a command for [`batch`](Self::batch): it does not
    /// block, is not about its connection, and all its keys are in one slot.
    #[must_use]
    #[inline]
    pub fn encoded<'p>(&self, command: &Command<'_>, bytes: &'p [u8]) -> Option<Encoded<'p>> {
        self.encoded_by(command.spec(), bytes, || command)
    }

    /// The same of a command with this description, which is made only if its keys decide where it goes.
    #[must_use]
    #[inline]
    pub fn encoded_by<'p, 'a, C: Borrow<Command<'a>>>(
        &self,
        spec: &'static CommandSpec,
        bytes: &'p [u8],
        command: impl FnOnce() -> C,
    ) -> Option<Encoded<'p>> {
        let slot = routing::short_way_by(self.client.core(), spec, command).ok()?;
        Some(Encoded { spec, slot, bytes })
    }

    /// Sends all commands and awaits all replies, in the order of the commands; each fails alone. As a
    /// [`Pipeline`](crate::Pipeline), it is no transaction.
    ///
    /// # Cancel safety
    /// Dropping the future before the commands were written means that they are never sent; later, that their replies
    /// are discarded.
    pub async fn batch(&self, commands: &[Encoded<'_>]) -> Vec<Result<Bytes, Error>> {
        let requests: Vec<Request<'_, '_>> = commands.iter().map(Encoded::request).collect();
        let core = self.client.core();
        let replies = retry::run(core, &requests, CallOptions::by(core.config()), Line::Shared).await;
        replies.into_iter().map(|reply| reply.map(frame)).collect()
    }

    /// Runs one command, which may block. It goes to one node: that of its key, or of `route`.
    ///
    /// # Errors
    /// As any command.
    ///
    /// # Cancel safety
    /// As [`Call`](crate::Call): a blocked command stops waiting.
    pub async fn run<'a>(&'a self, command: Command<'a>, route: Option<Route>) -> Result<Bytes, Error> {
        let call = self.client.run::<Value>(command);
        match route {
            Some(route) => call.on(route).await,
            None => call.await,
        }
        .map(frame)
    }

    /// A connection of one's own to the node of `route`.
    ///
    /// # Errors
    /// As [`Client::dedicated_on`].
    ///
    /// # Cancel safety
    /// As [`Client::dedicated_on`].
    pub async fn dedicated(&self, route: Route) -> Result<RawConnection, Error> {
        Ok(RawConnection { dedicated: self.client.dedicated_on(route).await? })
    }

    /// The primaries, in the order of their first slots; none while the topology is not known.
    #[must_use]
    pub fn primaries(&self) -> Vec<NodeAddress> {
        self.client.core().primaries().iter().map(|(lane, _)| lane.address()).collect()
    }

    /// Asks for the topology of the cluster anew, in the background.
    pub fn refresh(&self) {
        self.client.core().want_refresh(crate::proto::retry::Refresh::Soon);
    }

    /// As [`Client::close`].
    ///
    /// # Cancel safety
    /// As [`Client::close`].
    pub async fn close(&self, patience: Duration) {
        self.client.close(patience).await;
    }
}

impl<'p> Encoded<'p> {
    fn request<'a>(&self) -> Request<'p, 'a> {
        Payload::Encoded { spec: self.spec, slot: self.slot, bytes: self.bytes }.usual()
    }
}

impl RawConnection {
    /// Sends commands that are encoded and reads so many replies. Errors of the server are replies.
    ///
    /// # Errors
    /// The connection was lost, or its deadline passed.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn exchange(
        &mut self,
        commands: &[u8],
        replies: u32,
        timeout: Option<Duration>,
    ) -> Result<Vec<RawReply>, Error> {
        let mut out = Out::contiguous_only();
        out.page().extend_from_slice(commands);
        let values = self.dedicated.exchange_all(&out, replies, timeout, "exchange").await?;
        let reply = |value| match value {
            Value::Error(text) => RawReply::Error(text),
            Value::Skipped(limit) => RawReply::Error(format!("ERR {}", skipped(limit)).into()),
            other => RawReply::Frame(frame(other)),
        };
        Ok(values.into_iter().map(reply).collect())
    }

    /// Its node, as `host:port`.
    #[must_use]
    pub fn node(&self) -> &str {
        self.dedicated.node()
    }

    /// Whether it can be used still.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.dedicated.is_open()
    }

    /// Something is switched on that the next user would notice: it is closed after its use.
    pub fn spoil(&mut self) {
        self.dedicated.spoil();
    }
}

/// A pass-through lane gives nothing but bulk strings and errors, and the errors have gone another way.
fn frame(value: Value) -> Bytes {
    match value {
        Value::Bulk(frame) => frame,
        _ => Bytes::new(),
    }
}

/// The slot of each key of a command, in their order.
///
/// ```
/// use pilotlight_redis::{Command, Slot, raw};
///
/// let command = Command::raw("MSET").args(["a", "1", "b", "2"]);
/// assert_eq!(raw::slots(&command), [Slot::of(b"a"), Slot::of(b"b")]);
/// ```
#[must_use]
pub fn slots(command: &Command<'_>) -> Vec<Slot> {
    let arguments = command.arguments();
    command.key_positions().filter_map(|at| arguments.get(at)).map(|key| Slot::of(&key.to_bytes())).collect()
}
