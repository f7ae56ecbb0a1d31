//! `json` of a route: what fields of a request's body have to say.

use pilotlight_gateway::{JsonPattern, JsonRule};
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic};
use super::section::{Field, type_name};
use super::shown::shown;

pub(super) fn read(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<JsonRule> {
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type());
        return None;
    };
    let wrong = |message: &str| Diagnostic::error(Code::BadValue, field.at.clone(), format!("`json`: {message}"));
    if table.is_empty() {
        found.push(wrong("it names no field").help("write json = { model = \"llama-3*\" }"));
        return None;
    }
    if table.len() > JsonRule::MAX_FIELDS {
        let most = JsonRule::MAX_FIELDS;
        found.push(wrong(&format!("it has {} fields; at most {most} are allowed", table.len())));
        return None;
    }
    let (mut rule, before) = (JsonRule::default(), found.len());
    for (name, value) in table {
        let key = name.get_ref().as_ref();
        if key.is_empty() || key.len() > JsonRule::MAX_NAME {
            let message = format!("{} is no name for a field: it has 1 to {} bytes", shown(key), JsonRule::MAX_NAME);
            found.push(Diagnostic::error(Code::BadValue, name.span(), message));
            continue;
        }
        let DeValue::String(text) = value.get_ref() else {
            let what = type_name(value.get_ref());
            let message = format!("the value of {} must be a string, not {what}", shown(key));
            let help = "only strings are compared; `*` stands for any text";
            found.push(Diagnostic::error(Code::WrongType, value.span(), message).help(help));
            continue;
        };
        match JsonPattern::new(text) {
            Ok(pattern) => rule.add(key, pattern),
            Err(why) => {
                let message = format!("the pattern of {}: {why}", shown(key));
                found.push(Diagnostic::error(Code::BadValue, value.span(), message));
            }
        }
    }
    (found.len() == before).then_some(rule)
}
