//! Texts with placeholders, which each request fills in: `https://{host}{path}{query}`.

use std::fmt;

/// A text with placeholders.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Value(Placeholder),
}

/// What a template may have in braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// `{client}`: the client's address without its port; empty on a Unix socket.
    Client,
    /// `{host}`: the host that the request is for, without its port.
    Host,
    /// `{scheme}`: `http` or `https`.
    Scheme,
    /// `{request_id}`: what `X-Request-Id` says.
    RequestId,
    /// `{path}`: the path as the client sent it. It begins with `/`.
    Path,
    /// `{below}`: what of the path is below that of the route; empty, or it begins with `/`.
    Below,
    /// `{query}`: the query with its question mark; empty without one.
    Query,
    /// `{status}`: the status of the answer.
    Status,
}

/// What one request puts in place of the placeholders.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts<'a> {
    pub(crate) client: &'a str,
    pub(crate) host: &'a str,
    pub(crate) scheme: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) path: &'a str,
    pub(crate) below: &'a str,
    /// With its question mark.
    pub(crate) query: &'a str,
    pub(crate) status: &'a str,
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Longer than [`Template::MAX_BYTES`].
    #[error("is longer than {} bytes", Template::MAX_BYTES)]
    TooLong,
    /// A word in braces that stands for nothing.
    #[error("has {{{0}}}, which stands for nothing here")]
    Unknown(String),
}

impl Placeholder {
    /// Every placeholder.
    pub const ALL: [Self; 8] =
        [Self::Client, Self::Host, Self::Scheme, Self::RequestId, Self::Path, Self::Below, Self::Query, Self::Status];
    /// Those that every request has.
    pub const OF_REQUESTS: &[Self] =
        &[Self::Client, Self::Host, Self::Scheme, Self::RequestId, Self::Path, Self::Query];

    /// The word between the braces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Host => "host",
            Self::Scheme => "scheme",
            Self::RequestId => "request_id",
            Self::Path => "path",
            Self::Below => "below",
            Self::Query => "query",
            Self::Status => "status",
        }
    }
}

impl Template {
    /// Most bytes of a template as it is written.
    pub const MAX_BYTES: usize = 4096;

    /// Reads a text. A word of small letters, digits and `_` in braces is a placeholder, one of `allowed`; any other
    /// brace stands for itself, so that JSON can be written as it is.
    ///
    /// # Errors
    /// It is too long, or has a placeholder that is none of `allowed`.
    pub fn parse(text: &str, allowed: &[Placeholder]) -> Result<Self, TemplateError> {
        if text.len() > Self::MAX_BYTES {
            return Err(TemplateError::TooLong);
        }
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(open) = rest.find('{') {
            let inside = &rest[open + 1..];
            let length = inside.find(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '_')).unwrap_or(inside.len());
            if length == 0 || inside.as_bytes().get(length) != Some(&b'}') {
                literal.push_str(&rest[..=open]);
                rest = inside;
                continue;
            }
            let word = &inside[..length];
            let known = allowed.iter().find(|one| one.name() == word);
            let value = known.copied().ok_or_else(|| TemplateError::Unknown(word.to_owned()))?;
            literal.push_str(&rest[..open]);
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal).into()));
            }
            parts.push(Part::Value(value));
            rest = &inside[length + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal.into()));
        }
        Ok(Self { parts })
    }

    /// Whether it has this placeholder.
    #[must_use]
    pub fn has(&self, placeholder: Placeholder) -> bool {
        self.parts.contains(&Part::Value(placeholder))
    }

    /// The whole text, if it is the same for every request.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The text before the first placeholder.
    #[must_use]
    pub fn beginning(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            Some(Part::Value(_)) | None => "",
        }
    }

    /// The text of one request; `None` if it would be longer than `max_bytes`.
    pub(crate) fn fill(&self, facts: &Facts<'_>, max_bytes: usize) -> Option<String> {
        let mut filled = String::new();
        for part in &self.parts {
            filled.push_str(match part {
                Part::Text(text) => text,
                Part::Value(placeholder) => facts.value(*placeholder),
            });
            if filled.len() > max_bytes {
                return None;
            }
        }
        Some(filled)
    }
}

impl<'a> Facts<'a> {
    fn value(&self, placeholder: Placeholder) -> &'a str {
        match placeholder {
            Placeholder::Client => self.client,
            Placeholder::Host => self.host,
            Placeholder::Scheme => self.scheme,
            Placeholder::RequestId => self.request_id,
            Placeholder::Path => self.path,
            Placeholder::Below => self.below,
            Placeholder::Query => self.query,
            Placeholder::Status => self.status,
        }
    }
}

/// A value may be a secret.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a text)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FACTS: Facts<'_> = Facts {
        client: "::1",
        host: "a.example",
        scheme: "https",
        request_id: "7",
        path: "/x y",
        below: "/y",
        query: "?q={host}",
        status: "404",
    };

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let template = Template::parse(text, Placeholder::OF_REQUESTS).unwrap();
        assert_eq!(template.fill(&FACTS, 100).as_deref(), Some(expected));
    }

    #[test]
    fn what_requests_fill_in() {
        check("", "");
        check("plain", "plain");
        check("{client}", "::1");
        check("{scheme}://{host}{path}{query}", "https://a.example/x y?q={host}");
        check("id={request_id};", "id=7;");
    }

    #[test]
    fn other_braces_stand_for_themselves() {
        check("{\"group\":\"default\",\"max_age\":1}", "{\"group\":\"default\",\"max_age\":1}");
        check("{{client}}", "{::1}");
        check("{} { } {client {Client} }", "{} { } {client {Client} }");
    }

    #[test]
    fn what_is_no_template() {
        let read = |text: &str| Template::parse(text, Placeholder::OF_REQUESTS).map(drop);
        assert_eq!(read("{clinet}"), Err(TemplateError::Unknown("clinet".into())));
        assert_eq!(read("{status}"), Err(TemplateError::Unknown("status".into())));
        assert_eq!(read(&"x".repeat(4097)), Err(TemplateError::TooLong));
        assert_eq!(read(&"x".repeat(4096)), Ok(()));
    }

    #[test]
    fn what_is_too_long_is_not_cut() {
        let template = Template::parse("{host}{host}", Placeholder::OF_REQUESTS).unwrap();
        assert_eq!(template.fill(&FACTS, 18).as_deref(), Some("a.examplea.example"));
        assert_eq!(template.fill(&FACTS, 17), None);
    }

    #[test]
    fn values_are_not_shown() {
        let template = Template::parse("secret", &[]).unwrap();
        assert!(!format!("{template:?}").contains("secret"));
        assert_eq!((template.constant(), template.beginning()), (Some("secret"), "secret"));
    }

    proptest! {
        #[test]
        fn without_placeholders_a_text_is_itself(text in "\\PC{0,60}") {
            if let Ok(template) = Template::parse(&text, &[]) {
                prop_assert_eq!(template.fill(&FACTS, 4096), Some(text));
            }
        }
    }
}
