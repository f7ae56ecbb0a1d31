//! Which gateway is meant: that of the named socket, or that of the configuration file. Another one only if there is no
//! file and nothing is changed, or if that was said aloud.

use std::io;
use std::path::Path;

use super::client::{Client, Failure, Gateway};
use super::options::{Effect, Which};
use crate::config::{self, AdminSocket, DEFAULT_FILE};
use crate::presence::{self, Record};
use crate::runtime_folder;

/// A way to a gateway, and how it was chosen.
pub(super) struct Found {
    pub(super) client: Client,
    pub(super) chosen: Chosen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// It was named, or is the folder's own.
    Named,
    /// It is the only one that runs.
    Only,
}

/// Finds the gateway.
pub(super) fn find(which: &Which, effect: Effect) -> Result<Found, Failure> {
    let named = |client| Found { client, chosen: Chosen::Named };
    if let Which::Socket(socket) = which {
        return answering(socket).map(named);
    }
    let is_named = matches!(which, Which::Config(_));
    let file = match which {
        Which::Config(file) => file.as_path(),
        _ => Path::new(DEFAULT_FILE),
    };
    let file = std::path::absolute(file)?;
    let (own, others) = presence::with_file(&file);
    match own.as_slice() {
        [] => {}
        [only] => return of_record(only).map(named),
        several => {
            let list = listed(several, |record| {
                record.socket.as_ref().map(|socket| format!("--socket {}", socket.display())).unwrap_or_default()
            });
            return Err(Failure::NoGateway(format!("several gateways run with this file; name one of them:{list}")));
        }
    }
    if let Some(client) = at_configured_socket(&file)? {
        return Ok(named(client));
    }
    let may_be_any = match which {
        Which::Any => true,
        _ => !is_named && !file.exists() && effect == Effect::Reads,
    };
    match others.as_slice() {
        [only] if may_be_any => Ok(Found { client: of_record(only)?, chosen: Chosen::Only }),
        _ => Err(Failure::NoGateway(nobody(&file, is_named, may_be_any, &others))),
    }
}

/// Why no gateway is meant, and what to do.
fn nobody(file: &Path, is_named: bool, may_be_any: bool, others: &[Record]) -> String {
    let shown = file.display();
    let start = if is_named { format!("`pilotlight run --config {shown}`") } else { "`pilotlight run`".to_owned() };
    let why = match (file.exists(), others) {
        (true, _) => format!("no gateway of this user runs with {shown}; start it with {start}"),
        (false, []) => {
            let places: Vec<String> =
                runtime_folder::parents().iter().map(|place| place.display().to_string()).collect();
            return format!(
                "no gateway of this user runs (looked in {}); start one with {start}, or name its socket with --socket",
                places.join(", ")
            );
        }
        (false, _) if is_named => format!("there is no file {shown}, and no gateway of this user runs with it"),
        (false, _) => format!("there is no {shown} here that would say which gateway is meant"),
    };
    match others {
        [] => why,
        [only] => format!("{why}. Another one runs: {}; `--any` means it", Gateway::from(only)),
        several if may_be_any => {
            format!("{why}. Several run; name one of them:{}", listed(several, option))
        }
        several => format!("{why}. Others run; `--config` names one:{}", listed(several, option)),
    }
}

fn option(record: &Record) -> String {
    format!("--config {}", record.config.display())
}

fn listed(records: &[Record], option: impl Fn(&Record) -> String) -> String {
    records.iter().map(|record| format!("\n  {}   (pid {})", option(record), record.pid)).collect()
}

fn of_record(record: &Record) -> Result<Client, Failure> {
    match &record.socket {
        Some(socket) => Ok(Client::of_this_user(socket, Gateway::from(record))),
        None => Err(Failure::NoGateway(format!(
            "{} runs with admin = false, so there is no socket to ask; take that away and start it anew",
            Gateway::from(record)
        ))),
    }
}

/// The gateway that answers where the file says, though it has left no record here: its folders for temporary files may
/// be others.
fn at_configured_socket(file: &Path) -> Result<Option<Client>, Failure> {
    let configured = std::fs::read_to_string(file).ok().and_then(|text| config::parse(&text, file).ok());
    match configured.map(|loaded| loaded.config.operate.admin) {
        Some(Some(AdminSocket::At(socket))) => {
            let Ok(client) = answering(&socket) else { return Ok(None) };
            let other = client.gateway();
            if other.is_of(file) {
                return Ok(Some(client));
            }
            Err(Failure::NoGateway(format!(
                "the admin socket {} of {} is that of another gateway, {other}: choose another path with `socket` in [admin], or name \
                 it with --socket if it is meant",
                socket.display(),
                file.display()
            )))
        }
        Some(None) => Err(Failure::NoGateway(format!(
            "{} says admin = false, so there is no socket to ask; take that away and start the gateway anew, or name another \
             gateway's socket with --socket",
            file.display()
        ))),
        Some(Some(AdminSocket::InRuntimeDir)) | None => Ok(None),
    }
}

/// The gateway at a socket, whatever it is.
fn answering(socket: &Path) -> Result<Client, Failure> {
    let unknown = Client::new(socket, Gateway::default());
    match unknown.get("/status") {
        Ok(answer) => Ok(Client::new(socket, Gateway::from_answer(&answer["gateway"]))),
        Err(Failure::Broken { cause, .. }) => Err(Failure::NoGateway(no_gateway(socket, &cause))),
        Err(refused) => Err(refused),
    }
}

fn no_gateway(socket: &Path, cause: &io::Error) -> String {
    let what = match cause.kind() {
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        io::ErrorKind::ConnectionRefused => "nobody listens on it any more".to_owned(),
        io::ErrorKind::PermissionDenied => "it belongs to another user".to_owned(),
        _ => cause.to_string(),
    };
    format!("no gateway answers on {}: {what}; start one with `pilotlight run`", socket.display())
}
