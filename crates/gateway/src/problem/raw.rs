//! Answers to what is no request: whole responses, as there is no exchange for them.

use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use http::StatusCode;
use pilotlight_http1::Malformed;
use serde_json::json;

use crate::options::Limits;
use crate::request_id::RequestId;

/// The whole response to what is no request, by the rule that it breaks.
pub(crate) fn refusal(rule: Malformed, limits: &Limits) -> (StatusCode, BytesMut) {
    let refusal = rule.refusal();
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let detail = match rule {
        Malformed::HeadTooLarge => format!(
            "the request line and header fields are larger than limits.header_size ({} bytes)",
            limits.header_size
        ),
        Malformed::TooManyFields => {
            format!("the request has more header fields than limits.header_count ({})", limits.header_count)
        }
        rule => format!("the request could not be parsed as HTTP/1.1: {rule} ({})", refusal.section),
    };
    (status, raw(status, &detail))
}

/// The whole response to a client whose head did not come in time.
pub(crate) fn header_timeout(limit: Duration) -> BytesMut {
    raw(
        StatusCode::REQUEST_TIMEOUT,
        &format!("the request's header fields did not arrive within limits.header_timeout ({} s)", limit.as_secs_f32()),
    )
}

/// The whole response to a client that speaks HTTP without TLS where TLS is spoken.
pub(crate) fn plain_http() -> BytesMut {
    raw(StatusCode::BAD_REQUEST, "this port speaks TLS: use https:// instead of http://")
}

fn raw(status: StatusCode, detail: &str) -> BytesMut {
    let title = status.canonical_reason().unwrap_or("Error");
    let id = RequestId::random();
    let document =
        json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail, "request_id": id.as_str() })
            .to_string();
    let date = httpdate::fmt_http_date(SystemTime::now());
    let head = format!(
        "HTTP/1.1 {} {title}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         x-request-id: {}\r\nconnection: close\r\ndate: {date}\r\n\r\n{document}",
        status.as_u16(),
        document.len(),
        id.as_str(),
    );
    BytesMut::from(head.as_str())
}
