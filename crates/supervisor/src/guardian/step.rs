//! The step between the guardian and a service that inherits a socket.
//!
//! Servers that follow `sd_listen_fds(3)` use the socket only if `LISTEN_PID` is their own pid, which nobody knows before
//! the process exists. So the guardian executes itself once more; that process sets `LISTEN_PID` and becomes the service. Its
//! standard input is a pipe, closed by the final `exec`, that carries the error if there is one.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

/// Its value is the number of arguments before the service's own.
const STEP: &str = "PILOTLIGHT_STEP";
/// Longer than any number of an error.
const MAX_FAILURE: u64 = 16;
const CANNOT_EXECUTE: u8 = 127;

/// The command that becomes `argv`.
pub(super) fn command(argv: &[OsString]) -> io::Result<Command> {
    let own_args: Vec<_> = env::args_os().skip(1).collect();
    let mut command = Command::new(own_program()?);
    command.args(&own_args).args(argv).env(STEP, own_args.len().to_string());
    Ok(command)
}

/// A pipe for the error: our end, the step's end.
pub(super) fn failure_pipe() -> io::Result<(PipeReader, PipeWriter)> {
    io::pipe() // close-on-exec, both
}

/// Waits until the step has become the service, or has failed. It does nothing but `exec`, so that is soon.
pub(super) fn failure(pipe: PipeReader) -> io::Result<Option<io::Error>> {
    let mut text = String::new();
    pipe.take(MAX_FAILURE).read_to_string(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    let code = text
        .parse()
        .map_err(|_| io::Error::other("the step before the service failed in an unknown way"))?;
    Ok(Some(io::Error::from_raw_os_error(code)))
}

/// Whether this process is the step.
pub(super) fn requested() -> bool {
    env::var_os(STEP).is_some()
}

/// Becomes the service.
pub(super) fn run() -> ExitCode {
    // A copy, closed by a successful `exec`; the failing one has replaced standard input already.
    let Ok(pipe) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) else {
        return ExitCode::from(CANNOT_EXECUTE);
    };
    let code = become_service().raw_os_error().unwrap_or(0);
    // If even this fails the guardian sees a process that exits with status 127.
    let _ = File::from(pipe).write_all(code.to_string().as_bytes());
    ExitCode::from(CANNOT_EXECUTE)
}

fn become_service() -> io::Error {
    let skip = env::var(STEP).ok().and_then(|value| value.parse::<usize>().ok());
    let mut argv = env::args_os().skip(1 + skip.unwrap_or(0));
    let Some(program) = argv.next() else {
        return io::ErrorKind::InvalidInput.into();
    };
    Command::new(program)
        .args(argv)
        .env_remove(STEP)
        .env("LISTEN_PID", std::process::id().to_string())
        .stdin(Stdio::null())
        .exec()
}

/// The running program, even if its file has been replaced.
#[cfg(target_os = "linux")]
fn own_program() -> io::Result<OsString> {
    Ok(OsString::from("/proc/self/exe"))
}

#[cfg(not(target_os = "linux"))]
fn own_program() -> io::Result<OsString> {
    env::current_exe().map(OsString::from)
}
