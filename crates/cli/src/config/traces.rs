//! `[traces]`: which requests are sampled, and where their spans go. What it leaves open, the environment may say.

use std::path::Path;

use pilotlight_gateway::{ExportOptions, Ratio, RecordedQuery, check_authority_file, read_headers_file};
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Code, Diagnostic};
use super::jwt;
use super::model::{Config, Traces, TracesSpans, TracesWords, joined};
use super::networks;
use super::readers;
use super::schema::Part;
use super::section::{Field, Section, a_time, noted};
use super::shown::shown;
use super::value::Rejected;

/// The collector on this machine.
const ENDPOINT_EXAMPLE: &str = "http://127.0.0.1:4318/v1/traces";
/// Most bytes of `service_name`.
const MAX_NAME: usize = 255;

pub(super) fn read(root: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<Traces> {
    let field = root.field("traces")?;
    let empty = DeTable::new();
    let table = match field.value {
        DeValue::Boolean(false) => return None,
        DeValue::Boolean(true) => &empty,
        value => noted(value.as_table().ok_or_else(|| field.wrong_type()), found)?,
    };
    let section = Section::read(Part::Traces, "in [traces]", field.at.clone(), table, found);
    let mut words = TracesWords::default();
    let mut at = TracesSpans::default();
    if let Some(field) = section.field("endpoint") {
        let hinted = |wrong: Rejected, text: &str| match text.contains('@') {
            true => Rejected::help(wrong.reason, "write the credentials into `headers_file`"),
            false => wrong,
        };
        let read = |text| jwt::url(text, ENDPOINT_EXAMPLE).map_err(|wrong| field.rejected(hinted(wrong, text)));
        let url = field.string().and_then(read);
        words.endpoint = noted(url, found);
    }
    words.sample = section.field("sample").and_then(|field| noted(ratio(&field), found));
    words.trust_parent = section.field("trust_parent").map(|field| networks::trusted(&field, found));
    section.set("service_name", name, &mut words.service_name, found);
    let mut query = false;
    section.set("query", Field::boolean, &mut query, found);
    words.query = if query { RecordedQuery::Yes } else { RecordedQuery::No };
    if let Some(field) = section.field("headers_file") {
        words.headers_file = noted(readers::non_empty(&field), found).map(|text| joined(folder, text));
        at.headers_file = field.at;
    }
    if let Some(field) = section.field("ca") {
        words.ca = noted(readers::non_empty(&field), found).map(|text| joined(folder, text));
        if words.endpoint.as_ref().is_some_and(|url| url.scheme_str() != Some("https")) {
            let message = "`ca` has no effect: `endpoint` is no https URL";
            found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
        }
        at.ca = field.at;
    }
    section.set("timeout", a_time(&ExportOptions::TIMEOUT), &mut words.timeout, found);
    Some(Traces { words, at })
}

/// A number from 0 to 1, with or without a fraction.
fn ratio(field: &Field<'_>) -> Result<Ratio, Diagnostic> {
    let text = match field.value {
        DeValue::Float(number) => number.as_str(),
        DeValue::Integer(number) => number.as_str(),
        _ => return Err(field.wrong_type()),
    };
    let bare = text.replace('_', "");
    bare.parse().map_err(|_| field.out_of_range(text, bare.starts_with('-'), &(Ratio::NONE..=Ratio::ALL)))
}

fn name(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    match text.is_empty() || text.len() > MAX_NAME || text.chars().any(char::is_control) {
        true => {
            let reason = format!("{} is no name of 1 to {MAX_NAME} bytes", shown(text));
            Err(field.rejected(Rejected { reason, help: None }))
        }
        false => Ok(text.to_owned()),
    }
}

/// Whether this machine has what is needed.
pub(super) fn check(config: &Config, found: &mut Vec<Diagnostic>) {
    let Some(Traces { words, at }) = &config.traces else { return };
    if let Some(path) = &words.headers_file
        && let Err(error) = read_headers_file(path)
    {
        let message = format!("the file of fields {} cannot be used: {error}", shown(&path.display().to_string()));
        let help = "write a field on each line, for example: x-api-key: SECRET";
        found.push(Diagnostic::error(Code::Missing, at.headers_file.clone(), message).help(help));
    }
    if let Some(path) = &words.ca
        && let Err(error) = check_authority_file(path)
    {
        let message = format!("the file of authorities {} cannot be used: {error}", shown(&path.display().to_string()));
        let help = "write the path of a PEM file with the certificates that the collector is checked by";
        found.push(Diagnostic::error(Code::Missing, at.ca.clone(), message).help(help));
    }
}
