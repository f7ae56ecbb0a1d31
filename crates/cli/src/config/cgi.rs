//! `cgi` of a service: how a program by FastCGI, SCGI or uwsgi is told of requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilotlight_gateway::{CgiOptions, FilesOptions, ScriptOptions, ScriptPattern, SendFolder, is_file_path};
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic, Span};
use super::files;
use super::model::joined;
use super::schema::Part;
use super::section::{Field, Section, a_number, noted, type_name};
use super::shown::shown;
use super::value::Rejected;

/// Keys of `cgi` that mean something for a folder of scripts only.
const OF_SCRIPTS: [&str; 5] = ["links", "index", "suffix", "fallback", "run"];

/// What is read of `cgi`.
pub(super) struct Cgi {
    pub(super) options: CgiOptions,
    /// The folders that it names, and where.
    pub(super) folders: Vec<(PathBuf, Span)>,
}

/// Reads the value of `cgi`; relative folders are below `dir`.
pub(super) fn read(section: &Section<'_>, dir: &Path, found: &mut Vec<Diagnostic>) -> Option<Cgi> {
    let section = section.part("cgi", Part::ServiceCgi, "in the service's cgi", found)?;
    let (mut options, mut folders) = (CgiOptions::default(), Vec::new());
    let root = section.field("root").and_then(|field| Some((noted(files::root(&field), found)?.to_owned(), field.at)));
    match root {
        Some((root, at)) => {
            let root = joined(dir, &root);
            folders.push((root.clone(), at));
            let links = files::links(&section, dir, found);
            options.scripts = Some(scripts(&section, root, links, found));
        }
        None => without_root(&section, found),
    }
    options.params = section.field("params").map(|field| params(&field, found)).unwrap_or_default();
    if let Some(field) = section.field("sendfile") {
        for (folder, at) in sendfile(&field, dir, found) {
            folders.push((folder.files.root.clone(), at));
            options.sendfile.push(folder);
        }
    }
    section.set("keep_connections", a_number(&CgiOptions::KEEP_CONNECTIONS), &mut options.keep_connections, found);
    Some(Cgi { options, folders })
}

fn without_root(section: &Section<'_>, found: &mut Vec<Diagnostic>) {
    if section.mentions("root") && section.field("root").is_some() {
        return; // what is wrong with it has been said
    }
    for field in OF_SCRIPTS.iter().filter_map(|name| section.field(name)) {
        let message = format!("`{}` has no effect without `root`, the folder of the scripts", field.key.name);
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("add root = \"public\""));
    }
}

fn scripts(section: &Section<'_>, root: PathBuf, links: Vec<PathBuf>, found: &mut Vec<Diagnostic>) -> ScriptOptions {
    let mut scripts = ScriptOptions::new(root);
    let files = FilesOptions { links, ..(*scripts.files).clone() };
    scripts.files = Arc::new(files);
    section.set("suffix", suffix, &mut scripts.suffix, found);
    section.set("fallback", |field| files::path(field).map(Some), &mut scripts.fallback, found);
    if let Some(field) = section.field("index") {
        let one = |text: &str| match is_file_path(text) {
            true => Ok(text.to_owned()),
            false => Err(Rejected::help(
                format!("{} is not the name of a file", shown(text)),
                "write for example [\"index.php\", \"index.html\"]",
            )),
        };
        scripts.index = list(&field, found, one);
    }
    if let Some(field) = section.field("run") {
        let one = |text: &str| {
            ScriptPattern::new(text).map_err(|why| {
                Rejected::help(format!("the pattern {} {why}", shown(text)), "for example \"index.php\", or \"admin/\"")
            })
        };
        scripts.allowed = Some(list(&field, found, one));
    }
    scripts
}

fn suffix(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    let is_good = text.len() > 1 && text.starts_with('.') && is_file_path(&format!("x{text}")) && !text.contains('/');
    if is_good {
        return Ok(text.to_owned());
    }
    Err(field.rejected(Rejected::help(
        format!("{} is not the end of a script's name", shown(text)),
        "write it from its dot on, for example \".php\"",
    )))
}

/// A string, or a list of them.
fn list<T>(field: &Field<'_>, found: &mut Vec<Diagnostic>, read: impl Fn(&str) -> Result<T, Rejected>) -> Vec<T> {
    let texts: Vec<(&str, Span)> = match field.value {
        DeValue::String(text) => vec![(text, field.at.clone())],
        DeValue::Array(items) => {
            let mut texts = Vec::new();
            for item in items.iter() {
                match item.get_ref() {
                    DeValue::String(text) => texts.push((&**text, item.span())),
                    other => {
                        let message =
                            format!("each of `{}` must be a string, not {}", field.key.name, type_name(other));
                        found.push(Diagnostic::error(Code::WrongType, item.span(), message));
                    }
                }
            }
            texts
        }
        _ => {
            found.push(field.wrong_type());
            return Vec::new();
        }
    };
    if texts.len() > ScriptOptions::MAX_NAMES {
        let (count, most) = (texts.len(), ScriptOptions::MAX_NAMES);
        let message = format!("`{}` has {count} entries; at most {most} are allowed", field.key.name);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return Vec::new();
    }
    let one = |(text, at): (&str, Span)| {
        noted(read(text).map_err(|wrong| Field { at, ..field.clone() }.rejected(wrong)), found)
    };
    texts.into_iter().filter_map(one).collect()
}

/// The entries of a table of strings, with the place of each value.
fn entries<'a>(field: &Field<'a>, found: &mut Vec<Diagnostic>) -> Vec<(String, &'a str, Span)> {
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    if table.len() > CgiOptions::MAX_ENTRIES {
        let (count, most) = (table.len(), CgiOptions::MAX_ENTRIES);
        let message = format!("`{}` has {count} entries; at most {most} are allowed", field.key.name);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return Vec::new();
    }
    let mut all = Vec::new();
    for (name, value) in table {
        match value.get_ref() {
            DeValue::String(text) => all.push((name.get_ref().to_string(), &**text, value.span())),
            other => {
                let message = format!("{} must be a string, not {}", shown(name.get_ref()), type_name(other));
                found.push(Diagnostic::error(Code::WrongType, value.span(), message));
            }
        }
    }
    all
}

fn params(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Vec<(String, String)> {
    let mut params = Vec::new();
    for (name, value, at) in entries(field, found) {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || name == "CONTENT_LENGTH" || value.contains('\0') {
            let message = format!("{} cannot be a variable of a request", shown(&name));
            let help =
                "a name has letters, digits and `_`; CONTENT_LENGTH is the gateway's, and a value has no zero byte";
            found.push(Diagnostic::error(Code::BadValue, at, message).help(help));
            continue;
        }
        params.push((name, value.to_owned()));
    }
    params
}

fn sendfile(field: &Field<'_>, dir: &Path, found: &mut Vec<Diagnostic>) -> Vec<(SendFolder, Span)> {
    let mut folders = Vec::new();
    for (prefix, root, at) in entries(field, found) {
        if !prefix.starts_with('/') || root.is_empty() || root.contains('\0') {
            let message = format!("`sendfile`: {} = {} is no path and folder", shown(&prefix), shown(root));
            let help = "write the path that X-Accel-Redirect has, and the folder: { \"/private\" = \"storage\" }";
            found.push(Diagnostic::error(Code::BadValue, at, message).help(help));
            continue;
        }
        let files = FilesOptions { index: None, ..FilesOptions::new(joined(dir, root)) };
        let prefix = prefix.trim_end_matches('/').to_owned();
        folders.push((SendFolder { prefix, files: Arc::new(files) }, at));
    }
    folders
}
