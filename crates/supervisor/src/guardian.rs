//! The guardian: a small process that spawns the services, and kills all of them when the gateway is gone.
//!
//! It is this program's own binary, executed again, with one end of a socket pair as its standard input. It is the
//! *subreaper* of everything below it: a process that detaches itself (`setsid`, double fork) becomes its child instead
//! of init's. It leads a session of its own and ignores SIGINT, SIGTERM and SIGHUP, so that neither Ctrl-C nor a
//! service manager ends it before its gateway. The end of the stream on the socket, which the kernel delivers however
//! the gateway died, makes it SIGKILL every descendant and exit.
//!
//! Spawning from a small process is also the cheap way: nothing big is forked.
//!
//! On systems without subreapers (macOS) only the process groups of services are killed; a daemon that left its group
//! survives.

mod families;
mod link;
mod message;
mod spawn;

pub(crate) use families::kill_marked;
pub(crate) use link::{Link, Outgoing, Spawn, await_ready, spawn_process, write};
pub(crate) use message::{Inherit, MARK, SpawnRequest};
pub(crate) use spawn::LISTEN_FD;

use crate::fd_message::{self, Inbox};
use crate::isolation::Bounds;
use crate::limits::{EXEC_LOOK, LATE_EXEC_LOOK, MAX_EXEC_LOOKS, MAX_STRAYS};
use crate::processes;
use crate::runtime::Order;
use families::{Families, Leaders};
use message::{FromGuardian, ToGuardian};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::ExitCode;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

/// Runs the guardian. To be called first thing by the program named in
/// [`SupervisorOptions::guardian`](crate::SupervisorOptions::guardian), before it starts any thread.
#[must_use]
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pilotlight guardian: {error}; it is started by the gateway itself, not by hand");
            ExitCode::from(2)
        }
    }
}

fn run() -> io::Result<()> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::net::sockopt::socket_type(&socket)?;
    // Fails only for the leader of a process group, and then there already is one of its own.
    let _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (strays, bounds) = (VecDeque::new(), Bounds::default());
    let families = Families::default();
    let mut guardian = Guardian { pids: HashMap::new(), leaders: HashMap::new(), strays, bounds, families };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let served = runtime.block_on(guardian.serve(socket));
    drop(runtime);
    // Whatever ended the service of the socket, what was started must end.
    guardian.kill_groups();
    processes::kill_all();
    guardian.bounds.sweep();
    served
}

#[derive(Debug)]
struct Guardian {
    pids: HashMap<u64, Pid>,
    leaders: Leaders,
    /// The last of those that ended without being anybody's run: one may have been forked by a zygote just now.
    strays: VecDeque<Stray>,
    bounds: Bounds,
    families: Families,
}

/// What a zygote says that it has forked.
struct Adopted {
    id: u64,
    pid: i32,
    mark: Option<String>,
}

/// A buried child: its pid, exit status and signal.
type Stray = (Pid, Option<i32>, Option<i32>);

impl Guardian {
    async fn serve(&mut self, socket: OwnedFd) -> io::Result<()> {
        let socket = StdUnixStream::from(socket);
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        let mut children = signal(SignalKind::child())?;
        // A handler that does nothing: these must not end the guardian, and must not be ignored by what it executes.
        let _handled =
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
        let mut inbox = Inbox::default();
        fd_message::send(&socket, &FromGuardian::Ready, &[]).await?;
        loop {
            tokio::select! {
                message = inbox.receive(&socket) => match message {
                    Ok(Some(message)) => self.handle(message, &mut inbox, &socket).await?,
                    Ok(None) => return Ok(()),
                    // The gateway died with something unread: as good as the end of the stream.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                    Err(error) => return Err(error),
                },
                _ = children.recv() => {}
                () = sleep(LATE_EXEC_LOOK), if self.families.is_unsettled() => {}
            }
            self.reap(&socket).await?;
        }
    }

