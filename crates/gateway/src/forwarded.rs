//! What proxies say of a client: `Forwarded` (RFC 7239) and its older spellings, `X-Forwarded-*`.
//!
//! A list grows to the right: each proxy adds whom it got the request from. So only as much of its end can be believed
//! as trusted proxies have written, and the client is the first, from the right, who is none of them (RFC 7239 §8.1).

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HeaderMap, HeaderName};

use crate::networks::Networks;

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(crate) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(crate) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Who is believed when they tell of others, in `Forwarded` and `X-Forwarded-*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TrustForwarded {
    /// What anybody says is replaced.
    #[default]
    Nobody,
    /// Whoever connects, and nobody behind them.
    Everybody,
    /// Proxies in these networks, those behind them included. Who connects by a Unix socket is in none.
    Networks(Networks),
}

impl TrustForwarded {
    /// Whether who has connected is believed.
    pub(crate) fn believes(&self, peer: Option<IpAddr>) -> bool {
        match self {
            Self::Nobody => false,
            Self::Everybody => true,
            Self::Networks(networks) => peer.is_some_and(|peer| networks.contain(peer)),
        }
    }

    /// Whether one who is told of is a proxy, and believed as well.
    fn is_proxy(&self, address: IpAddr) -> bool {
        matches!(self, Self::Networks(networks) if networks.contain(address))
    }

    /// The address of the client of a request that `peer` has sent.
    pub(crate) fn client(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<IpAddr> {
        self.chain(headers, peer).client
    }

    /// The proxies that a request has passed, from `peer` towards the client, as far as they are trusted.
    pub(crate) fn chain(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Chain {
        let mut chain = Chain { client: peer, length: 0 };
        if !self.believes(peer) {
            return chain;
        }
        chain.length = 1;
        for (before, node) in nodes(headers).into_iter().rev().enumerate() {
            chain.length = before + 1; // the one that wrote this node
            let Some(address) = node else { break }; // somebody who is not told; who told it is the last that is known
            chain.client = Some(address);
            if !self.is_proxy(address) {
                break;
            }
        }
        chain
    }
}

/// The trusted proxies between the gateway and a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Who sent the request to the first of them, or to the gateway.
    pub(crate) client: Option<IpAddr>,
    /// How many there are: as many values at the end of each list are theirs.
    pub(crate) length: usize,
}

/// What the trusted proxy that is nearest to the client says of the request: `X-Forwarded-Proto` and `-Host`, else
/// `Forwarded`.
pub(crate) struct Claims<'a> {
    pub(crate) scheme: Option<Cow<'a, str>>,
    pub(crate) host: Option<Cow<'a, str>>,
}

impl<'a> Claims<'a> {
    /// Of the last `length` values of each list, which trusted proxies wrote ([`Chain::length`]), the first. Those
    /// before them a client may have made up.
    pub(crate) fn of(headers: &'a HeaderMap, length: usize) -> Self {
        let first = |name: &HeaderName| first_of_last(headers, name, length).map(Cow::Borrowed);
        let (mut scheme, mut host) = (first(&X_FORWARDED_PROTO), first(&X_FORWARDED_HOST));
        if scheme.is_none() || host.is_none() {
            let mut elements = elements(headers);
            let theirs = elements.len().saturating_sub(length);
            for element in elements.drain(theirs..) {
                scheme = scheme.or(element.proto);
                host = host.or(element.host);
            }
        }
        Self { scheme, host }
    }
}

/// Of the last `length` values of a list, which may be in several lines, the first. `None`: there is no list, or a line
/// is not text.
fn first_of_last<'a>(headers: &'a HeaderMap, name: &HeaderName, length: usize) -> Option<&'a str> {
    let (mut found, mut left) = (None, length);
    for line in headers.get_all(name).iter().rev() {
        if left == 0 {
            break;
        }
        for value in line.to_str().ok()?.rsplit(',').take(left) {
            found = Some(value.trim());
            left -= 1;
        }
    }
    found
}

/// Whom the proxies got the request from, the client's end first; `None` for who is not told (RFC 7239 §6.2, §6.3).
fn nodes(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let mut lines = headers.get_all(X_FORWARDED_FOR).iter().peekable();
    if lines.peek().is_none() {
        return elements(headers).into_iter().map(|element| node(&element.node?)).collect();
    }
    let texts = lines.map(|line| line.to_str().unwrap_or_default());
    texts.flat_map(|text| text.split(',')).map(|text| node(text.trim_ascii())).collect()
}

/// An address, with or without a port: RFC 7239 §6, and what is written into `X-Forwarded-For`.
fn node(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    let address: Option<IpAddr> = text.parse().ok().or_else(bracketed).or_else(with_port);
    address.map(|address| address.to_canonical())
}

/// One element of `Forwarded`: what is used of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Element<'a> {
    node: Option<Cow<'a, str>>,
    proto: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
}

/// Those of all lines, in their order (RFC 9110 §5.3). Nothing is believed of lines that are malformed anywhere.
fn elements(headers: &HeaderMap) -> Vec<Element<'_>> {
    let mut all = Vec::new();
    for line in headers.get_all(FORWARDED) {
        let read = line.to_str().ok().and_then(|text| Reader { rest: text }.elements(&mut all));
        if read.is_none() {
            return Vec::new();
        }
    }
    all
}

/// Reads a line of `Forwarded` (RFC 7239 §4).
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn elements(&mut self, all: &mut Vec<Element<'a>>) -> Option<()> {
        loop {
            let (mut element, mut is_empty) = (Element::default(), true);
            loop {
                is_empty &= !self.pair(&mut element)?;
                self.space();
                if !self.takes(';') {
                    break;
                }
            }
            // RFC 9110 §5.6.1.2: empty elements of a list are ignored.
            if !is_empty {
                all.push(element);
            }
            if self.rest.is_empty() {
                return Some(());
            }
            if !self.takes(',') {
                return None;
            }
        }
    }

    /// `token=value`, or nothing; whether there was one.
    fn pair(&mut self, element: &mut Element<'a>) -> Option<bool> {
        self.space();
        let name = self.token();
        if name.is_empty() {
            return Some(false);
        }
        if !self.takes('=') {
            return None;
        }
        let value = self.value()?;
        let place = match () {
            () if name.eq_ignore_ascii_case("for") => &mut element.node,
            () if name.eq_ignore_ascii_case("proto") => &mut element.proto,
            () if name.eq_ignore_ascii_case("host") => &mut element.host,
            () => return Some(true),
        };
        // RFC 7239 §4: "each parameter MUST NOT occur more than once per field-value" of a proxy.
        place.replace(value).is_none().then_some(true)
    }

    fn value(&mut self) -> Option<Cow<'a, str>> {
        if self.takes('"') {
            return self.quoted();
        }
        // Wider than a token: addresses with a port are written without quotes, too.
        let end = self.rest.find([',', ';', ' ', '\t', '"']).unwrap_or(self.rest.len());
        let (value, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!value.is_empty()).then_some(Cow::Borrowed(value))
    }

    /// What follows the opening quote (RFC 9110 §5.6.4).
    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        let (text, mut escaped) = (self.rest, false);
        let end = text.find(|c: char| match (escaped, c) {
            (true, _) => {
                escaped = false;
                false
            }
            (false, '\\') => {
                escaped = true;
                false
            }
            (false, c) => c == '"',
        })?;
        self.rest = &text[end + 1..];
        let value = &text[..end];
        if !value.contains('\\') {
            return Some(Cow::Borrowed(value));
        }
        let (mut plain, mut pair) = (String::with_capacity(value.len()), false);
        for c in value.chars() {
            pair = !pair && c == '\\';
            if !pair {
                plain.push(c);
            }
        }
        Some(Cow::Owned(plain))
    }

    fn token(&mut self) -> &'a str {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let end = self.rest.find(|c| !is_token(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn takes(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn networks() -> TrustForwarded {
        let listed = ["10.0.0.0/8", "2001:db8:1::/48"].map(|text| text.parse().unwrap());
        TrustForwarded::Networks(listed.into_iter().collect())
    }

    #[track_caller]
    fn check(trust: &TrustForwarded, lines: &[(&'static str, &str)], expected: &str) {
        let client = trust.client(&headers(lines), "10.0.0.1".parse().ok());
        assert_eq!(client, expected.parse().ok(), "{lines:?}");
    }

    #[test]
    fn the_first_from_the_right_who_is_no_proxy() {
        let trust = networks();
        check(&trust, &[], "10.0.0.1");
        check(&trust, &[("x-forwarded-for", "192.0.2.1")], "192.0.2.1");
        check(&trust, &[("x-forwarded-for", "6.6.6.6, 192.0.2.1, 10.9.9.9")], "192.0.2.1");
        check(&trust, &[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "192.0.2.1,10.9.9.9")], "192.0.2.1");
        check(&trust, &[("x-forwarded-for", "10.1.1.1, 10.2.2.2")], "10.1.1.1"); // all are proxies: the farthest
        check(&trust, &[("x-forwarded-for", "192.0.2.1, unknown")], "10.0.0.1");
        check(&trust, &[("x-forwarded-for", "192.0.2.1, unknown, 10.2.2.2")], "10.2.2.2");
        check(&trust, &[("x-forwarded-for", "192.0.2.1:4711")], "192.0.2.1");
        check(&trust, &[("x-forwarded-for", "[2001:db8:7::1]:4711")], "2001:db8:7::1");
        check(&trust, &[("x-forwarded-for", "::ffff:10.1.1.1, ::ffff:10.2.2.2")], "10.1.1.1");
        check(&trust, &[("x-forwarded-for", "")], "10.0.0.1");
        check(&trust, &[("forwarded", "for=6.6.6.6, for=192.0.2.1;proto=https, for=10.9.9.9")], "192.0.2.1");
        check(&trust, &[("forwarded", "for=\"[2001:db8:7::1]:4711\", for=\"[2001:db8:1::9]\"")], "2001:db8:7::1");
        check(&trust, &[("forwarded", "for=6.6.6.6"), ("forwarded", "For=\"192.0.2.1:4711\";by=_x")], "192.0.2.1");
        check(&trust, &[("forwarded", "for=6.6.6.6, for=_hidden, for=10.9.9.9")], "10.9.9.9");
        check(&trust, &[("forwarded", "for=6.6.6.6, proto=https")], "10.0.0.1"); // it does not tell
        check(&trust, &[("forwarded", "for=6.6.6.6, for=\"192.0.2.1")], "10.0.0.1"); // malformed
        check(&trust, &[("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=6.6.6.6")], "192.0.2.1");

        check(&TrustForwarded::Everybody, &[("x-forwarded-for", "6.6.6.6, 10.9.9.9")], "10.9.9.9");
        check(&TrustForwarded::Nobody, &[("x-forwarded-for", "6.6.6.6")], "10.0.0.1");
        let elsewhere = "192.0.2.99".parse().ok();
        assert_eq!(trust.client(&headers(&[("x-forwarded-for", "6.6.6.6")]), elsewhere), elsewhere);
        assert_eq!(trust.client(&headers(&[("x-forwarded-for", "6.6.6.6")]), None), None);
        assert!(TrustForwarded::Everybody.believes(None) && !trust.believes(None));
    }

    #[track_caller]
    fn claims(length: usize, lines: &[(&'static str, &str)], scheme: Option<&str>, host: Option<&str>) {
        let map = headers(lines);
        let claims = Claims::of(&map, length);
        assert_eq!((claims.scheme.as_deref(), claims.host.as_deref()), (scheme, host), "{lines:?}");
    }

    #[test]
    fn what_is_claimed() {
        claims(1, &[], None, None);
        let element = [("forwarded", "for=\"a,b\"; Proto=https;host=\"a:8443\", for=x;proto=http")];
        claims(2, &element, Some("https"), Some("a:8443"));
        claims(1, &element, Some("http"), None);
        claims(1, &[("forwarded", r#"host="a\.b\"";proto=ht\tps"#)], Some(r"ht\tps"), Some("a.b\""));
        claims(1, &[("forwarded", ";;proto=https;;, ,")], Some("https"), None);
        claims(1, &[("forwarded", "proto=https, for=x")], None, None);
        claims(1, &[("forwarded", "proto=https"), ("forwarded", "for=x")], None, None);
        claims(2, &[("forwarded", "proto=https"), ("forwarded", "for=x;host=b")], Some("https"), Some("b"));
        for malformed in
            ["proto", "proto=", "proto=https;proto=http", "=https", "proto=\"https", "proto=https x=y", "é"]
        {
            claims(1, &[("forwarded", malformed)], None, None);
        }
        let both =
            [("x-forwarded-host", "b, c"), ("forwarded", "host=a;proto=http"), ("x-forwarded-proto", "https, http")];
        claims(2, &both, Some("https"), Some("b"));
        claims(1, &both, Some("http"), Some("c"));
        claims(9, &both, Some("https"), Some("b"));
        let lines = [("x-forwarded-proto", "a, b"), ("x-forwarded-proto", "c"), ("x-forwarded-host", "x")];
        for (length, scheme) in [(1, "c"), (2, "b"), (3, "a"), (4, "a")] {
            claims(length, &lines, Some(scheme), Some("x"));
        }
        let odd = [("x-forwarded-proto", "\u{e9}"), ("x-forwarded-proto", "https")];
        claims(1, &odd, Some("https"), None);
        claims(2, &odd, None, None);
    }

    /// As many values at the end of each list as trusted proxies have written it: whatever a client claims is not one.
    #[test]
    fn how_many_proxies_are_trusted() {
        let length = |trust: &TrustForwarded, peer: &str, lines: &[(&'static str, &str)]| {
            trust.chain(&headers(lines), peer.parse().ok()).length
        };
        let (networks, everybody) = (networks(), TrustForwarded::Everybody);
        for (trust, peer, lines, expected) in [
            (&TrustForwarded::Nobody, "10.0.0.1", &[("x-forwarded-for", "10.1.1.1")][..], 0),
            (&networks, "192.0.2.99", &[("x-forwarded-for", "10.1.1.1")], 0),
            (&networks, "10.0.0.1", &[], 1),
            (&networks, "10.0.0.1", &[("x-forwarded-for", "6.6.6.6, 192.0.2.1")], 1),
            (&networks, "10.0.0.1", &[("x-forwarded-for", "6.6.6.6, 192.0.2.1, 10.9.9.9")], 2),
            (&networks, "10.0.0.1", &[("x-forwarded-for", "10.7.7.7, 10.8.8.8, 10.9.9.9")], 3),
            (&networks, "10.0.0.1", &[("x-forwarded-for", "10.7.7.7, unknown, 10.9.9.9")], 2),
            (&networks, "10.0.0.1", &[("forwarded", "for=6.6.6.6, for=192.0.2.1, for=10.9.9.9;proto=https")], 2),
            (&networks, "10.0.0.1", &[("forwarded", "for=10.7.7.7, proto=https")], 1),
            (&everybody, "192.0.2.99", &[("x-forwarded-for", "10.7.7.7, 10.8.8.8")], 1),
        ] {
            assert_eq!(length(trust, peer, lines), expected, "{peer} {lines:?}");
        }
    }

    fn quoted(text: &str) -> String {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::vec(("[ -~]{0,20}", "[ -~]{0,20}", "[a-z]{1,8}"), 1..6)) {
            let one = |(node, host, proto): &(String, String, String)| {
                format!("for={};host={};proto={proto}", quoted(node), quoted(host))
            };
            let map = headers(&[("forwarded", &values.iter().map(one).collect::<Vec<_>>().join(", "))]);
            let read = elements(&map);
            prop_assert_eq!(read.len(), values.len());
            for (element, (node, host, proto)) in read.iter().zip(&values) {
                let expected = (Some(node.as_str()), Some(host.as_str()), Some(proto.as_str()));
                prop_assert_eq!((element.node.as_deref(), element.host.as_deref(), element.proto.as_deref()), expected);
            }
        }

        #[test]
        fn nothing_breaks_it(text in "[-a-z0-9=;,\"\\\\ \t.:_\\[\\]]{0,60}", older in "[a-f0-9.:, \\[\\]]{0,60}") {
            let map = headers(&[("forwarded", &text)]);
            prop_assert!(elements(&map).len() <= text.len());
            let map = headers(&[("forwarded", &text), ("x-forwarded-for", &older)]);
            let peer = "10.0.0.1".parse().ok();
            prop_assert!(networks().client(&map, peer).is_some());
        }
    }
}
