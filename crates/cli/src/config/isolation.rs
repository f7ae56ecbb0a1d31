//! The keys of a service that say what it may use of the machine: user, files of variables, secrets, limits, sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pilotlight_supervisor::{
    CgroupLimits, HttpSocket, InheritEnv, Isolation, ResourceLimits, Sandbox, ServiceSpec, Transport, check_account,
    is_own_variable, parse_env_file,
};
use rustix::fs::Access;
use toml::de::DeValue;

use super::access::may;
use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{IsolationSpans, joined};
use super::readers::{choice, non_empty, read_words};
use super::schema::{self, Part};
use super::section::{Field, Section, a_number, a_size, noted, type_name};
use super::shown::shown;
use super::value::Rejected;

pub(super) fn read(
    section: &Section<'_>,
    folder: &Path,
    spec: &mut ServiceSpec,
    found: &mut Vec<Diagnostic>,
) -> IsolationSpans {
    let mut spans = IsolationSpans::default();
    let (user, group) = (section.field("user"), section.field("group"));
    spans.account = user.as_ref().or(group.as_ref()).map(|field| field.at.clone());
    let mut name = |field: &Field<'_>| noted(account(field), found);
    let (user, group) = (user.as_ref().and_then(&mut name), group.as_ref().and_then(&mut name));
    let env_files = paths(section.field("env_file"), folder, &mut spans.env_files, found);
    let secrets = secrets(section.field("secrets"), folder, &mut spans.secrets, found);
    let sandbox = section.field("sandbox");
    let strict = sandbox.as_ref().and_then(|field| noted(choice(field, &["none", "strict"]), found)) == Some("strict");
    for name in ["sandbox_read", "sandbox_write"] {
        if let Some(field) = section.field(name).filter(|_| !strict) {
            let message = format!("`{name}` has no effect: the service is in no sandbox");
            found.push(
                Diagnostic::warning(Code::NoEffect, field.key_at, message)
                    .help("add sandbox = \"strict\", or take it away"),
            );
        }
    }
    let read = paths(section.field("sandbox_read"), folder, &mut spans.read, found);
    let write = paths(section.field("sandbox_write"), folder, &mut spans.write, found);
    if let Some(field) = sandbox.filter(|_| strict && section.field("container").is_none()) {
        check_strict(section, &field, spec.transport, found);
    }
    spec.isolation = Isolation {
        user,
        group,
        env_files,
        secrets,
        limits: limits(section, found),
        cgroup: cgroup(section, found),
        sandbox: if strict { Sandbox::Strict { read, write } } else { Sandbox::None },
    };
    spans
}

/// `inherit_env`: true, false, or names.
pub(super) fn inherit_env(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> Option<InheritEnv> {
    let field = section.field("inherit_env")?;
    let names = match field.value {
        DeValue::Boolean(true) => return Some(InheritEnv::All),
        DeValue::Boolean(false) => return Some(InheritEnv::Little),
        DeValue::Array(list) => read_words(&field, list, found)?,
        _ => {
            found.push(field.wrong_type());
            return None;
        }
    };
    for (name, at) in &names {
        let (message, help) = if name.is_empty() || name.contains(['=', '\0']) {
            (format!("{} is not a name for an environment variable", shown(name)), "a name is not empty and has no `=`")
        } else if is_own_variable(name) {
            (format!("`{name}` is set by Pilotlight itself"), "take it away: the service has its own")
        } else {
            continue;
        };
        found.push(Diagnostic::error(Code::BadValue, at.clone(), message).help(help));
    }
    Some(InheritEnv::Named(names.into_iter().map(|(name, _)| name).collect()))
}

fn check_strict(section: &Section<'_>, sandbox: &Field<'_>, transport: Transport, found: &mut Vec<Diagnostic>) {
    if let (Some(HttpSocket::Port), Some(socket)) = (transport.socket(), section.field("socket")) {
        let message = "`sandbox` refuses network sockets, and socket = \"port\" needs one of the service's own";
        found.push(
            Diagnostic::error(Code::Conflict, socket.at, message)
                .related(sandbox.key_at.clone(), "`sandbox` is")
                .help("write socket = \"unix\" or \"tcp\": the service is given its socket then, as descriptor 3"),
        );
    }
    if section.field("dir").is_none() {
        let message =
            "the sandbox lets the service write to `dir`, and without one that is the folder of this very file";
        found.push(
            Diagnostic::warning(Code::Unsafe, sandbox.key_at.clone(), message).help("give it a `dir` of its own"),
        );
    }
}

fn account(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = match field.value {
        // Their number in quotes is more surprising than without.
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        _ => field.string()?,
    };
    let is_good = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == ':' || c == '\0' || c == '/');
    if is_good && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err(field.rejected(Rejected::help(format!("{} is not a name", shown(text)), "write a name or a number")))
}

