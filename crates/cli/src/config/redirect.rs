//! `redirect` of a route: a URL, or a section.

use pilotlight_gateway::{NotARedirect, Redirect};
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic};
use super::schema::Part;
use super::section::{Field, Section, a_number, noted};
use super::value::Rejected;

/// Reads it.
pub(super) fn read(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Redirect> {
    if let Some(text) = field.value.as_str() {
        return noted(Redirect::parse(text, Redirect::DEFAULT_STATUS).map_err(|why| wrong(field, &why)), found);
    }
    let DeValue::Table(table) = field.value else {
        found.push(field.wrong_type());
        return None;
    };
    let section = Section::read(Part::RouteRedirect, "in the route's redirect", field.at.clone(), table, found);
    let (mut status, mut keeps_path, mut keeps_query) = (Redirect::DEFAULT_STATUS, false, false);
    section.set("status", a_number(&(0..=999_u16)), &mut status, found);
    section.set("keep_path", Field::boolean, &mut keeps_path, found);
    section.set("keep_query", Field::boolean, &mut keeps_query, found);
    let Some(to) = section.field("to") else {
        if !section.mentions("to") {
            let message = "`redirect` has no `to`";
            let help = "add to = \"https://new.example\"";
            found.push(Diagnostic::error(Code::MissingKey, field.at.clone(), message).help(help));
        }
        return None;
    };
    let mut text = noted(to.string(), found)?.to_owned();
    for (name, placeholder, keeps) in [("keep_path", "{path}", keeps_path), ("keep_query", "{query}", keeps_query)] {
        if !keeps {
            continue;
        }
        if text.contains(placeholder) || text.contains('#') || (placeholder == "{path}" && text.contains('?')) {
            let message = format!(
                "`{name}` and `to` contradict each other: `to` says where {placeholder} stands, or ends before it"
            );
            let at = section.field(name).map_or(field.at.clone(), |field| field.key_at);
            found.push(
                Diagnostic::error(Code::Conflict, at, message)
                    .help(format!("take `{name}` away, and write {placeholder} into `to`")),
            );
            return None;
        }
        if placeholder == "{path}" {
            text.truncate(text.trim_end_matches('/').len());
            // A path alone: it needs its slash, which is one with that of the client's.
            if text.is_empty() {
                text.push('/');
            }
        }
        text.push_str(placeholder);
    }
    let read = Redirect::parse(&text, status);
    let at = match &read {
        Err(NotARedirect::Status(_)) => section.field("status").unwrap_or(to),
        _ => to,
    };
    noted(read.map_err(|why| wrong(&at, &why)), found)
}

fn wrong(field: &Field<'_>, why: &NotARedirect) -> Diagnostic {
    field.rejected(match why {
        NotARedirect::Template(_) => {
            Rejected::help(why.to_string(), "the placeholders are {host}, {scheme}, {path} and {query}")
        }
        _ => Rejected::new(why.to_string()),
    })
}
