//! The four forms of a request target (RFC 9112 §3.2), and what a host may look like.

use crate::bytes_class::host_length;
use crate::error::Malformed;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'b> {
    /// `/path?query`
    Origin(&'b str),
    /// `http://host:port/path?query`; the path may be missing, the query may follow the authority.
    Absolute {
        /// As it was written; compare it without regard to case.
        scheme: &'b str,
        /// What precedes the path; never empty.
        authority: &'b str,
        /// Path and query, maybe without the path, maybe empty. See [`Target::write_origin`].
        rest: &'b str,
    },
    /// `host:port`, of CONNECT only.
    Authority(&'b str),
    /// `*`, of OPTIONS only.
    Asterisk,
}

impl<'b> Target<'b> {
    /// `text` has only what a target may have.
    pub(crate) fn parse(method: &str, text: &'b str) -> Result<Self, Malformed> {
        if method == "CONNECT" {
            return Authority::parse(text.as_bytes())
                .map(|authority| Self::Authority(authority.text))
                .ok_or(Malformed::TargetForm);
        }
        match text {
            _ if text.starts_with('/') => Ok(Self::Origin(text)),
            "*" if method == "OPTIONS" => Ok(Self::Asterisk),
            _ => Self::absolute(text),
        }
    }

    fn absolute(text: &'b str) -> Result<Self, Malformed> {
        let (scheme, after) = text.split_once("://").ok_or(Malformed::TargetForm)?;
        let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(is_scheme) {
            return Err(Malformed::TargetForm);
        }
        let (authority, rest) = after.split_at(after.find(['/', '?']).unwrap_or(after.len()));
        // RFC 9110 §4.2.1: an http URI with an empty host is invalid. §4.2.4: user information is an error.
        let authority = Authority::parse(authority.as_bytes()).filter(|a| !a.host.is_empty()).ok_or(Malformed::Host)?;
        Ok(Self::Absolute { scheme, authority: authority.text, rest })
    }

    /// Appends the target as an origin server gets it (RFC 9112 §3.2.1, §3.2.4): an absolute URI without a path becomes
    /// `/`, or `*` for OPTIONS.
    pub fn write_origin(&self, method: &str, out: &mut impl Extend<u8>) {
        match self {
            Self::Origin(target) => out.extend(target.bytes()),
            Self::Absolute { rest: "", .. } if method == "OPTIONS" => out.extend(*b"*"),
            Self::Absolute { rest, .. } => {
                if !rest.starts_with('/') {
                    out.extend(*b"/");
                }
                out.extend(rest.bytes());
            }
            Self::Authority(authority) => out.extend(authority.bytes()),
            Self::Asterisk => out.extend(*b"*"),
        }
    }
}

/// A host with an optional port, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'b> {
    /// As it was written.
    pub text: &'b str,
    /// A name, an IPv4 address, or an IPv6 address in brackets; may be empty (`Host:` of a target without authority).
    pub host: &'b str,
    /// 0 to 65535.
    pub port: Option<u16>,
}

impl<'b> Authority<'b> {
    /// `uri-host [ ":" port ]` of RFC 9110 §7.2; `None` if it is not.
    pub fn parse(bytes: &'b [u8]) -> Option<Self> {
        let host_length = match bytes {
            [b'[', ..] => {
                let end = memchr::memchr(b']', bytes)?;
                is_ip_literal(&bytes[1..end]).then_some(end + 1)?
            }
            _ => {
                let end = host_length(bytes);
                has_whole_escapes(&bytes[..end]).then_some(end)?
            }
        };
        let text = std::str::from_utf8(bytes).ok()?;
        let (host, port) = text.split_at(host_length);
        // An HTTP URI needs a host (RFC 9110 §4.2.1); a target without an authority has an empty Host.
        if host.is_empty() && !port.is_empty() {
            return None;
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            // RFC 3986 §3.2.3: a port may be empty.
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
        };
        Some(Self { text, host, port })
    }
}

/// Whether this may stand in `Host`, or before the path of a URI.
pub fn is_authority(bytes: &[u8]) -> bool {
    Authority::parse(bytes).is_some()
}

/// What stands between brackets (RFC 3986 §3.2.2): an IPv6 address without a zone, or `v`, a version in hexadecimal
/// digits, a dot and an address.
fn is_ip_literal(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let future = text.strip_prefix(['v', 'V']).and_then(|rest| rest.split_once('.'));
    match future {
        None => text.parse::<std::net::Ipv6Addr>().is_ok(),
        Some((version, address)) => {
            let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_part = |byte: u8| byte == b':' || byte != b'%' && host_length(&[byte]) == 1;
            is_version && !address.is_empty() && address.bytes().all(is_part)
        }
    }
}

/// RFC 3986 §2.1: `%` and two hexadecimal digits.
fn has_whole_escapes(bytes: &[u8]) -> bool {
    (0..bytes.len()).filter(|at| bytes[*at] == b'%').all(|at| {
        let digits = bytes.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, target: &str, expected: Result<&str, Malformed>) {
        assert_eq!(crate::bytes_class::target_length(target.as_bytes()), target.len());
        let found = Target::parse(method, target).map(|target| {
            let mut out = Vec::new();
            target.write_origin(method, &mut out);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(found.as_deref().map_err(|e| *e), expected, "{method} {target}");
    }

    #[test]
    fn forms() {
        check("GET", "/a?b", Ok("/a?b"));
        check("GET", "http://a", Ok("/"));
        check("GET", "http://a?x=1", Ok("/?x=1"));
        check("GET", "HTTP://a:80/b?c", Ok("/b?c"));
        check("OPTIONS", "http://a", Ok("*"));
        check("OPTIONS", "http://a/", Ok("/"));
        check("OPTIONS", "*", Ok("*"));
        check("CONNECT", "a:443", Ok("a:443"));
        check("GET", "*", Err(Malformed::TargetForm));
        check("GET", "a", Err(Malformed::TargetForm));
        check("GET", "//a/b", Ok("//a/b"));
        check("GET", "http:///a", Err(Malformed::Host));
        check("GET", "http://u:p@a/", Err(Malformed::Host));
        check("GET", "1ttp://a/", Err(Malformed::TargetForm));
        check("CONNECT", "/a", Err(Malformed::TargetForm));
    }

    #[test]
    fn hosts() {
        for good in [
            "[v1.a:b]",
            "[vF.x]:1",
            "a",
            "a:80",
            "a:",
            "a.b-c_d",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:65535",
            "",
            "a%20b",
            "xn--a",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            "a:x",
            "a:80:80",
            "[::1",
            "[zz]",
            "a%zz",
            "a%2",
            "a b",
            "a/b",
            "u@a",
            "[::1]x",
            "a:65536",
            "[fe80::1%0]",
            ":80",
            ":",
            "[v1]",
            "[v.a]",
            "::1",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }
}
