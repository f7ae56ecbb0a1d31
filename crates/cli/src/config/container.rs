//! `container` of a service, and `[containers]`.

use std::path::{Path, PathBuf};

use pilotlight_printable::without_mark;
use pilotlight_supervisor::{
    ContainerSource, ContainerSpec, HttpSocket, ImageSpec, InheritEnv, Pull, Sandbox, ServiceSpec, Transport,
};
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic};
use super::model::{Containers, joined};
use super::readers::{choice, non_empty, read_words};
use super::schema::Part;
use super::section::{Field, Section, a_number, noted};
use super::shown::shown;
use super::value::Rejected;
use super::words;

/// Keys of an image, which a container that is there already has of its own.
const OF_IMAGES: [&str; 7] = ["command", "entrypoint", "volumes", "pull", "workdir", "read_only", "init"];
/// Keys of the service that are for processes.
const OF_PROCESSES: [&str; 10] = [
    "dir",
    "socket",
    "preload",
    "preload_at",
    "releases",
    "keep_releases",
    "inherit_env",
    "sandbox",
    "sandbox_read",
    "sandbox_write",
];
/// Keys of the service that reach a container when it is made.
const AT_CREATION: [&str; 7] = ["env", "env_file", "secrets", "limits", "cgroup", "user", "group"];

