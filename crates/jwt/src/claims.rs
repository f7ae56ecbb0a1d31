//! What a token says of its bearer.

use serde_json::{Map, Value};

use crate::token::{TokenError, object};

/// Most bytes of a claim as text.
pub const MAX_CLAIM_BYTES: usize = 4096;

/// The claims of a token whose signature was right.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims(Map<String, Value>);

/// A claim as one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimText {
    /// There is none.
    Missing,
    /// A text, a number, or a list of such, joined by commas.
    Text(String),
    /// Too long, an object, or a list with a comma in one of its texts: as one text it would say something else.
    Unfit,
}

impl Claims {
    pub(crate) fn read(payload: &[u8]) -> Result<Self, TokenError> {
        object(payload).map(Self).ok_or(TokenError::Claims)
    }

    /// RFC 7519 §2, NumericDate: seconds since 1970, with or without a fraction.
    pub(crate) fn date(&self, name: &str) -> Result<Option<f64>, TokenError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_f64()),
            Some(_) => Err(TokenError::Claims),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, TokenError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(TokenError::Claims),
        }
    }

    /// One text, or a list of texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<&str>, TokenError> {
        match self.0.get(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text]),
            Some(Value::Array(list)) => list.iter().map(|one| one.as_str().ok_or(TokenError::Claims)).collect(),
            Some(_) => Err(TokenError::Claims),
        }
    }

    /// When the token expires, in seconds since 1970.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        self.0.get("exp").and_then(Value::as_f64).map(|seconds| seconds as u64)
    }

    /// A claim as one text: by its name, or where there is none with this name, by a path of names with dots between
    /// them (`realm_access.roles`).
    #[must_use]
    pub fn as_text(&self, path: &str) -> ClaimText {
        let found = self.0.get(path).or_else(|| {
            let mut names = path.split('.');
            let first = self.0.get(names.next()?)?;
            names.try_fold(first, |value, name| value.get(name))
        });
        let text = match found {
            None | Some(Value::Null) => return ClaimText::Missing,
            Some(Value::Array(list)) => {
                let texts: Option<Vec<String>> =
                    list.iter().map(|one| plain(one).filter(|t| !t.contains(','))).collect();
                texts.map(|texts| texts.join(","))
            }
            Some(value) => plain(value),
        };
        match text {
            Some(text) if text.len() <= MAX_CLAIM_BYTES => ClaimText::Text(text),
            _ => ClaimText::Unfit,
        }
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(claims: &str, path: &str, expected: impl Into<Option<ClaimText>>) {
        let Ok(Value::Object(claims)) = serde_json::from_str(claims) else { panic!("{claims}") };
        assert_eq!(Some(Claims(claims).as_text(path)), expected.into(), "{path}");
    }

    #[test]
    fn as_one_text() {
        let text = |text: &str| ClaimText::Text(text.to_owned());
        check("{}", "sub", ClaimText::Missing);
        check("{\"sub\":null}", "sub", ClaimText::Missing);
        check("{\"sub\":\"ann\"}", "sub", text("ann"));
        check("{\"n\":17,\"b\":true}", "n", text("17"));
        check("{\"n\":17,\"b\":true}", "b", text("true"));
        check("{\"roles\":[\"a\",\"b\",3]}", "roles", text("a,b,3"));
        check("{\"roles\":[]}", "roles", text(""));
        check("{\"roles\":[\"a,admin\"]}", "roles", ClaimText::Unfit);
        check("{\"roles\":[[\"a\"]]}", "roles", ClaimText::Unfit);
        check("{\"a\":{\"b\":{\"c\":\"d\"}}}", "a.b.c", text("d"));
        check("{\"a\":{\"b\":{\"c\":\"d\"}}}", "a.b", ClaimText::Unfit);
        check("{\"a\":{\"b\":\"c\"},\"a.b\":\"whole\"}", "a.b", text("whole"));
        check("{\"a\":\"b\"}", "a.b", ClaimText::Missing);
        check(&format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_CLAIM_BYTES + 1)), "a", ClaimText::Unfit);
    }
}
