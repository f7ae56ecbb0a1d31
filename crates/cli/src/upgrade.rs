//! Another process takes over: `pilotlight upgrade`, SIGUSR2.
//!
//! ```text
//!  old: executes the program, sends the listening sockets ──▶ new: reads the configuration, listens on them,
//!       goes on accepting meanwhile                                starts the services that run in the old one
//!  old: accepts no more, ends with its last request       ◀── new: "ready" — or it ends, and the old one goes on
//! ```
//! Both processes accept on the same sockets, so no connection that waits there is lost. The pair of sockets between
//! the two is the new one's standard input, and closes when either process dies. Messages are those of
//! [`pilotlight_supervisor::fd_message`].

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use pilotlight_gateway::{Inherited, ListenAddr, ServiceTarget};
use pilotlight_supervisor::fd_message::{Inbox, MAX_FDS, send_blocking as send};
use pilotlight_supervisor::{Control, Process, ServiceState};
use serde_json::{Value, json};

pub(crate) mod program;

/// Says to a process that its standard input is what is described above.
const VARIABLE: &str = "PILOTLIGHT_UPGRADE";
/// How long the new process may take until it is ready.
pub(crate) const READY_TIME: Duration = Duration::from_secs(30);
/// How long the new process waits for its services before it says that it is ready.
const WARM_TIME: Duration = Duration::from_secs(10);
/// How often it looks at them.
const WARM_PAUSE: Duration = Duration::from_millis(5);
/// What is known of one that says nothing itself.
const ENDED: &str = "it ended before it was ready; the log has what it said";

/// What is handed over.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    pub(crate) listeners: Vec<Inherited>,
    /// The admin socket, if it has a path of its own.
    pub(crate) admin: Option<(PathBuf, OwnedFd)>,
    /// Where metrics are given out, as configured.
    pub(crate) metrics: Option<(SocketAddr, OwnedFd)>,
    /// Services that run.
    pub(crate) warm: Vec<String>,
    /// Below which they run, and those of processes before.
    pub(crate) guardians: Vec<Process>,
    /// The keys of TLS session tickets, secret.
    pub(crate) tickets: Vec<u8>,
}

/// What the new process says that it has when it is ready.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The admin socket.
    pub(crate) has_admin: bool,
    /// Containers that go on as its own.
    pub(crate) containers: Vec<String>,
}

impl Taken {
    /// With the containers that run for these services.
    pub(crate) fn of(has_admin: bool, services: &[ServiceTarget]) -> Self {
        let of_service = |target: &ServiceTarget| match target {
            ServiceTarget::Managed(service, _) => service.status().instances,
            ServiceTarget::External(_) => Vec::new(),
        };
        let instances = services.iter().flat_map(of_service);
        Self { has_admin, containers: instances.filter_map(|one| Some(one.container?.to_string())).collect() }
    }
}

/// The process that takes over.
#[derive(Debug)]
pub(crate) struct Successor {
    pub(crate) child: Child,
    pub(crate) taken: Taken,
    /// Closed when this process answers nobody any more.
    pub(crate) socket: UnixStream,
}

impl Successor {
    /// It is the one that answers on the admin socket from now on.
    pub(crate) fn answers(self) {
        drop(self.socket);
    }
}

/// The new process, before it is ready.
#[derive(Debug)]
pub(crate) struct StartingSuccessor {
    child: Child,
    socket: UnixStream,
}

impl StartingSuccessor {
    /// Executes the program with the arguments of this process and gives it everything.
    pub(crate) fn start(program: &Path, arguments: &[OsString], handover: &Handover) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(program).args(arguments).env(VARIABLE, "1").stdin(OwnedFd::from(theirs)).spawn()?;
        let mut successor = Self { child, socket: ours };
        match handover.send(&successor.socket) {
            Ok(()) => Ok(successor),
            // It has ended already, which is found when it is asked for its answer.
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => Ok(successor),
            Err(cause) => {
                let why = successor.give_up();
                Err(io::Error::new(cause.kind(), format!("{cause}{why}")))
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A reader of what it says about itself, for a thread.
    pub(crate) fn answer(&self) -> io::Result<impl FnOnce() -> Result<Taken, String> + Send + use<>> {
        let socket = self.socket.try_clone()?;
        socket.set_read_timeout(Some(READY_TIME))?;
        Ok(move || match Inbox::default().receive_blocking::<Value>(&socket) {
            Ok(Some(message)) => match message["failed"].as_str() {
                Some(why) => Err(why.to_owned()),
                None => Ok(Taken { has_admin: message["admin"] == true, containers: texts(&message["containers"]) }),
            },
            Ok(None) => Err(ENDED.to_owned()),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Err(ENDED.to_owned()), // it has not read everything
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(format!("it was not ready within {READY_TIME:?}, and was killed"))
            }
            Err(e) => Err(e.to_string()),
        })
    }

    pub(crate) fn into_successor(self, taken: Taken) -> Successor {
        Successor { child: self.child, taken, socket: self.socket }
    }

    /// Ends it; how it ended, if it did by itself.
    pub(crate) fn give_up(&mut self) -> String {
        let _ = self.socket.shutdown(Shutdown::Both); // it may have ended
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) if status.code().is_some() => format!(" ({status})"),
            _ => String::new(),
        }
    }
}

