//! Patterns of values: a text in which `*` stands for any text.

use std::fmt;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// Most `*` in a pattern.
    pub const MAX_STARS: usize = 8;
    /// Most bytes of a pattern.
    pub const MAX_BYTES: usize = 256;

    /// A pattern.
    ///
    /// # Errors
    /// It is empty, longer than [`MAX_BYTES`](Self::MAX_BYTES) or has more than [`MAX_STARS`](Self::MAX_STARS) `*`.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.len() > Self::MAX_BYTES {
            return Err(format!("it has {} bytes; at most {} are allowed", text.len(), Self::MAX_BYTES));
        }
        if text.matches('*').count() > Self::MAX_STARS {
            return Err(format!("it has more than {} `*`", Self::MAX_STARS));
        }
        Ok(Self(text.into()))
    }

    /// Whether it takes a value.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return *self.0 == *value };
        let Some(mut value) = value.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        for part in middle.split('*').filter(|part| !part.is_empty()) {
            let Some(at) = value.find(part) else { return false };
            value = &value[at + part.len()..];
        }
        value.ends_with(last)
    }

    /// Whether it takes one value only.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Bytes that a value must have: of two patterns the one with more is the more specific.
    #[must_use]
    pub fn fixed_bytes(&self) -> usize {
        self.0.len() - self.0.matches('*').count()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, taken: &[&str], left: &[&str]) {
        let pattern = Pattern::new(pattern).unwrap();
        taken.iter().for_each(|value| assert!(pattern.matches(value), "{pattern} {value}"));
        left.iter().for_each(|value| assert!(!pattern.matches(value), "{pattern} {value}"));
    }

    #[test]
    fn patterns() {
        check("llama", &["llama"], &["", "llama-3", "Llama"]);
        check("llama-3*", &["llama-3", "llama-3.1-8b"], &["llama-2", ""]);
        check("*-instruct", &["a-instruct", "-instruct"], &["instruct", "a-instruct-2"]);
        check("a*b*c", &["abc", "a1b2c", "abbc"], &["ab", "ac", "abcd", "a*c"]);
        check("ab*ba", &["abba", "abxba"], &["aba"]);
        check("*", &["", "x"], &[]);
        check("**x", &["x", "axx"], &["xy"]);
        for wrong in ["", "*********", &"x".repeat(257)] {
            assert!(Pattern::new(wrong).is_err());
        }
    }

    #[test]
    fn specific() {
        let fixed = |text| Pattern::new(text).unwrap().fixed_bytes();
        assert!(fixed("llama-3*") > fixed("llama*") && fixed("*") == 0);
        assert!(Pattern::new("x").unwrap().is_exact() && !Pattern::new("x*").unwrap().is_exact());
    }
}
