//! Validators: asking the service (RFC 9111 §4.3.1), answering a client's condition (§4.3.2), and whether a 304 or an
//! answer to HEAD is about the stored response (§4.3.4, §4.3.5).

use http::header::{CONTENT_LENGTH, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::time::Timestamp;

/// `ETag`, under the name by which the RFC calls its content.
pub(crate) const ENTITY_TAG: HeaderName = ETAG;

/// The validators of a stored response, read once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Validators {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
    /// `Last-Modified`, or else `Date`, for a client's `If-Modified-Since`.
    modified: Option<Timestamp>,
    /// RFC 9110 §8.8.2.2: `Last-Modified` is so much older than `Date` that nothing can have changed within its second.
    is_date_strong: bool,
}

/// RFC 9110 §8.8.2.2: how much older.
const STRONG_AFTER_MS: u64 = 60_000;

impl Validators {
    /// Reads the validators of stored fields, which always have `Date`.
    pub(crate) fn of(stored: &HeaderMap) -> Self {
        let last_modified = stored.get(LAST_MODIFIED);
        let date = stored.get(http::header::DATE).and_then(Timestamp::from_http_date);
        // RFC 9111 §4.3.2: without Last-Modified, the stored Date is compared.
        let modified = match last_modified {
            Some(value) => Timestamp::from_http_date(value),
            None => date,
        };
        let is_date_strong = match (last_modified, modified, date) {
            (Some(_), Some(modified), Some(date)) => date.millis_since(modified) >= STRONG_AFTER_MS,
            _ => false,
        };
        Self { etag: stored.get(ETAG).cloned(), last_modified: last_modified.cloned(), modified, is_date_strong }
    }

    /// RFC 9110 §13.1.5: whether a client's `If-Range` is about this very representation, by strong comparison.
    pub(crate) fn matches_if_range(&self, condition: &HeaderValue) -> bool {
        let condition = condition.as_bytes().trim_ascii();
        match condition.first() {
            Some(b'"') => self.etag.as_ref().is_some_and(|etag| etag.as_bytes() == condition),
            // A date is compared to the letter; a weak tag never matches.
            _ => self.is_date_strong && self.last_modified.as_ref().is_some_and(|date| date.as_bytes() == condition),
        }
    }

    /// Whether nothing can be asked by them.
    pub(crate) fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }

    /// RFC 9111 §4.3.1: replaces the client's conditions by the stored validators, so that 304 means the stored
    /// response.
    pub(crate) fn apply(&self, request: &mut HeaderMap) {
        replace(request, IF_NONE_MATCH, self.etag.as_ref());
        replace(request, IF_MODIFIED_SINCE, self.last_modified.as_ref());
    }

    /// Whether the client's condition is answered by 304 (RFC 9110 §13.2.2, steps 3 and 4).
    pub(crate) fn not_modified(&self, request: &HeaderMap) -> bool {
        if request.contains_key(IF_NONE_MATCH) {
            return request.get_all(IF_NONE_MATCH).iter().any(|line| self.matches_any(line.as_bytes()));
        }
        // RFC 9110 §13.1.3: ignored if it is not a valid date, or not a single one.
        let mut lines = request.get_all(IF_MODIFIED_SINCE).iter();
        let (Some(only), None) = (lines.next(), lines.next()) else {
            return false;
        };
        match (Timestamp::from_http_date(only), self.modified) {
            (Some(since), Some(modified)) => modified <= since,
            _ => false,
        }
    }

    /// RFC 9111 §4.3.4: whether a 304 is about this response.
    pub(crate) fn confirmed_by(&self, not_modified: &HeaderMap) -> bool {
        match (not_modified.get(ETAG), &self.etag) {
            // A strong validator must be the same; a weak one selects by weak comparison.
            (Some(new), Some(old)) if is_weak(new.as_bytes()) => opaque(new.as_bytes()) == opaque(old.as_bytes()),
            (Some(new), Some(old)) => new == old,
            // A validator that the stored response does not have is about another one.
            (Some(_), None) => false,
            (None, _) => match (not_modified.get(LAST_MODIFIED), &self.last_modified) {
                (Some(new), Some(old)) => new == old,
                (Some(_), None) => self.etag.is_some(),
                // No validator in the 304: it answers our condition, which named this response only.
                (None, _) => true,
            },
        }
    }

    /// RFC 9111 §4.3.5: whether a response to HEAD describes the stored response: the same validators and length, as
    /// far as it gives any.
    pub(crate) fn described_by(&self, head: &HeaderMap, stored: &HeaderMap) -> bool {
        let same = |name: HeaderName| head.get(&name).is_none_or(|value| stored.get(&name) == Some(value));
        same(ETAG) && same(LAST_MODIFIED) && same(CONTENT_LENGTH)
    }

    fn matches_any(&self, list: &[u8]) -> bool {
        let mut rest = list;
        loop {
            rest = skip(rest);
            let Some(first) = rest.first() else { return false };
            // RFC 9110 §13.1.2: "*" matches any current representation.
            if *first == b'*' {
                return true;
            }
            let (tag, after) = split_tag(rest);
            // RFC 9110 §13.1.2: weak comparison.
            if self.etag.as_ref().is_some_and(|etag| opaque(etag.as_bytes()) == opaque(tag)) {
                return true;
            }
            rest = after;
        }
    }
}

fn replace(request: &mut HeaderMap, name: HeaderName, value: Option<&HeaderValue>) {
    match value {
        Some(value) => drop(request.insert(name, value.clone())),
        None => drop(request.remove(name)),
    }
}

fn skip(list: &[u8]) -> &[u8] {
    let end = list.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b',')).unwrap_or(list.len());
    list.get(end..).unwrap_or_default()
}

