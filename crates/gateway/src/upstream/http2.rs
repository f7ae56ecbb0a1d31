//! HTTP/2 with prior knowledge to a service (`transport = "h2c"`): a few connections of each worker, many exchanges at
//! once on each.
//!
//! A task of the worker drives each connection; an exchange sends its body and takes its response through the `h2`
//! crate, at the pace of the service's windows and of the client. Trailers pass both ways, so gRPC does.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, TE};
use http::{HeaderMap, Request, Response, StatusCode, Uri, Version};
use http_body::Frame;
use pilotlight_exchange::retry::Reuse;
use pilotlight_supervisor::Lease;

use super::first_byte::{Awaited, Awaiting};
use super::interims::Interims;
use super::one_try::{Kept, Try};
use super::server::Server;
use super::silence::Silence;
use super::sockets::{number, place};
use super::{BodyLeft, Failed, SendError, ServiceResponse, UpstreamError};
use crate::body::{CutError, ResponseBody, Source};
use crate::fields::{is_hop_by_hop, strip_hop_by_hop};
use crate::outbound::Outbound;
use crate::request_body::RequestBody;
use crate::target::Scheme;

mod greeting;
mod pool;
mod switch;
mod upload;

pub(crate) use pool::Pool;
use pool::{Counted, Follows, Sent, failure};
use upload::Upload;

/// Sends a request and waits for the head of the response. `external`: a server of somebody else's.
///
/// # Cancel safety
/// Dropping it resets the stream, which is how HTTP/2 tells a service that the client has gone.
pub(crate) async fn send(
    pool: &Rc<Pool>,
    external: Option<&Server<'_>>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    kept: Kept,
) -> Result<ServiceResponse, Failed> {
    let instance = one.lease.as_ref().map(|lease| Arc::clone(lease.instance()));
    let number = number(instance.as_deref(), external);
    let whole = |body, error, reuse| Failed { error, body: BodyLeft::Whole(body), reuse };
    let (Some(place), Some(first_byte)) = (place(instance.as_deref(), external), &*one.first_byte) else {
        let what = "cannot be reached by HTTP/2".to_owned();
        return Err(whole(body, UpstreamError::Protocol { service: pool.service.clone(), what }.into(), Reuse::New));
    };
    first_byte.service_turn();
    let (connection, reuse) = match pool.connection(place, external, number, kept, first_byte).await {
        Ok(found) => found,
        Err(error) => return Err(whole(body, error, Reuse::New)),
    };
    let scheme = if external.is_some_and(|server| server.secured.is_some()) { Scheme::Https } else { Scheme::Http };
    let request = match request(outbound, scheme) {
        Ok(request) => request,
        Err(what) => {
            let error = UpstreamError::Protocol { service: pool.service.clone(), what };
            return Err(whole(body, error.into(), reuse));
        }
    };
    let counted = Counted::new(connection);
    let offered = outbound.upgrade.as_deref().filter(|_| body.is_none());
    let body_follows = if body.is_some() { Follows::Body } else { Follows::Nothing };
    let begun = match offered {
        Some(offered) => switch::begin(&counted, pool, first_byte, request, offered).await,
        None => counted.begin(pool, first_byte, request, body_follows).await,
    };
    let (response, to_service) = match begun {
        Ok(begun) => begun,
        Err(error) => return Err(whole(body, error, reuse)),
    };
    let switches = offered.is_some();
    let mut exchange =
        Exchange { response, upload: Upload::new(to_service, body), switches, interims: Interims::default(), counted };
    let from = Awaiting { pool: &**pool, service: &pool.service, instance: instance.as_deref(), outbound };
    match first_byte.head(&mut exchange, &from).await.inspect(|_| first_byte.came()) {
        Ok(head) => Ok(exchange.into_response(pool, head, outbound, one)),
        Err(error) => Err(Failed { error, body: exchange.upload.reclaim(), reuse }),
    }
}

/// A request as HTTP/2 has it (RFC 9113 §8.3.1): `scheme` is that of the connection to the service, as servers compare
/// it with what they were connected to by. What the client used is in `Forwarded`.
fn request(outbound: &Outbound, scheme: Scheme) -> Result<Request<()>, String> {
    let authority = if outbound.host().is_empty() { "localhost" } else { outbound.host() };
    let uri = Uri::builder().scheme(scheme.as_str()).authority(authority);
    let uri = uri.path_and_query(&*outbound.target()).build();
    let uri = uri.map_err(|e| format!("cannot be sent this request's target or authority by HTTP/2 ({e})"))?;
    let mut headers = HeaderMap::with_capacity(16);
    let mut put = |name: &[u8], value: &[u8]| {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            && name != HOST
            && !is_hop_by_hop(&name)
        {
            headers.append(name, value);
        }
    };
    outbound.received_fields(&mut put);
    outbound.own_fields(|name, value| put(name, &value.concat()));
    // RFC 9110 §10.1.4: of this connection, on which the gateway takes them. gRPC asks for it.
    headers.insert(TE, HeaderValue::from_static("trailers"));
    let mut request = Request::new(());
    *request.method_mut() = outbound.head.method.clone();
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok(request)
}

