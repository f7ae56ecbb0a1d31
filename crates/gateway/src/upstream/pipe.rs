//! Pipe/1 to the services of one worker: which connection carries a request, and what becomes of its answer.
//!
//! A request that is complete and fits one frame goes on the *shared* connection; any other on an *own* connection,
//! asked for with MORE when none is idle. The answer comes back where the request went, or on an *answer* connection.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue, UPGRADE};
use pilotlight_exchange::retry::Reuse;
use pilotlight_pipe::frame::flags;
use pilotlight_pipe::head::{HeadError, decode_info, decode_response, decode_switch};
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::session::{AnswerPart, Part, ProtocolError};

use super::first_byte::FirstByte;
use super::interims::Interims;
use super::one_try::Try;
use super::{BodyLeft, Delivery, Failed, SendError, ServiceResponse, UpstreamError, closed};
use crate::outbound::Outbound;
use crate::request_body::RequestBody;
use crate::upgrades;

mod body;
mod frames;
pub(crate) mod link;
mod peer;
mod reply;
mod shared;
mod shared_state;
mod stream;

use link::Link;
use peer::Peer;
use reply::Reply;
use shared::BeginError;
use shared_state::{AnswerStream, ExchangeEnd};
use stream::{Begin, Stream, StreamError};

/// Sends a request and waits for the head of the answer.
///
/// # Cancel safety
/// Dropping it cancels the exchange: the service gets RESET(CANCELLED).
pub(crate) async fn send(
    link: &Link,
    one: &mut Try<'_>,
    outbound: &Outbound,
    mut body: Option<Box<RequestBody>>,
) -> Result<ServiceResponse, Failed> {
    let service = link.service.name();
    let (Some(lease), Some(first_byte)) = (&*one.lease, &*one.first_byte) else {
        // Not reachable: a place is taken first.
        let error = closed(service, "was not waited for", Delivery::No);
        return Err(Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New });
    };
    first_byte.service_turn();
    let sent = first_byte.within(async {
        let peer = link.reach(lease).await?;
        if let (Some(offer), None) = (&outbound.upgrade, &body)
            && peer.may_switch()
        {
            return offer_switch(link, &peer, outbound, offer, first_byte).await;
        }
        let whole = match &body {
            None => Some(&[][..]),
            Some(body) => body.held().map(|held| &held[..]),
        };
        let whole = whole.and_then(|whole| frames::request_frame(outbound, flags::END, whole));
        match whole {
            Some(frame) if peer.shared.takes_exchanges() => send_shared(link, &peer, frame, outbound, first_byte).await,
            _ => send_own(link, &peer, outbound, body.take(), first_byte).await,
        }
    });
    let Some(sent) = sent.await else {
        return Err(Failed { error: first_byte.over(service).into(), body: BodyLeft::Spent, reuse: Reuse::New });
    };
    match sent {
        Ok(reply) => Ok(reply.into_response(service, one)),
        Err(Unsent { error, body: left }) => {
            let body = match (left, body) {
                (Some(left), _) => left,
                (None, body) => BodyLeft::Whole(body.map(|mut body| {
                    body.rewind();
                    body
                })),
            };
            Err(Failed { error, body, reuse: Reuse::New })
        }
    }
}

struct Unsent {
    error: SendError,
    /// `None`: the caller still has it.
    body: Option<BodyLeft>,
}

impl From<UpstreamError> for Unsent {
    fn from(error: UpstreamError) -> Self {
        Self { error: error.into(), body: None }
    }
}

async fn send_shared(
    link: &Link,
    peer: &Rc<Peer<Stream>>,
    mut frame: BytesMut,
    outbound: &Outbound,
    first_byte: &FirstByte,
) -> Result<Reply, Unsent> {
    let service = &peer.service;
    let mut waiting = match peer.shared.begin(&link.service, &mut frame, first_byte).await {
        Ok(waiting) => waiting,
        Err(BeginError::Queue(error)) => return Err(Unsent { error: SendError::Start(error), body: None }),
        Err(BeginError::Ended(why)) => return Err(closed(service, &why, Delivery::No).into()),
    };
    let outcome = poll_fn(|cx| match waiting.poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => first_byte.poll_over(cx).map(|()| None),
    })
    .await;
    match outcome {
        Some(ExchangeEnd::Response(payload)) => match decode_response(payload) {
            Ok((status, mut headers, body)) => {
                let length = frames::body_length(&outbound.head.method, status, &mut headers)
                    .map_err(|e| unusable(service, e))?;
                if length.is_some_and(|length| length != body.len() as u64) {
                    return Err(wrong_length(service).into());
                }
                Ok(Reply { status, headers, first: body, rest: None, left: None, switched: None })
            }
            Err(e) => Err(bad_head(peer, e).into()),
        },
        Some(ExchangeEnd::Reset(reset)) => Err(frames::reset_error(service, reset).into()),
        Some(ExchangeEnd::Answer(stream)) => {
            // The request was sent whole, so the caller still has its body.
            let head = read_head(peer, stream, outbound, first_byte).await;
            head.map_err(|(error, _)| Unsent { error, body: None })
        }
        Some(ExchangeEnd::Lost(why, delivery)) => Err(closed(service, &why, delivery).into()),
        None => {
            waiting.cancel(ResetCode::Deadline); // P-28
            Err(first_byte.over(service).into())
        }
    }
}

