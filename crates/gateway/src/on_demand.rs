//! Certificates on demand: a handshake for a host that has none waits for the one that is had for it.
//!
//! How many wait is bounded ([`WAITING_PART`] of a worker's handshakes), and so is how long ([`CERTIFICATE_WAIT`]). Who
//! cannot wait, or has waited for nothing, gets what any client gets that asks for an unknown host.

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
/// The part of a worker's handshakes that may wait: one of so many.
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
    /// The client has gone.
    ///
    /// # Cancel safety
    /// Safe: the certificate is had all the same.
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

/// Waits until the client has gone. Behind its hello it says nothing before it is answered, but for a word for old
/// middleboxes (RFC 8446 §D.4) and early data: whoever sends that is not watched any more.
async fn gone(socket: &mut Socket, received: &mut BytesMut) -> io::Error {
    received.reserve(READ_SIZE);
    match poll_fn(|cx| socket.poll_read_buf(cx, received)).await {
        Ok(0) => io::ErrorKind::UnexpectedEof.into(),
        Ok(_) => pending().await,
        Err(error) => error,
    }
}
