//! The demo service that every SDK has: the conformance scripts know its routes by heart.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::header::{CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, TRAILER, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use pilotlight_pipe::{Body, Exchange, Failure, Incoming, ServeError, serve};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

const BLOCK: usize = 32 * 1024;
const PERIOD: usize = 251;

#[derive(Default)]
struct Demo {
    cancelled: RefCell<HashSet<String>>,
    refused: RefCell<HashSet<String>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ServeError> {
    let demo = Rc::new(Demo::default());
    serve(move |request| route(Rc::clone(&demo), request)).await
}

async fn route(demo: Rc<Demo>, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let number = |name| query_value(&query, name).and_then(|text| text.parse::<u64>().ok());
    if path.starts_with("/echo") {
        return echo(request);
    }
    match (request.method(), path.as_str()) {
        (&Method::POST, "/upload") => upload(request.into_body()).await,
        (&Method::POST, "/early") => {
            drop(request);
            // One turn, so that STOP is seen before the answer.
            tokio::task::yield_now().await;
            Ok(with_status(StatusCode::PAYLOAD_TOO_LARGE, "too large\n"))
        }
        (&Method::GET, "/download") => Ok(download(number("bytes").unwrap_or(0))),
        (&Method::GET, "/slow") => Ok(slow(number("chunks").unwrap_or(1), number("ms").unwrap_or(0))),
        (&Method::GET, "/wait") => Ok(wait(demo, query_value(&query, "id").unwrap_or_default())),
        (&Method::GET, "/cancelled") => {
            let known = demo.cancelled.borrow().contains(&query_value(&query, "id").unwrap_or_default());
            Ok(json(format!("{{\"cancelled\":{known}}}")))
        }
        (&Method::GET, "/crash") => std::process::exit(3),
        (&Method::GET, "/flood") => flood(number("bytes").unwrap_or(0)).await,
        (&Method::GET, "/status") => {
            let code = number("code").and_then(|code| u16::try_from(code).ok()).unwrap_or(200);
            Ok(with_status(StatusCode::from_u16(code)?, ""))
        }
        (&Method::GET, "/cookies") => {
            let mut response = Response::new(Body::from("cookies\n"));
            for cookie in ["a=1", "b=2"] {
                response.headers_mut().append(http::header::SET_COOKIE, HeaderValue::from_static(cookie));
            }
            Ok(response)
        }
        (&Method::GET, "/sleep") => {
            sleep(Duration::from_millis(number("ms").unwrap_or(0))).await;
            Ok(Response::new("slept".into()))
        }
        (&Method::GET, "/deadline") => {
            let left = exchange(&request)?.deadline_ms().map_or("null".into(), |ms| ms.to_string());
            Ok(json(format!("{{\"deadline_ms\":{left}}}")))
        }
        (&Method::GET, "/pid") => Ok(json(format!("{{\"pid\":{}}}", std::process::id()))),
        (&Method::GET, "/trailers") => Ok(trailers()),
        (&Method::GET, "/error") => Err(Failure::Internal("the demo was asked to fail".into())),
        (&Method::GET, "/refuse") => refuse(&demo, request.headers()),
        (&Method::GET, "/switch") => switch(request.headers()),
        (&Method::GET, "/ws") => websocket(request.headers()),
        (&Method::GET, "/big-header") => {
            let mut response = Response::new(Body::empty());
            let value = "x".repeat(usize::try_from(number("bytes").unwrap_or(0))?);
            response.headers_mut().insert("x-big", HeaderValue::try_from(value)?);
            Ok(response)
        }
        _ => Ok(with_status(StatusCode::NOT_FOUND, "not found\n")),
    }
}

fn echo(request: Request<Incoming>) -> Result<Response<Body>, Failure> {
    let target = HeaderValue::from_str(exchange(&request)?.target())?;
    let (head, body) = request.into_parts();
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    if let Some(kind) = head.headers.get(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, kind.clone());
    }
    headers.insert("x-method", HeaderValue::from_str(head.method.as_str())?);
    headers.insert("x-target", target);
    for (name, value) in &head.headers {
        if name.as_str().starts_with("x-echo-") {
            headers.append(name, value.clone());
        }
    }
    Ok(response)
}

async fn upload(mut body: Incoming) -> Result<Response<Body>, Failure> {
    let (mut bytes, mut hash) = (0, Sha256::new());
    while let Some(chunk) = body.chunk().await.transpose()? {
        bytes += chunk.len();
        hash.update(&chunk);
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json(format!("{{\"bytes\":{bytes},\"sha256\":\"{hex}\"}}")))
}

