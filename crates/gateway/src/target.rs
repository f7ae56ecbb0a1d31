//! What a request is for: authority and target (RFC 9110 §7.1, RFC 9112 §3.2).

use std::net::Ipv6Addr;

use http::header::{HOST, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri, Version};

use crate::problem::Failure;

/// Gives an absolute target the path that it lacks (RFC 9110 §4.2.3): `http://a?x=1` is `http://a/?x=1`.
pub(crate) fn complete(request: &mut Request<impl Sized>) {
    let uri = request.uri();
    if uri.authority().is_some() && target(uri).starts_with('?') {
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = format!("/{}", target(uri)).parse().ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

/// `OPTIONS *`: of the gateway, not of anything behind it (RFC 9112 §3.2.4).
pub(crate) fn is_of_gateway(method: &Method, uri: &Uri) -> bool {
    *method == Method::OPTIONS && uri.path() == "*"
}

/// OPTIONS of a URI that has neither path nor query: its service gets `*` (RFC 9112 §3.2.4).
pub(crate) fn is_of_whole_service(method: &Method, uri: &Uri) -> bool {
    // `http` shows a path that is not there as `/`, and compares it as it was.
    *method == Method::OPTIONS
        && uri.authority().is_some()
        && target(uri) == "/"
        && uri.path_and_query().is_none_or(|given| *given != PathAndQuery::from_static("/"))
}

/// Path and query.
pub(crate) fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |target| target.as_str())
}

/// RFC 9112 §3.2: the authority of an absolute target, else the one `Host`; HTTP/1.0 may have none.
pub(crate) fn authority(request: &Request<impl Sized>) -> Result<&str, Failure> {
    if *request.method() == Method::CONNECT {
        return Err(Failure::Connect);
    }
    let host = match host(request.headers()) {
        None if request.version() == Version::HTTP_10 && !request.headers().contains_key(HOST) => "",
        host => host.and_then(|host| host.to_str().ok()).ok_or(Failure::BadHost)?,
    };
    // RFC 9110 §4.2.4: user information in a target is an error (`@` is not among the bytes).
    let host = request.uri().authority().map_or(host, http::uri::Authority::as_str);
    if is_authority(host) { Ok(host) } else { Err(Failure::BadHost) }
}

/// The one `Host`.
fn host(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut hosts = headers.get_all(HOST).iter();
    hosts.next().filter(|_| hosts.next().is_none())
}

/// The one `Host`, if it is an authority.
#[inline]
pub(crate) fn host_authority(headers: &HeaderMap) -> Option<&str> {
    // What an authority consists of is ASCII.
    std::str::from_utf8(host(headers)?.as_bytes()).ok().filter(|host| is_authority(host))
}

/// Whether a text is `uri-host [ ":" port ]` (RFC 9110 §7.2), or nothing, as HTTP/1.0 has it.
#[inline]
pub(crate) fn is_authority(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Letters, digits, dots and hyphens up to a port: almost every authority.
    match bytes.iter().position(|byte| !HOST_BYTES[usize::from(*byte)]) {
        None => true,
        Some(at) if at > 0 && bytes[at] == b':' => is_port(&bytes[at + 1..]),
        Some(_) => is_unusual(text),
    }
}

/// With an IP literal, or with escapes.
#[cold]
fn is_unusual(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((literal, port)) = rest.split_once(']') else { return false };
        let is_literal = literal.parse::<Ipv6Addr>().is_ok() || is_future_ip(literal);
        return is_literal && port.strip_prefix(':').map_or(port.is_empty(), |port| is_port(port.as_bytes()));
    }
    let (name, port) = text.split_once(':').unwrap_or((text, ""));
    !name.is_empty() && is_port(port.as_bytes()) && has_only_escapes(name.as_bytes())
}

/// RFC 3986 §3.2.2: `v`, a version in hexadecimal digits, a dot, and an address.
fn is_future_ip(literal: &str) -> bool {
    let parts = literal.strip_prefix(['v', 'V']).and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(version, address)| {
        let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_part = |byte: u8| byte == b':' || HOST_BYTES[usize::from(byte)];
        is_version && !address.is_empty() && address.bytes().all(is_part)
    })
}

fn has_only_escapes(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'%', [a, b, after @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
            (b'%', _) => return false,
            (byte, after) if HOST_BYTES[usize::from(*byte)] => after,
            _ => return false,
        };
    }
    true
}

/// Digits, or none, that a port can have.
fn is_port(digits: &[u8]) -> bool {
    let number = digits.iter().try_fold(0u32, |number, digit| {
        let number = digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))?;
        (number <= u32::from(u16::MAX)).then_some(number)
    });
    number.is_some()
}

/// What a registered name may consist of, but for escapes (RFC 3986 §3.2.2). A comma is left out: it is where two `Host` have been
/// joined.
const HOST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        table[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'='
            );
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(is_authority(text), expected, "{text}");
    }

    #[test]
    fn authorities() {
        for right in
            ["", "a", "a:", "a:80", "a:00080", "a:65535", "A.b-c_d~", "[::1]", "[::1]:80", "[::1]:", "1.2.3.4:5"]
        {
            check(right, true);
        }
        for right in ["%61", "a%2Db:1", "a!$&'()*+;=b", "[v1.a:b]", "[vF.x]:1", "[::ffff:1.2.3.4]"] {
            check(right, true);
        }
        for wrong in
            ["a:x", "a:80:80", "[::1", "[zz]", "a%zz", "a%2", "a%", "::1", ":80", ":", "a:65536", "a:-1", "[::1]x"]
        {
            check(wrong, false);
        }
        for wrong in
            ["[::1]:x", "[]", "[v1]", "[v.a]", "[fe80::1%25eth0]", "a[b]", "a]", "a,b", "u@a", "a/b", "a?b", "é"]
        {
            check(wrong, false);
        }
    }

    #[test]
    fn forms_of_targets() {
        let seen = |method: &str, uri: &str| {
            let mut request = Request::builder().method(method).uri(uri).body(()).unwrap();
            complete(&mut request);
            let (method, uri) = (request.method(), request.uri());
            match (is_of_gateway(method, uri), is_of_whole_service(method, uri)) {
                (false, false) => target(uri).to_owned(),
                (true, false) => "the gateway".to_owned(),
                (false, true) => "the whole service".to_owned(),
                (true, true) => unreachable!(),
            }
        };
        assert_eq!(seen("GET", "http://a?x=1"), "/?x=1");
        assert_eq!(seen("GET", "http://a"), "/");
        assert_eq!(seen("OPTIONS", "http://a"), "the whole service");
        assert_eq!(seen("OPTIONS", "http://a/"), "/");
        assert_eq!(seen("OPTIONS", "/"), "/");
        assert_eq!(seen("OPTIONS", "http://a?x"), "/?x");
        assert_eq!(seen("OPTIONS", "*"), "the gateway");
        assert_eq!(seen("GET", "*"), "*");
        assert_eq!(seen("GET", "/p?x"), "/p?x");
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "[a:.%0\\[\\]v/@é]{0,12}") {
            if is_authority(&text) {
                prop_assert!(text.is_empty() || text.parse::<http::uri::Authority>().is_ok(), "{text}");
            }
        }
    }
}
