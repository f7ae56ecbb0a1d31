//! `[services.NAME]`.

use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use super::address;
use super::cold_start;
use super::diagnostic::{Code, Diagnostic, Span};
use super::isolation;
use super::model::{HttpSocket, Managed, ManagedSpans, Service, ServiceKind, Transport, joined};
use super::readers::{choice, is_reserved, non_empty, read_words};
use super::scaling;
use super::schema::{self, Part};
use super::section::{Field, Section, noted, type_name};
use super::shown::{printable, shown};
use super::value::Rejected;
use super::words;

/// The services of a file.
pub(super) struct Services {
    /// Those that have everything that they need.
    pub(super) complete: Vec<Service>,
    /// The names of all, with the place of each.
    pub(super) declared: Vec<(String, Span)>,
}

/// Keys that only a service that Pilotlight starts has.
fn managed_keys() -> impl Iterator<Item = &'static str> {
    schema::SERVICE.iter().map(|key| key.name).filter(|name| !["command", "url", "transport"].contains(name))
}

/// `queue_max`: the default of each service's `queue.max`.
pub(super) fn read_all(
    field: Option<Field<'_>>,
    folder: &Path,
    queue_max: u64,
    found: &mut Vec<Diagnostic>,
) -> Services {
    let mut services = Services { complete: Vec::new(), declared: Vec::new() };
    let Some(field) = field else { return services };
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type().help("write [services.NAME] for each service, NAME being its name"));
        return services;
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    if entries.len() > schema::MAX_SERVICES {
        let message = format!("the file has {} services; at most {} are allowed", entries.len(), schema::MAX_SERVICES);
        found.push(Diagnostic::error(Code::OutOfRange, entries[schema::MAX_SERVICES].0.span(), message));
        entries.truncate(schema::MAX_SERVICES);
    }
    for (name, value) in entries {
        services.declared.push((name.get_ref().to_string(), name.span()));
        services.complete.extend(read(name, value, (folder, queue_max), found));
    }
    services
}

fn read<'a>(
    name: &Spanned<std::borrow::Cow<'_, str>>,
    value: &'a Spanned<DeValue<'a>>,
    (folder, queue_max): (&Path, u64),
    found: &mut Vec<Diagnostic>,
) -> Option<Service> {
    let (at, name) = (name.span(), name.get_ref().as_ref());
    let good_name = noted(check_name(name, &at), found).is_some();
    let Some(table) = value.get_ref().as_table() else {
        let is_key = schema::SERVICE.iter().any(|key| key.name == name);
        let help = if is_key {
            "a key of a service stands below its heading [services.NAME]".to_owned()
        } else {
            format!("write [services.{}] and its keys below it", printable(name))
        };
        let message = format!("the service {} must be a section, not {}", shown(name), type_name(value.get_ref()));
        found.push(Diagnostic::error(Code::WrongType, value.span(), message).help(help));
        return None;
    };
    let section =
        Section::read(Part::Service, &format!("in [services.{}]", printable(name)), value.span(), table, found);
    let kind = match (section.field("command"), section.field("url")) {
        (Some(command), Some(url)) => {
            found.push(
                Diagnostic::error(Code::Conflict, url.key_at, "a service has either `command` or `url`, not both")
                    .related(command.key_at, "`command` is")
                    .help("`command` if Pilotlight shall start it, `url` if somebody else does"),
            );
            None
        }
        (None, None) if section.mentions("command") || section.mentions("url") => None,
        (None, None) => {
            found.push(
                Diagnostic::error(Code::MissingKey, at.clone(), format!("the service {} has neither `command` nor `url`", shown(name)))
                    .help("add command = [\"./app\"] for a program to start, or url = \"http://127.0.0.1:9000\" for a running server"),
            );
            None
        }
        (Some(command), None) => managed(&section, &command, (folder, queue_max), found)
            .map(|managed| ServiceKind::Managed(Box::new(managed))),
        (None, Some(url)) => external(&section, &url, folder, found),
    };
    let kind = kind.filter(|_| good_name)?;
    Some(Service { name: name.to_owned(), kind, at })
}

fn check_name(name: &str, at: &Span) -> Result<(), Diagnostic> {
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
        "{} is not a name for a service: it has 1 to {} of a-z, 0-9, `-` and `_`",
        shown(name),
        schema::MAX_NAME
    );
    Err(Diagnostic::error(Code::BadValue, at.clone(), message).help(format!("write for example [services.{simple}]")))
}

fn external(section: &Section<'_>, url: &Field<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<ServiceKind> {
    for name in managed_keys() {
        if let Some(field) = section.field(name) {
            found.push(no_use_with_url(&field, url));
        }
    }
    if let Some(field) = section.field("transport")
        && field.value.as_str() != Some("http")
    {
        found.push(no_use_with_url(&field, url).help("a service with `url` speaks HTTP; take `transport` away"));
    }
    let text = noted(url.string(), found)?;
    noted(address::upstream(text, folder).map_err(|wrong| url.rejected(wrong)), found).map(ServiceKind::External)
}

fn no_use_with_url(field: &Field<'_>, url: &Field<'_>) -> Diagnostic {
    let message = format!("`{}` is for services that Pilotlight starts, and this one has a `url`", field.key.name);
    Diagnostic::error(Code::Conflict, field.key_at.clone(), message)
        .related(url.key_at.clone(), "`url` is")
        .help(format!("take `{}` away, or give `command` instead of `url`", field.key.name))
}

