//! `Cache-Control` of a file.

use http::HeaderValue;

use crate::options::FileRule;

/// For a year, and not asked for again: the name changes with the content (RFC 8246).
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Stored, and validated each time (RFC 9111 §5.2.2.4).
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
/// Endings of what bundlers make and nobody names by hand.
const CODE: [&str; 8] = ["js", "mjs", "cjs", "css", "map", "wasm", "woff", "woff2"];
/// Endings of pictures, fonts and their like, which bundlers copy: under names with a hash, into their own folders.
const COPIED: [&str; 15] =
    ["avif", "bmp", "eot", "gif", "ico", "jpeg", "jpg", "mp3", "mp4", "otf", "png", "svg", "ttf", "webm", "webp"];
/// These folders.
const FOLDERS: [&str; 9] = ["_app", "_astro", "_next", "_nuxt", "assets", "build", "chunks", "media", "static"];
/// Lengths of hashes in hexadecimal digits: of Parcel, webpack (8, 20 and 32), Next.js (16) and Gatsby (20), and of
/// whole SHA-1 and SHA-256.
const HEX_LENGTHS: [usize; 6] = [8, 16, 20, 32, 40, 64];
/// Those of Rollup and Vite (base 64) and of esbuild (base 32).
const LENGTH: usize = 8;

/// What the field says for the file at `path`; `None`: nothing, so that caches go by its age (RFC 9111 §4.2.2).
pub(crate) fn of(path: &str, content_type: &HeaderValue, rules: &[FileRule]) -> Option<HeaderValue> {
    if let Some(value) = FileRule::value_for(rules, path) {
        return Some(value.clone());
    }
    // A page names the files that belong to it, so it must not be older than they are.
    if content_type.as_bytes().starts_with(b"text/html") {
        return Some(NO_CACHE);
    }
    is_made_by_a_bundler(path).then_some(IMMUTABLE)
}

/// A file that is immutable by mistake is worse than one that is asked for too often: a hash alone is no evidence, as
/// `IMG_20240131.jpg` may have one.
fn is_made_by_a_bundler(path: &str) -> bool {
    let mut folders: Vec<&str> = path.split('/').collect();
    let Some((name, ending)) = folders.pop().and_then(|name| name.rsplit_once('.')) else { return false };
    let is_in_their_folder = || folders.iter().any(|folder| FOLDERS.contains(folder));
    let is_theirs = CODE.contains(&ending) || COPIED.contains(&ending) && is_in_their_folder();
    is_theirs && has_hash(name)
}

/// Whether there is a hash in a name without its ending, as bundlers put it there: `app-3f2a9c1b`, `app.3f2a9c1b`,
/// `app.3f2a9c1b.js` of a map.
fn has_hash(name: &str) -> bool {
    let mut parts = name.split('.');
    let of_stem = parts.next().and_then(|stem| stem.rsplit_once(['-', '_'])).map(|(_, last)| last);
    of_stem.into_iter().chain(parts).any(is_hash)
}

/// Dates, versions, names of pictures and words with a number are no hashes.
fn is_hash(word: &str) -> bool {
    let bytes = word.as_bytes();
    let any = |is: fn(&u8) -> bool| bytes.iter().any(is);
    let all = |is: fn(&u8) -> bool| bytes.iter().all(is);
    let is_hex = HEX_LENGTHS.contains(&bytes.len())
        && all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && any(u8::is_ascii_lowercase);
    let is_base32 = all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')) && any(u8::is_ascii_uppercase);
    let has_digit_within = bytes.windows(2).any(|two| two[0].is_ascii_digit() && two[1].is_ascii_alphabetic());
    let is_base62 = all(u8::is_ascii_alphanumeric)
        && any(u8::is_ascii_lowercase)
        && any(u8::is_ascii_uppercase)
        && has_digit_within;
    any(u8::is_ascii_digit) && (is_hex || bytes.len() == LENGTH && (is_base32 || is_base62))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media_type;

    #[track_caller]
    fn check(path: &str, expected: Option<&HeaderValue>) {
        let rules = [("assets/*", "max-age=60"), ("assets/fonts/*", "max-age=120")]
            .map(|(pattern, value)| FileRule::new(pattern, HeaderValue::from_static(value)).unwrap());
        assert_eq!(of(path, &media_type::of(path, &[]), &rules).as_ref(), expected, "{path}");
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
            "build/logo-BxK29aQz.svg",
            "static/media/photo.3f2a9c1b4d5e6f708192.jpg",
            "_next/static/chunks/main-3f2a9c1b4d5e6f70.js",
            "fonts/inter-3f2a9c1b.woff2",
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
            "Report-Q3Results.pdf",
            "IMG_20240131a.jpg",
            "my-IPhone15Pro.jpg",
            "static/IMG_20240131a.jpg",
            "static/my-IPhone15Pro.jpg",
            "logo-BxK29aQz.svg",
            "downloads/setup-3f2a9c1b.exe",
            "app-20240131a.js",
            "static/data-3f2a9c1b.json",
        ] {
            check(path, None);
        }
    }
}
