//! What a route asks of the JSON of a body, and why none was found by that.

use std::fmt;

use http::StatusCode;
use pilotlight_json_fields::{Found, Pattern, Scanner};

/// What fields of a body have to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonRule {
    fields: Vec<(Box<str>, Pattern)>,
}

impl JsonRule {
    /// Most fields.
    pub const MAX_FIELDS: usize = 8;
    /// Most bytes of a field's name.
    pub const MAX_NAME: usize = 128;

    /// Asks for one field more.
    pub fn add(&mut self, name: &str, pattern: Pattern) {
        self.fields.push((name.into(), pattern));
        self.fields.sort_by(|one, other| one.0.cmp(&other.0));
    }

    /// The names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| &**name)
    }

    /// Whether what was found is what the rule asks for.
    pub(crate) fn takes(&self, scanner: &Scanner) -> bool {
        self.fields.iter().all(|(name, pattern)| match scanner.found(name) {
            Some(Found::Text(text)) => pattern.matches(text),
            Some(Found::Other) | None => false,
        })
    }

    /// How specific it is.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        let exact = self.fields.iter().filter(|(_, pattern)| pattern.is_exact()).count();
        let bytes: usize = self.fields.iter().map(|(_, pattern)| pattern.fixed_bytes()).sum();
        (self.fields.len(), exact, bytes)
    }
}

/// As a part of a route's label.
impl fmt::Display for JsonRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<String> = self.fields.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
        write!(formatter, "{{{}}}", fields.join(","))
    }
}

/// A request for which there are only routes of which its body decides, and none that takes it.
#[derive(Debug, thiserror::Error)]
#[error("the route of {path} is chosen by {fields} of a JSON body, and {why}")]
pub(crate) struct JsonRefusal {
    pub(crate) path: String,
    pub(crate) fields: String,
    pub(crate) why: JsonMiss,
}

impl JsonRefusal {
    pub(crate) fn status(&self) -> StatusCode {
        match self.why {
            JsonMiss::OtherValue => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Why fields of a body were not found, or lead nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonMiss {
    #[error("no route takes what is there")]
    OtherValue,
    #[error("there is no body")]
    NoBody,
    #[error("the body is compressed (Content-Encoding), which is not looked into")]
    Encoded,
    #[error("the body is no JSON object")]
    Invalid,
    #[error("the body is no whole JSON object")]
    Short,
    #[error("they are not all within its first {max_bytes} bytes (limits.json_look_ahead)")]
    Far { max_bytes: usize },
}
