//! One client connection from accept to close.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Client, ClientIo};
use crate::exchange::Handler;
use crate::net::Socket;
use crate::options::ServerTiming;
use crate::upstream::Upgraded;
use crate::worker::Worker;

/// How long a client may go on sending after the last answer: closing with unread bytes would reset the connection, and
/// the client might never see that answer.
const LINGER: Duration = Duration::from_secs(2);

/// hyper's least read buffer.
const MIN_BUFFER: usize = 8192;

type Hyper = http1::Connection<TokioIo<ClientIo>, Handler>;

/// hyper's part of a connection. Its buffers are most of what a connection takes, so there is none before it is needed, nor while the client is quiet.
struct Stack {
    worker: Rc<Worker>,
    client: Rc<Client>,
    hyper: Option<Box<Hyper>>,
}

impl Stack {
    fn open(&mut self) -> &mut Hyper {
        let Self { worker, client, hyper } = self;
        hyper.get_or_insert_with(|| {
            let limits = &client.settings.limits;
            let handler = Handler { worker: Rc::clone(worker), client: Rc::clone(client) };
            let io = TokioIo::new(ClientIo(Rc::clone(client)));
            let connection = http1::Builder::new()
                .max_header_size(limits.header_size)
                .max_buf_size(limits.header_size.max(MIN_BUFFER))
                .max_headers(limits.header_count)
                .serve_connection(io, handler);
            Box::new(connection)
        })
    }

    /// Serves what the client asks that is no hit. Without hyper, the client is only waited for.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.hyper.is_none() {
            ready!(self.client.poll_quiet(cx)).map_err(Ended::Quiet)?;
        }
        self.open().poll_without_shutdown(cx).map_err(Ended::Hyper)
    }

    /// The gateway stops: the connection ends with the answer that is under way, at once if there is none.
    fn poll_stop(&mut self) -> Poll<Result<(), Ended>> {
        if self.hyper.is_none() && self.client.is_between_requests() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(self.open()).graceful_shutdown();
        Poll::Pending
    }

    /// Lets go of hyper when the client has been quiet for a while.
    fn rest(&mut self) {
        if let Some(hyper) = self.hyper.take_if(|_| self.client.is_resting()) {
            self.client.take_back(&hyper.into_parts().read_buf);
            self.worker.has_freed();
        }
    }

    /// The connection after its last request, and what was read of what follows it.
    fn into_io(self) -> (ClientIo, Bytes) {
        match self.hyper {
            Some(hyper) => {
                let parts = hyper.into_parts();
                (parts.io.into_inner(), parts.read_buf)
            }
            None => (ClientIo(self.client), Bytes::new()),
        }
    }
}

/// Why a connection ended early.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Hyper(hyper::Error),
    #[error(transparent)]
    Quiet(std::io::Error),
}

/// Serves requests until the connection ends.
pub(crate) async fn serve(worker: &Rc<Worker>, socket: Socket, peer: String) {
    let table = worker.common.table.load();
    let (settings, caches) = (Arc::clone(table.settings()), table.caches());
    drop(table);
    let every_answer_is_timed = settings.server_timing == ServerTiming::Always;
    let client = Client::new(socket, &peer, worker.deadlines.deadline(), settings);
    if worker.common.cache.is_none() || !caches || every_answer_is_timed {
        client.leave_to_hyper();
    }
    let hang_up = HangUp(Rc::clone(&client)); // before the rest, so that it is dropped after it
    let mut stack = Stack { worker: Rc::clone(worker), client: Rc::clone(&client), hyper: None };
    let mut told = false;
    let mut served = Poll::Pending;
    let flushed = poll_fn(|cx| {
        // What Redis is being asked for is answered first; that answer is the last one then.
        let is_leaving = worker.is_leaving() && !client.is_asking();
        if is_leaving {
            client.leave_to_hyper(); // so that the next answer, and with it the connection, is the last
        }
        if is_leaving && worker.is_stopping() && !std::mem::replace(&mut told, true) {
            served = stack.poll_stop();
        }
        while served.is_pending() && !client.answer_hits(cx, worker) {
            served = stack.poll(cx);
            if !client.has_next() {
                break;
            }
        }
        match client.poll_flush_out(cx) {
            Poll::Ready(Ok(())) => {
                client.written();
                if served.is_pending() {
                    stack.rest();
                    Poll::Pending
                } else {
                    Poll::Ready(Ok(()))
                }
            }
            flushed => flushed,
        }
    })
    .await;
    if let Some(stranger) = client.stranger() {
        worker.common.strangers.name(&client.peer, stranger);
    }
    if let Some(status) = client.rejected() {
        worker.common.metrics.none.book(worker.index).rejected(status);
    }
    // hyper has answered what it could not parse; the client may still be sending more of it.
    // Behind a last answer there may be more as well (RFC 9112 §9.6): closed with bytes unread, the connection is reset, and the answer lost.
    let may_send_on = match &served {
        Poll::Ready(Ok(())) => true,
        Poll::Ready(Err(Ended::Hyper(e))) => e.is_parse(),
        Poll::Ready(Err(Ended::Quiet(_))) | Poll::Pending => false,
    };
    if let Poll::Ready(Err(e)) = served {
        tracing::debug!(peer = %client.peer, "a client's connection ended: {e}");
    }
    if let Err(e) = flushed {
        tracing::debug!(peer = %client.peer, "a client took no more: {e}");
        return;
    }
    let (io, read_ahead) = stack.into_io();
    match client.take_upgraded() {
        // In boxes, so that every connection does not have the place for what few need.
        Some(upgraded) => Box::pin(tunnel(io, &read_ahead, upgraded)).await,
        None if (client.lingers() || may_send_on) && !worker.is_stopping() => Box::pin(linger(io)).await,
        None => {}
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
async fn tunnel(mut client: ClientIo, read_ahead: &[u8], upgraded: Upgraded) {
    let Upgraded { mut socket, read_ahead: answered, lease } = upgraded;
    let result = async {
        client.write_all(&answered).await?;
        client.flush().await?; // it is gathered there, and nothing else may follow for long
        socket.write_all(read_ahead).await?;
        tokio::io::copy_bidirectional(&mut client, &mut socket).await
    };
    if let Err(e) = result.await {
        tracing::debug!("an upgraded connection ended: {e}");
    }
    drop(lease);
}

async fn linger(mut io: ClientIo) {
    io.0.discard_rest();
    let closing = async {
        io.shutdown().await?;
        let mut sink = [0; 4096];
        while io.read(&mut sink).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whatever goes wrong here, the connection is closed next.
    let _ = tokio::time::timeout(LINGER, closing).await;
}