impl Handover {
    fn send(&self, socket: &UnixStream) -> io::Result<()> {
        for Inherited { configured, sockets } in &self.listeners {
            let configured = configured.as_ref().map(|addr| match addr {
                ListenAddr::Tcp(addr) => json!({ "tcp": addr.to_string() }),
                ListenAddr::Tls(addr) => json!({ "tls": addr.to_string() }),
                ListenAddr::Unix(path) => json!({ "unix": path.to_string_lossy() }),
            });
            for some in sockets.chunks(MAX_FDS) {
                let fds: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
                send(socket, &json!({ "listen": configured, "sockets": fds.len() }), &fds)?;
            }
        }
        if let Some((path, fd)) = &self.admin {
            send(socket, &json!({ "admin": path.to_string_lossy() }), &[fd.as_fd()])?;
        }
        if let Some((address, fd)) = &self.metrics {
            send(socket, &json!({ "metrics": address.to_string() }), &[fd.as_fd()])?;
        }
        let guardians = self.guardians.iter().map(|guardian| json!([guardian.pid, guardian.started]));
        send(socket, &json!({ "guardians": guardians.collect::<Value>() }), &[])?;
        send(socket, &json!({ "tickets": self.tickets }), &[])?;
        send(socket, &json!({ "warm": self.warm }), &[])
    }

