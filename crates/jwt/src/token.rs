//! A token as it came: three parts, of which only the header is read here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Most bytes of a token.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Why a token is not taken. What it prints fits into `error_description` (RFC 6750 §3), and says nothing of what the
/// rules demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Larger than [`MAX_TOKEN_BYTES`].
    #[error("the token is too large")]
    TooLarge,
    /// Not three parts between dots.
    #[error("the token is no signed token (three parts between dots, RFC 7515 section 3.1)")]
    Parts,
    /// Five parts: JWE.
    #[error("the token is encrypted, which is not supported")]
    Encrypted,
    /// One of its parts is no base64url.
    #[error("a part of the token is no base64url")]
    Base64,
    /// Its header is no JSON object with an `alg`.
    #[error("the header of the token is no JSON object with alg")]
    Header,
    /// RFC 7515 §4.1.11: an extension that has to be understood.
    #[error("the token demands an extension (crit) that is not supported")]
    Critical,
    /// `none`, one with a shared secret, an unknown one, or one that is not allowed for this key.
    #[error("the algorithm of the token is not allowed")]
    Algorithm,
    /// There is no key for it; it may have been made by one that is new.
    #[error("the token was signed by an unknown key")]
    UnknownKey,
    /// The signature is not of this key.
    #[error("the signature of the token is wrong")]
    Signature,
    /// The payload is no JSON object, or a registered claim is not of its type.
    #[error("the claims of the token are malformed")]
    Claims,
    /// `exp` is over.
    #[error("the token has expired")]
    Expired,
    /// There is no `exp`, and there has to be.
    #[error("the token does not say when it expires")]
    NoExpiry,
    /// `nbf` is not reached, or `iat` is in the future.
    #[error("the token is not valid yet")]
    NotYet,
    /// `iss`.
    #[error("the issuer of the token is another one")]
    Issuer,
    /// `aud`.
    #[error("the token is for another audience")]
    Audience,
    /// `scope` or `scp` has not all that is needed.
    #[error("the token has not the scopes that are needed")]
    Scope,
}

/// A token whose signature nobody has looked at.
pub struct Token<'a> {
    pub(crate) algorithm: String,
    pub(crate) kid: Option<String>,
    /// What was signed: header and payload as they came.
    pub(crate) signed: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Reads the compact serialization (RFC 7515 §7.1).
    ///
    /// # Errors
    /// It is no signed token, or demands what is not supported.
    pub fn parse(text: &'a [u8]) -> Result<Self, TokenError> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLarge);
        }
        let mut parts = text.splitn(6, |byte| *byte == b'.');
        let (Some(header), Some(payload), Some(signature)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(TokenError::Parts);
        };
        match parts.count() {
            0 => {}
            2 => return Err(TokenError::Encrypted),
            _ => return Err(TokenError::Parts),
        }
        let object = object(header).ok_or(TokenError::Header)?;
        // RFC 7515 §4.1.11: no extension is understood here, and an empty list must not be there.
        if object.contains_key("crit") {
            return Err(TokenError::Critical);
        }
        let text_of = |name: &str| match object.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(TokenError::Header),
        };
        Ok(Self {
            algorithm: text_of("alg")?.ok_or(TokenError::Header)?,
            kid: text_of("kid")?,
            signed: &text[..header.len() + 1 + payload.len()],
            payload,
            signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Base64)?,
        })
    }
}

/// A part that is a JSON object. Of names that are there twice the last counts (RFC 7515 §4, RFC 7519 §4).
pub(crate) fn object(part: &[u8]) -> Option<Map<String, Value>> {
    let text = URL_SAFE_NO_PAD.decode(part).ok()?;
    match serde_json::from_slice(&text).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(header: &str) -> String {
        format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(header))
    }

    #[track_caller]
    fn check(text: &str, expected: TokenError) {
        assert_eq!(Token::parse(text.as_bytes()).err(), Some(expected), "{text}");
    }

    #[test]
    fn what_is_no_token() {
        for text in ["", "a", "a.b", "a.b.c.d", "a.b.c.d.e.f", "......."] {
            check(text, TokenError::Parts);
        }
        check("a.b.c.d.e", TokenError::Encrypted);
        check("e30.e30.!", TokenError::Header);
        check(&encoded("[]"), TokenError::Header);
        check(&encoded("{\"alg\":1}"), TokenError::Header);
        check(&encoded("{\"alg\":\"RS256\",\"kid\":7}"), TokenError::Header);
        check(&encoded("{\"alg\":\"RS256\",\"crit\":[\"b64\"],\"b64\":false}"), TokenError::Critical);
        check(&encoded("{\"alg\":\"RS256\",\"crit\":[]}"), TokenError::Critical);
        check(&encoded("{\"alg\":\"RS256\"}").replace(".AAAA", ".AA==").replace('+', "-"), TokenError::Base64);
        check(&"a".repeat(MAX_TOKEN_BYTES + 1), TokenError::TooLarge);
        check(&encoded(&"[".repeat(5000)), TokenError::Header);
        let text = encoded("{\"alg\":\"none\",\"alg\":\"RS256\",\"kid\":\"a\"}");
        let token = Token::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((token.algorithm.as_str(), token.kid.as_deref()), ("RS256", Some("a")));
    }

    /// RFC 6750 §3: `%x20-21 / %x23-5B / %x5D-7E`.
    #[test]
    fn descriptions_are_quotable() {
        use TokenError as E;
        for error in [
            E::TooLarge,
            E::Parts,
            E::Encrypted,
            E::Base64,
            E::Header,
            E::Critical,
            E::Algorithm,
            E::UnknownKey,
            E::Signature,
            E::Claims,
            E::Expired,
            E::NoExpiry,
            E::NotYet,
            E::Issuer,
            E::Audience,
            E::Scope,
        ] {
            let text = error.to_string();
            assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte)), "{text}");
        }
    }
}
