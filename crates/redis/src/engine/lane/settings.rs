//! How a lane behaves, who makes its connections, and who is told what happens to it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pilotlight_resp::Value;
use tokio::sync::watch;

use crate::address::NodeAddress;
use crate::credentials::Credentials;
use crate::error::Reason;
use crate::net::connection::Connection;
use crate::net::wire::Wire;
use crate::proto::backoff::Backoff;
use crate::proto::handshake::ServerInfo;
use crate::proto::topology::Role;

/// Makes a lane's connections: dial and handshake, within the connect timeout.
pub(crate) trait Dial: Send + Sync + 'static {
    /// A new connection.
    fn dial(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>>;
    /// A new connection in database 0: a server that is busy with a script refuses to `SELECT` another.
    fn dial_bare(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>>;
    /// Makes a connection as good as new that [`dial`](Self::dial) made, and says who its server takes the client for.
    fn reset<'d>(
        &'d self,
        wire: &'d mut Wire,
        address: &'d NodeAddress,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Credentials>, DialError>> + Send + 'd>>;
    /// What the node at `address` says on a connection of its own.
    fn probe<'d>(&'d self, address: &'d NodeAddress) -> Pin<Box<dyn Future<Output = Sign> + Send + 'd>>;
    /// Credentials as they change, if they do: each is sent on the live connection.
    fn changes(&self) -> Option<watch::Receiver<Option<Credentials>>> {
        None
    }
}

/// Why there is no connection.
#[derive(Debug, Clone)]
pub(crate) struct DialError {
    pub(crate) text: Reason,
    /// Trying again will not help (wrong password): whoever waits is told at once.
    pub(crate) is_final: bool,
}

/// Who is told what happens to a lane.
pub(crate) trait Watch: Send + Sync + 'static {
    /// An attempt to connect begins.
    fn dialling(&self) {}
    /// A connection was made, to the server at this address, which says this of itself.
    fn up(&self, _address: &NodeAddress, _server: &ServerInfo) {}
    /// The connection was lost, or could not be made.
    fn down(&self, _reason: &str) {}
    /// A command's reply is overdue, and nothing was read for as long.
    fn stalled(&self) {}
    /// The server pushed something. All replies that it sent before have been given to their callers, and none of those
    /// that it sent after.
    fn pushed(&self, _push: Vec<Value>) {}
    /// There is no connection any more, for whatever reason: nothing of it will be pushed, and nobody has been told yet
    /// that his command failed.
    fn disconnected(&self) {}
}

impl Watch for () {}

/// What happens to commands while there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenDown {
    /// They wait, up to their deadlines.
    Queue,
    /// They fail at once, certainly not sent.
    Fail,
}

/// What happens when the byte budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// A command is refused; its caller may wait for room.
    Refuse,
    /// The commands that wait longest to be written give way.
    Shed,
}

/// How a lane behaves.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What the node is taken for.
    pub(crate) role: Role,
    pub(crate) max_queued_bytes: usize,
    /// So many may wait for the byte budget.
    pub(crate) max_waiting: usize,
    pub(crate) when_full: WhenFull,
    pub(crate) when_down: WhenDown,
    pub(crate) backoff: Backoff,
    /// An idle lane is pinged this often; `None`: never.
    pub(crate) idle_ping: Option<Duration>,
    /// A connection that is silent for this long while a reply is due makes the node suspect; `None`: never.
    pub(crate) stall: Option<Duration>,
    /// A busy lane is pinged this often, to measure how long the node takes to answer; `None`: only an idle one is.
    pub(crate) busy_ping: Option<Duration>,
    /// Waves are put off for so long.
    pub(crate) flush_delay: Option<Duration>,
    /// Commands from so many bytes on go another way, if there is one.
    pub(crate) large_bytes: usize,
}

/// What a node says on a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It answers.
    Alive,
    /// It answers that a script or function runs.
    Busy,
    /// It does not answer.
    None,
}
