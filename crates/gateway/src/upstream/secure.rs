//! TLS to servers that somebody else runs, and which version of HTTP is spoken behind it: the one that a server has
//! chosen (ALPN) when it was first connected to, until a connection says otherwise.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use pilotlight_exchange::retry::Reuse;
use pilotlight_supervisor::Service;
use pilotlight_tls::{Offer, ServerTls, refused};
use rustls::ClientConnection;

use super::one_try::{Kept, Try};
use super::server::{Announced, Server};
use super::sockets::{Connection, MAX_IDLE, Pool, READ_SIZE, number, place};
use super::{BodyLeft, Failed, SendError, ServiceResponse, UpstreamError, backlog, http, http2};
use crate::client_socket::ServerSocket;
use crate::grpc;
use crate::net::{Destination, Socket};
use crate::options::{External, ExternalAddr};
use crate::outbound::Outbound;
use crate::protocols::Spoken;
use crate::request_body::RequestBody;
use crate::tls_socket::TlsSocket;

/// How a server is spoken to with TLS.
#[derive(Clone, Copy)]
pub(crate) struct Secured<'a> {
    pub(crate) tls: Result<&'a ServerTls, &'a str>,
    /// The host of its address, whose name its certificate has unless the settings say another.
    pub(crate) host: &'a str,
    pub(crate) offer: Offer,
}

/// Connects, behind a header of the PROXY protocol and with TLS if they are to be.
///
/// # Cancel safety
/// Dropping it closes the connection.
pub(super) async fn connect(
    place: Destination<'_>,
    server: Option<Server<'_>>,
    name: &str,
    service: Option<&Arc<Service>>,
) -> Result<ServerSocket, SendError> {
    let mut socket = backlog::connect(place, name, service).await?;
    let Some(server) = server else { return Ok(ServerSocket::Plain(socket)) };
    if let Some(announced) = server.announced {
        announce(&mut socket, announced).await.map_err(|e| {
            let cause = format!("its connection takes no PROXY header: {e}");
            UpstreamError::Connect { service: name.to_owned(), place: place.to_string(), cause }
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
        UpstreamError::Connect { service: name.to_owned(), place: place.to_string(), cause }.into()
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

/// One worker's connections to one service with TLS.
#[derive(Clone, Copy)]
pub(crate) struct Pools<'a> {
    pub(crate) http1: &'a Rc<Pool>,
    pub(crate) http2: &'a Rc<http2::Pool>,
}

/// Sends a request to a server by what it speaks, and waits for the head of the response. What switches to another
/// protocol goes by HTTP/1.1, as few servers take that by HTTP/2.
///
/// # Cancel safety
/// Dropping it tells the server that the client has gone.
pub(crate) async fn send(
    external: &External,
    server: Option<Server<'_>>,
    pools: Pools<'_>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    kept: Kept,
) -> Result<ServiceResponse, Failed> {
    let (Some(server), Some(tls)) = (server, external.tls()) else { return Err(no_server(pools.http1, body)) };
    let host = match server.addr {
        ExternalAddr::Tcp(host, _) => host,
        ExternalAddr::Unix(_) => "localhost",
    };
    let with = |offer| Server { secured: Some(Secured { tls, host, offer }), ..server };
    let index = server.index;
    let spoken = match external.spoken(index) {
        _ if outbound.upgrade.is_some() || !external.offers_http2() => Spoken::Http1,
        Spoken::Unknown => match find_out(with(Offer::Either), pools, one).await {
            Ok(found) => {
                external.speaks(index, found);
                found
            }
            Err(error) => return Err(Failed { error, body: BodyLeft::Whole(body), reuse: Reuse::New }),
        },
        known => known,
    };
    let sent = match spoken {
        Spoken::Http2 => Box::pin(http2::send(pools.http2, Some(with(Offer::Http2)), one, outbound, body, kept)).await,
        Spoken::Http1 | Spoken::Unknown if grpc::is_grpc(&outbound.head) => {
            let what = "speaks HTTP/1.1 (ALPN), and gRPC needs HTTP/2".to_owned();
            let error = UpstreamError::Protocol { service: pools.http1.service.clone(), what };
            return Err(Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New });
        }
        Spoken::Http1 | Spoken::Unknown => {
            http::send(pools.http1, Some(with(Offer::Http11)), one, outbound, body, kept).await
        }
    };
    // It may have been replaced by one that speaks something else.
    if matches!(&sent, Err(Failed { error: SendError::Upstream(UpstreamError::Connect { .. }), .. })) {
        external.speaks(index, Spoken::Unknown);
    }
    sent
}

/// Connects to a server that was not connected to, and keeps the connection for what it speaks.
async fn find_out(server: Server<'_>, pools: Pools<'_>, one: &mut Try<'_>) -> Result<Spoken, SendError> {
    let (pool, number) = (pools.http1, number(None, Some(server)));
    let (Some(place), Some(first_byte)) = (place(None, Some(server)), &*one.first_byte) else {
        return Err(UpstreamError::Protocol { service: pool.service.clone(), what: "was not waited for".into() }.into());
    };
    first_byte.service_turn();
    let connecting = async {
        let socket = connect(place, Some(server), &pool.service, None).await?;
        if socket.protocol() == Some(b"h2") {
            pools.http2.begin(socket, number).await?;
            return Ok(Spoken::Http2);
        }
        let read = BytesMut::with_capacity(READ_SIZE);
        pool.give_back(Connection { socket, read, instance: number, is_of_one: false }, MAX_IDLE);
        Ok(Spoken::Http1)
    };
    let found = Box::pin(first_byte.within(connecting)).await;
    found.unwrap_or_else(|| Err(first_byte.over(&pool.service).into()))
}

/// Not reachable: a place is one of a server.
fn no_server(pool: &Pool, body: Option<Box<RequestBody>>) -> Failed {
    let error = UpstreamError::Protocol { service: pool.service.clone(), what: "has no server".to_owned() };
    Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New }
}
