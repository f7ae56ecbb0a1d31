//! The keys of a service that make its starts short: what its zygote imports, and when an idle instance is frozen
//! instead of stopped.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use pilotlight_supervisor::{Preload, PreloadAt, ServiceSpec, Transport};
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic, Span};
use super::readers::choice;
use super::schema;
use super::section::{Field, Section, a_time, noted, or_none, type_name};
use super::shown::shown;
use super::value::{HumanTime, Rejected};

/// The first word of the command and where it stands, if there is one.
pub(super) type Program<'a> = Option<(&'a str, Span)>;

/// `stops_after`: when an idle instance is stopped, if it is.
pub(super) fn freeze_after(
    section: &Section<'_>,
    stops_after: Option<Duration>,
    spec: &mut ServiceSpec,
    found: &mut Vec<Diagnostic>,
) {
    section.set("freeze_after", or_none(a_time(&ServiceSpec::FREEZE_AFTER)), &mut spec.freeze_after, found);
    if let (Some(freeze), Some(idle), Some(field)) = (spec.freeze_after, stops_after, section.field("freeze_after"))
        && freeze >= idle
    {
        let message = format!("`freeze_after` has no effect: after `idle_timeout` ({}) it is stopped", HumanTime(idle));
        found.push(
            Diagnostic::warning(Code::NoEffect, field.key_at, message).help("make it shorter than `idle_timeout`"),
        );
    }
}

/// What the zygote of the service imports, if it has one.
pub(super) fn preload(
    section: &Section<'_>,
    spec: &ServiceSpec,
    program: Program<'_>,
    found: &mut Vec<Diagnostic>,
) -> Option<Preload> {
    let at = section.field("preload_at");
    let when = at.as_ref().and_then(|field| noted(choice(field, &["boot", "first"]), found));
    let Some(field) = section.field("preload") else {
        if let Some(at) = at.filter(|_| !section.mentions("preload")) {
            let message = "`preload_at` has no effect without `preload`";
            found.push(
                Diagnostic::warning(Code::NoEffect, at.key_at, message)
                    .help("add preload = [\"flask\"], or take it away"),
            );
        }
        return None;
    };
    if spec.transport != Transport::Pipe {
        let message = "`preload` is for services that use the pipe, and this one does not";
        found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(
            "take `preload` away, or use transport = \"pipe\" (for WSGI: python3 -m pilotlight.wsgi MODULE:APP)",
        ));
        return None;
    }
    let modules = modules(&field, found)?;
    if let Some((program, at)) = program.filter(|(program, _)| !is_python(program)) {
        let message =
            format!("`preload` is for programs that Python runs, and the command begins with {}", shown(program));
        found.push(
            Diagnostic::warning(Code::NoEffect, field.key_at.clone(), message).related(at, "`command` is").help(
                "begin the command with python3, for example [\"python3\", \"-m\", \"pilotlight.wsgi\", \"app:app\"]",
            ),
        );
    }
    if modules.is_empty() {
        let message = "`preload` is empty, so instances start in the ordinary way";
        found.push(
            Diagnostic::warning(Code::NoEffect, field.at, message).help("name the modules that take long to import"),
        );
        return None;
    }
    // One that is kept within bounds is executed.
    if !spec.isolation.is_none() {
        let message = "`preload` has no effect for a service with a user, secrets, limits or a sandbox of its own";
        let help = "take one of the two away: such instances are put into their bounds one by one, and started in the ordinary way";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
        return None;
    }
    Some(Preload { modules, at: if when == Some("first") { PreloadAt::First } else { PreloadAt::Boot } })
}

fn modules(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<String>> {
    let Some(list) = field.value.as_array() else {
        found.push(field.wrong_type());
        return None;
    };
    if list.len() > schema::MAX_PRELOAD {
        let message = format!("`preload` has {} modules; at most {} are allowed", list.len(), schema::MAX_PRELOAD);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return None;
    }
    let (mut modules, mut seen, mut is_good) = (Vec::with_capacity(list.len()), HashSet::new(), true);
    for item in list.iter() {
        let wrong = match item.get_ref() {
            DeValue::String(name) if !is_module(name) => {
                let reason = format!("{} is not the name of a Python module", shown(name));
                field.rejected(Rejected::help(reason, "write it as `import` has it: \"flask\", \"shop.views\""))
            }
            DeValue::String(name) if !seen.insert(name.to_string()) => {
                let message = format!("{} is there twice", shown(name));
                found.push(Diagnostic::warning(Code::Duplicate, item.span(), message).help("take one of the two away"));
                continue;
            }
            DeValue::String(name) => {
                modules.push(name.to_string());
                continue;
            }
            other => {
                let message = format!("each module of `preload` must be a string, not {}", type_name(other));
                Diagnostic::error(Code::WrongType, item.span(), message)
                    .help("write it in quotes, for example \"flask\"")
            }
        };
        found.push(Diagnostic { span: Some(item.span()), ..wrong });
        is_good = false;
    }
    is_good.then_some(modules)
}

/// `package.module`: identifiers and dots.
fn is_module(name: &str) -> bool {
    name.split('.').all(|part| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

fn is_python(program: &str) -> bool {
    let name = Path::new(program).file_name().map_or_else(String::new, |name| name.to_string_lossy().to_lowercase());
    name.starts_with("python") || name.starts_with("pypy")
}
