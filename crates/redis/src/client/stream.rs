//! A connection as a stream of bytes, for those who speak the protocol themselves: prompts, tunnels.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::handle::Client;
use crate::command::{Command, UNKNOWN};
use crate::config::{Config, NodeAddress, ProtocolChoice, Topology};
use crate::engine::options::CallOptions;
use crate::engine::route::Route;
use crate::engine::routing;
use crate::error::{Error, ErrorKind, Misuse, Ran};
use crate::net::ConnectError;
use crate::net::connect::{Purpose, connect_with};
use crate::net::connection::Connection;
use crate::net::transport::Transport;
use crate::proto::retry::Refresh;

const NAME: &str = "connect";

/// One connection to one node after its handshake, as a stream of bytes: encrypted if the configuration says so, logged
/// in, with its database. The next reply is the one to the next command. It is the caller's alone: no client counts it,
/// or knows what is sent on it.
///
/// [`NodeStream::open`] needs no client; [`Client::stream`] finds the node by a client's topology.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error, Route};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let mut stream = client.stream(Route::Any).await?;
/// let mut reply = [0; 7];
/// if stream.write_all(b"*1\r\n$4\r\nPING\r\n").await.is_ok() && stream.read_exact(&mut reply).await.is_ok() {
///     assert_eq!(&reply, b"+PONG\r\n");
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct NodeStream {
    node: NodeAddress,
    transport: Transport,
    /// Read during the handshake.
    rest: BytesMut,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Of the data.
    Server,
    /// A Sentinel: its own credentials and TLS.
    Sentinel,
}

impl NodeStream {
    /// Connects to one node, whichever role it has. It speaks RESP2 until somebody says `HELLO`.
    ///
    /// # Errors
    /// As any connection.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn open(config: &Config, node: &NodeAddress, kind: NodeKind) -> Result<Self, ConnectError> {
        let config = Config {
            protocol: ProtocolChoice::Resp2,
            client_name: None,
            topology: match (kind, &config.topology) {
                (NodeKind::Sentinel, topology) => topology.clone(),
                (NodeKind::Server, _) => Topology::Standalone,
            },
            ..config.clone()
        };
        let (purpose, database) = match kind {
            NodeKind::Server => (Purpose::Management, config.database),
            NodeKind::Sentinel => (Purpose::Sentinel, 0),
        };
        let select = Command::new(&crate::commands::spec::SELECT).arg(database);
        let extra = if database > 0 { &[select][..] } else { &[] };
        let connection = connect_with(&config, node, purpose, extra).await?;
        Ok(Self::of(connection))
    }

    fn of(connection: Connection) -> Self {
        let Connection { address, transport, read_buffer, .. } = connection;
        Self { node: address, transport, rest: read_buffer }
    }

    /// The node, as it is announced.
    #[must_use]
    pub fn node(&self) -> &NodeAddress {
        &self.node
    }
}

impl Client {
    /// A connection to the node of `route`, in the protocol of the configuration, by one attempt to connect; where
    /// there is a cluster, its topology is waited for within the command timeout.
    ///
    /// # Errors
    /// No connection can be made, no topology is known, or `route` is more than one node.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn stream(&self, route: Route) -> Result<NodeStream, Error> {
        let (core, since) = (self.core(), Instant::now());
        if matches!(route, Route::AllPrimaries | Route::AllNodes) {
            return Err(Error::new(Misuse::Unroutable { command: NAME, instead: "name one node" }, Ran::NotSent, NAME));
        }
        let timeout = CallOptions::by(self.core().config()).timeout;
        let target = routing::target(core, &Command::new(&UNKNOWN), &route)?;
        let lane = loop {
            let topology_version = core.topology_version();
            match core.lane_by(&target, &UNKNOWN, None) {
                Ok(lane) => break lane,
                Err(error) if matches!(error.kind(), ErrorKind::Rejected(_) | ErrorKind::Connect(_)) => {
                    return Err(error);
                }
                Err(error) if timeout.is_some_and(|timeout| since.elapsed() >= timeout) => return Err(error),
                Err(_) => core.pause_or_new_topology(routing::TOPOLOGY_PAUSE, Refresh::Urgent, topology_version).await,
            }
        };
        let connection = lane.dial_another().await.map_err(|error| {
            let kind = if error.is_final { ErrorKind::Rejected(error.text) } else { ErrorKind::Connect(error.text) };
            Error::new(kind, Ran::NotSent, NAME)
        })?;
        Ok(NodeStream::of(connection))
    }
}

impl AsyncRead for NodeStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            return Pin::new(&mut this.transport).poll_read(cx, buf);
        }
        let taken = this.rest.len().min(buf.remaining());
        buf.put_slice(&this.rest[..taken]);
        this.rest.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(cx)
    }
}