struct Exchange {
    response: ResponseFuture,
    upload: Upload,
    /// Whether the stream is to become a connection of another protocol.
    switches: bool,
    interims: Interims,
    counted: Counted,
}

impl Exchange {
    fn into_response(
        mut self,
        pool: &Rc<Pool>,
        head: Response<RecvStream>,
        outbound: &Outbound,
        one: &mut Try<'_>,
    ) -> ServiceResponse {
        self.upload.forget_sent();
        let lease = one.lease.take();
        if let Some(lease) = &lease {
            lease.instance().mark_answered();
        }
        let (parts, received) = head.into_parts();
        let (status, mut fields) = (parts.status, parts.headers);
        strip_hop_by_hop(&mut fields);
        if self.switches && status.is_success() {
            let stream = (self.upload.into_stream(), received);
            return switch::switched(fields, outbound, stream, Box::new(self.counted), lease);
        }
        let is_ended = received.is_end_stream();
        if is_ended && self.upload.is_done() {
            return ServiceResponse { status, fields: fields.into(), body: ResponseBody::Empty, upgraded: None };
        }
        let said = fields.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let has_none = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let length = if has_none || is_ended { Some(0) } else { said };
        let silence = one.first_byte.take();
        let silence = silence.map(|wait| wait.then(fields.get(CONTENT_TYPE).map(HeaderValue::as_bytes)));
        let body = Http2Body {
            received,
            upload: self.upload,
            length,
            taken: 0,
            is_ended,
            silence,
            pool: Rc::clone(pool),
            lease,
            counted: Some(self.counted),
        };
        let body = ResponseBody::Streamed(Box::new(body));
        ServiceResponse { status, fields: fields.into(), body, upgraded: None }
    }
}

impl Awaited for Exchange {
    type Pool = Pool;
    type Head = Response<RecvStream>;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        pool: &Pool,
        outbound: &Outbound,
    ) -> Poll<Result<Self::Head, SendError>> {
        self.upload.poll(cx).map_err(SendError::Client)?;
        // RFC 9110 §15.2: interim responses come before the final one.
        while let Poll::Ready(Some(Ok(interim))) = self.response.poll_informational(cx) {
            self.interims.pass_on(&pool.service, outbound, interim.status(), interim.headers())?;
            if self.interims.is_time_to_yield() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let response = ready!(Pin::new(&mut self.response).poll(cx));
        Poll::Ready(response.map_err(|e| failure(&pool.service, &e, Sent::Something)))
    }

    fn waits_for_client(&self) -> bool {
        self.upload.waits_for_client()
    }

    fn take_moved(&mut self) -> bool {
        self.upload.take_moved()
    }
}

/// The rest of a response, read as the client takes it.
struct Http2Body {
    received: RecvStream,
    upload: Upload,
    length: Option<u64>,
    /// Bytes that were handed out and count against the service's window.
    taken: usize,
    is_ended: bool,
    silence: Option<Silence>,
    pool: Rc<Pool>,
    lease: Option<Lease>,
    counted: Option<Counted>,
}

impl Source for Http2Body {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        // The service may answer before it has read everything: both directions go on together.
        if let Err(e) = self.upload.poll(cx) {
            return Poll::Ready(Some(Err(self.cut(&e.to_string()))));
        }
        self.give_back();
        let Poll::Ready(frame) = self.poll_received(cx) else {
            let Some(silence) = &mut self.silence else { return Poll::Pending };
            let silent = silence.poll(cx, self.upload.waits_for_client(), self.upload.take_moved());
            return silent.map(|what| self.cut(&what)).map(|cut| Some(Err(cut)));
        };
        if let Some(silence) = &mut self.silence {
            silence.heard();
        }
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.taken = data.len();
                    self.length = self.length.map(|left| left.saturating_sub(data.len() as u64));
                }
                if frame.is_trailers() || self.received.is_end_stream() {
                    self.end();
                }
                Some(Ok(frame))
            }
            Some(Err(e)) => Some(Err(self.cut(&format!("it ended the stream ({e})")))),
            None => {
                self.end();
                None
            }
        })
    }

    fn is_ended(&self) -> bool {
        self.is_ended
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Http2Body {
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        Poll::Ready(match ready!(self.received.poll_data(cx)) {
            Some(data) => Some(data.map(Frame::data)),
            None => ready!(self.received.poll_trailers(cx)).map(|trailers| trailers.map(Frame::trailers)).transpose(),
        })
    }

    fn give_back(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            // An error means that the stream has ended: then there is no window.
            let _ = self.received.flow_control().release_capacity(taken);
        }
    }

    fn end(&mut self) {
        self.give_back();
        self.is_ended = true;
        self.lease = None;
        self.counted = None;
    }

    fn cut(&mut self, what: &str) -> CutError {
        self.end();
        self.upload.abandon();
        CutError { service: self.pool.service.clone(), what: what.to_owned() }
    }
}
