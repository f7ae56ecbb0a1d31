//! What a folder of files is served with.

use std::path::PathBuf;

use http::HeaderValue;

/// A folder, and how its files are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesOptions {
    /// The folder. It may be a symbolic link, which is followed anew every second.
    pub root: PathBuf,
    /// Folders outside of it that symbolic links in it may lead to.
    pub links: Vec<PathBuf>,
    /// The file that answers for a folder, if it is there.
    pub index: Option<String>,
    /// The file below `root` that answers navigations to what is not there: for applications of a single page.
    pub fallback: Option<String>,
    /// Whether a folder without an index is shown as a list of its files.
    pub listing: Listing,
    /// `Cache-Control` by path; the longest pattern that matches counts.
    pub cache_control: Vec<FileRule>,
    /// `Content-Type` by path, likewise.
    pub types: Vec<FileRule>,
}

impl FilesOptions {
    /// Most folders of `links`.
    pub const MAX_LINKS: usize = 64;
    /// Most rules of `cache_control`, and of `types`.
    pub const MAX_RULES: usize = 64;

    /// A folder with default settings.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            links: Vec::new(),
            index: Some("index.html".to_owned()),
            fallback: None,
            listing: Listing::Off,
            cache_control: Vec::new(),
            types: Vec::new(),
        }
    }
}

/// Whether a folder without an index is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listing {
    /// It is not found.
    #[default]
    Off,
    /// As a page of HTML.
    On,
}

/// What a field says of the files that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRule {
    pattern: String,
    /// What the field says.
    pub value: HeaderValue,
}

/// Why a text is no pattern of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAPattern {
    /// Nothing matches it.
    #[error("is empty")]
    Empty,
    /// Paths are relative to the folder.
    #[error("begins with a slash; it is compared with the path below the folder, which does not")]
    Slash,
}

impl FileRule {
    /// `*` in the pattern stands for any characters, slashes too; it is compared with the whole path below the folder.
    ///
    /// # Errors
    /// It can match nothing.
    pub fn new(pattern: &str, value: HeaderValue) -> Result<Self, NotAPattern> {
        checked(pattern)?;
        Ok(Self { pattern: pattern.to_owned(), value })
    }

    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// What the rules say of the file at a path: the longest pattern counts.
    pub(crate) fn value_for<'a>(rules: &'a [Self], path: &str) -> Option<&'a HeaderValue> {
        let matching = rules.iter().filter(|rule| rule.matches(path));
        matching.max_by_key(|rule| rule.pattern.len()).map(|rule| &rule.value)
    }

    fn matches(&self, path: &str) -> bool {
        glob(&self.pattern, path)
    }
}

/// Whether it can match a path below a folder.
pub(crate) fn checked(pattern: &str) -> Result<(), NotAPattern> {
    match pattern.as_bytes().first() {
        None => Err(NotAPattern::Empty),
        Some(b'/') => Err(NotAPattern::Slash),
        Some(_) => Ok(()),
    }
}

/// Whether a text is that of a pattern, in which `*` stands for any characters.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, path: &str, expected: bool) {
        let rule = FileRule::new(pattern, HeaderValue::from_static("x")).unwrap();
        assert_eq!(rule.matches(path), expected, "{pattern} {path}");
    }

    #[test]
    fn patterns() {
        check("assets/*", "assets/a/b.js", true);
        check("assets/*", "assets/", true);
        check("assets/*", "other/assets/a", false);
        check("*.html", "a/index.html", true);
        check("*.html", "a/index.htm", false);
        check("a*b*c", "a-b-c", true);
        check("a*b*c", "acb", false);
        check("a*bc", "abc", true);
        check("ab*b", "ab", false);
        check("robots.txt", "robots.txt", true);
        check("robots.txt", "a/robots.txt", false);
        check("*", "", true);
    }

    #[test]
    fn no_patterns() {
        let value = HeaderValue::from_static("x");
        assert_eq!(FileRule::new("", value.clone()), Err(NotAPattern::Empty));
        assert_eq!(FileRule::new("/assets/*", value), Err(NotAPattern::Slash));
    }
}
