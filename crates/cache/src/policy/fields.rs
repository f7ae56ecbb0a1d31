//! Which fields of a response are stored (RFC 9111 §3.1) and how a 304 or HEAD answer updates them (§3.2).

use bytes::{Bytes, BytesMut};
use http::header::{
    AGE, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Fields about one connection or one message, which a cache must not keep.
pub(crate) struct Excluded<'a> {
    named: Vec<&'a [u8]>,
}

impl<'a> Excluded<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        // RFC 9111 §3.1: "Connection" and the fields it names. Members are compared one by one; the header size limit
        // of the gateway bounds their number.
        Self { named: members(headers, &CONNECTION).collect() }
    }

    pub(crate) fn contains(&self, name: &HeaderName) -> bool {
        let standard = [&CONNECTION, &TE, &TRAILER, &TRANSFER_ENCODING, &UPGRADE, &AGE, &SET_COOKIE];
        // RFC 9110 §7.6.1 and RFC 9111 §3.1. `age` is calculated anew (§5.1); `set-cookie` belongs to one user (ours);
        // trailers are not stored, so neither is their announcement.
        let others = [
            "keep-alive",
            "proxy-connection",
            "proxy-authenticate",
            "proxy-authentication-info",
            "proxy-authorization",
        ];
        standard.contains(&name)
            || others.contains(&name.as_str())
            || self.named.iter().any(|named| named.eq_ignore_ascii_case(name.as_str().as_bytes()))
    }
}

/// The comma-separated members of all lines of a field, trimmed, empty ones left out.
pub(crate) fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers
        .get_all(name)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// The fields to store, copied into one buffer of their exact size.
///
/// Why copied: values that a parser made are slices of its read buffer, and a stored slice would keep all of it alive,
/// uncounted. Why one buffer: cloning the map touches one reference count, not one for each field.
pub(crate) fn to_store(headers: &HeaderMap) -> HeaderMap {
    let excluded = Excluded::of(headers);
    compact(headers.iter().filter(|(name, _)| !excluded.contains(name)))
}

/// The stored fields after an update by `fresh`, the fields of a 304 or of a response to HEAD.
pub(crate) fn updated(stored: &HeaderMap, fresh: &HeaderMap) -> HeaderMap {
    let excluded = Excluded::of(fresh);
    // RFC 9111 §3.2: each field of the new response replaces the stored one, except those excluded from storage,
    // Content-Length, and those the stored bytes depend upon (their coding and range).
    let keep = [&CONTENT_LENGTH, &CONTENT_ENCODING, &CONTENT_RANGE];
    let replaces = |name: &HeaderName| !keep.contains(&name) && !excluded.contains(name);
    let old = stored.iter().filter(|(name, _)| !(replaces(name) && fresh.contains_key(*name)));
    let new = fresh.iter().filter(|(name, _)| replaces(name));
    compact(old.chain(new))
}

fn compact<'a>(fields: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> HeaderMap {
    let fields: Vec<_> = fields.collect();
    let mut buffer = BytesMut::with_capacity(fields.iter().map(|(_, value)| value.len()).sum());
    fields.iter().for_each(|(_, value)| buffer.extend_from_slice(value.as_bytes()));
    let mut rest: Bytes = buffer.freeze();
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        let copy = rest.split_to(value.len());
        // The bytes were a valid value before, so the fallback is never taken.
        let mut copy = HeaderValue::from_maybe_shared(copy).unwrap_or_else(|_| value.clone());
        copy.set_sensitive(value.is_sensitive());
        map.append(name.clone(), copy);
    }
    map
}

/// `Content-Length` of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Unknown,
    Known(u64),
    /// Not a number, or several that differ (RFC 9110 §8.6).
    Invalid,
}

pub(crate) fn content_length(headers: &HeaderMap) -> Length {
    let mut found = Length::Unknown;
    for member in members(headers, &CONTENT_LENGTH) {
        let value = std::str::from_utf8(member)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok());
        found = match (found, value) {
            (Length::Unknown, Some(value)) => Length::Known(value),
            (Length::Known(before), Some(value)) if before == value => found,
            _ => return Length::Invalid,
        };
    }
    if found == Length::Unknown && headers.contains_key(CONTENT_LENGTH) { Length::Invalid } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    fn list(map: &HeaderMap) -> Vec<(&str, &str)> {
        map.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect()
    }

    #[test]
    fn stores_everything_but_what_belongs_to_the_connection() {
        let headers = map(&[
            ("connection", "close, X-Named"),
            ("content-type", "text/plain"),
            ("x-named", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("proxy-authorization", "Basic"),
            ("proxy-authentication-info", "x"),
            ("proxy-connection", "close"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("age", "5"),
            ("set-cookie", "a=b"),
            ("link", "</a>"),
            ("link", "</b>"),
        ]);
        assert_eq!(list(&to_store(&headers)), [("content-type", "text/plain"), ("link", "</a>"), ("link", "</b>")]);
    }

    #[test]
    fn updates_replace_all_lines_of_a_field() {
        let stored = map(&[
            ("link", "</a>"),
            ("link", "</b>"),
            ("content-length", "3"),
            ("content-encoding", "gzip"),
            ("x-old", "1"),
        ]);
        let fresh = map(&[
            ("link", "</c>"),
            ("content-length", "0"),
            ("content-encoding", "br"),
            ("content-range", "bytes 0-1/2"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("set-cookie", "a=b"),
            ("x-new", "2"),
        ]);
        let merged = updated(&stored, &fresh);
        let mut found = list(&merged);
        found.sort_unstable();
        assert_eq!(
            found,
            [("content-encoding", "gzip"), ("content-length", "3"), ("link", "</c>"), ("x-new", "2"), ("x-old", "1")]
        );
    }

    #[test]
    fn content_lengths() {
        #[track_caller]
        fn check(fields: &[(&'static str, &'static str)], expected: Length) {
            assert_eq!(content_length(&map(fields)), expected, "{fields:?}");
        }
        check(&[], Length::Unknown);
        check(&[("content-length", "12")], Length::Known(12));
        check(&[("content-length", "12, 12"), ("content-length", "12")], Length::Known(12));
        for invalid in ["", "-1", "+1", "1x", "12, 13", "99999999999999999999999"] {
            check(&[("content-length", invalid)], Length::Invalid);
        }
    }
}
