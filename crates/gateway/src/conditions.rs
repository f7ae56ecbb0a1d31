//! `when` of a route: what the head of a request has to say besides its host and path.
//!
//! Routes with conditions stand before the one without at the same host and path. One whose conditions do not hold
//! leaves the request to the next, and in the end to the next less specific path.

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, HeaderName, Method};
use percent_encoding::percent_decode_str;

/// What a request has to say, all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// One of these methods; empty: any.
    pub methods: Vec<Method>,
    /// Fields with these values, to the letter; lines of one name are joined by `, `.
    pub fields: Vec<(HeaderName, String)>,
    /// Parameters of the query with these values, decoded; of several with one name the first counts.
    pub query: Vec<(String, String)>,
    /// It came to a listener with one of these ports; empty: any listener.
    pub ports: Vec<u16>,
}

/// Fields of a request, wherever they are.
pub(crate) trait ConditionFields {
    fn each_line(&self, name: &HeaderName, value: &mut dyn FnMut(&[u8]));
}

impl ConditionFields for HeaderMap {
    fn each_line(&self, name: &HeaderName, value: &mut dyn FnMut(&[u8])) {
        self.get_all(name).iter().for_each(|line| value(line.as_bytes()));
    }
}

/// What conditions look at.
#[derive(Clone, Copy)]
pub(crate) struct HeadFacts<'a> {
    pub(crate) method: &'a Method,
    pub(crate) fields: &'a dyn ConditionFields,
    /// Without its question mark.
    pub(crate) query: Option<&'a str>,
    /// Of the listener; none of a Unix socket, or where nobody knows.
    pub(crate) port: Option<u16>,
}

impl Conditions {
    /// Most fields, parameters, methods and ports of one route, of each.
    pub const MAX_EACH: usize = 16;
    /// Most bytes of the value of a field or a parameter.
    pub const MAX_VALUE: usize = 4096;

    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How much they say: a method before none, then more fields before fewer, then more parameters, then a port.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        (!self.methods.is_empty(), self.fields.len(), self.query.len(), !self.ports.is_empty())
    }

    /// Whether a request fulfils all of them.
    pub(crate) fn hold(&self, asked: &HeadFacts<'_>) -> bool {
        (self.methods.is_empty() || self.methods.contains(asked.method))
            && (self.ports.is_empty() || asked.port.is_some_and(|port| self.ports.contains(&port)))
            && self
                .fields
                .iter()
                .all(|(name, value)| joined(asked.fields, name).is_some_and(|is| is == value.as_bytes()))
            && self.query.iter().all(|(name, value)| parameter(asked.query, name).is_some_and(|is| is == *value))
    }
}

impl fmt::Display for Conditions {
    /// ` [GET version=two ?animal=whale :8080]`, in an order that does not depend on how it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = self.methods.iter().map(ToString::to_string).collect();
        words.sort_unstable();
        let mut add = |mut more: Vec<String>| {
            more.sort_unstable();
            words.extend(more);
        };
        add(self.fields.iter().map(|(name, value)| format!("{name}={value:?}")).collect());
        add(self.query.iter().map(|(name, value)| format!("?{name:?}={value:?}")).collect());
        add(self.ports.iter().map(|port| format!(":{port}")).collect());
        write!(f, " [{}]", words.join(" "))
    }
}

fn joined(fields: &dyn ConditionFields, name: &HeaderName) -> Option<Vec<u8>> {
    let mut all: Option<Vec<u8>> = None;
    fields.each_line(name, &mut |line| match &mut all {
        None => all = Some(line.to_vec()),
        Some(all) => {
            all.extend_from_slice(b", ");
            all.extend_from_slice(line);
        }
    });
    all
}

/// The first parameter of this name. A `+` is a space, as forms write it.
fn parameter<'a>(query: Option<&'a str>, name: &str) -> Option<Cow<'a, str>> {
    let decoded = |text: &'a str| -> Cow<'a, str> {
        if !text.contains(['+', '%']) {
            return Cow::Borrowed(text);
        }
        let spaced = text.replace('+', " ");
        Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
    };
    let pairs = query?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(key, value)| (decoded(key), value)).find(|(key, _)| key == name).map(|(_, value)| decoded(value))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn conditions(change: impl FnOnce(&mut Conditions)) -> Conditions {
        let mut conditions = Conditions::default();
        change(&mut conditions);
        conditions
    }

    #[track_caller]
    fn check(conditions: &Conditions, query: Option<&str>, expected: bool) {
        let mut headers = HeaderMap::new();
        headers.append("version", HeaderValue::from_static("two"));
        headers.append("color", HeaderValue::from_static("red"));
        headers.append("color", HeaderValue::from_static("blue"));
        let asked = HeadFacts { method: &Method::GET, fields: &headers, query, port: Some(8080) };
        assert_eq!(conditions.hold(&asked), expected, "{conditions}");
    }

    fn field(name: &'static str, value: &str) -> (HeaderName, String) {
        (HeaderName::from_static(name), value.to_owned())
    }

    #[test]
    fn methods_fields_and_ports() {
        check(&conditions(|all| all.methods = vec![Method::POST, Method::GET]), None, true);
        check(&conditions(|all| all.methods = vec![Method::POST]), None, false);
        check(&conditions(|all| all.fields = vec![field("version", "two")]), None, true);
        check(&conditions(|all| all.fields = vec![field("version", "Two")]), None, false);
        check(&conditions(|all| all.fields = vec![field("color", "red, blue")]), None, true);
        check(&conditions(|all| all.fields = vec![field("color", "red")]), None, false);
        check(&conditions(|all| all.fields = vec![field("missing", "")]), None, false);
        check(&conditions(|all| all.ports = vec![80, 8080]), None, true);
        check(&conditions(|all| all.ports = vec![80]), None, false);
    }

    #[test]
    fn parameters() {
        let is = |name: &str, value: &str| conditions(|all| all.query = vec![(name.to_owned(), value.to_owned())]);
        check(&is("animal", "whale"), Some("a=1&animal=whale"), true);
        check(&is("animal", "whale"), Some("animal=dolphin&animal=whale"), false);
        check(&is("animal", "blue whale"), Some("animal=blue+whale"), true);
        check(&is("animal", "blue+whale"), Some("animal=blue%2Bwhale"), true);
        check(&is("a b", ""), Some("a%20b"), true);
        check(&is("animal", "whale"), Some(""), false);
        check(&is("animal", "whale"), None, false);
    }

    #[test]
    fn the_label_does_not_depend_on_the_order() {
        let one = conditions(|all| {
            all.methods = vec![Method::PUT, Method::GET];
            all.fields = vec![field("b", "2"), field("a", "1")];
        });
        let other = conditions(|all| {
            all.methods = vec![Method::GET, Method::PUT];
            all.fields = vec![field("a", "1"), field("b", "2")];
        });
        assert_eq!(one.to_string(), other.to_string());
        assert_eq!(one.to_string(), " [GET PUT a=\"1\" b=\"2\"]");
    }
}
