//! `[services.NAME]`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilotlight_gateway::{CgiOptions, CgiProtocol, ExternalSpec, ServerProtocol, Versions};
use pilotlight_supervisor::{HttpSocket, MinInstances, ServiceSpec, Spare, Transport};
use toml::Spanned;
use toml::de::DeValue;

use super::balance;
use super::cgi::{self, Cgi};
use super::cold_start;
use super::container;
use super::diagnostic::{Code, Diagnostic, Span};
use super::dns;
use super::groups::Groups;
use super::isolation;
use super::lambda;
use super::model::{IsolationSpans, Service, ServiceKind, ServiceSpans, TlsFiles, joined};
use super::readers::{check_name, choice, non_empty, read_words};
use super::releases;
use super::scaling;
use super::schema::{self, Part};
use super::section::{Field, Section, a_number, a_time, noted, or_none, type_name};
use super::server_tls;
use super::shown::{printable, shown};
use super::spill;
use super::stdio;
use super::value::Rejected;
use super::variables::env;
use super::words;

/// The services of a file.
pub(super) struct Services {
    /// Those that have everything that they need.
    pub(super) complete: Vec<Service>,
    /// The names of all, with the place of each.
    pub(super) declared: Vec<(String, Span)>,
}

/// What counts for all services of a file.
#[derive(Clone, Copy)]
pub(super) struct ForAll<'a> {
    /// Relative paths are joined to it.
    pub(super) folder: &'a Path,
    /// The default of `queue.max`.
    pub(super) queue_max: usize,
    pub(super) groups: &'a Groups,
}

/// Keys that only a service has that somebody else starts, and what says the same of one that Pilotlight starts.
const URL_KEYS: [(&str, &str); 5] = [
    ("dns", "an instance is on this machine, and its address is known"),
    ("proxy_protocol", "an instance is told of the client in Forwarded and X-Forwarded-For"),
    ("tls", "an instance is on this machine, and is spoken to without TLS"),
    ("balance", "`max_instances` and `concurrency` say how many instances share the requests"),
    ("max_connections", "`concurrency` says how many requests an instance takes at a time"),
];

/// Keys that only a service that Pilotlight starts has.
fn managed_keys() -> impl Iterator<Item = &'static str> {
    const FOR_BOTH: [&str; 9] =
        ["command", "container", "url", "transport", "cgi", "lambda", "stdio", "health", "queue"];
    let is_for_both = |name: &&str| FOR_BOTH.contains(name) || URL_KEYS.iter().any(|(key, _)| key == name);
    schema::SERVICE.iter().map(|key| key.name).filter(move |name| !is_for_both(name))
}

pub(super) fn read_all(field: Option<Field<'_>>, for_all: ForAll<'_>, found: &mut Vec<Diagnostic>) -> Services {
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
        services.complete.extend(read(name, value, for_all, found));
    }
    services
}

fn read<'a>(
    name: &Spanned<std::borrow::Cow<'_, str>>,
    value: &'a Spanned<DeValue<'a>>,
    for_all: ForAll<'_>,
    found: &mut Vec<Diagnostic>,
) -> Option<Service> {
    let (at, name) = (name.span(), name.get_ref().as_ref());
    let good_name = noted(check_name(name, "service", &at), found).is_some();
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
    let container = section.field("container");
    if let (Some(container), Some(other)) = (&container, section.field("command").or_else(|| section.field("url"))) {
        let message = format!("a service has either `container` or `{}`, not both", other.key.name);
        found.push(
            Diagnostic::error(Code::Conflict, other.key_at, message)
                .related(container.key_at.clone(), "`container` is")
                .help("the program of a container is container = { command = … }"),
        );
        return None;
    }
    let kind = match (section.field("command"), section.field("url")) {
        (None, None) if container.is_some() => {
            refuse_url_keys(&section, "container", found);
            let spec = ServiceSpec::new(name, Vec::new(), Transport::Http(HttpSocket::Port));
            container.and_then(|container| contained(spec, &section, &container, for_all, found))
        }
        (Some(command), Some(url)) => {
            found.push(
                Diagnostic::error(Code::Conflict, url.key_at, "a service has either `command` or `url`, not both")
                    .related(command.key_at, "`command` is")
                    .help("`command` if Pilotlight shall start it, `url` if somebody else does"),
            );
            None
        }
        (None, None) if ["command", "url", "container"].iter().any(|key| section.mentions(key)) => None,
        (None, None) => {
            found.push(nothing_to_ask(name, at.clone()));
            None
        }
        (Some(command), None) => {
            refuse_url_keys(&section, "command", found);
            let spec = ServiceSpec::new(name, Vec::new(), Transport::Pipe);
            managed(spec, &section, &command, for_all, found)
        }
        (None, Some(url)) => external(name, &section, &url, for_all, found).map(|(external, tls)| {
            (ServiceKind::External(Box::new(external)), ServiceSpans { tls, ..ServiceSpans::default() })
        }),
    };
    let (mut kind, spans) = kind.filter(|_| good_name)?;
    let spec = match &mut kind {
        ServiceKind::Managed(spec) => Some(&mut **spec),
        ServiceKind::External(_) => None,
    };
    let stdio = stdio::read(&section, spec.as_deref(), found);
    let spill = spill::read(&section, spec.as_deref(), found);
    let lambda = lambda::read(&section, spec, found);
    let (cgi, folders) = cgi(&section, &kind, for_all.folder, found);
    Some(Service { kind, cgi, lambda, stdio, spill, at: ServiceSpans { name: at, folders, ..spans } })
}

