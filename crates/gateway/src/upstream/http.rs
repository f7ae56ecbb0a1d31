//! HTTP/1.1 to a service: one exchange at a time on each kept connection.
//!
//! The task that serves the client also reads and writes the service's socket: no task, queue or wake-up lies between
//! the two connections, so an exchange costs one write and one read more than a response from memory.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, UPGRADE};
use http_body::Frame;
use pilotlight_supervisor::Lease;

use super::first_byte::Awaited;
use super::http1::{self, BodyLength, Decoded, Decoder, Keep, Malformed};
use super::one_try::{Kept, Try};
use super::server::Server;
use super::silence::Silence;
use super::sockets::{Connection, MAX_IDLE, Pool};
use super::turn::{self, Turn};
use super::{Failed, SendError, ServiceResponse, Upgraded, UpstreamError};
use crate::body::{CutError, ResponseBody, Source};
use crate::outbound::Outbound;
use crate::protocols::ServiceProtocol;
use crate::pump::{BodyFraming, Pump};
use crate::request_body::RequestBody;
use crate::upgrades;

/// Sends a request and waits for the head of the response. `external`: a server of somebody else's.
///
/// # Cancel safety
/// Dropping it closes the connection, which is how HTTP/1.1 tells a service that the client has gone.
pub(crate) async fn send(
    pool: &Rc<Pool>,
    external: Option<&Server<'_>>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    kept: Kept,
) -> Result<ServiceResponse, Failed> {
    let begin = |connection, body| Exchange::new(connection, outbound, body);
    turn::send(pool, external, one, outbound, body, kept, begin).await
}

struct Exchange(Turn);

impl Exchange {
    fn new(connection: Connection, outbound: &Outbound, body: Option<Box<RequestBody>>) -> Self {
        let known = outbound.head.has(&CONTENT_LENGTH);
        let chunked = body.is_some() && !known;
        let framing = if chunked { BodyFraming::Chunked } else { BodyFraming::Length };
        let mut out = BytesMut::with_capacity(1024);
        http1::encode_request_head(&mut out, outbound, chunked);
        Self(Turn::new(connection, Pump::new(out, body, framing)))
    }

    /// RFC 9110 §7.8: a service switches only to what it was asked for, and only when it has the whole request.
    fn may_switch(&self, head: &http1::ResponseHead, outbound: &Outbound) -> bool {
        let chosen = head.fields.get(&UPGRADE).zip(outbound.upgrade.as_ref());
        chosen.is_some_and(|(chosen, offered)| upgrades::is_among(chosen, offered)) && self.0.has_sent()
    }
}

impl turn::Exchange for Exchange {
    fn turn(&mut self) -> &mut Turn {
        &mut self.0
    }

    fn into_response(
        self,
        pool: &Rc<Pool>,
        head: http1::ResponseHead,
        one: &mut Try<'_>,
        outbound: &Outbound,
    ) -> Result<ServiceResponse, UpstreamError> {
        if head.status == StatusCode::SWITCHING_PROTOCOLS && !self.may_switch(&head, outbound) {
            let what = "it switched to another protocol without being asked to".to_owned();
            return Err(UpstreamError::Protocol { service: pool.service.clone(), what });
        }
        let http1::ResponseHead { status, fields, body, keep_alive } = head;
        let mut turn = self.0;
        turn.pump.forget_sent();
        let lease = one.lease.take();
        if let Some(lease) = &lease {
            lease.instance().mark_answered();
        }
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let Connection { socket, read, .. } = turn.connection;
            let upgraded = Some(Box::new(Upgraded::of_socket(socket, ServiceProtocol::Http, read, lease)));
            return Ok(ServiceResponse { status, fields, body: ResponseBody::Empty, upgraded });
        }
        // The common small response is in the buffer whole. One that came before the end of the request goes out as
        // well, and the connection, which still carries the request, is closed.
        let whole = match body {
            BodyLength::Empty => Some(Bytes::new()),
            BodyLength::Exactly(n) if n <= turn.connection.read.len() as u64 => {
                Some(turn.connection.read.split_to(n as usize).freeze())
            }
            _ => None,
        };
        if let Some(data) = whole {
            recycle(turn, pool, keep_alive);
            return Ok(ServiceResponse { status, fields, body: ResponseBody::full(data), upgraded: None });
        }
        let decoder = Decoder::new(body);
        let silence = one.first_byte.take().map(|first_byte| first_byte.then(fields.get(&CONTENT_TYPE)));
        let pool = Rc::clone(pool);
        let body = HttpBody { turn: Some(turn), decoder, keep_alive, silence, pool, lease };
        Ok(ServiceResponse { status, fields, body: ResponseBody::Streamed(Box::new(body)), upgraded: None })
    }
}

