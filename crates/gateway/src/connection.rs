//! One client connection from accept to close.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

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

/// Serves requests until the connection ends.
pub(crate) async fn serve(worker: &Rc<Worker>, socket: Socket, peer: String) {
    let client = Client::new(socket, &peer, worker.deadlines.deadline(), worker.times);
    let io = TokioIo::new(ClientIo(Rc::clone(&client)));
    let handler = Handler { worker: Rc::clone(worker), client: Rc::clone(&client) };
    let mut connection = http1::Builder::new()
        .max_header_size(worker.common.limits.header_size)
        .max_buf_size(worker.common.limits.header_size.max(MIN_BUFFER))
        .max_headers(worker.common.limits.header_count)
        .serve_connection(io, handler);
    let every_answer_is_timed = worker.common.server_timing == ServerTiming::Always;
    if worker.common.cache.is_none() || !worker.common.table.load().caches() || every_answer_is_timed {
        client.leave_to_hyper();
    }
    let mut told = false;
    let mut served = Poll::Pending;
    let flushed = poll_fn(|cx| {
        if worker.is_stopping() && !std::mem::replace(&mut told, true) {
            client.leave_to_hyper();
            Pin::new(&mut connection).graceful_shutdown();
        }
        while served.is_pending() && !client.answer_hits(cx, worker) {
            served = connection.poll_without_shutdown(cx);
            if !client.has_next() {
                break;
            }
        }
        match client.poll_flush_out(cx) {
            Poll::Ready(Ok(())) => {
                client.written();
                if served.is_pending() { Poll::Pending } else { Poll::Ready(Ok(())) }
            }
            flushed => flushed,
        }
    })
    .await;
    if let Some(status) = client.rejected() {
        worker.common.metrics.none.book(worker.index).rejected(status);
    }
    if let Poll::Ready(Err(e)) = served {
        tracing::debug!(peer = %client.peer, "a client's connection ended: {e}");
    }
    if let Err(e) = flushed {
        tracing::debug!(peer = %client.peer, "a client took no more: {e}");
        return;
    }
    let parts = connection.into_parts();
    let io = parts.io.into_inner();
    match client.take_upgraded() {
        Some(upgraded) => tunnel(io, &parts.read_buf, upgraded).await,
        None if client.lingers() && !worker.is_stopping() => linger(io).await,
        None => {}
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
    let closing = async {
        io.shutdown().await?;
        let mut sink = [0; 4096];
        while io.read(&mut sink).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whatever goes wrong here, the connection is closed next.
    let _ = tokio::time::timeout(LINGER, closing).await;
}