/// Sends a request that the service may answer by a switch to another protocol (spec §12).
async fn offer_switch(
    link: &Link,
    peer: &Rc<Peer<Stream>>,
    outbound: &Outbound,
    offer: &HeaderValue,
    first_byte: &FirstByte,
) -> Result<Reply, Unsent> {
    let Some(frame) = frames::request_frame(outbound, flags::END | flags::UPGRADE, b"") else {
        return Err(too_large(peer).into());
    };
    let stream = begin_own(link, peer, first_byte, OwnRequest { frame, begin: Begin::Offer }).await;
    let stream = stream.map_err(|(error, _)| Unsent { error, body: None })?;
    let reply = read_head(peer, stream, outbound, first_byte).await;
    let mut reply = reply.map_err(|(error, _)| Unsent { error, body: None })?;
    let is_chosen = |chosen: &HeaderValue| upgrades::is_among(chosen.as_bytes(), offer);
    // P-40. Dropped, the connection is closed.
    if reply.switched.is_some() && !reply.headers.get(UPGRADE).is_some_and(is_chosen) {
        reply.switched = None;
        let what = "P-40: it switched to a protocol that was not offered".to_owned();
        return Err(UpstreamError::Protocol { service: peer.service.clone(), what }.into());
    }
    Ok(reply)
}

async fn send_own(
    link: &Link,
    peer: &Rc<Peer<Stream>>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    first_byte: &FirstByte,
) -> Result<Reply, Unsent> {
    let end = if body.is_some() { flags::NONE } else { flags::END };
    let Some(frame) = frames::request_frame(outbound, end, b"") else {
        return Err(Unsent { error: too_large(peer).into(), body: Some(BodyLeft::Whole(body)) });
    };
    let stream = begin_own(link, peer, first_byte, OwnRequest { frame, begin: Begin::Request(body) }).await;
    let stream = stream.map_err(|(error, begin)| Unsent { error, body: Some(BodyLeft::Whole(begin.into_body())) })?;
    read_head(peer, stream, outbound, first_byte).await.map_err(|(error, left)| Unsent { error, body: Some(left) })
}

/// What is sent on an own connection.
struct OwnRequest {
    /// As [`frames::request_frame`] makes it.
    frame: BytesMut,
    begin: Begin,
}

/// Begins an exchange on an own connection, when there is one.
async fn begin_own(
    link: &Link,
    peer: &Rc<Peer<Stream>>,
    first_byte: &FirstByte,
    request: OwnRequest,
) -> Result<Box<Stream>, (SendError, Begin)> {
    let OwnRequest { mut frame, begin } = request;
    let (socket, read) = match peer.own(&link.service).await {
        Ok(own) => own,
        Err(error) => return Err((error, begin)),
    };
    let Some(exchange) = peer.shared.begin_own() else {
        peer.own_is_idle(socket, read);
        let error = UpstreamError::Protocol { service: peer.service.clone(), what: "has no exchange id left".into() };
        return Err((error.into(), begin));
    };
    frames::complete(&mut frame, exchange, first_byte.left());
    Ok(Box::new(Stream::own(socket, read, Rc::clone(peer), exchange, frame, begin)))
}

fn too_large(peer: &Peer<Stream>) -> UpstreamError {
    let what =
        "cannot be told of this request: its fields do not fit a frame of 65,536 bytes; lower limits.header_size";
    UpstreamError::Protocol { service: peer.service.clone(), what: what.to_owned() }
}

