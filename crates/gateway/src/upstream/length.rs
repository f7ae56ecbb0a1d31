//! The `Content-Length` of a service's response: one valid number, or none.
//!
//! RFC 9112 §6.3: a response whose lengths differ, or are no numbers, has no framing that two readers would agree on,
//! even if it has no body (HEAD, 304): the next reader may take a stored one for that of a body. RFC 9110 §8.6: equal
//! lengths may be made one.

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, HeaderValue};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LengthError {
    #[error("Content-Length is not a number")]
    NotANumber,
    #[error("several different values of Content-Length")]
    Different,
}

/// More digits than any length has.
const MAX_DIGITS: usize = 19;

/// The length that the fields give, of which one is left.
pub(crate) fn settle(headers: &mut HeaderMap) -> Result<Option<u64>, LengthError> {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = lines.next() else { return Ok(None) };
    if lines.next().is_none()
        && let Some(length) = number(first.as_bytes())
    {
        return Ok(Some(length));
    }
    let mut found = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for member in value.as_bytes().split(|b| *b == b',') {
            let length = number(member.trim_ascii()).ok_or(LengthError::NotANumber)?;
            if found.replace(length).is_some_and(|before| before != length) {
                return Err(LengthError::Different);
            }
        }
    }
    if let Some(length) = found {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(found)
}

/// RFC 9110 §8.6: digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= MAX_DIGITS && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[&'static str], wanted: Result<Option<u64>, LengthError>) {
        let mut headers = HeaderMap::new();
        headers.extend(lines.iter().map(|line| (CONTENT_LENGTH, HeaderValue::from_static(line))));
        assert_eq!(settle(&mut headers), wanted, "{lines:?}");
        if let Ok(Some(length)) = wanted {
            let left: Vec<_> = headers.get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(left, [&length.to_string()], "{lines:?}");
        }
    }

    #[test]
    fn one_number_or_an_error() {
        check(&[], Ok(None));
        check(&["0"], Ok(Some(0)));
        check(&["2", "2"], Ok(Some(2)));
        check(&["2, 2", "2"], Ok(Some(2)));
        check(&["9999999999999999999"], Ok(Some(9_999_999_999_999_999_999)));
        check(&["2, 3"], Err(LengthError::Different));
        check(&["2", "3"], Err(LengthError::Different));
        for bad in ["", "x", "+2", "-2", "2,", "0x2", "2 2", "99999999999999999999"] {
            check(&[bad], Err(LengthError::NotANumber));
        }
    }
}
