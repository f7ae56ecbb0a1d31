//! What the gateway answers by itself because it is the one that is asked: `OPTIONS *` (RFC 9112 §3.2.4), and OPTIONS
//! and TRACE that may go no further (RFC 9110 §7.6.2).

use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, COOKIE, MAX_FORWARDS, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use crate::body::ResponseBody;
use crate::problem::Failure;
use crate::target::{authority, is_of_gateway};

/// Methods that the gateway treats in a way of their own; it passes on any other as well.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE");

/// The answer to a request that is for the gateway itself; `None` for any other, which may go one step less from here.
pub(super) fn answer<B>(request: &mut Request<B>) -> Option<Result<Response<ResponseBody>, Failure>> {
    let is_traced = matches!(*request.method(), Method::OPTIONS | Method::TRACE);
    let is_last = match is_traced.then(|| count_step(request.headers_mut())).transpose() {
        Ok(last) => last.unwrap_or(false),
        Err(failure) => return Some(Err(failure)),
    };
    if !is_last && !is_of_gateway(request.method(), request.uri()) {
        return None;
    }
    if let Err(failure) = authority(request) {
        return Some(Err(failure));
    }
    Some(Ok(match *request.method() {
        Method::TRACE => trace(request),
        _ => options(),
    }))
}

/// RFC 9110 §7.6.2: takes one off `Max-Forwards`; `true` if there was none left.
fn count_step(headers: &mut HeaderMap) -> Result<bool, Failure> {
    let mut values = headers.get_all(MAX_FORWARDS).iter();
    let Some(value) = values.next() else { return Ok(false) };
    let digits = value.as_bytes();
    if values.next().is_some() || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Failure::MaxForwards);
    }
    let steps =
        digits.iter().fold(0u32, |steps, digit| steps.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    if let Some(left) = steps.checked_sub(1) {
        headers.insert(MAX_FORWARDS, HeaderValue::from(left));
    }
    Ok(steps == 0)
}

fn options() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, METHODS);
    response
}

/// RFC 9110 §9.3.8: the head as it came, without what is secret.
fn trace<B>(request: &Request<B>) -> Response<ResponseBody> {
    let mut head = BytesMut::from(format!("TRACE {} {:?}\r\n", request.uri(), request.version()).as_bytes());
    let is_secret = |name| [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION].contains(name);
    for (name, value) in request.headers().iter().filter(|(name, _)| !is_secret(name)) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    let mut response = Response::new(ResponseBody::full(Bytes::from(head)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("message/http"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&'static str], expected: Option<bool>, left: &str) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(MAX_FORWARDS, HeaderValue::from_static(value));
        }
        assert_eq!(count_step(&mut headers).ok(), expected, "{values:?}");
        assert_eq!(headers.get(MAX_FORWARDS).map_or("", |value| value.to_str().unwrap()), left);
    }

    #[test]
    fn steps() {
        check(&[], Some(false), "");
        check(&["0"], Some(true), "0");
        check(&["1"], Some(false), "0");
        check(&["010"], Some(false), "9");
        check(&["99999999999999999999999"], Some(false), "4294967294");
        check(&["x"], None, "x");
        check(&[""], None, "");
        check(&["-1"], None, "-1");
        check(&["1", "1"], None, "1");
    }
}
