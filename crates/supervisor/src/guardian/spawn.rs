//! Executing a service.

use super::message::{Inherit, SpawnRequest};
use super::wire::Inbox;
use command_fds::{CommandFdExt, FdMapping};
use rustix::process::Pid;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The descriptor that an inherited listening socket gets, `SD_LISTEN_FDS_START`.
const LISTEN_FD: i32 = 3;
/// Variables that describe the gateway's own start, or another instance.
const NOT_INHERITED: [&str; 9] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "PILOTLIGHT_SOCKET",
    "PILOTLIGHT_TOKEN",
    "PILOTLIGHT_INSTANCE",
];

/// Executes the service in a process group of its own; its descriptors are taken from the inbox.
pub(super) fn spawn(request: &SpawnRequest, inbox: &mut Inbox) -> Result<Pid, String> {
    let (Some(stdout), Some(stderr)) = (inbox.take_fd(), inbox.take_fd()) else {
        return Err("the gateway sent no output descriptors".to_owned());
    };
    let listener = match request.inherit {
        Inherit::Nothing => None,
        Inherit::Listener => Some(inbox.take_fd().ok_or("the gateway sent no listening socket")?),
    };
    let program = request.argv.first().ok_or("the command is empty")?.clone();
    let dir = request.dir.clone();
    let spawned = match listener {
        None => plain(request, &program, stdout, stderr),
        Some(listener) => with_listener(request, listener, stdout, stderr),
    };
    spawned.map_err(|error| explain(&error, &program, dir.as_deref()))
}

fn plain(request: &SpawnRequest, program: &OsStr, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Pid> {
    let mut command = Command::new(program);
    command.args(&request.argv[1..]).stdin(Stdio::null());
    start(configure(&mut command, request, stdout, stderr))
}

/// Through a shell that sets `LISTEN_PID` and becomes the service: servers that follow `sd_listen_fds(3)` use the socket only if the
/// variable is their own pid, which nobody knows before the process exists. (Executing this program once more instead costs
/// 0.7 ms more of every cold start.)
fn with_listener(request: &SpawnRequest, listener: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Pid> {
    check_executable(request)?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "export LISTEN_PID=$$; exec \"$@\"", "sh"]).args(&request.argv).stdin(Stdio::null());
    configure(&mut command, request, stdout, stderr);
    // Clears close-on-exec even if the socket already is descriptor 3, which `dup2` alone would not do.
    let mapping = FdMapping { parent_fd: listener, child_fd: LISTEN_FD };
    command.fd_mappings(vec![mapping]).map_err(io::Error::other)?;
    start(&mut command)
}

/// What `exec` would say of the program: the shell can only say it in the service's output.
fn check_executable(request: &SpawnRequest) -> io::Result<()> {
    let program = Path::new(request.argv.first().map_or(OsStr::new(""), OsStr::new));
    let dir = request.dir.as_deref().map_or(Path::new(""), Path::new);
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return executable(&dir.join(program));
    }
    let own = std::env::var_os("PATH");
    let path = request.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.into()).or(own);
    let folders: Vec<_> = path.iter().flat_map(std::env::split_paths).collect();
    let found = folders.iter().map(|folder| executable(&dir.join(folder).join(program)));
    found.min_by_key(Result::is_err).unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
}

fn executable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
}

fn configure<'a>(
    command: &'a mut Command,
    request: &SpawnRequest,
    stdout: OwnedFd,
    stderr: OwnedFd,
) -> &'a mut Command {
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    command.envs(request.env.iter().map(|(name, value)| (name, value)));
    if let Some(dir) = &request.dir {
        command.current_dir(dir);
    }
    command.stdout(stdout).stderr(stderr).process_group(0)
}

fn start(command: &mut Command) -> io::Result<Pid> {
    let child = command.spawn()?;
    // Not waited for through `child`: all children are buried in one place.
    Pid::from_raw(child.id() as i32).ok_or_else(|| io::Error::other("the new process has no pid"))
}

/// What failed, where, and what to do.
fn explain(error: &io::Error, program: &OsStr, dir: Option<&OsStr>) -> String {
    let shown = Path::new(program).display();
    let here = dir.map(|dir| format!(" in {}", Path::new(dir).display())).unwrap_or_default();
    if let Some(dir) = dir.filter(|dir| !Path::new(dir).is_dir()) {
        return format!("its working directory {} does not exist; check `dir`", Path::new(dir).display());
    }
    let has_slash = program.as_encoded_bytes().contains(&b'/');
    let path = dir.map_or_else(|| Path::new(program).to_owned(), |dir| Path::new(dir).join(program));
    match error.kind() {
        io::ErrorKind::NotFound if !has_slash => {
            format!("`{shown}` was not found in any folder of PATH; install it or give its full path in `command`")
        }
        io::ErrorKind::NotFound if path.exists() => {
            format!(
                "`{shown}`{here} exists, but the interpreter or loader that it names does not; check its first line"
            )
        }
        io::ErrorKind::NotFound => format!("`{shown}`{here} does not exist; check `command`, or build it first"),
        io::ErrorKind::PermissionDenied => {
            format!("`{shown}`{here} may not be executed; check its mode (chmod +x) and that it is a file")
        }
        _ => format!("`{shown}`{here} cannot be executed: {error}"),
    }
}