fn managed(
    section: &Section<'_>,
    command: &Field<'_>,
    (folder, queue_max): (&Path, u64),
    found: &mut Vec<Diagnostic>,
) -> Option<Managed> {
    let argv = read_command(command, found);
    let dir_field = section.field("dir");
    let dir_text = dir_field.as_ref().and_then(|field| noted(non_empty(field), found));
    let dir = dir_text.map_or_else(|| folder.to_path_buf(), |dir| joined(folder, dir));
    let min_instances = section.number("min_instances", &schema::MIN_INSTANCES, found);
    let idle_timeout =
        section.time_or_none("idle_timeout", &schema::IDLE_TIMEOUT, Some(schema::IDLE_TIMEOUT.default), found);
    let transport = transport(section, found);
    let env = env(section.field("env"), transport, found);
    let start_timeout = section.time("start_timeout", &schema::START_TIMEOUT, found);
    let drain_timeout = section.time("drain_timeout", &schema::DRAIN_TIMEOUT, found);
    let stop_grace = section.time("stop_grace", &schema::STOP_GRACE, found);
    let scaling = scaling::read(section, start_timeout, queue_max, found);
    let program = argv.as_ref().and_then(|argv| argv.first()).map(|(word, at)| (word.as_str(), at.clone()));
    let keeper = if min_instances > 0 { Some("min_instances") } else { (scaling.spare > 0).then_some("spare") };
    let stops_after = idle_timeout.filter(|_| keeper.is_none());
    let cold_start = cold_start::read(section, transport, program, stops_after, found);
    if let (Some(idle), Some(keeper), Some(_)) = (section.field("idle_timeout"), keeper, idle_timeout) {
        let message = format!("`idle_timeout` has no effect: `{keeper}` keeps the service running");
        found.push(Diagnostic::warning(Code::NoEffect, idle.key_at, message).help("take one of the two away"));
    }
    let (isolation, isolation_at) = isolation::read(section, folder, transport, found);
    let mut argv = argv?.into_iter();
    let (program, program_at) = argv.next()?;
    let (args, arg_spans) = argv.unzip();
    let cold_start = cold_start::beside(&isolation, cold_start, section, found);
    Some(Managed {
        program: if program.contains('/') { joined(&dir, &program) } else { program.into() },
        args,
        env,
        transport,
        start_timeout,
        idle_timeout,
        drain_timeout,
        stop_grace,
        min_instances: u8::try_from(min_instances).unwrap_or(u8::MAX),
        scaling,
        cold_start,
        isolation,
        inherit_env: isolation::inherit_env(section, found),
        at: ManagedSpans {
            program: program_at,
            args: arg_spans,
            dir: dir_field.map_or(0..0, |field| field.at),
            isolation: isolation_at,
        },
        dir,
    })
}

fn read_command(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<(String, Span)>> {
    let argv = match field.value {
        DeValue::String(text) => {
            let split = words::split(text).map_err(|wrong| field.rejected(wrong));
            noted(split, found)?.into_iter().map(|word| (word, field.at.clone())).collect()
        }
        DeValue::Array(list) => read_words(field, list, found)?,
        _ => {
            found.push(field.wrong_type());
            return None;
        }
    };
    let wrong = match argv.first() {
        None => Rejected::help("no program is given", "write the program and its arguments: [\"./app\", \"--flag\"]"),
        Some((program, _)) if program.trim().is_empty() => Rejected::help(
            "the program's name is empty",
            "write the program and its arguments: [\"./app\", \"--flag\"]",
        ),
        Some((program, _))
            if argv.len() == 1 && field.value.is_array() && program.contains(' ') && !program.contains('/') =>
        {
            let parts: Vec<String> = program.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            Rejected::help(
                format!("{} is one word of the list, so it would be the name of the program", shown(program)),
                format!("write each argument by itself: {}", shown(&format!("[{}]", parts.join(", ")))),
            )
        }
        _ if argv.iter().any(|(word, _)| word.contains('\0')) => Rejected::new("a zero byte cannot stand in a command"),
        _ if argv.len() > schema::MAX_ARGUMENTS => {
            Rejected::new(format!("{} words are more than the {} allowed", argv.len(), schema::MAX_ARGUMENTS))
        }
        _ => return Some(argv),
    };
    found.push(field.rejected(wrong));
    None
}

fn transport(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> Transport {
    let transport = section.field("transport");
    let socket = section.field("socket");
    let is_http = match &transport {
        Some(field) => noted(choice(field, &["pipe", "http"]), found) == Some("http"),
        None => false,
    };
    let kind = socket.as_ref().and_then(|field| noted(choice(field, &["unix", "tcp", "port"]), found));
    if let Some(field) = socket.filter(|_| !is_http) {
        let said = transport.is_some();
        let message = "`socket` is for services that speak HTTP, and this one uses the pipe";
        let help = if said {
            "write transport = \"http\", or take `socket` away"
        } else {
            "add transport = \"http\", or take `socket` away"
        };
        found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
    }
    match (is_http, kind) {
        (false, _) => Transport::Pipe,
        (true, Some("tcp")) => Transport::Http(HttpSocket::Tcp),
        (true, Some("port")) => Transport::Http(HttpSocket::Port),
        (true, _) => Transport::Http(HttpSocket::Unix),
    }
}

fn env(field: Option<Field<'_>>, transport: Transport, found: &mut Vec<Diagnostic>) -> Vec<(String, String)> {
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
    name: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    transport: Transport,
) -> Result<(String, String), Diagnostic> {
    let key = name.get_ref().as_ref();
    if key.is_empty() || key.contains(['=', '\0']) {
        let message = format!("{} is not a name for an environment variable", shown(key));
        return Err(Diagnostic::error(Code::BadValue, name.span(), message).help("a name is not empty and has no `=`"));
    }
    let is_told_port = transport == Transport::Http(HttpSocket::Port) && key == "PORT";
    if is_told_port || is_reserved(key) {
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
