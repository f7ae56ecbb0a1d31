//! The Rust service under measurement: the same 200 bytes of JSON for every request, over the pipe with the SDK or over HTTP/1.1
//! with hyper. It is this binary itself, so that an installed one has a Rust service to measure.

use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pilotlight_pipe::{Body, Incoming, serve};
use tokio::net::UnixListener;

/// The hidden argument with which the binary becomes the Rust service; `pipe` or `http` follows.
pub const SERVICE: &str = "lab-service";

/// What every service of the lab answers.
#[must_use]
pub fn answer_body() -> String {
    format!("{{\"id\":42,\"pad\":\"{}\"}}", "x".repeat(182))
}

/// What the binary does when [`SERVICE`] is its first argument; the others are given here.
#[must_use]
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let transport = arguments.next().unwrap_or_default();
    let served = match transport.to_str() {
        Some("pipe") => run(pipe()),
        Some("http") => run(http(arguments.next())),
        _ => Err(anyhow::anyhow!("is started by `pilotlight lab` only")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{SERVICE}: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(service: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, service)
}

async fn pipe() -> anyhow::Result<()> {
    let json = Bytes::from(answer_body());
    let handler = move |_: Request<Incoming>| {
        let answer = answer(Body::from(json.clone()));
        async move { answer }
    };
    Ok(serve(handler).await?)
}

/// Listens on the socket that it inherits, or on `path`.
async fn http(path: Option<OsString>) -> anyhow::Result<()> {
    let inherited = match path {
        Some(path) => Some(std::os::unix::net::UnixListener::bind(path).context("cannot listen")?),
        None => listenfd::ListenFd::from_env().take_unix_listener(0)?,
    };
    let Some(listener) = inherited else { bail!("no socket was inherited (LISTEN_FDS) and no path given") };
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let json = Bytes::from(answer_body());
    loop {
        let (socket, _) = listener.accept().await?;
        let json = json.clone();
        tokio::task::spawn_local(async move {
            let handler = service_fn(move |_| {
                let answer = answer(Full::new(json.clone()));
                async move { Ok::<_, Infallible>(answer) }
            });
            // A connection that the gateway cuts is no concern of a service.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), handler).await;
        });
    }
}

fn answer<B>(body: B) -> Response<B> {
    let mut answer = Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_answer_has_200_bytes() {
        assert_eq!(super::answer_body().len(), 200);
    }
}