fn nothing_to_ask(name: &str, at: Span) -> Diagnostic {
    let message = format!("the service {} has none of `command`, `container` and `url`", shown(name));
    let help = "add command = [\"./app\"] for a program to start, container = { image = \"app:1\", port = 8080 } for a \
                container, or url = \"http://127.0.0.1:9000\" for a running server";
    Diagnostic::error(Code::MissingKey, at, message).help(help)
}

fn refuse_url_keys(section: &Section<'_>, has: &str, found: &mut Vec<Diagnostic>) {
    for (name, help) in URL_KEYS {
        if let Some(field) = section.field(name) {
            let message = format!("`{name}` is for servers that somebody else starts, and this service has a `{has}`");
            found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
        }
    }
}

/// A service that runs in containers.
fn contained(
    mut spec: ServiceSpec,
    section: &Section<'_>,
    container: &Field<'_>,
    for_all: ForAll<'_>,
    found: &mut Vec<Diagnostic>,
) -> Option<(ServiceKind, ServiceSpans)> {
    spec.transport = container::transport(section, found);
    container::refuse_of_processes(section, found);
    let spans = instances(&mut spec, section, for_all, found);
    container::read(container, section, for_all.folder, &mut spec, found)?;
    container::without_process_bounds(&mut spec);
    // Accounts are those of the image.
    let isolation = IsolationSpans { account: None, ..spans.isolation };
    Some((ServiceKind::Managed(Box::new(spec)), ServiceSpans { isolation, ..spans }))
}

/// How it is told of requests, and the folders that this names.
fn cgi(
    section: &Section<'_>,
    kind: &ServiceKind,
    folder: &Path,
    found: &mut Vec<Diagnostic>,
) -> (Option<Arc<CgiOptions>>, Vec<(PathBuf, Span)>) {
    let (is_cgi, dir) = match kind {
        ServiceKind::Managed(spec) => {
            let is_cgi = matches!(spec.transport, Transport::FastCgi(_) | Transport::Scgi(_) | Transport::Uwsgi(_));
            (is_cgi, spec.dir.as_deref().unwrap_or(folder))
        }
        ServiceKind::External(external) => (matches!(external.protocol, ServerProtocol::Cgi(_)), folder),
    };
    if let Some(field) = section.field("cgi").filter(|_| !is_cgi) {
        let message = "`cgi` is for services by FastCGI, SCGI or uwsgi, and this one is another";
        found.push(
            Diagnostic::error(Code::Conflict, field.key_at, message)
                .help("add transport = \"fastcgi\", or take `cgi` away"),
        );
        return (None, Vec::new());
    }
    let has_releases = matches!(kind, ServiceKind::Managed(spec) if spec.releases.is_some());
    match cgi::read(section, dir, found) {
        // Before the first release there are none.
        Some(Cgi { options, .. }) if has_releases => (Some(Arc::new(options)), Vec::new()),
        Some(Cgi { options, folders }) => (Some(Arc::new(options)), folders),
        None => (is_cgi.then(Arc::default), Vec::new()),
    }
}

