//! A request as an event: the JSON that a function is called with.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

mod alb;
mod v1;
mod v2;

/// A JSON text.
pub type Event = Vec<u8>;

/// Which events a function gets of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// API Gateway's HTTP API, format 2.0, which function URLs have as well.
    #[default]
    V2,
    /// API Gateway's REST API, format 1.0.
    V1,
    /// An Application Load Balancer, with one value for each field.
    Alb,
    /// An Application Load Balancer with `multi_value_headers.enabled`.
    AlbMulti,
}

impl EventFormat {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::V2, Self::V1, Self::Alb, Self::AlbMulti];

    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V1 => "v1",
            Self::Alb => "alb",
            Self::AlbMulti => "alb-multi-value",
        }
    }

    /// The event of a request.
    #[must_use]
    pub fn event(self, request: &Request<'_>) -> Event {
        let event = match self {
            Self::V2 => v2::event(request),
            Self::V1 => v1::event(request),
            Self::Alb => alb::event(request, alb::Values::One),
            Self::AlbMulti => alb::event(request, alb::Values::All),
        };
        serde_json::to_vec(&event).unwrap_or_default() // names are strings, so there is nothing to fail
    }
}

/// What a request is, as far as events tell.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The function that it is for.
    pub function: &'a Function,
    /// Its method.
    pub method: &'a str,
    /// Its path as it was sent, from the slash on.
    pub path: &'a str,
    /// What follows the question mark, as it was sent.
    pub query: Option<&'a str>,
    /// Its fields, `host` among them, with names in small letters.
    pub fields: &'a [(String, String)],
    /// The host that it is for, without a port.
    pub host: &'a str,
    /// `HTTP/1.1` and the like.
    pub protocol: &'a str,
    /// The address of the client.
    pub source_ip: &'a str,
    /// An id of it.
    pub id: &'a str,
    /// When it came, in milliseconds since 1970.
    pub ms: u64,
    /// Its body; `None`: it has none.
    pub body: Option<&'a [u8]>,
}

/// What events tell of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub account: String,
    /// Where it runs.
    pub region: String,
}

impl Function {
    /// Its Amazon Resource Name.
    #[must_use]
    pub fn arn(&self) -> String {
        format!("arn:aws:lambda:{}:{}:function:{}", self.region, self.account, self.name)
    }
}

impl<'a> Request<'a> {
    /// The first value of a field.
    fn field(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| &**value)
    }

    /// The pairs of the query, decoded; in the order in which they were sent.
    fn parameters(&self) -> Vec<(String, String)> {
        let pairs = self.query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decoded(name), decoded(value))
            })
            .collect()
    }

    /// The pairs of the query as they were sent.
    fn raw_parameters(&self) -> Vec<(String, String)> {
        let pairs = self.query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (name.to_owned(), value.to_owned())
            })
            .collect()
    }

    /// The body as text, or as base64 where it is none; whether it is base64.
    fn body_text(&self, forms: Forms) -> Option<(Cow<'a, str>, bool)> {
        let body = self.body?;
        let text = if self.has_text(forms) { std::str::from_utf8(body).ok() } else { None };
        Some(match text {
            Some(text) => (Cow::Borrowed(text), false),
            None => (Cow::Owned(STANDARD.encode(body)), true),
        })
    }

    /// Whether its media type is one of text.
    fn has_text(&self, forms: Forms) -> bool {
        let media_type = self.field("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
        let media_type = media_type.trim().to_ascii_lowercase();
        let is_text = media_type.starts_with("text/")
            || ["application/json", "application/javascript", "application/xml"].contains(&&*media_type)
            || media_type.ends_with("+json")
            || media_type.ends_with("+xml")
            || (forms == Forms::AreText && ["application/x-www-form-urlencoded", ""].contains(&&*media_type));
        is_text && self.field("content-encoding").is_none_or(|coding| coding.eq_ignore_ascii_case("identity"))
    }
}

/// What becomes of bodies of forms, and of those without a media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forms {
    AreText,
    AreBytes,
}

/// `application/x-www-form-urlencoded`, as far as a query has it.
fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// An object whose names have the last value of each.
fn last_values(pairs: &[(String, String)]) -> Value {
    Value::Object(pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect())
}

/// An object whose names have all values of each, as a list.
fn all_values(pairs: &[(String, String)]) -> Value {
    let mut map = Map::new();
    for (name, value) in pairs {
        if let Value::Array(values) = map.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
            values.push(value.as_str().into());
        }
    }
    Value::Object(map)
}

/// An object whose names have all values of each, joined by commas.
fn joined_values<'a>(pairs: impl Iterator<Item = &'a (String, String)>) -> Value {
    let mut map = Map::new();
    for (name, value) in pairs {
        match map.get_mut(name) {
            Some(Value::String(before)) => {
                before.push(',');
                before.push_str(value);
            }
            _ => {
                map.insert(name.clone(), value.as_str().into());
            }
        }
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests;
