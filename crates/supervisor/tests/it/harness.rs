//! A supervisor in a folder of its own, and workers that do with connections what the gateway does.

use pilotlight_supervisor::{
    ContainerOptions, Endpoint, HttpSocket, Instance, LogLine, Program, Service, ServiceSpec, SharedLink, Supervisor,
    SupervisorOptions, Transport, WorkerEvent, WorkerEvents, start,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

/// The longest that anything here may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Bed {
    pub(crate) supervisor: Supervisor,
    pub(crate) log: mpsc::Receiver<LogLine>,
    pub(crate) events: Vec<WorkerEvents>,
    pub(crate) dir: TempDir,
}

impl Bed {
    pub(crate) fn new(workers: usize, specs: Vec<ServiceSpec>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (sink, log) = mpsc::channel(1024);
        let options = SupervisorOptions {
            workers,
            runtime_dir: dir.path().join("run"),
            guardian: guardian(),
            log: sink,
            containers: ContainerOptions::default(),
        };
        let (supervisor, events) = start(options, specs).unwrap();
        Self { supervisor, log, events, dir }
    }

    pub(crate) fn service(&self, index: usize) -> Arc<Service> {
        Arc::clone(&self.supervisor.services()[index])
    }

    pub(crate) fn pipe_socket(&self) -> PathBuf {
        self.dir.path().join("run/pipe.sock")
    }

    /// Lets every worker do its duty.
    pub(crate) fn work(&mut self) -> mpsc::UnboundedReceiver<Seen> {
        let (seen, what) = mpsc::unbounded_channel();
        for (worker, events) in std::mem::take(&mut self.events).into_iter().enumerate() {
            tokio::spawn(work(worker, events, seen.clone()));
        }
        what
    }

    /// Shuts down while the workers go on; the folder stays for a look.
    pub(crate) async fn shutdown(self, timeout: Duration) -> (bool, TempDir) {
        let Self { supervisor, dir, .. } = self;
        (tokio::task::spawn_blocking(move || supervisor.shutdown(timeout)).await.unwrap(), dir)
    }

    /// The next line that passes.
    pub(crate) async fn line(&mut self, passes: impl Fn(&LogLine) -> bool) -> LogLine {
        loop {
            let line = self.log.recv().await.unwrap();
            if passes(&line) {
                return line;
            }
        }
    }
}

/// What a worker saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Connected { worker: usize, instance: u64 },
    Asked { worker: usize, for_worker: u32 },
    Drain { worker: usize, instance: u64 },
    Gone { worker: usize, instance: u64 },
    Examined { worker: usize, instance: u64 },
}

async fn work(worker: usize, mut events: WorkerEvents, seen: mpsc::UnboundedSender<Seen>) {
    let mut writers: HashMap<u64, Vec<OwnedWriteHalf>> = HashMap::new();
    while let Some(event) = events.recv().await {
        let note = match event {
            WorkerEvent::Connected { instance, stream, link, .. } => {
                let (mut reader, writer) = UnixStream::from_std(stream).unwrap().into_split();
                writers.entry(instance.number()).or_default().push(writer);
                tokio::spawn(async move { hold(&mut reader, link).await });
                Seen::Connected { worker, instance: instance.number() }
            }
            WorkerEvent::SendMore { instance, for_worker, .. } => {
                let mut frame = vec![8, 0, 0, 0, 13, 0, 0, 0, 2, 0, 1, 0];
                frame.extend_from_slice(&for_worker.to_le_bytes());
                send(&mut writers, instance.number(), &frame).await;
                Seen::Asked { worker, for_worker }
            }
            WorkerEvent::Drain { instance, grace } => {
                let mut frame = vec![4, 0, 0, 0, 12, 0, 0, 0];
                frame.extend_from_slice(&(grace.as_millis() as u32).to_le_bytes());
                send(&mut writers, instance.number(), &frame).await;
                Seen::Drain { worker, instance: instance.number() }
            }
            WorkerEvent::RuntimeApi { .. } => panic!("no service here is a function"),
            WorkerEvent::Examine(examination) => {
                let instance = examination.lease.instance();
                match examination.health.target.as_str() {
                    "/sick" => instance.report_health(Err("it answered with status 500".to_owned())),
                    "/silent" => {}
                    _ => instance.report_health(Ok(200)),
                }
                Seen::Examined { worker, instance: instance.number() }
            }
            WorkerEvent::Gone { instance } => {
                writers.remove(&instance.number());
                Seen::Gone { worker, instance: instance.number() }
            }
        };
        let _ = seen.send(note);
    }
}

async fn hold(reader: &mut tokio::net::unix::OwnedReadHalf, link: Option<SharedLink>) {
    let mut buffer = [0; 256];
    while reader.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    drop(link);
}

async fn send(writers: &mut HashMap<u64, Vec<OwnedWriteHalf>>, instance: u64, frame: &[u8]) {
    for writer in writers.get_mut(&instance).into_iter().flatten() {
        let _ = writer.write_all(frame).await; // the child may have gone
    }
}

/// Runs a test, in bounded time.
#[track_caller]
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    run_within(LIMIT, test)
}

/// The same for a test that has much to do.
#[track_caller]
pub(crate) fn run_within<F: Future>(limit: Duration, test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("the test took too long") })
}

/// The program beside the tests that is its own guardian.
pub(crate) fn stub() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let stub = here.parent().and_then(|deps| deps.parent()).unwrap().join("examples/stub");
    assert!(stub.exists(), "build it first: cargo build -p pilotlight-supervisor --examples");
    stub
}

pub(crate) fn guardian() -> Program {
    Program { path: stub(), arguments: args(&["guardian"]) }
}

pub(crate) fn sh(name: &str, script: &str, transport: Transport) -> ServiceSpec {
    let mut spec = ServiceSpec::new(name, args(&["sh", "-c", script]), transport);
    spec.stop_grace = Duration::from_secs(5);
    spec
}

/// A Pipe/1 service by hand, see `child.py`.
pub(crate) fn pipe_child(name: &str, options: &[&str]) -> ServiceSpec {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/child.py");
    let mut argv = args(&["/usr/bin/python3", "-I", "-S", script]);
    argv.extend(args(options));
    ServiceSpec::new(name, argv, Transport::Pipe)
}

/// The last words of a script: accepts what comes to the inherited socket, and answers nobody.
pub(crate) const ACCEPTS: &str =
    "exec /usr/bin/python3 -I -S -c 'import socket; s = socket.socket(fileno=3); list(iter(s.accept, None))'";

pub(crate) fn args(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

pub(crate) const UNIX: Transport = Transport::Http(HttpSocket::Unix);
pub(crate) const TCP: Transport = Transport::Http(HttpSocket::Tcp);
pub(crate) const PORT: Transport = Transport::Http(HttpSocket::Port);

pub(crate) fn is_pipe(instance: &Instance) -> bool {
    *instance.endpoint() == Endpoint::Pipe
}

/// Whether the process ends (or has ended) within the time.
pub(crate) fn gone_within(pid: i32, limit: Duration) -> bool {
    let Ok(pidfd) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else {
        return true;
    };
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit)).unwrap() > 0
}

pub(crate) fn parent_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}
