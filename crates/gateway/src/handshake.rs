//! Handshakes of TLS: bounded in number, in time and in the share of a worker that they take.
//!
//! - Number: `limits.handshakes`, a part of it for each worker. Further connections wait to be accepted, as beyond
//!   `limits.connections`: a burst of clients is served late, and not turned away.
//! - Time: `limits.handshake_timeout`, for all of it. While more than half of the places are taken, a client has
//!   [`MAX_CROWDED_HELLO`] for its hello, so that connections which say nothing keep only half of them for long.
//! - Of the number, a quarter at most waits for certificates on demand (`on_demand`).
//! - Share: a signature takes as long as some ten answers. A worker makes one in a turn of its event loop, so that
//!   whatever a flood of hellos asks for, every connection that is open has its turn between two of them.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::ready;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use pilotlight_proxy_protocol::is_header;
use pilotlight_tls::Protocol;
use rustls::server::{Accepted, AcceptedAlert, Acceptor};

use crate::deadline::Deadline;
use crate::linger::{Reason, linger};
use crate::net::Socket;
use crate::on_demand;
use crate::problem;
use crate::tls_socket::{READ_SIZE, TlsSocket};
use crate::worker::Worker;

/// How long a client may take for its hello while places are scarce. One with a slow line needs a round trip or two.
const MAX_CROWDED_HELLO: Duration = Duration::from_secs(1);

/// Why there is no connection with TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("the client's connection ended: {0}")]
    Client(#[from] io::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("the client speaks plain HTTP")]
    PlainHttp,
    #[error("the client sends a header of the PROXY protocol, and is not believed")]
    ProxyHeader,
    #[error(
        "the client took longer than limits.handshake_timeout, or than a second while most of limits.handshakes were taken"
    )]
    TooSlow,
    #[error("the gateway stops")]
    Stopping,
}

/// The place of a handshake that is under way, or about to be.
pub(crate) struct Place {
    worker: Rc<Worker>,
    /// More than half of the places are taken, this one included.
    is_crowded: bool,
}

impl Place {
    pub(crate) fn new(worker: &Rc<Worker>) -> Self {
        worker.handshakes.begin();
        let is_crowded = 2 * worker.handshakes.open() > worker.max_handshakes();
        Self { worker: Rc::clone(worker), is_crowded }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.worker.handshakes.end();
        self.worker.has_room();
    }
}

/// Shakes hands with a client; what is spoken behind that.
///
/// # Cancel safety
/// The connection is lost.
pub(crate) async fn shake_hands(
    worker: &Rc<Worker>,
    socket: Socket,
    place: Place,
) -> Result<(Box<TlsSocket>, Protocol), HandshakeError> {
    let mut refused = None;
    let deadline = worker.deadlines.deadline();
    let timeout = worker.common.table.load().settings().limits.handshake_timeout;
    let for_hello = if place.is_crowded { timeout.min(MAX_CROWDED_HELLO) } else { timeout };
    deadline.set(for_hello);
    let has_hello = || {
        if for_hello < timeout {
            deadline.set(timeout - for_hello);
        }
    };
    let over = poll_fn(|cx| match worker.is_stopping() {
        true => std::task::Poll::Ready(HandshakeError::Stopping),
        false => {
            ready!(deadline.poll(cx));
            // All are woken when the gateway stops.
            let why = if worker.is_stopping() { HandshakeError::Stopping } else { HandshakeError::TooSlow };
            std::task::Poll::Ready(why)
        }
    });
    let done = tokio::select! {
        biased;
        done = converse(worker, socket, &deadline, &mut refused, has_hello) => done,
        why = over => Err(why),
    };
    drop(place);
    if let Some(socket) = refused.filter(|_| !worker.is_stopping()) {
        linger(socket, Reason::Over).await;
    }
    done
}

