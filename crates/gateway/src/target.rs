//! What a request is for: scheme, authority and target (RFC 9110 §7.1, RFC 9112 §3.2).

use std::borrow::Cow;

use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};

use crate::problem::Failure;

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The scheme of a request's URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The end of an authority that says nothing (RFC 9110 §4.2.3).
    pub(crate) fn default_port(self) -> &'static str {
        match self {
            Self::Http => ":80",
            Self::Https => ":443",
        }
    }

    /// As a proxy writes it: that of a WebSocket is that of its handshake.
    fn named(name: &str) -> Option<Self> {
        let is = |one: &str| name.eq_ignore_ascii_case(one);
        match () {
            () if is("https") || is("wss") => Some(Self::Https),
            () if is("http") || is("ws") => Some(Self::Http),
            () => None,
        }
    }
}

/// Whether `Forwarded` and `X-Forwarded-*` of whoever connects are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    Nobody,
    Peers,
}

impl Trust {
    pub(crate) fn of(trust_forwarded: bool) -> Self {
        if trust_forwarded { Self::Peers } else { Self::Nobody }
    }
}

/// Scheme and authority as the client wrote them, who may be behind a proxy that is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin<'a> {
    pub(crate) scheme: Scheme,
    pub(crate) authority: &'a str,
}

impl<'a> Origin<'a> {
    /// Of a request that was received for `authority`.
    #[inline]
    pub(crate) fn of(headers: &'a HeaderMap, authority: &'a str, trust: Trust) -> Self {
        match trust {
            Trust::Nobody => Self { scheme: Scheme::Http, authority },
            Trust::Peers => Self::claimed(headers, authority),
        }
    }

    /// By the first value of a list, which the proxy that is nearest to the client wrote.
    fn claimed(headers: &'a HeaderMap, authority: &'a str) -> Self {
        let first = |name: &HeaderName| headers.get(name)?.to_str().ok()?.split(',').next().map(str::trim);
        let element = headers.get(FORWARDED).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let scheme = first(&X_FORWARDED_PROTO).or_else(|| parameter(element, "proto")).and_then(Scheme::named);
        let host = first(&X_FORWARDED_HOST).or_else(|| parameter(element, "host"));
        let host = host.filter(|host| !host.is_empty() && is_authority(host));
        Self { scheme: scheme.unwrap_or(Scheme::Http), authority: host.unwrap_or(authority) }
    }
}

/// A parameter of the first element of `Forwarded` (RFC 7239 §4). Neither schemes nor hosts have anything to be
/// escaped.
fn parameter<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let mut is_quoted = false;
    let ends = |c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    };
    let element = value.split(ends).next()?;
    let found = element.split(';').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then_some(value.trim())
    })?;
    Some(found.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(found))
}

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
    let Some(authority) = uri.authority().filter(|_| *method == Method::OPTIONS) else { return false };
    // `http` shows a path that was not there as a `/` of its own; one that was there stands behind the authority.
    let was_there = std::ptr::eq(authority.as_str().as_bytes().as_ptr_range().end, target(uri).as_ptr());
    target(uri) == "/" && !was_there
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
    if !request.uri().scheme_str().is_none_or(|scheme| matches!(scheme, "http" | "https")) {
        return Err(Failure::BadTarget);
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

/// Whether a text is `uri-host [ ":" port ]` (RFC 9110 §7.2), or nothing, as HTTP/1.0 has it.
pub(crate) fn is_authority(text: &str) -> bool {
    pilotlight_http1::is_authority(text.as_bytes())
}

/// Lower case, without the default port (RFC 9110 §4.2.3).
#[inline]
pub(crate) fn key_authority(origin: Origin<'_>) -> Cow<'_, str> {
    let Origin { scheme, authority } = origin;
    let authority = authority.strip_suffix(scheme.default_port()).unwrap_or(authority);
    // Without a branch for each byte.
    if authority.bytes().fold(false, |found, byte| found | byte.is_ascii_uppercase()) {
        Cow::Owned(authority.to_ascii_lowercase())
    } else {
        Cow::Borrowed(authority)
    }
}

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
    fn what_a_trusted_proxy_says() {
        let origin = |fields: &[(&'static str, &'static str)], trust| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let Origin { scheme, authority } = Origin::of(&headers, "inner", trust);
            format!("{}://{authority}", scheme.as_str())
        };
        let proto = [("x-forwarded-proto", "HTTPS, http")];
        assert_eq!(origin(&proto, Trust::Nobody), "http://inner");
        assert_eq!(origin(&proto, Trust::Peers), "https://inner");
        assert_eq!(origin(&[], Trust::Peers), "http://inner");
        assert_eq!(origin(&[("x-forwarded-proto", "gopher")], Trust::Peers), "http://inner");
        assert_eq!(origin(&[("x-forwarded-proto", "wss")], Trust::Peers), "https://inner");
        let element = [("forwarded", "for=\"a,b\"; Proto=https;host=\"a:8443\", for=x;proto=http")];
        assert_eq!(origin(&element, Trust::Peers), "https://a:8443");
        assert_eq!(origin(&[("forwarded", "for=x, proto=https")], Trust::Peers), "http://inner");
        let both = [("x-forwarded-host", "b, c"), ("forwarded", "host=a"), ("x-forwarded-proto", "https")];
        assert_eq!(origin(&both, Trust::Peers), "https://b");
        assert_eq!(origin(&[("x-forwarded-host", "a/b")], Trust::Peers), "http://inner");
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
            // `http` takes no escapes (RFC 3986 §3.2.2 does).
            if is_authority(&text) && !text.contains('%') {
                prop_assert!(text.is_empty() || text.parse::<http::uri::Authority>().is_ok(), "{text}");
            }
        }
    }
}