/// Waits for RESPONSE on a stream.
async fn read_head(
    peer: &Rc<Peer<Stream>>,
    stream: Box<Stream>,
    outbound: &Outbound,
    first_byte: &FirstByte,
) -> Result<Reply, (SendError, BodyLeft)> {
    let service = &peer.service;
    let (mut stream, mut interims) = (CancelOnDrop(Some(stream)), Interims::default());
    loop {
        let part = poll_fn(|cx| match stream.poll_part(cx) {
            Poll::Ready(part) => Poll::Ready(Some(part)),
            Poll::Pending => {
                stream.turn(first_byte);
                first_byte.poll_over(cx).map(|()| None)
            }
        })
        .await;
        let (part, payload) = match part {
            None => {
                stream.cancel(ResetCode::Deadline);
                return Err((first_byte.over_for(service), BodyLeft::Spent));
            }
            Some(Ok(Some(part))) => part,
            Some(Ok(None)) => return Err((closed(service, "cancelled", Delivery::Maybe).into(), BodyLeft::Spent)),
            Some(Err(error)) => return Err(stream.failed(service, error)),
        };
        match part {
            AnswerPart::Info => {
                let info = decode_info(payload).map_err(|e| stream.failed(service, StreamError::Protocol(e.into())));
                let (status, headers) = info?;
                let passed = interims.pass_on(service, outbound, status, &headers);
                passed.map_err(|error| (error.into(), BodyLeft::Spent))?;
                if interims.is_time_to_yield() {
                    tokio::task::yield_now().await;
                }
            }
            AnswerPart::Response(part) => {
                let (status, mut headers, first) = match decode_response(payload) {
                    Ok(head) => head,
                    Err(e) => {
                        let error = ProtocolError::from(e);
                        return Err(stream.failed(service, StreamError::Protocol(error)));
                    }
                };
                let left = match frames::body_length(&outbound.head.method, status, &mut headers) {
                    Ok(left) => left,
                    Err(e) => {
                        stream.cancel(ResetCode::Cancelled);
                        return Err((unusable(service, e).into(), BodyLeft::Spent));
                    }
                };
                if part == Part::Last && left.is_some_and(|left| left != first.len() as u64) {
                    return Err(stream.refused(wrong_length(service)));
                }
                return Ok(stream.reply(Reply { status, headers, first, rest: None, left, switched: None }, part));
            }
            AnswerPart::Switched => return stream.switched(service, decode_switch(payload)),
            AnswerPart::Reset => {
                let reset = Reset::parse(&payload).unwrap_or_else(|e| Reset::new(ResetCode::Internal, e.to_string()));
                return Err(stream.refused(frames::reset_error(service, reset)));
            }
            AnswerPart::Data(_) | AnswerPart::Trailers => {
                // Not reachable: the session lets nothing of the kind come before RESPONSE.
                return Err((closed(service, "sent a body without a head", Delivery::Maybe).into(), BodyLeft::Spent));
            }
        }
    }
}

/// A stream whose exchange is cancelled if nobody takes it.
struct CancelOnDrop(Option<Box<Stream>>);

impl CancelOnDrop {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<(AnswerPart, Bytes)>, StreamError>> {
        match &mut self.0 {
            Some(stream) => stream.poll_part(cx),
            None => Poll::Pending,
        }
    }

    /// Whose turn it is while the request's body is being sent.
    fn turn(&mut self, first_byte: &FirstByte) {
        if let Some(stream) = &mut self.0 {
            first_byte.turn(stream.waits_for_client(), stream.take_moved());
        }
    }

    fn cancel(&mut self, code: ResetCode) {
        if let Some(stream) = self.0.take() {
            stream.cancel(code);
        }
    }

    fn failed(&mut self, service: &str, error: StreamError) -> (SendError, BodyLeft) {
        let Some(mut stream) = self.0.take() else {
            return (closed(service, "is gone", Delivery::Maybe).into(), BodyLeft::Spent);
        };
        let left = stream.reclaim();
        match error {
            StreamError::Client(e) => {
                stream.cancel(ResetCode::Cancelled);
                (SendError::Client(e), BodyLeft::Spent)
            }
            StreamError::Closed(why, delivery) => (closed(service, &why, delivery).into(), left),
            StreamError::Protocol(e) => {
                let what = e.to_string();
                stream.fault(&e);
                (UpstreamError::Protocol { service: service.to_owned(), what }.into(), BodyLeft::Spent)
            }
        }
    }

    /// RESET is a final frame: the stream comes to rest, the body may be sent elsewhere if none of it has gone.
    fn refused(&mut self, error: UpstreamError) -> (SendError, BodyLeft) {
        let Some(mut stream) = self.0.take() else { return (error.into(), BodyLeft::Spent) };
        let left = stream.reclaim();
        stream.finish();
        (error.into(), left)
    }

    /// The connection has left the protocol behind this head.
    fn switched(
        mut self,
        service: &str,
        headers: Result<HeaderMap, HeadError>,
    ) -> Result<Reply, (SendError, BodyLeft)> {
        let switched = self.0.take().map(|stream| stream.into_switched());
        match headers {
            Ok(headers) => {
                let status = StatusCode::SWITCHING_PROTOCOLS;
                Ok(Reply { status, headers, first: Bytes::new(), rest: None, left: None, switched })
            }
            // P-40: dropped here, the connection is closed.
            Err(error) => {
                let what = error.to_string();
                Err((UpstreamError::Protocol { service: service.to_owned(), what }.into(), BodyLeft::Spent))
            }
        }
    }

    fn reply(mut self, head: Reply, part: Part) -> Reply {
        let mut rest = self.0.take();
        if part == Part::Last
            && let Some(stream) = rest.take()
        {
            stream.finish();
        }
        Reply { rest, ..head }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.cancel(ResetCode::Cancelled);
    }
}

fn wrong_length(service: &str) -> UpstreamError {
    let what = "the answer's content-length is not the length of its body".to_owned();
    UpstreamError::Protocol { service: service.to_owned(), what }
}

fn unusable(service: &str, error: frames::BadHead) -> UpstreamError {
    UpstreamError::Protocol { service: service.to_owned(), what: error.to_string() }
}

fn bad_head(peer: &Peer<Stream>, error: HeadError) -> UpstreamError {
    let what = error.to_string();
    peer.shared.fault(&ProtocolError::from(error));
    UpstreamError::Protocol { service: peer.service.clone(), what }
}
