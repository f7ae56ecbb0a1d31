//! Header fields on their way through: which may cross, and what the gateway adds.

use http::header::{CONNECTION, HeaderMap, HeaderName};

/// The members of a comma-separated list field, in lower case; empty for almost every message.
#[derive(Default)]
pub(crate) struct FieldList(Vec<String>);

impl FieldList {
    /// The options of `Connection` (RFC 9110 §7.6.1).
    pub(crate) fn connection(headers: &HeaderMap) -> Self {
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

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|n| n == name)
    }
}

/// Whether a field belongs to one connection only and must not be forwarded (RFC 9110 §7.6.1).
pub(crate) fn is_hop_by_hop(name: &HeaderName, connection: &FieldList) -> bool {
    matches!(name.as_str(), "connection" | "keep-alive" | "proxy-connection" | "te" | "transfer-encoding" | "upgrade")
        || (!connection.0.is_empty() && connection.contains(name.as_str()) && !is_needed(name))
}

/// `Connection: content-length` and the like are an attack, not an option: without it the body would be read as a request.
fn is_needed(name: &HeaderName) -> bool {
    matches!(name.as_str(), "content-length" | "content-type" | "host" | "set-cookie" | "cache-control")
}

/// Removes what must not be forwarded from a service's answer.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let connection = FieldList::connection(headers);
    // One look at each name costs less than removing six that are rarely there.
    let leaves = |name: &&HeaderName| is_hop_by_hop(name, &connection);
    let leaving: Vec<HeaderName> = headers.keys().filter(leaves).cloned().collect();
    for name in leaving {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn connection_cannot_name_what_frames_the_body() {
        let list = FieldList(vec!["content-length".into(), "x-other".into()]);
        assert!(!is_hop_by_hop(&HeaderName::from_static("content-length"), &list));
        assert!(is_hop_by_hop(&HeaderName::from_static("x-other"), &list));
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
        assert!(list.contains("close") && is_hop_by_hop(&HeaderName::from_static("x-private"), &list));
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
    }
}
