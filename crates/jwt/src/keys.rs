//! A set of public keys (RFC 7517), and what is verified by it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::{Map, Value};

use crate::algorithm::{Algorithm, Verifier};
use crate::claims::Claims;
use crate::rules::Rules;
use crate::token::{Token, TokenError};

/// Most bytes of a set of keys.
pub const MAX_SET_BYTES: usize = 512 * 1024;
/// Most keys of a set.
pub const MAX_KEYS: usize = 128;
/// Keys that are tried for a token that names none.
const MAX_TRIED: usize = 4;
/// Bytes of an RSA modulus: 2048 to 8192 bits (RFC 7518 §3.3 demands 2048).
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Bytes of the largest RSA modulus of [`Cost::Small`]: 35 µs, against 72 µs of Ed25519 and 83 µs of ES256 (`costs` in
/// `tests.rs`, optimized).
const SMALL_RSA_BYTES: usize = 256;

/// Why a set of keys cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// Larger than [`MAX_SET_BYTES`].
    #[error("the set of keys has more than {MAX_SET_BYTES} bytes")]
    TooLarge,
    /// It is no JSON object with a list `keys`.
    #[error("it is no set of keys: a JSON object with a list `keys` (RFC 7517 section 5)")]
    NoSet,
    /// More than [`MAX_KEYS`].
    #[error("the set has {0} keys; at most {MAX_KEYS} are allowed")]
    TooMany(usize),
    /// None of them can be used.
    #[error("none of the {count} keys of the set can verify a signature{why}", why = first(.skipped))]
    NoneOfUse {
        /// Keys in the set.
        count: usize,
        /// Why they cannot be used, one by one.
        skipped: Vec<String>,
    },
}

fn first(skipped: &[String]) -> String {
    skipped.first().map_or_else(String::new, |why| format!(": {why}"))
}

/// What it costs to verify a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Below 50 µs.
    Small,
    /// So much that others should not have to wait for it.
    Large,
}

/// The keys that signatures are verified by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<Key>,
    skipped: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    kid: Option<String>,
    /// Those that its type and its `alg` permit.
    algorithms: Vec<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point of a curve, as its algorithm takes it.
    Point(Vec<u8>),
}

impl KeySet {
    /// Reads a JWK Set. What it has of other kinds of keys is left out (RFC 7517 §5), and said in
    /// [`skipped`](Self::skipped).
    ///
    /// # Errors
    /// It is no set, too large, or has no key that could be used.
    pub fn parse(text: &[u8]) -> Result<Self, KeysError> {
        if text.len() > MAX_SET_BYTES {
            return Err(KeysError::TooLarge);
        }
        let set: Value = serde_json::from_slice(text).map_err(|_| KeysError::NoSet)?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or(KeysError::NoSet)?;
        if listed.len() > MAX_KEYS {
            return Err(KeysError::TooMany(listed.len()));
        }
        let (mut keys, mut skipped) = (Vec::new(), Vec::new());
        for (index, value) in listed.iter().enumerate() {
            match value.as_object().ok_or("it is no JSON object").and_then(Key::read) {
                Ok(key) => keys.push(key),
                Err(why) => {
                    let kid = value.get("kid").and_then(Value::as_str).map(|kid| format!(" ({kid:?})"));
                    skipped.push(format!("key {}{}: {why}", index + 1, kid.unwrap_or_default()));
                }
            }
        }
        match keys.is_empty() {
            true => Err(KeysError::NoneOfUse { count: listed.len(), skipped }),
            false => Ok(Self { keys, skipped }),
        }
    }

    /// How many keys can be used.
    #[must_use]
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Why others of the set cannot be.
    #[must_use]
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// What it costs to verify a token by these rules; an error if it can be refused without.
    ///
    /// # Errors
    /// There is no key for the token, or its algorithm is not allowed.
    pub fn cost(&self, token: &Token<'_>, rules: &Rules) -> Result<Cost, TokenError> {
        let (_, keys) = self.candidates(token, rules)?;
        let is_small = |key: &&Key| matches!(&key.material, Material::Rsa { n, .. } if n.len() <= SMALL_RSA_BYTES);
        Ok(if keys.len() == 1 && keys.iter().all(is_small) { Cost::Small } else { Cost::Large })
    }

    /// Verifies a token by these rules; `now` in seconds since 1970.
    ///
    /// # Errors
    /// What is wrong with it. [`TokenError::UnknownKey`] may become right when the set is read anew.
    pub fn verify(&self, token: &Token<'_>, rules: &Rules, now: u64) -> Result<Claims, TokenError> {
        let (algorithm, keys) = self.candidates(token, rules)?;
        if !keys.iter().any(|key| key.has_signed(token, algorithm)) {
            // A token that names no key may be one of a new key's.
            return Err(if token.kid.is_some() { TokenError::Signature } else { TokenError::UnknownKey });
        }
        let claims = Claims::read(token.payload)?;
        rules.check(&claims, now)?;
        Ok(claims)
    }

