//! `[errors]` and `[routes.errors]`: pages of the operator's own for errors.

use std::path::Path;

use pilotlight_gateway::{ErrorPages, ErrorStatus};
use toml::de::DeTable;

use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{Config, PageFile, joined};
use super::schema::{Key, Part};
use super::section::{Field, Section, noted};
use super::shown::shown;
use super::value::nearest;

/// What is read of the pages of a file.
pub(super) struct Pages<'a> {
    /// That of the configuration file.
    pub(super) folder: &'a Path,
    /// Where each of them stands, for those who look at the machine.
    pub(super) files: Vec<PageFile>,
}

impl Pages<'_> {
    /// Reads a section's `errors`; `place` says where it is.
    pub(super) fn read(&mut self, field: Option<Field<'_>>, place: &str, found: &mut Vec<Diagnostic>) -> ErrorPages {
        let Some(field) = field else { return ErrorPages::default() };
        let Some(table) = noted(field.value.as_table().ok_or_else(|| field.wrong_type()), found) else {
            return ErrorPages::default();
        };
        self.read_table(table, field.at, place, found)
    }

    fn read_table<'a>(
        &mut self,
        table: &'a DeTable<'a>,
        at: Span,
        place: &str,
        found: &mut Vec<Diagnostic>,
    ) -> ErrorPages {
        let mut errors = ErrorPages::default();
        let mut section = Section::empty(at);
        for (name, value) in table {
            let word = name.get_ref().as_ref();
            let field =
                |key: &'static Key| Field { key, key_at: name.span(), at: value.span(), value: value.get_ref() };
            if let Some(key) = Part::Errors.keys().iter().find(|key| key.name == word && key.name != STATUS) {
                section.push(field(key));
            } else if let Some(status) = ErrorStatus::parse(word) {
                let text = value.get_ref().as_str().filter(|text| !text.is_empty() && !text.contains('\0'));
                let Some(text) = text else {
                    let (message, help) =
                        (format!("`{word}` must be the path of a file"), format!("\"{word}\" = \"pages/{word}.html\""));
                    found.push(
                        Diagnostic::error(Code::WrongType, value.span(), message).help(format!("for example: {help}")),
                    );
                    continue;
                };
                let path = joined(self.folder, text);
                self.files.push(PageFile { path: path.clone(), at: value.span() });
                errors.pages.push((status, path));
            } else {
                found.push(unknown(word, name.span(), place));
            }
        }
        section.set("intercept", Field::boolean, &mut errors.intercept, found);
        if let (true, true, Some(field)) = (errors.intercept, errors.pages.is_empty(), section.field("intercept")) {
            let message = "`intercept` has no effect: there is no page beside it";
            found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("add \"5xx\" = \"error.html\""));
        }
        errors
    }
}

/// What the schema calls the keys that are statuses.
const STATUS: &str = "STATUS";

fn unknown(word: &str, at: Span, place: &str) -> Diagnostic {
    let message = format!("{} {place} is not a status of an error", shown(word));
    let help = match nearest(word, ["intercept"]) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write a status from 400 to 599, \"4xx\" or \"5xx\": \"404\" = \"pages/404.html\"".to_owned(),
    };
    Diagnostic::error(Code::UnknownKey, at, message).help(help)
}

/// Whether the pages are there, and small enough.
pub(super) fn check(config: &Config, found: &mut Vec<Diagnostic>) {
    for PageFile { path, at } in &config.error_pages {
        if let Err(why) = ErrorPages::read(path) {
            let message = format!("the page {} cannot be read: {why}", path.display());
            let help = "write the path of a file; it is relative to the folder of this file";
            found.push(Diagnostic::error(Code::Missing, at.clone(), message).help(help));
        }
    }
}
