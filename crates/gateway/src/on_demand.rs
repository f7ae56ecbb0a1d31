//! Certificates on demand: a handshake for a host without a certificate waits until the gateway has one.
//!
//! The number of handshakes that wait is bounded ([`WAITING_PART`]), and so is their time ([`CERTIFICATE_WAIT`]). A
//! client that cannot wait, or whose host gets no certificate, is handled as one that asks for an unknown host.

use std::future::{pending, poll_fn};
use std::io;
use std::time::Duration;

use bytes::BytesMut;
use pilotlight_acme::OnItsWay;
use pilotlight_tls::Protocol;
use rustls::server::ClientHello;

use crate::deadline::Deadline;
use crate::handshakes::Waits;
use crate::net::Socket;
use crate::tls_socket::READ_SIZE;
use crate::worker::Worker;

/// How long a handshake waits for a certificate. An order takes some seconds. It does not count as the client's time.
const CERTIFICATE_WAIT: Duration = Duration::from_secs(20);
/// One handshake in this many of a worker may wait.
const WAITING_PART: usize = 4;

/// A certificate that a client waits for.
pub(crate) struct Demanded<'a> {
    on_its_way: OnItsWay,
    /// What the client has for its part of the handshake.
    timeout: Duration,
    _waits: Waits<'a>,
}

/// The certificate that a client has to wait for. `None`: there is nothing to wait for, or too many wait.
pub(crate) fn demanded<'a>(worker: &'a Worker, hello: &ClientHello<'_>) -> Option<Demanded<'a>> {
    let common = &worker.common;
    if !common.issuers.is_on_demand() {
        return None;
    }
    let host = hello.server_name()?;
    // An authority that validates (RFC 8737 §3) waits for nothing.
    if hello.alpn().is_some_and(|mut offered| offered.any(|name| name == Protocol::AcmeChallenge.name())) {
        return None;
    }
    let table = common.table.load();
    let on_its_way = common.issuers.demand(host, || table.takes_unnamed(host))?;
    let _waits = worker.handshakes.wait((worker.max_handshakes() / WAITING_PART).max(1))?;
    Some(Demanded { on_its_way, timeout: table.settings().limits.handshake_timeout, _waits })
}

impl Demanded<'_> {
    /// Waits until the host has a certificate, or gets none. What the client sends meanwhile is put behind `received`.
    ///
    /// # Errors
    /// The client has closed the connection.
    ///
    /// # Cancel safety
    /// Safe: the order goes on.
    pub(crate) async fn await_certificate(
        self,
        socket: &mut Socket,
        received: &mut BytesMut,
        deadline: &Deadline,
    ) -> Result<(), io::Error> {
        deadline.set(CERTIFICATE_WAIT + self.timeout);
        let waited = tokio::select! {
            biased;
            () = self.on_its_way.settled() => Ok(()),
            gone = gone(socket, received) => Err(gone),
            () = tokio::time::sleep(CERTIFICATE_WAIT) => Ok(()),
        };
        deadline.set(self.timeout);
        waited
    }
}

/// Waits until the client closes the connection. After its hello a client sends nothing before the server has answered
/// but a record for old middleboxes (RFC 8446 §D.4) and early data; of a client that has sent one the close goes
/// unseen.
async fn gone(socket: &mut Socket, received: &mut BytesMut) -> io::Error {
    received.reserve(READ_SIZE);
    match poll_fn(|cx| socket.poll_read_buf(cx, received)).await {
        Ok(0) => io::ErrorKind::UnexpectedEof.into(),
        Ok(_) => pending().await,
        Err(error) => error,
    }
}
