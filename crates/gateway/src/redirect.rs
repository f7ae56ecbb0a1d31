//! Redirects of a route: where a client is sent instead of being answered (RFC 9110 §15.4).
//!
//! Invariant: a client never chooses the host that it is sent to, but by the host that it asks for (`{host}`). A path
//! stands behind a host or a slash, and what would be `//host` is one slash.

use http::StatusCode;

use crate::target::is_authority;
use crate::template::{Facts, Placeholder, Template, TemplateError};

/// Where a route sends its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    to: Template,
    /// As it was written.
    text: Box<str>,
    status: StatusCode,
    /// The target has a query of its own, behind which that of the client goes on.
    has_query: bool,
}

/// Why there is no such redirect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotARedirect {
    /// Neither a URL of HTTP nor a path.
    #[error("must begin with `https://`, `http://`, `{{scheme}}://` or `/`")]
    Beginning,
    /// Something else than a host, or than `{host}`, where the host is.
    #[error("has no valid host: a host, its port if need be, and of placeholders only {{host}}")]
    Host,
    /// A character that no URL has as it stands.
    #[error("has a character that a URL cannot have as it stands")]
    Character,
    /// A placeholder that no URL may have, or too long.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Not a status of redirects.
    #[error("{0} is not one of 301, 302, 303, 307 and 308")]
    Status(u16),
}

