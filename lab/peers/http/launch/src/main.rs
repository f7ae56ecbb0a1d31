//! What a bare process needs from exec to its first connection and to its first answered byte, with no gateway in between.
//!
//! `launch http COUNT COMMAND…`: the listening Unix socket is fd 3 of the child (`LISTEN_FDS=1`) and the request already waits
//! in it. `launch pipe COUNT COMMAND…`: the child dials `PILOTLIGHT_SOCKET` as a Pipe/1 service, is welcomed and asked.
//! Prints one line of JSON: two lists of milliseconds, the first empty for `http`.
mod pipe;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Error, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const INHERITED_FD: i32 = 3;

/// Milliseconds from just before exec.
struct Sample {
    first_connection: Option<f64>,
    first_byte: f64,
}

/// A started process; its whole group ends with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            // it may have ended by itself
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// A socket file that goes when this value goes.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (kind, count, command) = match arguments.as_slice() {
        [kind, count, command @ ..] if !command.is_empty() => (kind.as_str(), count.parse::<usize>().ok(), command),
        _ => ("", None, [].as_slice()),
    };
    let (Some(count), Some(start)) = (count, start_function(kind)) else {
        eprintln!("usage: launch http|pipe COUNT COMMAND…");
        std::process::exit(2);
    };
    let samples: io::Result<Vec<Sample>> = (0..count).map(|_| start(command)).collect();
    match samples {
        Ok(samples) => println!(
            r#"{{"first_connection_ms":{:?},"first_byte_ms":{:?}}}"#,
            samples.iter().filter_map(|sample| sample.first_connection).collect::<Vec<_>>(),
            samples.iter().map(|sample| sample.first_byte).collect::<Vec<_>>(),
        ),
        Err(error) => {
            eprintln!("launch {kind}: {}: {error}", command.join(" "));
            std::process::exit(1);
        }
    }
}

type Start = fn(&[String]) -> io::Result<Sample>;

fn start_function(kind: &str) -> Option<Start> {
    match kind {
        "http" => Some(http),
        "pipe" => Some(pipe::start),
        _ => None,
    }
}

fn http(command: &[String]) -> io::Result<Sample> {
    let (listener, file) = bind()?;
    if listener.as_raw_fd() != INHERITED_FD {
        return Err(Error::other(format!("fd {INHERITED_FD} is taken; start launch without inherited descriptors")));
    }
    fcntl_setfd(&listener, FdFlags::empty())?;
    let before = Instant::now();
    let running = spawn(command, &[("LISTEN_FDS", "1")])?;
    let mut socket = UnixStream::connect(&file.0)?;
    drop(listener);
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    socket.read_exact(&mut [0])?;
    let first_byte = milliseconds(before);
    drop(running);
    Ok(Sample { first_connection: None, first_byte })
}

fn bind() -> io::Result<(UnixListener, SocketFile)> {
    let path = std::env::temp_dir().join(format!("launch-{}.sock", std::process::id()));
    Ok((UnixListener::bind(&path)?, SocketFile(path)))
}

fn spawn(command: &[String], environment: &[(&str, &str)]) -> io::Result<Running> {
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).envs(environment.iter().copied()).process_group(0);
    child.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(Running(child.spawn()?))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
