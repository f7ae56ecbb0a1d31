//! What the adapter answers by itself.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use pilotlight_pipe::Body;
use serde_json::{Value, json};

use crate::events::{EventBody, Source};

/// Codes of JSON-RPC, and those of MCP.
pub(crate) mod code {
    pub(crate) const PARSE: i64 = -32700;
    pub(crate) const INVALID: i64 = -32600;
    /// The program, or its session, is no more.
    pub(crate) const ENDED: i64 = -32000;
    /// There is too much to do.
    pub(crate) const BUSY: i64 = -32001;
    pub(crate) const NO_METHOD: i64 = -32601;
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    /// A capability that the client has not.
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    pub(crate) const UNSUPPORTED_REVISION: i64 = -32022;
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// What a session sends is for its client only, whatever the route says of caching.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Seconds after which a refused client may come again.
const LATER: HeaderValue = HeaderValue::from_static("1");

/// An error of JSON-RPC as one line; `id` is that of the request, `null` if it is not known.
pub(crate) fn error(id: Option<&Value>, code: i64, message: &str) -> Bytes {
    let error = json!({ "code": code, "message": message });
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into()
}

/// An error as an answer.
pub(crate) fn refused(status: StatusCode, id: Option<&Value>, code: i64, message: &str) -> Response<Body> {
    let mut response = json(status, error(id, code, message));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, LATER);
    }
    response
}

/// One message as an answer.
pub(crate) fn json(status: StatusCode, text: Bytes) -> Response<Body> {
    with_type(status, JSON, text.into())
}

/// A body of this type that nobody stores.
pub(crate) fn with_type(status: StatusCode, kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// Nothing but a status.
pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// A stream of messages.
pub(crate) fn events(body: EventBody<impl Source + 'static>) -> Response<Body> {
    let mut response = with_type(StatusCode::OK, EVENTS, Body::new(body));
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

/// The status of an answer without a session (MCP 2026-07-28, "Request Metadata").
pub(crate) fn status_of(code: Option<&Value>) -> StatusCode {
    match code.and_then(Value::as_i64) {
        Some(code::NO_METHOD) => StatusCode::NOT_FOUND,
        Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_REVISION) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
