//! Fields that a route sets, adds and removes, of requests on their way to its service and of responses on their way to
//! the client.
//!
//! A cache in between sees neither: it works with what the client sent and what the service answered
//! (docs/adr/0037). So a change of the rules counts from the next response on, for what is stored as well.

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue, VARY};

use crate::response::ResponseFields;
use crate::target::is_authority;
use crate::template::{Facts, Placeholder, Template, TemplateError};

/// What a route does with the fields of requests, or of responses: first it removes, then it sets, then it adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldRules {
    /// In place of all fields with this name.
    pub set: Vec<FieldValue>,
    /// Behind those that are there.
    pub add: Vec<FieldValue>,
    /// Left out.
    pub remove: Vec<FieldPattern>,
}

/// A field that a route writes. Without a text, or with one that is too long, it is not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldValue {
    /// In lower case, as all names of fields.
    pub name: HeaderName,
    /// What it says.
    pub value: Template,
}

/// The name of a field, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPattern {
    /// In lower case.
    name: Box<str>,
    is_prefix: bool,
}

/// Which way fields go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldDirection {
    /// From the client to the service.
    Request,
    /// From the service, the cache or the gateway to the client.
    Response,
}

/// Why a route cannot write a field, or take it away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldRuleError {
    /// Not a name (RFC 9110 §5.1), nor the beginning of one with a `*`.
    #[error("is not the name of a field")]
    Name,
    /// A field that no rule may touch.
    #[error("cannot be changed: {0}")]
    Refused(&'static str),
    /// A value that is no template.
    #[error("has a value that {0}")]
    Template(#[from] TemplateError),
    /// A value that no field can have (RFC 9110 §5.5).
    #[error("has a value with a line break or another control character, or with blanks around it")]
    Value,
    /// Nothing to write.
    #[error("has an empty value")]
    Empty,
    /// `Host` that is no host, or is not the same for all requests.
    #[error("takes a host, with its port if need be, and no placeholder: a client must not choose which site answers")]
    Host,
}

/// What a rule must not touch, with the reason.
const FRAMING: &str = "it says where the message ends, which the gateway alone knows";
const CONNECTION: &str = "it belongs to one connection, and no proxy passes it on (RFC 9110 §7.6.1)";
const OWN: &str = "the gateway writes it itself; a proxy in front of it is believed with `trust_forwarded`";
const CONDITION: &str = "the answer would be another one than the client, and the cache, asked for";

impl FieldRules {
    /// Most entries of each list.
    pub const MAX_ENTRIES: usize = 64;
    /// Most bytes of a value that a request has filled in; a field with more is not written.
    pub const MAX_VALUE: usize = 8192;

    /// Why no rule may have this name, if none may. `remove` may name what [`FieldRules::refused_value`] refuses.
    #[must_use]
    pub fn refused(direction: FieldDirection, name: &str) -> Option<&'static str> {
        let name = name.to_ascii_lowercase();
        match (direction, name.as_str()) {
            (_, "content-length" | "transfer-encoding" | "trailer") => Some(FRAMING),
            (
                _,
                "connection"
                | "keep-alive"
                | "proxy-connection"
                | "te"
                | "upgrade"
                | "http2-settings"
                | "proxy-authenticate"
                | "proxy-authentication-info",
            ) => Some(CONNECTION),
            (FieldDirection::Request, "expect") => Some("the gateway answers it itself"),
            (FieldDirection::Request, "via" | "forwarded" | "x-request-id") => Some(OWN),
            (
                FieldDirection::Request,
                "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto" | "x-forwarded-prefix",
            ) => Some(OWN),
            (FieldDirection::Response, "content-range") => Some("it says which part of the whole the body is"),
            _ => None,
        }
    }

    /// Why no rule may set or add a field with this name, if none may.
    #[must_use]
    pub fn refused_value(direction: FieldDirection, name: &str) -> Option<&'static str> {
        let refused = || match (direction, name.to_ascii_lowercase().as_str()) {
            (
                FieldDirection::Request,
                "range" | "if-range" | "if-match" | "if-none-match" | "if-modified-since" | "if-unmodified-since",
            ) => Some(CONDITION),
            _ => None,
        };
        Self::refused(direction, name).or_else(refused)
    }

    /// There is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }

    /// Whether a response is for one client, by its own words: it says that it depends on a field (`Vary`) which the
    /// route sets, and which is different for each client or request.
    pub(crate) fn makes_vary(&self, response: &HeaderMap) -> bool {
        let personal = |field: &&FieldValue| {
            [Placeholder::Client, Placeholder::RequestId].into_iter().any(|one| field.value.has(one))
        };
        let mut written = self.set.iter().chain(&self.add).filter(personal).peekable();
        if written.peek().is_none() {
            return false;
        }
        let members = |value: &HeaderValue| value.to_str().map(str::to_ascii_lowercase).unwrap_or_default();
        let varied: Vec<String> = response.get_all(VARY).iter().map(members).collect();
        written.any(|field| varied.iter().any(|value| value.split(',').any(|one| one.trim() == field.name.as_str())))
    }

    /// Whether a field as it came is left out.
    pub(crate) fn takes(&self, direction: FieldDirection, name: &[u8]) -> bool {
        let Ok(name) = std::str::from_utf8(name) else { return false };
        let name = folded(direction, name);
        let is_set = self.set.iter().any(|field| folded(direction, field.name.as_str()) == name);
        let is_removed = || self.remove.iter().any(|one| one.is(direction, &name));
        (is_set || is_removed()) && Self::refused(direction, &name).is_none()
    }

    /// The fields that are written, with the values of one request.
    pub(crate) fn filled(&self, facts: &Facts<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let value = |field: &FieldValue| {
            let text = field.value.fill(facts, Self::MAX_VALUE).filter(|text| !text.is_empty())?;
            Some((field.name.clone(), HeaderValue::try_from(text).ok()?))
        };
        self.set.iter().chain(&self.add).filter_map(value).collect()
    }

    /// Changes the fields of a response.
    pub(crate) fn apply(&self, facts: &Facts<'_>, fields: &mut ResponseFields) {
        fields.remove_if(|name| self.takes(FieldDirection::Response, name));
        for (name, value) in self.filled(facts) {
            fields.append(name, value);
        }
    }
}

