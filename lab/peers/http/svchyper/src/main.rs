//! The Rust service over HTTP: hyper on a Unix socket, every request answered with the same 200 bytes of JSON.
//!
//! `svchyper` takes the listening socket that it was started with (`LISTEN_FDS`, fd 3); `svchyper PATH` binds PATH.
//! `POST` bodies are read and counted; `/endless` never stops answering.
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::{UnixListener, UnixStream};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BLOCK_BYTES: usize = 64 * 1024;

/// A body without an end.
struct Endless(Bytes);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(self.0.clone()))))
    }
}

async fn answer(
    request: Request<Incoming>,
    json: Bytes,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, hyper::Error> {
    let body = if request.uri().path() == "/endless" {
        Endless(Bytes::from(vec![b'x'; BLOCK_BYTES])).boxed_unsync()
    } else if request.method() == Method::POST {
        let mut count = 0;
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            count += frame?.data_ref().map_or(0, Bytes::len);
        }
        Full::from(format!("{{\"bytes\":{count}}}")).boxed_unsync()
    } else {
        Full::new(json).boxed_unsync()
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn connection(socket: UnixStream, json: Bytes) {
    let service = service_fn(move |request| answer(request, json.clone()));
    // pipeline_flush stays off: with it hyper 1.12 takes from a body that is always ready without end (`can_buffer` in
    // its io.rs). A connection that the gateway cut is not this program's concern.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}

fn listener() -> io::Result<std::os::unix::net::UnixListener> {
    if let Some(path) = std::env::args_os().nth(1) {
        return std::os::unix::net::UnixListener::bind(path);
    }
    listenfd::ListenFd::from_env().take_unix_listener(0)?.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "usage: svchyper PATH, or LISTEN_FDS=1 and the socket as fd 3")
    })
}

fn main() -> io::Result<()> {
    let listener = listener()?;
    listener.set_nonblocking(true)?;
    let json = Bytes::from(format!("{{\"id\":42,\"pad\":\"{}\"}}", "x".repeat(182)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async move {
        let listener = UnixListener::from_std(listener)?;
        loop {
            let (socket, _) = listener.accept().await?;
            tokio::task::spawn_local(connection(socket, json.clone()));
        }
    })
}
