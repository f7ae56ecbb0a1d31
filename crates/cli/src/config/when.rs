//! `when` of a route: what the head of a request has to say besides host and path.

use http::{HeaderName, Method};
use pilotlight_gateway::Conditions;
use toml::de::DeValue;

use super::caching::words;
use super::diagnostic::{Code, Diagnostic};
use super::schema::Part;
use super::section::{Field, Section, type_name};
use super::shown::shown;
use super::value::Rejected;

pub(super) fn read(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Conditions> {
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type());
        return None;
    };
    let before = found.len();
    let section = Section::read(Part::RouteWhen, "in the route's `when`", field.at.clone(), table, found);
    let methods = words(section.field("methods").as_ref(), found, |word, _| {
        let is_upper = !word.bytes().any(|byte| byte.is_ascii_lowercase());
        let method = word.parse::<Method>().ok().filter(|_| is_upper);
        method.ok_or_else(|| Rejected::new(format!("{} is not a method: they are in capitals", shown(word))))
    });
    let fields = pairs(section.field("headers").as_ref(), found, |name| name.parse::<HeaderName>().ok());
    let query = pairs(section.field("query").as_ref(), found, |name| Some(name.to_owned()).filter(|n| !n.is_empty()));
    let ports = ports(section.field("ports").as_ref(), found);
    let conditions = Conditions { methods, fields, query, ports };
    if found.len() > before {
        return None;
    }
    if conditions.is_empty() {
        let message = "`when` asks for nothing";
        let help = "write when = { headers = { version = \"two\" } }, or take it away";
        found.push(Diagnostic::error(Code::BadValue, field.at.clone(), message).help(help));
        return None;
    }
    Some(conditions)
}

fn pairs<T>(
    field: Option<&Field<'_>>,
    found: &mut Vec<Diagnostic>,
    named: impl Fn(&str) -> Option<T>,
) -> Vec<(T, String)> {
    let Some(field) = field else { return Vec::new() };
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    if table.len() > Conditions::MAX_EACH {
        found.push(too_many(field, table.len()));
        return Vec::new();
    }
    let mut read = Vec::new();
    for (name, value) in table {
        let key = name.get_ref().as_ref();
        match (named(key), value.get_ref()) {
            (None, _) => {
                let message = format!("`{}`: {} is not a name", field.key.name, shown(key));
                found.push(Diagnostic::error(Code::BadValue, name.span(), message));
            }
            (Some(known), DeValue::String(text)) if text.len() <= Conditions::MAX_VALUE => {
                read.push((known, text.to_string()));
            }
            (Some(_), DeValue::String(_)) => {
                let message = format!("the value of {} is longer than {} bytes", shown(key), Conditions::MAX_VALUE);
                found.push(Diagnostic::error(Code::OutOfRange, value.span(), message));
            }
            (Some(_), other) => {
                let message = format!("the value of {} must be a string, not {}", shown(key), type_name(other));
                found.push(Diagnostic::error(Code::WrongType, value.span(), message));
            }
        }
    }
    read
}

fn ports(field: Option<&Field<'_>>, found: &mut Vec<Diagnostic>) -> Vec<u16> {
    let Some(field) = field else { return Vec::new() };
    let DeValue::Array(list) = field.value else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    if list.len() > Conditions::MAX_EACH {
        found.push(too_many(field, list.len()));
        return Vec::new();
    }
    let one = |item: &toml::Spanned<DeValue<'_>>| {
        let field = Field { at: item.span(), value: item.get_ref(), ..field.clone() };
        super::section::noted(field.number(&(1..=u16::MAX)), found)
    };
    list.iter().filter_map(one).collect()
}

fn too_many(field: &Field<'_>, count: usize) -> Diagnostic {
    let message = format!("`{}` has {count} entries; at most {} are allowed", field.key.name, Conditions::MAX_EACH);
    Diagnostic::error(Code::OutOfRange, field.at.clone(), message)
}
