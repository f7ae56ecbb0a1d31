//! `[errors]` and `[routes.errors]`: pages of the operator's own for errors.

use std::path::Path;

use pilotlight_gateway::{ErrorPage, ErrorPages, ErrorStatus, Template};
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{Config, joined};
use super::named_files::PageFile;
use super::schema::{Key, Part};
use super::section::{Field, Section, noted};
use super::shown::shown;
use super::value::{Rejected, nearest};

/// What is read of the pages of a file.
pub(super) struct Pages<'a> {
    /// That of the configuration file.
    pub(super) folder: &'a Path,
    /// Where each of them stands, for those who look at the machine.
    pub(super) files: Vec<PageFile>,
    /// The services that make some of them, and where they are named.
    pub(super) services: Vec<(String, Span)>,
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
                let at = value.span();
                if let Some(page) = self.page(word, value.get_ref(), at, found) {
                    errors.pages.push((status, page));
                }
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

    /// The path of a file, or a section that names a service.
    fn page(&mut self, word: &str, value: &DeValue<'_>, at: Span, found: &mut Vec<Diagnostic>) -> Option<ErrorPage> {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty() && !text.contains('\0')) {
            let path = joined(self.folder, text);
            self.files.push(PageFile { path: path.clone(), at });
            return Some(ErrorPage::File(path));
        }
        let DeValue::Table(table) = value else {
            let message = format!("`{word}` must be the path of a file, or a section that names a service");
            let help = format!("for example: \"{word}\" = \"pages/{word}.html\"");
            found.push(Diagnostic::error(Code::WrongType, at, message).help(help));
            return None;
        };
        let section = Section::read(Part::ErrorService, "in a page of a service", at, table, found);
        let (Some(name), Some(path)) = (section.field("service"), section.field("path")) else {
            let message = format!("`{word}` needs the name of a service, and the path to ask it for");
            let help = format!("for example: \"{word}\" = {{ service = \"errors\", path = \"/error/{{status}}\" }}");
            found.push(Diagnostic::error(Code::MissingKey, section.at, message).help(help));
            return None;
        };
        let text = noted(path.string(), found)?;
        let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
        let read = Template::parse(text, ErrorPage::PLACEHOLDERS).map_err(|why| why.to_string());
        let read =
            read.and_then(|read| if is_path { Ok(read) } else { Err("must be a path that begins with `/`".into()) });
        let help = "the placeholders are {status}, {request_id} and {host}";
        let path = noted(read.map_err(|why| path.rejected(Rejected::help(why, help))), found)?;
        let service = noted(name.string(), found)?.to_owned();
        self.services.push((service.clone(), name.at));
        Some(ErrorPage::Service { name: service, path })
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
