//! One request passed on to the admin interface, on a connection of its own; its answer comes as it is made.

use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Method, Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

type Driver = Connection<TokioIo<UnixStream>, Full<Bytes>>;

/// What is asked.
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) body: Bytes,
}

/// Sends it, and waits for the head of the answer.
///
/// # Cancel safety
/// The connection is closed; what was asked may be done.
pub(crate) async fn pass(stream: UnixStream, asked: Asked) -> io::Result<Response<Passed>> {
    let Asked { method, target, body } = asked;
    let mut request = Request::builder().method(method).uri(target).body(Full::new(body)).map_err(io::Error::other)?;
    request.headers_mut().insert(HOST, HeaderValue::from_static("pilotlight"));
    let (mut sender, mut connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let mut connection_ended = false;
    let mut answer = pin!(sender.send_request(request));
    // The connection is driven by whoever waits for its answer, so no task has to be ended.
    let answer = std::future::poll_fn(|cx| {
        if !connection_ended {
            connection_ended = Pin::new(&mut connection).poll(cx).is_ready();
        }
        answer.as_mut().poll(cx)
    });
    let answer = answer.await.map_err(io::Error::other)?;
    let driver = (!connection_ended).then_some(connection);
    Ok(answer.map(|body| Passed { body, driver }))
}

/// The body of an answer that is passed on.
pub(crate) struct Passed {
    body: Incoming,
    driver: Option<Driver>,
}

impl Passed {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(cx).is_ready()
        {
            self.driver = None; // an error is the body's, too
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }
}
