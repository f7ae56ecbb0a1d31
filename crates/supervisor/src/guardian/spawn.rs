//! Executing a service.

use super::message::{Inherit, SpawnRequest};
use super::wire::Inbox;
use command_fds::{CommandFdExt, FdMapping};
use fork::{Fork, fork};
use rustix::io::Errno;
use rustix::process::Pid;
use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
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
    let socket = match request.inherit {
        Inherit::Nothing => None,
        Inherit::Listener | Inherit::Input => Some(inbox.take_fd().ok_or("the gateway sent no socket")?),
    };
    let program = request.argv.first().ok_or("the command is empty")?.clone();
    let dir = request.dir.clone();
    let spawned = with_huge_pages(|| match socket {
        Some(listener) if request.inherit == Inherit::Listener => {
            with_listener(request, &program, listener, stdout, stderr)
        }
        input => plain(request, &program, input, stdout, stderr),
    });
    spawned.map_err(|error| explain(&error, &program, dir.as_deref()))
}

fn plain(
    request: &SpawnRequest,
    program: &OsStr,
    input: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
) -> io::Result<Pid> {
    let mut command = Command::new(program);
    command.args(&request.argv[1..]).stdin(input.map_or_else(Stdio::null, Stdio::from));
    start(configure(&mut command, request, stdout, stderr))
}

/// Servers that follow `sd_listen_fds(3)` use the socket only if `LISTEN_PID` is their own pid, which nobody knows before the
/// process exists: the process is forked first, and says itself what it executes.
fn with_listener(
    request: &SpawnRequest,
    program: &OsStr,
    listener: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
) -> io::Result<Pid> {
    let mut command = Command::new(program);
    command.args(&request.argv[1..]).stdin(Stdio::null());
    configure(&mut command, request, stdout, stderr);
    // Clears close-on-exec even if the socket already is descriptor 3, which `dup2` alone would not do.
    let mapping = FdMapping { parent_fd: listener, child_fd: LISTEN_FD };
    command.fd_mappings(vec![mapping]).map_err(io::Error::other)?;
    let (failure, report) = io::pipe()?; // closed by a successful `exec`, both
    // The guardian has one thread, so the child may do whatever its parent may.
    match fork()? {
        Fork::Parent(pid) => {
            drop(report);
            executed(failure)?;
            into_pid(pid)
        }
        Fork::Child => execute(command, report),
    }
}

/// The child's part, up to its end as this program.
fn execute(mut command: Command, mut report: PipeWriter) -> ! {
    let error = command.env("LISTEN_PID", std::process::id().to_string()).exec();
    let code = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
    // If even this fails, the service ends at once with this status, which is reported as well.
    let _ = report.write_all(&code.to_ne_bytes());
    std::process::exit(127)
}

/// The parent's part: waits until the child has executed its program, or could not.
fn executed(mut failure: PipeReader) -> io::Result<()> {
    let mut code = [0; 4];
    match failure.read_exact(&mut code) {
        Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Err(error) => Err(error),
    }
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
    // Not waited for through the `Child`: all children are buried in one place.
    into_pid(command.spawn()?.id() as i32)
}

fn into_pid(pid: i32) -> io::Result<Pid> {
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("the new process has no pid"))
}

/// Our allocator switches huge pages off for its process. Children inherit that, even through `exec`, and a service has not asked for it.
fn with_huge_pages<T>(spawn: impl FnOnce() -> T) -> T {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
        if transparent_huge_pages_are_disabled() == Ok(true) {
            // A kernel that refuses leaves the service with small pages, which works as well.
            let _ = disable_transparent_huge_pages(false);
            let spawned = spawn();
            let _ = disable_transparent_huge_pages(true);
            return spawned;
        }
    }
    spawn()
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
