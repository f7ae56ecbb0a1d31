//! What a request is for: scheme, authority and target (RFC 9110 §7.1, RFC 9112 §3.2).

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::HeaderMap;

use crate::forwarded::{Claims, TrustForwarded};
use crate::head::Head;

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

/// How much of `Forwarded` and `X-Forwarded-*` is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing.
    Nobody,
    /// The values at the end of each list that so many proxies have written.
    Proxies(usize),
}

impl Trust {
    /// Of a request that was made here.
    pub(crate) const OURSELVES: Self = Self::Proxies(1);

    /// That in a client by its address, which has none on a Unix socket, and in the proxies that it has been sent by.
    #[inline]
    pub(crate) fn of<'a>(
        trusted: &TrustForwarded,
        peer: Option<IpAddr>,
        headers: impl FnOnce() -> &'a HeaderMap,
    ) -> Self {
        if !trusted.believes(peer) {
            return Self::Nobody;
        }
        Self::Proxies(trusted.chain(headers(), peer).length)
    }
}

/// The connection that a request came on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    /// That of its listener.
    pub(crate) scheme: Scheme,
    pub(crate) trust: Trust,
}

/// Scheme and authority as the client wrote them, who may be behind a proxy that is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin<'a> {
    pub(crate) scheme: Scheme,
    pub(crate) authority: &'a str,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestUrl<'a> {
    pub(crate) origin: Origin<'a>,
    /// Path and query.
    pub(crate) target: &'a str,
}

impl<'a> Origin<'a> {
    /// Of a request that was received for `authority`.
    #[inline]
    pub(crate) fn of(headers: &'a HeaderMap, authority: &'a str, hop: Hop) -> Self {
        match hop.trust {
            Trust::Nobody => Self { scheme: hop.scheme, authority },
            Trust::Proxies(length) => Self::claimed(Claims::of(headers, length), authority, hop.scheme),
        }
    }

    /// The same for a whole head.
    #[inline]
    pub(crate) fn of_head(head: &'a Head, hop: Hop) -> Self {
        match hop.trust {
            Trust::Nobody => Self { scheme: hop.scheme, authority: head.authority() },
            Trust::Proxies(length) => Self::claimed(Claims::of(head.headers(), length), head.authority(), hop.scheme),
        }
    }

    /// What proxies say of it; `otherwise`, and `authority`, if they do not say it.
    fn claimed(claims: Claims<'a>, authority: &'a str, otherwise: Scheme) -> Self {
        let Claims { scheme, host } = claims;
        let scheme = scheme.as_deref().and_then(Scheme::named);
        // A host needs no escapes, so one that has some is none.
        let host = host.and_then(|host| if let Cow::Borrowed(host) = host { Some(host) } else { None });
        let host = host.filter(|host| !host.is_empty() && is_authority(host));
        Self { scheme: scheme.unwrap_or(otherwise), authority: host.unwrap_or(authority) }
    }
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
                headers.append(*name, http::HeaderValue::from_static(value));
            }
            let Origin { scheme, authority } = Origin::of(&headers, "inner", Hop { scheme: Scheme::Http, trust });
            format!("{}://{authority}", scheme.as_str())
        };
        let (one, two) = (Trust::Proxies(1), Trust::Proxies(2));
        let proto = [("x-forwarded-proto", "HTTPS, http")];
        assert_eq!(origin(&proto, Trust::Nobody), "http://inner");
        assert_eq!(origin(&proto, two), "https://inner");
        assert_eq!(origin(&proto, one), "http://inner");
        assert_eq!(origin(&[("x-forwarded-proto", "HTTPS")], two), "https://inner");
        assert_eq!(origin(&[], one), "http://inner");
        assert_eq!(origin(&[("x-forwarded-proto", "gopher")], one), "http://inner");
        assert_eq!(origin(&[("x-forwarded-proto", "wss")], one), "https://inner");
        let element = [("forwarded", "for=\"a,b\"; Proto=https;host=\"a:8443\", for=x;proto=http")];
        assert_eq!(origin(&element, two), "https://a:8443");
        assert_eq!(origin(&element, one), "http://inner");
        assert_eq!(origin(&[("forwarded", "for=x, proto=https")], one), "https://inner");
        let both = [("x-forwarded-host", "b, c"), ("forwarded", "host=a"), ("x-forwarded-proto", "https")];
        assert_eq!(origin(&both, two), "https://b");
        assert_eq!(origin(&both, one), "https://c");
        assert_eq!(origin(&[("x-forwarded-host", "a/b")], one), "http://inner");
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