fn external(
    name: &str,
    section: &Section<'_>,
    url: &Field<'_>,
    ForAll { folder, queue_max, .. }: ForAll<'_>,
    found: &mut Vec<Diagnostic>,
) -> Option<(ExternalSpec, Option<TlsFiles>)> {
    for key in managed_keys() {
        if let Some(field) = section.field(key) {
            found.push(no_use_with_url(&field, url));
        }
    }
    let transport = section.field("transport");
    let said = transport.as_ref().and_then(|field| field.value.as_str());
    let protocol = match said {
        None => None,
        Some("http") => Some(ServerProtocol::Http1),
        Some("h2c") => Some(ServerProtocol::H2c),
        Some("fastcgi") => Some(ServerProtocol::Cgi(CgiProtocol::FastCgi)),
        Some("scgi") => Some(ServerProtocol::Cgi(CgiProtocol::Scgi)),
        Some("uwsgi") => Some(ServerProtocol::Cgi(CgiProtocol::Uwsgi)),
        Some(_) => None,
    };
    if let Some(field) = transport.as_ref().filter(|_| protocol.is_none()) {
        let help = "a service with `url` speaks \"http\", \"h2c\", \"fastcgi\", \"scgi\" or \"uwsgi\"";
        found.push(no_use_with_url(field, url).help(help));
    }
    let (mut written, of_url) = balance::servers(url, folder, found)?;
    let is_given_tls = written.is_empty() && section.field("tls").is_some();
    let of_url = if is_given_tls { ServerProtocol::Https(Versions::Both) } else { of_url };
    let mut balance = balance::read(section, &mut written, folder, found);
    let servers = dns::read(section, written, found);
    let health = balance::health(section, &mut balance, found);
    let queue = balance::limits(section, &mut balance, &servers, queue_max, found);
    // `http://` with another transport is how h2c was written before it had a scheme.
    let is_open = of_url == ServerProtocol::Http1;
    let of_url = match (of_url, protocol) {
        (ServerProtocol::Https(_), Some(ServerProtocol::Http1)) => ServerProtocol::Https(Versions::Http1),
        (of_url, _) => of_url,
    };
    let is_same = |protocol: &ServerProtocol| {
        *protocol == of_url || (*protocol, of_url) == (ServerProtocol::Http1, ServerProtocol::Https(Versions::Http1))
    };
    if let (Some(field), Some(protocol)) = (transport, protocol.filter(|protocol| !is_open && !is_same(protocol))) {
        let message = format!("`transport` and the scheme of `url` say two different things: {protocol:?}, {of_url:?}");
        found.push(Diagnostic::error(Code::Conflict, field.at, message).help("take `transport` away"));
    }
    let protocol = protocol.filter(|_| is_open).unwrap_or(of_url);
    let (proxy_protocol, protocol) = balance::proxy_protocol(section, protocol, found);
    let (tls, tls_at) = server_tls::read(section, protocol, folder, found);
    let name = name.to_owned();
    let dns::Servers { servers, names, dns } = servers;
    let spec = ExternalSpec { name, servers, names, dns, protocol, balance, health, queue, proxy_protocol, tls };
    Some((spec, tls_at))
}

fn no_use_with_url(field: &Field<'_>, url: &Field<'_>) -> Diagnostic {
    let message = format!("`{}` is for services that Pilotlight starts, and this one has a `url`", field.key.name);
    Diagnostic::error(Code::Conflict, field.key_at.clone(), message)
        .related(url.key_at.clone(), "`url` is")
        .help(format!("take `{}` away, or give `command` instead of `url`", field.key.name))
}

fn managed(
    mut spec: ServiceSpec,
    section: &Section<'_>,
    command: &Field<'_>,
    for_all: ForAll<'_>,
    found: &mut Vec<Diagnostic>,
) -> Option<(ServiceKind, ServiceSpans)> {
    let folder = for_all.folder;
    let argv = read_command(command, found);
    let dir_field = section.field("dir");
    let dir_text = dir_field.as_ref().and_then(|field| noted(non_empty(field), found));
    let release = releases::read(section, folder, &mut spec, found);
    let dir = release.unwrap_or_else(|| dir_text.map_or_else(|| folder.to_path_buf(), |dir| joined(folder, dir)));
    spec.transport = transport(section, found);
    let spans = instances(&mut spec, section, for_all, found);
    let program = argv.as_ref().and_then(|argv| argv.first()).map(|(word, at)| (word.as_str(), at.clone()));
    spec.preload = cold_start::preload(section, &spec, program, found);
    let mut argv = argv?.into_iter();
    let (program, program_at) = argv.next()?;
    let (args, args_at): (Vec<String>, _) = argv.unzip();
    let program = if program.contains('/') { joined(&dir, &program).into_os_string() } else { program.into() };
    spec.argv = std::iter::once(program).chain(args.into_iter().map(Into::into)).collect();
    spec.dir = Some(dir);
    let at = ServiceSpans {
        program: program_at,
        args: args_at,
        dir: dir_field.map_or(0..0, |field| field.at),
        releases: section.field("releases").map(|field| field.at),
        ..spans
    };
    Some((ServiceKind::Managed(Box::new(spec)), at))
}

