//! Replies as text: as `redis-cli` writes them for people and for pipes, as CSV, JSON and tables. Pure.

pub(super) mod json;
pub(super) mod table;

use pilotlight_resp::Value;
use pilotlight_resp::encode::double_text;

use crate::words;
use json::skipped;

/// How replies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// For people: types are told, strings are quoted.
    Human,
    /// The data alone.
    Raw,
    /// Comma-separated.
    Csv,
    /// JSON; bytes that are no UTF-8 are replaced.
    Json,
    /// JSON; strings are written with the escapes of [`Format::Human`], so that no byte is lost.
    QuotedJson,
    /// Aligned columns.
    Table,
}

/// How replies are written, and what is between them.
#[derive(Debug, Clone)]
pub(super) struct Style {
    pub(super) format: Format,
    /// Between the elements of raw replies.
    pub(super) element_delimiter: Vec<u8>,
    /// After each raw reply.
    pub(super) reply_delimiter: Vec<u8>,
}

impl Style {
    pub(super) fn new(format: Format) -> Self {
        Self { format, element_delimiter: b"\n".to_vec(), reply_delimiter: b"\n".to_vec() }
    }

    /// The reply to a command as it is printed, up to its last line break. `words` are the command's: the replies to
    /// some are texts for people.
    pub(super) fn reply(&self, value: &Value, words: &[Vec<u8>]) -> Vec<u8> {
        match self.format {
            // They end their lines themselves.
            Format::Human | Format::Raw if is_report(words) => {
                let mut out = Vec::new();
                self.raw(&mut out, value);
                out
            }
            Format::Human => {
                let mut out = Vec::new();
                human(&mut out, value, 0);
                out
            }
            Format::Raw => {
                let mut out = Vec::new();
                self.raw(&mut out, value);
                out.extend_from_slice(&self.reply_delimiter);
                out
            }
            Format::Csv => {
                let mut out = Vec::new();
                csv(&mut out, value);
                out.push(b'\n');
                out
            }
            Format::Json => line(json::text(value, json::Strings::Utf8)),
            Format::QuotedJson => line(json::text(value, json::Strings::Quoted)),
            Format::Table => table::text(value).into_bytes(),
        }
    }

    fn raw(&self, out: &mut Vec<u8>, value: &Value) {
        match value {
            Value::Null => {}
            Value::Error(text) => {
                out.extend_from_slice(text);
                out.push(b'\n');
            }
            Value::Simple(text) | Value::Bulk(text) | Value::BigNumber(text) | Value::Verbatim { text, .. } => {
                out.extend_from_slice(text);
            }
            Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Double(number) => out.extend_from_slice(double_text(*number).as_bytes()),
            Value::Boolean(is_true) => out.extend_from_slice(if *is_true { b"(true)" } else { b"(false)" }),
            Value::Array(items) | Value::Set(items) | Value::Push(items) => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.extend_from_slice(&self.element_delimiter);
                    }
                    self.raw(out, item);
                }
            }
            Value::Map(pairs) => {
                for (index, (key, item)) in pairs.iter().enumerate() {
                    if index > 0 {
                        out.extend_from_slice(&self.element_delimiter);
                    }
                    self.raw(out, key);
                    out.push(b' ');
                    self.raw(out, item);
                }
            }
            Value::Attributed(attributed) => self.raw(out, &attributed.value),
            Value::Skipped(limit) => self.raw(out, &skipped(*limit)),
        }
    }
}

/// Commands whose replies are texts for people, and printed as they are.
fn is_report(words: &[Vec<u8>]) -> bool {
    let is = |at: usize, name: &str| words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let sub = |name: &str, subs: &[&str]| is(0, name) && subs.iter().any(|word| is(1, word));
    is(0, "INFO")
        || is(0, "LOLWUT")
        || sub("DEBUG", &["HTSTATS", "HTSTATS-KEY", "CLIENT-EVICTION"])
        || sub("MEMORY", &["MALLOC-STATS", "DOCTOR"])
        || sub("CLUSTER", &["NODES", "INFO"])
        || sub("CLIENT", &["LIST", "INFO"])
        || sub("LATENCY", &["GRAPH", "DOCTOR"])
        || sub("PROXY", &["INFO"])
}

fn line(mut text: String) -> Vec<u8> {
    text.push('\n');
    text.into_bytes()
}

/// One value, its elements indented by so many columns; the first line is not, as its number stands there already.
fn human(out: &mut Vec<u8>, value: &Value, indent: usize) {
    match value {
        Value::Null => out.extend_from_slice(b"(nil)\n"),
        Value::Error(text) => put(out, &[b"(error) ", text, b"\n"]),
        Value::Simple(text) => put(out, &[text, b"\n"]),
        Value::Integer(number) => put(out, &[b"(integer) ", number.to_string().as_bytes(), b"\n"]),
        Value::Double(number) => put(out, &[b"(double) ", double_text(*number).as_bytes(), b"\n"]),
        Value::Boolean(is_true) => out.extend_from_slice(if *is_true { b"(true)\n" } else { b"(false)\n" }),
        Value::BigNumber(digits) => put(out, &[b"(big number) ", digits, b"\n"]),
        Value::Bulk(data) => put(out, &[words::quoted(data).as_bytes(), b"\n"]),
        Value::Verbatim { text, .. } => put(out, &[text, b"\n"]),
        Value::Array(items) => human_items(out, items, ")", "(empty array)\n", indent),
        Value::Set(items) => human_items(out, items, "~", "(empty set)\n", indent),
        Value::Push(items) => human_items(out, items, ")", "(empty push)\n", indent),
        Value::Map(pairs) => human_pairs(out, pairs, indent),
        Value::Attributed(attributed) => human(out, &attributed.value, indent),
        Value::Skipped(limit) => human(out, &skipped(*limit), indent),
    }
}

