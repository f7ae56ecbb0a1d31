//! What the gateway answers by itself because it is the one that is asked: `OPTIONS *` (RFC 9112 §3.2.4), and OPTIONS
//! and TRACE that may go no further (RFC 9110 §7.6.2).

use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, COOKIE, MAX_FORWARDS, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Response, StatusCode};

use crate::body::ResponseBody;
use crate::head::{Head, Scope};
use crate::problem::Failure;

/// Methods that the gateway treats in a way of their own; it passes on any other as well.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE");

/// The response to a request that is for the gateway itself; `None` for any other, which may go one step less from
/// here.
pub(super) fn answer(head: &mut Head) -> Option<Result<Response<ResponseBody>, Failure>> {
    let is_traced = matches!(head.method, Method::OPTIONS | Method::TRACE);
    let is_last = match is_traced.then(|| count_step(head)).transpose() {
        Ok(last) => last.unwrap_or(false),
        Err(failure) => return Some(Err(failure)),
    };
    if !is_last && head.scope != Scope::Gateway {
        return None;
    }
    if let Err(failure) = check_scope(head) {
        return Some(Err(failure));
    }
    Some(Ok(match head.method {
        Method::TRACE => trace(head),
        _ => options(),
    }))
}

/// What the gateway is no proxy for.
pub(super) fn check_scope(head: &Head) -> Result<(), Failure> {
    match head.scope {
        Scope::Tunnel => Err(Failure::Connect),
        Scope::OtherScheme => Err(Failure::BadTarget),
        Scope::Resource | Scope::WholeService | Scope::Gateway => Ok(()),
    }
}

/// RFC 9110 §7.6.2: takes one off `Max-Forwards`; `true` if there was none left.
fn count_step(head: &mut Head) -> Result<bool, Failure> {
    let mut values = head.headers().get_all(MAX_FORWARDS).iter();
    let Some(value) = values.next() else { return Ok(false) };
    let digits = value.as_bytes();
    if values.next().is_some() || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Failure::MaxForwards);
    }
    let steps =
        digits.iter().fold(0u32, |steps, digit| steps.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    if let Some(left) = steps.checked_sub(1) {
        head.set(MAX_FORWARDS, HeaderValue::from(left));
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
fn trace(head: &Head) -> Response<ResponseBody> {
    let mut text = BytesMut::from(format!("TRACE {} {:?}\r\n", head.written_target(), head.version).as_bytes());
    let is_secret = |name| [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION].contains(name);
    for (name, value) in head.headers().iter().filter(|(name, _)| !is_secret(name)) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
    let mut response = Response::new(ResponseBody::full(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("message/http"));
    response
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[track_caller]
    fn check(values: &[&'static str], expected: Option<bool>, left: &str) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(MAX_FORWARDS, HeaderValue::from_static(value));
        }
        let mut head = Head::get("/".into(), "a".into(), headers);
        assert_eq!(count_step(&mut head).ok(), expected, "{values:?}");
        assert_eq!(head.field(&MAX_FORWARDS).unwrap_or_default(), left.as_bytes());
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
