//! Names that a client chose, and patterns for them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A name, or its beginning: `utm_*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    is_prefix: bool,
    folded: String,
}

/// Why a text is no pattern of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing, or a star alone.
    #[error("is empty")]
    Empty,
    /// A star anywhere but at the end.
    #[error("has a `*` that is not its last character")]
    Star,
    /// A byte that cannot be part of the name of a parameter or a cookie as it stands.
    #[error("has a character other than letters, digits and `-._~[]`")]
    Character,
}

impl FromStr for NamePattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        if name.is_empty() {
            return Err(PatternError::Empty);
        }
        if name.contains('*') {
            return Err(PatternError::Star);
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~[]".contains(&byte)) {
            return Err(PatternError::Character);
        }
        Ok(Self { text: name.to_owned(), is_prefix, folded: fold(name.as_bytes()) })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_prefix { "*" } else { "" })
    }
}

impl NamePattern {
    /// The name is this one, byte for byte.
    fn is(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.text) } else { name == self.text }
    }

    /// Some service may read the name as this one. `folded` comes from [`fold`].
    fn may_be(&self, folded: &str) -> bool {
        if self.is_prefix { folded.starts_with(&self.folded) } else { folded == self.folded }
    }
}

/// Several patterns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamePatterns(pub Vec<NamePattern>);

impl NamePatterns {
    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn are(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is(name))
    }

    pub(super) fn may_be(&self, folded: &str) -> bool {
        self.0.iter().any(|pattern| pattern.may_be(folded))
    }
}

/// A name that every service reads as itself: nothing to decode, no bracket that makes it a part of another.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// A form in which two names are equal if some service may take them for the same: percent-encoding decoded, blanks in
/// front left out, cut at the bracket of an array or at a NUL, in small letters, everything but letters and digits as
/// `_` (PHP decodes names, reads `a.b` as `a_b` and `a[x]` as part of `a`; ASP.NET does not tell letters apart).
pub(super) fn fold(name: &[u8]) -> String {
    let decoded: Cow<'_, [u8]> = if memchr::memchr(b'%', name).is_some() { decode(name).into() } else { name.into() };
    let start = decoded.iter().position(|byte| !matches!(byte, b' ' | b'+' | b'\t')).unwrap_or(decoded.len());
    let rest = &decoded[start..];
    let end = rest.iter().position(|byte| matches!(byte, b'[' | 0)).unwrap_or(rest.len());
    let one = |byte: &u8| if byte.is_ascii_alphanumeric() { char::from(byte.to_ascii_lowercase()) } else { '_' };
    rest[..end].iter().map(one).collect()
}

/// Decodes twice, as a service behind another proxy may.
fn decode(name: &[u8]) -> Vec<u8> {
    decode_once(&decode_once(name))
}

fn decode_once(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let pair = match after {
            [high, low, ..] if *first == b'%' => digit(high).zip(digit(low)),
            _ => None,
        };
        // Two hexadecimal digits are at most 255.
        let byte = pair.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let pattern = |text: &str| text.parse::<NamePattern>();
        assert!(pattern("utm_*").unwrap().is("utm_source"));
        assert!(!pattern("utm_*").unwrap().is("UTM_source"));
        assert!(pattern("utm_*").unwrap().may_be(&fold(b"%55tm%5Fsource")));
        assert!(pattern("a").unwrap().is("a") && !pattern("a").unwrap().is("ab"));
        for (text, expected) in [
            ("", PatternError::Empty),
            ("*", PatternError::Empty),
            ("a*b", PatternError::Star),
            ("**", PatternError::Star),
            ("a=b", PatternError::Character),
            ("a%62", PatternError::Character),
            ("a b", PatternError::Character),
        ] {
            assert_eq!(pattern(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn what_some_service_takes_for_the_same() {
        for same in ["a_b", "A.b", "a%5Fb", "a%255fb", "+a_b", "%20a_b", "a_b[1]", "a_b%5Bx", "a-b", "a_b%00x", "a%2eb"]
        {
            assert_eq!(fold(same.as_bytes()), "a_b", "{same}");
        }
        assert_ne!(fold(b"ab"), "a_b");
        assert_eq!(fold(b"%"), "_");
        assert_eq!(fold(b"%4"), "_4");
        assert_eq!(fold("é".as_bytes()), "__");
    }
}
