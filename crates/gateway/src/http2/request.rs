//! From the head of a request as HTTP/2 has it to the one that the gateway goes on with.
//!
//! `crates/http2` has refused what makes a message malformed whoever reads it: pseudo-fields that are missing, unknown,
//! repeated or out of place (RFC 9113 §8.3), names with upper-case letters (§8.2.1), fields of a connection (§8.2.2);
//! it has combined cookies (§8.2.3). Here is what is left: the authority, the form of the target, the limits of fields.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE};
use http::{Method, Version};
use pilotlight_http2::Fields;

use super::body::map;
use crate::fields::is_hop_by_hop;
use crate::head::{Head, Scope};
use crate::options::Limits;
use crate::problem::MalformedRequest;
use crate::target::is_authority;
use crate::websocket::{self, SEC_WEBSOCKET_KEY};

/// A request, and what it asks of its stream.
pub(super) struct Received {
    pub(super) head: Head,
    /// The stream is to become a connection of another protocol (RFC 8441 §4).
    pub(super) is_extended_connect: bool,
}

/// Takes the head of a request.
///
/// # Errors
/// What is wrong with it; it gets an answer that says so.
pub(super) fn received(fields: Fields<'_>, limits: &Limits) -> Result<Received, MalformedRequest> {
    if fields.len() > limits.header_count {
        return Err(MalformedRequest::TooManyFields);
    }
    // RFC 9113 §8.2.1: no value begins or ends with white space.
    if fields.has_padding() {
        return Err(MalformedRequest::Padding);
    }
    // `crates/http2` lets nothing through that is no token.
    let method = fields.method().and_then(|method| Method::from_bytes(method).ok()).ok_or(MalformedRequest::Target)?;
    let protocol = fields.protocol();
    let headers = map(fields);
    let authority = authority(fields.authority(), &headers)?;
    let mut headers = end_to_end(headers)?;
    // Services, and what varies on it, find it where HTTP/1.1 has it.
    headers.insert(HOST, HeaderValue::from_str(&authority).map_err(|_| MalformedRequest::Authority)?);
    let target = std::str::from_utf8(fields.path().unwrap_or(b"/")).map_err(|_| MalformedRequest::Target)?;
    // As HTTP/1.1: a fragment is the client's own (RFC 9110 §7.1), and what is not only read must not lose it.
    let target = match target.split_once('#') {
        Some((target, _)) if method == Method::GET || method == Method::HEAD => target,
        Some(_) => return Err(MalformedRequest::Target),
        None => target,
    };
    let (target, scope): (Box<str>, Scope) = match (&method, target) {
        (&Method::CONNECT, _) if protocol.is_none() => ("/".into(), Scope::Tunnel),
        (&Method::OPTIONS, "*") => ("*".into(), Scope::Gateway),
        (_, target) if !is_path(target) => return Err(MalformedRequest::Target),
        (_, target) if fields.scheme().is_none_or(is_http) => (target.into(), Scope::Resource),
        (_, target) => (target.into(), Scope::OtherScheme),
    };
    let method = match protocol {
        Some(protocol) => {
            // RFC 9110 §9.3.6: it has no content. To a service that is asked by GET, a length would make a body of what
            // comes next on its connection: somebody else's request.
            if headers.contains_key(CONTENT_LENGTH) {
                return Err(MalformedRequest::ConnectLength);
            }
            let switch = [(CONNECTION, HeaderValue::from_static("upgrade")), (UPGRADE, value(protocol)?)];
            headers.extend(switch);
            headers.insert(SEC_WEBSOCKET_KEY, websocket::key());
            Method::GET // RFC 6455 §4.1, which is what services speak
        }
        None => method,
    };
    let written = (scope == Scope::Tunnel).then(|| authority.as_str().into());
    let head = Head::of_map(
        crate::head::Line { method, version: Version::HTTP_2, target, authority, scope, written },
        headers,
    );
    Ok(Received { head, is_extended_connect: protocol.is_some() })
}

/// RFC 9113 §8.3.1: `:authority`, or `Host` where there is none; they must not differ, and have no user information.
fn authority(pseudo: Option<&[u8]>, headers: &HeaderMap) -> Result<String, MalformedRequest> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().map(HeaderValue::as_bytes);
    if hosts.next().is_some() {
        return Err(MalformedRequest::Authority);
    }
    let chosen = match (pseudo, host) {
        (Some(pseudo), Some(host)) if !pseudo.eq_ignore_ascii_case(host) => {
            return Err(MalformedRequest::TwoAuthorities);
        }
        (Some(chosen), _) | (None, Some(chosen)) => chosen,
        (None, None) => return Err(MalformedRequest::NoAuthority),
    };
    plain_authority(chosen).map(str::to_owned).ok_or(MalformedRequest::Authority)
}

