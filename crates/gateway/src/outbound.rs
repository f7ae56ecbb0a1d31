//! A request as a service gets it: the client's, less what belongs to the connection, plus what the gateway knows.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};
use pilotlight_files::Script;
use pilotlight_http1::MessageWriter;

use crate::field_rules::FieldDirection;
use crate::head::{self, Head, Scope, crosses};
use crate::path::{self, normalized};
use crate::peer_address::PeerAddress;
use crate::request_id::RequestId;
use crate::route_changes::RouteChanges;
use crate::target::{Hop, Origin, Trust};
use crate::template::Facts;
use crate::traces::{Propagation, StateUse, TRACEPARENT, TRACESTATE};

/// Who takes interim responses.
pub(crate) trait InterimSink {
    /// Passes an interim answer on ahead of the response that is being waited for. It is help that may be missing:
    /// where it would have to wait, or there are too many, it is left out.
    fn send_interim(&self, status: StatusCode, headers: &HeaderMap);
}

/// A request that is on its way to a service.
pub(crate) struct Outbound {
    pub(crate) head: Head,
    pub(crate) id: RequestId,
    /// `address:port` of the client, or empty.
    pub(crate) peer: Rc<PeerAddress>,
    /// What `strip_prefix` cut off the target.
    pub(crate) stripped: Option<String>,
    /// What the route changes of it.
    pub(crate) changes: Option<Box<OutboundChanges>>,
    pub(crate) trust: Trust,
    /// `If-None-Match`/`If-Modified-Since` of the cache, in place of the client's.
    pub(crate) validators: Option<Box<HeaderMap>>,
    /// The protocols to switch to (`websocket`), if the client asks for any that may pass.
    pub(crate) upgrade: Option<Box<HeaderValue>>,
    /// Who gets interim responses (RFC 9110 §15.2).
    pub(crate) interim: Option<Rc<dyn InterimSink>>,
    /// The cache looks at the fields of the response.
    pub(crate) is_cached: bool,
    /// The script that it is for, of a service that has a folder of them.
    pub(crate) script: Option<Box<Script>>,
    /// The event that a function gets in place of one of the request.
    pub(crate) event: Option<Arc<str>>,
    /// The context that the service is told in place of the client's; `None`: the client's crosses.
    pub(crate) trace: Option<Propagation>,
}

/// What a route changes of a request.
pub(crate) struct OutboundChanges {
    /// The rules, which take fields away.
    pub(crate) route: Arc<RouteChanges>,
    /// Fields that it has instead, or as well.
    pub(crate) fields: Vec<(HeaderName, HeaderValue)>,
    /// The host that the service is told, if it is not the client's.
    pub(crate) host: Option<HeaderValue>,
    /// Path and query, if they are not the client's.
    pub(crate) target: Option<String>,
}

impl OutboundChanges {
    /// What a route changes of this request.
    pub(crate) fn of(route: &Arc<RouteChanges>, head: &Head, facts: &Facts<'_>) -> Box<Self> {
        let mut fields = route.request_fields.filled(facts);
        let host = fields.iter().position(|(name, _)| *name == HOST).map(|at| fields.remove(at).1);
        let target = route.rewrite.as_ref().and_then(|rewrite| rewrite.target(head.path(), head.query()));
        Box::new(Self { route: Arc::clone(route), fields, host, target })
    }

    fn takes(&self, name: &[u8]) -> bool {
        self.route.request_fields.takes(FieldDirection::Request, name)
    }
}

