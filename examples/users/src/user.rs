//! A user, and what a valid one is.

use crate::problem::Problem;
use serde::{Deserialize, Serialize};

const MAX_NAME_CHARS: usize = 100;
const MAX_EMAIL_BYTES: usize = 254; // RFC 5321 §4.5.3.1.3, without the angle brackets
const MAX_BIO_CHARS: usize = 2000;

/// A stored user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct User {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) bio: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) created_at: String,
}

/// What a client sends to create or replace a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct NewUser {
    pub(crate) name: String,
    pub(crate) email: String,
    #[serde(default)]
    pub(crate) bio: Option<String>,
}

impl NewUser {
    /// Reads and checks a body.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, Problem> {
        let user: Self = serde_json::from_slice(json).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Problem::unprocessable(field_of(&error), error.to_string()),
            _ => Problem::bad_request(None, format!("the body is not JSON: {error}")),
        })?;
        user.check()?;
        Ok(user)
    }

    fn check(&self) -> Result<(), Problem> {
        let wrong = |field, detail: &str| Err(Problem::unprocessable(Some(field), detail.into()));
        if self.name.trim().is_empty() {
            return wrong("name", "must not be empty");
        }
        if self.name.chars().count() > MAX_NAME_CHARS {
            return wrong("name", "must have at most 100 characters");
        }
        if self.email.len() > MAX_EMAIL_BYTES {
            return wrong("email", "must have at most 254 bytes");
        }
        if !is_email(&self.email) {
            return wrong("email", "must look like name@example.org");
        }
        if self.bio.as_ref().is_some_and(|bio| bio.chars().count() > MAX_BIO_CHARS) {
            return wrong("bio", "must have at most 2000 characters");
        }
        Ok(())
    }
}

/// Whether it could be an address; only a letter to it can tell more.
fn is_email(text: &str) -> bool {
    let fair = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c.is_control());
    text.rsplit_once('@').is_some_and(|(name, host)| fair(name) && fair(host) && !name.contains('@'))
}

/// The field that serde's message names.
fn field_of(error: &serde_json::Error) -> Option<&'static str> {
    let text = error.to_string();
    ["name", "email", "bio"].into_iter().find(|field| text.contains(&format!("`{field}`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[track_caller]
    fn check(json: &str, status: StatusCode, field: Option<&str>) {
        let problem = NewUser::parse(json.as_bytes()).expect_err("a problem");
        assert_eq!((problem.status, problem.field), (status, field), "{problem:?}");
    }

    #[test]
    fn mistakes_name_their_field() {
        let wrong = StatusCode::UNPROCESSABLE_ENTITY;
        check("{", StatusCode::BAD_REQUEST, None);
        check("[]", wrong, None);
        check(r#"{"name":"a"}"#, wrong, Some("email"));
        check(r#"{"name":" ","email":"a@b"}"#, wrong, Some("name"));
        check(&format!(r#"{{"name":"{}","email":"a@b"}}"#, "é".repeat(101)), wrong, Some("name"));
        for email in ["", "a", "@b", "a@", "a@b@c", "a b@c", "a@b\\n"] {
            check(&format!(r#"{{"name":"a","email":"{email}"}}"#), wrong, Some("email"));
        }
        check(&format!(r#"{{"name":"a","email":"a@b","bio":"{}"}}"#, "x".repeat(2001)), wrong, Some("bio"));
    }

    #[test]
    fn the_bio_may_be_missing_or_null() {
        let expected = NewUser { name: "a".into(), email: "a@b".into(), bio: None };
        assert_eq!(NewUser::parse(br#"{"name":"a","email":"a@b"}"#), Ok(expected.clone()));
        assert_eq!(NewUser::parse(br#"{"name":"a","email":"a@b","bio":null,"more":1}"#), Ok(expected));
    }
}
