//! What the lexer takes off the input.

use crate::value::Value;

#[derive(Debug)]
pub(super) enum Token {
    Value(Value),
    /// An aggregate of so many elements, keys and values counted alike; `None`: streamed.
    Open(Kind, Option<usize>),
    /// A streamed string.
    OpenText,
    /// The end of a streamed aggregate or string.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Array,
    Set,
    Map,
    Push,
    Attribute,
}

impl From<Value> for Token {
    fn from(value: Value) -> Self {
        Token::Value(value)
    }
}

/// Whether a whole value starts here: no aggregate, no streamed string, no end marker. A lone `$` may yet be a streamed
/// string; as a scalar it is incomplete all the same.
#[inline]
pub(super) fn is_scalar(input: &[u8]) -> bool {
    match input.first() {
        Some(b'$') => input.get(1) != Some(&b'?'),
        Some(b':' | b'+' | b'-' | b'_' | b'#' | b',' | b'(' | b'!' | b'=') => true,
        _ => false,
    }
}
