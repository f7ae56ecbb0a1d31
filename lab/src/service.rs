//! The Rust service under measurement: the same 200 bytes of JSON for every request, over the pipe with the SDK or over
//! HTTP/1.1 with hyper, from a constant or from Redis; or the floors, [`bare`]; the [`relay`]; and echoes of
//! [`websocket`]. It is `pilotlight-lab` itself, so that an installed one has a Rust service to measure.

mod bare;
pub(crate) mod bodies;
mod relay;
pub(crate) mod websocket;

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pilotlight_pipe::{Body, Incoming, serve};
use pilotlight_redis::{Client, Commands as _, Config};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use crate::equals;

/// The hidden argument with which the binary becomes the Rust service; what it speaks follows.
pub const SERVICE: &str = "lab-service";
/// What follows for a bare relay; the address that it relays to is next.
pub const RELAY: &str = "relay";
/// What follows for the floor of `pilotlight lab front`; what it serves, and where, is next.
pub const FRONT: &str = "bare-front";
/// The key that has [`answer_body`] in Redis, for the service that asks there.
pub const REDIS_KEY: &str = "lab:answer";

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
        Some("http-tcp") => run(http_over_tcp(arguments.next())),
        Some("pipe-redis") => run(pipe_redis(arguments.next())),
        Some("pipe-bodies") => run(bodies::pipe()),
        Some("http-bodies") => run(bodies::http()),
        Some("pipe-late") => run(late(arguments.next())),
        Some("pipe-websocket") => run(websocket::pipe()),
        Some("http-websocket") => run(websocket::http(arguments.next())),
        Some("websocket-relay") => run(websocket::relay(arguments.next())),
        Some("websocket-load") => websocket::load(arguments),
        Some("bare") => bare::serve(),
        Some("bare-redis") => bare::redis::serve(arguments.next()),
        Some(FRONT) => bare::front::serve(arguments),
        Some(RELAY) => relay::serve(arguments.next()),
        Some(equals::WORK) => run(equals::serve(arguments.next())),
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

/// Answers with what Redis has.
async fn pipe_redis(url: Option<OsString>) -> anyhow::Result<()> {
    let url = url.and_then(|url| url.into_string().ok()).context("no URL of Redis given")?;
    let client = Client::new(Config::from_url(&url)?)?;
    let handler = move |_: Request<Incoming>| {
        let client = client.clone();
        async move {
            match client.get(REDIS_KEY).await {
                Ok(Some(json)) => answer(Body::from(json)),
                Ok(None) => failure(&format!("Redis has no {REDIS_KEY}")),
                Err(error) => failure(&error.to_string()),
            }
        }
    };
    Ok(serve(handler).await?)
}

async fn late(ms: Option<OsString>) -> anyhow::Result<()> {
    bodies::late(milliseconds(&ms.unwrap_or_default())?).await
}

fn milliseconds(text: &OsStr) -> anyhow::Result<Duration> {
    let ms = text.to_str().and_then(|text| text.parse().ok()).context("not told after how many milliseconds")?;
    Ok(Duration::from_millis(ms))
}

fn failure(why: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(Bytes::copy_from_slice(why.as_bytes())));
    *answer.status_mut() = http::StatusCode::BAD_GATEWAY;
    answer
}

/// Listens on the socket that it inherits, or on `path`.
async fn http(path: Option<OsString>) -> anyhow::Result<()> {
    let json = Bytes::from(answer_body());
    match listener(path)? {
        Listener::Unix(listener) => loop {
            tokio::task::spawn_local(connection(listener.accept().await?.0, json.clone(), Duration::ZERO));
        },
        Listener::Tcp(listener) => loop {
            tokio::task::spawn_local(connection(listener.accept().await?.0, json.clone(), Duration::ZERO));
        },
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

fn listener(path: Option<OsString>) -> anyhow::Result<Listener> {
    if let Some(path) = path {
        return unix(std::os::unix::net::UnixListener::bind(path).context("cannot listen")?);
    }
    let mut inherited = listenfd::ListenFd::from_env();
    // A gateway hands over a Unix socket; socket activation what its unit says.
    if let Ok(Some(listener)) = inherited.take_unix_listener(0) {
        return unix(listener);
    }
    let Some(listener) = inherited.take_tcp_listener(0)? else {
        bail!("no socket was inherited (LISTEN_FDS) and no path given")
    };
    listener.set_nonblocking(true)?;
    Ok(Listener::Tcp(TcpListener::from_std(listener)?))
}

fn unix(listener: std::os::unix::net::UnixListener) -> anyhow::Result<Listener> {
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix(UnixListener::from_std(listener)?))
}

/// Listens on a free port, and answers each request after so many milliseconds, if they are given.
async fn http_over_tcp(pause_ms: Option<OsString>) -> anyhow::Result<()> {
    let pause = pause_ms.as_deref().map_or(Ok(Duration::ZERO), milliseconds)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?;
    say_address(listener.local_addr()?)?;
    let json = Bytes::from(answer_body());
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::task::spawn_local(connection(socket, json.clone(), pause));
    }
}

async fn connection(socket: impl AsyncRead + AsyncWrite + Unpin, json: Bytes, pause: Duration) {
    let handler = service_fn(move |_| {
        let answer = answer(Full::new(json.clone()));
        async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            Ok::<_, Infallible>(answer)
        }
    });
    // A connection that the other side cuts is no concern of a service.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), handler).await;
}

/// Says where a server listens, as `pilotlight` does.
fn say_address(address: SocketAddr) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on http://{address}").and_then(|()| out.flush()).context("nobody reads the address")
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
