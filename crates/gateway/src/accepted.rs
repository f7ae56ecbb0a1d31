//! What becomes of a connection that was accepted: its handshake if it has TLS, then what is spoken there.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use pilotlight_tls::Protocol;
use rustls::HandshakeKind;

use crate::client_socket::ClientSocket;
use crate::connection;
use crate::handshake::{HandshakeError, Place, shake_hands};
use crate::http2;
use crate::net::Socket;
use crate::options::ListenAddr;
use crate::peer_address::{self, Entrance, PeerAddress};
use crate::proxied;
use crate::strangers::Stranger;
use crate::target::Scheme;
use crate::worker::Worker;

/// Most bytes of a client's certificate: services are told it with each request, whose head has to fit one frame of
/// Pipe/1.
const MAX_CERTIFICATE: usize = 4 * 1024;

/// Whether a listener has TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    Plain,
    Tls,
}

impl Security {
    pub(crate) fn of(address: &ListenAddr) -> Self {
        match address {
            ListenAddr::Tls(_) => Self::Tls,
            ListenAddr::Tcp(_) | ListenAddr::Unix(_) => Self::Plain,
        }
    }
}

/// A connection that was accepted.
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    /// `address:port`, or empty.
    pub(crate) peer: String,
    /// The port of the listener, if it has one.
    pub(crate) port: Option<u16>,
    /// That of its handshake, if it has TLS.
    pub(crate) place: Option<Place>,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(worker: &Rc<Worker>, accepted: Accepted) {
    let Accepted { mut socket, peer, port, place } = accepted;
    // What a load balancer says of the client stands before anything that the client says.
    let Some(peer) = proxied::client_of(worker, &mut socket, peer).await else { return };
    if worker.common.floods.refuses(|| peer_address::ip_of(&peer), Instant::now) {
        return; // said when it began
    }
    match place {
        None => {
            let peer = PeerAddress::of(&peer, Entrance { scheme: Scheme::Http, port }, None);
            connection::serve(worker, ClientSocket::Plain(socket), peer).await;
        }
        // In a box, so that a plain connection does not have the room for it.
        Some(place) => Box::pin(serve_tls(worker, Accepted { socket, peer, port, place: None }, place)).await,
    }
}

async fn serve_tls(worker: &Rc<Worker>, accepted: Accepted, place: Place) {
    let Accepted { socket, peer, port, .. } = accepted;
    let counters = &worker.common.metrics.connections[worker.index];
    let (socket, protocol) = match shake_hands(worker, socket, place).await {
        Ok(done) => done,
        Err(e) => {
            if !matches!(e, HandshakeError::Stopping) {
                counters.failed_handshakes.add(1);
            }
            if matches!(e, HandshakeError::ProxyHeader) {
                worker.common.strangers.name(&peer, Stranger::ProxyHeader);
            }
            tracing::debug!(peer, "no TLS: {e}");
            return;
        }
    };
    match socket.handshake_kind() {
        Some(HandshakeKind::Resumed) => counters.resumed_handshakes.add(1),
        _ => counters.full_handshakes.add(1),
    }
    let certificate = socket.client_certificate();
    if certificate.is_some_and(|der| der.len() > MAX_CERTIFICATE) {
        tracing::warn!(peer, "a client's certificate has more than {MAX_CERTIFICATE} bytes; its connection is closed");
        return;
    }
    let certificate = certificate.map(|der| STANDARD.encode(der).into());
    let peer = PeerAddress::of(&peer, Entrance { scheme: Scheme::Https, port }, certificate);
    match protocol {
        Protocol::Http11 => connection::serve(worker, ClientSocket::Tls(socket), peer).await,
        Protocol::Http2 => {
            let settings = Arc::clone(worker.common.table.load().settings());
            http2::serve(worker, ClientSocket::Tls(socket), BytesMut::new(), peer, settings).await;
        }
        Protocol::AcmeChallenge => ClientSocket::Tls(socket).say_end(),
    }
}
