//! `env` of a service.

use std::borrow::Cow;

use pilotlight_supervisor::{HttpSocket, Transport, is_own_variable};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic};
use super::schema;
use super::section::{Field, noted, type_name};
use super::shown::shown;

/// The variables that are set, each with a name that a service may have.
pub(super) fn env(
    field: Option<Field<'_>>,
    transport: Transport,
    found: &mut Vec<Diagnostic>,
) -> Vec<(String, String)> {
    let Some(field) = field else { return Vec::new() };
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    if table.len() > schema::MAX_ENV {
        let message = format!("`env` has {} variables; at most {} are allowed", table.len(), schema::MAX_ENV);
        found.push(Diagnostic::error(Code::OutOfRange, field.at, message));
        return Vec::new();
    }
    let mut env = Vec::with_capacity(table.len());
    for (name, value) in table {
        env.extend(noted(variable(name, value, transport), found));
    }
    env
}

fn variable(
    name: &Spanned<Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    transport: Transport,
) -> Result<(String, String), Diagnostic> {
    let key = name.get_ref().as_ref();
    if key.is_empty() || key.contains(['=', '\0']) {
        let message = format!("{} is not a name for an environment variable", shown(key));
        return Err(Diagnostic::error(Code::BadValue, name.span(), message).help("a name is not empty and has no `=`"));
    }
    let is_api = transport == Transport::Lambda && key == "AWS_LAMBDA_RUNTIME_API";
    let is_told_port = transport.socket() == Some(HttpSocket::Port) && key == "PORT";
    if is_told_port || is_api || is_own_variable(key) {
        let message = format!("{} is set by Pilotlight itself", shown(key));
        return Err(
            Diagnostic::error(Code::Conflict, name.span(), message).help("take it away, or choose another name")
        );
    }
    match value.get_ref() {
        DeValue::String(text) if !text.contains('\0') => Ok((key.to_owned(), text.to_string())),
        DeValue::String(_) => {
            Err(Diagnostic::error(Code::BadValue, value.span(), "a zero byte cannot stand in an environment variable"))
        }
        other => Err(Diagnostic::error(
            Code::WrongType,
            value.span(),
            format!("the value of {} must be a string, not {}", shown(key), type_name(other)),
        )
        .help("write it in quotes")),
    }
}