/// One path or a list of them, joined to the file's folder.
fn paths(field: Option<Field<'_>>, folder: &Path, spans: &mut Vec<Span>, found: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    let Some(field) = field else { return Vec::new() };
    let texts: Vec<(String, Span)> = match field.value {
        DeValue::Array(list) => read_words(&field, list, found).unwrap_or_default(),
        DeValue::String(_) => {
            noted(non_empty(&field), found).map(|text| (text.to_owned(), field.at.clone())).into_iter().collect()
        }
        _ => {
            found.push(field.wrong_type());
            Vec::new()
        }
    };
    if texts.len() > schema::MAX_ISOLATION_PATHS {
        let message = format!(
            "`{}` has {} paths; at most {} are allowed",
            field.key.name,
            texts.len(),
            schema::MAX_ISOLATION_PATHS
        );
        found.push(Diagnostic::error(Code::OutOfRange, field.at, message));
        return Vec::new();
    }
    let mut paths = Vec::with_capacity(texts.len());
    for (text, at) in texts {
        if text.is_empty() || text.contains('\0') {
            found.push(Diagnostic::error(Code::BadValue, at, format!("`{}`: this is not a path", field.key.name)));
            continue;
        }
        paths.push(joined(folder, &text));
        spans.push(at);
    }
    paths
}

fn secrets(
    field: Option<Field<'_>>,
    folder: &Path,
    spans: &mut Vec<Span>,
    found: &mut Vec<Diagnostic>,
) -> Vec<(String, PathBuf)> {
    let Some(field) = field else { return Vec::new() };
    let Some(table) = field.value.as_table() else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    if table.len() > schema::MAX_SECRETS {
        let message = format!("`secrets` has {} files; at most {} are allowed", table.len(), schema::MAX_SECRETS);
        found.push(Diagnostic::error(Code::OutOfRange, field.at, message));
        return Vec::new();
    }
    let mut secrets = Vec::with_capacity(table.len());
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || name.starts_with(|c: char| c.is_ascii_digit()) || is_own_variable(&format!("{name}_FILE")) {
            let message = format!("{} is not a name for a secret", shown(name));
            found.push(
                Diagnostic::error(Code::BadValue, key.span(), message)
                    .help("it becomes the variable NAME_FILE: letters, digits and `_`, not one of Pilotlight's own"),
            );
            continue;
        }
        match value.get_ref() {
            DeValue::String(path) if !path.is_empty() && !path.contains('\0') => {
                secrets.push((name.to_owned(), joined(folder, path)));
                spans.push(value.span());
            }
            other => {
                let message =
                    format!("the secret {} must be the path of a file, not {}", shown(name), type_name(other));
                found.push(
                    Diagnostic::error(Code::WrongType, value.span(), message)
                        .help("write the secret into a file of its own"),
                );
            }
        }
    }
    secrets
}

