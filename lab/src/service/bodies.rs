//! Services for long bodies, and one that is ready late.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Frame;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pilotlight_pipe::{Body, Failure, Incoming, serve};
use rustix::time::{ClockId, clock_gettime};

use super::{Listener, answer, listener};

/// What is answered without an end.
pub(crate) const ENDLESS: &str = "/endless";
const BLOCK_BYTES: usize = 64 * 1024;

/// A body without an end.
struct Endless(Bytes);

impl Endless {
    fn new() -> Self {
        Self(Bytes::from(vec![b'x'; BLOCK_BYTES]))
    }
}

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(self.0.clone()))))
    }
}

/// The answer to a body of so many bytes.
pub(crate) fn counted(bytes: u64) -> String {
    format!("{{\"bytes\":{bytes}}}")
}

/// Over the pipe: counts what comes, or answers without an end.
pub(super) async fn pipe() -> anyhow::Result<()> {
    let handler = |request: Request<Incoming>| async move {
        if request.uri().path() == ENDLESS {
            return Ok::<_, Failure>(Response::new(Body::new(Endless::new())));
        }
        let (mut count, mut body) = (0, request.into_body());
        while let Some(bytes) = body.chunk().await {
            count += bytes?.len() as u64;
        }
        Ok(Response::new(counted(count).into()))
    };
    Ok(serve(handler).await?)
}

/// The same over HTTP, on the socket that is inherited.
pub(super) async fn http() -> anyhow::Result<()> {
    let Listener::Unix(listener) = listener(None)? else { anyhow::bail!("a Unix socket is to be inherited") };
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            // Without `pipeline_flush`, with which hyper would take from a body without end without ever writing. A
            // connection that the other side cuts is no concern of a service.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(handle)).await;
        });
    }
}

async fn handle(
    request: Request<hyper::body::Incoming>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, hyper::Error> {
    if request.uri().path() == ENDLESS {
        return Ok(answer(Endless::new().boxed_unsync()));
    }
    let mut count = 0;
    if request.method() == Method::POST {
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            count += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
    }
    Ok(answer(Full::from(counted(count)).boxed_unsync()))
}

/// Over the pipe, and ready only after so long. It answers with two times of [`monotonic_ns`]: when it was ready to
/// dial, and when its handler got the request.
pub(super) async fn late(after: Duration) -> anyhow::Result<()> {
    std::thread::sleep(after);
    let ready = monotonic_ns();
    let handler = move |_: Request<Incoming>| async move {
        Ok::<_, Failure>(Response::new(Body::from(format!("{ready} {}", monotonic_ns()))))
    };
    Ok(serve(handler).await?)
}

/// The system's monotonic clock, which all processes see alike.
pub(crate) fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
