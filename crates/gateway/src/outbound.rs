//! A request as a service gets it: the client's, less what belongs to the connection, plus what the gateway knows.

use std::borrow::Cow;
use std::rc::Rc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Version};

use crate::client::Client;
use crate::fields::is_hop_by_hop;
use crate::request_id::RequestId;
use crate::routes::normalized;
use crate::target::{Origin, Trust};

/// A request that is on its way to a service.
pub(crate) struct Outbound {
    pub(crate) parts: Parts,
    pub(crate) id: RequestId,
    /// `Host`, or the authority of an absolute target.
    pub(crate) authority: String,
    /// `address:port` of the client, or empty.
    pub(crate) peer: Rc<str>,
    /// What `strip_prefix` cut off the target.
    pub(crate) stripped: Option<String>,
    /// It is for the service as a whole, whose target is `*`.
    pub(crate) is_of_whole_service: bool,
    pub(crate) trust: Trust,
    /// `If-None-Match`/`If-Modified-Since` of the cache, in place of the client's.
    pub(crate) validators: Option<HeaderMap>,
    /// The protocol to switch to (`websocket`), if the client asks for one and the service speaks HTTP.
    pub(crate) upgrade: Option<http::HeaderValue>,
    /// Who gets interim answers (RFC 9110 §15.2).
    pub(crate) interim: Option<Rc<Client>>,
}

impl Outbound {
    /// Path and query as received, less the stripped prefix.
    pub(crate) fn target(&self) -> Cow<'_, str> {
        if self.is_of_whole_service {
            return Cow::Borrowed("*");
        }
        let whole = self.parts.uri.path_and_query().map_or("/", |t| t.as_str());
        let Some(prefix) = self.stripped.as_deref() else { return Cow::Borrowed(whole) };
        // It matched without its dot segments, so if it has any, that is what the prefix is cut off.
        let path = normalized(self.parts.uri.path());
        if path != self.parts.uri.path() {
            let rest = path.strip_prefix(prefix).unwrap_or(&path).trim_start_matches('/');
            let query = self.parts.uri.query().map_or(String::new(), |query| format!("?{query}"));
            return Cow::Owned(format!("/{rest}{query}"));
        }
        match whole.strip_prefix(prefix).unwrap_or("") {
            rest if rest.starts_with('/') => Cow::Borrowed(rest),
            rest => Cow::Owned(format!("/{rest}")),
        }
    }

    /// Scheme and authority as the client wrote them.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin::of(&self.parts.headers, &self.authority, self.trust)
    }

    /// The version as text, for services that want to know.
    pub(crate) fn protocol(&self) -> &'static str {
        if self.parts.version == Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" }
    }

    /// Whether the method may be sent twice (RFC 9110 §9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        matches!(
            self.parts.method,
            Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS | Method::TRACE
        )
    }

    /// Calls `field` with each field that the service gets, but `host` and `transfer-encoding`.
    pub(crate) fn fields(&self, field: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in &self.parts.headers {
            if self.crosses(name) {
                field(name.as_str().as_bytes(), value.as_bytes());
            }
        }
        for (name, value) in self.validators.iter().flatten() {
            field(name.as_str().as_bytes(), value.as_bytes());
        }
        field(b"x-request-id", self.id.as_bytes());
        self.forwarded(field);
        // RFC 9110 §7.6.3: every intermediary adds itself.
        let version = if self.parts.version == Version::HTTP_10 { "1.0" } else { "1.1" };
        match self.joined(&http::header::VIA) {
            Some(before) => field(b"via", &[&*before, b", ", version.as_bytes(), b" pilotlight"].concat()),
            None if version == "1.1" => field(b"via", b"1.1 pilotlight"),
            None => field(b"via", b"1.0 pilotlight"),
        }
        if let Some(protocol) = &self.upgrade {
            field(b"connection", b"upgrade");
            field(b"upgrade", protocol.as_bytes());
        }
    }

    fn crosses(&self, name: &HeaderName) -> bool {
        match name.as_str() {
            "expect" => false,
            name if is_replaced(name) => false,
            "if-none-match" | "if-modified-since" if self.validators.is_some() => false,
            name if name.as_bytes().contains(&b'_') && is_replaced(&name.replace('_', "-")) => false,
            _ => !is_hop_by_hop(name),
        }
    }

    /// A list field's lines as one: the last of them is the nearest proxy's, and must not be the one that is lost.
    fn joined(&self, name: &HeaderName) -> Option<Cow<'_, [u8]>> {
        let mut values = self.parts.headers.get_all(name).iter().map(HeaderValue::as_bytes).filter(|v| !v.is_empty());
        let first = values.next()?;
        Some(values.fold(Cow::Borrowed(first), |all, next| Cow::Owned([&*all, b", ", next].concat())))
    }

    /// RFC 7239 and its older spellings. What a client says of itself counts only when it is trusted; then scheme and
    /// host are the same in all of them as in the cache's key.
    fn forwarded(&self, field: &mut dyn FnMut(&[u8], &[u8])) {
        let Origin { scheme, authority } = self.origin();
        let ip = self.peer.rsplit_once(':').map_or(&*self.peer, |(ip, _)| ip);
        let bare = ip.trim_start_matches('[').trim_end_matches(']');
        let before = |name: &'static str| {
            let trusted = (self.trust == Trust::Peers).then(|| self.joined(&HeaderName::from_static(name))).flatten();
            trusted.and_then(|v| String::from_utf8(v.into_owned()).ok())
        };
        let mut text = String::with_capacity(128);
        if let Some(before) = before("forwarded") {
            text.extend([&before, ", "]);
        }
        match bare {
            "" => text.push_str("for=unknown"),
            v6 if v6.contains(':') => text.extend(["for=\"[", v6, "]\""]),
            v4 => text.extend(["for=", v4]),
        }
        let quotable = authority.bytes().all(|b| b != b'"' && b != b'\\');
        if quotable && !authority.is_empty() {
            text.extend([";host=\"", authority, "\""]);
        }
        text.extend([";proto=", scheme.as_str()]);
        field(b"forwarded", text.as_bytes());
        if !bare.is_empty() {
            text.clear();
            if let Some(before) = before("x-forwarded-for") {
                text.extend([&before, ", "]);
            }
            text.push_str(bare);
            field(b"x-forwarded-for", text.as_bytes());
        }
        field(b"x-forwarded-proto", scheme.as_str().as_bytes());
        if !authority.is_empty() {
            field(b"x-forwarded-host", authority.as_bytes());
        }
        if let Some(prefix) = self.stripped.as_deref().filter(|p| !p.is_empty()) {
            field(b"x-forwarded-prefix", prefix.as_bytes());
        }
    }
}

