//! Byte ranges of a stored response (RFC 9110 §14).

use std::ops::Range;

use http::header::{IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Method};

use super::validate::Validators;

/// What of a stored response a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requested {
    /// All of it: there is no `Range`, or it is one that is ignored.
    Whole,
    /// These bytes: 206. Never empty, never beyond the end.
    Part(Range<u64>),
    /// Bytes that are not there: 416 (RFC 9110 §15.5.17).
    Unsatisfiable,
}

impl Requested {
    /// What `request` asks of a representation with so many bytes.
    pub(crate) fn of(method: &Method, request: &HeaderMap, validators: &Validators, length: u64) -> Self {
        // RFC 9110 §14.2: Range has a meaning with GET only.
        if method != Method::GET {
            return Self::Whole;
        }
        let mut lines = request.get_all(RANGE).iter();
        let (Some(only), None) = (lines.next(), lines.next()) else {
            return Self::Whole;
        };
        // RFC 9110 §13.1.5, §13.2.2 step 5: without a match of If-Range, Range is ignored.
        if request.get_all(IF_RANGE).iter().any(|condition| !validators.matches_if_range(condition)) {
            return Self::Whole;
        }
        Self::parse(only, length)
    }

    /// RFC 9110 §14.1.1, §14.2: an unknown unit, a malformed set, or more than one range are ignored. Several ranges
    /// would make the response larger and harder to read than all of it, which is in memory.
    fn parse(value: &HeaderValue, length: u64) -> Self {
        let bytes = value.as_bytes();
        let set = match bytes.split_at_checked(b"bytes=".len()) {
            Some((unit, set)) if unit.eq_ignore_ascii_case(b"bytes=") => set.trim_ascii(),
            _ => return Self::Whole,
        };
        let Some(dash) = set.iter().position(|byte| *byte == b'-') else {
            return Self::Whole;
        };
        let (first, last) = (&set[..dash], &set[dash + 1..]);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if last < first => Self::Whole,
            (Some(first), _) if first >= length && (last.is_empty() || number(last).is_some()) => Self::Unsatisfiable,
            (Some(first), None) if last.is_empty() => Self::Part(first..length),
            (Some(first), Some(last)) => Self::Part(first..last.saturating_add(1).min(length)),
            // RFC 9110 §14.1.2: a suffix of no bytes cannot be satisfied; one that is longer than all is all.
            (None, Some(0)) if first.is_empty() => Self::Unsatisfiable,
            (None, Some(_)) if first.is_empty() && length == 0 => Self::Unsatisfiable,
            (None, Some(suffix)) if first.is_empty() => Self::Part(length.saturating_sub(suffix)..length),
            _ => Self::Whole,
        }
    }
}

/// `1*DIGIT`; a number too large to be held is as good as the largest.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn map(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_str(v).unwrap())).collect()
    }

    #[track_caller]
    fn check(range: &str, length: u64, expected: &Requested) {
        let found = Requested::of(&Method::GET, &map(&[("range", range)]), &Validators::default(), length);
        assert_eq!(&found, expected, "{range} of {length}");
    }

    #[test]
    fn ranges() {
        check("bytes=0-0", 10, &Requested::Part(0..1));
        check("bytes=0-9", 10, &Requested::Part(0..10));
        check("bytes=3-", 10, &Requested::Part(3..10));
        check("bytes=3-99", 10, &Requested::Part(3..10));
        check("Bytes=-3", 10, &Requested::Part(7..10));
        check("bytes=-99", 10, &Requested::Part(0..10));
        check("bytes=9-99999999999999999999999999", 10, &Requested::Part(9..10));
        check("bytes= 2-3 ", 10, &Requested::Part(2..4));
    }

    #[test]
    fn unsatisfiable() {
        check("bytes=10-", 10, &Requested::Unsatisfiable);
        check("bytes=10-20", 10, &Requested::Unsatisfiable);
        check("bytes=99999999999999999999999999-", 10, &Requested::Unsatisfiable);
        check("bytes=-0", 10, &Requested::Unsatisfiable);
        check("bytes=-1", 0, &Requested::Unsatisfiable);
        check("bytes=0-", 0, &Requested::Unsatisfiable);
    }

    #[test]
    fn ignored() {
        for range in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=3-2",
            "bytes=30-20",
            "items=0-1",
            "bytes=0-1,3-4",
            "bytes=20-,0-1",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=-1-2",
            "bytes = 0-1",
            "bytes=0 -1",
            "bytes=20-x",
        ] {
            check(range, 10, &Requested::Whole);
        }
        let twice = map(&[("range", "bytes=0-1"), ("range", "bytes=0-1")]);
        assert_eq!(Requested::of(&Method::GET, &twice, &Validators::default(), 10), Requested::Whole);
        let head = map(&[("range", "bytes=0-1")]);
        assert_eq!(Requested::of(&Method::HEAD, &head, &Validators::default(), 10), Requested::Whole);
    }

    #[test]
    fn if_range() {
        const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        let check = |stored: &[(&'static str, &str)], condition: &str, expected: bool| {
            let request = map(&[("range", "bytes=0-1"), ("if-range", condition)]);
            let found = Requested::of(&Method::GET, &request, &Validators::of(&map(stored)), 10);
            assert_eq!(found == Requested::Part(0..2), expected, "{stored:?} {condition}");
        };
        check(&[("etag", "\"a\"")], "\"a\"", true);
        check(&[("etag", "\"a\"")], "\"b\"", false);
        check(&[("etag", "W/\"a\"")], "W/\"a\"", false);
        check(&[("etag", "\"a\"")], "W/\"a\"", false);
        check(&[], "\"a\"", false);
        check(&[("last-modified", AT), ("date", "Sun, 06 Nov 1994 09:49:37 GMT")], AT, true);
        check(&[("last-modified", AT), ("date", AT)], AT, false);
        check(&[("last-modified", AT)], "Sun, 06 Nov 1994 08:49:38 GMT", false);
        check(&[("etag", "\"a\""), ("last-modified", AT), ("date", "Sun, 06 Nov 1994 09:49:37 GMT")], AT, true);
        check(&[("last-modified", AT)], "x", false);
    }
}