/// Keeps the connection for the next exchange if both sides are done with this one.
fn recycle(turn: Turn, pool: &Pool, keep_alive: bool) {
    turn.recycle(pool, if keep_alive { MAX_IDLE } else { 0 });
}

impl Awaited for Exchange {
    type Pool = Pool;
    type Head = http1::ResponseHead;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        pool: &Pool,
        outbound: &Outbound,
    ) -> Poll<Result<Self::Head, SendError>> {
        let service = &pool.service;
        self.0.poll_pump(cx).map_err(SendError::Client)?;
        loop {
            if !self.0.connection.read.is_empty() {
                self.0.any_byte = true;
                let table = &mut pool.fields.borrow_mut();
                let keep = if outbound.is_cached { Keep::Map } else { Keep::Lines };
                match http1::parse_response_head(&mut self.0.connection.read, &outbound.head.method, keep, table) {
                    // RFC 9110 §15.2: interim responses come before the final one.
                    Ok(Some(mut head))
                        if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS =>
                    {
                        self.0.interims.pass_on(service, outbound, head.status, head.fields.map())?;
                        if self.0.interims.is_time_to_yield() {
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                        continue;
                    }
                    Ok(Some(head)) => return Poll::Ready(Ok(head)),
                    Ok(None) => {}
                    Err(e) => return Poll::Ready(Err(protocol(service, &e).into())),
                }
            }
            match ready!(self.0.poll_fill(cx)) {
                Ok(0) => return Poll::Ready(Err(self.0.ended(service, Ok(())))),
                Ok(_) => {}
                Err(e) => return Poll::Ready(Err(self.0.ended(service, Err(e)))),
            }
        }
    }

    fn waits_for_client(&self) -> bool {
        self.0.pump.waits_for_client()
    }

    fn take_moved(&mut self) -> bool {
        self.0.pump.take_moved()
    }
}

fn protocol(service: &str, error: &Malformed) -> UpstreamError {
    UpstreamError::Protocol { service: service.to_owned(), what: error.to_string() }
}

/// The rest of a response, read as the client takes it.
pub(crate) struct HttpBody {
    turn: Option<Turn>,
    decoder: Decoder,
    keep_alive: bool,
    silence: Option<Silence>,
    pool: Rc<Pool>,
    lease: Option<Lease>,
}

impl Source for HttpBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        loop {
            let Some(turn) = &mut self.turn else { return Poll::Ready(None) };
            // The service may answer before it has read everything: both directions go on together.
            if let Err(e) = turn.poll_pump(cx) {
                return Poll::Ready(Some(Err(self.cut(&e.to_string()))));
            }
            let decoded = self.decoder.decode(&mut turn.connection.read, &mut self.pool.fields.borrow_mut());
            match decoded {
                Ok(Decoded::Data(data)) => {
                    if self.decoder.is_ended() {
                        self.end();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Decoded::Trailers(trailers)) => {
                    self.end();
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Decoded::End) => {
                    self.end();
                    return Poll::Ready(None);
                }
                Ok(Decoded::More) => {}
                Err(e) => return Poll::Ready(Some(Err(self.cut(&e.to_string())))),
            }
            let filled = turn.poll_fill(cx);
            if !matches!(filled, Poll::Ready(Ok(1..)))
                && let Some(data) = self.decoder.take_gathered()
            {
                return Poll::Ready(Some(Ok(Frame::data(data)))); // the end, or the error, is met again
            }
            let Poll::Ready(filled) = filled else {
                let pump = &mut turn.pump;
                let Some(silence) = &mut self.silence else { return Poll::Pending };
                let silent = silence.poll(cx, pump.waits_for_client(), pump.take_moved());
                return silent.map(|what| self.cut(&what)).map(|cut| Some(Err(cut)));
            };
            if let Some(silence) = &mut self.silence {
                silence.heard();
            }
            match filled {
                Ok(0) if self.decoder.closed().is_ok() => {
                    self.end();
                    return Poll::Ready(None);
                }
                Ok(0) => return Poll::Ready(Some(Err(self.cut("it closed the connection")))),
                Ok(_) => {}
                Err(e) => return Poll::Ready(Some(Err(self.cut(&e.to_string())))),
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.decoder.is_ended()
    }

    fn length(&self) -> Option<u64> {
        self.decoder.remaining()
    }
}

impl HttpBody {
    fn end(&mut self) {
        if let Some(turn) = self.turn.take() {
            recycle(turn, &self.pool, self.keep_alive);
        }
        self.lease = None;
    }

    fn cut(&mut self, what: &str) -> CutError {
        self.turn = None;
        self.lease = None;
        CutError { service: self.pool.service.clone(), what: what.to_owned() }
    }
}