/// `[containers]`.
pub(super) fn engine(root: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Containers {
    let mut engine = Containers::default();
    let Some(section) = root.part("containers", Part::Containers, "in [containers]", found) else { return engine };
    section.set("discover", Field::boolean, &mut engine.discover, found);
    let socket = section.field("socket").and_then(|field| noted(non_empty(&field), found).map(str::to_owned));
    engine.socket = socket.map(|text| joined(folder, text.strip_prefix("unix://").unwrap_or(&text)));
    engine
}

/// What is for processes only.
pub(super) fn refuse_of_processes(section: &Section<'_>, found: &mut Vec<Diagnostic>) {
    for name in OF_PROCESSES {
        let Some(field) = section.field(name) else { continue };
        let message = format!("`{name}` is for services that are processes, and this one is a container");
        let help = match name {
            "dir" => "the folder in it is container = { workdir = … }",
            "socket" => "a container listens on its `port`; take `socket` away",
            "preload" | "preload_at" => "a container is not forked: freeze_after makes the next start quick",
            "releases" | "keep_releases" => "name the image by its tag, and change that",
            "inherit_env" => "write what it needs into `env`",
            _ => "a container is bounded by its engine; take it away",
        };
        found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
    }
}

/// How it is spoken to: HTTP/1.1 if nothing is said.
pub(super) fn transport(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> Transport {
    let Some(field) = section.field("transport") else { return Transport::Http(HttpSocket::Port) };
    let over: fn(HttpSocket) -> Transport = match field.value.as_str() {
        Some("pipe") => return Transport::Pipe,
        Some("http") => Transport::Http,
        Some("h2c") => Transport::H2c,
        Some("fastcgi") => Transport::FastCgi,
        Some("scgi") => Transport::Scgi,
        Some("uwsgi") => Transport::Uwsgi,
        _ => {
            let help = "a container speaks \"http\", \"h2c\", \"pipe\", \"fastcgi\", \"scgi\" or \"uwsgi\"";
            found.push(field.rejected(Rejected::help("it is not how a container is spoken to", help)));
            Transport::Http
        }
    };
    over(HttpSocket::Port)
}

/// Reads `container`; the rest of the service's settings have been read.
pub(super) fn read(
    field: &Field<'_>,
    service: &Section<'_>,
    folder: &Path,
    spec: &mut ServiceSpec,
    found: &mut Vec<Diagnostic>,
) -> Option<()> {
    let section = service.part("container", Part::ServiceContainer, "in the service's container", found)?;
    let mut port = None;
    section.set("port", a_number(&ImageSpec::PORT), &mut port, found);
    let network = text(&section, "network", found);
    check_port(&section, field, port, spec, found);
    let source = source(field, &section, folder, spec, found)?;
    if !matches!(source, ContainerSource::Image(_)) {
        refuse_of_new_ones(service, &section, spec, found);
    }
    if let (Some(none), false) = (section.field("network"), spec.transport == Transport::Pipe)
        && network.as_deref() == Some("none")
    {
        let message = "a container in no network cannot be spoken to by HTTP";
        found.push(
            Diagnostic::error(Code::Conflict, none.at, message).help("write transport = \"pipe\", or take it away"),
        );
    }
    spec.container = Some(Box::new(ContainerSpec { source, port, network }));
    Some(())
}

fn check_port(
    section: &Section<'_>,
    container: &Field<'_>,
    port: Option<u16>,
    spec: &ServiceSpec,
    found: &mut Vec<Diagnostic>,
) {
    match (section.field("port"), spec.transport == Transport::Pipe) {
        (Some(field), true) => {
            let message = "`port` has no use with the pipe: the program dials the gateway";
            found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help("take it away"));
        }
        (None, false) if port.is_none() && !section.mentions("port") => {
            let message = "the container has no `port`, so nobody knows where its program listens";
            found.push(
                Diagnostic::error(Code::Conflict, container.at.clone(), message)
                    .help("add port = 8080, or transport = \"pipe\" for a program with a Pilotlight SDK"),
            );
        }
        _ => {}
    }
}

fn source(
    field: &Field<'_>,
    section: &Section<'_>,
    folder: &Path,
    spec: &mut ServiceSpec,
    found: &mut Vec<Diagnostic>,
) -> Option<ContainerSource> {
    let kinds = ["image", "compose", "name", "labels"];
    let said: Vec<Field<'_>> = kinds.iter().filter_map(|name| section.field(name)).collect();
    let help = "image = \"app:1\", or compose = \"docker-compose.yml\" with a `service`, or the `name` of a container";
    match &said[..] {
        [one] => match one.key.name {
            "image" => image(one, section, folder, spec, found).map(|image| ContainerSource::Image(Box::new(image))),
            "compose" => compose(one, section, folder, found),
            "name" => noted(non_empty(one), found).map(|name| ContainerSource::Name(name.to_owned())),
            _ => labels(one, found),
        },
        [] if kinds.iter().any(|name| section.mentions(name)) => None,
        [] => {
            let message = "the container is neither an image, nor of Compose, nor one that is there";
            found.push(Diagnostic::error(Code::MissingKey, field.at.clone(), message).help(help));
            None
        }
        [first, second, ..] => {
            let message = format!("a container has one of `{}` and `{}`, not both", first.key.name, second.key.name);
            found.push(
                Diagnostic::error(Code::Conflict, second.key_at.clone(), message)
                    .related(first.key_at.clone(), "the other one is")
                    .help("take one of the two away"),
            );
            None
        }
    }
}

fn image(
    field: &Field<'_>,
    section: &Section<'_>,
    folder: &Path,
    spec: &ServiceSpec,
    found: &mut Vec<Diagnostic>,
) -> Option<ImageSpec> {
    let name = noted(non_empty(field), found)?;
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        found.push(field.rejected(Rejected::new(format!("{} is not the name of an image", shown(name)))));
        return None;
    }
    let mut image = ImageSpec::new(name);
    image.command = command(section.field("command"), found);
    image.entrypoint = command(section.field("entrypoint"), found);
    image.volumes = volumes(section.field("volumes"), folder, found);
    image.workdir = text(section, "workdir", found);
    section.set("read_only", Field::boolean, &mut image.read_only, found);
    section.set("init", Field::boolean, &mut image.init, found);
    let pull = section.field("pull").and_then(|field| noted(choice(&field, &["missing", "always", "never"]), found));
    image.pull = match pull {
        Some("always") => Pull::Always,
        Some("never") => Pull::Never,
        _ => Pull::Missing,
    };
    let (user, group) = (&spec.isolation.user, &spec.isolation.group);
    image.user = match (user, group) {
        (Some(user), Some(group)) => Some(format!("{user}:{group}")),
        (Some(user), None) => Some(user.clone()),
        (None, Some(group)) => Some(format!(":{group}")),
        (None, None) => None,
    };
    Some(image)
}

/// The project's name is that of the file's folder, as Compose has it, unless it is said.
fn compose(
    field: &Field<'_>,
    section: &Section<'_>,
    folder: &Path,
    found: &mut Vec<Diagnostic>,
) -> Option<ContainerSource> {
    let file = joined(folder, noted(non_empty(field), found)?);
    let Some(service) = text(section, "service", found) else {
        if !section.mentions("service") {
            let message = "a container of Compose is one of its services, and none is named";
            found.push(Diagnostic::error(Code::Conflict, field.at.clone(), message).help("add service = \"web\""));
        }
        return None;
    };
    let of_folder = || {
        let name = file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().to_lowercase());
        let is_good = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        name.unwrap_or_default().chars().filter(is_good).collect::<String>().trim_start_matches(['-', '_']).to_owned()
    };
    let said = text(section, "project", found).or_else(|| project_of(&file));
    let project = said.unwrap_or_else(of_folder);
    let advice = format!(
        "Compose has made no container of service {service} in project {project}; run: docker compose -f {} create {service}",
        file.display()
    );
    let labels = vec![format!("com.docker.compose.project={project}"), format!("com.docker.compose.service={service}")];
    Some(ContainerSource::Labels { labels, advice })
}

