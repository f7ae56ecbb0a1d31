//! `files` of a route: a folder, or `[routes.files]`.

use std::path::{Path, PathBuf};

use pilotlight_gateway::{FileRule, FilesOptions, Listing, is_file_path};
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic, Span};
use super::model::joined;
use super::schema::Part;
use super::section::{Field, Section, noted};
use super::shown::shown;
use super::value::Rejected;

/// Reads the value of `files`.
pub(super) fn read(field: &Field<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<FilesOptions> {
    let DeValue::Table(table) = field.value else {
        return Some(FilesOptions::new(joined(folder, noted(root(field), found)?)));
    };
    let section = Section::read(Part::RouteFiles, "in the route's files", field.at.clone(), table, found);
    let Some(root) = section.field("root") else {
        if !section.mentions("root") {
            let message = "`files` has no `root`";
            found.push(
                Diagnostic::error(Code::MissingKey, section.at.clone(), message)
                    .help("add root = \"FOLDER\", the folder that the files are in"),
            );
        }
        return None;
    };
    let root = noted(self::root(&root), found).map(|root| joined(folder, root));
    let mut options = FilesOptions::new(root.clone().unwrap_or_default());
    options.links = links(&section, folder, found);
    section.set("index", index, &mut options.index, found);
    section.set("fallback", |field| path(field).map(Some), &mut options.fallback, found);
    let listing = |field: &Field<'_>| field.boolean().map(|on| if on { Listing::On } else { Listing::Off });
    section.set("listing", listing, &mut options.listing, found);
    let mut rules =
        |key, value: Value| section.field(key).map(|field| rules(key, &field, value, found)).unwrap_or_default();
    let cache_control = rules("cache_control", Value { is_valid: |_| true, example: "public, max-age=3600" });
    let types = rules("types", Value { is_valid: is_media_type, example: "text/plain; charset=utf-8" });
    (options.cache_control, options.types) = (cache_control, types);
    root.map(|_| options)
}

/// The folders that symbolic links may lead to, relative to `folder`.
pub(super) fn links(section: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    let Some(field) = section.field("links") else { return Vec::new() };
    let Some(list) = field.value.as_array() else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    if list.len() > FilesOptions::MAX_LINKS {
        let message = format!("`links` has {} folders; at most {} are allowed", list.len(), FilesOptions::MAX_LINKS);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return Vec::new();
    }
    let read = list.iter().filter_map(|item| {
        let item = Field { key_at: field.key_at.clone(), at: item.span(), value: item.get_ref(), ..field.clone() };
        noted(root(&item), found).map(|root| joined(folder, root))
    });
    read.collect()
}

pub(super) fn root<'a>(field: &Field<'a>) -> Result<&'a str, Diagnostic> {
    let text = field.string()?;
    if text.is_empty() || text.contains('\0') {
        return Err(field.rejected(Rejected::help("this is not a folder", "write \".\" for the folder of this file")));
    }
    Ok(text)
}

fn index(field: &Field<'_>) -> Result<Option<String>, Diagnostic> {
    match field.value {
        DeValue::Boolean(false) => Ok(None),
        _ => path(field).map(Some),
    }
}

/// The path of a file below the folder.
pub(super) fn path(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    if is_file_path(text) {
        return Ok(text.to_owned());
    }
    Err(field.rejected(Rejected::help(
        format!("{} is not a path below the folder that is served", shown(text)),
        "write it without a slash in front, `..`, or names that begin with a dot",
    )))
}

/// What the rules of a key say.
#[derive(Clone, Copy)]
struct Value {
    is_valid: fn(&str) -> bool,
    example: &'static str,
}

/// `TYPE/SUBTYPE`, and parameters (RFC 9110 §8.3.1).
fn is_media_type(text: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let essence = text.split(';').next().unwrap_or(text).trim_end();
    essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

fn rules(key: &str, field: &Field<'_>, wanted: Value, found: &mut Vec<Diagnostic>) -> Vec<FileRule> {
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    if table.len() > FilesOptions::MAX_RULES {
        let message = format!("`{key}` has {} entries; at most {} are allowed", table.len(), FilesOptions::MAX_RULES);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return Vec::new();
    }
    let rule = |pattern: &str, at: &Span, field: &Field<'_>| {
        let value = field.string()?;
        let is_valid = !value.is_empty() && (wanted.is_valid)(value);
        let value = value.parse().ok().filter(|_| is_valid).ok_or_else(|| {
            let help = format!("write it as the field is sent, for example \"{}\"", wanted.example);
            field.rejected(Rejected::help(format!("{} cannot be the value of a field", shown(value)), help))
        })?;
        FileRule::new(pattern, value).map_err(|why| {
            let message = format!("`{key}`: the pattern {} {why}", shown(pattern));
            Diagnostic::error(Code::BadValue, at.clone(), message).help("for example \"assets/*\", or \"*.html\"")
        })
    };
    let read = table.iter().filter_map(|(name, value)| {
        let field = Field { key_at: name.span(), at: value.span(), value: value.get_ref(), ..field.clone() };
        noted(rule(name.get_ref(), &name.span(), &field), found)
    });
    read.collect()
}

/// Whether the folders are there.
pub(super) fn check(roots: &[(PathBuf, Span)], found: &mut Vec<Diagnostic>) {
    for (root, at) in roots {
        let (message, help) = match std::fs::read_dir(root) {
            Ok(_) => continue,
            Err(_) if root.is_dir() => ("cannot be read by this user", format!("chmod o+rx {}", root.display())),
            Err(_) if root.exists() => ("is not a folder", "name the folder that the files are in".to_owned()),
            Err(_) => ("does not exist", format!("mkdir -p {}", root.display())),
        };
        let message = format!("the folder {} {message}", shown(&root.display().to_string()));
        found.push(Diagnostic::error(Code::Missing, at.clone(), message).help(help));
    }
}
