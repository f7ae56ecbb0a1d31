//! Connections that the user makes.

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::NodeAddress;
use crate::credentials::BoxFuture;

/// Makes connections in the client's stead: through a proxy, over another transport, or in memory for tests.
///
/// ```no_run
/// use std::io;
///
/// use pilotlight_redis::config::{BoxFuture, ByteStream, Connector, NodeAddress};
/// use tokio::net::TcpStream;
///
/// /// Through a port that somebody else forwards.
/// struct Forwarded;
///
/// impl Connector for Forwarded {
///     fn connect<'a>(&'a self, _: &'a NodeAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
///         Box::pin(async { Ok(Box::new(TcpStream::connect("localhost:16379").await?) as Box<dyn ByteStream>) })
///     }
/// }
/// ```
pub trait Connector: Send + Sync {
    /// Connects to the node; `address` is the one to dial, after the address map. The client speaks TLS over the stream
    /// if it is configured to. It runs within the connect time-out and may be cancelled at any await point.
    fn connect<'a>(&'a self, address: &'a NodeAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>>;
}

/// A stream of bytes, both ways. Every type with the bounds is one.
///
/// ```no_run
/// use pilotlight_redis::config::ByteStream;
/// use tokio::net::UnixStream;
///
/// async fn through(path: &str) -> std::io::Result<Box<dyn ByteStream>> {
///     Ok(Box::new(UnixStream::connect(path).await?))
/// }
/// ```
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

impl fmt::Debug for dyn Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}
