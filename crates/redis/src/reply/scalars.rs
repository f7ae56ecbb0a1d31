//! Strings, numbers, booleans.

use std::sync::Arc;

use bytes::Bytes;

use super::read::{FromReply, mismatch};
use crate::error::ReplyError;
use pilotlight_resp::Value;

impl FromReply for Bytes {
    #[inline]
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        match value {
            Value::Bulk(bytes) | Value::Simple(bytes) | Value::BigNumber(bytes) => Ok(bytes),
            Value::Verbatim { text, .. } => Ok(text),
            Value::Integer(number) => Ok(Bytes::from(number.to_string())),
            Value::Double(number) => Ok(Bytes::from(pilotlight_resp::encode::double_text(number))),
            Value::Attributed(attributed) => Self::from_reply(attributed.value),
            other => Err(mismatch("a string", &other)),
        }
    }
}

/// The reply must be UTF-8.
impl FromReply for String {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let bytes = Bytes::from_reply(value)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(ReplyError {
                expected: "UTF-8 text",
                found: "bytes that are not UTF-8",
                server: None,
                detail: None,
            }),
        }
    }
}

/// The reply must be UTF-8.
impl FromReply for Box<str> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        String::from_reply(value).map(String::into_boxed_str)
    }
}

/// The reply must be UTF-8.
impl FromReply for Arc<str> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        String::from_reply(value).map(Self::from)
    }
}

/// One character of UTF-8.
impl FromReply for char {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let text = String::from_reply(value)?;
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(letter),
            _ => Err(ReplyError { expected: "one character", found: "another text", server: None, detail: None }),
        }
    }
}

macro_rules! integers {
    ($($integer:ident),*) => {$(
        impl FromReply for $integer {
            #[inline]
            fn from_reply(value: Value) -> Result<Self, ReplyError> {
                let number = integer_of(&value).and_then(|number| Self::try_from(number).ok());
                number.ok_or_else(|| mismatch(concat!("an integer (", stringify!($integer), ")"), &value))
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, i128, isize, u16, u32, u64, usize);

/// `Vec<u8>` reads a string.
impl FromReply for u8 {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let number = integer_of(&value).and_then(|number| Self::try_from(number).ok());
        number.ok_or_else(|| mismatch("an integer (u8)", &value))
    }

    fn from_bytes(bytes: &Bytes) -> Option<Vec<Self>> {
        Some(bytes.to_vec())
    }
}

/// Doubles beyond this may stand for several integers.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

#[expect(clippy::cast_possible_truncation, reason = "the double is whole and below 2^53")]
fn integer_of(value: &Value) -> Option<i128> {
    match value {
        Value::Integer(number) => Some(i128::from(*number)),
        Value::Boolean(yes) => Some(i128::from(*yes)),
        Value::Double(number) if number.fract() == 0.0 && number.abs() <= MAX_EXACT => Some(*number as i128),
        Value::Bulk(text) | Value::Simple(text) | Value::BigNumber(text) => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        Value::Attributed(attributed) => integer_of(&attributed.value),
        _ => None,
    }
}

impl FromReply for f64 {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        double_of(&value).ok_or_else(|| mismatch("a double", &value))
    }
}

/// Rounded to the nearest.
impl FromReply for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what was asked for")]
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        f64::from_reply(value).map(|number| number as Self)
    }
}

#[expect(clippy::cast_precision_loss, reason = "rounding is what was asked for")]
fn double_of(value: &Value) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        Value::Bulk(text) | Value::Simple(text) | Value::BigNumber(text) => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        Value::Attributed(attributed) => double_of(&attributed.value),
        _ => None,
    }
}

/// `OK` is true and null is false: whether a conditional command was carried out.
impl FromReply for bool {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        match &value {
            Value::Boolean(yes) => Ok(*yes),
            Value::Null | Value::Integer(0) => Ok(false),
            Value::Integer(1) => Ok(true),
            Value::Simple(text) if text == "OK" => Ok(true),
            Value::Bulk(text) if text == "1" || text == "OK" => Ok(true),
            Value::Bulk(text) if text == "0" => Ok(false),
            Value::Attributed(attributed) => Self::from_reply(attributed.value.clone()),
            _ => Err(mismatch("a boolean", &value)),
        }
    }
}
