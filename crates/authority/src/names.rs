//! What the local authority signs for. Pure.

/// Last labels of the names that it signs for: special-use names (RFC 6761, RFC 6762, RFC 8375), ICANN's `.internal`,
/// and `.lan`, which many home networks use. None of them can be a site of the internet.
pub const PERMITTED: [&str; 6] = ["localhost", "test", "internal", "local", "home.arpa", "lan"];

/// Whether the local authority can give a certificate for this host, in lower case, a wildcard included.
#[must_use]
pub fn is_permitted(host: &str) -> bool {
    let host = host.strip_prefix("*.").unwrap_or(host);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let is_below = |last: &str| host == last || host.strip_suffix(last).is_some_and(|rest| rest.ends_with('.'));
    host.len() <= 253 && host.split('.').all(is_label) && PERMITTED.iter().any(|last| is_below(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_names_and_no_others() {
        for host in ["localhost", "app.localhost", "*.app.localhost", "a.b.test", "nas.local", "x.home.arpa"] {
            assert!(is_permitted(host), "{host}");
        }
        for host in ["example.org", "localhost.org", "notlocalhost", "app.localhost.", "", ".localhost", "a b.test"] {
            assert!(!is_permitted(host), "{host}");
        }
    }
}
