//! Whether the addresses in `listen` are free.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use pilotlight_gateway::ListenAddr;
use rustix::net::{self, AddressFamily, SocketType};

use super::access::may;
use super::address::written;
use super::diagnostic::{Code, Diagnostic, Severity, Span};
use super::model::Config;
use crate::port_owner::owner;

/// What to do about addresses that cannot be listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Do not look: the caller has them itself.
    Skip,
    /// Warn: perhaps it is this gateway that has them.
    Warn,
    /// Warn, but not of those that the gateway with this process id has, which is that of the same file.
    Beside(u32),
    /// Report errors: this process is about to use them.
    ///
    /// The gateway's own listeners share their ports (`SO_REUSEPORT`), so that without this look a second gateway of
    /// the same user would silently take half of the first one's connections.
    Require,
}

pub(super) fn check(config: &Config, ports: Ports, found: &mut Vec<Diagnostic>) {
    for listener in &config.listen {
        check_one(&listener.address, &listener.at, "`listen`", ports, found);
    }
}

/// Looks at one address, which is the value of `key`.
pub(super) fn check_one(address: &ListenAddr, at: &Span, key: &str, ports: Ports, found: &mut Vec<Diagnostic>) {
    let severity = match ports {
        Ports::Skip => return,
        Ports::Warn | Ports::Beside(_) => Severity::Warning,
        Ports::Require => Severity::Error,
    };
    let problem = match address {
        ListenAddr::Tcp(address) | ListenAddr::Tls(address) => tcp(*address),
        ListenAddr::Unix(path) => unix(path),
    };
    // Where nobody says who has it, it is the gateway that has it by right.
    let is_own = |pid: u32| owner(address).is_none_or(|owner| owner.pid == u64::from(pid));
    if let (Ports::Beside(pid), Some(Problem { is_in_use: true, .. })) = (ports, &problem)
        && is_own(pid)
    {
        return;
    }
    if let Some(Problem { message, help, .. }) = problem {
        let message = format!("{} {message}", written(address));
        let mut diagnostic =
            Diagnostic::whole_file(severity, Code::Listen, message).help(help.replace("`listen`", key));
        // The default address stands nowhere in the file.
        diagnostic.span = Some(at.clone()).filter(|at| !at.is_empty());
        found.push(diagnostic);
    }
}

/// What is found at an address of `listen`, or of `[metrics]`.
pub(crate) struct ListenerFinding {
    pub(crate) address: ListenAddr,
    /// As it stands in the file.
    pub(crate) shown: String,
    /// What is wrong with it, and what to do.
    pub(crate) wrong: Option<(String, String)>,
}

/// Looks at every address of a file.
pub(crate) fn listener_findings(config: &Config) -> Vec<ListenerFinding> {
    let metrics = config.operate.metrics.map(ListenAddr::Tcp);
    let addresses = config.listen.iter().map(|listener| listener.address.clone()).chain(metrics);
    let one = |address: ListenAddr| {
        let mut found = Vec::new();
        check_one(&address, &(0..0), "`listen`", Ports::Warn, &mut found);
        let wrong = found.pop().map(|found| (found.message, found.help.unwrap_or_default()));
        ListenerFinding { shown: written(&address), address, wrong }
    };
    addresses.map(one).collect()
}

struct Problem {
    message: String,
    help: String,
    /// Another process has the address.
    is_in_use: bool,
}

fn problem(message: impl Into<String>, help: impl Into<String>) -> Problem {
    Problem { message: message.into(), help: help.into(), is_in_use: false }
}

fn tcp(address: SocketAddr) -> Option<Problem> {
    let error = bound(address).err()?;
    let port = address.port();
    Some(match error.kind() {
        ErrorKind::AddrInUse => Problem {
            is_in_use: true,
            ..problem(
                "is in use by another program",
                format!(
                    "stop that program (`ss -ltnp 'sport = :{port}'` shows it), or choose another port in `listen`"
                ),
            )
        },
        ErrorKind::PermissionDenied => problem(
            "may not be used by this user",
            "choose a port from 1024 up, or give the program the right: setcap cap_net_bind_service=+ep",
        ),
        ErrorKind::AddrNotAvailable => problem(
            "is not an address of this machine",
            "use 127.0.0.1, an address that `ip address` shows, or 0.0.0.0 for all",
        ),
        _ => problem(format!("cannot be listened on: {error}"), "choose another address in `listen`"),
    })
}

/// Binds as a listener would, and does not listen: who connects meanwhile is refused, and tries again. In the queue of
/// a socket that closes at once he would be accepted and then reset, in the middle of his request.
fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
    net::sockopt::set_socket_reuseaddr(&socket, true)?; // what is left of an earlier gateway's connections is no other program
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// Makes a socket that no child inherits.
#[cfg(target_os = "linux")]
fn stream(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    net::socket_with(family, SocketType::STREAM, net::SocketFlags::CLOEXEC, None)
}

#[cfg(not(target_os = "linux"))]
use stream_in_two_steps as stream;

/// Makes a socket that no child inherits, unless another thread starts one between the two steps.
#[cfg(any(test, not(target_os = "linux")))]
fn stream_in_two_steps(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let socket = net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

fn unix(path: &Path) -> Option<Problem> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return Some(problem("cannot be made: its folder does not exist", format!("mkdir -p {}", folder.display())));
    }
    if !may(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        return Some(problem(
            "cannot be made: this user may not write to its folder",
            "choose another folder in `listen`",
        ));
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(problem(format!("cannot be looked at: {error}"), "choose another path in `listen`")),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Some(problem("is there already and is not a socket", "take it away, or choose another path in `listen`"))
        }
        Ok(_) => is_answered(path).then(|| Problem {
            is_in_use: true,
            ..problem("is in use by another program", "stop that program, or choose another path in `listen`")
        }),
    }
}

/// Whether somebody listens on the socket. A socket that nobody listens on was left behind and can be replaced.
fn is_answered(path: &Path) -> bool {
    let refused = |error: &io::Error| error.kind() == ErrorKind::ConnectionRefused;
    match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => !refused(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_child_inherits_the_socket() {
        for socket in [stream(AddressFamily::INET).unwrap(), stream_in_two_steps(AddressFamily::INET).unwrap()] {
            assert_eq!(rustix::io::fcntl_getfd(&socket).unwrap(), rustix::io::FdFlags::CLOEXEC);
        }
    }
}
