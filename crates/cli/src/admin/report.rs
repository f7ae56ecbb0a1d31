//! How a command reports what the gateway answered.

use std::io::{self, Write};

use serde_json::Value;

use super::client::Gateway;

/// How a command reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// For people.
    Text,
    /// What the gateway answered.
    Json,
}

/// Reports what was changed, and in which gateway.
pub(super) fn report_change(
    gateway: &Gateway,
    mut answer: Value,
    report: Report,
    text: impl FnOnce(&Value) -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    match report {
        Report::Text => writeln!(out, "{}\ngateway   {gateway}", text(&answer).trim_end()),
        Report::Json => {
            if let Value::Object(answer) = &mut answer {
                answer.insert("gateway".to_owned(), gateway.to_json());
            }
            writeln!(out, "{}", json_text(&answer))
        }
    }
}

/// What the gateway answered, for programs: what it repeats of others drives no terminal.
pub(super) fn json_text(answer: &Value) -> String {
    pilotlight_printable::json(answer.to_string())
}
