//! One call: a connection to the socket, a request, the answer.

use crate::error::EngineError;
use crate::limits::{MAX_ANSWER, MAX_MESSAGE};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// What is called, and how long it may take.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query, the version included.
    pub(crate) target: String,
    pub(crate) body: Option<(&'static str, Bytes)>,
    /// To the head of the answer.
    pub(crate) time: Duration,
}

/// The answer to a call, as it comes. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Answer {
    name: String,
    socket: Arc<PathBuf>,
    head: HeaderMap,
    body: Incoming,
    /// What moves the bytes; ends with this.
    _connection: JoinSet<()>,
}

/// What an engine says of an error.
#[derive(Deserialize)]
struct Message {
    message: String,
}

/// Makes a call; the answer is one that is not an error.
///
/// # Cancel safety
/// Dropping it closes the connection; whether the engine did it is not known then.
pub(crate) async fn call(socket: &Arc<PathBuf>, call: Call) -> Result<Answer, EngineError> {
    let path = call.target.split('?').next().unwrap_or_default();
    let name = format!("{} {path}", call.method);
    let time = call.time;
    match timeout(time, exchange(socket, call, &name)).await {
        Ok(answer) => answer,
        Err(_) => Err(EngineError::Timeout { call: name, socket: socket.to_path_buf(), time }),
    }
}

async fn exchange(socket: &Arc<PathBuf>, call: Call, name: &str) -> Result<Answer, EngineError> {
    let away = |source| EngineError::Away { socket: socket.to_path_buf(), source };
    let stream = UnixStream::connect(socket.as_path()).await.map_err(away)?;
    let failed = |source: hyper::Error| broken(name, socket, source);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let mut driver = JoinSet::new();
    driver.spawn(async move { drop(connection.await) }); // its error comes out of the answer
    let request = Request::builder().method(call.method).uri(&call.target).header(HOST, "engine");
    let (request, body) = match call.body {
        Some((kind, body)) => (request.header(CONTENT_TYPE, kind), body),
        None => (request, Bytes::new()),
    };
    let request = request.body(Full::new(body)).map_err(|error| EngineError::Answer {
        call: name.to_owned(),
        socket: socket.to_path_buf(),
        reason: format!("the request cannot be written: {error}"),
    })?;
    let response = sender.send_request(request).await.map_err(failed)?;
    let status = response.status();
    let (head, body) = response.into_parts();
    let answer =
        Answer { name: name.to_owned(), socket: Arc::clone(socket), head: head.headers, body, _connection: driver };
    // 304: it is in that state already.
    if status.is_success() || status == http::StatusCode::NOT_MODIFIED {
        return Ok(answer);
    }
    let (call, socket) = (name.to_owned(), socket.to_path_buf());
    let message = answer.bytes().await.map(|body| message(&body)).unwrap_or_default();
    Err(EngineError::Refused { call, socket, status: status.as_u16(), message })
}

fn message(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Message>(body) {
        Ok(Message { message }) => message,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let cut = text.char_indices().nth(MAX_MESSAGE).map_or(text.len(), |(at, _)| at);
    text[..cut].to_owned()
}

fn broken(name: &str, socket: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> EngineError {
    EngineError::Broken { call: name.to_owned(), socket: socket.to_owned(), source: source.into() }
}

impl Answer {
    /// The next bytes; `None` at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(broken(&self.name, &self.socket, error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    Ok(_) | Err(_) => {}
                },
            }
        }
    }

    /// A field of its head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.get(name)?.to_str().ok()
    }

    /// All of it.
    async fn bytes(self) -> Result<Bytes, EngineError> {
        let Self { name, socket, head: _, body, _connection } = self;
        let whole = Limited::new(body, MAX_ANSWER).collect().await;
        whole.map(|whole| whole.to_bytes()).map_err(|source| broken(&name, &socket, source))
    }

    /// Reads the response to its end: only then has the engine done what it was asked for.
    pub(crate) async fn done(self) -> Result<(), EngineError> {
        self.bytes().await.map(drop)
    }

    pub(crate) async fn json<T: DeserializeOwned>(self) -> Result<T, EngineError> {
        let (name, socket) = (self.name.clone(), Arc::clone(&self.socket));
        let body = self.bytes().await?;
        serde_json::from_slice(&body).map_err(|error| unreadable(&name, &socket, error.to_string()))
    }

    pub(crate) fn unreadable(&self, reason: impl Into<String>) -> EngineError {
        unreadable(&self.name, &self.socket, reason)
    }
}

fn unreadable(name: &str, socket: &Path, reason: impl Into<String>) -> EngineError {
    EngineError::Answer { call: name.to_owned(), socket: socket.to_owned(), reason: reason.into() }
}