    async fn handle(&mut self, message: ToGuardian, inbox: &mut Inbox, socket: &UnixStream) -> io::Result<()> {
        match message {
            ToGuardian::Spawn(request) => {
                let id = request.id;
                let report = match spawn::spawn(&request, inbox, &mut self.bounds) {
                    Ok(spawn::Spawned { pid, notices, sandbox }) => {
                        self.lead(id, pid, request.mark().map(str::to_owned));
                        FromGuardian::Spawned { id, pid: pid.as_raw_nonzero().get(), notices, sandbox }
                    }
                    Err(spawn::NotSpawned { reason, detail }) => FromGuardian::SpawnFailed { id, reason, detail },
                };
                fd_message::send(socket, &report, &[]).await
            }
            ToGuardian::Adopt { id, pid, mark } => self.adopt(Adopted { id, pid, mark }, socket).await,
            ToGuardian::ProbeSandbox => {
                fd_message::send(socket, &FromGuardian::Probed { sandbox: spawn::probe_sandbox() }, &[]).await
            }
            ToGuardian::Signal { id, order } => {
                // An instance that is not known has ended, which has been reported.
                if let Some(pid) = self.pids.get(&id) {
                    if matches!(order, Order::Terminate | Order::Kill) {
                        self.families.ending(*pid);
                    }
                    signal_group(*pid, order.into());
                }
                Ok(())
            }
        }
    }

    fn lead(&mut self, id: u64, pid: Pid, mark: Option<String>) {
        self.pids.insert(id, pid);
        self.leaders.insert(pid, Families::leader(id, pid, mark));
    }

    /// What a zygote says is not taken on trust: only a child of ours, or one that was, is adopted.
    async fn adopt(&mut self, adopted: Adopted, socket: &UnixStream) -> io::Result<()> {
        let Adopted { id, pid: raw, mark } = adopted;
        let spawned = FromGuardian::Spawned { id, pid: raw, notices: Vec::new(), sandbox: None };
        let pid = if raw > 1 { Pid::from_raw(raw) } else { None }; // a negative one would be a group
        let pid = pid.filter(|pid| !self.leaders.contains_key(pid));
        let (Some(pid), true) = (pid, pid.is_some_and(|_| processes::is_child(raw))) else {
            let stray = self.strays.iter().rposition(|(stray, ..)| Some(*stray) == pid);
            let Some((pid, code, signal)) = stray.and_then(|index| self.strays.remove(index)) else {
                let reason = format!("its zygote names process {raw}, which is none that it has forked");
                let failed = FromGuardian::SpawnFailed { id, reason, detail: None };
                return fd_message::send(socket, &failed, &[]).await;
            };
            signal_group(pid, Signal::KILL);
            fd_message::send(socket, &spawned, &[]).await?;
            return fd_message::send(socket, &FromGuardian::Exited { id, code, signal, limit: None }, &[]).await;
        };
        self.lead(id, pid, mark);
        fd_message::send(socket, &spawned, &[]).await
    }

    /// Reports every service that ended and buries everything else.
    async fn reap(&mut self, socket: &UnixStream) -> io::Result<()> {
        while let Some((pid, code, signal)) = processes::reap_one() {
            let Some(leader) = self.leaders.remove(&pid) else {
                if self.strays.len() == MAX_STRAYS {
                    self.strays.pop_front();
                }
                self.strays.push_back((pid, code, signal));
                continue;
            };
            let id = leader.id;
            self.pids.remove(&id);
            // What the leader left behind in its group has nobody to answer to any more. The group's number is not
            // given to another process while it has members.
            signal_group(pid, Signal::KILL);
            let limit = self.bounds.ended(id);
            self.families.ended(&leader);
            self.sweep().await; // before anybody hears that it has ended
            fd_message::send(socket, &FromGuardian::Exited { id, code, signal, limit }, &[]).await?;
        }
        self.bounds.sweep();
        self.families.sweep(&self.leaders);
        Ok(())
    }

    /// Kills what instances that have ended have left. Waits a moment for what cannot be told yet; if that is too
    /// short, [`serve`](Self::serve) looks again.
    async fn sweep(&mut self) {
        for _ in 0..MAX_EXEC_LOOKS {
            self.families.sweep(&self.leaders);
            if !self.families.is_unsettled() {
                return;
            }
            sleep(EXEC_LOOK).await;
        }
    }

    fn kill_groups(&mut self) {
        for pid in self.pids.values() {
            signal_group(*pid, Signal::KILL);
        }
        self.bounds.kill_all();
    }
}

fn signal_group(pid: Pid, signal: Signal) {
    match kill_process_group(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => complain(&format!("cannot signal process group {}: {error}", pid.as_raw_nonzero())),
    }
}

/// Writes to the gateway's standard error, if there is room: a reader that does not read must not block the guardian.
fn complain(what: &str) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stderr = rustix::stdio::stderr();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0) {
        let _ = writeln!(io::stderr(), "pilotlight guardian: {what}"); // it may be closed
    }
}
