//! Executing a service.

use super::message::{Inherit, MARK, SpawnRequest};
use crate::fd_message::Inbox;
use crate::isolation::{self, Bounds, Prepared, SandboxBounds, ToExecute};
use crate::limits::MAX_REPORT;
use crate::spec::InheritEnv;
use command_fds::{CommandFdExt, FdMapping};
use fork::{Fork, fork};
use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The descriptor that an inherited listening socket gets, `SD_LISTEN_FDS_START`.
pub(crate) const LISTEN_FD: i32 = 3;
/// Variables that describe the gateway's own start, or another instance.
const NOT_INHERITED: [&str; 12] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "PILOTLIGHT_SOCKET",
    "PILOTLIGHT_TOKEN",
    "PILOTLIGHT_INSTANCE",
    "PILOTLIGHT_LISTEN",
    "FPM_SOCKETS",
    MARK,
];

/// A process that was executed.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) pid: Pid,
    /// What it was to be kept from and is not.
    pub(super) notices: Vec<String>,
    /// What of its sandbox is in force.
    pub(super) sandbox: Option<SandboxBounds>,
}

/// Why it was not.
#[derive(Debug)]
enum Failure {
    Exec(io::Error),
    Bounds(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Exec(error)
    }
}

/// Why a process was not executed.
#[derive(Debug)]
pub(super) struct NotSpawned {
    pub(super) reason: String,
    /// What only the log and developers are told.
    pub(super) detail: Option<String>,
}

impl NotSpawned {
    fn out_of_bounds(detail: String) -> Self {
        let reason = "its user, secrets, limits or sandbox could not be set up; the log says why".to_owned();
        Self { reason, detail: Some(detail) }
    }
}

impl From<&str> for NotSpawned {
    fn from(reason: &str) -> Self {
        Self { reason: reason.to_owned(), detail: None }
    }
}

/// Executes the service in a process group of its own; its descriptors are taken from the inbox.
pub(super) fn spawn(request: &SpawnRequest, inbox: &mut Inbox, bounds: &mut Bounds) -> Result<Spawned, NotSpawned> {
    let (Some(stdout), Some(stderr)) = (inbox.take_fd(), inbox.take_fd()) else {
        return Err("the gateway sent no output descriptors".into());
    };
    let socket = match request.inherit {
        Inherit::Nothing => None,
        Inherit::Listener | Inherit::FastCgi | Inherit::Input => {
            Some(inbox.take_fd().ok_or("the gateway sent no socket")?)
        }
    };
    let program = request.argv.first().ok_or("the command is empty")?.clone();
    let mut notices = Vec::new();
    let prepared = request
        .isolation
        .as_ref()
        .map(|isolation| bounds.prepare(&to_execute(request), isolation, &mut notices))
        .transpose()
        .map_err(NotSpawned::out_of_bounds)?;
    let spawned = with_huge_pages(|| forked(request, &program, Given { socket, stdout, stderr }, prepared));
    let mut spawned = spawned.map_err(|failure| {
        bounds.ended(request.id);
        match failure {
            Failure::Exec(error) => {
                NotSpawned { reason: explain(&error, &program, request.dir.as_deref()), detail: None }
            }
            Failure::Bounds(detail) => NotSpawned::out_of_bounds(detail),
        }
    })?;
    spawned.notices.splice(0..0, notices);
    Ok(spawned)
}

/// Descriptors of the new process.
struct Given {
    socket: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// The process is forked first and says itself what it executes: because it is to end with the guardian, because
/// servers that follow `sd_listen_fds(3)` use the socket only if `LISTEN_PID` is their own, which nobody knows before
/// the process exists, and because of its bounds.
fn forked(
    request: &SpawnRequest,
    program: &OsStr,
    given: Given,
    prepared: Option<Prepared<'_>>,
) -> Result<Spawned, Failure> {
    let Given { socket, stdout, stderr } = given;
    let mut command = Command::new(program);
    command.args(&request.argv[1..]).stdin(Stdio::null());
    configure(&mut command, request, stdout, stderr);
    match (socket, request.inherit) {
        (Some(socket), Inherit::Listener | Inherit::FastCgi) => {
            if request.inherit == Inherit::FastCgi {
                command.stdin(socket.try_clone()?);
            }
            // Clears close-on-exec even if the socket already is descriptor 3, which `dup2` alone would not do.
            let mapping = FdMapping { parent_fd: socket, child_fd: LISTEN_FD };
            command.fd_mappings(vec![mapping]).map_err(io::Error::other)?;
        }
        (Some(socket), _) => {
            command.stdin(socket);
        }
        (None, _) => {}
    }
    let (said, report) = io::pipe()?; // closed by a successful `exec`, both
    // The guardian has one thread, so the child may do whatever its parent may.
    match fork()? {
        Fork::Parent(pid) => {
            drop(report);
            drop(command);
            let (notices, sandbox) = executed(said)?;
            Ok(Spawned { pid: into_pid(pid)?, notices, sandbox })
        }
        Fork::Child => {
            drop(said); // so that only the guardian has it
            execute(command, request, prepared, &report)
        }
    }
}

/// What a service in a strict sandbox would have: a child puts itself into one, and ends.
pub(super) fn probe_sandbox() -> Option<SandboxBounds> {
    let (said, mut report) = io::pipe().ok()?;
    match fork().ok()? {
        Fork::Parent(_) => {
            drop(report);
            executed(said).ok()?.1
        }
        Fork::Child => {
            end_with_guardian(&report);
            let line = isolation::probe().ok().and_then(|found| serde_json::to_vec(&ChildEvent::InForce(found)).ok());
            let _ = report.write_all(&line.unwrap_or_default()); // without an answer nothing is said
            std::process::exit(0)
        }
    }
}

/// What of a request is put into bounds.
fn to_execute(request: &SpawnRequest) -> ToExecute<'_> {
    let program = request.argv.first().map_or(OsStr::new(""), |program| program.as_os_str());
    ToExecute { id: request.id, program, dir: request.dir.as_deref().map(Path::new), env: &request.env }
}

