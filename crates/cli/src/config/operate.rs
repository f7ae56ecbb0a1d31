//! What the one who operates the gateway sees of it: `server_timing`, `[admin]`, `[metrics]`. Its logs are in `logs`.

use std::net::SocketAddr;
use std::path::Path;

use pilotlight_gateway::{ListenAddr, ServerTiming};
use toml::de::DeTable;

use super::address::{self, is_local};
use super::diagnostic::{Code, Diagnostic};
use super::listeners::{self, Ports};
use super::logs;
use super::model::{AdminSocket, Config, Operate, OperateSpans};
use super::readers::{section, word};
use super::schema::Part;
use super::section::{Section, noted};

pub(super) fn read(root: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Operate {
    let mut at = OperateSpans::default();
    let log = logs::log(root, folder, &mut at, found);
    let service_log = logs::service_log(root, folder, &log, &mut at, found);
    Operate {
        admin: admin(root, folder, &mut at, found),
        metrics: metrics(root, folder, &mut at, found),
        access_log: logs::access_log(root, folder, &mut at, found),
        log,
        service_log,
        at,
    }
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
    let Operate { admin, metrics, at, .. } = &config.operate;
    if let Some(AdminSocket::At(path)) = admin {
        listeners::check_one(&ListenAddr::Unix(path.clone()), &at.socket, "`socket`", ports, found);
    }
    if let Some(address) = metrics {
        listeners::check_one(&ListenAddr::Tcp(*address), &at.metrics, "`listen` of [metrics]", ports, found);
    }
}