/// `refused` gets the socket of a client that was told why there is no connection.
async fn converse(
    worker: &Worker,
    mut socket: Socket,
    deadline: &Deadline,
    refused: &mut Option<Socket>,
    has_hello: impl FnOnce(),
) -> Result<(Box<TlsSocket>, Protocol), HandshakeError> {
    let (accepted, mut behind) = match hello(&mut socket).await {
        Ok(hello) => hello,
        Err(NoHello::Ended(why)) => return Err(why),
        Err(NoHello::Refused(why, mut text)) => {
            poll_fn(|cx| socket.poll_write_all(cx, &mut text)).await?;
            *refused = Some(socket);
            return Err(why);
        }
    };
    has_hello();
    if let Some(demanded) = on_demand::demanded(worker, &accepted.client_hello()) {
        demanded.await_certificate(&mut socket, &mut behind, deadline).await?;
    }
    let config = worker.common.tls.config(&accepted.client_hello())?;
    let answered = {
        let _step = worker.handshakes.step().await;
        let answered = accepted.into_connection(config);
        tokio::task::yield_now().await;
        answered
    };
    let tls = match answered {
        Ok(tls) => tls,
        Err((why, alert)) => {
            let mut alert = text_of(alert);
            poll_fn(|cx| socket.poll_write_all(cx, &mut alert)).await?;
            *refused = Some(socket);
            return Err(why.into());
        }
    };
    let mut socket = Box::new(TlsSocket::new(socket, tls, behind));
    let mut processed = socket.process();
    loop {
        // What rustls has to say about it: its part of the handshake, or an alert.
        poll_fn(|cx| socket.poll_flush_sealed(cx)).await?;
        if let Err(why) = processed {
            *refused = Some(socket.into_plain());
            return Err(why.into());
        }
        if !socket.is_handshaking() {
            let protocol = Protocol::of(socket.protocol());
            return Ok((socket, protocol));
        }
        if poll_fn(|cx| socket.poll_receive(cx)).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let _step = worker.handshakes.step().await;
        processed = socket.process();
        tokio::task::yield_now().await;
    }
}

/// Why there is no hello.
enum NoHello {
    /// The client is gone, so there is no alert.
    Ended(HandshakeError),
    /// With the alert for the client.
    Refused(HandshakeError, BytesMut),
}

impl From<io::Error> for NoHello {
    fn from(error: io::Error) -> Self {
        Self::Ended(error.into())
    }
}

/// Reads the client's hello, by which the gateway chooses its configuration, and perhaps some of what is behind it.
async fn hello(socket: &mut Socket) -> Result<(Accepted, BytesMut), NoHello> {
    let (mut acceptor, mut received) = (Acceptor::default(), BytesMut::new());
    let mut is_first = true;
    loop {
        received.reserve(READ_SIZE);
        if poll_fn(|cx| socket.poll_read_buf(cx, &mut received)).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if std::mem::take(&mut is_first) {
            if is_header(&received) {
                return Err(NoHello::Ended(HandshakeError::ProxyHeader));
            }
            if is_plain_http(&received) {
                return Err(NoHello::Refused(HandshakeError::PlainHttp, problem::plain_http()));
            }
        }
        while !received.is_empty() {
            let mut unread: &[u8] = &received;
            let before = unread.len();
            acceptor.read_tls(&mut unread)?; // an error if the hello is longer than rustls takes
            let taken = before - unread.len();
            received.advance(taken);
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok((accepted, received)),
                Ok(None) => {}
                Err((why, alert)) => return Err(NoHello::Refused(why.into(), text_of(alert))),
            }
        }
    }
}

fn text_of(mut alert: AcceptedAlert) -> BytesMut {
    let mut text = Vec::new();
    let _ = alert.write_all(&mut text); // to memory, which takes everything
    BytesMut::from(&text[..])
}

/// The first byte of a record is its type, below any letter (RFC 8446 §5.1).
fn is_plain_http(received: &[u8]) -> bool {
    received.first().is_some_and(u8::is_ascii_alphabetic)
}