/// What counts for instances, wherever they run. The transport is known.
fn instances(
    spec: &mut ServiceSpec,
    section: &Section<'_>,
    ForAll { folder, queue_max, groups }: ForAll<'_>,
    found: &mut Vec<Diagnostic>,
) -> ServiceSpans {
    lambda::defaults(spec);
    spec.env = env(section.field("env"), spec.transport, found);
    spec.inherit_env = isolation::inherit_env(section, found);
    section.set("idle_timeout", or_none(a_time(&ServiceSpec::IDLE_TIMEOUT)), &mut spec.idle_timeout, found);
    section.set("start_timeout", a_time(&ServiceSpec::START_TIMEOUT), &mut spec.start_timeout, found);
    section.set("drain_timeout", a_time(&ServiceSpec::DRAIN_TIMEOUT), &mut spec.drain_timeout, found);
    section.set("stop_grace", a_time(&ServiceSpec::STOP_GRACE), &mut spec.stop_grace, found);
    if one(section, "min_instances", found) {
        spec.min_instances = MinInstances::One;
    }
    if one(section, "spare", found) {
        spec.spare = Spare::One;
    }
    scaling::read(section, queue_max, spec, found);
    lambda::check(section, spec, found);
    let keeper = match (spec.min_instances, spec.spare) {
        (MinInstances::One, _) => Some("min_instances"),
        (MinInstances::Zero, Spare::One) => Some("spare"),
        (MinInstances::Zero, Spare::None) => None,
    };
    if let (Some(idle), Some(keeper), Some(_)) = (section.field("idle_timeout"), keeper, spec.idle_timeout) {
        let message = format!("`idle_timeout` has no effect: `{keeper}` keeps the service running");
        found.push(Diagnostic::warning(Code::NoEffect, idle.key_at, message).help("take one of the two away"));
    }
    let stops_after = spec.idle_timeout.filter(|_| keeper.is_none());
    cold_start::freeze_after(section, stops_after, spec, found);
    stdio::check(section, spec, found);
    let isolation = isolation::read(section, folder, spec, found);
    spec.group = groups.share(section, spec, found);
    ServiceSpans {
        max_request_time: section.field("max_request_time").map(|field| field.key_at),
        tls: None,
        isolation,
        ..ServiceSpans::default()
    }
}

/// Whether a key that takes 0 or 1 is 1.
fn one(section: &Section<'_>, name: &str, found: &mut Vec<Diagnostic>) -> bool {
    let mut number = 0_u64;
    section.set(name, a_number(&(0_u64..=1)), &mut number, found);
    number > 0
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
    let speaks = transport.as_ref().and_then(|field| {
        noted(choice(field, &["pipe", "http", "h2c", "fastcgi", "scgi", "uwsgi", "lambda", "stdio"]), found)
    });
    let over: Option<fn(HttpSocket) -> Transport> = match speaks {
        Some("http") => Some(Transport::Http),
        Some("h2c") => Some(Transport::H2c),
        Some("fastcgi") => Some(Transport::FastCgi),
        Some("scgi") => Some(Transport::Scgi),
        Some("uwsgi") => Some(Transport::Uwsgi),
        _ => None,
    };
    let kind = socket.as_ref().and_then(|field| noted(choice(field, &["unix", "tcp", "port"]), found));
    if let Some(field) = socket.filter(|_| over.is_none()) {
        let said = transport.is_some();
        let other = match speaks {
            Some("lambda") => "asks for its invocations itself",
            Some("stdio") => "uses its standard streams",
            _ => "uses the pipe",
        };
        let message = format!("`socket` is for services that speak HTTP, and this one {other}");
        let help = if said {
            "write transport = \"http\", or take `socket` away"
        } else {
            "add transport = \"http\", or take `socket` away"
        };
        found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
    }
    let socket = match kind {
        Some("tcp") => HttpSocket::Tcp,
        Some("port") => HttpSocket::Port,
        _ => HttpSocket::Unix,
    };
    match over {
        Some(over) => over(socket),
        None if speaks == Some("lambda") => Transport::Lambda,
        None if speaks == Some("stdio") => Transport::Stdio,
        None => Transport::Pipe,
    }
}
