//! `[log]`, `[service_log]`, `[access_log]`: where the lines of each go, and how they look.

use std::path::Path;

use pilotlight_gateway::{AccessField, AccessFormat, AccessLogOptions};
use pilotlight_logs::{Destination, Facility, Out, Peer, SyslogFormat};
use toml::de::{DeTable, DeValue};

use super::access::may;
use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{Config, LogFormat, LogOptions, Operate, OperateSpans};
use super::readers::{section, word};
use super::schema::Part;
use super::section::{Field, Section, a_size, noted, or_none};

const SYSLOG_FORMATS: [(&str, SyslogFormat); 2] =
    [("rfc3164", SyslogFormat::Rfc3164), ("rfc5424", SyslogFormat::Rfc5424)];

/// Where a log ends, with what belongs to that.
struct Ending {
    destination: Destination,
    facility: Facility,
    syslog_format: Option<SyslogFormat>,
    max_size: Option<u64>,
}

impl Ending {
    fn new(destination: Destination) -> Self {
        Self { destination, facility: Facility::Daemon, syslog_format: None, max_size: None }
    }

    /// Reads what goes with the destination; says so if it does not.
    fn read(&mut self, section: &Section<'_>, found: &mut Vec<Diagnostic>) {
        if let Some(facility) = section.field("facility").and_then(|field| word(&field, &Facility::ALL, found)) {
            self.facility = facility;
        }
        self.syslog_format = section
            .field("syslog_format")
            .and_then(|field| word(&field, &SYSLOG_FORMATS, found))
            .or(self.syslog_format);
        section.set("max_size", or_none(a_size(&AccessLogOptions::MAX_SIZE)), &mut self.max_size, found);
        let name = self.destination.name();
        let mut has_no_effect = |key: &str, wanted: &str| {
            let Some(field) = section.field(key) else { return };
            let message = format!("`{key}` has no effect: {name} is not {wanted}");
            let diagnostic = Diagnostic::warning(Code::NoEffect, field.key_at, message);
            found.push(diagnostic.help(format!("take it away, or choose {wanted} as `path`")));
        };
        if !matches!(self.destination, Destination::File(_)) {
            has_no_effect("max_size", "a file");
        }
        if !takes_messages(&self.destination) {
            has_no_effect("facility", "the journal or syslog");
        }
        if !matches!(self.destination, Destination::Syslog(_)) {
            has_no_effect("syslog_format", "syslog");
        }
    }
}

fn takes_messages(destination: &Destination) -> bool {
    matches!(destination, Destination::Journal(_) | Destination::Syslog(_))
}