    /// The keys that a token may have been signed by.
    fn candidates(&self, token: &Token<'_>, rules: &Rules) -> Result<(Algorithm, Vec<&Key>), TokenError> {
        let algorithm = Algorithm::of_name(&token.algorithm).ok_or(TokenError::Algorithm)?;
        if !rules.algorithms.is_empty() && !rules.algorithms.contains(&algorithm) {
            return Err(TokenError::Algorithm);
        }
        let fits = |key: &&Key| key.algorithms.contains(&algorithm);
        let Some(kid) = &token.kid else {
            let keys: Vec<&Key> = self.keys.iter().filter(fits).collect();
            return match keys.len() {
                0 => Err(TokenError::Algorithm),
                1..=MAX_TRIED => Ok((algorithm, keys)),
                _ => Err(TokenError::UnknownKey),
            };
        };
        let named: Vec<&Key> = self.keys.iter().filter(|key| key.kid.as_ref() == Some(kid)).collect();
        if named.is_empty() {
            return Err(TokenError::UnknownKey);
        }
        // RFC 7517 §4.5: keys of different types may have one name.
        let keys: Vec<&Key> = named.into_iter().filter(fits).take(MAX_TRIED).collect();
        if keys.is_empty() { Err(TokenError::Algorithm) } else { Ok((algorithm, keys)) }
    }
}

impl Key {
    fn read(jwk: &Map<String, Value>) -> Result<Self, &'static str> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        // RFC 7517 §4.2, §4.3.
        if text("use").is_some_and(|used| used != "sig") {
            return Err("it is not for signatures (use)");
        }
        let operations = jwk.get("key_ops").and_then(Value::as_array);
        if operations.is_some_and(|all| !all.iter().any(|one| one == "verify")) {
            return Err("it is not for verifying (key_ops)");
        }
        let bytes =
            |name: &str| text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or("it is incomplete");
        let (permitted, material): (&[Algorithm], Material) = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => (&Algorithm::RSA, rsa(bytes("n")?, bytes("e")?)?),
            (Some("EC"), Some("P-256")) => (&[Algorithm::Es256], point(&bytes("x")?, &bytes("y")?, 32)?),
            (Some("EC"), Some("P-384")) => (&[Algorithm::Es384], point(&bytes("x")?, &bytes("y")?, 48)?),
            (Some("OKP"), Some("Ed25519")) => match bytes("x")? {
                x if x.len() == 32 => (&[Algorithm::EdDsa], Material::Point(x)),
                _ => return Err("its point is of another length"),
            },
            (Some("EC" | "OKP"), _) => return Err("its curve is not supported (crv)"),
            (Some("oct"), _) => return Err("it is a shared secret, which could also sign"),
            _ => return Err("its type is not supported (kty)"),
        };
        // RFC 7517 §4.4.
        let algorithms: Vec<Algorithm> = match text("alg") {
            None => permitted.to_vec(),
            Some(name) => Algorithm::of_name(name).filter(|one| permitted.contains(one)).into_iter().collect(),
        };
        match algorithms.is_empty() {
            true => Err("its algorithm is not supported (alg)"),
            false => Ok(Self { kid: text("kid").map(str::to_owned), algorithms, material }),
        }
    }

    fn has_signed(&self, token: &Token<'_>, algorithm: Algorithm) -> bool {
        let verified = match (&self.material, algorithm.verifier()) {
            (Material::Rsa { n, e }, Verifier::Rsa(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, token.signed, &token.signature)
            }
            (Material::Point(point), Verifier::Point(curve)) => {
                UnparsedPublicKey::new(curve, point).verify(token.signed, &token.signature)
            }
            _ => return false, // the key's type permits no such algorithm
        };
        verified.is_ok()
    }
}

fn rsa(n: Vec<u8>, e: Vec<u8>) -> Result<Material, &'static str> {
    // RFC 7518 §6.3.1.1: without a leading zero, which some have all the same.
    let trimmed = |bytes: Vec<u8>| match bytes.iter().position(|byte| *byte != 0) {
        Some(0) => bytes,
        Some(first) => bytes[first..].to_vec(),
        None => Vec::new(),
    };
    let (n, e) = (trimmed(n), trimmed(e));
    match RSA_BYTES.contains(&n.len()) && !e.is_empty() && e.len() <= 4 {
        true => Ok(Material::Rsa { n, e }),
        false => Err("it is an RSA key of less than 2048 or more than 8192 bits, or with a large exponent"),
    }
}

/// RFC 7518 §6.2.1.2: each coordinate has the length of the curve's field.
fn point(x: &[u8], y: &[u8], length: usize) -> Result<Material, &'static str> {
    match x.len() == length && y.len() == length {
        true => Ok(Material::Point([&[4], x, y].concat())),
        false => Err("its point is of another length"),
    }
}
