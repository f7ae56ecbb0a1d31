//! `Cache-Control` of a file.

use http::HeaderValue;

use crate::options::CacheRule;

/// For a year, and not asked for again: the name changes with the content (RFC 8246).
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Stored, and validated each time (RFC 9111 §5.2.2.4).
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
/// Digits or letters of a hash in a name.
const MIN_HASH: usize = 8;

/// What the field says for the file at `path`; `None`: nothing, so that caches go by its age (RFC 9111 §4.2.2).
pub(crate) fn of(path: &str, content_type: &HeaderValue, rules: &[CacheRule]) -> Option<HeaderValue> {
    let longest = rules.iter().filter(|rule| rule.matches(path)).max_by_key(|rule| rule.pattern().len());
    if let Some(rule) = longest {
        return Some(rule.value.clone());
    }
    // A page names the files that belong to it, so it must not be older than they are.
    if content_type.as_bytes().starts_with(b"text/html") {
        return Some(NO_CACHE);
    }
    has_hash(path.rsplit('/').next().unwrap_or(path)).then_some(IMMUTABLE)
}

/// Whether there is a hash in front of the ending, as bundlers put it there: `app-3f2a9c1b.js`, `app.3f2a9c1b.css`,
/// `app.3f2a9c1b.js.map`.
fn has_hash(name: &str) -> bool {
    let mut parts = name.split('.');
    let Some(stem) = parts.next() else { return false };
    let mut parts: Vec<&str> = parts.collect();
    if parts.pop().is_none() {
        return false; // no ending
    }
    let of_stem = stem.rsplit_once(['-', '_']).map(|(_, last)| last);
    of_stem.into_iter().chain(parts).any(is_hash)
}

/// A file that is immutable by mistake is worse than one that is asked for too often: dates, versions, names of
/// pictures and words with a number are no hashes.
fn is_hash(word: &str) -> bool {
    let bytes = word.as_bytes();
    let any = |is: fn(&u8) -> bool| bytes.iter().any(is);
    let all = |is: fn(&u8) -> bool| bytes.iter().all(is);
    let is_hex = all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) && any(u8::is_ascii_lowercase);
    let is_base32 =
        bytes.len() == MIN_HASH && all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')) && any(u8::is_ascii_uppercase);
    let has_digit_within = bytes.windows(2).any(|two| two[0].is_ascii_digit() && two[1].is_ascii_alphabetic());
    let is_base62 = all(u8::is_ascii_alphanumeric)
        && any(u8::is_ascii_lowercase)
        && any(u8::is_ascii_uppercase)
        && has_digit_within;
    bytes.len() >= MIN_HASH && any(u8::is_ascii_digit) && (is_hex || is_base32 || is_base62)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media_type;

    #[track_caller]
    fn check(path: &str, expected: Option<&HeaderValue>) {
        let rules = [("assets/*", "max-age=60"), ("assets/fonts/*", "max-age=120")]
            .map(|(pattern, value)| CacheRule::new(pattern, HeaderValue::from_static(value)).unwrap());
        assert_eq!(of(path, &media_type::of(path), &rules).as_ref(), expected, "{path}");
    }

    #[test]
    fn the_longest_rule_first() {
        check("assets/a-3f2a9c1b.js", Some(&HeaderValue::from_static("max-age=60")));
        check("assets/fonts/a.woff2", Some(&HeaderValue::from_static("max-age=120")));
        check("assets/index.html", Some(&HeaderValue::from_static("max-age=60")));
    }

    #[test]
    fn hashed_names_are_immutable() {
        for path in [
            "app-3f2a9c1b.js",
            "x/app.3f2a9c1b.css",
            "app-BxK29aQz.js",
            "a.3f2a9c1b.js.map",
            "chunk_9ab8c7d6.js",
            "app-5XQ3KVAD.js",
        ] {
            check(path, Some(&IMMUTABLE));
        }
    }

    #[test]
    fn pages_are_validated() {
        for path in ["index.html", "a/b-3f2a9c1b.html"] {
            check(path, Some(&NO_CACHE));
        }
    }

    #[test]
    fn others_say_nothing() {
        for path in [
            "app.js",
            "report-20240131.pdf",
            "jquery-3.7.1.min.js",
            "component-library.js",
            "3f2a9c1b",
            "a-abcdefgh.js",
            "photo-1234567.jpg",
            "my-beautiful-page1.css",
            "photo-IMG20240131.jpg",
            "photo-DSC00123.jpg",
            "report-2024q1final.pdf",
            "a-MyPhoto2024.png",
        ] {
            check(path, None);
        }
    }
}
