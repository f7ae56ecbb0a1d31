//! Handshakes of TLS: bounded in number, in time and in the share of a worker that they take.
//!
//! - Number: `limits.handshakes`, a part of it for each worker. Who comes beyond it waits to be accepted, as beyond
//!   `limits.connections`: a burst of clients is served late, and not turned away.
//! - Time: `limits.handshake_timeout`, for all of it.
//! - Share: a signature takes as long as some ten answers. A worker makes one in a turn of its event loop, so that
//!   whatever a flood of hellos asks for, every connection that is open has its turn between two of them.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::ready;

use pilotlight_tls::Protocol;
use rustls::ServerConnection;

use crate::net::Socket;
use crate::problem;
use crate::tls_socket::TlsSocket;
use crate::worker::Worker;

/// Why there is no connection with TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("the client's connection ended: {0}")]
    Client(#[from] io::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("the client speaks plain HTTP")]
    PlainHttp,
    #[error("the client took longer than limits.handshake_timeout")]
    TooSlow,
    #[error("the gateway stops")]
    Stopping,
}

/// Counts a handshake that is under way.
struct Open(Rc<Worker>);

impl Open {
    fn new(worker: &Rc<Worker>) -> Self {
        worker.handshakes.begin();
        Self(Rc::clone(worker))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.handshakes.end();
        self.0.has_room();
    }
}

/// Shakes hands with a client; what is spoken behind that.
///
/// # Cancel safety
/// The connection is lost.
pub(crate) async fn shake_hands(
    worker: &Rc<Worker>,
    socket: Socket,
) -> Result<(Box<TlsSocket>, Protocol), HandshakeError> {
    let _open = Open::new(worker);
    let deadline = worker.deadlines.deadline();
    deadline.set(worker.common.table.load().settings().limits.handshake_timeout);
    let over = poll_fn(|cx| match worker.is_stopping() {
        true => std::task::Poll::Ready(HandshakeError::Stopping),
        false => {
            ready!(deadline.poll(cx));
            // All are woken when the gateway stops.
            let why = if worker.is_stopping() { HandshakeError::Stopping } else { HandshakeError::TooSlow };
            std::task::Poll::Ready(why)
        }
    });
    tokio::select! {
        biased;
        done = converse(worker, socket) => done,
        why = over => Err(why),
    }
}

async fn converse(worker: &Worker, socket: Socket) -> Result<(Box<TlsSocket>, Protocol), HandshakeError> {
    let tls = ServerConnection::new(worker.common.tls.config())?;
    let mut socket = Box::new(TlsSocket::new(socket, tls));
    let mut is_first = true;
    while socket.is_handshaking() {
        if poll_fn(|cx| socket.poll_receive(cx)).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if std::mem::take(&mut is_first) && is_plain_http(socket.received()) {
            refuse_plain_http(socket.into_plain()).await;
            return Err(HandshakeError::PlainHttp);
        }
        let processed = {
            let _step = worker.handshakes.step().await;
            let processed = socket.process();
            tokio::task::yield_now().await;
            processed
        };
        // What rustls has to say about it: its part of the handshake, or an alert.
        let flushed = poll_fn(|cx| socket.poll_flush_sealed(cx)).await;
        processed?;
        flushed?;
    }
    let protocol = Protocol::of(socket.protocol());
    Ok((socket, protocol))
}

/// The first byte of a record is its type, below any letter (RFC 8446 §5.1).
fn is_plain_http(received: &[u8]) -> bool {
    received.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Says what is wrong in words that the client understands. What it sends meanwhile is not read.
async fn refuse_plain_http(mut socket: Socket) {
    let mut text = problem::plain_http();
    // A client that does not take even this is not told.
    let _ = poll_fn(|cx| socket.poll_write_all(cx, &mut text)).await;
}