/// A host with an optional port.
pub(super) fn plain_authority(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok().filter(|text| !text.is_empty() && is_authority(text))
}

/// What a request for a resource is for, by its path; `None` where more is to be said of it.
pub(super) fn plain_path(path: &[u8]) -> Option<&str> {
    std::str::from_utf8(path).ok().filter(|path| is_path(path))
}

fn is_http(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https")
}

/// What HTTP/1.1 takes for one as well: services get it so.
fn is_path(target: &str) -> bool {
    target.starts_with('/') && target.bytes().all(|byte| byte > b' ' && !matches!(byte, b'#' | b'<' | b'>' | 0x7F))
}

/// The fields that a proxy may look at and pass on.
fn end_to_end(headers: HeaderMap) -> Result<HeaderMap, MalformedRequest> {
    let mut headers = headers;
    if let Some(length) = content_length(&headers)? {
        headers.insert(CONTENT_LENGTH, length);
    }
    headers.remove(TE);
    let leaving: Vec<HeaderName> = headers.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    for name in leaving {
        headers.remove(name);
    }
    Ok(headers)
}

/// One length, however often it was said (RFC 9110 §8.6).
fn content_length(headers: &HeaderMap) -> Result<Option<HeaderValue>, MalformedRequest> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = values.next() else { return Ok(None) };
    let is_number = !first.is_empty() && first.as_bytes().iter().all(u8::is_ascii_digit);
    if !is_number || values.any(|other| other != first) {
        return Err(MalformedRequest::ContentLength);
    }
    Ok(Some(first.clone()))
}

