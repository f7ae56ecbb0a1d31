//! What a token has to say (RFC 7519 §4.1), beyond being signed by one of the keys.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::claims::Claims;
use crate::token::TokenError;

/// What a token has to say to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// `iss` has to be one of these. Empty: it may be anything.
    pub issuers: Vec<String>,
    /// `aud` has to name one of these. Empty: it may be anything.
    pub audiences: Vec<String>,
    /// The algorithms that are allowed; empty: all that the keys permit.
    pub algorithms: Vec<Algorithm>,
    /// `scope` (RFC 8693 §4.2), or `scp`, has to name all of these.
    pub scopes: Vec<String>,
    /// Whether a token has to expire.
    pub expiry: Expiry,
    /// How far the clocks may differ.
    pub leeway: Duration,
}

/// Whether a token has to expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expiry {
    /// There has to be an `exp`.
    #[default]
    Required,
    /// Without `exp` it counts for ever.
    Optional,
}

impl Rules {
    /// `leeway` by default.
    pub const DEFAULT_LEEWAY: Duration = Duration::from_secs(60);
    /// Values of `leeway`.
    pub const LEEWAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);
    /// Most entries of each list.
    pub const MAX_LISTED: usize = 64;

    pub(crate) fn check(&self, claims: &Claims, now: u64) -> Result<(), TokenError> {
        let (now, leeway) = (now as f64, self.leeway.as_secs_f64());
        match (claims.date("exp")?, self.expiry) {
            // RFC 7519 §4.1.4: on or after it, it is over.
            (Some(expires), _) if now - leeway >= expires => return Err(TokenError::Expired),
            (None, Expiry::Required) => return Err(TokenError::NoExpiry),
            _ => {}
        }
        for name in ["nbf", "iat"] {
            if claims.date(name)?.is_some_and(|from| from > now + leeway) {
                return Err(TokenError::NotYet);
            }
        }
        let issuer = claims.text("iss")?;
        if !self.issuers.is_empty() && !issuer.is_some_and(|issuer| self.issuers.iter().any(|one| one == issuer)) {
            return Err(TokenError::Issuer);
        }
        let audiences = claims.texts("aud")?;
        if !self.audiences.is_empty() && !audiences.iter().any(|one| self.audiences.iter().any(|ours| ours == one)) {
            return Err(TokenError::Audience);
        }
        let mut has = claims.texts("scope")?;
        has.extend(claims.texts("scp")?);
        let has: Vec<&str> = has.iter().flat_map(|texts| texts.split(' ')).collect();
        match self.scopes.iter().all(|needed| has.contains(&needed.as_str())) {
            true => Ok(()),
            false => Err(TokenError::Scope),
        }
    }
}

impl Default for Rules {
    /// Signed by one of the keys, and not expired.
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            audiences: Vec::new(),
            algorithms: Vec::new(),
            scopes: Vec::new(),
            expiry: Expiry::default(),
            leeway: Self::DEFAULT_LEEWAY,
        }
    }
}
