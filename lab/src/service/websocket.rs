//! A service that echoes messages of WebSocket, over the pipe or as a web server; a relay to it that knows no HTTP; and
//! clients that send and wait for the echo.

use std::cell::Cell;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use pilotlight_pipe::{Body, Failure, Incoming, serve};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::spawn_local;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};

use super::say_address;

/// The same whatever carries it.
async fn echo<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>) {
    while let Some(Ok(message)) = socket.next().await {
        if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
            return;
        }
    }
}

pub(super) async fn pipe() -> anyhow::Result<()> {
    Ok(serve(answer).await?)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Failure> {
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else { return Ok(Response::new("a WebSocket\n".into())) };
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()))?;
    let body = Body::upgrade(|connection| async move {
        echo(WebSocketStream::from_raw_socket(connection, Role::Server, None).await).await;
    });
    let head = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).header(UPGRADE, "websocket");
    Ok(head.header(SEC_WEBSOCKET_ACCEPT, accept).body(body)?)
}

/// Listens on a Unix socket, or on a free port.
pub(super) async fn http(path: Option<OsString>) -> anyhow::Result<()> {
    if let Some(path) = path {
        let listener = UnixListener::bind(path)?;
        loop {
            spawn_local(accepted(listener.accept().await?.0));
        }
    }
    let listener = free_port().await?;
    loop {
        spawn_local(accepted(next(&listener).await?));
    }
}

async fn accepted<S: AsyncRead + AsyncWrite + Unpin>(stream: S) {
    if let Ok(socket) = accept_async(stream).await {
        echo(socket).await;
    }
}

/// Passes bytes between the clients of a free port and an address, or a path.
pub(super) async fn relay(to: Option<OsString>) -> anyhow::Result<()> {
    let to = to.and_then(|to| to.into_string().ok()).context("not told where to")?;
    let listener = free_port().await?;
    loop {
        let (mut client, to) = (next(&listener).await?, to.clone());
        spawn_local(async move {
            if Path::new(&to).is_absolute() {
                return copy_bidirectional(&mut client, &mut UnixStream::connect(to).await?).await;
            }
            let mut service = TcpStream::connect(to).await?;
            service.set_nodelay(true)?;
            copy_bidirectional(&mut client, &mut service).await
        });
    }
}

async fn free_port() -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?;
    say_address(listener.local_addr()?)?;
    Ok(listener)
}

async fn next(listener: &TcpListener) -> std::io::Result<TcpStream> {
    let stream = listener.accept().await?.0;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What clients send, each its next message when the one before has come back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clients {
    pub(crate) count: usize,
    /// Of a message.
    pub(crate) bytes: usize,
}

impl Clients {
    /// How many messages came back in this time.
    ///
    /// # Errors
    /// A client is not taken, or something else comes back than it has sent.
    pub(crate) fn run(self, address: SocketAddr, target: &str, duration: Duration) -> anyhow::Result<u64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio::task::LocalSet::new().block_on(&runtime, self.send(address, target, duration))
    }

    async fn send(self, address: SocketAddr, target: &str, duration: Duration) -> anyhow::Result<u64> {
        let count = Rc::new(Cell::new(0));
        let mut opened = Vec::new();
        for _ in 0..self.count {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            opened.push(client_async(format!("ws://{address}{target}"), stream).await?.0);
        }
        let until = Instant::now() + duration;
        let running = opened.into_iter().map(|mut socket| {
            let count = Rc::clone(&count);
            spawn_local(async move {
                let message = Message::binary(vec![b'x'; self.bytes]);
                while Instant::now() < until {
                    socket.send(message.clone()).await?;
                    let echoed = socket.next().await.context("it closed the connection")??;
                    ensure!(echoed == message, "not the message that was sent came back");
                    count.set(count.get() + 1);
                }
                anyhow::Ok(())
            })
        });
        for client in running.collect::<Vec<_>>() {
            client.await??;
        }
        Ok(count.get())
    }
}

/// The clients as a program: `ADDRESS TARGET CLIENTS SECONDS BYTES`; prints how many messages came back.
pub(super) fn load(words: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let [address, target, count, seconds, bytes] = &words[..] else {
        anyhow::bail!("not ADDRESS TARGET CLIENTS SECONDS BYTES")
    };
    let clients = Clients { count: count.parse()?, bytes: bytes.parse()? };
    println!("{}", clients.run(address.parse()?, target, Duration::from_secs_f64(seconds.parse()?))?);
    Ok(())
}
