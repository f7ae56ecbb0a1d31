//! Readers of values that several sections have: one of some words, a list of words, a path.

use http::HeaderName;
use toml::de::{DeArray, DeTable, DeValue};

use super::diagnostic::{Code, Diagnostic, Span};
use super::schema::{self, Part};
use super::section::{Field, Section, noted, type_name};
use super::shown::shown;
use super::value::{Rejected, nearest};

/// Most bytes of a request's target, and of its host.
const MAX_TARGET: usize = 1024;

/// The keys of a section that may also be `false`, or `true` where it needs no key.
pub(super) fn section<'a>(
    root: &Section<'a>,
    name: &str,
    part: Part,
    empty: &'a DeTable<'a>,
    found: &mut Vec<Diagnostic>,
) -> Option<(Section<'a>, Option<Field<'a>>)> {
    let place = format!("in [{name}]");
    let Some(field) = root.field(name) else { return Some((Section::read(part, &place, 0..0, empty, found), None)) };
    let table = match field.value {
        DeValue::Boolean(false) => return None,
        DeValue::Boolean(true) => empty,
        value => noted(value.as_table().ok_or_else(|| field.wrong_type()), found)?,
    };
    Some((Section::read(part, &place, field.at.clone(), table, found), Some(field)))
}

/// One of some words.
pub(super) fn word<T: Copy>(field: &Field<'_>, words: &[(&str, T)], found: &mut Vec<Diagnostic>) -> Option<T> {
    let text = noted(field.string(), found)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    let help = match nearest(text, words.iter().map(|(word, _)| *word)) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            format!("it is one of {}", all.join(", "))
        }
    };
    let message = format!("{} means nothing as `{}`", shown(text), field.key.name);
    found.push(Diagnostic::error(Code::BadValue, field.at.clone(), message).help(help));
    None
}

/// One of the choices, which the key's description lists.
pub(super) fn choice(field: &Field<'_>, choices: &[&'static str]) -> Result<&'static str, Diagnostic> {
    let text = field.string()?;
    choices.iter().copied().find(|choice| *choice == text).ok_or_else(|| {
        let help = nearest(text, choices.iter().copied()).map(|choice| format!("did you mean \"{choice}\"?"));
        let wrong = Rejected { reason: format!("{} is not one of {}", shown(text), field.key.takes), help };
        field.rejected(wrong)
    })
}

/// Path and query of a request (RFC 9112 §3.2.1: origin form).
pub(super) fn target(text: &str, field: &Field<'_>) -> Result<String, Diagnostic> {
    let is_good = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if is_good && text.len() <= MAX_TARGET {
        return Ok(text.to_owned());
    }
    let wrong = format!("{} is not the path of a request: it begins with `/` and has no spaces", shown(text));
    Err(field.rejected(Rejected::new(wrong)))
}

/// A host, maybe with a port.
pub(super) fn host(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'[' | b']');
    if !text.is_empty() && text.len() <= MAX_TARGET && text.bytes().all(is_good) {
        return Ok(text.to_owned());
    }
    let wrong = format!("{} is not a host, with or without a port", shown(text));
    Err(field.rejected(Rejected::new(wrong)))
}

/// A path, which is not empty.
pub(super) fn non_empty<'a>(field: &Field<'a>) -> Result<&'a str, Diagnostic> {
    let text = field.string()?;
    if text.is_empty() || text.contains('\0') {
        return Err(field.rejected(Rejected::help(
            "this is not a path",
            "write a folder, or take the key away for the folder of this file",
        )));
    }
    Ok(text)
}

/// The words of a list, and where each stands; `None` if one of them is no string.
pub(super) fn read_words(
    field: &Field<'_>,
    list: &DeArray<'_>,
    found: &mut Vec<Diagnostic>,
) -> Option<Vec<(String, Span)>> {
    let mut argv = Vec::with_capacity(list.len());
    let mut is_good = true;
    for item in list.iter() {
        match item.get_ref() {
            DeValue::String(word) => argv.push((word.to_string(), item.span())),
            other => {
                let message = format!("each word of `{}` must be a string, not {}", field.key.name, type_name(other));
                let help = "write it in quotes, for example \"8000\"";
                found.push(Diagnostic::error(Code::WrongType, item.span(), message).help(help));
                is_good = false;
            }
        }
    }
    is_good.then_some(argv)
}

/// A field by which a service is told who the client is.
pub(super) fn passed_field(word: &str) -> Result<HeaderName, Rejected> {
    const OWN: [&str; 13] = [
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "via",
        "forwarded",
        "cookie",
        "x-request-id",
        "authorization",
    ];
    let name: HeaderName = word
        .parse()
        .map_err(|_| Rejected::help(format!("{} is not the name of a field", shown(word)), "for example \"X-User\""))?;
    match OWN.contains(&name.as_str()) || name.as_str().starts_with("x-forwarded-") {
        false => Ok(name),
        true => Err(Rejected::help(
            format!("{} is a field of the request itself", shown(word)),
            "name one that only says who the client is, for example \"X-User\"",
        )),
    }
}

/// `what` has a name: a service, a group.
pub(super) fn check_name(name: &str, what: &str, at: &Span) -> Result<(), Diagnostic> {
    let is_good = !name.is_empty()
        && name.len() <= schema::MAX_NAME
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'));
    if is_good {
        return Ok(());
    }
    let simple: String =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    let simple = if simple.is_empty() || simple.len() > schema::MAX_NAME { "users".to_owned() } else { simple };
    let message = format!(
        "{} is not a name for a {what}: it has 1 to {} of a-z, 0-9, `-` and `_`",
        shown(name),
        schema::MAX_NAME
    );
    Err(Diagnostic::error(Code::BadValue, at.clone(), message).help(format!("write for example [{what}s.{simple}]")))
}
