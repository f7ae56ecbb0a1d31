//! What runtime clients are answered.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http_body_util::Full;
use hyper::{Response, StatusCode};
use pilotlight_lambda::{CallError, Refusal};
use serde_json::json;

use crate::upstream::lambda::invocation::Handed;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const REQUEST_ID: HeaderName = HeaderName::from_static("lambda-runtime-aws-request-id");
const DEADLINE: HeaderName = HeaderName::from_static("lambda-runtime-deadline-ms");
const ARN: HeaderName = HeaderName::from_static("lambda-runtime-invoked-function-arn");
const TRACE_ID: HeaderName = HeaderName::from_static("lambda-runtime-trace-id");

/// An invocation.
pub(super) fn invocation(handed: &Handed) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(handed.payload.clone()));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, JSON);
    fields.insert(DEADLINE, HeaderValue::from(ms_since_1970(handed.deadline)));
    for (name, value) in [(REQUEST_ID, &handed.id), (ARN, &handed.arn), (TRACE_ID, &handed.trace)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            fields.insert(name, value);
        }
    }
    response
}

fn ms_since_1970(deadline: Instant) -> u64 {
    let at = SystemTime::now() + deadline.saturating_duration_since(Instant::now());
    at.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// An answer has been taken.
pub(super) fn accepted() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from("{\"status\":\"OK\"}"));
    *response.status_mut() = StatusCode::ACCEPTED;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A call that cannot be done now.
pub(super) fn refused(why: Refusal) -> Response<Full<Bytes>> {
    let (status, kind) = match why {
        Refusal::UnknownId => (StatusCode::BAD_REQUEST, "InvalidRequestID"),
        Refusal::NotAnswered | Refusal::Initialised => (StatusCode::FORBIDDEN, "InvalidStateTransition"),
        Refusal::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        Refusal::Busy | Refusal::Over => (StatusCode::GONE, "InstanceIsOver"),
    };
    error(status, kind, &why.to_string())
}

/// A call that is none.
pub(super) fn unknown(why: CallError) -> Response<Full<Bytes>> {
    let (status, kind) = match why {
        CallError::Extensions => (StatusCode::NOT_IMPLEMENTED, "ExtensionsNotSupported"),
        CallError::Restore => (StatusCode::NOT_IMPLEMENTED, "RestoreNotSupported"),
        CallError::Method(_) => (StatusCode::METHOD_NOT_ALLOWED, "InvalidMethod"),
        CallError::Path => (StatusCode::NOT_FOUND, "InvalidPath"),
    };
    error(status, kind, &why.to_string())
}

/// A result beyond its limit.
pub(super) fn too_large(limit: u64) -> Response<Full<Bytes>> {
    let text = format!("Exceeded maximum allowed payload size ({limit} bytes).");
    error(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &text)
}

fn error(status: StatusCode, kind: &str, message: &str) -> Response<Full<Bytes>> {
    let body = json!({ "errorType": kind, "errorMessage": message });
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
