//! Paths as routes look at them (RFC 3986 §5.2.4).

use std::borrow::Cow;

/// The path without dot segments; borrowed when there are none.
pub(crate) fn normalized(path: &str) -> Cow<'_, str> {
    let bytes = path.as_bytes();
    let is_suspicious = |at: usize| match bytes[at] {
        b'.' => at > 0 && bytes[at - 1] == b'/',
        _ => bytes.get(at + 1) == Some(&b'2'),
    };
    if !memchr::memchr2_iter(b'.', b'%', bytes).any(is_suspicious) {
        return Cow::Borrowed(path);
    }
    let decoded = path.replace("%2e", ".").replace("%2E", ".");
    let mut out: Vec<&str> = Vec::new();
    let mut segments = decoded.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    out.pop();
                }
                if last {
                    out.push("");
                }
            }
            other => out.push(other),
        }
    }
    Cow::Owned(format!("/{}", out.join("/")))
}
