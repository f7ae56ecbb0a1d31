//! Signed tokens (RFC 7519) as credentials: where a token is, whether it is taken, and what the service is told of it.
//!
//! Invariant: a verdict is remembered for the very token, the very keys, and never beyond the token's end.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderName, HeaderValue};
use pilotlight_jwt::{ClaimText, Claims, Cost, Token, TokenError};
use pilotlight_printable::printable;

use super::asker::{AskerFields, cookie};
use super::jwt_spec::{JwtSpec, TokenFrom};
use super::refusal::Refusal;
use super::remembered::Remembered;
use super::verifier::Verifier;
use crate::jwks::{HeldKeys, KeySources, Keys};
use crate::timing::Moment;

/// Signatures that are verified beside the workers at a time, by all of them.
const MAX_CHECKS: usize = 4;
/// Requests whose signature is verified or waits for that; the gateway answers further ones with 503.
const MAX_WAITING: usize = 1024;
/// The longest that a token which was right is taken for right without being verified.
const REMEMBERED: Duration = Duration::from_secs(300);

static VERIFIER: Verifier = Verifier::new(MAX_CHECKS, MAX_WAITING);

/// What the service is told of a client.
pub(crate) type ClientFields = Vec<(HeaderName, HeaderValue)>;

/// The tokens of a route.
pub(crate) struct Jwt {
    spec: JwtSpec,
    keys: Arc<Keys>,
    remembered: Remembered<ClientFields>,
}

/// Why a token is not taken.
enum Refused {
    Token(TokenError),
    /// A claim that a field should say, and cannot.
    Claim,
    Busy,
}

impl From<TokenError> for Refused {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl Jwt {
    pub(crate) fn new(spec: &JwtSpec, keys: &KeySources) -> Self {
        Self { keys: keys.of(&spec.keys), spec: spec.clone(), remembered: Remembered::new() }
    }

    /// Whether the token is known to be right. Only for routes whose service is told nothing of it.
    pub(crate) fn at_once(&self, fields: &impl AskerFields, now: Moment) -> Result<bool, Box<Refusal>> {
        let token = self.token(fields)?;
        let known = self.keys.current(now).and_then(|keys| self.known(token, &keys, now));
        Ok(known.is_some())
    }

    /// Verifies the token, beside the worker where that takes long; what the service is told of it.
    ///
    /// # Cancel safety
    /// Dropping it leaves a verification that has begun to its end.
    pub(crate) async fn verify(self: &Arc<Self>, fields: &impl AskerFields) -> Result<ClientFields, Box<Refusal>> {
        let token = self.token(fields)?;
        let now = Moment::now();
        let keys = match self.keys.current(now) {
            Some(keys) => keys,
            None => {
                self.keys.newer(now).await;
                self.keys.current(Moment::now()).ok_or(Refusal::NoKeys)?
            }
        };
        let checked = match self.check(token, &keys).await {
            // The issuer may have changed its keys.
            Err(Refused::Token(TokenError::UnknownKey)) if self.keys.newer(now).await => {
                let keys = self.keys.current(Moment::now()).ok_or(Refusal::NoKeys)?;
                self.check(token, &keys).await
            }
            checked => checked,
        };
        checked.map_err(|why| self.refusal(&why))
    }

    async fn check(self: &Arc<Self>, token: &[u8], keys: &Arc<HeldKeys>) -> Result<ClientFields, Refused> {
        if let Some(fields) = self.known(token, keys, Moment::now()) {
            return Ok(fields);
        }
        let cost = keys.set.cost(&Token::parse(token)?, &self.spec.rules)?;
        if cost == Cost::Small {
            return self.check_now(token, keys);
        }
        let (jwt, token, keys) = (Arc::clone(self), token.to_vec(), Arc::clone(keys));
        VERIFIER.run(move || jwt.check_now(&token, &keys)).await.unwrap_or(Err(Refused::Busy))
    }

    fn check_now(&self, token: &[u8], keys: &HeldKeys) -> Result<ClientFields, Refused> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let claims = keys.set.verify(&Token::parse(token)?, &self.spec.rules, now.as_secs())?;
        let fields = self.fields_of(&claims).ok_or(Refused::Claim)?;
        let left = match claims.expires() {
            Some(end) => Duration::from_secs(end).saturating_sub(now), // what is left of the leeway is not remembered
            None => REMEMBERED,
        };
        if let (false, Some(proof)) = (left.is_zero(), self.remembered.proof(parts(token, keys))) {
            self.remembered.put(proof, fields.clone(), left.min(REMEMBERED));
        }
        Ok(fields)
    }

