//! What the one who operates the gateway sees of it: `server_timing`, `[admin]`, `[metrics]`, `[access_log]`.

use std::net::SocketAddr;
use std::path::Path;

use pilotlight_gateway::{AccessField, AccessFormat, AccessLogOptions, AccessLogTarget, ListenAddr, ServerTiming};
use toml::de::{DeTable, DeValue};

use super::access::may;
use super::address::{self, is_local};
use super::diagnostic::{Code, Diagnostic};
use super::listeners::{self, Ports};
use super::model::{AdminSocket, Config, Operate, OperateSpans, joined};
use super::readers::word;
use super::schema::Part;
use super::section::{Field, Section, a_size, noted, or_none};
use super::shown::shown;

pub(super) fn read(root: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Operate {
    let mut at = OperateSpans::default();
    Operate {
        admin: admin(root, folder, &mut at, found),
        metrics: metrics(root, folder, &mut at, found),
        access_log: access_log(root, folder, &mut at, found),
        at,
    }
}

/// The keys of a section that may also be `false`, or `true` where it needs no key.
fn section<'a>(
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

fn admin(root: &Section<'_>, folder: &Path, at: &mut OperateSpans, found: &mut Vec<Diagnostic>) -> Option<AdminSocket> {
    let empty = DeTable::new();
    let (section, _) = section(root, "admin", Part::Admin, &empty, found)?;
    let Some(field) = section.field("socket") else { return Some(AdminSocket::InRuntimeDir) };
    at.socket = field.at.clone();
    let text = noted(field.string(), found)?;
    let path = address::socket_path(text.strip_prefix("unix:").unwrap_or(text), folder);
    noted(path.map_err(|wrong| field.rejected(wrong)), found).map(AdminSocket::At)
}

fn metrics(
    root: &Section<'_>,
    folder: &Path,
    at: &mut OperateSpans,
    found: &mut Vec<Diagnostic>,
) -> Option<SocketAddr> {
    root.field("metrics")?;
    let empty = DeTable::new();
    let (section, field) = section(root, "metrics", Part::Metrics, &empty, found)?;
    let Some(listen) = section.field("listen") else {
        if !section.mentions("listen") {
            let at = field.map_or(0..0, |field| field.key_at);
            found.push(
                Diagnostic::error(Code::MissingKey, at, "metrics have no address to be given out on")
                    .help("write listen = \"127.0.0.1:9090\"; without [metrics] they are on the admin socket only"),
            );
        }
        return None;
    };
    at.metrics = listen.at.clone();
    let text = noted(listen.string(), found)?;
    match noted(address::listener(text, folder).map_err(|wrong| listen.rejected(wrong)), found)? {
        ListenAddr::Tcp(address) | ListenAddr::Tls(address) => Some(address),
        ListenAddr::Unix(_) => {
            found.push(
                Diagnostic::error(Code::BadValue, listen.at.clone(), "metrics are given out over TCP only here")
                    .help("write \"127.0.0.1:9090\"; on a Unix socket they are at GET /metrics of [admin]"),
            );
            None
        }
    }
}

pub(super) fn server_timing(root: &Section<'_>, found: &mut Vec<Diagnostic>) -> ServerTiming {
    const WORDS: [(&str, ServerTiming); 3] =
        [("never", ServerTiming::Never), ("on-request", ServerTiming::OnRequest), ("always", ServerTiming::Always)];
    let Some(field) = root.field("server_timing") else { return ServerTiming::default() };
    word(&field, &WORDS, found).unwrap_or_default()
}

fn access_log(
    root: &Section<'_>,
    folder: &Path,
    at: &mut OperateSpans,
    found: &mut Vec<Diagnostic>,
) -> Option<AccessLogOptions> {
    const FORMATS: [(&str, AccessFormat); 2] = [("json", AccessFormat::Json), ("text", AccessFormat::Text)];
    root.field("access_log")?;
    let empty = DeTable::new();
    let (section, field) = section(root, "access_log", Part::AccessLog, &empty, found)?;
    let Some(path) = section.field("path") else {
        if !section.mentions("path") {
            found.push(
                Diagnostic::error(
                    Code::MissingKey,
                    field.map_or(0..0, |field| field.key_at),
                    "the access log has no path",
                )
                .help("write path = \"access.log\" or path = \"stdout\""),
            );
        }
        return None;
    };
    at.log = path.at.clone();
    let target = match noted(path.string(), found)? {
        "stdout" => AccessLogTarget::Stdout,
        text if text.is_empty() || text.contains('\0') => {
            let message = format!("{} is not the path of a file", shown(text));
            found.push(Diagnostic::error(Code::BadValue, path.at.clone(), message).help("write \"access.log\""));
            return None;
        }
        text => AccessLogTarget::File(joined(folder, text)),
    };
    let format = section.field("format").and_then(|field| word(&field, &FORMATS, found));
    let fields = section.field("fields").and_then(|field| fields(&field, found));
    let size = section.field("max_size");
    if let (Some(size), AccessLogTarget::Stdout) = (&size, &target) {
        found.push(
            Diagnostic::warning(Code::NoEffect, size.key_at.clone(), "`max_size` has no effect: stdout is not a file")
                .help("take it away, or write to a file"),
        );
    }
    let mut max_size = None;
    section.set("max_size", or_none(a_size(&AccessLogOptions::MAX_SIZE)), &mut max_size, found);
    let fields = fields.unwrap_or_else(|| {
        let is_traced = root.field("traces").is_some_and(|field| !matches!(field.value, DeValue::Boolean(false)));
        let trace_id = is_traced.then_some(AccessField::TraceId);
        AccessField::DEFAULT.into_iter().chain(trace_id).collect()
    });
    Some(AccessLogOptions { target, format: format.unwrap_or(AccessFormat::Json), fields, max_size })
}

fn fields(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<AccessField>> {
    let list = noted(field.value.as_array().ok_or_else(|| field.wrong_type()), found)?;
    if list.is_empty() {
        found.push(
            Diagnostic::error(
                Code::BadValue,
                field.at.clone(),
                "`fields` is an empty list, so every line would be empty",
            )
            .help("take it away for the usual fields"),
        );
    }
    let all: Vec<(&str, AccessField)> = AccessField::ALL.iter().map(|field| (field.name(), *field)).collect();
    let mut read: Vec<AccessField> = Vec::new();
    for item in list {
        let one = Field { at: item.span(), value: item.get_ref(), ..field.clone() };
        let Some(named) = word(&one, &all, found) else { continue };
        if read.contains(&named) {
            let message = format!("`{}` is there twice", named.name());
            found.push(Diagnostic::error(Code::Duplicate, item.span(), message).help("take one of the two away"));
        } else {
            read.push(named);
        }
    }
    Some(read)
}

/// What the addresses have to do with each other.
pub(super) fn relations(config: &Config, found: &mut Vec<Diagnostic>) {
    let Operate { admin, metrics, at, .. } = &config.operate;
    if let Some(address) = metrics {
        let taken = config.listen.iter().find(|listener| listener.address.socket() == ListenAddr::Tcp(*address));
        if let Some(other) = taken.filter(|_| address.port() != 0) {
            found.push(
                Diagnostic::error(Code::Duplicate, at.metrics.clone(), format!("{address} is for clients already"))
                    .related(other.at.clone(), "`listen` is")
                    .help("choose another port for metrics"),
            );
        }
        if !is_local(&ListenAddr::Tcp(*address)) {
            let message = format!("the names of routes and services are shown to everybody who can reach {address}");
            found.push(Diagnostic::warning(Code::Unsafe, at.metrics.clone(), message).help("listen on 127.0.0.1"));
        }
    }
    if let Some(AdminSocket::At(path)) = admin {
        let own = config.listen.iter().find(|listener| listener.address == ListenAddr::Unix(path.clone()));
        if let Some(other) = own {
            let message = format!("{} is for clients already", path.display());
            found.push(
                Diagnostic::error(Code::Duplicate, at.socket.clone(), message)
                    .related(other.at.clone(), "`listen` is")
                    .help("choose another path for the admin socket"),
            );
        }
    }
}

/// Whether this machine has what is needed.
pub(super) fn check(config: &Config, ports: Ports, found: &mut Vec<Diagnostic>) {
    let Operate { admin, metrics, access_log, at, .. } = &config.operate;
    if let Some(AdminSocket::At(path)) = admin {
        listeners::check_one(&ListenAddr::Unix(path.clone()), &at.socket, "`socket`", ports, found);
    }
    if let Some(address) = metrics {
        listeners::check_one(&ListenAddr::Tcp(*address), &at.metrics, "`listen` of [metrics]", ports, found);
    }
    if let Some(AccessLogOptions { target: AccessLogTarget::File(path), .. }) = access_log {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let problem = if !folder.is_dir() {
            Some((format!("the folder {} does not exist", folder.display()), format!("mkdir -p {}", folder.display())))
        } else if path.is_dir() {
            Some((format!("{} is a folder", path.display()), "name a file in it".to_owned()))
        } else if !may(if path.exists() { path } else { folder }, rustix::fs::Access::WRITE_OK) {
            let message = format!("{} may not be written by this user", path.display());
            Some((message, "choose another path".to_owned()))
        } else {
            None
        };
        found.extend(
            problem.map(|(message, help)| Diagnostic::error(Code::Missing, at.log.clone(), message).help(help)),
        );
    }
}
