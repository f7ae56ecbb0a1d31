//! The normal form of a path (RFC 3986 §6.2.2), and the other paths that a server may read in it.
//!
//! Routing, access rules, cache keys, purges and `explain` see the normal form: unreserved characters decoded, hex
//! digits of escapes in capitals, a `%` of no escape as `%25`, dot segments removed. Two spellings of one URI therefore
//! meet the same rules. The service gets the bytes that the client sent.
//!
//! Some characters have no single reading. `/a%2Fb` is one segment to one server and two to another; some servers drop
//! `;parameters`, merge slashes, take `\` for `/`, or decode twice. [`readings`] lists what such servers may read, so
//! that a request can be refused where one of them would meet stricter rules than the route that was found.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Limit of other readings that are looked up for one path. A path with more of them is refused.
pub(crate) const MAX_READINGS: usize = 32;

/// A path as the rules of routes see it. Borrowed when it is in normal form already.
#[inline]
pub(crate) fn normalized(path: &str) -> Cow<'_, str> {
    if is_normal(path) { Cow::Borrowed(path) } else { Cow::Owned(without_dots(&decoded(path))) }
}

/// Path and query as the cache's key has them: the path in normal form, the escapes of the query likewise.
#[inline]
pub(crate) fn normalized_target(target: &str) -> Cow<'_, str> {
    if is_normal(target) {
        return Cow::Borrowed(target);
    }
    match target.split_once('?') {
        Some((path, query)) => Cow::Owned(format!("{}?{}", normalized(path), decoded(query))),
        None => normalized(target),
    }
}

/// Whether a path, or a target with its query, is in normal form. Dots of a query are no segments.
#[inline]
pub(crate) fn is_normal(target: &str) -> bool {
    let bytes = target.as_bytes();
    !memchr::memchr2_iter(b'.', b'%', bytes).any(|at| match bytes[at] {
        b'.' => at > 0 && bytes[at - 1] == b'/' && is_dots(&bytes[at..]) && !bytes[..at].contains(&b'?'),
        _ => escape(&bytes[at..]).is_none_or(|byte| is_unreserved(byte) || has_small_digits(&bytes[at + 1..at + 3])),
    })
}

/// Whether `.` or `..` and the end of a segment follow.
fn is_dots(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(bytes.len());
    end <= 2 && bytes[..end].iter().all(|byte| *byte == b'.')
}

/// The byte of the escape that these bytes begin with (RFC 3986 §2.1).
fn escape(bytes: &[u8]) -> Option<u8> {
    let digit = |at: usize| (*bytes.get(at)? as char).to_digit(16);
    u8::try_from(digit(1)? << 4 | digit(2)?).ok()
}

/// RFC 3986 §2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn has_small_digits(digits: &[u8]) -> bool {
    digits.iter().any(u8::is_ascii_lowercase)
}

/// Unreserved characters without their escapes, the digits of other escapes in capitals (RFC 3986 §6.2.2.1, §6.2.2.2).
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match escape(rest.as_bytes()) {
            Some(byte) if is_unreserved(byte) => {
                out.push(byte.into());
                3
            }
            Some(_) => {
                out.push_str(&rest[..3].to_ascii_uppercase());
                3
            }
            // No escape, so a character, whose own escape it is: what follows must not make one of it.
            None => {
                out.push_str("%25");
                1
            }
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// RFC 3986 §5.2.4.
fn without_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    out.pop();
                }
                if is_last {
                    out.push("");
                }
            }
            other => out.push(other),
        }
    }
    format!("/{}", out.join("/"))
}

/// What follows a route's path in a request's path, in the bytes that the client sent. `None` if the path is not below
/// the route's, or has dot segments, which leave no bytes to take.
pub(crate) fn below<'p>(path: &'p str, route: &str) -> Option<&'p str> {
    let route = route.trim_end_matches('/').as_bytes();
    let (mut at, mut matched) = (0, 0);
    while matched < route.len() {
        let byte = *path.as_bytes().get(at)?;
        let (read, length) = match escape(&path.as_bytes()[at..]).filter(|_| byte == b'%') {
            Some(byte) if is_unreserved(byte) => (byte, 3),
            // The digits of an escape that stays are compared one by one.
            _ => (byte, 1),
        };
        let is_digit = path.as_bytes()[..at].iter().rev().take(2).any(|byte| *byte == b'%');
        let is_same = read == route[matched] || is_digit && read.eq_ignore_ascii_case(&route[matched]);
        (at, matched) = if is_same { (at + length, matched + 1) } else { return None };
    }
    let rest = &path[at..];
    (rest.is_empty() || rest.starts_with('/')).then_some(rest).filter(|_| !has_dots(path))
}

