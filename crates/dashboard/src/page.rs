//! The page: one document with its style and its script, and what the browser is told that it may do.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use ring::digest::{SHA256, digest};

const DOCUMENT: &str = include_str!("../assets/dashboard.html");
const STYLE: &str = include_str!("../assets/dashboard.css");
const SCRIPT: &str = include_str!("../assets/dashboard.js");

/// The page as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) html: Bytes,
    /// Its `Content-Security-Policy`.
    pub(crate) policy: HeaderValue,
}

impl Page {
    pub(crate) fn new() -> Result<Self, InvalidHeaderValue> {
        let html = DOCUMENT.replace("/* style */", STYLE).replace("/* script */", SCRIPT);
        // Only this very script and this very style run; nothing is loaded from anywhere, and no text becomes markup or
        // code, whatever the script does with it (Trusted Types).
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        Ok(Self { html: html.into(), policy: HeaderValue::try_from(policy)? })
    }
}

/// CSP 3 §2.3.1: hash-source.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let page = Page::new().unwrap();
        let html = std::str::from_utf8(&page.html).unwrap();
        assert!(html.contains(STYLE) && html.contains(SCRIPT));
        assert_eq!(html.matches("<script>").count(), 1);
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
        for sink in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("] {
            assert!(!SCRIPT.contains(sink), "{sink}");
        }
        for elsewhere in ["http://", "https://", "//cdn"] {
            let own = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!own.contains(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn the_policy_names_what_runs() {
        let policy = Page::new().unwrap().policy;
        let policy = policy.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
        assert!(!policy.contains("unsafe"));
        assert_eq!(hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }
}