fn value(text: &[u8]) -> Result<HeaderValue, MalformedRequest> {
    HeaderValue::from_bytes(text).map_err(|_| MalformedRequest::Protocol)
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use pilotlight_http2::{
        FieldTable, Limits as Http2Limits, PREFACE, Received as Event, ServerConnection, encode_field,
    };
    use proptest::prelude::*;

    use super::*;

    /// What a client sends that has these pseudo-fields and fields; the stream is reset if it is malformed.
    fn sent(fields: &[(&str, &[u8])]) -> Option<Result<Received, MalformedRequest>> {
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| encode_field(name.as_bytes(), value, &mut block));
        let mut bytes = PREFACE.to_vec();
        bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let [_, high, middle, low] = (block.len() as u32).to_be_bytes();
        bytes.extend([high, middle, low, 1, 4, 0, 0, 0, 1]); // HEADERS, END_HEADERS, stream 1
        bytes.extend(block);
        let limits = Http2Limits {
            streams: 10,
            header_list: 64 * 1024,
            stream_window: 1 << 16,
            connection_window: 1 << 16,
            unwritten: 1 << 16,
        };
        let (mut connection, mut table) = (ServerConnection::new(limits), FieldTable::new());
        let mut rest = &bytes[..];
        loop {
            match connection.receive(rest, &mut table).unwrap() {
                (_, Event::Request(_, fields)) => {
                    return Some(received(fields, &Limits::default()));
                }
                (0, _) => return None,
                (taken, _) => rest = &rest[taken..],
            }
        }
    }

    fn parse(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<Head, MalformedRequest> {
        let uri: Uri = uri.parse().unwrap();
        let mut all: Vec<(&str, &[u8])> = vec![(":method", method.as_bytes())];
        if method != "CONNECT" || uri.scheme().is_some() {
            all.push((":scheme", uri.scheme_str().unwrap_or("http").as_bytes()));
            all.push((":path", uri.path_and_query().map_or(b"/", |target| target.as_str().as_bytes())));
        }
        all.extend(uri.authority().map(|authority| (":authority", authority.as_str().as_bytes())));
        all.extend(fields.iter().map(|(name, value)| (*name, value.as_bytes())));
        sent(&all).unwrap().map(|received| received.head)
    }

    #[track_caller]
    fn check(uri: &str, fields: &[(&str, &str)], expected: Result<&str, MalformedRequest>) {
        let found = parse("GET", uri, fields);
        let found = found.map(|head| format!("{} {}", head.authority(), head.target()));
        assert_eq!(found, expected.map(str::to_owned), "{uri} {fields:?}");
    }

    #[test]
    fn authorities_and_targets() {
        check("http://a/p?q", &[], Ok("a /p?q"));
        check("http://a:8080/", &[("host", "A:8080")], Ok("a:8080 /"));
        check("/p", &[("host", "b")], Ok("b /p"));
        check("/p", &[], Err(MalformedRequest::NoAuthority));
        check("http://a/", &[("host", "b")], Err(MalformedRequest::TwoAuthorities));
        check("/", &[("host", "a"), ("host", "a")], Err(MalformedRequest::Authority));
        check("http://u:p@a/", &[], Err(MalformedRequest::Authority));
        check("/", &[("host", "")], Err(MalformedRequest::Authority));
        check("/", &[("host", "a b")], Err(MalformedRequest::Authority));
        let scope = |method, uri| parse(method, uri, &[("host", "a")]).map(|head| head.scope);
        assert_eq!(scope("OPTIONS", "*"), Ok(Scope::Gateway));
        assert_eq!(scope("GET", "*"), Err(MalformedRequest::Target));
        assert_eq!(scope("GET", "ftp://a/"), Ok(Scope::OtherScheme));
        assert_eq!(scope("CONNECT", "a:80").err(), Some(MalformedRequest::TwoAuthorities));
        assert_eq!(parse("CONNECT", "a:80", &[]).map(|head| head.scope), Ok(Scope::Tunnel));
    }

    #[test]
    fn an_extended_connect_has_no_length() {
        let connect = |fields: &[(&'static str, &'static str)]| {
            let pseudo = [(":method", "CONNECT"), (":scheme", "http"), (":path", "/ws"), (":authority", "a")];
            let all = pseudo.iter().chain(&[(":protocol", "websocket")]).chain(fields);
            sent(&all.map(|(name, value)| (*name, value.as_bytes())).collect::<Vec<_>>()).unwrap()
        };
        assert!(connect(&[]).is_ok_and(|received| received.is_extended_connect && received.head.method == Method::GET));
        for length in ["0", "40"] {
            assert_eq!(connect(&[("content-length", length)]).err(), Some(MalformedRequest::ConnectLength));
        }
    }

    #[test]
    fn fields() {
        let head = parse(
            "GET",
            "http://a/",
            &[
                ("cookie", "a=1"),
                ("cookie", "b=2"),
                ("te", "trailers"),
                ("content-length", "3"),
                ("content-length", "3"),
            ],
        );
        let head = head.unwrap();
        let mut seen = Vec::new();
        head.each(&mut |name, value| seen.push(format!("{}: {}", text(name), text(value))));
        seen.sort();
        assert_eq!(seen, ["content-length: 3", "cookie: a=1; b=2", "host: a"]);
        for (name, value, expected) in
            [("x-padded", " a", MalformedRequest::Padding), ("x-padded", "a\t", MalformedRequest::Padding)]
        {
            check("http://a/", &[(name, value)], Err(expected));
        }
        for length in ["x", "", "-1", "99999999999999999999"] {
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("content-length", length)];
            assert!(sent(&fields.map(|(name, value)| (name, value.as_bytes()))).is_none(), "{length} is reset");
        }
        check("http://a/", &[("content-length", "3"), ("content-length", "x")], Err(MalformedRequest::ContentLength));
        check("http://a/", &[("content-length", "3"), ("content-length", "4")], Err(MalformedRequest::ContentLength));
        let many: Vec<(&str, &str)> = vec![("x", "y"); 101];
        check("http://a/", &many, Err(MalformedRequest::TooManyFields));
    }

    proptest! {
        /// What is let through is a request of HTTP/1.1 as well: one line for each field, one host, a target without
        /// an end.
        #[test]
        fn nothing_gets_in_between_lines(
            host in prop::option::of("[a-z@: ,/\\[\\]\u{e9}]{0,8}"),
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..8),
            path in "/[!-~]{0,12}",
        ) {
            let names = ["cookie", "content-length", "te", "x-a", "upgrade", "connection", "keep-alive", "x_forwarded_for"];
            let mut all: Vec<(&str, &[u8])> = vec![(":method", b"GET"), (":scheme", b"http"), (":path", path.as_bytes())];
            all.extend(names.into_iter().zip(&values).map(|(name, value)| (name, &value[..])));
            all.extend(host.as_ref().map(|host| ("host", host.as_bytes())));
            let Some(Ok(Received { head, .. })) = sent(&all) else { return Ok(()) };
            prop_assert!(is_authority(head.authority()) && !head.authority().is_empty());
            prop_assert!(is_path(head.target()));
            let mut seen = Vec::new();
            head.each(&mut |name, value| seen.push((text(name).to_owned(), value.to_vec())));
            for (name, value) in &seen {
                prop_assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{}", name);
                prop_assert!(!["te", "upgrade", "connection", "keep-alive"].contains(&name.as_str()));
            }
            prop_assert_eq!(seen.iter().filter(|(name, _)| name == "host").count(), 1);
        }
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }
}