impl FieldValue {
    /// Reads a field that is set or added; `Host` may only be set, see [`FieldValue::is_host`].
    ///
    /// # Errors
    /// No route may write it, or the value is none.
    pub fn parse(direction: FieldDirection, name: &str, text: &str) -> Result<Self, FieldRuleError> {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| FieldRuleError::Name)?;
        if let Some(why) = FieldRules::refused_value(direction, name.as_str()) {
            return Err(FieldRuleError::Refused(why));
        }
        if text.is_empty() {
            return Err(FieldRuleError::Empty);
        }
        // Placeholders are visible characters.
        if text.trim_matches([' ', '\t']) != text || HeaderValue::from_str(text).is_err() {
            return Err(FieldRuleError::Value);
        }
        let value = Template::parse(text, Placeholder::OF_REQUESTS)?;
        let is_host = |text: &str| !text.is_empty() && is_authority(text);
        if direction == FieldDirection::Request && name == HOST && !value.constant().is_some_and(is_host) {
            return Err(FieldRuleError::Host);
        }
        Ok(Self { name, value })
    }

    /// Whether it is the host that a service is told.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.name == HOST
    }
}

impl FieldPattern {
    /// Reads `X-Powered-By` or `X-Amz-*`.
    ///
    /// # Errors
    /// No route may take it away, or it is neither a name nor the beginning of one.
    pub fn parse(direction: FieldDirection, text: &str) -> Result<Self, FieldRuleError> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| FieldRuleError::Name)?;
        if name.as_str().contains('*') {
            return Err(FieldRuleError::Name); // a character of names, which nobody means here
        }
        if let Some(why) = FieldRules::refused(direction, name.as_str()).filter(|_| !is_prefix) {
            return Err(FieldRuleError::Refused(why));
        }
        if direction == FieldDirection::Request && name == HOST {
            return Err(FieldRuleError::Refused("a request is for a host (RFC 9110 §7.2); `set` gives it another one"));
        }
        Ok(Self { name: name.as_str().into(), is_prefix })
    }

    fn is(&self, direction: FieldDirection, folded_name: &str) -> bool {
        let own = folded(direction, &self.name);
        if self.is_prefix { folded_name.starts_with(&own) } else { *folded_name == own }
    }
}

