//! The host and the path of a route. Pure.

use std::net::{IpAddr, Ipv6Addr};

use super::schema::MAX_PATH;
use super::shown::shown;
use super::value::Rejected;

/// Reads a route's host: a name, an IP address, or `*.` and a name, which is for every host below it.
pub(super) fn host(text: &str) -> Result<String, Rejected> {
    if text == "*" {
        return Err(Rejected::help(
            "`*` stands for every host",
            "leave `host` out: a route without it is for every host",
        ));
    }
    if let Some(parent) = text.strip_prefix("*.") {
        let parent = host_name(parent)?;
        if parent.parse::<IpAddr>().is_ok() {
            return Err(Rejected::help(
                format!("{} is a wildcard below an IP address", shown(text)),
                "write the IP address alone",
            ));
        }
        return Ok(format!("*.{parent}"));
    }
    if text.contains('*') {
        return Err(Rejected::help(
            format!("{} has a `*` that is not the whole first label", shown(text)),
            "write \"*.example.org\" for every host below example.org",
        ));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Ok(address.to_string());
    }
    if let Some((_, rest)) = text.split_once("://") {
        return Err(Rejected::help(
            format!("{} is a URL", shown(text)),
            format!("write the host alone: \"{}\"", rest.split(['/', ':']).next().unwrap_or_default()),
        ));
    }
    if let Some((host, port)) = text.rsplit_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(Rejected::help(
            format!("{} has a port; a host is compared without its port", shown(text)),
            format!("write \"{host}\""),
        ));
    }
    host_name(text)
}

/// Checks a host name or IPv4 address and puts it into lower case. Underscores are allowed, as container networks use
/// them.
pub(super) fn host_name(text: &str) -> Result<String, Rejected> {
    const MAX_HOST: usize = 253;
    const MAX_LABEL: usize = 63;
    if text.is_empty() {
        return Err(Rejected::help("the host is empty", "write a host such as \"example.org\" or \"127.0.0.1\""));
    }
    if !text.is_ascii() {
        return Err(Rejected::help(
            format!("{} is not ASCII; browsers send such a name in its `xn--` form", shown(text)),
            "write the name in its `xn--` form",
        ));
    }
    if let Some(name) = text.strip_suffix('.').filter(|name| !name.is_empty() && !name.ends_with('.')) {
        return Err(Rejected::help(format!("{} ends with a dot", shown(text)), format!("write \"{name}\"")));
    }
    if text.len() > MAX_HOST {
        return Err(Rejected::new(format!("the host has {} bytes; a host name has at most {MAX_HOST}", text.len())));
    }
    for label in text.split('.') {
        if label.is_empty() {
            return Err(Rejected::help(
                format!("{} has nothing between two dots", shown(text)),
                "take one of the dots away",
            ));
        }
        if label.len() > MAX_LABEL {
            return Err(Rejected::new(format!("{} is longer than the {MAX_LABEL} bytes of a label", shown(label))));
        }
        if let Some(odd) = label.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_')) {
            return Err(Rejected::help(
                format!("{} cannot stand in a host", shown(&odd.to_string())),
                "a host has letters, digits, `-`, `_` and dots",
            ));
        }
    }
    Ok(text.to_ascii_lowercase())
}

/// A route's path and, if it was written in a way that deserves a word, that word.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RoutePath {
    pub(super) path: String,
    pub(super) remark: Option<Rejected>,
}

/// Reads a route's path. It is compared with the request's path as it arrives, so it must be written as a client sends
/// it.
pub(super) fn path(text: &str, exact: bool) -> Result<RoutePath, Rejected> {
    if !text.starts_with('/') {
        let help = match text.split_once("://").and_then(|(_, rest)| rest.split_once('/')) {
            Some((_, path)) => format!("write the path alone: \"/{path}\""),
            None => format!("write \"/{text}\""),
        };
        return Err(Rejected::help(format!("{} does not begin with `/`", shown(text)), help));
    }
    if text.len() > MAX_PATH {
        return Err(Rejected::new(format!("the path has {} bytes; at most {MAX_PATH} are allowed", text.len())));
    }
    for (mark, name) in [('?', "query"), ('#', "fragment")] {
        if let Some((path, _)) = text.split_once(mark) {
            return Err(Rejected::help(
                format!("{} has a {name}, which takes no part in routing, so no request could match", shown(text)),
                format!("write \"{path}\""),
            ));
        }
    }
    if let Some(parent) = text.strip_suffix("/**").or_else(|| text.strip_suffix("/*")) {
        let parent = if parent.is_empty() { "/" } else { parent };
        return Err(Rejected::help(
            format!("{} has a `*`; a path already covers everything below it", shown(text)),
            format!("write \"{parent}\""),
        ));
    }
    characters(text)?;
    segments(text)?;
    let mut remark = None;
    let mut path = text;
    if !exact && text.len() > 1 && text.ends_with('/') {
        path = &text[..text.len() - 1];
        remark = Some(Rejected::help(
            format!(
                "the final `/` of {} has no meaning: the route is for {} and everything below it",
                shown(text),
                shown(path)
            ),
            format!("write \"{path}\", or add exact = true for this one path"),
        ));
    }
    Ok(RoutePath { path: path.to_owned(), remark })
}

