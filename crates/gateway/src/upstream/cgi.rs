//! FastCGI, SCGI and uwsgi to a service: one exchange at a time on each connection.
//!
//! ```text
//!  socket ──raw──▶ records ──▶ standard output ──▶ head │ body ──▶ client
//!                         └──▶ standard error ──▶ the service's log
//! ```
//!
//! A request ends with `FCGI_END_REQUEST`, or with the connection where there are no records: until then the program is
//! busy with it, so the place at its instance is kept that long, however early the client has all bytes.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http_body::Frame;
use pilotlight_cgi::{HeadReader, Protocol, ProtocolStatus};
use pilotlight_supervisor::Lease;

use super::first_byte::Awaited;
use super::http1::{self, BodyLength, Keep, ResponseHead};
use super::one_try::{Kept, Try};
use super::server::Server;
use super::silence::Silence;
use super::sockets::{Connection, Pool};
use super::turn::{self, Turn};
use super::{BodyLeft, Failed, SendError, ServiceResponse, UpstreamError};
use crate::body::{CutError, ResponseBody, Source};
use crate::options::CgiOptions;
use crate::outbound::Outbound;
use crate::request_body::RequestBody;
use pilotlight_exchange::retry::Reuse;
use reader::Reader;
use talk::Talk;

mod reader;
mod request;
mod talk;

/// What is said to a client that may come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The service that is spoken to.
#[derive(Clone, Copy)]
pub(crate) struct To<'a> {
    pub(crate) pool: &'a Rc<Pool>,
    pub(crate) protocol: Protocol,
    pub(crate) options: Option<&'a CgiOptions>,
    /// A server of somebody else's.
    pub(crate) external: Option<&'a Server<'a>>,
}

/// Sends a request and waits for the head of the response.
///
/// # Cancel safety
/// Dropping it closes the connection, over FastCGI behind `FCGI_ABORT_REQUEST`: so the program hears of it.
pub(crate) async fn send(
    to: To<'_>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    kept: Kept,
) -> Result<ServiceResponse, Failed> {
    let To { pool, protocol, options, external } = to;
    let keep = options.filter(|_| protocol == Protocol::FastCgi).map_or(0, |options| options.keep_connections);
    let out = match request::encode(to, outbound, body.as_deref(), keep) {
        Ok(out) => out,
        Err(error) => return Err(Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New }),
    };
    let kept = if keep == 0 { Kept::IsNotUsed } else { kept };
    let begin = |connection: Connection, body| {
        let reader = Reader::new(protocol, pool, connection.instance);
        Exchange { talk: Talk::new(connection, out, body, reader, keep), head: HeadReader::new(), empty: None }
    };
    turn::send(pool, external, one, outbound, body, kept, begin).await
}

struct Exchange {
    talk: Talk,
    head: HeadReader,
    /// The head of a response without a body, which is given out when the request has ended.
    empty: Option<ResponseHead>,
}

impl Exchange {
    /// The head, if it is whole; that of a response without a body with its end.
    fn take_head(&mut self, pool: &Pool, outbound: &Outbound) -> Result<Option<ResponseHead>, UpstreamError> {
        let Talk { turn, reader, .. } = &mut self.talk;
        let protocol = |what: String| UpstreamError::Protocol { service: pool.service.clone(), what };
        reader.take(&mut turn.connection.read).map_err(|e| protocol(e.to_string()))?;
        if self.empty.is_none() {
            let mut lines = BytesMut::new();
            let length = self.head.read(&reader.stdout, &mut lines).map_err(|e| protocol(e.to_string()))?;
            let Some(length) = length else { return self.unanswered(pool).map_or(Ok(None), Err) };
            let keep = if outbound.is_cached { Keep::Map } else { Keep::Lines };
            let table = &mut pool.fields.borrow_mut();
            let head = http1::parse_response_head(&mut lines, &outbound.head.method, keep, table);
            let head = head.map_err(|e| protocol(e.to_string()))?;
            let head = head.ok_or_else(|| protocol("the head of its answer is not whole".to_owned()))?;
            drop(reader.stdout.split_to(length));
            if head.body != BodyLength::Empty {
                return Ok(Some(head));
            }
            self.empty = Some(head);
        }
        reader.stdout.clear(); // bytes behind a response that has none
        if reader.is_ended() { Ok(self.empty.take()) } else { Ok(None) }
    }

    /// What to say if the request has ended without a head.
    fn unanswered(&self, pool: &Pool) -> Option<UpstreamError> {
        let reader = &self.talk.reader;
        let service = pool.service.clone();
        let what = match reader.status() {
            _ if !reader.is_ended() || (reader.protocol != Protocol::FastCgi && reader.stdout.is_empty()) => {
                return None; // a connection that was closed without a byte
            }
            Some(ProtocolStatus::Overloaded) => {
                let text = "it ended the request with FCGI_OVERLOADED".to_owned();
                return Some(UpstreamError::Overloaded { service, text, retry_after: RETRY_AFTER });
            }
            Some(ProtocolStatus::CannotMultiplex) => "it ended the request with FCGI_CANT_MPX_CONN",
            Some(ProtocolStatus::UnknownRole) => "it is no responder (FCGI_UNKNOWN_ROLE)",
            Some(ProtocolStatus::Complete) | None => "it ended the request without the head of an answer",
        };
        Some(UpstreamError::Protocol { service, what: what.to_owned() })
    }
}

