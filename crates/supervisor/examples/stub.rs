//! What the tests need of a gateway: a program that is its own guardian, and that can be killed with `kill -9`.
//!
//! `stub guardian`: the guardian. `stub run DIR SCRIPT`: runs `sh -c SCRIPT` as an HTTP service with its sockets in
//! DIR, prints `up` and waits to be killed. `stub fd3`: whether a listening socket that already is descriptor 3 is
//! inherited.

use command_fds::{CommandFdExt, FdMapping};
use pilotlight_supervisor::{HttpSocket, Program, ServiceSpec, SupervisorOptions, Transport, guardian, start};
use std::ffi::OsString;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, ExitCode};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Error> {
    let args: Vec<OsString> = std::env::args_os().collect();
    match args.get(1).and_then(|mode| mode.to_str()) {
        Some("guardian") => Ok(guardian::main()),
        Some("run") => run(&args[2], &args[3]),
        Some("fd3") => fd3(),
        _ => Err("usage: stub guardian | run DIR SCRIPT | fd3".into()),
    }
}

fn run(dir: &OsString, script: &OsString) -> Result<ExitCode, Error> {
    let (log, _lines) = tokio::sync::mpsc::channel(16);
    let options = SupervisorOptions {
        workers: 1,
        runtime_dir: dir.into(),
        guardian: Program { path: std::env::current_exe()?, arguments: vec!["guardian".into()] },
        log,
        containers: pilotlight_supervisor::ContainerOptions::default(),
    };
    let argv = vec!["sh".into(), "-c".into(), script.clone()];
    let spec = ServiceSpec::new("stub", argv, Transport::Http(HttpSocket::Unix));
    let (supervisor, _events) = start(options, vec![spec])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let lease = runtime.block_on(supervisor.services()[0].ready(0))?;
    println!("up {}", lease.instance().number());
    loop {
        std::thread::park();
    }
}

/// The first descriptor that a fresh process opens is 3; `dup2(3, 3)` would leave it close-on-exec.
fn fd3() -> Result<ExitCode, Error> {
    let socket: OwnedFd = TcpListener::bind("127.0.0.1:0")?.into();
    if socket.as_raw_fd() != 3 {
        return Err(format!("the test needs descriptor 3 and got {}", socket.as_raw_fd()).into());
    }
    let mut command = Command::new("sh");
    command.args(["-c", "test -S /dev/fd/3"]).fd_mappings(vec![FdMapping { parent_fd: socket, child_fd: 3 }])?;
    Ok(if command.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