/// What the child says: one JSON value for each line.
#[derive(Debug, Serialize, Deserialize)]
enum ChildEvent {
    Notice(String),
    InForce(SandboxBounds),
    Bounds(String),
    Exec(i32),
}

/// The child's part, up to its end as this program.
fn execute(mut command: Command, request: &SpawnRequest, prepared: Option<Prepared<'_>>, report: &PipeWriter) -> ! {
    let say = |event: &ChildEvent| {
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        // If even this fails, the service ends at once with this status, which is reported as well.
        let mut report = report;
        let _ = report.write_all(&line);
    };
    end_with_guardian(report); // now, because what follows may take a while
    if matches!(request.inherit, Inherit::Listener | Inherit::FastCgi) {
        command.env("LISTEN_PID", std::process::id().to_string());
    }
    let entered = match prepared.map(|prepared| isolation::enter(&prepared)).transpose() {
        Ok(entered) => entered.unwrap_or_default(),
        Err(reason) => {
            say(&ChildEvent::Bounds(reason));
            std::process::exit(127)
        }
    };
    let given = entered.env.iter().filter(|(name, _)| !request.env.iter().any(|(set, _)| set == name));
    command.envs(given.map(|(name, value)| (name, value)));
    entered.notices.into_iter().for_each(|notice| say(&ChildEvent::Notice(notice)));
    if let Some(in_force) = entered.sandbox {
        say(&ChildEvent::InForce(in_force));
    }
    end_with_guardian(report); // again, because another user is another beginning
    let error = command.exec();
    say(&ChildEvent::Exec(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())));
    std::process::exit(127)
}

/// From now on the kernel kills this process when the guardian ends, however that ends. `exec` keeps this, except that
/// of a program with the set-user-ID bit or file capabilities.
fn end_with_guardian(report: &PipeWriter) {
    #[cfg(target_os = "linux")]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        // Fails only for a number that is no signal.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        // It may have ended before that: then nobody has the other end of the pipe.
        let mut fds = [PollFd::new(report, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::ERR) {
            std::process::exit(127)
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = report;
}

/// The parent's part: waits until the child has executed its program, or could not.
fn executed(said: PipeReader) -> Result<(Vec<String>, Option<SandboxBounds>), Failure> {
    let mut text = String::new();
    said.take(MAX_REPORT).read_to_string(&mut text)?;
    let (mut notices, mut sandbox) = (Vec::new(), None);
    for line in text.lines() {
        match serde_json::from_str(line).map_err(io::Error::from)? {
            ChildEvent::Notice(notice) => notices.push(notice),
            ChildEvent::InForce(bounds) => sandbox = Some(bounds),
            ChildEvent::Bounds(reason) => return Err(Failure::Bounds(reason)),
            ChildEvent::Exec(code) => return Err(io::Error::from_raw_os_error(code).into()),
        }
    }
    Ok((notices, sandbox))
}

fn configure(command: &mut Command, request: &SpawnRequest, stdout: OwnedFd, stderr: OwnedFd) {
    if request.inherit_env != InheritEnv::All {
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| request.inherit_env.has(name)));
    }
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    command.envs(request.env.iter().map(|(name, value)| (name, value)));
    if let Some(dir) = &request.dir {
        command.current_dir(dir);
    }
    command.stdout(stdout).stderr(stderr).process_group(0);
}

fn into_pid(pid: i32) -> io::Result<Pid> {
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("the new process has no pid"))
}

/// Our allocator switches huge pages off for its process. Children inherit that, even through `exec`, and a service has
/// not asked for it.
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
