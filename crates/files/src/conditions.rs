//! Conditions of a request (RFC 9110 §13).

use std::time::{Duration, SystemTime};

/// What the conditions of a request say of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is sent.
    Send,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// The conditions of a request; lines of a list field joined by commas.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) if_match: Option<Vec<u8>>,
    pub(crate) if_none_match: Option<Vec<u8>>,
    pub(crate) if_modified_since: Option<Vec<u8>>,
    pub(crate) if_unmodified_since: Option<Vec<u8>>,
    pub(crate) if_range: Option<Vec<u8>>,
}

/// What identifies a version of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validators<'a> {
    /// As in the field `ETag`.
    pub(crate) etag: &'a [u8],
    /// In whole seconds, as in the field.
    pub(crate) modified: SystemTime,
}

impl Conditions {
    /// In the order of RFC 9110 §13.2.2.
    pub(crate) fn verdict(&self, is: Validators<'_>) -> Verdict {
        match (&self.if_match, &self.if_unmodified_since) {
            (Some(tags), _) if !any(tags, |tag| is_strongly(tag, is.etag)) => return Verdict::Failed,
            (None, Some(date)) if parse(date).is_some_and(|date| is.modified > date) => return Verdict::Failed,
            _ => {}
        }
        match (&self.if_none_match, &self.if_modified_since) {
            (Some(tags), _) if any(tags, |tag| is_weakly(tag, is.etag)) => Verdict::NotModified,
            (None, Some(date)) if parse(date).is_some_and(|date| is.modified <= date) => Verdict::NotModified,
            _ => Verdict::Send,
        }
    }

    /// Whether `Range` counts (RFC 9110 §13.1.5).
    pub(crate) fn takes_range(&self, is: Validators<'_>, now: SystemTime) -> bool {
        let Some(value) = &self.if_range else { return true };
        if value.first() == Some(&b'"') {
            return is_strongly(value, is.etag);
        }
        // A date is a strong validator when the file has not changed within the second before it was sent (§8.8.2.2).
        let is_strong = is.modified + Duration::from_secs(1) < now;
        parse(value).is_some_and(|date| date == is.modified && is_strong)
    }
}

fn parse(date: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()
}

/// Whether a list of tags has one that is `wanted`, or is `*`.
fn any(list: &[u8], is: impl Fn(&[u8]) -> bool) -> bool {
    if list.trim_ascii() == b"*" {
        return true;
    }
    let mut rest = list;
    loop {
        rest = rest.trim_ascii_start();
        let weak: &[u8] = if rest.starts_with(b"W/") { &rest[..2] } else { b"" };
        let Some(quoted) = rest[weak.len()..].strip_prefix(b"\"") else {
            match rest.split_first() {
                Some((b',', behind)) => rest = behind,
                _ => return false, // no tag: what follows cannot be told apart
            }
            continue;
        };
        let Some(end) = quoted.iter().position(|byte| *byte == b'"') else { return false };
        let (tag, behind) = rest.split_at(weak.len() + 1 + end + 1);
        if is(tag) {
            return true;
        }
        rest = behind;
    }
}

/// RFC 9110 §8.8.3.2.
fn is_weakly(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag: &[u8]| tag.strip_prefix(b"W/").map_or_else(|| tag.to_vec(), <[u8]>::to_vec);
    opaque(one) == opaque(other)
}

fn is_strongly(one: &[u8], other: &[u8]) -> bool {
    one == other && !one.starts_with(b"W/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn conditions(fields: &[(&str, &str)]) -> Conditions {
        let value = |name: &str| fields.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_bytes().to_vec());
        Conditions {
            if_match: value("if-match"),
            if_none_match: value("if-none-match"),
            if_modified_since: value("if-modified-since"),
            if_unmodified_since: value("if-unmodified-since"),
            if_range: value("if-range"),
        }
    }

    fn is(etag: &str) -> Validators<'_> {
        Validators { etag: etag.as_bytes(), modified: parse(DATE.as_bytes()).unwrap() }
    }

    #[track_caller]
    fn check(fields: &[(&str, &str)], expected: Verdict) {
        assert_eq!(conditions(fields).verdict(is("\"a\"")), expected, "{fields:?}");
    }

    #[test]
    fn verdicts() {
        check(&[], Verdict::Send);
        check(&[("if-none-match", "\"a\"")], Verdict::NotModified);
        check(&[("if-none-match", "W/\"a\"")], Verdict::NotModified);
        check(&[("if-none-match", "\"b\", \"a\"")], Verdict::NotModified);
        check(&[("if-none-match", "\"b\",,W/\"c,\" , \"a\"")], Verdict::NotModified);
        check(&[("if-none-match", "*")], Verdict::NotModified);
        check(&[("if-none-match", "\"b\"")], Verdict::Send);
        check(&[("if-none-match", "a")], Verdict::Send);
        check(&[("if-none-match", "\"a")], Verdict::Send);
        check(&[("if-modified-since", DATE)], Verdict::NotModified);
        check(&[("if-modified-since", AFTER)], Verdict::NotModified);
        check(&[("if-modified-since", BEFORE)], Verdict::Send);
        check(&[("if-modified-since", "yesterday")], Verdict::Send);
        // RFC 9110 §13.1.3: ignored beside If-None-Match.
        check(&[("if-none-match", "\"b\""), ("if-modified-since", DATE)], Verdict::Send);
        check(&[("if-match", "\"a\"")], Verdict::Send);
        check(&[("if-match", "*")], Verdict::Send);
        check(&[("if-match", "W/\"a\"")], Verdict::Failed);
        check(&[("if-match", "\"b\"")], Verdict::Failed);
        check(&[("if-unmodified-since", DATE)], Verdict::Send);
        check(&[("if-unmodified-since", BEFORE)], Verdict::Failed);
        check(&[("if-match", "\"a\""), ("if-unmodified-since", BEFORE)], Verdict::Send);
        check(&[("if-match", "\"b\""), ("if-none-match", "\"a\"")], Verdict::Failed);
    }

    #[test]
    fn a_weak_tag_is_never_strongly_the_same() {
        assert_eq!(conditions(&[("if-match", "W/\"a\"")]).verdict(is("W/\"a\"")), Verdict::Failed);
        assert_eq!(conditions(&[("if-none-match", "\"a\"")]).verdict(is("W/\"a\"")), Verdict::NotModified);
    }

    #[test]
    fn ranges_of_the_same_version_only() {
        let later = parse(AFTER.as_bytes()).unwrap() + Duration::from_secs(1);
        let takes = |value, etag| conditions(&[("if-range", value)]).takes_range(is(etag), later);
        assert!(Conditions::default().takes_range(is("\"a\""), later));
        assert!(takes("\"a\"", "\"a\""));
        assert!(!takes("\"b\"", "\"a\""));
        assert!(!takes("W/\"a\"", "W/\"a\""));
        assert!(takes(DATE, "\"a\""));
        assert!(!takes(AFTER, "\"a\""));
        let at_once = parse(DATE.as_bytes()).unwrap();
        assert!(!conditions(&[("if-range", DATE)]).takes_range(is("\"a\""), at_once));
    }
}