/// RFC 3986 §3.3: `pchar`, with `%` only before two hexadecimal digits in the normal form of §6.2.2.
fn characters(text: &str) -> Result<(), Rejected> {
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        match c {
            '%' => escape(&bytes[at + 1..])?,
            c if c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@".contains(c) => {}
            '{' | '}' => {
                return Err(Rejected::help(
                    format!("{} has a `{c}`; a route's path has no parameters", shown(text)),
                    "write the fixed part; the path covers everything below it",
                ));
            }
            c => {
                let mut encoded = [0; 4];
                let encoded: String = c.encode_utf8(&mut encoded).bytes().map(|byte| format!("%{byte:02X}")).collect();
                return Err(Rejected::help(
                    format!("{} cannot stand in a path as clients send it", shown(&c.to_string())),
                    format!("write {encoded} for it"),
                ));
            }
        }
    }
    Ok(())
}

fn escape(after: &[u8]) -> Result<(), Rejected> {
    let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let Some(digits) = digits.and_then(|digits| std::str::from_utf8(digits).ok()) else {
        return Err(Rejected::help(
            "a `%` is not followed by two hexadecimal digits",
            "write %25 for the character `%`",
        ));
    };
    let value = u8::from_str_radix(digits, 16).unwrap_or_default();
    if value.is_ascii_alphanumeric() || b"-._~".contains(&value) {
        return Err(Rejected::help(
            format!(
                "`%{digits}` is another way to write `{}`; paths are compared in their normal form",
                char::from(value)
            ),
            format!("write `{}`", char::from(value)),
        ));
    }
    if digits.bytes().any(|digit| digit.is_ascii_lowercase()) {
        let upper = digits.to_ascii_uppercase();
        return Err(Rejected::help(format!("`%{digits}` is not in normal form"), format!("write %{upper}")));
    }
    Ok(())
}

fn segments(text: &str) -> Result<(), Rejected> {
    if text.contains("//") {
        let mut path = text.to_owned();
        while path.contains("//") {
            path = path.replace("//", "/");
        }
        return Err(Rejected::help(
            format!("{} has an empty segment (`//`)", shown(text)),
            format!("write \"{path}\""),
        ));
    }
    if text.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(Rejected::help(
            format!(
                "{} has a segment `.` or `..`, which is resolved before routing, so no request could match",
                shown(text)
            ),
            "write the path that it leads to",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_host(text: &str, expected: &str) {
        let got = match host(text) {
            Ok(pattern) => pattern.to_string(),
            Err(wrong) => format!("! {} ({})", wrong.reason, wrong.help.unwrap_or_default()),
        };
        assert!(got.contains(expected), "{text:?}: {got}");
    }

    #[track_caller]
    fn check_path(text: &str, exact: bool, expected: &str) {
        let got = match path(text, exact) {
            Ok(RoutePath { path, remark: None }) => path,
            Ok(RoutePath { path, remark: Some(remark) }) => format!("{path} ? {}", remark.reason),
            Err(wrong) => format!("! {} ({})", wrong.reason, wrong.help.unwrap_or_default()),
        };
        assert!(got.contains(expected), "{text:?}: {got}");
    }

    #[test]
    fn hosts() {
        check_host("Example.ORG", "example.org");
        check_host("*.example.org", "*.example.org");
        check_host("127.0.0.1", "127.0.0.1");
        check_host("[::1]", "::1");
        check_host("0:0:0:0:0:0:0:1", "::1");
        check_host("*", "leave `host` out");
        check_host("a.*.org", "whole first label");
        check_host("*example.org", "whole first label");
        check_host("*.10.0.0.1", "below an IP address");
        check_host("example.org:80", "write \"example.org\"");
        check_host("http://example.org/x", "the host alone: \"example.org\"");
        check_host("example.org.", "write \"example.org\"");
        check_host("a..b", "between two dots");
        check_host("..", "between two dots");
        check_host("", "is empty");
        check_host("a b", "` ` cannot stand");
        check_host("bücher.de", "`xn--` form");
        check_host(&"a".repeat(64), "of a label");
        check_host(&format!("{}a", "a.".repeat(200)), "at most 253");
    }

    #[test]
    fn paths() {
        let prefix = false;
        check_path("/", prefix, "/");
        check_path("/users", prefix, "/users");
        check_path("/a%20b", prefix, "/a%20b");
        check_path("/users/", prefix, "/users ? the final `/`");
        check_path("/users/", true, "/users/");
        check_path("users", prefix, "write \"/users\"");
        check_path("http://h/x", prefix, "write the path alone: \"/x\"");
        check_path("", prefix, "does not begin");
        check_path("/a?b=c", prefix, "write \"/a\"");
        check_path("/a#b", prefix, "fragment");
        check_path("/a///b", prefix, "write \"/a/b\"");
        check_path("/a/../b", prefix, "no request could match");
        check_path("/a/.", prefix, "no request could match");
        check_path("/api/*", prefix, "write \"/api\"");
        check_path("/*", prefix, "write \"/\"");
        check_path("/users/{id}", prefix, "no parameters");
        check_path("/é", prefix, "write %C3%A9");
        check_path("/a b", prefix, "write %20");
        check_path("/%", prefix, "%25");
        check_path("/%é", prefix, "%25");
        check_path("/%61", prefix, "write `a`");
        check_path("/%2f", prefix, "write %2F");
        check_path("/a\0", prefix, "write %00");
        check_path(&format!("/{}", "x".repeat(MAX_PATH)), prefix, "has 1025 bytes");
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in any::<String>()) {
            let _ = (host(&text), path(&text, false), path(&format!("/{text}"), true));
        }

        #[test]
        fn an_accepted_path_is_accepted_again_as_it_is(text in "/[a-z%/.~é0-9]{0,12}") {
            if let Ok(first) = path(&text, false) {
                prop_assert_eq!(path(&first.path, false), Ok(RoutePath { path: first.path.clone(), remark: None }));
            }
        }
    }
}