    fn receive(socket: &UnixStream) -> io::Result<Self> {
        let (mut handover, mut inbox) = (Self::default(), Inbox::default());
        while let Some(message) = inbox.receive_blocking::<Value>(socket)? {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            if let Some(names) = message["warm"].as_array() {
                handover.warm = names.iter().filter_map(text).collect();
                return Ok(handover);
            } else if let Some(listen) = message.get("listen") {
                let count = message["sockets"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
                let sockets: Vec<OwnedFd> = std::iter::from_fn(|| inbox.take_fd()).take(count).collect();
                let address = |name: &str| listen[name].as_str().and_then(|addr| addr.parse().ok());
                let tcp = address("tcp").map(ListenAddr::Tcp).or_else(|| address("tls").map(ListenAddr::Tls));
                let configured = tcp.or_else(|| Some(ListenAddr::Unix(text(&listen["unix"])?.into())));
                match handover.listeners.last_mut().filter(|last| configured.is_some() && last.configured == configured)
                {
                    Some(last) => last.sockets.extend(sockets),
                    None => handover.listeners.push(Inherited { configured, sockets }),
                }
            } else if let Some(bytes) = message["tickets"].as_array() {
                let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
                handover.tickets = bytes.iter().filter_map(byte).collect();
            } else if let Some(guardians) = message["guardians"].as_array() {
                let number = |value: &Value| i32::try_from(value.as_i64()?).ok();
                let guardian = |one: &Value| Some(Process { pid: number(&one[0])?, started: one[1].as_u64()? });
                handover.guardians = guardians.iter().filter_map(guardian).collect();
            } else if let Some(path) = text(&message["admin"]) {
                handover.admin = inbox.take_fd().map(|fd| (path.into(), fd));
            } else if let Some(address) = text(&message["metrics"]).and_then(|address| address.parse().ok()) {
                handover.metrics = inbox.take_fd().map(|fd| (address, fd));
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// The process that this one takes over from.
#[derive(Debug)]
pub(crate) struct Predecessor {
    socket: UnixStream,
}

impl Predecessor {
    /// It, and what it hands over, if this process was started to take over.
    pub(crate) fn find() -> io::Result<Option<(Self, Handover)>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        // Nobody whom this process starts is to have it.
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        socket.set_read_timeout(Some(READY_TIME))?;
        let handover = Handover::receive(&socket)?;
        Ok(Some((Self { socket }, handover)))
    }

    /// Tells it that it may leave.
    pub(crate) fn ready(&self, taken: &Taken) -> io::Result<()> {
        let Taken { has_admin, containers } = taken;
        send(&self.socket, &json!({ "ready": true, "admin": has_admin, "containers": containers }), &[])
    }

    /// What blocks until it answers nobody any more, or is gone.
    pub(crate) fn silence(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let socket = self.socket.try_clone()?;
        // It says nothing more, so this is its end. Beyond its time it is stuck, and this one has to answer.
        Ok(move || drop(Inbox::default().receive_blocking::<Value>(&socket)))
    }

    /// Tells it why it has to go on.
    pub(crate) fn failed(&self, why: &str) {
        let _ = send(&self.socket, &json!({ "failed": why }), &[]); // it sees that this process ends
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// Starts services that ran in the predecessor, so that nobody waits for them. Those that do not start in time, start
/// later.
pub(crate) fn warm(services: &[ServiceTarget], control: &Control, names: &[String]) {
    let wanted = services.iter().filter_map(|target| match target {
        ServiceTarget::Managed(service, _) => {
            Some(service).filter(|service| names.contains(&service.name().to_string()))
        }
        ServiceTarget::External(_) => None,
    });
    let wanted: Vec<_> = wanted.collect();
    wanted.iter().for_each(|service| control.start(service.id()));
    let begun = Instant::now();
    let is_done = || {
        wanted
            .iter()
            .map(|service| service.status())
            .all(|one| one.state == ServiceState::Ready || one.failed_starts > 0)
    };
    while !is_done() && begun.elapsed() < WARM_TIME {
        std::thread::sleep(WARM_PAUSE); // a pause between looks
    }
}

/// The sockets that a service manager has bound for this process (`LISTEN_FDS`). Services do not inherit them.
pub(crate) fn activated() -> io::Result<Vec<Inherited>> {
    let mut given = listenfd::ListenFd::from_env();
    let mut all = Vec::new();
    for index in 0..given.len() {
        let socket: Option<OwnedFd> = match given.take_tcp_listener(index) {
            Ok(tcp) => tcp.map(Into::into),
            Err(_) => given.take_unix_listener(index)?.map(Into::into),
        };
        if let Some(socket) = socket {
            rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
            all.push(Inherited { configured: None, sockets: vec![socket] });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn everything_arrives() {
        let (left, right) = UnixStream::pair().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = || OwnedFd::from(tcp.try_clone().unwrap());
        let tls = ListenAddr::Tls("127.0.0.1:443".parse().unwrap());
        let many = ListenAddr::Tcp("127.0.0.1:0".parse().unwrap());
        let handover = Handover {
            listeners: vec![
                Inherited { configured: Some(many.clone()), sockets: (0..MAX_FDS + 3).map(|_| fd()).collect() },
                Inherited { configured: Some(ListenAddr::Unix("/x y".into())), sockets: vec![fd()] },
                Inherited { configured: Some(tls.clone()), sockets: vec![fd()] },
            ],
            admin: Some(("/a".into(), fd())),
            metrics: Some(("127.0.0.1:9".parse().unwrap(), fd())),
            warm: vec!["one".to_owned()],
            guardians: vec![Process { pid: 7, started: 1 << 60 }],
            tickets: vec![0, 255],
        };
        let sender = std::thread::spawn(move || handover.send(&left).unwrap());
        let found = Handover::receive(&right).unwrap();
        sender.join().unwrap();
        assert_eq!(found.listeners.len(), 3);
        assert_eq!(found.listeners[2].configured, Some(tls));
        assert_eq!(found.tickets, [0, 255]);
        assert_eq!((&found.listeners[0].configured, found.listeners[0].sockets.len()), (&Some(many), MAX_FDS + 3));
        assert_eq!(found.listeners[1].configured, Some(ListenAddr::Unix("/x y".into())));
        assert_eq!(found.admin.unwrap().0, Path::new("/a"));
        assert_eq!(found.metrics.unwrap().0, "127.0.0.1:9".parse().unwrap());
        assert_eq!(found.warm, ["one"]);
        assert_eq!(found.guardians, [Process { pid: 7, started: 1 << 60 }]);
        let same = TcpListener::from(found.listeners.into_iter().next().unwrap().sockets.remove(0));
        assert_eq!(same.local_addr().unwrap(), tcp.local_addr().unwrap());
    }

    #[test]
    fn half_of_it_is_an_error() {
        let (left, right) = UnixStream::pair().unwrap();
        send(&left, &json!({ "listen": null }), &[]).unwrap();
        drop(left);
        assert_eq!(Handover::receive(&right).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
