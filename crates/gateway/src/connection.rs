//! One client connection from accept to close: a loop that reads a request, has it answered, and writes the response.
//!
//! ```text
//!            request               response
//!   Reading ─────────▶ Exchange ──────────────▶ Response ──▶ Reading, or closed
//!      │ answered at once                          ▲
//!      └───────────────────────────────────────────┘
//! ```
//!
//! Hits never leave `Reading`: [`Client::poll_next`] answers them.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pilotlight_http1::SendError;

use crate::client::Client;
use crate::client::outgoing::Outgoing;
use crate::client::requests::Next;
use crate::client::response::ResponseError;
use crate::client_socket::ClientSocket;
use crate::downstream::Downstream;
use crate::exchange::{self, PendingResponse, Reply, https};
use crate::http2;
use crate::linger::{Reason, linger};
use crate::peer_address::PeerAddress;
use crate::protocols::ClientProtocol;
use crate::target::Scheme;
use crate::tunnel;
use crate::worker::Worker;

/// Where a connection is in its present request.
enum Stage {
    Reading,
    Exchange(PendingResponse),
    Response(Outgoing),
}

/// How a connection ended.
enum End {
    /// Behind its last response, or before a request. The client may still be sending.
    Closed,
    /// Its socket is another protocol's.
    Upgraded,
    /// It has begun with the preface of HTTP/2.
    Http2,
}

/// Why it ended early.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Client(#[from] std::io::Error),
    #[error(transparent)]
    Response(#[from] ResponseError),
}

impl From<SendError> for Ended {
    fn from(error: SendError) -> Self {
        Self::Response(error.into())
    }
}

struct Connection {
    worker: Rc<Worker>,
    client: Rc<Client>,
    stage: Stage,
}

impl Connection {
    fn requester(&self) -> Rc<dyn Downstream> {
        Rc::<Client>::clone(&self.client)
    }

    /// Goes on until something has to be waited for, or the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<End, Ended>> {
        loop {
            match &mut self.stage {
                Stage::Reading => {
                    if self.worker.is_stopping() && self.client.is_between_requests() {
                        return Poll::Ready(Ok(End::Closed));
                    }
                    let received = match ready!(self.client.poll_next(cx, &self.worker))? {
                        Next::Request(received) => received,
                        Next::Http2 => return Poll::Ready(Ok(End::Http2)),
                        Next::End | Next::Refused => return Poll::Ready(Ok(End::Closed)),
                    };
                    self.stage = match exchange::begin(&self.worker, self.requester(), received) {
                        Reply::Now(response) => Stage::Response(self.client.put_head(*response)?),
                        Reply::Later(later) => Stage::Exchange(later),
                    };
                }
                Stage::Exchange(later) => {
                    let Poll::Ready(response) = Pin::new(later).poll(cx) else {
                        return self.client.poll_gone(cx).map(|gone| Err(gone.into()));
                    };
                    self.stage = Stage::Response(self.client.put_head(response)?);
                    if self.client.is_upgraded() {
                        return Poll::Ready(Ok(End::Upgraded));
                    }
                }
                Stage::Response(body) => {
                    ready!(self.client.poll_put_body(cx, body))?;
                    self.stage = Stage::Reading; // the request is over with its body
                    if !self.client.skip_read_body() || self.client.is_over() {
                        return Poll::Ready(Ok(End::Closed));
                    }
                }
            }
        }
    }
}

/// Serves requests until the connection ends.
pub(crate) async fn serve(worker: &Rc<Worker>, socket: ClientSocket, peer: Rc<PeerAddress>) {
    let table = worker.common.table.load();
    let (settings, caches) = (Arc::clone(table.settings()), table.caches());
    drop(table);
    let is_cached = worker.common.cache.is_some() && caches;
    let client = Client::new(socket, peer, worker.deadlines.deadline(), settings, is_cached);
    client.may_redirect.set(client.peer.scheme() == Scheme::Http && https::may_redirect(&worker.common));
    let hang_up = HangUp(Rc::clone(&client)); // before the rest, so that it is dropped after it
    let mut connection = Connection { worker: Rc::clone(worker), client: Rc::clone(&client), stage: Stage::Reading };
    let mut served = Poll::Pending;
    let flushed = poll_fn(|cx| {
        if served.is_pending() {
            served = connection.poll(cx);
        }
        if served.is_ready() {
            ready!(client.poll_flush_last(cx))?;
            client.written();
            return Poll::Ready(std::io::Result::Ok(()));
        }
        ready!(client.poll_flush_out(cx))?;
        client.written();
        if client.rest() {
            worker.has_freed();
        }
        Poll::Pending
    })
    .await;
    drop(connection);
    if let Some(status) = client.rejected() {
        worker.common.metrics.none.book(worker.index).rejected(status);
    }
    if let Err(e) = flushed {
        tracing::debug!(peer = %client.peer, "a client took no more: {e}");
        return;
    }
    match served {
        // In boxes, so that every connection does not have the place for what few need.
        Poll::Ready(Ok(End::Upgraded)) => {
            if let Some(upgraded) = client.take_upgraded() {
                let (socket, received) = client.take_socket();
                let tunnel = tunnel::pass(worker, ClientProtocol::Http1, socket, received, *upgraded);
                if let Err(e) = Box::pin(tunnel).await {
                    tracing::debug!(peer = %client.peer, "an upgraded connection ended: {e}");
                }
            }
        }
        Poll::Ready(Ok(End::Http2)) => {
            let (socket, read_ahead) = client.take_socket();
            let (peer, settings) = (Rc::clone(&client.peer), Arc::clone(&client.settings));
            drop(hang_up);
            drop(client);
            return Box::pin(http2::serve(worker, socket, read_ahead, peer, settings)).await;
        }
        Poll::Ready(Ok(End::Closed)) if !worker.is_stopping() => {
            Box::pin(linger(client.take_socket().0, Reason::Over)).await;
        }
        Poll::Ready(Err(e)) => {
            // Without the word, a client sees that a response was cut whose end nothing else shows.
            if matches!(e, Ended::Client(_)) {
                client.say_end();
            }
            tracing::debug!(peer = %client.peer, "a client's connection ended: {e}");
        }
        Poll::Ready(Ok(End::Closed)) | Poll::Pending => client.say_end(),
    }
    drop(hang_up);
}

/// Closes the client's socket, whatever still refers to the client.
struct HangUp(Rc<Client>);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.hang_up();
    }
}
