//! TCP, Unix sockets and memory as one kind of stream.

use socket2::SockRef;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;

pub(super) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
    Memory(mpsc::UnboundedReceiver<DuplexStream>),
}

impl Acceptor {
    pub(super) async fn accept(&mut self) -> io::Result<Box<dyn Transport>> {
        match self {
            Self::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                // Chunks leave one by one.
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Memory(dialed) => {
                let stream = dialed.recv().await.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
                Ok(Box::new(stream))
            }
        }
    }
}

pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {
    /// Makes the coming drop an RST, where there is such a thing.
    fn reset_on_drop(&self) {}

    /// How long the peer needs to read a chunk before the next one comes.
    fn chunk_gap(&self) -> Duration {
        // The shortest that tokio's timer knows.
        Duration::from_millis(1)
    }
}

impl Transport for TcpStream {
    fn reset_on_drop(&self) {
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl Transport for UnixStream {}

impl Transport for DuplexStream {
    fn chunk_gap(&self) -> Duration {
        Duration::ZERO
    }
}
