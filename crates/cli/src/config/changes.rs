//! What a route changes of requests and responses: fields, and the path that the service is asked for.

use pilotlight_gateway::{
    ErrorPages, FieldDirection, FieldPattern, FieldRuleError, FieldRules, FieldValue, NotARewrite, Rewrite,
    RouteChanges,
};
use toml::de::DeValue;

use super::caching::words;
use super::diagnostic::{Code, Diagnostic, Span};
use super::schema::Part;
use super::section::{Field, Section, noted, type_name};
use super::shown::shown;
use super::value::Rejected;

/// Reads what a route says; `path` is its own, if it has a good one.
pub(super) fn read(
    route: &Section<'_>,
    path: &str,
    errors: ErrorPages,
    found: &mut Vec<Diagnostic>,
) -> Option<RouteChanges> {
    let request = Part::RouteRequestFields;
    let response = Part::RouteResponseFields;
    let changes = RouteChanges {
        request_fields: route
            .part("request_fields", request, "in the route's request_fields", found)
            .map(|section| fields(&section, FieldDirection::Request, found))
            .unwrap_or_default(),
        response_fields: route
            .part("response_fields", response, "in the route's response_fields", found)
            .map(|section| fields(&section, FieldDirection::Response, found))
            .unwrap_or_default(),
        rewrite: route.field("rewrite").and_then(|field| rewrite(&field, path, found)),
        errors,
    };
    if let (Some(_), Some(rewritten), Some(stripped)) = (
        &changes.rewrite,
        route.field("rewrite"),
        route.field("strip_prefix").filter(|field| field.boolean() == Ok(true)),
    ) {
        let message = "`rewrite` and `strip_prefix` cannot both be there";
        found.push(
            Diagnostic::error(Code::Conflict, rewritten.key_at, message)
                .related(stripped.key_at, "`strip_prefix` is")
                .help("`strip_prefix` is the same as rewrite = \"/\": take it away"),
        );
    }
    (changes != RouteChanges::default()).then_some(changes)
}

fn fields(section: &Section<'_>, direction: FieldDirection, found: &mut Vec<Diagnostic>) -> FieldRules {
    let rules = FieldRules {
        set: values(section.field("set"), direction, found),
        add: values(section.field("add"), direction, found),
        remove: words(section.field("remove").as_ref(), found, |word, _| {
            FieldPattern::parse(direction, word).map_err(|why| rejected(word, &why))
        }),
    };
    if let (Some(host), Some(field)) = (rules.add.iter().find(|one| one.is_host()), section.field("add"))
        && direction == FieldDirection::Request
    {
        let message = format!("`add`: {} cannot be there twice", shown(host.name.as_str()));
        found.push(Diagnostic::error(Code::BadValue, field.at, message).help("write it into `set`"));
    }
    for (name, list) in [("set", rules.set.len()), ("add", rules.add.len())] {
        if let Some(field) = section.field(name).filter(|_| list > FieldRules::MAX_ENTRIES) {
            let message = format!("`{name}` has {list} fields; at most {} are allowed", FieldRules::MAX_ENTRIES);
            found.push(Diagnostic::error(Code::OutOfRange, field.at, message));
        }
    }
    rules
}

/// A table of names, each with its value or its values.
fn values(field: Option<Field<'_>>, direction: FieldDirection, found: &mut Vec<Diagnostic>) -> Vec<FieldValue> {
    let Some(field) = field else { return Vec::new() };
    let DeValue::Table(table) = field.value else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    let mut values = Vec::new();
    for (name, value) in table {
        let texts: Vec<(Span, &DeValue<'_>)> = match value.get_ref() {
            DeValue::Array(list) => list.iter().map(|item| (item.span(), item.get_ref())).collect(),
            one => vec![(value.span(), one)],
        };
        for (at, text) in texts {
            let name = name.get_ref();
            let Some(text) = text.as_str() else {
                let message = format!("the value of {} must be a string, not {}", shown(name), type_name(text));
                let help = "write it in quotes; several values are a list of strings";
                found.push(Diagnostic::error(Code::WrongType, at, message).help(help));
                continue;
            };
            let read = FieldValue::parse(direction, name, text);
            let field = Field { at, ..field.clone() };
            values.extend(noted(read.map_err(|why| field.rejected(rejected(name, &why))), found));
        }
    }
    values
}

/// What is wrong with a field; its value, which may be a secret, is not shown.
fn rejected(name: &str, why: &FieldRuleError) -> Rejected {
    let reason = format!("{} {why}", shown(name));
    match why {
        FieldRuleError::Name => Rejected::help(reason, "a name has letters, digits and `-` (RFC 9110 §5.1)"),
        FieldRuleError::Refused(_) => Rejected::help(reason, "take it away"),
        FieldRuleError::Template(_) => {
            Rejected::help(reason, "the placeholders are {client}, {host}, {scheme}, {request_id}, {path} and {query}")
        }
        FieldRuleError::Empty => Rejected::help(reason, format!("to leave the field out write remove = [\"{name}\"]")),
        FieldRuleError::Value => Rejected::new(reason),
        FieldRuleError::Host => Rejected::help(reason, "for example \"app.internal:8080\""),
    }
}

/// A path in place of the route's own, or a section that says in place of what.
fn rewrite(field: &Field<'_>, path: &str, found: &mut Vec<Diagnostic>) -> Option<Rewrite> {
    if let Some(to) = field.value.as_str() {
        return noted(Rewrite::prefix(path, to).map_err(|why| wrong(field, &why)), found);
    }
    let DeValue::Table(table) = field.value else {
        found.push(field.wrong_type());
        return None;
    };
    let section = Section::read(Part::RouteRewrite, "in the route's rewrite", field.at.clone(), table, found);
    let Some(to) = section.field("to") else {
        if !section.mentions("to") {
            let message = "`rewrite` has no `to`";
            found.push(Diagnostic::error(Code::MissingKey, field.at.clone(), message).help("add to = \"/v1\""));
        }
        return None;
    };
    let to_text = noted(to.string(), found)?;
    match (section.field("prefix"), section.field("pattern")) {
        (Some(prefix), Some(pattern)) => {
            let message = "`prefix` and `pattern` cannot both be there";
            found.push(
                Diagnostic::error(Code::Conflict, pattern.key_at, message)
                    .related(prefix.key_at, "`prefix` is")
                    .help("take one of the two away"),
            );
            None
        }
        (None, Some(pattern)) => {
            let text = noted(pattern.string(), found)?;
            noted(Rewrite::pattern(text, to_text).map_err(|why| wrong(&pattern, &why)), found)
        }
        (Some(prefix), None) => {
            let text = noted(prefix.string(), found)?;
            let below = |one: &str, other: &str| {
                let other = other.trim_end_matches('/');
                one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if !below(text, path) && !below(path, text) {
                let message = format!("`prefix` has no effect: the route is for {}", shown(path));
                found.push(Diagnostic::warning(Code::NoEffect, prefix.at.clone(), message).help("take it away"));
            }
            noted(Rewrite::prefix(text, to_text).map_err(|why| wrong(&prefix, &why)), found)
        }
        (None, None) => noted(Rewrite::prefix(path, to_text).map_err(|why| wrong(&to, &why)), found),
    }
}

fn wrong(field: &Field<'_>, why: &NotARewrite) -> Diagnostic {
    field.rejected(Rejected::new(why.to_string()))
}
