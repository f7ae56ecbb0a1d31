//! Header fields on their way through: which may cross, and what the gateway adds.

use std::borrow::Cow;

use http::header::{CONNECTION, HeaderMap, HeaderName};

/// The members of a comma-separated list field, in lower case; empty for almost every message.
#[derive(Default)]
struct FieldList(Vec<String>);

impl FieldList {
    /// The options of `Connection` (RFC 9110 §7.6.1).
    fn connection(headers: &HeaderMap) -> Self {
        let mut list = Vec::new();
        for value in headers.get_all(CONNECTION) {
            // The two that most messages have name no field.
            if value.as_bytes().eq_ignore_ascii_case(b"keep-alive") {
                list.push("keep-alive".to_owned());
                continue;
            }
            let members = value.as_bytes().split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|m| !m.is_empty());
            list.extend(members.map(|m| String::from_utf8_lossy(m).to_ascii_lowercase()));
        }
        Self(list)
    }

    fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|n| n == name)
    }

    /// Whether it keeps a field back.
    fn takes(&self, name: &HeaderName) -> bool {
        !self.0.is_empty() && self.contains(name.as_str()) && !is_needed(name.as_str())
    }
}

/// Whether a field belongs to one connection only, whoever names it, and must not be forwarded (RFC 9110 §7.6.1).
pub(crate) fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(&name.as_str())
}

/// The same of a name in any case of letters.
pub(crate) fn is_hop_by_hop_name(name: &[u8]) -> bool {
    HOP_BY_HOP.iter().any(|own| own.len() == name.len() && name.eq_ignore_ascii_case(own.as_bytes()))
}

const HOP_BY_HOP: [&str; 7] =
    ["connection", "http2-settings", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// `Connection: content-length` and the like are an attack, not an option: without it the body would be read as a
/// request. The same holds for fields by which a proxy before this one says who asks: a client must not be able to take
/// them off.
fn is_needed(name: &str) -> bool {
    matches!(
        name,
        "content-length"
            | "content-type"
            | "content-encoding"
            | "host"
            | "set-cookie"
            | "cookie"
            | "authorization"
            | "cache-control"
            | "client-cert"
            | "client-cert-chain"
            | "forwarded"
            | "via"
            | "x-real-ip"
            | "x-request-id"
    ) || name.starts_with("x-forwarded-")
}

/// Leaves of a client's trailers what may be told behind a body. A recipient may merge them into the fields of the
/// request, whose framing, route, identity and conditions have been decided by then (RFC 9110 §6.5.1).
pub(crate) fn keep_trailers(trailers: &mut HeaderMap) {
    let leaving: Vec<HeaderName> =
        trailers.keys().filter(|name| is_hop_by_hop(name) || !is_for_trailers(&dashed(name))).cloned().collect();
    for name in leaving {
        trailers.remove(name);
    }
}

/// As it is for a recipient which takes `_` for `-`, as those by CGI do (RFC 3875 §4.1.18).
fn dashed(name: &HeaderName) -> Cow<'_, str> {
    match name.as_str().contains('_') {
        true => name.as_str().replace('_', "-").into(),
        false => name.as_str().into(),
    }
}

fn is_for_trailers(name: &str) -> bool {
    let begins = |prefix| name.starts_with(prefix);
    // Framing and content; conditions; what proxies say; credentials.
    let is_of_a_kind =
        ["content-", "if-", "x-forwarded-", "proxy-", "sec-", "client-cert", "x-pilotlight-"].into_iter().any(begins);
    !is_of_a_kind
        && !matches!(
            name,
            "host"
                | "trailer"
                | "range"
                | "expect"
                | "max-forwards"
                | "cache-control"
                | "pragma"
                | "age"
                | "date"
                | "expires"
                | "vary"
                | "location"
                | "retry-after"
                | "warning"
                | "authorization"
                | "cookie"
                | "set-cookie"
                | "www-authenticate"
                | "authentication-info"
                | "forwarded"
                | "via"
                | "x-real-ip"
                | "x-request-id"
                | "origin"
                | "referer"
                | "from"
                | "user-agent"
                | "accept"
                | "accept-charset"
                | "accept-encoding"
                | "accept-language"
                | "priority"
                | "alt-used"
                | "http2-settings"
        )
}

/// Removes what must not be forwarded from a service's response.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let connection = FieldList::connection(headers);
    // One look at each name costs less than removing six that are rarely there.
    let leaves = |name: &&HeaderName| is_hop_by_hop(name) || connection.takes(name);
    let leaving: Vec<HeaderName> = headers.keys().filter(leaves).cloned().collect();
    for name in leaving {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn connection_cannot_name_what_frames_the_body() {
        let list = FieldList(vec!["content-length".into(), "x-other".into()]);
        assert!(!list.takes(&HeaderName::from_static("content-length")));
        assert!(list.takes(&HeaderName::from_static("x-other")));
    }

    #[test]
    fn trailers_of_clients() {
        let mut trailers = HeaderMap::new();
        for name in
            ["host", "content-length", "transfer-encoding", "authorization", "x-forwarded-for", "if-match", "te"]
        {
            trailers.append(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        for name in
            ["client-cert", "client_cert", "client_cert-chain", "x_forwarded_for", "x-real_ip", "content_length"]
        {
            trailers.append(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        for name in ["x-checksum", "digest", "server-timing", "grpc-status"] {
            trailers.append(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        keep_trailers(&mut trailers);
        let mut left: Vec<_> = trailers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["digest", "grpc-status", "server-timing", "x-checksum"]);
    }

    #[test]
    fn connection_names_fields_that_stay_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("keep-alive", "5"),
            ("x-kept", "2"),
            ("te", "trailers"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let list = FieldList::connection(&headers);
        assert!(list.contains("close") && list.takes(&HeaderName::from_static("x-private")));
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
    }
}
