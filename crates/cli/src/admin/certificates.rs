//! `pilotlight certificates`: what there is, what comes, and what a person wants to be done about it.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::client::{Client, Failure};
use super::columns::{Style, left, right, rows};
use super::report::{Report, json_text, report_change};
use super::table;
use crate::config::commands::Outcome;

const DAY: i64 = 24 * 3600;

/// What is done about certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// They are listed.
    List,
    /// A host gets a new one now.
    Renew(String),
    /// All hosts get a new one now.
    RenewAll,
    /// A pair of files is taken.
    Import {
        /// The chain, as PEM.
        certificate: PathBuf,
        /// Its key, as PEM.
        key: PathBuf,
    },
}

/// `pilotlight certificates`.
///
/// # Errors
/// No gateway, no such name, a file that cannot be read, or the output cannot be written.
pub fn certificates(
    client: &Client,
    what: &Certificates,
    report: Report,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let (path, body) = match what {
        Certificates::List => {
            let answer = client.get("/certificates")?;
            match report {
                Report::Json => writeln!(out, "{}", json_text(&answer))?,
                Report::Text => write!(out, "{}", list(&answer, Style::of_stdout()))?,
            }
            return Ok(Outcome::Done);
        }
        Certificates::Renew(name) => ("/certificates/renew", json!({ "name": name })),
        Certificates::RenewAll => ("/certificates/renew", json!({ "all": true })),
        Certificates::Import { certificate, key } => {
            ("/certificates/import", json!({ "certificate": read(certificate)?, "key": read(key)? }))
        }
    };
    let answer = client.post(path, Some(&body))?;
    report_change(client.gateway(), answer, report, changed, out)?;
    Ok(Outcome::Done)
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|cause| Failure::Refused { status: 400, detail: format!("{}: {cause}", path.display()) })
}

fn changed(answer: &Value) -> String {
    let names = |key: &str| {
        let all = answer[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        all.map(table::printable).collect::<Vec<_>>().join(", ")
    };
    if answer["imported"].is_array() {
        return format!("imported for {}", names("imported"));
    }
    format!(
        "a new certificate is being ordered for {}; `pilotlight certificates` says what comes of it",
        names("ordered")
    )
}

/// Certificates that are there, then names that have none.
fn list(answer: &Value, style: Style) -> String {
    let text = |value: &Value| value.as_str().map(table::printable).unwrap_or_default();
    let acme = answer["acme"]["names"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_name = |name: &Value| acme.iter().find(|state| state["name"] == *name);
    let mut lines = Vec::new();
    for one in answer["certificates"].as_array().into_iter().flatten() {
        let names = one["names"].as_array().map(Vec::as_slice).unwrap_or_default();
        let state = names.first().and_then(of_name).filter(|_| one["source"] == "acme");
        let more = if names.len() > 1 { format!(" +{}", names.len() - 1) } else { String::new() };
        lines.push(vec![
            left(names.first().map(text).unwrap_or_default() + &more),
            left(text(&one["source"])),
            left(text(&one["from"])),
            right(ends(one["ends_in_seconds"].as_i64())),
            left(state.map(news).unwrap_or_default()),
        ]);
    }
    for state in acme.iter().filter(|state| state["not_after"].is_null()) {
        lines.push(vec![left(text(&state["name"])), left("acme"), left(""), right("none yet"), left(news(state))]);
    }
    if lines.is_empty() {
        return "there are no certificates\n".to_owned();
    }
    rows(&["NAME", "SOURCE", "FROM", "ENDS", "NEXT"], &lines, style)
}

fn ends(seconds: Option<i64>) -> String {
    match seconds {
        None => String::new(),
        Some(seconds) if seconds < 0 => "over".to_owned(),
        Some(seconds) => format!("in {}", span(seconds)),
    }
}

pub(super) fn span(seconds: i64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / DAY),
    }
}

/// What comes next for a name.
pub(super) fn news(state: &Value) -> String {
    let mut parts = Vec::new();
    if state["ordering"] == true {
        parts.push("being ordered".to_owned());
    } else if let Some(seconds) = state["next_attempt_in_seconds"].as_i64() {
        parts.push(format!("next attempt in {}", span(seconds.max(0))));
    } else if let Some(seconds) = state["renewal_in_seconds"].as_i64().filter(|seconds| *seconds > 0) {
        parts.push(format!("renewed in {}", span(seconds)));
    }
    if let Some(error) = state["last_error"]["text"].as_str() {
        parts.push(table::printable(error));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_and_what_comes() {
        let answer = json!({
            "certificates": [
                { "source": "file", "from": "a.pem", "names": ["a.org", "b.org"], "ends_in_seconds": -1 },
                { "source": "acme", "from": "https://ca/dir", "names": ["c.org"], "ends_in_seconds": 30 * DAY },
            ],
            "acme": { "names": [
                { "name": "c.org", "not_after": "x", "renewal_in_seconds": 3600, "last_error": null },
                { "name": "d.org", "not_after": null, "next_attempt_in_seconds": 61, "last_error": { "text": "no\nwell" } },
            ]},
        });
        let expected = "NAME      SOURCE  FROM               ENDS  NEXT\n\
                        a.org +1  file    a.pem              over\n\
                        c.org     acme    https://ca/dir  in 30 days  renewed in 60 min\n\
                        d.org     acme                    none yet  next attempt in 61 s; no\\nwell\n";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&list(&answer, Style::Plain)), words(expected));
        assert_eq!(list(&json!({ "certificates": [], "acme": null }), Style::Plain), "there are no certificates\n");
    }
}
