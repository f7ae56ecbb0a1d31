//! Placeholders, addresses and upstreams, as Caddy writes them.

/// A text with placeholders as one with those of Pilotlight; none if it has others.
pub(super) fn placeholders(text: &str) -> Option<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        result.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            result.push('{');
            rest = after;
            continue;
        };
        rest = behind;
        match name.strip_prefix("http.request.").unwrap_or(name) {
            "host" => result.push_str("{host}"),
            "scheme" => result.push_str("{scheme}"),
            "uri" => result.push_str("{path}{query}"),
            "path" | "uri.path" => result.push_str("{path}"),
            "?query" => result.push_str("{query}"),
            "query" | "uri.query" if result.ends_with('?') => {
                result.pop();
                result.push_str("{query}");
            }
            "remote_host" | "remote.host" | "client_ip" => result.push_str("{client}"),
            "uuid" => result.push_str("{request_id}"),
            name if name.starts_with(['"', ' ']) => {
                result.extend(["{", name, "}"]);
            }
            _ => return None,
        }
    }
    result.push_str(rest);
    Some(result)
}

/// The address of a site.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// `http` or `https`, if it says so.
    pub(super) scheme: Option<String>,
    /// None: every host.
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    /// Below which the site is.
    pub(super) path: String,
}

pub(super) fn address(text: &str) -> Option<Address> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (Some(scheme.to_owned()), rest),
        Some(_) => return None,
        None => (None, text),
    };
    let (host, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (host, port) = match host.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0)?)),
        None => (host, None),
    };
    let host = host.to_lowercase();
    let name = host.strip_prefix("*.").unwrap_or(&host);
    let is_ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !is_ip && !name.chars().all(is_good) {
        return None;
    }
    Some(Address { scheme, host: Some(host).filter(|host| !host.is_empty()), port, path: path.to_owned() })
}

/// An upstream of `reverse_proxy` as the `url` of a service.
pub(super) fn upstream(text: &str, is_h2c: bool) -> Result<String, &'static str> {
    if text.contains('{') {
        return Err("a service has one URL, without placeholders");
    }
    if let Some(path) = text.strip_prefix("unix/").or_else(|| text.strip_prefix("unix:")) {
        return if is_h2c { Err("h2c is spoken over TCP") } else { Ok(format!("unix:{path}")) };
    }
    let (scheme, rest) = match text.split_once("://") {
        Some(("http", rest)) if !is_h2c => ("http", rest),
        Some(("h2c" | "http", rest)) => ("h2c", rest),
        Some(_) => return Err("services are spoken to over HTTP or h2c, without TLS"),
        None if is_h2c => ("h2c", text),
        None => ("http", text),
    };
    let rest = rest.strip_prefix(':').map_or(rest.to_owned(), |port| format!("127.0.0.1:{port}"));
    if rest.ends_with(":443") {
        return Err("services are spoken to over HTTP or h2c, without TLS");
    }
    match rest.contains('/') || rest.is_empty() || rest.contains('+') {
        true => Err("an upstream is a host and a port"),
        false => Ok(format!("{scheme}://{rest}")),
    }
}

/// Names that the local authority signs for.
pub(super) fn is_signed_locally(host: &str) -> bool {
    const ENDS: [&str; 6] = [".localhost", ".test", ".internal", ".local", ".home.arpa", ".lan"];
    ENDS.iter().any(|end| host.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_of_both() {
        for (text, expected) in [
            ("https://b.example{uri}", Some("https://b.example{path}{query}")),
            ("/x?{query}", Some("/x{query}")),
            ("{http.request.host}", Some("{host}")),
            ("{re.a.1}", None),
            ("{$SECRET}", None),
            ("{\"json\": 1}", Some("{\"json\": 1}")),
            ("open {", Some("open {")),
        ] {
            assert_eq!(placeholders(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn addresses_and_upstreams() {
        let parts = |text: &str| address(text).map(|a| (a.scheme, a.host, a.port, a.path));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("a.example"), Some((None, some("a.example"), None, String::new())));
        assert_eq!(parts("http://a.example:81/x"), Some((some("http"), some("a.example"), Some(81), "/x".to_owned())));
        assert_eq!(parts(":8080"), Some((None, None, Some(8080), String::new())));
        assert_eq!(parts("[::1]:80"), Some((None, some("[::1]"), Some(80), String::new())));
        assert_eq!(parts("{$HOST}"), None);
        assert_eq!(parts("a:b"), None);
        for (text, expected) in [
            ("localhost:9000", Ok("http://localhost:9000")),
            (":9000", Ok("http://127.0.0.1:9000")),
            ("unix//run/a.sock", Ok("unix:/run/a.sock")),
            ("h2c://127.0.0.1:1", Ok("h2c://127.0.0.1:1")),
        ] {
            assert_eq!(
                upstream(text, false).as_deref(),
                expected.map_err(|e: &str| e).as_ref().map(|t| *t).map_err(|_| &""),
                "{text}"
            );
        }
        assert!(upstream("https://a.example", false).is_err() && upstream("{x}:1", false).is_err());
    }
}