/// Splits the first entity tag off a list that does not begin with a separator. A tag without quotes ends at the comma.
fn split_tag(list: &[u8]) -> (&[u8], &[u8]) {
    let open = if is_weak(list) { 2 } else { 0 };
    let end = match list.get(open) {
        // RFC 9110 §8.8.3: an opaque tag has no escapes.
        Some(b'"') => list.get(open + 1..).and_then(|tag| memchr::memchr(b'"', tag)).map(|at| open + at + 2),
        _ => memchr::memchr(b',', list),
    };
    let (tag, rest) = list.split_at(end.unwrap_or(list.len()));
    (tag.trim_ascii_end(), rest)
}

fn is_weak(tag: &[u8]) -> bool {
    tag.starts_with(b"W/")
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = &'a [(&'static str, &'a str)];

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEW: &str = "Sun, 06 Nov 1994 08:49:47 GMT";

    fn map(fields: Fields<'_>) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_str(v).unwrap())).collect()
    }

    #[track_caller]
    fn check(stored: Fields<'_>, request: Fields<'_>, expected: bool) {
        let found = Validators::of(&map(stored)).not_modified(&map(request));
        assert_eq!(found, expected, "stored {stored:?}, asked {request:?}");
    }

    #[test]
    fn if_none_match() {
        let stored: Fields<'_> = &[("etag", "\"a\""), ("last-modified", OLD)];
        for matching in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "\"b\",W/\"a\" , \"c\"", "*", ", ,\"a\"", "\"x,y\", \"a\""]
        {
            check(stored, &[("if-none-match", matching)], true);
        }
        for other in ["\"b\"", "a", "", ",", "\"a", "\"b\" \"", "\"x, \\\"a\\\"\"", "W/", "w/\"a\""] {
            check(stored, &[("if-none-match", other)], false);
        }
        check(&[("etag", "W/\"a\"")], &[("if-none-match", "\"a\"")], true);
        check(&[("etag", "bare")], &[("if-none-match", "x, bare ")], true);
        check(&[("last-modified", OLD)], &[("if-none-match", "\"a\"")], false);
        check(&[("last-modified", OLD)], &[("if-none-match", "*")], true);
    }

    #[test]
    fn if_none_match_comes_before_if_modified_since() {
        let stored: Fields<'_> = &[("etag", "\"a\""), ("last-modified", OLD)];
        check(stored, &[("if-none-match", "\"b\""), ("if-modified-since", NEW)], false);
        check(stored, &[("if-none-match", "\"a\""), ("if-modified-since", "nonsense")], true);
    }

    #[test]
    fn if_modified_since() {
        check(&[("last-modified", OLD)], &[("if-modified-since", OLD)], true);
        check(&[("last-modified", OLD)], &[("if-modified-since", NEW)], true);
        check(&[("last-modified", NEW)], &[("if-modified-since", OLD)], false);
        check(&[("date", OLD)], &[("if-modified-since", NEW)], true);
        check(&[("date", NEW)], &[("if-modified-since", OLD)], false);
        check(&[("date", OLD), ("last-modified", "x")], &[("if-modified-since", NEW)], false);
        check(&[("last-modified", OLD)], &[("if-modified-since", "0")], false);
        check(&[("last-modified", OLD)], &[("if-modified-since", NEW), ("if-modified-since", NEW)], false);
        check(&[("last-modified", OLD)], &[], false);
    }

    #[test]
    fn conditions_for_the_service_replace_those_of_the_client() {
        let mut request = map(&[("if-none-match", "\"client\""), ("if-modified-since", NEW), ("accept", "x")]);
        Validators::of(&map(&[("etag", "W/\"a\"")])).apply(&mut request);
        assert_eq!(request, map(&[("if-none-match", "W/\"a\""), ("accept", "x")]));
        Validators::of(&map(&[("last-modified", OLD)])).apply(&mut request);
        assert_eq!(request, map(&[("if-modified-since", OLD), ("accept", "x")]));
    }

    #[track_caller]
    fn check_confirmed(stored: Fields<'_>, not_modified: Fields<'_>, expected: bool) {
        let found = Validators::of(&map(stored)).confirmed_by(&map(not_modified));
        assert_eq!(found, expected, "stored {stored:?}, 304 {not_modified:?}");
    }

    #[test]
    fn which_304_is_ours() {
        check_confirmed(&[("etag", "\"a\"")], &[("etag", "\"a\"")], true);
        check_confirmed(&[("etag", "\"a\"")], &[("etag", "\"b\"")], false);
        check_confirmed(&[("etag", "W/\"a\"")], &[("etag", "\"a\"")], false);
        check_confirmed(&[("etag", "\"a\"")], &[("etag", "W/\"a\"")], true);
        check_confirmed(&[("etag", "\"a\"")], &[], true);
        check_confirmed(&[("last-modified", OLD)], &[("etag", "\"a\"")], false);
        check_confirmed(&[("last-modified", OLD)], &[("last-modified", NEW)], false);
        check_confirmed(&[("last-modified", OLD)], &[("last-modified", OLD)], true);
        check_confirmed(&[("etag", "\"a\"")], &[("last-modified", OLD)], true);
    }

    #[test]
    fn which_head_is_ours() {
        let stored = map(&[("etag", "\"a\""), ("content-length", "3")]);
        let check = |head: Fields<'_>, expected: bool| {
            assert_eq!(Validators::of(&stored).described_by(&map(head), &stored), expected, "{head:?}");
        };
        check(&[], true);
        check(&[("etag", "\"a\""), ("content-length", "3")], true);
        check(&[("etag", "\"b\""), ("content-length", "3")], false);
        check(&[("content-length", "4")], false);
        check(&[("last-modified", OLD)], false);
    }
}
