//! What a client may send as a user.

use serde::Deserialize;

use crate::problem::Problem;

const MAX_NAME_CHARS: usize = 100;
const MAX_EMAIL_CHARS: usize = 254; // RFC 5321 §4.5.3.1.3, without the angle brackets
const MAX_BIO_CHARS: usize = 2000;

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
            serde_json::error::Category::Data => Problem::unprocessable(field_of(json, &error), error.to_string()),
            _ => Problem::bad_request(None, format!("the body is not JSON: {error}")),
        })?;
        user.check()?;
        Ok(user)
    }

    fn check(&self) -> Result<(), Problem> {
        let wrong = |field, detail: String| Err(Problem::unprocessable(Some(field), detail));
        if !self.name.contains(is_visible) {
            return wrong("name", "must have a visible character".into());
        }
        if self.name.chars().count() > MAX_NAME_CHARS {
            return wrong("name", format!("must have at most {MAX_NAME_CHARS} characters"));
        }
        if self.email.chars().count() > MAX_EMAIL_CHARS {
            return wrong("email", format!("must have at most {MAX_EMAIL_CHARS} characters"));
        }
        if !is_email(&self.email) {
            return wrong("email", "must look like name@example.org".into());
        }
        if self.bio.as_ref().is_some_and(|bio| bio.chars().count() > MAX_BIO_CHARS) {
            return wrong("bio", format!("must have at most {MAX_BIO_CHARS} characters"));
        }
        Ok(())
    }
}

fn is_visible(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

/// Whether it could be an address; only a letter to it can tell more.
fn is_email(text: &str) -> bool {
    let fair = |part: &str| !part.is_empty() && part.chars().all(|c| is_visible(c) && c != '@');
    text.split_once('@').is_some_and(|(name, host)| fair(name) && fair(host))
}

/// The field that is missing, doubled, or has a value of another type. serde's message names only the first two.
fn field_of(json: &[u8], error: &serde_json::Error) -> Option<&'static str> {
    let fields = ["name", "email", "bio"];
    let text = error.to_string();
    let named = fields.into_iter().find(|field| text.contains(&format!("field `{field}`")));
    named.or_else(|| {
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(json).ok()?;
        fields.into_iter().find(|field| {
            object.get(*field).is_some_and(|value| !(value.is_string() || *field == "bio" && value.is_null()))
        })
    })
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
        check(r#"{"name":1,"email":"a@b"}"#, wrong, Some("name"));
        check(r#"{"name":"a","email":"a@b","bio":{}}"#, wrong, Some("bio"));
        check(r#"{"name":"a","email":"a@b","email":"a@b"}"#, wrong, Some("email"));
        check(r#"{"name":" ","email":"a@b"}"#, wrong, Some("name"));
        check(r#"{"name":"\u0000\u001c","email":"a@b"}"#, wrong, Some("name"));
        check(&format!(r#"{{"name":"{}","email":"a@b"}}"#, "é".repeat(101)), wrong, Some("name"));
        for email in ["", "a", "@b", "a@", "a@b@c", "a b@c", "a@b\\n", "a@\\u0000"] {
            check(&format!(r#"{{"name":"a","email":"{email}"}}"#), wrong, Some("email"));
        }
        check(&format!(r#"{{"name":"a","email":"{}@b"}}"#, "é".repeat(253)), wrong, Some("email"));
        check(&format!(r#"{{"name":"a","email":"a@b","bio":"{}"}}"#, "x".repeat(2001)), wrong, Some("bio"));
    }

    #[test]
    fn the_bio_may_be_missing_or_null() {
        let expected = NewUser { name: "a".into(), email: "a@b".into(), bio: None };
        assert_eq!(NewUser::parse(br#"{"name":"a","email":"a@b"}"#), Ok(expected.clone()));
        assert_eq!(NewUser::parse(br#"{"name":"a","email":"a@b","bio":null,"more":1}"#), Ok(expected));
    }
}
