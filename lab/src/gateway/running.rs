//! A gateway of ours with a configuration of its own, and what is asked of it once.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::processes::{Held, Program, gateway_program, own_program, usage};
use crate::service::SERVICE;
use crate::service::bodies::monotonic_ns;
use crate::transport::target::LISTEN_LIMIT;
use crate::{cores, interrupt};

const WAIT_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A running gateway, in a folder that goes with it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) held: Held,
    pub(crate) address: SocketAddr,
    program: PathBuf,
    dir: TempDir,
}

/// The answer to one request on a connection of its own.
#[derive(Debug)]
pub(crate) struct Answered {
    /// From connecting to the first byte, in milliseconds.
    pub(crate) first_byte_ms: f64,
    /// When the first byte was there.
    pub(crate) at_ns: i64,
    pub(crate) body: String,
}

/// How every configuration here begins: one worker, and so much memory for answers.
pub(super) fn head(memory: &str) -> String {
    format!("listen = [\"127.0.0.1:0\"]\nworkers = 1\n\n[cache]\nmemory = \"{memory}\"\n\n")
}

/// A table of a service that is started, with these lines in it.
pub(crate) fn service(name: &str, command: &[&str], more: &str) -> String {
    // JSON's strings and lists are TOML's as well.
    format!("[services.{name}]\ncommand = {}\n{more}\n\n", serde_json::json!(command))
}

/// The lab's own service `kind` over HTTP or the pipe, and the route to it.
pub(super) fn own_service(program: &str, kind: &[&str], more: &str) -> String {
    let transport = if kind[0].starts_with("pipe") { "pipe" } else { "http" };
    let command: Vec<&str> = [program, SERVICE].iter().chain(kind).copied().collect();
    service("service", &command, &format!("transport = \"{transport}\"\n{more}")) + &route("/", "service", "false")
}

pub(crate) fn route(path: &str, service: &str, cache: &str) -> String {
    format!("[[routes]]\npath = \"{path}\"\nservice = \"{service}\"\ncache = {cache}\n\n")
}

/// The table that has this share of requests sampled, and their spans sent to a collector.
pub(crate) fn traces(collector: SocketAddr, share: f64) -> String {
    format!("[traces]\nendpoint = \"http://{collector}/v1/traces\"\nsample = {share}\n")
}

/// The lab's own service of this kind, which says where it listens. `name` is unique in the folder.
pub(crate) fn listening_service(name: &str, dir: &Path, kind: &[&str]) -> anyhow::Result<(Held, SocketAddr)> {
    let command = [own_program()?.into(), SERVICE.into()].into_iter().chain(kind.iter().map(Into::into)).collect();
    let output = dir.join(format!("{name}.output"));
    let mut held = Program { name: name.into(), command, dir: dir.to_owned(), output }.start()?;
    let address = held.listening(LISTEN_LIMIT)?;
    Ok((held, address))
}

impl Running {
    pub(crate) fn start(scratch: &Path, core: Option<usize>, configuration: &str) -> anyhow::Result<Self> {
        Self::start_in(new_folder(scratch)?, core, configuration)
    }

    /// In a folder that has files already.
    pub(super) fn start_in(dir: TempDir, core: Option<usize>, configuration: &str) -> anyhow::Result<Self> {
        let file = dir.path().join("pilotlight.toml");
        fs::write(&file, configuration).with_context(|| format!("cannot write {}", file.display()))?;
        let program = gateway_program()?;
        let program = fs::canonicalize(&program).unwrap_or(program);
        let start = Program {
            name: "pilotlight".into(),
            command: vec![program.clone().into(), "run".into(), "--config".into(), file.into()],
            output: dir.path().join("output"),
            dir: dir.path().to_owned(),
        };
        let mut held = cores::on(core, || start.start())??;
        let address = held.listening(LISTEN_LIMIT)?;
        Ok(Self { held, address, program, dir })
    }

