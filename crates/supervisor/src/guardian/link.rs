//! The supervisor's side of the guardian.

use super::message::{FromGuardian, SpawnRequest, ToGuardian};
use crate::error::Exit;
use crate::fd_message::{self, Inbox};
use crate::limits::{GUARDIAN_TIMEOUT, MAX_GUARDIAN_QUEUE, MAX_MESSAGE};
use crate::runtime::{Order, Runtime, RuntimeEvent, Started};
use crate::spec::Program;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Variables that mean one process only.
const NOT_INHERITED: [&str; 7] = [
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "PILOTLIGHT_UPGRADE",
];

/// Executes a guardian and does not wait for it.
pub(crate) fn spawn_process(program: &Program) -> io::Result<(Child, StdUnixStream)> {
    let (ours, theirs) = socket_pair()?;
    let mut command = Command::new(&program.path);
    // What a service manager or a predecessor says to the gateway is not for services.
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    let child = command.args(&program.arguments).stdin(theirs).stdout(Stdio::null()).spawn()?;
    Ok((child, ours))
}

/// Blocks until the guardian is ready, so that one that cannot run is found when the gateway starts.
pub(crate) fn await_ready(mut socket: &StdUnixStream) -> io::Result<()> {
    socket.set_read_timeout(Some(GUARDIAN_TIMEOUT))?;
    let mut length = [0; 4];
    socket.read_exact(&mut length).map_err(not_ready)?;
    let mut message = vec![0; (u32::from_ne_bytes(length) as usize).min(MAX_MESSAGE)];
    socket.read_exact(&mut message).map_err(not_ready)?;
    match serde_json::from_slice(&message)? {
        FromGuardian::Ready => Ok(()),
        other => Err(io::Error::other(format!("it began with {other:?}"))),
    }
}

fn not_ready(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            io::Error::other("it ended before it was ready; its program must call `guardian::main`")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::other(format!("it was not ready within {GUARDIAN_TIMEOUT:?}"))
        }
        _ => error,
    }
}

/// A running guardian.
#[derive(Debug)]
pub(crate) struct Link {
    child: Child,
    outgoing: mpsc::Sender<Outgoing>,
    incoming: mpsc::Receiver<RuntimeEvent>,
}

/// What is executed, and the descriptors that it gets.
#[derive(Debug)]
pub(crate) struct Spawn {
    pub(crate) request: SpawnRequest,
    pub(crate) fds: Vec<OwnedFd>,
}

/// An encoded message and the descriptors beside it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Link {
    /// Takes over a guardian's socket; to be called within the supervisor's event loop.
    pub(crate) fn attach(child: Child, socket: StdUnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UnixStream::from_std(socket)?);
        let (outgoing, to_send) = mpsc::channel(MAX_GUARDIAN_QUEUE);
        let (received, incoming) = mpsc::channel(MAX_GUARDIAN_QUEUE);
        // Both end with the socket, and the socket with the guardian, whose end the supervisor waits for.
        tokio::spawn(write(Arc::clone(&socket), to_send));
        tokio::spawn(read(socket, received));
        Ok(Self { child, outgoing, incoming })
    }

    /// The process id of the guardian.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks what of a strict sandbox this machine gives; the answer comes as an event.
    pub(crate) fn probe_sandbox(&self) -> io::Result<()> {
        self.send(&ToGuardian::ProbeSandbox, Vec::new())
    }

    /// Makes a process that a zygote has forked the process of an instance; the answer is that to a spawn.
    pub(crate) fn adopt(&self, id: u64, pid: i32, mark: Option<String>) -> io::Result<()> {
        self.send(&ToGuardian::Adopt { id, pid, mark }, Vec::new())
    }

    /// Lets the guardian kill all that is left and end; `false` if it did not end in time.
    pub(crate) async fn finish(self) -> bool {
        let Self { mut child, outgoing, mut incoming } = self;
        drop(outgoing); // the writer shuts the socket down
        let ended = tokio::time::timeout(GUARDIAN_TIMEOUT, async { while incoming.recv().await.is_some() {} }).await;
        if ended.is_err()
            && let Err(error) = child.kill()
        {
            tracing::error!(%error, "cannot kill the guardian");
        }
        bury(&mut child);
        ended.is_ok()
    }

    /// Buries a guardian that is lost.
    pub(crate) fn bury(mut self) {
        bury(&mut self.child);
    }

    fn send(&self, message: &ToGuardian, fds: Vec<OwnedFd>) -> io::Result<()> {
        let bytes = fd_message::encode(message)?;
        self.outgoing.try_send(Outgoing { bytes, fds }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => io::Error::other("the guardian process does not keep up"),
            mpsc::error::TrySendError::Closed(_) => io::Error::other("the guardian process has died"),
        })
    }
}

impl Runtime for Link {
    type Start = Spawn;

    fn start(&mut self, spawn: Spawn) -> io::Result<()> {
        self.send(&ToGuardian::Spawn(Box::new(spawn.request)), spawn.fds)
    }

    /// A signal to the process group.
    fn order(&self, id: u64, order: Order) -> io::Result<()> {
        self.send(&ToGuardian::Signal { id, order }, Vec::new())
    }

    async fn next(&mut self) -> RuntimeEvent {
        self.incoming.recv().await.unwrap_or(RuntimeEvent::Lost)
    }
}

fn bury(child: &mut Child) {
    match child.wait() {
        Ok(status) => tracing::debug!(%status, "guardian ended"),
        Err(error) => tracing::error!(%error, "cannot wait for the guardian"),
    }
}

/// Sends what is queued until the queue or the socket is closed; then shuts the socket down.
pub(crate) async fn write(socket: Arc<UnixStream>, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { bytes, fds }) = queue.recv().await {
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        if let Err(error) = fd_message::send_encoded(&socket, &bytes, &borrowed).await {
            tracing::debug!(%error, "cannot write to the guardian or a zygote"); // the reader reports its death
            break;
        }
    }
    if let Err(error) = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Write) {
        tracing::debug!(%error, "cannot shut down the socket of the guardian or a zygote");
    }
}

async fn read(socket: Arc<UnixStream>, events: mpsc::Sender<RuntimeEvent>) {
    let mut inbox = Inbox::default();
    loop {
        let event = match inbox.receive(&socket).await {
            Ok(Some(FromGuardian::Ready)) => continue,
            Ok(Some(FromGuardian::Spawned { id, pid, notices, sandbox })) => {
                RuntimeEvent::Started(Started { id, pid: Some(pid), notices, sandbox })
            }
            Ok(Some(FromGuardian::Probed { sandbox })) => RuntimeEvent::Probed { sandbox },
            Ok(Some(FromGuardian::SpawnFailed { id, reason, detail })) => {
                RuntimeEvent::StartFailed { id, reason, detail }
            }
            Ok(Some(FromGuardian::Exited { id, code, signal, limit })) => {
                let exit = code.map(Exit::Code).or(signal.map(Exit::Signal)).unwrap_or(Exit::Lost);
                RuntimeEvent::Ended { id, exit, limit }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::error!(%error, "the guardian's messages cannot be read; it is told to end");
                if let Err(error) = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both) {
                    tracing::debug!(%error, "cannot shut down the guardian's socket");
                }
                break;
            }
        };
        if events.send(event).await.is_err() {
            break;
        }
    }
}

/// Our end of the socket as what a process inherits for its standard input.
fn socket_pair() -> io::Result<(StdUnixStream, OwnedFd)> {
    let (ours, theirs) = StdUnixStream::pair()?; // close-on-exec, both
    Ok((ours, theirs.into()))
}
