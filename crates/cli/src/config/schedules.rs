//! `[[schedules]]`: requests that services get at certain times.

use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use pilotlight_gateway::{Missed, ScheduleSpec};
use pilotlight_schedule::{Cron, Zone};
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{Config, Schedule};
use super::readers::{choice, host, target};
use super::schema::Part;
use super::section::{Field, Section, a_time, noted, type_name};
use super::shown::shown;
use super::value::Rejected;

/// Bytes of a name.
const MAX_NAME: usize = 100;

/// Bytes of an event.
const MAX_EVENT: usize = 64 * 1024;

/// The schedules of a file, and the services that they name.
pub(super) fn read_all(field: Option<Field<'_>>, found: &mut Vec<Diagnostic>) -> (Vec<Schedule>, Vec<(String, Span)>) {
    let (mut all, mut services) = (Vec::new(), Vec::new());
    let Some(field) = field else { return (all, services) };
    let DeValue::Array(list) = field.value else {
        let diagnostic = field.wrong_type();
        found.push(match field.value {
            DeValue::Table(_) => diagnostic.help("write [[schedules]], with two brackets, once for each schedule"),
            _ => diagnostic,
        });
        return (all, services);
    };
    if list.len() > ScheduleSpec::MAX {
        let message = format!("the file has {} schedules; at most {} are allowed", list.len(), ScheduleSpec::MAX);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
    }
    let mut names: HashMap<String, Span> = HashMap::new();
    for item in list.iter().take(ScheduleSpec::MAX) {
        let DeValue::Table(table) = item.get_ref() else {
            let message = format!("each of `schedules` must be a section, not {}", type_name(item.get_ref()));
            let help = "write [[schedules]] with cron = \"…\", service = \"…\" and path = \"…\" below it";
            found.push(Diagnostic::error(Code::WrongType, item.span(), message).help(help));
            continue;
        };
        let Some((schedule, at)) = read(item.span(), table, &mut services, found) else { continue };
        match names.get(&schedule.spec.name) {
            Some(first) => {
                let message = format!("the schedule {} is defined twice", shown(&schedule.spec.name));
                let help = "give one of the two another `name`; without one it is that of the service and the path";
                found.push(
                    Diagnostic::error(Code::Duplicate, at, message).related(first.clone(), "the first is").help(help),
                );
            }
            None => {
                names.insert(schedule.spec.name.clone(), at);
                all.push(schedule);
            }
        }
    }
    (all, services)
}

fn read<'a>(
    at: Span,
    table: &'a DeTable<'a>,
    services: &mut Vec<(String, Span)>,
    found: &mut Vec<Diagnostic>,
) -> Option<(Schedule, Span)> {
    let section = Section::read(Part::Schedule, "in [[schedules]]", at.clone(), table, found);
    for (name, example) in [("cron", "\"30 2 * * *\""), ("service", "\"app\""), ("path", "\"/tasks/cleanup\"")] {
        if !(section.mentions(name) || name == "path" && section.mentions("event")) {
            let message = format!("the schedule has no `{name}`");
            let help = format!("add {name} = {example}");
            found.push(Diagnostic::error(Code::MissingKey, at.clone(), message).help(help));
        }
    }
    let cron = section.field("cron").and_then(|field| noted(cron(&field), found));
    let service = section.field("service").and_then(|field| {
        let name = noted(field.string(), found)?.to_owned();
        services.push((name.clone(), field.at));
        Some(name)
    });
    let path =
        section.field("path").and_then(|field| noted(field.string().and_then(|text| target(text, &field)), found));
    let event_field = section.field("event");
    let event = event_field.as_ref().and_then(|field| noted(event(field), found));
    if let (Some(event), Some(path)) = (&event_field, section.field("path")) {
        let message = "a schedule has either `path`, for a request, or `event`, for a function";
        found.push(
            Diagnostic::error(Code::Conflict, event.key_at.clone(), message)
                .related(path.key_at, "`path` is")
                .help("take one of the two away"),
        );
    }
    let path = path.or_else(|| event.as_ref().map(|_| "/".to_owned()));
    let name = section.field("name").map(|field| noted(name(&field), found));
    let timezone = section.field("timezone");
    let zone = timezone.as_ref().map(|field| noted(a_zone(field), found));
    let (mut authority, mut method, mut jitter) = ("localhost".to_owned(), Method::POST, Default::default());
    let (mut timeout, mut missed) = (ScheduleSpec::DEFAULT_TIMEOUT, Missed::default());
    section.set("host", host, &mut authority, found);
    section.set("method", a_method, &mut method, found);
    section.set("jitter", a_time(&ScheduleSpec::JITTER), &mut jitter, found);
    section.set("timeout", a_time(&ScheduleSpec::TIMEOUT), &mut timeout, found);
    section.set("missed", what_is_missed, &mut missed, found);
    let mut is_shared = false;
    section.set("shared", Field::boolean, &mut is_shared, found);
    let shared_at = section.field("shared").filter(|_| is_shared).map(|field| field.key_at);
    let (cron, service, target) = (cron?, service?, path?);
    let spec = ScheduleSpec {
        name: name.unwrap_or_else(|| Some(own_name(&service, &target)))?,
        cron,
        timezone: zone.unwrap_or_else(|| Some("UTC".to_owned()))?,
        service,
        target,
        event,
        method,
        host: authority,
        jitter,
        timeout,
        missed,
        is_shared,
    };
    let at = section.field("name").map_or(at, |field| field.at);
    let (timezone_at, event_at) = (timezone.map(|field| field.at), event_field.map(|field| field.key_at));
    Some((Schedule { spec: Arc::new(spec), timezone_at, event_at, shared_at }, at))
}

