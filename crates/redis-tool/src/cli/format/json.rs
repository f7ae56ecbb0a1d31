//! Replies as JSON: always valid, whatever the reply.

use pilotlight_resp::encode::double_text;
use pilotlight_resp::{DecodeErrorKind, Value};

use crate::words;

/// The error in the place of a reply that exceeds a limit of the client.
pub(super) fn skipped(limit: DecodeErrorKind) -> Value {
    Value::Error(format!("ERR the reply is larger than this client reads: {limit}").into())
}

/// How bytes become strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strings {
    /// As UTF-8; what is none is replaced.
    Utf8,
    /// With the escapes of the human format: lossless.
    Quoted,
}

/// The value in one line.
pub(crate) fn text(value: &Value, strings: Strings) -> String {
    let mut out = String::new();
    write(&mut out, value, strings);
    out
}

/// A string in quotes.
pub(crate) fn string(out: &mut String, bytes: &[u8], strings: Strings) {
    out.push('"');
    match strings {
        Strings::Utf8 => escape(out, &String::from_utf8_lossy(bytes)),
        Strings::Quoted => {
            let mut escaped = String::new();
            words::escape(&mut escaped, bytes);
            escape(out, &escaped);
        }
    }
    out.push('"');
}

fn write(out: &mut String, value: &Value, strings: Strings) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Integer(number) => out.push_str(&number.to_string()),
        Value::Boolean(is_true) => out.push_str(if *is_true { "true" } else { "false" }),
        // JSON has no infinity.
        Value::Double(number) if !number.is_finite() => string(out, double_text(*number).as_bytes(), strings),
        Value::Double(number) => out.push_str(&double_text(*number)),
        Value::BigNumber(digits) => match big_number(digits) {
            Some(number) => out.push_str(&number),
            None => string(out, digits, strings),
        },
        Value::Simple(data) | Value::Bulk(data) | Value::Verbatim { text: data, .. } => string(out, data, strings),
        Value::Error(data) => {
            out.push_str("{\"error\":");
            string(out, data, strings);
            out.push('}');
        }
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item, strings);
            }
            out.push(']');
        }
        Value::Map(pairs) => {
            out.push('{');
            for (index, (key, item)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                name(out, key, strings);
                out.push(':');
                write(out, item, strings);
            }
            out.push('}');
        }
        Value::Attributed(attributed) => write(out, &attributed.value, strings),
        Value::Skipped(limit) => write(out, &skipped(*limit), strings),
    }
}

/// As JSON has numbers: no `+`, no zeros in front. `None` if these are no digits.
fn big_number(digits: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(digits).ok()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let significant = digits.trim_start_matches('0');
    is_number.then(|| format!("{sign}{}", if significant.is_empty() { "0" } else { significant }))
}

/// Names of members are strings.
fn name(out: &mut String, key: &Value, strings: Strings) {
    match key {
        Value::Simple(data) | Value::Bulk(data) | Value::Verbatim { text: data, .. } => string(out, data, strings),
        other => {
            let inner = text(other, strings);
            string(out, inner.trim_matches('"').as_bytes(), Strings::Utf8);
        }
    }
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_numbers_are_numbers_of_json() {
        for (digits, expected) in [
            ("007", "7"),
            ("-007", "-7"),
            ("+12345678901234567890", "12345678901234567890"),
            ("000", "0"),
            ("-0", "-0"),
            ("-", "\"-\""),
            ("", "\"\""),
            ("1e5", "\"1e5\""),
            ("0x\u{1}", "\"0x\\u0001\""),
        ] {
            let value = Value::Array(vec![Value::BigNumber(digits.to_owned().into())]);
            let json = text(&value, Strings::Utf8);
            assert_eq!(json, format!("[{expected}]"));
            assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
        }
    }
}