fn has_dots(path: &str) -> bool {
    let is_dots = |segment: &str| matches!(&*decoded(segment), "." | "..");
    path.contains(['.', '%']) && path.split('/').any(is_dots)
}

/// Whether servers may read a path in several ways.
#[inline]
pub(crate) fn is_ambiguous(path: &str) -> bool {
    let bytes = path.as_bytes();
    let has_odd = memchr::memchr3(b';', b'\\', b'%', bytes).is_some();
    has_odd && has_reading(&decoded(path)) || memchr::memmem::find(bytes, b"//").is_some()
}

/// Whether some server makes something else of a path, whose escapes have capitals.
fn has_reading(path: &str) -> bool {
    READERS.iter().any(|read| read(path).is_some())
}

/// More readings than [`MAX_READINGS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyReadings;

/// The paths, in normal form, that servers may read in `path` other than its own normal form.
pub(crate) fn readings(path: &str) -> Result<BTreeSet<String>, TooManyReadings> {
    let normal = normalized(path).into_owned();
    let mut found = BTreeSet::from([normal.clone()]);
    // What is read is read again: a server may merge slashes and decode them as well. The bytes as sent are one more
    // beginning, since a server may cut at them before it removes dot segments.
    let mut unread = vec![normal.clone(), decoded(path)];
    while let Some(path) = unread.pop() {
        for read in READERS.iter().filter_map(|read| read(&path)) {
            let reading = normalized(&read).into_owned();
            if found.insert(reading.clone()) {
                unread.push(reading);
            }
            if found.len() > MAX_READINGS {
                return Err(TooManyReadings);
            }
        }
    }
    found.remove(&normal);
    Ok(found)
}

/// What a kind of server makes of a path; `None` where it makes nothing else of it.
type Reader = fn(&str) -> Option<String>;

const READERS: [Reader; 7] = [
    merged_slashes,
    without_authority,
    decoded_slashes,
    backslashes,
    without_parameters,
    decoded_twice,
    until_the_end_of_a_path,
];

/// nginx with `merge_slashes`, most web frameworks.
fn merged_slashes(path: &str) -> Option<String> {
    path.contains("//").then(|| path.split_inclusive('/').filter(|part| *part != "/").collect::<String>()).map(rooted)
}

/// What `new URL(target, base)` of the WHATWG reads: two slashes begin an authority.
fn without_authority(path: &str) -> Option<String> {
    let rest = path.strip_prefix("//")?.trim_start_matches('/');
    Some(rooted(rest.split_once('/').map_or(String::new(), |(_, path)| path.to_owned())))
}

/// Servers that decode before they look for segments: WSGI, CGI, PHP.
fn decoded_slashes(path: &str) -> Option<String> {
    path.contains("%2F").then(|| path.replace("%2F", "/"))
}

/// Servers that treat `\` as `/`, as the WHATWG's URLs and Windows do.
fn backslashes(path: &str) -> Option<String> {
    (path.contains('\\') || path.contains("%5C")).then(|| path.replace("%5C", "\\").replace('\\', "/"))
}

/// Servlet containers: `/private;x=1/y` is `/private/y` (RFC 3986 §3.3).
fn without_parameters(path: &str) -> Option<String> {
    let plain = path.replace("%3B", ";");
    let cut = |segment: &str| segment.split(';').next().unwrap_or_default().to_owned();
    plain.contains(';').then(|| plain.split('/').map(cut).collect::<Vec<_>>().join("/"))
}

/// A server behind another one that has decoded already.
fn decoded_twice(path: &str) -> Option<String> {
    path.contains("%25").then(|| decoded(&path.replace("%25", "%"))).filter(|read| read != path)
}

/// Servers that decode before they look for the query, or that take NUL for the end of a text.
fn until_the_end_of_a_path(path: &str) -> Option<String> {
    ["%3F", "%23", "%00"].iter().filter_map(|end| path.find(end)).min().map(|at| path[..at].to_owned())
}