    /// What it is in.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The gateway and its helper process: whatever of the tree runs the gateway's binary.
    pub(crate) fn own_pids(&self) -> Vec<u32> {
        self.pids(true)
    }

    /// All others of the tree.
    pub(crate) fn service_pids(&self) -> Vec<u32> {
        self.pids(false)
    }

    fn pids(&self, own: bool) -> Vec<u32> {
        let is_own = |pid: &u32| usage::executable(*pid).is_some_and(|file| file == self.program);
        let all = usage::tree(self.held.pid()).into_iter().map(|process| process.pid);
        all.filter(|pid| is_own(pid) == own).collect()
    }

    pub(crate) fn dial(&self) -> anyhow::Result<TcpStream> {
        dial(self.address)
    }

    pub(super) fn ask(&self) -> anyhow::Result<Answered> {
        ask(self.address, REQUEST)
    }

    /// Until its service has been idle for long enough.
    pub(crate) fn wait_until_stopped(&self) -> anyhow::Result<()> {
        wait("the service is stopped when idle", || self.service_pids().is_empty())
    }
}

fn dial(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, ANSWER_LIMIT).context("cannot connect")?;
    socket.set_read_timeout(Some(ANSWER_LIMIT))?;
    socket.set_write_timeout(Some(ANSWER_LIMIT))?;
    Ok(socket)
}

/// One request that closes its connection.
///
/// # Errors
/// Nobody listens, or there is no good answer within 20 s.
pub(crate) fn ask(address: SocketAddr, request: &[u8]) -> anyhow::Result<Answered> {
    let begin = Instant::now();
    let mut socket = dial(address)?;
    socket.write_all(request)?;
    let mut first = vec![0; 4096];
    let read = socket.read(&mut first).context("no answer")?;
    let (first_byte_ms, at_ns) = (begin.elapsed().as_secs_f64() * 1e3, monotonic_ns());
    first.truncate(read);
    Ok(Answered { first_byte_ms, at_ns, body: body(first, socket)? })
}

/// The content of an answer that ends with its connection and is to be good.
pub(crate) fn body(mut begun: Vec<u8>, mut socket: TcpStream) -> anyhow::Result<String> {
    socket.read_to_end(&mut begun).context("no whole answer")?;
    let text = String::from_utf8_lossy(&begun);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let is_good = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(1..6)) == Some(" 200 ");
    ensure!(is_good, "answered with {:?}", text.chars().take(300).collect::<String>());
    Ok(body.to_owned())
}

/// # Errors
/// It does not hold within 10 s, or the run was interrupted.
pub(crate) fn wait(what: &str, mut holds: impl FnMut() -> bool) -> anyhow::Result<()> {
    let end = Instant::now() + WAIT_LIMIT;
    while !holds() {
        ensure!(Instant::now() < end, "after {} s it does not hold that {what}", WAIT_LIMIT.as_secs());
        interrupt::check()?;
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// A new folder with a short name: paths of sockets must be short.
pub(crate) fn new_folder(scratch: &Path) -> anyhow::Result<TempDir> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = tempfile::Builder::new();
    let open = builder.prefix("g").rand_bytes(4).permissions(fs::Permissions::from_mode(0o755));
    open.tempdir_in(scratch).with_context(|| format!("no folder in {}", scratch.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_commands_are_quoted() {
        let text = service("a", &["x", "say \"é\"\n"], "min_instances = 0") + &route("/", "a", "\"10h\"");
        assert!(
            text.starts_with("[services.a]\ncommand = [\"x\",\"say \\\"é\\\"\\n\"]\nmin_instances = 0\n"),
            "{text}"
        );
        let text = own_service("/lab", &["pipe-late", "20"], "");
        assert!(text.contains("[\"/lab\",\"lab-service\",\"pipe-late\",\"20\"]\ntransport = \"pipe\"\n"), "{text}");
    }

    #[test]
    fn what_does_not_come_is_said() {
        let mut looks = 0;
        let holds = || {
            looks += 1;
            looks > 2
        };
        wait("it comes", holds).expect("at the third look");
    }
}
