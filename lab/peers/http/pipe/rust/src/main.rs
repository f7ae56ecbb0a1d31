//! The Rust service over the pipe: the same handler as `svchyper`.
//!
//! `POST` bodies are read and counted; `/endless` never stops answering; all else is the same 200 bytes of JSON.
//!
//! `svcpipe late MS` is ready so many milliseconds after its start, and answers with two times of the system's
//! monotonic clock, in nanoseconds: when it was ready to dial, and when its handler got the request.
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body::Frame;
use pilotlight_pipe::{Body, Failure, Incoming, ServeError, serve};
use rustix::time::{ClockId, clock_gettime};
use std::convert::Infallible;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BLOCK_BYTES: usize = 64 * 1024;

/// A body without an end.
struct Endless(Bytes);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(self.0.clone()))))
    }
}

async fn answer(request: Request<Incoming>, json: Bytes) -> Result<Response<Body>, Failure> {
    let body = if request.uri().path() == "/endless" {
        Body::new(Endless(Bytes::from(vec![b'x'; BLOCK_BYTES])))
    } else if request.method() == Method::POST {
        let mut count = 0;
        let mut body = request.into_body();
        while let Some(bytes) = body.chunk().await {
            count += bytes?.len();
        }
        format!("{{\"bytes\":{count}}}").into()
    } else {
        json.into()
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("svcpipe: {error}");
            ExitCode::FAILURE
        }
    }
}

fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => always(),
        ["late", ms] => late(Duration::from_millis(ms.parse()?)),
        _ => Err(format!("usage: svcpipe [late MS], not {arguments:?}").into()),
    }
}

fn late(after: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::sleep(after);
    let ready = monotonic_ns();
    let tell = move |_: Request<Incoming>| async move {
        let times = format!("{ready} {}", monotonic_ns());
        Ok::<_, Failure>(Response::new(Body::from(times)))
    };
    Ok(runtime.block_on(serve(tell))?)
}

fn always() -> Result<(), Box<dyn std::error::Error>> {
    let json = Bytes::from(format!("{{\"id\":42,\"pad\":\"{}\"}}", "x".repeat(182)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served: Result<(), ServeError> = runtime.block_on(serve(move |request| answer(request, json.clone())));
    Ok(served?)
}
