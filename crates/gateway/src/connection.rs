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
use std::time::Duration;

use pilotlight_http1::SendError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::client::Client;
use crate::client::outgoing::Outgoing;
use crate::client::requests::Next;
use crate::client::response::ResponseError;
use crate::exchange::{self, PendingResponse, Reply};
use crate::net::Socket;
use crate::upstream::Upgraded;
use crate::worker::Worker;

/// How long a client may go on sending after the last response: closing with unread bytes would reset the connection,
/// and the client might never see that response.
const MAX_LINGER: Duration = Duration::from_secs(10);
/// How long nothing may come in that time.
const MAX_LINGER_SILENCE: Duration = Duration::from_secs(2);

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
                        Next::End | Next::Refused => return Poll::Ready(Ok(End::Closed)),
                    };
                    self.stage = match exchange::begin(&self.worker, &self.client, received) {
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
                    if !self.client.skip_body() || self.client.is_over() {
                        return Poll::Ready(Ok(End::Closed));
                    }
                }
            }
        }
    }
}

/// Serves requests until the connection ends.
pub(crate) async fn serve(worker: &Rc<Worker>, socket: Socket, peer: String) {
    let table = worker.common.table.load();
    let (settings, caches) = (Arc::clone(table.settings()), table.caches());
    drop(table);
    let is_cached = worker.common.cache.is_some() && caches;
    let client = Client::new(socket, &peer, worker.deadlines.deadline(), settings, is_cached);
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
                Box::pin(tunnel(&client, upgraded)).await;
            }
        }
        // Behind a last response more may come (RFC 9112 §9.6): closed with bytes unread, the connection is reset, and
        // the response lost.
        Poll::Ready(Ok(End::Closed)) if !worker.is_stopping() => Box::pin(linger(&client)).await,
        Poll::Ready(Err(e)) => tracing::debug!(peer = %client.peer, "a client's connection ended: {e}"),
        Poll::Ready(Ok(End::Closed)) | Poll::Pending => {}
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

/// Passes bytes both ways until both sides have ended.
async fn tunnel(client: &Client, upgraded: Box<Upgraded>) {
    let Upgraded { mut socket, read_ahead: answered, lease } = *upgraded;
    let (mut client, read_ahead) = client.take_socket();
    let result = async {
        client.write_all(&answered).await?;
        socket.write_all(&read_ahead).await?;
        tokio::io::copy_bidirectional(&mut client, &mut socket).await
    };
    if let Err(e) = result.await {
        tracing::debug!("an upgraded connection ended: {e}");
    }
    drop(lease);
}

async fn linger(client: &Client) {
    let (mut socket, _) = client.take_socket();
    let closing = async {
        socket.shutdown().await?;
        let mut sink = [0; 4096];
        while timeout(MAX_LINGER_SILENCE, socket.read(&mut sink)).await?? > 0 {}
        std::io::Result::Ok(())
    };
    // Whatever goes wrong here, the connection is closed next.
    let _ = timeout(MAX_LINGER, closing).await;
}