fn human_items(out: &mut Vec<u8>, items: &[Value], mark: &str, empty: &str, indent: usize) {
    if items.is_empty() {
        out.extend_from_slice(empty.as_bytes());
    }
    let width = digits(items.len());
    for (index, item) in items.iter().enumerate() {
        number(out, index, width, mark, indent);
        human(out, item, indent + width + 2);
    }
}

fn human_pairs(out: &mut Vec<u8>, pairs: &[(Value, Value)], indent: usize) {
    if pairs.is_empty() {
        out.extend_from_slice(b"(empty hash)\n");
    }
    let width = digits(pairs.len());
    let inner = indent + width + 2;
    for (index, (key, item)) in pairs.iter().enumerate() {
        number(out, index, width, "#", indent);
        human(out, key, inner);
        if out.last() == Some(&b'\n') {
            out.pop();
        }
        out.extend_from_slice(b" => ");
        let mut rendered = Vec::new();
        human(&mut rendered, item, inner);
        // What needs several lines begins on one of its own.
        if is_aggregate(item) && rendered.iter().filter(|byte| **byte == b'\n').count() > 1 {
            out.push(b'\n');
            out.resize(out.len() + inner, b' ');
        }
        out.extend_from_slice(&rendered);
    }
}

/// The number before an element: `3) `.
fn number(out: &mut Vec<u8>, index: usize, width: usize, mark: &str, indent: usize) {
    let indent = if index == 0 { 0 } else { indent };
    let text = format!("{:indent$}{:>width$}{mark} ", "", index + 1);
    out.extend_from_slice(text.as_bytes());
}

fn is_aggregate(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Set(_) | Value::Map(_) | Value::Push(_))
}

fn csv(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"NULL"),
        Value::Error(text) => put(out, &[b"ERROR,", words::quoted(text).as_bytes()]),
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => {
            out.extend_from_slice(words::quoted(text).as_bytes());
        }
        Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Double(number) => out.extend_from_slice(double_text(*number).as_bytes()),
        Value::BigNumber(digits) => out.extend_from_slice(digits),
        Value::Boolean(is_true) => out.extend_from_slice(if *is_true { b"true" } else { b"false" }),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                csv(out, item);
            }
        }
        Value::Map(pairs) => {
            for (index, (key, item)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                csv(out, key);
                out.push(b',');
                csv(out, item);
            }
        }
        Value::Attributed(attributed) => csv(out, &attributed.value),
        Value::Skipped(limit) => csv(out, &skipped(*limit)),
    }
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &'static str) -> Value {
        Value::Bulk(text.into())
    }

    #[track_caller]
    fn check(format: Format, value: &Value, expected: &str) {
        let text = Style::new(format).reply(value, &[b"GET".to_vec()]);
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    fn nested() -> Value {
        let inner = Value::Array(vec![bulk("a"), Value::Null, Value::Double(0.5)]);
        Value::Map(vec![
            (bulk("k"), inner),
            (bulk("one"), Value::Set(vec![Value::Boolean(true)])),
            (Value::Integer(7), Value::Array(vec![])),
            (bulk("e"), Value::Error("BAD it".into())),
        ])
    }

    #[test]
    fn people_are_told_types_and_levels() {
        check(
            Format::Human,
            &nested(),
            "1# \"k\" => \n   1) \"a\"\n   2) (nil)\n   3) (double) 0.5\n2# \"one\" => 1~ (true)\n3# (integer) 7 => (empty array)\n4# \"e\" => (error) BAD it\n",
        );
        let ten = Value::Array((0..10).map(|_| Value::Array(vec![bulk("x"), Value::Integer(1)])).collect());
        let text = Style::new(Format::Human).reply(&ten, &[]);
        assert!(text.starts_with(b" 1) 1) \"x\"\n    2) (integer) 1\n 2) 1)"));
    }

    #[test]
    fn the_other_formats_are_for_programs() {
        check(Format::Raw, &nested(), "k a\n\n0.5\none (true)\n7 \ne BAD it\n\n");
        check(Format::Csv, &nested(), "\"k\",\"a\",NULL,0.5,\"one\",true,7,,\"e\",ERROR,\"BAD it\"\n");
        check(
            Format::Json,
            &nested(),
            "{\"k\":[\"a\",null,0.5],\"one\":[true],\"7\":[],\"e\":{\"error\":\"BAD it\"}}\n",
        );
        check(Format::QuotedJson, &Value::Bulk(b"\"\xff\n"[..].into()), "\"\\\\\\\"\\\\xff\\\\n\"\n");
        check(Format::Json, &Value::Bulk(b"a\xff\x01\"\\\n"[..].into()), "\"a\u{fffd}\\u0001\\\"\\\\\\n\"\n");
        check(Format::Json, &Value::Double(f64::INFINITY), "\"inf\"\n");
    }

    #[test]
    fn reports_are_printed_as_they_are() {
        let words = [b"cluster".to_vec(), b"Nodes".to_vec()];
        assert_eq!(Style::new(Format::Human).reply(&bulk("a b\n"), &words), b"a b\n");
        assert_eq!(Style::new(Format::Json).reply(&bulk("a b\n"), &words), b"\"a b\\n\"\n");
    }
}