impl Redirect {
    /// The status unless the file says another one: permanent, and the method stays.
    pub const DEFAULT_STATUS: u16 = 308;
    const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];
    const ALLOWED: &[Placeholder] =
        &[Placeholder::Host, Placeholder::Scheme, Placeholder::Path, Placeholder::Below, Placeholder::Query];

    /// Reads `https://new.example{path}{query}`.
    ///
    /// # Errors
    /// It is no URL, or a client could choose where it leads.
    pub fn parse(text: &str, status: u16) -> Result<Self, NotARedirect> {
        let status =
            Some(status).filter(|status| Self::STATUSES.contains(status)).ok_or(NotARedirect::Status(status))?;
        let status = StatusCode::from_u16(status).map_err(|_| NotARedirect::Status(status))?;
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>^`|".contains(&byte)) {
            return Err(NotARedirect::Character);
        }
        let to = Template::parse(text, Self::ALLOWED)?;
        if !text.starts_with('/') {
            let schemes = ["https://", "http://", "{scheme}://"];
            let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme)).ok_or(NotARedirect::Beginning)?;
            let ends = ["/", "?", "#", "{path}", "{below}", "{query}"].iter().filter_map(|end| rest.find(end));
            let authority = rest[..ends.min().unwrap_or(rest.len())].replace("{host}", "host");
            if authority.is_empty() || !is_authority(&authority) {
                return Err(NotARedirect::Host);
            }
        }
        let has_query = text.split("{query}").next().is_some_and(|before| before.contains('?'));
        Ok(Self { to, text: text.into(), status, has_query })
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What it was made from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where one request is sent; `None` if it names no host and one is needed.
    pub(crate) fn location(&self, facts: &Facts<'_>) -> Option<String> {
        if facts.host.is_empty() && self.to.has(Placeholder::Host) {
            return None;
        }
        // Browsers take it for a slash.
        let path = facts.path.replace('\\', "%5C");
        let below = facts.below.replace('\\', "%5C");
        let query = match facts.query.strip_prefix('?') {
            Some(query) if self.has_query => format!("&{query}"),
            _ => facts.query.to_owned(),
        };
        let facts = Facts { path: &path, below: &below, query: &query, ..*facts };
        // The head of a request is limited, and so is the template.
        let location = self.to.fill(&facts, usize::MAX)?;
        Some(match location.strip_prefix("//") {
            Some(rest) => format!("/{}", rest.trim_start_matches('/')),
            None => location,
        })
    }
}

/// What of a path, in its normal form, is below that of a route; empty, or it begins with a slash.
pub(crate) fn below<'p>(route: &str, path: &'p str) -> &'p str {
    path.strip_prefix(route.trim_end_matches('/')).filter(|rest| rest.starts_with('/')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FACTS: Facts<'_> = Facts {
        client: "192.0.2.1",
        host: "old.example",
        scheme: "http",
        request_id: "7",
        path: "/a/b",
        below: "/b",
        query: "?x=1",
        status: "",
    };

    #[track_caller]
    fn check(to: &str, expected: &str) {
        assert_eq!(Redirect::parse(to, 308).unwrap().location(&FACTS).as_deref(), Some(expected));
    }

    #[test]
    fn with_path_and_query_or_without() {
        check("https://new.example{path}{query}", "https://new.example/a/b?x=1");
        check("https://new.example", "https://new.example");
        check("https://new.example:8443/y?z=2{query}", "https://new.example:8443/y?z=2&x=1");
        check("https://new.example?z=2", "https://new.example?z=2");
        check("{scheme}://www.{host}{path}#top", "http://www.old.example/a/b#top");
        check("/new{path}", "/new/a/b");
        check("/new?from={path}", "/new?from=/a/b");
        check("/{path}", "/a/b");
        check("https://new.example/x{below}{query}", "https://new.example/x/b?x=1");
        check("https://new.example{below}", "https://new.example/b");
    }

    #[test]
    fn no_path_is_another_host() {
        let location = |to: &str, path: &str| Redirect::parse(to, 302).unwrap().location(&Facts { path, ..FACTS });
        for path in ["//evil.example", "///evil.example", "/\\evil.example", "/%2F/evil.example"] {
            let local = location("/{path}", path).unwrap();
            assert!(local.starts_with('/') && !local.starts_with("//") && !local.contains('\\'), "{local}");
            assert!(location("https://new.example{path}", path).unwrap().starts_with("https://new.example/"));
        }
        let nameless = Facts { host: "", ..FACTS };
        assert_eq!(Redirect::parse("https://{host}{path}", 302).unwrap().location(&nameless), None);
    }

    #[test]
    fn what_is_below_a_route() {
        for (route, path, expected) in
            [("/a", "/a/b", "/b"), ("/a", "/a", ""), ("/a", "/a/", "/"), ("/", "/a", "/a"), ("/a/", "/a/b", "/b")]
        {
            assert_eq!(below(route, path), expected, "{route} {path}");
        }
    }

    #[test]
    fn what_is_no_redirect() {
        for (to, why) in [
            ("new.example", NotARedirect::Beginning),
            ("{path}", NotARedirect::Beginning),
            ("{host}/x", NotARedirect::Beginning),
            ("ftp://new.example", NotARedirect::Beginning),
            ("javascript:alert(1)", NotARedirect::Beginning),
            ("https://", NotARedirect::Host),
            ("https://{path}", NotARedirect::Host),
            ("https://user@new.example", NotARedirect::Host),
            ("https://new.example:x", NotARedirect::Host),
            ("https://new.{scheme}", NotARedirect::Host),
            ("https://new.example/\r\nx: y", NotARedirect::Character),
            ("https://new.example\\x", NotARedirect::Character),
            ("/\\evil.example", NotARedirect::Character),
            ("/{client}", NotARedirect::Template(TemplateError::Unknown("client".into()))),
        ] {
            assert_eq!(Redirect::parse(to, 308), Err(why), "{to}");
        }
        assert_eq!(Redirect::parse("/", 200), Err(NotARedirect::Status(200)));
        assert_eq!(Redirect::parse("/", 304), Err(NotARedirect::Status(304)));
    }

    proptest! {
        #[test]
        fn a_client_stays_at_the_host_of_the_file(path in "/[a-z/.@:%5cC\\\\]{0,16}", query in "(\\?[a-z/@:&]{0,8})?") {
            let facts = Facts { path: &path, below: &path, query: &query, ..FACTS };
            for (to, beginning) in [
                ("https://new.example{path}{query}", "https://new.example"),
                ("https://new.example:1{path}", "https://new.example:1"),
                ("https://new.example{below}", "https://new.example"),
                ("https://new.example{query}", "https://new.example"),
                ("/{path}{query}", ""),
                ("/x{path}", ""),
            ] {
                let location = Redirect::parse(to, 308).unwrap().location(&facts).unwrap();
                let rest = location.strip_prefix(beginning).unwrap();
                prop_assert!(rest.is_empty() || rest.starts_with('/') || rest.starts_with('?'), "{location}");
                prop_assert!(!beginning.is_empty() || !rest.starts_with("//"), "{location}");
                prop_assert!(!location.contains('\\') , "{location}");
            }
        }
    }
}