fn cron(field: &Field<'_>) -> Result<Cron, Diagnostic> {
    Cron::parse(field.string()?).map_err(|why| {
        field.rejected(Rejected {
            reason: format!("{}: {why}", shown(field.value.as_str().unwrap_or_default())),
            help: why.help(),
        })
    })
}

fn a_zone(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    Zone::check_name(text).map_err(|_| {
        let wrong = format!("{} is not the name of a time zone", shown(text));
        field.rejected(Rejected::help(wrong, "write a name of the IANA's database, such as \"Europe/Berlin\""))
    })?;
    Ok(text.to_owned())
}

fn a_method(field: &Field<'_>) -> Result<Method, Diagnostic> {
    let text = choice(field, &ScheduleSpec::METHODS)?;
    Ok(Method::from_bytes(text.as_bytes()).unwrap_or(Method::POST))
}

fn event(field: &Field<'_>) -> Result<Arc<str>, Diagnostic> {
    let text = field.string()?;
    if text.len() > MAX_EVENT {
        return Err(field.rejected(Rejected::new(format!("the event has more than {MAX_EVENT} bytes"))));
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => Ok(text.into()),
        Err(e) => {
            let help = "write JSON, for example '{\"task\": \"cleanup\"}'";
            Err(field.rejected(Rejected::help(format!("the event is not JSON: {e}"), help)))
        }
    }
}

/// Events are for functions; what gateways share needs a Redis.
pub(super) fn relations(config: &Config, has_redis: bool, found: &mut Vec<Diagnostic>) {
    for schedule in &config.schedules {
        if let (Some(at), false) = (&schedule.shared_at, has_redis) {
            let message = "`shared` needs a Redis, through which gateways agree on who runs it, and the file has none";
            let help = "add [cache.redis] with url = \"redis://localhost\", or take `shared` away";
            found.push(Diagnostic::error(Code::MissingKey, at.clone(), message).help(help));
        }
        let service = config.services.iter().find(|service| service.name() == schedule.spec.service);
        if let (Some(at), Some(service)) = (&schedule.event_at, service.filter(|service| service.lambda.is_none())) {
            let message = format!("`event` is for functions, and the service {} is none", shown(service.name()));
            let help = "give it transport = \"lambda\", or write `path` instead of `event`";
            found.push(Diagnostic::error(Code::Conflict, at.clone(), message).help(help));
        }
    }
}

fn what_is_missed(field: &Field<'_>) -> Result<Missed, Diagnostic> {
    Ok(if choice(field, &["skip", "run"])? == "run" { Missed::Run } else { Missed::Skip })
}

fn name(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    if !text.is_empty() && text.len() <= MAX_NAME && text.chars().all(is_of_a_name) {
        return Ok(text.to_owned());
    }
    let wrong = format!(
        "{} is not a name for a schedule: it has 1 to {MAX_NAME} letters, digits, `-`, `_`, `.` and `/`",
        shown(text)
    );
    Err(field.rejected(Rejected::new(wrong)))
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/')
}

/// `SERVICE/PATH`.
fn own_name(service: &str, target: &str) -> String {
    let path = target.split('?').next().unwrap_or_default();
    let text = format!("{service}{path}");
    text.chars()
        .map(|c| if is_of_a_name(c) { c } else { '-' })
        .take(MAX_NAME)
        .collect::<String>()
        .trim_end_matches('/')
        .to_owned()
}

/// What only this machine can say: whether it knows the time zones.
pub(super) fn check(config: &Config, found: &mut Vec<Diagnostic>) {
    for schedule in &config.schedules {
        if let (Err(why), Some(at)) = (Zone::load(&schedule.spec.timezone), &schedule.timezone_at) {
            let help = "correct the name, or install the database of time zones (the package tzdata)";
            found.push(Diagnostic::error(Code::Missing, at.clone(), why.to_string()).help(help));
        }
    }
}
