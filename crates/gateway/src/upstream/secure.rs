//! Connections to services: behind a header of the PROXY protocol and with TLS where a server is to have them.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use pilotlight_supervisor::Service;
use pilotlight_tls::refused;
use rustls::ClientConnection;

use super::server::{Announced, Secured, Server};
use super::{CameTo, SendError, UpstreamError, backlog};
use crate::client_socket::ServerSocket;
use crate::net::{Destination, Socket};
use crate::tls_socket::TlsSocket;

/// Connects, behind a header of the PROXY protocol and with TLS if they are to be.
///
/// # Cancel safety
/// Dropping it closes the connection.
pub(super) async fn connect(
    place: Destination<'_>,
    server: Option<&Server<'_>>,
    name: &str,
    service: Option<&Arc<Service>>,
) -> Result<ServerSocket, SendError> {
    let mut socket = backlog::connect(place, name, service).await?;
    let Some(server) = server else { return Ok(ServerSocket::Plain(socket)) };
    if let Some(announced) = server.announced {
        announce(&mut socket, announced).await.map_err(|e| {
            let cause = format!("its connection takes no PROXY header: {e}");
            let (service, place) = (name.to_owned(), place.to_string());
            UpstreamError::Connect { service, place, cause, came: CameTo::Server }
        })?;
    }
    let Some(secured) = server.secured else { return Ok(ServerSocket::Plain(socket)) };
    let shaken = match place {
        Destination::External(_, Some(limit)) => tokio::time::timeout(limit, shake_hands(socket, secured))
            .await
            .unwrap_or_else(|_| Err(format!("no TLS within {} s", limit.as_secs_f32()))),
        _ => shake_hands(socket, secured).await,
    };
    shaken.map(|tls| ServerSocket::Tls(Box::new(tls))).map_err(|cause| {
        let cause = format!("TLS: {cause}");
        let (service, place) = (name.to_owned(), place.to_string());
        UpstreamError::Connect { service, place, cause, came: CameTo::Server }.into()
    })
}

/// Says whose the connection is. Where the client was connected to is not known here: the server's own address stands
/// for it.
async fn announce(socket: &mut Socket, Announced { version, client }: Announced) -> io::Result<()> {
    let client = client.zip(socket.peer_address());
    let mut header = BytesMut::from(&pilotlight_proxy_protocol::write(version, client)[..]);
    poll_fn(|cx| socket.poll_write_all(cx, &mut header)).await
}

async fn shake_hands(socket: Socket, secured: Secured<'_>) -> Result<TlsSocket<ClientConnection>, String> {
    let tls = secured.tls?;
    let no_name = || format!("no certificate can be for {}: name another in `tls.server_name`", secured.host);
    let (config, name) = tls.handshake(secured.host, secured.offer).ok_or_else(no_name)?;
    let tls = ClientConnection::new(config, name.clone()).map_err(|e| e.to_string())?;
    let mut socket = TlsSocket::new(socket, tls, BytesMut::new());
    let broken = |e: io::Error| format!("the connection broke in the handshake ({e})");
    let mut processed = socket.process();
    loop {
        // Our part of the handshake, or an alert.
        let flushed = poll_fn(|cx| socket.poll_flush_sealed(cx)).await;
        processed.map_err(|error| refused(&error, &name))?;
        flushed.map_err(broken)?;
        if !socket.is_handshaking() {
            return Ok(socket);
        }
        if poll_fn(|cx| socket.poll_receive(cx)).await.map_err(broken)? == 0 {
            return Err("it closed the connection in the handshake".to_owned());
        }
        processed = socket.process();
    }
}
