//! What WebSocket costs over the pipe and over HTTP: a service that echoes, the load, and a relay without HTTP as the
//! floor. `lab/websocket.py` measures with it.
//!
//! ```text
//! websocket_echo                                  the service, started by the gateway (transport = "pipe")
//! websocket_echo serve tcp:ADDR|unix:PATH         the same service as a web server of its own
//! websocket_echo relay tcp:ADDR tcp:ADDR|unix:PATH  passes bytes between clients of one address and another
//! websocket_echo load ADDR TARGET CLIENTS SECONDS BYTES  clients that send, and wait for the echo; prints how many came
//! ```

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use pilotlight_pipe::{Body, Failure, Incoming, serve};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{LocalSet, spawn_local};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => Ok(serve(answer).await?),
        ["serve", place] => LocalSet::new().run_until(listen(place)).await,
        ["relay", from, to] => LocalSet::new().run_until(relay(from, to)).await,
        ["load", address, target, clients, seconds, bytes] => {
            let load =
                load(address, target, clients.parse()?, Duration::from_secs_f64(seconds.parse()?), bytes.parse()?);
            println!("{}", LocalSet::new().run_until(load).await?);
            Ok(())
        }
        _ => Err("usage: see the head of the source".into()),
    }
}

/// The service: the same whatever carries it.
async fn echo<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>) {
    while let Some(Ok(message)) = socket.next().await {
        if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
            return;
        }
    }
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

async fn listen(place: &str) -> Outcome<()> {
    if let Some(path) = place.strip_prefix("unix:") {
        let listener = UnixListener::bind(path)?;
        loop {
            let stream = listener.accept().await?.0;
            spawn_local(async { accepted(stream).await });
        }
    }
    let listener = TcpListener::bind(place.trim_start_matches("tcp:")).await?;
    loop {
        let stream = listener.accept().await?.0;
        stream.set_nodelay(true)?;
        spawn_local(async { accepted(stream).await });
    }
}

async fn accepted<S: AsyncRead + AsyncWrite + Unpin>(stream: S) {
    if let Ok(socket) = accept_async(stream).await {
        echo(socket).await;
    }
}

async fn relay(from: &str, to: &str) -> Outcome<()> {
    let listener = TcpListener::bind(from.trim_start_matches("tcp:")).await?;
    loop {
        let mut client = listener.accept().await?.0;
        client.set_nodelay(true)?;
        let to = to.to_owned();
        spawn_local(async move {
            let Some(path) = to.strip_prefix("unix:") else {
                let mut service = TcpStream::connect(to.trim_start_matches("tcp:")).await?;
                service.set_nodelay(true)?;
                return copy_bidirectional(&mut client, &mut service).await;
            };
            copy_bidirectional(&mut client, &mut UnixStream::connect(path).await?).await
        });
    }
}

async fn load(address: &str, target: &str, clients: usize, time: Duration, bytes: usize) -> Outcome<u64> {
    let count = Rc::new(Cell::new(0));
    let mut opened = Vec::new();
    for _ in 0..clients {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        opened.push(client_async(format!("ws://{address}{target}"), stream).await?.0);
    }
    let until = Instant::now() + time;
    let running = opened.into_iter().map(|mut socket| {
        let count = Rc::clone(&count);
        spawn_local(async move {
            let message = Message::binary(vec![b'x'; bytes]);
            while Instant::now() < until {
                socket.send(message.clone()).await?;
                let echoed = socket.next().await.ok_or("closed")??;
                if echoed.len() != bytes {
                    return Err("not the message that was sent".into());
                }
                count.set(count.get() + 1);
            }
            Ok::<(), Box<dyn Error>>(())
        })
    });
    for client in running.collect::<Vec<_>>() {
        client.await??;
    }
    Ok(count.get())
}
