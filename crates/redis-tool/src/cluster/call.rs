//! `cluster call`: one command at each node.

use std::process::ExitCode;

use pilotlight_redis::Value;
use pilotlight_resp::DecodeErrorKind;
use serde_json::{Value as Json, json};

use super::nodes::Nodes;
use super::output::{Output, SCHEMA, print, print_json};
use crate::advice;
use crate::spec::command;

/// Which nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    All,
    Primaries,
    Replicas,
}

/// Prints what each node answered; 1 if one of them answered with an error, or not at all.
pub(super) async fn call(nodes: &Nodes, whom: Whom, words: &[String], output: Output) -> anyhow::Result<ExitCode> {
    let answers = nodes
        .each(|node| {
            let words = words.to_vec();
            async move {
                let is_meant = match whom {
                    Whom::All => true,
                    Whom::Primaries => node.member.is_primary(),
                    Whom::Replicas => !node.member.is_primary(),
                };
                if !is_meant {
                    return None;
                }
                let words: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
                let reply = node.run::<Value>(command(&words)).await.map_err(|error| advice::causes(&error));
                let reply = match reply {
                    Ok(Value::Error(text)) => Err(String::from_utf8_lossy(&text).into_owned()),
                    other => other,
                };
                Some((node.address.to_string(), reply))
            }
        })
        .await;
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let has_failed = answers.is_empty() || answers.iter().any(|(_, reply)| reply.is_err());
    match output {
        Output::Json => {
            let answer = |(node, reply): &(String, Result<Value, String>)| match reply {
                Ok(reply) => json!({"node": node, "reply": json_of(reply)}),
                Err(error) => json!({"node": node, "error": error}),
            };
            print_json(&json!({"schema": SCHEMA, "answers": answers.iter().map(answer).collect::<Vec<_>>()}))?;
        }
        Output::Text => {
            let mut text = String::new();
            for (node, reply) in &answers {
                let reply = reply.as_ref().map_or_else(|error| format!("(error) {error}"), |reply| text_of(reply, 0));
                let reply = reply.trim_matches('\n');
                let gap = if reply.contains('\n') { "\n" } else { " " };
                text.push_str(&format!("{node}:{gap}{reply}\n"));
            }
            if answers.is_empty() {
                eprintln!("pilotlight redis cluster call: no node is meant");
            }
            print(&text)?;
        }
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text_of(value: &Value, depth: usize) -> String {
    let list = |values: &[Value]| {
        let line = |value: &Value| format!("{}- {}\n", "  ".repeat(depth), text_of(value, depth + 1).trim());
        let lines: String = values.iter().map(line).collect();
        if lines.is_empty() { "(empty)".to_owned() } else { format!("\n{lines}") }
    };
    match value {
        Value::Null => "(nil)".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(is_true) => is_true.to_string(),
        Value::Double(number) => number.to_string(),
        Value::BigNumber(bytes) | Value::Simple(bytes) | Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => {
            printable(bytes)
        }
        Value::Error(text) => format!("(error) {}", printable(text)),
        Value::Array(values) | Value::Set(values) | Value::Push(values) => list(values),
        Value::Map(pairs) => {
            let line = |(name, value): &(Value, Value)| {
                format!(
                    "{}{}: {}\n",
                    "  ".repeat(depth),
                    text_of(name, depth + 1).trim(),
                    text_of(value, depth + 1).trim_end()
                )
            };
            let lines: String = pairs.iter().map(line).collect();
            if lines.is_empty() { "(empty)".to_owned() } else { format!("\n{lines}") }
        }
        Value::Attributed(attributed) => text_of(&attributed.value, depth),
        Value::Skipped(limit) => format!("(error) {}", skipped(*limit)),
    }
}

/// The text in the place of a reply that exceeds a limit of the client.
fn skipped(limit: DecodeErrorKind) -> String {
    format!("the reply is larger than this client reads: {limit}")
}

/// Text as it is, but nothing in it can drive the terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

fn json_of(value: &Value) -> Json {
    let text = |bytes: &[u8]| Json::from(String::from_utf8_lossy(bytes));
    match value {
        Value::Null => Json::Null,
        Value::Integer(number) => json!(number),
        Value::Boolean(is_true) => json!(is_true),
        Value::Double(number) if number.is_finite() => json!(number),
        Value::Double(number) => json!(number.to_string()),
        Value::BigNumber(bytes) | Value::Simple(bytes) | Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => {
            text(bytes)
        }
        Value::Error(bytes) => json!({"error": text(bytes)}),
        Value::Array(values) | Value::Set(values) | Value::Push(values) => values.iter().map(json_of).collect(),
        Value::Map(pairs) => {
            let name = |name: &Value| match json_of(name) {
                Json::String(name) => name,
                other => other.to_string(),
            };
            Json::Object(pairs.iter().map(|(key, value)| (name(key), json_of(value))).collect())
        }
        Value::Attributed(attributed) => json_of(&attributed.value),
        Value::Skipped(limit) => json!({"error": skipped(*limit)}),
    }
}