impl Outbound {
    /// Path and query as received, less the stripped prefix, or as the route rewrites them.
    pub(crate) fn target(&self) -> Cow<'_, str> {
        if self.head.scope == Scope::WholeService {
            return Cow::Borrowed("*");
        }
        if let Some(target) = self.changes.as_ref().and_then(|changes| changes.target.as_deref()) {
            return Cow::Borrowed(target);
        }
        let whole = self.head.target();
        let Some(prefix) = self.stripped.as_deref() else { return Cow::Borrowed(whole) };
        let path = self.head.path();
        let Some(below) = path::below(path, prefix) else {
            // It matched without its dot segments, so the prefix is cut off its normal form.
            let path = normalized(path);
            let rest = path.strip_prefix(prefix.trim_end_matches('/')).unwrap_or(&path).trim_start_matches('/');
            let query = self.head.query().map_or(String::new(), |query| format!("?{query}"));
            return Cow::Owned(format!("/{rest}{query}"));
        };
        let rest = &whole[path.len() - below.len()..];
        // Not two slashes: a service might read a host after them.
        match below.trim_start_matches('/').len() + 1 {
            length if length == below.len() => Cow::Borrowed(rest),
            length => Cow::Owned(format!("/{}", &rest[(below.len() + 1).saturating_sub(length)..])),
        }
    }

    /// The host that the service is told: the client's, unless the route says another one.
    pub(crate) fn host(&self) -> &str {
        let own = self.changes.as_ref().and_then(|changes| changes.host.as_ref()?.to_str().ok());
        own.unwrap_or(self.head.authority())
    }

    /// Scheme and authority as the client wrote them.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin::of_head(&self.head, Hop { scheme: self.peer.scheme(), trust: self.trust })
    }

    /// The version as text, for services that want to know.
    pub(crate) fn protocol(&self) -> &'static str {
        head::protocol(self.head.version)
    }

    /// The lines of the client's fields that the service gets, where no field of them has to be left out.
    pub(crate) fn received_lines(&self) -> Option<&[u8]> {
        let is_whole = self.validators.is_none() && self.changes.is_none() && !self.replaces_trace();
        self.head.crossing_lines().filter(|_| is_whole)
    }

    /// Whether the client says something of a trace that the service is not told.
    fn replaces_trace(&self) -> bool {
        self.trace.is_some() && (self.head.has(&TRACEPARENT) || self.head.has(&TRACESTATE))
    }

    /// Calls `field` with each field of the client's that the service gets.
    pub(crate) fn received_fields(&self, field: &mut dyn FnMut(&[u8], &[u8])) {
        self.head.each(&mut |name, value| {
            let crosses = match name {
                b"if-none-match" | b"if-modified-since" if self.validators.is_some() => false,
                b"connection" | b"upgrade" => false,
                b"traceparent" => self.trace.is_none(),
                b"tracestate" => self.trace.is_none_or(|trace| trace.state == StateUse::Kept),
                name => crosses(name),
            };
            if crosses && !self.changes.as_ref().is_some_and(|changes| changes.takes(name)) {
                field(name, value);
            }
        });
    }

    /// Calls `field` with each field that the gateway writes, but `host` and `transfer-encoding`: the name, and the
    /// value in pieces.
    pub(crate) fn own_fields(&self, mut field: impl FnMut(&[u8], &[&[u8]])) {
        self.of_request(&mut field);
        self.of_connection(&mut field);
    }

    /// Writes the same as lines.
    pub(crate) fn write_own_fields(&self, out: &mut BytesMut) {
        let write = |out: &mut BytesMut, name: &[u8], value: &[&[u8]]| {
            MessageWriter::fields(out).field_of(name, value);
        };
        self.of_request(&mut |name, value| write(out, name, value));
        let has_via = || self.head.has(&http::header::VIA);
        let is_common = self.trust == Trust::Nobody && self.stripped.is_none() && self.head.version != Version::HTTP_10;
        match is_common && !has_via() {
            true => {
                let all = |out: &mut BytesMut| self.of_connection(&mut |name, value| write(out, name, value));
                self.peer.put_lines(self.head.authority(), out, all);
            }
            false => self.of_connection(&mut |name, value| write(out, name, value)),
        }
    }

    /// What may differ from request to request.
    fn of_request(&self, field: &mut impl FnMut(&[u8], &[&[u8]])) {
        for (name, value) in self.validators.iter().flat_map(|map| map.iter()) {
            field(name.as_str().as_bytes(), &[value.as_bytes()]);
        }
        field(b"x-request-id", &[self.id.as_bytes()]);
        if let Some(trace) = &self.trace {
            field(b"traceparent", &[&trace.traceparent]);
        }
        if let Some(protocol) = &self.upgrade {
            field(b"connection", &[b"upgrade"]);
            field(b"upgrade", &[protocol.as_bytes()]);
        }
        for (name, value) in self.changes.iter().flat_map(|changes| &changes.fields) {
            field(name.as_str().as_bytes(), &[value.as_bytes()]);
        }
    }

    /// What is the same for each request of a client for one authority, unless the client says more of itself.
    fn of_connection(&self, field: &mut impl FnMut(&[u8], &[&[u8]])) {
        self.forwarded(field);
        // RFC 9110 §7.6.3: every intermediary adds itself.
        let version = self.protocol().trim_start_matches("HTTP/");
        match self.head.joined("via") {
            Some(before) => field(b"via", &[&*before, b", ", version.as_bytes(), b" pilotlight"]),
            None => field(b"via", &[version.as_bytes(), b" pilotlight"]),
        }
    }

    /// RFC 7239 and its older spellings. What a client says of itself counts only when it is trusted; then scheme and
    /// host are the same in all of them as in the cache's key.
    fn forwarded(&self, field: &mut impl FnMut(&[u8], &[&[u8]])) {
        let Origin { scheme, authority } = self.origin();
        let (scheme, authority) = (scheme.as_str().as_bytes(), authority.as_bytes());
        let ip = self.peer.ip().as_bytes();
        let before = |name| {
            let trusted = (self.trust != Trust::Nobody).then(|| self.head.joined(name)).flatten();
            trusted.filter(|value| std::str::from_utf8(value).is_ok()).map(|value| [&*value, b", "].concat())
        };
        let said = before("forwarded").unwrap_or_default();
        let (open, node, close): (&[u8], _, &[u8]) = match ip {
            b"" => (b"", &b"unknown"[..], b""),
            v6 if v6.contains(&b':') => (b"\"[", v6, b"]\""),
            v4 => (b"", v4, b""),
        };
        let is_quotable = !authority.is_empty() && authority.iter().all(|byte| !matches!(byte, b'"' | b'\\'));
        let (host, quoted, end): (&[u8], _, &[u8]) =
            if is_quotable { (b";host=\"", authority, b"\"") } else { (b"", &b""[..], b"") };
        field(b"forwarded", &[&said, b"for=", open, node, close, host, quoted, end, b";proto=", scheme]);
        if !ip.is_empty() {
            field(b"x-forwarded-for", &[&before("x-forwarded-for").unwrap_or_default(), ip]);
        }
        field(b"x-forwarded-proto", &[scheme]);
        if !authority.is_empty() {
            field(b"x-forwarded-host", &[authority]);
        }
        // RFC 9440 §2.2: the certificate, as a byte sequence of structured fields.
        if let Some(certificate) = self.peer.certificate() {
            field(b"client-cert", &[b":", certificate.as_bytes(), b":"]);
        }
        if let Some(prefix) = self.stripped.as_deref().filter(|p| !p.is_empty()) {
            field(b"x-forwarded-prefix", &[prefix.as_bytes()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_address::Entrance;
    use crate::target::Scheme;
    use pilotlight_http1::{FieldTable, Limits, parse_request};

    fn outbound(target: &str, fields: &str, peer: &str) -> Outbound {
        let text = format!("GET {target} HTTP/1.1\r\nhost: example.org\r\n{fields}\r\n");
        let mut table = FieldTable::new();
        let head = parse_request(text.as_bytes(), &mut table, &Limits::REQUEST).unwrap().unwrap();
        Outbound {
            head: Head::received(&head).unwrap(),
            id: crate::request_id::RequestIds::new().id(None),
            peer: PeerAddress::new(peer),
            stripped: None,
            changes: None,
            trust: Trust::Nobody,
            validators: None,
            upgrade: None,
            interim: None,
            is_cached: false,
            script: None,
            event: None,
            trace: None,
        }
    }

    /// What a service gets, which is the same by lines and one by one.
    fn fields(outbound: &Outbound) -> Vec<(String, String)> {
        let (mut all, mut lines) = (Vec::new(), Vec::new());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        outbound.received_fields(&mut |name, value| {
            lines.extend([name, b": ", value, b"\r\n"].concat());
            all.push((text(name), text(value)));
        });
        assert_eq!(outbound.received_lines().map(text), Some(text(&lines)));
        outbound.own_fields(|name, value| all.push((text(name), text(&value.concat()))));
        let own: String = all[all.len() - own_count(outbound)..].iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
        for _ in 0..2 {
            let mut out = BytesMut::new();
            outbound.write_own_fields(&mut out); // the second time as it was kept
            assert_eq!(text(&out), own);
        }
        all
    }

    fn own_count(outbound: &Outbound) -> usize {
        let mut count = 0;
        outbound.own_fields(|_, _| count += 1);
        count
    }

    fn value<'a>(fields: &'a [(String, String)], name: &str) -> Vec<&'a str> {
        fields.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
    }

    #[test]
    fn what_a_client_claims_is_replaced() {
        let request = concat!(
            "x-forwarded-for: 6.6.6.6\r\n",
            "forwarded: for=6.6.6.6\r\n",
            "X_Forwarded_For: 6.6.6.6\r\n",
            "x-forwarded_host: evil\r\n",
            "x_kept: 1\r\n",
            "x-kept: 1\r\n",
            "x-kept: 2\r\n",
            "te: trailers\r\n",
        );
        let all = fields(&outbound("/", request, "10.1.2.3:555"));
        assert_eq!(value(&all, "x-forwarded-for"), ["10.1.2.3"]);
        assert_eq!(value(&all, "forwarded"), ["for=10.1.2.3;host=\"example.org\";proto=http"]);
        assert!(value(&all, "x_forwarded_for").is_empty() && value(&all, "x-forwarded_host").is_empty());
        assert_eq!(value(&all, "x_kept"), ["1"]);
        assert_eq!(value(&all, "x-kept"), ["1", "2"]);
        assert_eq!(value(&all, "via"), ["1.1 pilotlight"]);
        assert!(value(&all, "te").is_empty());
    }

    #[test]
    fn trusted_claims_are_extended() {
        let request = concat!(
            "x-forwarded-for: 6.6.6.6\r\n",
            "x-forwarded-for: 7.7.7.7\r\n",
            "x-forwarded-proto: https\r\n",
            "via: 1.0 other\r\n",
        );
        let mut out = outbound("/", request, "[::1]:555");
        out.trust = Trust::Proxies(2);
        let all = fields(&out);
        assert_eq!(value(&all, "x-forwarded-for"), ["6.6.6.6, 7.7.7.7, ::1"]);
        assert_eq!(value(&all, "x-forwarded-proto"), ["https"]);
        assert_eq!(value(&all, "via"), ["1.0 other, 1.1 pilotlight"]);
        assert_eq!(value(&all, "forwarded"), ["for=\"[::1]\";host=\"example.org\";proto=https"]);
    }

    #[test]
    fn what_is_known_of_a_connection_with_tls_is_told() {
        let mut out = outbound("/", "client-cert: :Zm9yZ2Vk:\r\nClient_Cert-Chain: x\r\n", "10.1.2.3:555");
        assert!(value(&fields(&out), "client-cert").is_empty());
        out.peer = PeerAddress::of("10.1.2.3:555", Entrance { scheme: Scheme::Https, port: None }, Some("AAEC".into()));
        let all = fields(&out);
        assert_eq!(value(&all, "client-cert"), [":AAEC:"]);
        assert!(value(&all, "client-cert-chain").is_empty() && value(&all, "client_cert-chain").is_empty());
        assert_eq!(value(&all, "x-forwarded-proto"), ["https"]);
        assert_eq!(value(&all, "forwarded"), ["for=10.1.2.3;host=\"example.org\";proto=https"]);
    }

    #[test]
    fn a_context_of_ours_replaces_the_clients() {
        let claimed = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: a=1\r\n";
        let mut out = outbound("/", claimed, "10.1.2.3:555");
        assert_eq!(value(&fields(&out), "tracestate"), ["a=1"]);
        for (state, expected) in [(StateUse::Kept, &["a=1"][..]), (StateUse::Dropped, &[])] {
            out.trace = Some(Propagation { traceparent: [b'x'; 55], state });
            assert_eq!(out.received_lines(), None);
            let mut all = Vec::new();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            out.received_fields(&mut |name, value| all.push((text(name), text(value))));
            out.own_fields(|name, value| all.push((text(name), text(&value.concat()))));
            assert_eq!(value(&all, "traceparent"), ["x".repeat(55)]);
            assert_eq!(value(&all, "tracestate"), expected);
        }
        out = outbound("/", "a: b\r\n", "10.1.2.3:555");
        out.trace = Some(Propagation { traceparent: [b'x'; 55], state: StateUse::Dropped });
        assert_eq!(value(&fields(&out), "traceparent"), ["x".repeat(55)]);
    }

    #[test]
    fn a_stripped_prefix_leaves_a_path() {
        assert_eq!(outbound("/api/x?q=%2F", "", "").target(), "/api/x?q=%2F");
        let stripped = |target: &str| {
            let mut out = outbound(target, "", "");
            out.stripped = Some("/api".into());
            out.target().into_owned()
        };
        assert_eq!(stripped("/api/x?q=%2F"), "/x?q=%2F");
        assert_eq!(stripped("/api?x=1"), "/?x=1");
        for hidden in ["/x/../api/y?q=%2F", "/%2e/api/y?q=%2F", "/api/../x/../api/y?q=%2F"] {
            assert_eq!(stripped(hidden), "/y?q=%2F", "{hidden}");
        }
    }
}
