//! A prefix that `strip_prefix` has cut off, put back into what a service says of paths: where a client is to go next,
//! and for which paths a cookie is.

use http::HeaderValue;
use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, LOCATION, SET_COOKIE};

/// Puts it back. `authority` is the host that the client has asked for: URLs of other hosts stay.
pub(super) fn restore(prefix: &str, authority: &str, fields: &mut HeaderMap) {
    let prefix = prefix.trim_end_matches('/');
    for name in [LOCATION, CONTENT_LOCATION] {
        change(fields, &name, |value| reference(prefix, authority, value));
    }
    change(fields, &SET_COOKIE, |value| cookie(prefix, value));
}

/// Changes each value of a field for which there is another one.
fn change(fields: &mut HeaderMap, name: &HeaderName, other: impl Fn(&str) -> Option<String>) {
    let http::header::Entry::Occupied(mut values) = fields.entry(name) else { return };
    for value in values.iter_mut() {
        if let Some(Ok(other)) = value.to_str().ok().and_then(&other).map(HeaderValue::try_from) {
            *value = other;
        }
    }
}

/// A URL, or the end of one (RFC 3986 §4.2). What is relative to the path of the request is right as it is.
fn reference(prefix: &str, authority: &str, value: &str) -> Option<String> {
    let rest = match value.split_once("//") {
        Some(("http:" | "https:" | "", rest)) => rest,
        _ => return value.starts_with('/').then(|| format!("{prefix}{value}")),
    };
    let path = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(path);
    let begin = &value[..value.len() - rest.len()];
    let slash = if path.starts_with('/') { "" } else { "/" };
    host.eq_ignore_ascii_case(authority).then(|| format!("{begin}{host}{prefix}{slash}{path}"))
}

/// RFC 6265 §4.1.2.4. Without a `Path` a browser goes by the path that it has asked for.
fn cookie(prefix: &str, value: &str) -> Option<String> {
    if value.starts_with("__Host-") {
        return None; // has to be for `/`
    }
    let mut attributes = value.split(';');
    let mut changed = attributes.next()?.to_owned();
    let mut is_other = false;
    for attribute in attributes {
        let (name, path) = attribute.split_once('=').unwrap_or((attribute, ""));
        let path = path.trim();
        changed.push(';');
        if name.trim().eq_ignore_ascii_case("path") && path.starts_with('/') {
            is_other = true;
            changed.push_str(&format!("{name}={prefix}{}", path.trim_end_matches('/')));
        } else {
            changed.push_str(attribute);
        }
    }
    is_other.then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        for (value, expected) in [
            ("/login", Some("/app/login")),
            ("/", Some("/app/")),
            ("/a?b=//c", Some("/app/a?b=//c")),
            ("https://h.example:8443/x?y", Some("https://h.example:8443/app/x?y")),
            ("//H.example:8443", Some("//H.example:8443/app/")),
            ("http://h.example:8443?x", Some("http://h.example:8443/app/?x")),
            ("https://other.example/x", None),
            ("x/y", None),
            ("?page=2", None),
            ("", None),
        ] {
            assert_eq!(reference("/app", "h.example:8443", value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn cookies() {
        for (value, expected) in [
            ("a=b; Path=/; HttpOnly", Some("a=b; Path=/app; HttpOnly")),
            ("a=b;path=/x/", Some("a=b;path=/app/x")),
            ("a=b; Secure", None),
            ("a=/; Domain=x", None),
            ("__Host-a=b; Path=/; Secure", None),
        ] {
            assert_eq!(cookie("/app", value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn all_values_of_a_field() {
        let mut fields = HeaderMap::new();
        for value in ["a=b; Path=/", "c=d"] {
            fields.append(SET_COOKIE, HeaderValue::from_static(value));
        }
        fields.insert(LOCATION, HeaderValue::from_static("/x"));
        restore("/app/", "h", &mut fields);
        assert_eq!(fields.get_all(SET_COOKIE).iter().collect::<Vec<_>>(), ["a=b; Path=/app", "c=d"]);
        assert_eq!(fields[LOCATION], "/app/x");
    }
}
