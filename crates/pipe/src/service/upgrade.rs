//! Connections that leave the protocol: what a handler does with one (spec §12).

use super::stage::Stage;
use std::fmt;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// A connection that is the other protocol's: bytes to and from the client, as they are (P-41).
///
/// Shutting it down ends this direction, and the client may go on with the other. Dropping it ends both.
///
/// ```
/// # mod gateway { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/gateway.rs")); }
/// use pilotlight_pipe::Upgraded;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// /// Sends back what comes, until the client ends or the service is to end.
/// async fn echo(mut connection: Upgraded) -> std::io::Result<()> {
///     let mut draining = std::pin::pin!(connection.draining());
///     let mut buffer = [0; 4096];
///     loop {
///         let read = tokio::select! {
///             read = connection.read(&mut buffer) => read?,
///             () = &mut draining => 0,
///         };
///         if read == 0 {
///             return connection.shutdown().await;
///         }
///         connection.write_all(&buffer[..read]).await?;
///     }
/// }
/// # async fn switch(_request: http::Request<pilotlight_pipe::Incoming>) -> http::Response<pilotlight_pipe::Body> {
/// #     let body = pilotlight_pipe::Body::upgrade(|connection| async { echo(connection).await.unwrap() });
/// #     http::Response::builder().status(101).header("upgrade", "echo").body(body).unwrap()
/// # }
/// # use pilotlight_pipe::frame::{FrameType, flags};
/// # let gateway = gateway::Gateway::start(switch);
/// # let mut shared = gateway.shared();
/// # let mut own = gateway.own(&mut shared);
/// # own.send(|out| gateway::request(out, 1, flags::END | flags::UPGRADE, "/", b""));
/// # own.expect(FrameType::RESPONSE, flags::UPGRADE, 1);
/// # own.send(|out| out.extend_from_slice(b"ping"));
/// # let mut echoed = [0; 4];
/// # std::io::Read::read_exact(&mut own.stream, &mut echoed).unwrap();
/// # assert_eq!(&echoed, b"ping");
/// # own.stream.shutdown(std::net::Shutdown::Write).unwrap();
/// # own.expect_end();
/// ```
#[derive(Debug)]
pub struct Upgraded {
    stream: UnixStream,
    stage: watch::Receiver<Stage>,
}

impl Upgraded {
    pub(super) fn new(stream: UnixStream, stage: watch::Receiver<Stage>) -> Self {
        Self { stream, stage }
    }

    /// Waits until the instance is to end: the connection should be ended then by the means of its protocol, and is cut
    /// when the gateway's patience is over (P-43).
    pub fn draining(&self) -> impl Future<Output = ()> + 'static {
        let mut stage = self.stage.clone();
        async move {
            // Without its sender the instance is gone, which is a drain as well.
            let _ended = stage.wait_for(|stage| *stage != Stage::Serving).await.is_ok();
        }
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// What a handler does with the connection when it has switched.
pub(super) struct OnUpgrade(Box<dyn FnOnce(Upgraded) -> Conversation>);

/// What goes on behind the switch.
type Conversation = Pin<Box<dyn Future<Output = ()>>>;

impl OnUpgrade {
    pub(super) fn new<H, F>(handler: H) -> Self
    where
        H: FnOnce(Upgraded) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        Self(Box::new(|upgraded| Box::pin(handler(upgraded))))
    }

    /// Runs it to its end. A panic ends the connection alone.
    pub(super) async fn run(self, upgraded: Upgraded) {
        let mut running = match catch_unwind(AssertUnwindSafe(|| (self.0)(upgraded))) {
            Ok(running) => running,
            Err(_panicked) => return, // its hook has told the log
        };
        let caught = std::future::poll_fn(|cx| {
            // Not polled again after a panic, so what it left half done is not seen.
            catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))).unwrap_or(Poll::Ready(()))
        });
        caught.await;
    }
}

impl fmt::Debug for OnUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnUpgrade")
    }
}
