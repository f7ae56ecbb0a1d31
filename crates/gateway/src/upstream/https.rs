//! Requests to servers with TLS, by the version of HTTP that a server has chosen (ALPN) when it was first connected to,
//! until a connection says otherwise.

use std::rc::Rc;

use bytes::BytesMut;
use pilotlight_exchange::retry::Reuse;
use pilotlight_tls::Offer;

use super::one_try::{Kept, Try};
use super::secure::connect;
use super::server::{Secured, Server};
use super::sockets::{Connection, MAX_IDLE, Pool, READ_SIZE, number, place};
use super::{BodyLeft, Failed, SendError, ServiceResponse, UpstreamError, http, http2};
use crate::grpc;
use crate::options::External;
use crate::outbound::Outbound;
use crate::protocols::Spoken;
use crate::request_body::RequestBody;

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
    server: Option<&Server<'_>>,
    pools: Pools<'_>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    kept: Kept,
) -> Result<ServiceResponse, Failed> {
    let (Some(server), Some(tls)) = (server, external.tls()) else { return Err(no_server(pools.http1, body)) };
    let one_server = server.one;
    let with = |offer| Server { secured: Some(Secured { tls, host: one_server.host(), offer }), ..*server };
    let spoken = match one_server.spoken() {
        _ if outbound.upgrade.is_some() || !external.offers_http2() => Spoken::Http1,
        Spoken::Unknown => match find_out(&with(Offer::Either), pools, one).await {
            Ok(found) => {
                one_server.speaks(found);
                found
            }
            Err(error) => return Err(Failed { error, body: BodyLeft::Whole(body), reuse: Reuse::New }),
        },
        known => known,
    };
    let sent = match spoken {
        Spoken::Http2 => {
            let server = with(Offer::Http2);
            Box::pin(http2::send(pools.http2, Some(&server), one, outbound, body, kept)).await
        }
        Spoken::Http1 | Spoken::Unknown if grpc::is_grpc(&outbound.head) => {
            let what = "speaks HTTP/1.1 (ALPN), and gRPC needs HTTP/2".to_owned();
            let error = UpstreamError::Protocol { service: pools.http1.service.clone(), what };
            return Err(Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New });
        }
        Spoken::Http1 | Spoken::Unknown => {
            http::send(pools.http1, Some(&with(Offer::Http11)), one, outbound, body, kept).await
        }
    };
    // It may have been replaced by one that speaks something else.
    if matches!(&sent, Err(Failed { error: SendError::Upstream(UpstreamError::Connect { .. }), .. })) {
        one_server.speaks(Spoken::Unknown);
    }
    sent
}

/// Connects to a server that was not connected to, and keeps the connection for what it speaks.
async fn find_out(server: &Server<'_>, pools: Pools<'_>, one: &mut Try<'_>) -> Result<Spoken, SendError> {
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