fn limits(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> ResourceLimits {
    type Of = ResourceLimits;
    let mut limits = ResourceLimits::default();
    if let Some(section) = section.part("limits", Part::ServiceLimits, "in the service's limits", found) {
        section.set("open_files", a_number(&Of::OPEN_FILES), &mut limits.open_files, found);
        section.set("processes", a_number(&Of::PROCESSES), &mut limits.processes, found);
        section.set("cpu_seconds", a_number(&Of::CPU_SECONDS), &mut limits.cpu_seconds, found);
        section.set("file_size", a_size(&Of::FILE_SIZE), &mut limits.file_size, found);
        section.set("core", a_size(&Of::CORE), &mut limits.core, found);
        section.set("address_space", a_size(&Of::ADDRESS_SPACE), &mut limits.address_space, found);
    }
    limits
}

fn cgroup(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> CgroupLimits {
    let mut limits = CgroupLimits::default();
    if let Some(section) = section.part("cgroup", Part::ServiceCgroup, "in the service's cgroup", found) {
        section.set("memory", a_size(&CgroupLimits::MEMORY), &mut limits.memory, found);
        limits.cpu_milli = section.field("cpu").and_then(|field| noted(cpus(&field), found));
    }
    limits
}

/// Processors, in thousandths.
fn cpus(field: &Field<'_>) -> Result<u64, Diagnostic> {
    let text = match field.value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => return Err(field.wrong_type()),
    };
    let range = CgroupLimits::CPU;
    match text.replace('_', "").parse::<f64>() {
        Ok(number) if range.contains(&number) => Ok((number * 1000.0).round() as u64),
        Ok(number) if !number.is_nan() => Err(field.out_of_range(text, number < *range.start(), &range)),
        _ => Err(field.wrong_type()),
    }
}

/// What only this machine can say.
pub(super) fn check(isolation: &Isolation, spans: &IsolationSpans, found: &mut Vec<Diagnostic>) {
    let missing = |at: &Span, message: String| Diagnostic::error(Code::Missing, at.clone(), message);
    if let Some(at) = &spans.account {
        if let Err(message) = check_account(isolation.user.as_deref(), isolation.group.as_deref()) {
            found.push(missing(at, message));
        } else if !rustix::process::geteuid().is_root() {
            let message = "`user` and `group` need a Pilotlight that runs as root (or with CAP_SETUID and CAP_SETGID)";
            found.push(
                Diagnostic::warning(Code::Missing, at.clone(), message).help("start it as root, or take them away"),
            );
        }
    }
    for (file, at) in isolation.env_files.iter().zip(&spans.env_files) {
        if check_file(file, at, found) {
            let text = fs::read_to_string(file).map_err(|error| error.to_string());
            let read = text.and_then(|text| parse_env_file(&text).map_err(|error| error.to_string()));
            found.extend(read.err().map(|error| missing(at, format!("{}: {error}", file.display()))));
        }
    }
    for ((_, file), at) in isolation.secrets.iter().zip(&spans.secrets) {
        check_file(file, at, found);
    }
    if let Sandbox::Strict { read, write } = &isolation.sandbox {
        for (path, at) in read.iter().zip(&spans.read).chain(write.iter().zip(&spans.write)) {
            if !path.exists() {
                let help = "make it, or take it away";
                found.push(missing(at, format!("{} does not exist", path.display())).help(help));
            }
        }
    }
}

/// Whether a file of secrets can be read; it is said if others can as well.
fn check_file(file: &Path, at: &Span, found: &mut Vec<Diagnostic>) -> bool {
    let name = file.display();
    let error = |code, message: String| Diagnostic::error(code, at.clone(), message);
    let metadata = match fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => {
            found.push(error(Code::Missing, format!("{name} is a folder")).help("name a file in it"));
            return false;
        }
        Ok(metadata) => metadata,
        Err(wrong) => {
            found.push(error(Code::Missing, format!("{name} cannot be read: {wrong}")).help("check the path"));
            return false;
        }
    };
    let mode = metadata.permissions().mode();
    if mode & 0o002 != 0 {
        found.push(error(Code::Unsafe, format!("everybody may write to {name}")).help(format!("chmod o-w {name}")));
    } else if mode & 0o004 != 0 {
        let message = format!("everybody on this machine may read {name}");
        found.push(Diagnostic::warning(Code::Unsafe, at.clone(), message).help(format!("chmod 600 {name}")));
    }
    if !may(file, Access::READ_OK) {
        found.push(
            error(Code::Missing, format!("{name} may not be read by this user")).help("check its owner and mode"),
        );
        return false;
    }
    true
}
