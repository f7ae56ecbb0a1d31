//! From the path of a request to names below a folder.
//!
//! What is refused here is never looked for. Escapes are decoded once; whatever could be read as a separator, a parent
//! or a hidden file by something that decodes twice is refused as well, though no such file could be reached.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Most bytes of one name, as most file systems have it.
pub const MAX_NAME: usize = 255;
/// Most bytes of a whole path, decoded (`PATH_MAX`).
pub const MAX_PATH: usize = 4095;

/// The one name with a dot in front that is served (RFC 8615).
const WELL_KNOWN: &str = ".well-known";

/// A path below the folder, decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilePath<'a> {
    /// Without slashes at its ends; empty for the folder itself.
    pub(crate) names: Cow<'a, str>,
    pub(crate) kind: Kind,
}

/// What the path says that it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It ends in a slash.
    Folder,
    File,
}

/// Why a path leads to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPath {
    /// Its escapes are broken, or what they stand for is no text.
    Malformed,
    /// It would be hidden, outside, or no name at all.
    Refused,
}

impl<'a> FilePath<'a> {
    /// `path` is what follows the route's path, with its escapes: empty, or from a slash on.
    pub(crate) fn parse(path: &'a str) -> Result<Self, NoPath> {
        let Some(path) = path.strip_prefix('/') else {
            return match path.is_empty() {
                true => Ok(Self { names: Cow::Borrowed(""), kind: Kind::File }),
                false => Err(NoPath::Refused),
            };
        };
        if has_broken_escape(path) {
            return Err(NoPath::Malformed);
        }
        let (names, kind) = match path.strip_suffix('/') {
            Some(names) => (names, Kind::Folder),
            None if path.is_empty() => (path, Kind::Folder),
            None => (path, Kind::File),
        };
        if names.is_empty() {
            return if path.is_empty() { Ok(Self { names: Cow::Borrowed(""), kind }) } else { Err(NoPath::Refused) };
        }
        // Before the decoding: an escaped slash is part of a name, which no name can have.
        if has_escaped_separator(names) {
            return Err(NoPath::Refused);
        }
        let names = percent_decode_str(names).decode_utf8().map_err(|_| NoPath::Malformed)?;
        if names.len() > MAX_PATH || !names.split('/').all(is_served) {
            return Err(NoPath::Refused);
        }
        Ok(Self { names, kind })
    }

    /// The last name, if there is one.
    pub(crate) fn name(&self) -> &str {
        self.names.rsplit('/').next().unwrap_or_default()
    }
}

/// Whether files with this name are served, and shown.
pub(crate) fn is_served(name: &str) -> bool {
    let is_control = |c: char| c.is_control() || c == '\\';
    !name.is_empty()
        && name.len() <= MAX_NAME
        && (name == WELL_KNOWN || !is_hidden(name))
        && !name.contains(is_control)
        && !has_escaped_separator(name)
}

/// Whether the first character that a file system may look at is a dot. (HFS+ passes over some.)
fn is_hidden(name: &str) -> bool {
    let is_ignored = |c: &char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    name.chars().find(|c| !is_ignored(c)).is_none_or(|c| c == '.')
}

/// Whether this is a path of names that are served, one below the other.
#[must_use]
pub fn is_file_path(names: &str) -> bool {
    names.len() <= MAX_PATH && names.split('/').all(is_served)
}

fn has_broken_escape(path: &str) -> bool {
    let mut rest = path.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        match rest.get(at + 1..at + 3) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => rest = &rest[at + 3..],
            _ => return true,
        }
    }
    false
}

/// Whether an escape is there for a slash, a backslash, a dot in front of or behind others, or NUL.
fn has_escaped_separator(text: &str) -> bool {
    let bytes = text.as_bytes();
    let escape = |at: usize| bytes.get(at + 1..at + 3).map(<[u8]>::to_ascii_lowercase);
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').any(|(at, _)| {
        matches!(escape(at).as_deref(), Some(b"2f" | b"5c" | b"00")) || matches!(escape(at).as_deref(), Some(b"2e"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, names: &str, kind: Kind) {
        assert_eq!(FilePath::parse(path), Ok(FilePath { names: names.into(), kind }), "{path}");
    }

    #[track_caller]
    fn refused(path: &str, why: NoPath) {
        assert_eq!(FilePath::parse(path), Err(why), "{path}");
    }

    #[test]
    fn paths() {
        check("", "", Kind::File);
        check("/", "", Kind::Folder);
        check("/a", "a", Kind::File);
        check("/a/", "a", Kind::Folder);
        check("/a/b.js", "a/b.js", Kind::File);
        check("/a%20b", "a b", Kind::File);
        check("/%C3%A9", "é", Kind::File);
        check("/.well-known/x", ".well-known/x", Kind::File);
        check("/a..b", "a..b", Kind::File);
        check("/100%25", "100%", Kind::File);
        check("/a%3Fb%23c", "a?b#c", Kind::File);
    }

    #[test]
    fn what_leads_nowhere() {
        for path in ["//", "//a", "/a//b", "/a//", "/..", "/a/..", "/.", "/.git/config", "/a/.env", "/...", "x"] {
            refused(path, NoPath::Refused);
        }
        for path in ["/%2e%2e/a", "/a%2fb", "/a%5Cb", "/a\\b", "/a%00", "/%252e%252e/a", "/a%252fb", "/a%0ab", "/a%7f"]
        {
            refused(path, NoPath::Refused);
        }
        for path in ["/%", "/a%2", "/%zz", "/%c0%ae%c0%ae/x", "/%ff", "/%C3"] {
            refused(path, NoPath::Malformed);
        }
        refused("/\u{200b}.git", NoPath::Refused);
        refused(&format!("/{}", "a".repeat(256)), NoPath::Refused);
        refused(&"/abcdefg".repeat(600), NoPath::Refused);
    }
}