/// `name: NAME` at the beginning of a line of the file. Whether the file is there is for `environment` to say.
fn project_of(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let name = without_mark(&text).lines().find_map(|line| line.strip_prefix("name:"))?;
    let name = name.split('#').next()?.trim().trim_matches(['"', '\'']);
    (!name.is_empty() && !name.contains('$')).then(|| name.to_owned())
}

fn labels(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<ContainerSource> {
    let Some(table) = field.value.as_table().filter(|table| !table.is_empty()) else {
        found.push(field.wrong_type());
        return None;
    };
    let mut labels = Vec::new();
    for (name, value) in table {
        let Some(value) = value.get_ref().as_str() else {
            found.push(Diagnostic::error(Code::WrongType, value.span(), "a label's value is a string"));
            return None;
        };
        labels.push(format!("{}={value}", name.get_ref()));
    }
    labels.sort();
    let advice = format!("there is no container with the labels {}; create it first", labels.join(", "));
    Some(ContainerSource::Labels { labels, advice })
}

fn command(field: Option<Field<'_>>, found: &mut Vec<Diagnostic>) -> Option<Vec<String>> {
    let field = field?;
    match field.value {
        DeValue::String(text) => noted(words::split(text).map_err(|wrong| field.rejected(wrong)), found),
        DeValue::Array(list) => Some(read_words(&field, list, found)?.into_iter().map(|(word, _)| word).collect()),
        _ => {
            found.push(field.wrong_type());
            None
        }
    }
}

/// A path of this machine that begins with `.` is joined to the file's folder.
fn volumes(field: Option<Field<'_>>, folder: &Path, found: &mut Vec<Diagnostic>) -> Vec<String> {
    let Some(field) = field else { return Vec::new() };
    let Some(list) = field.value.as_array() else {
        found.push(field.wrong_type());
        return Vec::new();
    };
    let words = read_words(&field, list, found).unwrap_or_default();
    if words.len() > ImageSpec::MAX_VOLUMES {
        let message = format!("`volumes` has {} entries; at most {} are allowed", words.len(), ImageSpec::MAX_VOLUMES);
        found.push(Diagnostic::error(Code::OutOfRange, field.at, message));
        return Vec::new();
    }
    let mut volumes = Vec::with_capacity(words.len());
    for (word, at) in words {
        let parts: Vec<&str> = word.split(':').collect();
        let is_good = (2..=3).contains(&parts.len()) && !parts[0].is_empty() && parts[1].starts_with('/');
        if !is_good {
            let message = format!("`volumes`: {} is not `/here:/there` or `/here:/there:ro`", shown(&word));
            found.push(
                Diagnostic::error(Code::BadValue, at, message)
                    .help("a path of this machine or the name of a volume, then an absolute path in the container"),
            );
            continue;
        }
        let here = if parts[0].starts_with('.') { joined(folder, parts[0]) } else { PathBuf::from(parts[0]) };
        let rest = parts[1..].join(":");
        volumes.push(format!("{}:{rest}", here.display()));
    }
    volumes
}

/// Settings that a container which is there already does not get any more.
fn refuse_of_new_ones(service: &Section<'_>, section: &Section<'_>, spec: &ServiceSpec, found: &mut Vec<Diagnostic>) {
    let fields = OF_IMAGES.iter().filter_map(|name| section.field(name));
    for field in fields.chain(AT_CREATION.iter().filter_map(|name| service.field(name))) {
        let message =
            format!("`{}` reaches a container when it is made, and this one is there already", field.key.name);
        let help = "set it where the container is made, or give an `image`";
        found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
    }
    if let Some(field) = service.field("transport").filter(|_| spec.transport == Transport::Pipe) {
        let message = "the pipe's socket reaches a container when it is made, and this one is there already";
        found.push(Diagnostic::error(Code::Conflict, field.at, message).help("give a `port`, or an `image`"));
    }
}

fn text(section: &Section<'_>, name: &str, found: &mut Vec<Diagnostic>) -> Option<String> {
    let field = section.field(name)?;
    noted(non_empty(&field), found).map(str::to_owned)
}

/// What the isolation of a process is and the engine does for a container.
pub(super) fn without_process_bounds(spec: &mut ServiceSpec) {
    spec.isolation.user = None;
    spec.isolation.group = None;
    spec.isolation.sandbox = Sandbox::None;
    spec.inherit_env = Some(InheritEnv::Little);
}
