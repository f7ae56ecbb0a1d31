//! Which answers are brought into a coding.

use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::coding::Coding;

/// Which answers are brought into a coding, and into which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressOptions {
    /// Types that gain; empty for those that mostly do.
    pub types: Vec<MediaRange>,
    /// Shorter answers are left as they are, in bytes, where the length is known.
    pub min_size: u64,
    /// The codings that may be used, of those that a client likes equally well the first.
    pub algorithms: Vec<Coding>,
}

impl CompressOptions {
    /// Values of `min_size`.
    pub const MIN_SIZE: RangeInclusive<u64> = 1..=16 << 20;
    /// Most entries of `types`.
    pub const MAX_TYPES: usize = 64;

    /// Whether an answer of this type gains, by its `Content-Type`.
    #[must_use]
    pub fn takes(&self, content_type: &[u8]) -> bool {
        match self.types.is_empty() {
            true => gains(content_type),
            false => self.types.iter().any(|range| range.matches(essence(content_type))),
        }
    }
}

impl Default for CompressOptions {
    fn default() -> Self {
        Self { types: Vec::new(), min_size: 1024, algorithms: Coding::ALL.to_vec() }
    }
}

/// `type/subtype`, or `type/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaRange(String);

/// It is not of the form `type/subtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a media type")]
pub struct NotAMediaRange;

impl FromStr for MediaRange {
    type Err = NotAMediaRange;

    fn from_str(text: &str) -> Result<Self, NotAMediaRange> {
        let is_token = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
        };
        match text.split_once('/') {
            Some((class, kind)) if is_token(class) && (kind == "*" || is_token(kind)) => {
                Ok(Self(text.to_ascii_lowercase()))
            }
            _ => Err(NotAMediaRange),
        }
    }
}

impl MediaRange {
    fn matches(&self, essence: &[u8]) -> bool {
        match self.0.strip_suffix('*') {
            Some(class) => essence.get(..class.len()).is_some_and(|start| start.eq_ignore_ascii_case(class.as_bytes())),
            None => essence.eq_ignore_ascii_case(self.0.as_bytes()),
        }
    }
}

/// Without parameters (RFC 9110 §8.3.1).
fn essence(content_type: &[u8]) -> &[u8] {
    content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Types that gain, beside `text/*`, `+json`, `+xml` and `+text`: text under other names, and what has no coding of its
/// own within.
const GAIN: [&str; 24] = [
    "application/json",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/xml",
    "application/x-ndjson",
    "application/graphql",
    "application/wasm",
    "application/rtf",
    "application/x-sh",
    "application/x-httpd-php",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/sql",
    "application/vnd.ms-fontobject",
    "application/x-font-ttf",
    "application/x-protobuf",
    "font/ttf",
    "font/otf",
    "font/collection",
    "image/bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
];

/// Whether answers of this type mostly gain by a coding, by their `Content-Type`.
#[must_use]
pub fn gains(content_type: &[u8]) -> bool {
    let essence = essence(content_type);
    let starts = |start: &[u8]| essence.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start));
    let ends =
        |end: &[u8]| essence.len().checked_sub(end.len()).is_some_and(|at| essence[at..].eq_ignore_ascii_case(end));
    starts(b"text/")
        || ends(b"+json")
        || ends(b"+xml")
        || ends(b"+text")
        || GAIN.iter().any(|name| essence.eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gains() {
        for name in ["text/html; charset=utf-8", "TEXT/css", "text/event-stream", "application/json", "image/svg+xml"] {
            assert!(gains(name.as_bytes()), "{name}");
        }
        for name in
            ["application/problem+json", "application/wasm", "application/manifest+json", "Application/JSON ;a=b"]
        {
            assert!(gains(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "image/png",
            "video/mp4",
            "application/zip",
            "application/octet-stream",
            "application/grpc",
            "font/woff2",
        ] {
            assert!(!gains(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn types_that_are_named() {
        let types = ["application/*", "image/png"].map(|text| text.parse().unwrap()).to_vec();
        let options = CompressOptions { types, ..CompressOptions::default() };
        for name in ["application/zip", "APPLICATION/json; a", "image/PNG"] {
            assert!(options.takes(name.as_bytes()), "{name}");
        }
        for name in ["text/html", "image/pngx", "image/pn", ""] {
            assert!(!options.takes(name.as_bytes()), "{name}");
        }
        for text in ["", "text", "text/", "/x", "*/*", "a b/c", "text/html; charset=utf-8"] {
            assert_eq!(text.parse::<MediaRange>(), Err(NotAMediaRange), "{text}");
        }
    }
}
