//! Which gateway is meant: the socket that is named, that of the configuration file, or the only one that runs.

use std::io;
use std::path::{Path, PathBuf};

use pilotlight_supervisor::RUNTIME_DIR_PREFIX;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, statat};

use super::Connection;
use super::client::{Client, Failure};
use crate::config::{self, AdminSocket};
use crate::operate::SOCKET;
use crate::runtime_folder;

/// Finds the gateway.
pub(super) fn client(connection: &Connection) -> Result<Client, Failure> {
    if let Some(socket) = &connection.socket {
        return answering(socket);
    }
    let file = std::path::absolute(&connection.config)?;
    let configured = std::fs::read_to_string(&file).ok().and_then(|text| config::parse(&text, &file).ok());
    match configured.map(|loaded| loaded.config.operate.admin) {
        Some(Some(AdminSocket::At(socket))) => answering(&socket),
        Some(None) => Err(Failure::NoGateway(format!(
            "{} says admin = false, so there is no socket to ask; take that away and start the gateway anew, or name another \
             gateway's socket with --socket",
            file.display()
        ))),
        Some(Some(AdminSocket::InRuntimeDir)) | None => running(&file),
    }
}

fn answering(socket: &Path) -> Result<Client, Failure> {
    let client = Client::new(socket);
    match client.get("/status") {
        Ok(_) => Ok(client),
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

/// Of the gateways of this user that run, the one with this configuration file, or the only one.
fn running(file: &Path) -> Result<Client, Failure> {
    let folders = runtime_folder::parents();
    let found: Vec<(Client, String)> = folders
        .iter()
        .flat_map(|folder| sockets(folder))
        .filter_map(|socket| {
            let client = Client::of_this_user(&socket);
            let status = client.get("/status").ok()?;
            Some((client, status["gateway"]["config"].as_str()?.to_owned()))
        })
        .collect();
    let same: Vec<&Client> =
        found.iter().filter(|(_, config)| Path::new(config) == file).map(|(client, _)| client).collect();
    match (same.as_slice(), found.as_slice()) {
        ([only], _) => Ok((*only).clone()),
        ([], [(only, _)]) => Ok(only.clone()),
        (_, []) => {
            let tried: Vec<String> =
                folders.iter().map(|folder| format!("{}/{RUNTIME_DIR_PREFIX}*/{SOCKET}", folder.display())).collect();
            Err(Failure::NoGateway(format!(
                "no gateway of this user runs (tried {}); start one with `pilotlight run`, or name its socket with --socket",
                tried.join(" and ")
            )))
        }
        _ => {
            let all: Vec<String> = found
                .iter()
                .map(|(client, config)| format!("  --socket {}   {config}", client.socket().display()))
                .collect();
            Err(Failure::NoGateway(format!("several gateways run; name one of them:\n{}", all.join("\n"))))
        }
    }
}

/// The sockets in runtime folders of this user and of root: in a folder for everybody, anybody may make one that looks like ours.
fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(RUNTIME_DIR_PREFIX))
        .filter(|entry| is_trusted(&entry.path()))
        .map(|entry| entry.path().join(SOCKET))
        .collect()
}

/// Whether it is a folder with a socket, and both belong to this user or to root. Somebody else may put another folder in its place until it is
/// connected to, which [`Client::of_this_user`] finds.
fn is_trusted(folder: &Path) -> bool {
    let is_ours = |owner: u32| owner == 0 || owner == rustix::process::geteuid().as_raw();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = open(folder, flags, Mode::empty()) else { return false };
    let socket = statat(&folder, SOCKET, AtFlags::SYMLINK_NOFOLLOW);
    fstat(&folder).is_ok_and(|folder| is_ours(folder.st_uid))
        && socket
            .is_ok_and(|socket| is_ours(socket.st_uid) && FileType::from_raw_mode(socket.st_mode) == FileType::Socket)
}
