//! What a route says of the tokens that it takes: plain data, already checked by the reader of the configuration.

use http::HeaderName;
use pilotlight_jwt::Rules;

use crate::jwks::KeySource;

/// Which tokens a route takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSpec {
    /// Where the keys come from.
    pub keys: KeySource,
    /// What a token has to say.
    pub rules: Rules,
    /// Where the token is.
    pub from: TokenFrom,
    /// The fields that the service gets, and the claim in each. No client can send them.
    pub claims: Vec<(HeaderName, String)>,
    /// What a challenge calls what is protected (RFC 6750 §3).
    pub realm: String,
}

impl JwtSpec {
    /// Most fields in `claims`.
    pub const MAX_CLAIMS: usize = 32;

    /// In words.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("tokens signed by the keys of {}", self.keys.at);
        for (what, texts) in [("issuer", &self.rules.issuers), ("audience", &self.rules.audiences)] {
            if !texts.is_empty() {
                text.push_str(&format!(", {what} {}", texts.join(" or ")));
            }
        }
        if !self.rules.scopes.is_empty() {
            text.push_str(&format!(", scope {}", self.rules.scopes.join(" and ")));
        }
        text
    }
}

/// Where in a request the token is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TokenFrom {
    /// `Authorization: Bearer TOKEN` (RFC 6750 §2.1).
    #[default]
    Bearer,
    /// A field that has the token and nothing else.
    Header(HeaderName),
    /// A cookie.
    Cookie(String),
}