fn download(bytes: u64) -> Response<Body> {
    // Byte i is (i*31+7) mod 251, so a block that begins at any multiple of 251 is the same.
    let whole = BLOCK / PERIOD * PERIOD;
    let block: Bytes = (0..whole).map(|i| ((i * 31 + 7) % PERIOD) as u8).collect();
    let (sender, body) = Body::channel();
    tokio::task::spawn_local(async move {
        let mut left = bytes;
        while left > 0 {
            let piece = block.slice(..whole.min(usize::try_from(left).unwrap_or(whole)));
            left -= piece.len() as u64;
            sender.send(piece).await?;
        }
        sender.finish().await
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(http::header::CONTENT_LENGTH, bytes.into());
    response
}

fn slow(chunks: u64, ms: u64) -> Response<Body> {
    let (sender, body) = Body::channel();
    tokio::task::spawn_local(async move {
        for index in 0..chunks {
            if index > 0 {
                sleep(Duration::from_millis(ms)).await;
            }
            sender.send(format!("chunk {index}\n")).await?;
        }
        sender.finish().await
    });
    Response::new(body)
}

fn wait(demo: Rc<Demo>, id: String) -> Response<Body> {
    let (sender, body) = Body::channel();
    tokio::task::spawn_local(async move {
        while sender.send("tick\n").await.is_ok() {
            tokio::select! {
                () = sleep(Duration::from_millis(20)) => {}
                () = sender.closed() => {}
            }
        }
        demo.cancelled.borrow_mut().insert(id);
    });
    Response::new(body)
}

async fn flood(bytes: u64) -> Result<Response<Body>, Failure> {
    let (done, waits) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || done.send(write_lines(bytes)));
    waits.await??;
    Ok(json(format!("{{\"flooded\":{bytes}}}")))
}

fn write_lines(bytes: u64) -> std::io::Result<()> {
    let line = [&[b'x'; 99][..], b"\n"].concat();
    let mut out = std::io::BufWriter::with_capacity(BLOCK, std::io::stdout().lock());
    let mut left = bytes;
    while left > 0 {
        let length = line.len().min(usize::try_from(left).unwrap_or(line.len()));
        out.write_all(&line[..length])?;
        left -= length as u64;
    }
    out.flush()
}

fn trailers() -> Response<Body> {
    let (sender, body) = Body::channel();
    tokio::task::spawn_local(async move {
        sender.send("body").await?;
        let mut fields = HeaderMap::new();
        fields.insert(HeaderName::from_static("x-trailer"), HeaderValue::from_static("yes"));
        sender.trailers(fields).await
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(TRAILER, HeaderValue::from_static("x-trailer"));
    response
}

fn refuse(demo: &Demo, headers: &HeaderMap) -> Result<Response<Body>, Failure> {
    let once = headers.get("x-once").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if demo.refused.borrow_mut().insert(once.unwrap_or_default()) {
        return Err(Failure::Refused("not this time".into()));
    }
    Ok(Response::new("accepted".into()))
}

/// Switches to what is offered first, whatever that is, and sends back the bytes that come.
fn switch(headers: &HeaderMap) -> Result<Response<Body>, Failure> {
    let Some(offer) = headers.get(UPGRADE) else {
        return Ok(with_status(StatusCode::UPGRADE_REQUIRED, "upgrade required\n"));
    };
    let first = offer.to_str()?.split(',').next().unwrap_or_default().trim().to_owned();
    let body = Body::upgrade(|connection| async move {
        let (mut reader, mut writer) = tokio::io::split(connection);
        if tokio::io::copy(&mut reader, &mut writer).await.is_ok() {
            let _ended = writer.shutdown().await.is_ok();
        }
    });
    switched(body, HeaderValue::try_from(first)?)
}

/// A WebSocket that sends every message back; when the instance is to end it says so (RFC 6455 §7.4.1: 1001).
fn websocket(headers: &HeaderMap) -> Result<Response<Body>, Failure> {
    let (Some(_), Some(key)) = (headers.get(UPGRADE), headers.get(SEC_WEBSOCKET_KEY)) else {
        return Ok(with_status(StatusCode::UPGRADE_REQUIRED, "websocket only\n"));
    };
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()))?;
    let body = Body::upgrade(|connection| async move {
        let draining = connection.draining();
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let mut socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
        tokio::pin!(draining);
        let mut is_leaving = false;
        loop {
            tokio::select! {
                () = &mut draining, if !is_leaving => {
                    is_leaving = true;
                    let away = CloseFrame { code: CloseCode::Away, reason: "going away".into() };
                    if socket.close(Some(away)).await.is_err() { return; }
                }
                message = socket.next() => match message {
                    Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) if !is_leaving => {
                        if socket.send(message).await.is_err() { return; }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                },
            }
        }
    });
    let mut response = switched(body, HeaderValue::from_static("websocket"))?;
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

fn switched(body: Body, protocol: HeaderValue) -> Result<Response<Body>, Failure> {
    Ok(Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).header(UPGRADE, protocol).body(body)?)
}

fn exchange(request: &Request<Incoming>) -> Result<&Exchange, Failure> {
    request.extensions().get().ok_or_else(|| Failure::Internal("a request without its exchange".into()))
}

fn query_value(query: &str, name: &str) -> Option<String> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.into())
}

fn json(text: String) -> Response<Body> {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn with_status(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response
}