impl std::fmt::Display for FieldPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.name, if self.is_prefix { "*" } else { "" })
    }
}

/// A form in which names are equal that must not stand for each other. Programs that get the fields of a request as
/// variables (CGI, WSGI) cannot tell `X_Env` from `X-Env`, so a client cannot have that in place of what is set either.
fn folded(direction: FieldDirection, name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match direction {
        FieldDirection::Request => name.replace('_', "-"),
        FieldDirection::Response => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts<'_> = Facts {
        client: "192.0.2.1",
        host: "a.example",
        scheme: "http",
        request_id: "7",
        below: "",
        path: "/p",
        query: "",
        status: "",
    };

    fn values(fields: &[(&'static str, &str)]) -> Vec<FieldValue> {
        let value = |(name, text): &(&'static str, &str)| FieldValue {
            name: HeaderName::from_static(name),
            value: Template::parse(text, Placeholder::OF_REQUESTS).unwrap(),
        };
        fields.iter().map(value).collect()
    }

    fn rules(set: &[(&'static str, &str)], add: &[(&'static str, &str)], remove: &[&str]) -> FieldRules {
        let remove = remove.iter().map(|text| pattern(text)).collect();
        FieldRules { set: values(set), add: values(add), remove }
    }

    fn pattern(text: &str) -> FieldPattern {
        FieldPattern::parse(FieldDirection::Request, text).unwrap()
    }

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn a_response_is_changed_by_map_and_by_lines() {
        let rules = rules(
            &[("x-frame-options", "DENY"), ("x-empty", "{query}"), ("link", "<{path}>")],
            &[("link", "<{path}/next>"), ("vary", "Accept")],
            &["Server", "X-Amz-*", "Content-*", "x-_*"],
        );
        let given = [
            ("server", "x"),
            ("x-amz-id", "1"),
            ("x_amz-id", "2"),
            ("content-type", "a/b"),
            ("link", "<old>"),
            ("x-empty", "old"),
            ("vary", "Origin"),
        ];
        let expected =
            ["x_amz-id: 2", "vary: Origin", "x-frame-options: DENY", "link: </p>", "link: </p/next>", "vary: Accept"];
        let mut lines = pilotlight_http1::FieldLines::default();
        given.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
        let mut with_length = map(&given);
        with_length.insert("content-length", HeaderValue::from(5));
        for mut fields in [ResponseFields::lines(lines, Some(5)), ResponseFields::from(with_length)] {
            rules.apply(&FACTS, &mut fields);
            assert_eq!(fields.content_length(), Some(5));
            let mut seen: Vec<String> = Vec::new();
            for (name, value) in fields.map().iter().filter(|(name, _)| *name != "content-length") {
                seen.push(format!("{name}: {}", value.to_str().unwrap()));
            }
            seen.sort();
            let mut expected = expected.map(str::to_owned).to_vec();
            expected.sort();
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn another_spelling_of_what_is_set_does_not_pass() {
        let rules = rules(&[("x-env", "prod")], &[("x-more", "1")], &["Cookie", "X-Secret-*"]);
        let takes = |name: &str| rules.takes(FieldDirection::Request, name.as_bytes());
        for taken in ["x-env", "X_ENV", "cookie", "x-secret-a", "x_secret-a", "X-Secret_"] {
            assert!(takes(taken), "{taken}");
        }
        for left in ["x-more", "x-envy", "cookies", "x-secret", "host"] {
            assert!(!takes(left), "{left}");
        }
        let rules = FieldRules { remove: vec![pattern("C*")], ..FieldRules::default() };
        assert!(rules.takes(FieldDirection::Request, b"cookie"));
        assert!(!rules.takes(FieldDirection::Request, b"content-length"));
    }

    #[test]
    fn what_cannot_be_a_value_is_not_written() {
        let rules = rules(&[("x-a", "{path}"), ("x-b", "{query}")], &[], &[]);
        let filled =
            |facts: Facts<'_>| rules.filled(&facts).iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        assert_eq!(filled(FACTS), ["x-a"]);
        assert_eq!(filled(Facts { path: &"x".repeat(8193), query: "?\n", ..FACTS }), Vec::<String>::new());
    }

    #[test]
    fn a_response_that_varies_on_what_is_set_for_one_client() {
        let rules = rules(&[("x-client", "{client}"), ("x-env", "prod")], &[], &[]);
        assert!(rules.makes_vary(&map(&[("vary", "accept"), ("vary", "Accept-Language, X-Client")])));
        assert!(!rules.makes_vary(&map(&[("vary", "X-Env")])));
        assert!(!rules.makes_vary(&map(&[])));
    }

    #[test]
    fn names_that_no_rule_may_have() {
        use FieldDirection::{Request, Response};
        for (direction, name) in [
            (Request, "Content-Length"),
            (Response, "transfer-encoding"),
            (Request, "Connection"),
            (Request, "X-Forwarded-For"),
            (Request, "x-request-id"),
            (Response, "Content-Range"),
        ] {
            assert!(FieldRules::refused(direction, name).is_some(), "{name}");
        }
        for (direction, name) in [
            (Request, "X-Real-IP"),
            (Request, "Authorization"),
            (Request, "Range"),
            (Response, "Cache-Status"),
            (Response, "X-Request-Id"),
        ] {
            assert!(FieldRules::refused(direction, name).is_none(), "{name}");
        }
        assert!(FieldRules::refused_value(Request, "Range").is_some());
    }

    #[test]
    fn what_is_no_pattern() {
        for text in ["", "*", "a*b", "a**", "a b", "é", "a:"] {
            let read = FieldPattern::parse(FieldDirection::Response, text);
            assert_eq!(read, Err(FieldRuleError::Name), "{text:?}");
        }
        assert_eq!(pattern("X-Amz-*").to_string(), "x-amz-*");
        let read = |text: &str| FieldPattern::parse(FieldDirection::Request, text).map(drop);
        assert!(matches!(read("Host"), Err(FieldRuleError::Refused(_))));
        assert!(matches!(read("Transfer-Encoding"), Err(FieldRuleError::Refused(_))));
        assert_eq!(read("Content-*"), Ok(()));
    }

    #[test]
    fn what_is_no_value() {
        let read = |name: &str, text: &str| FieldValue::parse(FieldDirection::Request, name, text).map(drop);
        assert_eq!(read("x-a", "b {client}"), Ok(()));
        assert_eq!(read("x a", "b"), Err(FieldRuleError::Name));
        assert_eq!(read("x-a", ""), Err(FieldRuleError::Empty));
        for text in ["a\r\nb: c", "a\nb", " a", "a\t", "a\0"] {
            assert_eq!(read("x-a", text), Err(FieldRuleError::Value), "{text:?}");
        }
        assert!(matches!(read("x-a", "{nobody}"), Err(FieldRuleError::Template(_))));
        assert_eq!(read("Host", "app.internal:81"), Ok(()));
        for text in ["{host}", "a/b", "a b", "a.{host}"] {
            assert_eq!(read("Host", text), Err(FieldRuleError::Host), "{text:?}");
        }
    }
}