impl Awaited for Exchange {
    type Pool = Pool;
    type Head = ResponseHead;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        pool: &Pool,
        outbound: &Outbound,
    ) -> Poll<Result<ResponseHead, SendError>> {
        self.talk.turn.poll_pump(cx).map_err(SendError::Client)?;
        loop {
            if let Some(head) = self.take_head(pool, outbound)? {
                return Poll::Ready(Ok(head));
            }
            let Talk { turn, reader, .. } = &mut self.talk;
            match ready!(turn.poll_fill(cx)) {
                Ok(0) if reader.ends_with_connection() && turn.any_byte => reader.closed(),
                Ok(0) => return Poll::Ready(Err(turn.ended(&pool.service, Ok(())))),
                Ok(_) => turn.any_byte = true,
                Err(e) => return Poll::Ready(Err(turn.ended(&pool.service, Err(e)))),
            }
        }
    }

    fn waits_for_client(&self) -> bool {
        self.talk.turn.pump.waits_for_client()
    }

    fn take_moved(&mut self) -> bool {
        self.talk.turn.pump.take_moved()
    }
}

impl turn::Exchange for Exchange {
    fn turn(&mut self) -> &mut Turn {
        &mut self.talk.turn
    }

    fn into_response(
        self,
        pool: &Rc<Pool>,
        head: ResponseHead,
        one: &mut Try<'_>,
        _: &Outbound,
    ) -> Result<ServiceResponse, UpstreamError> {
        let ResponseHead { status, fields, body, .. } = head;
        let mut talk = self.talk;
        talk.turn.pump.forget_sent();
        let lease = one.lease.take();
        if let Some(lease) = &lease {
            lease.instance().mark_answered();
        }
        let left = match body {
            BodyLength::Exactly(length) => Some(length),
            BodyLength::Empty => Some(0),
            BodyLength::Chunked | BodyLength::UntilClose => None, // the first is refused with the head
        };
        let here = talk.reader.stdout.len() as u64;
        if talk.reader.is_ended() {
            if left.is_some_and(|length| length > here) {
                let what = format!("its answer has {here} bytes, fewer than its Content-Length says");
                return Err(UpstreamError::Protocol { service: pool.service.clone(), what });
            }
            let mut data = talk.reader.stdout.split();
            data.truncate(left.map_or(data.len(), |length| usize::try_from(length).unwrap_or(usize::MAX)));
            talk.end(pool);
            return Ok(ServiceResponse { status, fields, body: ResponseBody::full(data.freeze()), upgraded: None });
        }
        let silence = one.first_byte.take().map(|first_byte| first_byte.then(fields.get(&CONTENT_TYPE)));
        let body = CgiBody { talk: Some(Box::new(talk)), left, silence, pool: Rc::clone(pool), lease };
        Ok(ServiceResponse { status, fields, body: ResponseBody::Streamed(Box::new(body)), upgraded: None })
    }
}

/// The rest of a response, read as the client takes it.
struct CgiBody {
    /// None behind the end.
    talk: Option<Box<Talk>>,
    /// What is missing of the length that the program gave.
    left: Option<u64>,
    silence: Option<Silence>,
    pool: Rc<Pool>,
    lease: Option<Lease>,
}

impl CgiBody {
    /// What is here of the body; what is beyond its length is thrown away.
    fn take(&mut self) -> Option<Bytes> {
        let talk = self.talk.as_mut()?;
        let mut data = talk.reader.stdout.split();
        if let Some(left) = &mut self.left {
            data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= data.len() as u64;
        }
        (!data.is_empty()).then(|| data.freeze())
    }

    /// Ends it, if the request has ended.
    fn end_if_ended(&mut self) -> Result<(), CutError> {
        if !self.talk.as_ref().is_some_and(|talk| talk.reader.is_ended() && talk.reader.stdout.is_empty()) {
            return Ok(());
        }
        if let Some(left) = self.left.filter(|left| *left > 0) {
            return Err(self.cut(&format!("{left} bytes of its Content-Length did not come")));
        }
        if let Some(talk) = self.talk.take() {
            talk.end(&self.pool);
        }
        self.lease = None;
        Ok(())
    }

    fn cut(&mut self, what: &str) -> CutError {
        self.talk = None;
        self.lease = None;
        CutError { service: self.pool.service.clone(), what: what.to_owned() }
    }
}

impl Source for CgiBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        loop {
            let Some(talk) = &mut self.talk else { return Poll::Ready(None) };
            let Talk { turn, reader, .. } = &mut **talk;
            // The program may answer before it has read everything: both directions go on together.
            if let Err(e) = turn.poll_pump(cx) {
                return Poll::Ready(Some(Err(self.cut(&e.to_string()))));
            }
            if let Err(e) = reader.take(&mut turn.connection.read) {
                return Poll::Ready(Some(Err(self.cut(&e.to_string()))));
            }
            let data = self.take();
            let ended = self.end_if_ended();
            if let Some(data) = data {
                // What is wrong is told after what came before it.
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            if let Err(cut) = ended {
                return Poll::Ready(Some(Err(cut)));
            }
            let Some(talk) = &mut self.talk else { return Poll::Ready(None) };
            let Talk { turn, reader, .. } = &mut **talk;
            let Poll::Ready(filled) = turn.poll_fill(cx) else {
                let Some(silence) = &mut self.silence else { return Poll::Pending };
                let silent = silence.poll(cx, turn.pump.waits_for_client(), turn.pump.take_moved());
                return silent.map(|what| self.cut(&what)).map(|cut| Some(Err(cut)));
            };
            if let Some(silence) = &mut self.silence {
                silence.heard();
            }
            match filled {
                Ok(0) if reader.ends_with_connection() => reader.closed(),
                Ok(0) => return Poll::Ready(Some(Err(self.cut("it closed the connection")))),
                Ok(_) => {}
                Err(e) => return Poll::Ready(Some(Err(self.cut(&e.to_string())))),
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.talk.is_none()
    }

    fn length(&self) -> Option<u64> {
        self.left
    }
}
