//! Pipe/1 to the services of one worker: which connection carries a request, and what becomes of its answer.
//!
//! A request that is complete and fits one frame goes on the *shared* connection; any other on an *own* connection,
//! asked for with MORE when none is idle. The answer comes back where the request went, or on an *answer* connection.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use pilotlight_exchange::retry::Reuse;
use pilotlight_pipe::frame::flags;
use pilotlight_pipe::head::{HeadError, decode_info, decode_response};
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::session::{AnswerPart, Part, ProtocolError};

use super::first_byte::FirstByte;
use super::one_try::Try;
use super::{BodyLeft, Delivery, Failed, SendError, ServiceResponse, UpstreamError, closed};
use crate::outbound::Outbound;
use crate::request_body::RequestBody;

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
use stream::{Stream, StreamError};

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
                Ok(Reply { status, headers, first: body, rest: None, left: None })
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

async fn send_own(
    link: &Link,
    peer: &Rc<Peer<Stream>>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    first_byte: &FirstByte,
) -> Result<Reply, Unsent> {
    let end = if body.is_some() { flags::NONE } else { flags::END };
    let Some(mut frame) = frames::request_frame(outbound, end, b"") else {
        let what =
            "cannot be told of this request: its fields do not fit a frame of 65,536 bytes; lower limits.header_size";
        let error = UpstreamError::Protocol { service: peer.service.clone(), what: what.to_owned() };
        return Err(Unsent { error: error.into(), body: Some(BodyLeft::Whole(body)) });
    };
    let (socket, read) = match peer.own(&link.service).await {
        Ok(own) => own,
        Err(error) => return Err(Unsent { error, body: Some(BodyLeft::Whole(body)) }),
    };
    let Some(exchange) = peer.shared.begin_own() else {
        peer.own_is_idle(socket, read);
        let error = UpstreamError::Protocol { service: peer.service.clone(), what: "has no exchange id left".into() };
        return Err(Unsent { error: error.into(), body: Some(BodyLeft::Whole(body)) });
    };
    frames::complete(&mut frame, exchange, first_byte.left());
    let stream = Box::new(Stream::own(socket, read, Rc::clone(peer), exchange, frame, body));
    read_head(peer, stream, outbound, first_byte).await.map_err(|(error, left)| Unsent { error, body: Some(left) })
}

/// Waits for RESPONSE on a stream.
async fn read_head(
    peer: &Rc<Peer<Stream>>,
    stream: Box<Stream>,
    outbound: &Outbound,
    first_byte: &FirstByte,
) -> Result<Reply, (SendError, BodyLeft)> {
    let service = &peer.service;
    let mut stream = CancelOnDrop(Some(stream));
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
            AnswerPart::Info => match decode_info(payload) {
                Ok((status, headers)) => {
                    if let Some(client) = &outbound.interim {
                        client.send_interim(status, &headers);
                    }
                }
                Err(e) => {
                    let error = ProtocolError::from(e);
                    return Err(stream.failed(service, StreamError::Protocol(error)));
                }
            },
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
                return Ok(stream.reply(Reply { status, headers, first, rest: None, left }, part));
            }
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