fn rooted(path: String) -> String {
    if path.starts_with('/') { path } else { format!("/{path}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &str) {
        assert_eq!(normalized(path), expected, "{path}");
        assert_eq!(matches!(normalized(path), Cow::Borrowed(_)), path == expected, "{path}: copied without need");
    }

    #[test]
    fn one_form_for_each_uri() {
        check("/", "/");
        check("/private", "/private");
        check("/%70rivate", "/private");
        check("/%7Eada/%2D%5f%2E", "/~ada/-_.");
        check("/a%2fb", "/a%2Fb");
        check("/a%2Fb%C3%A9", "/a%2Fb%C3%A9");
        check("/caf%c3%a9", "/caf%C3%A9");
        check("/a/./b/../c", "/a/c");
        check("/a/%2e%2E/c", "/c");
        check("/a/..", "/");
        check("/../../x", "/x");
        check("/a.b/c..d", "/a.b/c..d");
        check("/.hidden", "/.hidden");
        check("//a", "//a");
        check("/100%", "/100%25");
        check("/%zz%4", "/%25zz%254");
        check("/%a%30", "/%25a0");
        check("/%2570", "/%2570");
    }

    #[test]
    fn what_is_below_a_route_is_as_it_was_sent() {
        for (path, route, expected) in [
            ("/private/x", "/private", Some("/x")),
            ("/%70rivate/%78", "/private", Some("/%78")),
            ("/private", "/private/", Some("")),
            ("/caf%c3%a9/x", "/caf%C3%A9", Some("/x")),
            ("/privateer", "/private", None),
            ("/private/../x", "/private", None),
            ("/private/%2E/x", "/private", None),
            ("/x", "/", Some("/x")),
            ("/other", "/private", None),
        ] {
            assert_eq!(below(path, route), expected, "{path} below {route}");
        }
    }

    #[test]
    fn targets_with_queries() {
        for (target, expected) in [
            ("/a?b=%41%2f", "/a?b=A%2F"),
            ("/%61?x", "/a?x"),
            ("/a?x=../y", "/a?x=../y"),
            ("/a?x=/../y", "/a?x=/../y"),
            ("/a?b?%7e", "/a?b?~"),
        ] {
            assert_eq!(normalized_target(target), expected);
        }
    }

    #[track_caller]
    fn check_readings(path: &str, expected: &[&str]) {
        let found = readings(path).unwrap();
        for expected in expected {
            assert!(found.contains(*expected), "{path}: {expected} is not among {found:?}");
        }
        assert_eq!(found.is_empty(), expected.is_empty(), "{path}: {found:?}");
        assert_eq!(is_ambiguous(path), !expected.is_empty(), "{path}");
    }

    #[test]
    fn what_servers_may_read() {
        check_readings("/private/a%20b", &[]);
        check_readings("/a/b.c", &[]);
        check_readings("//private", &["/private"]);
        check_readings("//evil.example/private/x", &["/private/x", "/evil.example/private/x"]);
        check_readings("/private%2Fx", &["/private/x"]);
        check_readings("/x/..%2fprivate", &["/private"]);
        check_readings("/x%2f..%2fprivate", &["/private"]);
        check_readings("/private;x", &["/private"]);
        check_readings("/private;a=1/y;b", &["/private/y"]);
        check_readings("/private%3Bx", &["/private"]);
        check_readings("/..;/private", &["/private"]);
        check_readings("/x/..;/private", &["/private"]);
        check_readings("\\private", &["/private"]);
        check_readings("/\\private/y", &["/private/y", "/y"]);
        check_readings("/x/..%5cprivate", &["/private"]);
        check_readings("/%2570rivate", &["/private"]);
        check_readings("/%25%37%30rivate", &["/private"]);
        check_readings("/private%00.png", &["/private"]);
        check_readings("/private%3Fx", &["/private"]);
        check_readings("/x%252F..%252Fprivate", &["/private"]);
    }

    #[test]
    fn their_number_is_bounded() {
        let path = format!("/{}", (0..40).map(|at| format!("//{at}%2F;x\\..%252f")).collect::<String>());
        assert_eq!(readings(&path), Err(TooManyReadings));
    }

    proptest! {
        #[test]
        fn the_normal_form_is_final(path in "/[a-z/.%0-9A-F;\\\\]{0,24}") {
            let once = normalized(&path).into_owned();
            prop_assert!(once.starts_with('/'));
            prop_assert_eq!(&normalized(&once), &once);
        }

        #[test]
        fn every_reading_is_normal_and_another_path(path in "/[a-z/.%2F5C3B\\\\;]{0,16}") {
            if let Ok(all) = readings(&path) {
                for reading in all {
                    prop_assert_eq!(&normalized(&reading), &reading);
                    prop_assert_ne!(&reading, &normalized(&path));
                }
            }
        }
    }
}