fn destination(text: &str, at: &Span, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<Destination> {
    let wrong = |wrong: pilotlight_logs::BadDestination| {
        Diagnostic::error(Code::BadValue, at.clone(), wrong.reason).help(wrong.help)
    };
    noted(Destination::parse(text, folder).map_err(wrong), found)
}

/// The gateway's own lines.
pub(super) fn log(root: &Section<'_>, folder: &Path, at: &mut OperateSpans, found: &mut Vec<Diagnostic>) -> LogOptions {
    let table = root.part("log", Part::Log, "in [log]", found);
    lines(table.as_ref(), folder, LogOptions::default(), &mut at.log, found)
}

/// Services' lines, which go where the gateway's do unless the file says otherwise.
pub(super) fn service_log(
    root: &Section<'_>,
    folder: &Path,
    own: &LogOptions,
    at: &mut OperateSpans,
    found: &mut Vec<Diagnostic>,
) -> LogOptions {
    let table = root.part("service_log", Part::ServiceLog, "in [service_log]", found);
    lines(table.as_ref(), folder, own.clone(), &mut at.service_log, found)
}

fn lines(
    section: Option<&Section<'_>>,
    folder: &Path,
    usual: LogOptions,
    at: &mut Span,
    found: &mut Vec<Diagnostic>,
) -> LogOptions {
    const FORMATS: [(&str, LogFormat); 2] = [("json", LogFormat::Json), ("text", LogFormat::Text)];
    let Some(section) = section else { return usual };
    let LogOptions { mut format, destination: usual, facility, syslog_format, max_size } = usual;
    let mut ending = Ending { facility, syslog_format, max_size, destination: usual };
    if let Some(read) = section.field("format").and_then(|field| word(&field, &FORMATS, found)) {
        format = read;
    }
    let path = section.field("path").map(|path| {
        *at = path.at.clone();
        noted(path.string(), found).and_then(|text| destination(text, &path.at, folder, found))
    });
    match path {
        None => ending.read(section, found),
        // What goes with it cannot be judged.
        Some(None) => {}
        Some(Some(read)) => {
            if read != ending.destination {
                ending = Ending { facility, ..Ending::new(read) };
            }
            ending.read(section, found);
        }
    }
    let Ending { destination, facility, syslog_format, max_size } = ending;
    LogOptions { destination, format, facility, syslog_format, max_size }
}

pub(super) fn access_log(
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
                .help("write path = \"access.log\", \"stdout\", \"journald\" or \"syslog\""),
            );
        }
        return None;
    };
    at.access_log = path.at.clone();
    let (text, at) = (noted(path.string(), found)?, path.at.clone());
    let destination = destination(text, &at, folder, found)?;
    let format = section.field("format").and_then(|field| word(&field, &FORMATS, found));
    let fields = section.field("fields").and_then(|field| fields(&field, found));
    let mut ending = Ending::new(destination);
    ending.read(&section, found);
    let fields = fields.unwrap_or_else(|| {
        let is_traced = root.field("traces").is_some_and(|field| !matches!(field.value, DeValue::Boolean(false)));
        let trace_id = is_traced.then_some(AccessField::TraceId);
        AccessField::DEFAULT.into_iter().chain(trace_id).collect()
    });
    let usual = if takes_messages(&ending.destination) { AccessFormat::Text } else { AccessFormat::Json };
    let Ending { destination, facility, syslog_format, max_size } = ending;
    let format = format.unwrap_or(usual);
    Some(AccessLogOptions { destination, facility, syslog_format, format, fields, max_size })
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

/// Whether this machine has what is needed.
pub(super) fn check(config: &Config, found: &mut Vec<Diagnostic>) {
    let Operate { access_log, log, service_log, at, .. } = &config.operate;
    check_one(&log.destination, &at.log, found);
    if service_log.destination != log.destination {
        check_one(&service_log.destination, &at.service_log, found);
    }
    if let Some(access_log) = access_log {
        check_one(&access_log.destination, &at.access_log, found);
    }
}

fn check_one(destination: &Destination, at: &Span, found: &mut Vec<Diagnostic>) {
    let problem = match destination {
        Destination::Stdout | Destination::Stderr | Destination::Syslog(Peer::Udp(_) | Peer::Tcp(_)) => None,
        Destination::File(path) => file_problem(path),
        Destination::Journal(_) => {
            socket_problem(destination, "is systemd-journald running? \"journald:PATH\" names another socket")
        }
        Destination::Syslog(_) => {
            socket_problem(destination, "is a syslog server running? \"syslog:PATH\" names another socket")
        }
    };
    found.extend(problem.map(|(message, help)| Diagnostic::error(Code::Missing, at.clone(), message).help(help)));
}

fn file_problem(path: &Path) -> Option<(String, String)> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        Some((format!("the folder {} does not exist", folder.display()), format!("mkdir -p {}", folder.display())))
    } else if path.is_dir() {
        Some((format!("{} is a folder", path.display()), "name a file in it".to_owned()))
    } else if !may(if path.exists() { path } else { folder }, rustix::fs::Access::WRITE_OK) {
        let message = format!("{} may not be written by this user", path.display());
        Some((message, "choose another path".to_owned()))
    } else {
        None
    }
}

/// What connects tells more than what looks: a file may be no socket, and a socket may have nobody at it.
fn socket_problem(destination: &Destination, help: &str) -> Option<(String, String)> {
    let error = Out::open(destination, None).err()?;
    Some((format!("{} cannot be reached: {error}", destination.name()), help.to_owned()))
}
