//! URI references in `Location` and `Content-Location`, as far as invalidation needs them (RFC 9111 §4.4, RFC 3986
//! §5.2).

use crate::key::Key;

/// References longer than this are not resolved; nothing that long is stored under a key by any ordinary client.
const MAX_REFERENCE_BYTES: usize = 8192;

/// The path and query that `reference` means, seen from `base`, if it has the same origin.
pub(crate) fn resolve_same_origin(base: &Key<'_>, reference: &[u8]) -> Option<String> {
    let reference = std::str::from_utf8(reference).ok()?.trim();
    if reference.len() > MAX_REFERENCE_BYTES {
        return None;
    }
    let reference = reference.split_once('#').map_or(reference, |(before, _)| before);
    let relative = match scheme_and_rest(reference) {
        Some((scheme, _)) if !scheme.eq_ignore_ascii_case(base.scheme) => return None,
        Some((_, rest)) => rest,
        None => reference,
    };
    let Some(authority_and_path) = relative.strip_prefix("//") else {
        // "http:path" without an authority is not a form that servers write; it has no certain meaning (RFC 3986
        // §5.2.2).
        return (relative.len() == reference.len()).then(|| target(base.target, relative));
    };
    let end = authority_and_path.find(['/', '?']).unwrap_or(authority_and_path.len());
    let (authority, path) = authority_and_path.split_at(end);
    // RFC 9111 §4.4: never for another origin, or a service could empty its neighbour's cache.
    same_authority(base.scheme, base.authority, authority)
        .then(|| target("/", if path.is_empty() { "/" } else { path }))
}

fn scheme_and_rest(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let valid = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    valid.then_some((scheme, rest))
}

fn same_authority(scheme: &str, a: &str, b: &str) -> bool {
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let bare =
        |authority: &'_ str| authority.len() - if authority.ends_with(default_port) { default_port.len() } else { 0 };
    let (a, b) = (a.get(..bare(a)).unwrap_or(a), b.get(..bare(b)).unwrap_or(b));
    a.eq_ignore_ascii_case(b)
}

/// RFC 3986 §5.2.2 for references without scheme and authority.
fn target(base: &str, reference: &str) -> String {
    let (base_path, _) = split_query(base);
    let (path, query) = split_query(reference);
    if path.is_empty() {
        return if query.is_empty() { base.to_owned() } else { format!("{base_path}{query}") };
    }
    let merged = if path.starts_with('/') {
        path.to_owned()
    } else {
        // RFC 3986 §5.2.3: all but the last segment of the base.
        let folder = base_path.rfind('/').and_then(|slash| base_path.get(..=slash)).unwrap_or("/");
        format!("{folder}{path}")
    };
    format!("{}{query}", without_dot_segments(&merged))
}

/// The path, and the query with its question mark.
fn split_query(target: &str) -> (&str, &str) {
    target.split_at(target.find('?').unwrap_or(target.len()))
}

/// RFC 3986 §5.2.4, for paths that begin with a slash.
fn without_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." if last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reference: &str, expected: Option<&str>) {
        let base = Key { scheme: "http", authority: "example.org", target: "/a/b?c=1", extra: "" };
        assert_eq!(resolve_same_origin(&base, reference.as_bytes()).as_deref(), expected, "{reference}");
    }

    #[test]
    fn forms_of_the_same_origin() {
        check("http://example.org/x?y#z", Some("/x?y"));
        check("HTTP://EXAMPLE.org:80/x", Some("/x"));
        check("http://example.org", Some("/"));
        check("http://example.org?q", Some("/?q"));
        check("//example.org/x", Some("/x"));
        check("/x/y", Some("/x/y"));
        check(" /x ", Some("/x"));
        check("x", Some("/a/x"));
        check("../x?y", Some("/x?y"));
        check("../../../x", Some("/x"));
        check("./", Some("/a/"));
        check("..", Some("/"));
        check("/x/./y/../z", Some("/x/z"));
        check("x:y/z", None);
        check("./x:y", Some("/a/x:y"));
        check("?d=2", Some("/a/b?d=2"));
        check("#f", Some("/a/b?c=1"));
        check("", Some("/a/b?c=1"));
        check("/x?u=http://other/", Some("/x?u=http://other/"));
    }

    #[test]
    fn other_origins_and_garbage() {
        check("https://example.org/x", None);
        check("http://example.org:8080/x", None);
        check("http://example.com/x", None);
        check("//evil@example.org/x", None);
        check("http:x", None);
        check(&"/x".repeat(MAX_REFERENCE_BYTES), None);
        let base = Key { scheme: "http", authority: "example.org", target: "*", extra: "" };
        assert_eq!(resolve_same_origin(&base, b"x").as_deref(), Some("/x"));
        assert_eq!(resolve_same_origin(&base, b"\xff"), None);
    }
}