    fn known(&self, token: &[u8], keys: &HeldKeys, now: Moment) -> Option<ClientFields> {
        let proof = self.remembered.proof(parts(token, keys))?;
        self.remembered.find(&proof, now)
    }

    /// `None`: one of them cannot be a field's value as it is.
    fn fields_of(&self, claims: &Claims) -> Option<ClientFields> {
        let mut fields = Vec::with_capacity(self.spec.claims.len());
        for (field, claim) in &self.spec.claims {
            match claims.as_text(claim) {
                ClaimText::Missing => {}
                ClaimText::Text(text) if text.is_empty() => {}
                ClaimText::Text(text) => fields.push((field.clone(), value(&text)?)),
                ClaimText::Unfit => return None,
            }
        }
        Some(fields)
    }

    fn token<'a>(&self, fields: &'a impl AskerFields) -> Result<&'a [u8], Box<Refusal>> {
        let name = match &self.spec.from {
            TokenFrom::Bearer => &AUTHORIZATION,
            TokenFrom::Header(name) => name,
            TokenFrom::Cookie(_) => &COOKIE,
        };
        let is_one = fields.count(name) == 1;
        let value = fields.first(name).filter(|_| is_one);
        let token = value.and_then(|value| match &self.spec.from {
            TokenFrom::Bearer => bearer(value),
            TokenFrom::Header(_) => Some(value.trim_ascii()),
            TokenFrom::Cookie(name) => cookie(value, name.as_bytes()),
        });
        // RFC 6750 §3.1: a request without a token gets no error code.
        token.filter(|token| !token.is_empty()).ok_or_else(|| {
            let challenge = format!("Bearer realm=\"{}\"", self.spec.realm).into();
            Box::new(Refusal::Credentials { challenge, why: "a token is needed here (Bearer, RFC 6750)".into() })
        })
    }

    fn refusal(&self, why: &Refused) -> Box<Refusal> {
        let realm = &self.spec.realm;
        let text = match why {
            Refused::Busy => return Box::new(Refusal::Busy),
            Refused::Token(TokenError::Scope) => {
                let scopes = self.spec.rules.scopes.join(" ");
                let description = TokenError::Scope;
                let challenge = format!(
                    "Bearer realm=\"{realm}\", error=\"insufficient_scope\", error_description=\"{description}\", scope=\"{scopes}\""
                );
                return Box::new(Refusal::Scope { challenge: challenge.into() });
            }
            Refused::Token(error) => error.to_string(),
            Refused::Claim => "a claim of the token cannot be passed on".to_owned(),
        };
        let challenge = format!("Bearer realm=\"{realm}\", error=\"invalid_token\", error_description=\"{text}\"");
        Box::new(Refusal::Credentials { challenge: challenge.into(), why: text.into() })
    }
}

/// What a verdict hangs on.
fn parts<'a>(token: &'a [u8], keys: &'a HeldKeys) -> [&'a [u8]; 2] {
    [token, &keys.id]
}

/// RFC 6750 §2.1.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// A text as it is: without controls and hidden characters, nor spaces around it, which would be lost.
fn value(text: &str) -> Option<HeaderValue> {
    let is_itself = matches!(printable(text), Cow::Borrowed(_)) && !text.contains('\t') && text.trim() == text;
    HeaderValue::from_str(text).or_else(|_| HeaderValue::from_bytes(text.as_bytes())).ok().filter(|_| is_itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearers() {
        for (value, expected) in [
            ("Bearer a.b.c", Some("a.b.c")),
            ("bEARER  a ", Some("a")),
            ("Bearer ", Some("")),
            ("Bearer", None),
            ("Basic YTpi", None),
            ("Bearera", None),
            ("", None),
        ] {
            assert_eq!(bearer(value.as_bytes()), expected.map(str::as_bytes), "{value}");
        }
    }

    #[test]
    fn values_of_fields() {
        for text in ["ann", "auth0|5f7c8ec7c33c6c004bbafe82", "Zoë", "a, b"] {
            assert_eq!(value(text).as_ref().map(HeaderValue::as_bytes), Some(text.as_bytes()));
        }
        for text in ["a\r\nX-Admin: 1", "a\0", "a\tb", " ann", "ann ", "a\u{202e}b", "\u{85}", "\u{7f}"] {
            assert_eq!(value(text), None, "{text:?}");
        }
    }
}
