//! JSON Web Tokens (RFC 7519), signed (JWS, RFC 7515), verified by a set of public keys (JWK Set, RFC 7517).
//!
//! ```text
//!  bytes ─▶ Token::parse ─▶ KeySet::verify ─▶ Claims
//!                             │ key by `kid`, algorithm by key, signature, times, issuer, audience, scopes
//! ```
//!
//! Pure: it opens no file and no socket, and the time is an argument. It knows no HTTP.
//!
//! Invariant: the algorithm of a signature is one of the key's type, of the key's own `alg` if it has one, and of the
//! allowed ones; the token only chooses among what all three permit (RFC 8725 §3.1). No key is symmetric, and `none` is
//! the name of no algorithm.
//! Invariant: nothing of a token's payload is read before its signature was right.

#![forbid(unsafe_code)]

mod algorithm;
mod claims;
mod keys;
mod rules;
mod token;

#[cfg(test)]
mod tests;

pub use algorithm::Algorithm;
pub use claims::{ClaimText, Claims, MAX_CLAIM_BYTES};
pub use keys::{Cost, KeySet, KeysError, MAX_KEYS, MAX_SET_BYTES};
pub use rules::{Expiry, Rules};
pub use token::{MAX_TOKEN_BYTES, Token, TokenError};