/// Fields that the gateway writes itself. Programs that get fields as variables (CGI, WSGI) cannot tell
/// `X_Forwarded_For` from `X-Forwarded-For`, so a client cannot have that either.
fn is_replaced(name: &str) -> bool {
    matches!(
        name,
        "host"
            | "x-request-id"
            | "via"
            | "forwarded"
            | "x-forwarded-for"
            | "x-forwarded-proto"
            | "x-forwarded-host"
            | "x-forwarded-prefix"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn outbound(request: Request<()>, peer: &str) -> Outbound {
        let (parts, ()) = request.into_parts();
        Outbound {
            parts,
            id: crate::request_id::RequestIds::new().id(None),
            authority: "example.org".into(),
            peer: peer.into(),
            stripped: None,
            is_of_whole_service: false,
            trust: Trust::Nobody,
            validators: None,
            upgrade: None,
            interim: None,
        }
    }

    fn fields(outbound: &Outbound) -> Vec<(String, String)> {
        let mut all = Vec::new();
        outbound.fields(&mut |n, v| {
            all.push((String::from_utf8_lossy(n).into(), String::from_utf8_lossy(v).into()));
        });
        all
    }

    fn value<'a>(fields: &'a [(String, String)], name: &str) -> Vec<&'a str> {
        fields.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
    }

    #[test]
    fn what_a_client_claims_is_replaced() {
        let request = Request::builder()
            .header("x-forwarded-for", "6.6.6.6")
            .header("forwarded", "for=6.6.6.6")
            .header("X_Forwarded_For", "6.6.6.6")
            .header("x-forwarded_host", "evil")
            .header("x_kept", "1")
            .header("x-kept", "1")
            .header("x-kept", "2")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let all = fields(&outbound(request, "10.1.2.3:555"));
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
        let request = Request::builder()
            .header("x-forwarded-for", "6.6.6.6")
            .header("x-forwarded-for", "7.7.7.7")
            .header("x-forwarded-proto", "https")
            .header("via", "1.0 other")
            .body(())
            .unwrap();
        let mut out = outbound(request, "[::1]:555");
        out.trust = Trust::Peers;
        let all = fields(&out);
        assert_eq!(value(&all, "x-forwarded-for"), ["6.6.6.6, 7.7.7.7, ::1"]);
        assert_eq!(value(&all, "x-forwarded-proto"), ["https"]);
        assert_eq!(value(&all, "via"), ["1.0 other, 1.1 pilotlight"]);
        assert_eq!(value(&all, "forwarded"), ["for=\"[::1]\";host=\"example.org\";proto=https"]);
    }

    #[test]
    fn a_stripped_prefix_leaves_a_path() {
        let mut out = outbound(Request::builder().uri("/api/x?q=%2F").body(()).unwrap(), "");
        assert_eq!(out.target(), "/api/x?q=%2F");
        out.stripped = Some("/api".into());
        assert_eq!(out.target(), "/x?q=%2F");
        out.parts.uri = "/api?x=1".parse().unwrap();
        assert_eq!(out.target(), "/?x=1");
        for hidden in ["/x/../api/y?q=%2F", "/%2e/api/y?q=%2F", "/api/../x/../api/y?q=%2F"] {
            out.parts.uri = hidden.parse().unwrap();
            assert_eq!(out.target(), "/y?q=%2F", "{hidden}");
        }
    }
}
