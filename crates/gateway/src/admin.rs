//! The gateway's own HTTP interface, for the one who operates it: what runs, where the time goes, how
//! a request would be handled. `docs/admin-api.md` describes it.
//!
//! It has a thread of its own, so that it answers when the workers are busy, and it costs them nothing while nobody
//! asks. It listens on a Unix socket that only its owner may open, and, if asked for, gives out metrics over TCP.
//!
//! Invariant: whoever is served on the Unix socket has the user id of this process, or is root, and descends from no
//! service of this gateway: a service of the gateway's own user gives no orders, in a sandbox or not.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pilotlight_supervisor::{Control, Descent};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::descriptors;
use crate::gateway::Gateway;
use crate::metrics::recent::{Recent, TURN};

mod api;
mod board;
mod certificates;
mod deploy;
mod events;
mod explain;
mod groups;
mod hidden;
mod invoke;
mod keys;
mod logs;
mod looks;
mod memory;
mod order;
mod prometheus;
mod purge;
mod refused;
mod schedules;
mod shared;
mod status;
mod target;
mod tls;

pub use hidden::hide_credentials;
pub use logs::{KEPT_LOG_BYTES, KEPT_LOG_LINES, LogBook};
pub use order::{Asked, Emptying, NotDone, Order};

use board::Board;
use shared::{Refusals, Shared};

/// Connections served at once; more wait.
const MAX_CONNECTIONS: usize = 64;
/// How long a connection may take to send the head of its next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections told at once that they are refused; more are closed without a word.
const MAX_REFUSED: usize = 8;
/// How long one who is refused may take.
const REFUSED_TIME: Duration = Duration::from_secs(2);
/// How long one who asks for metrics over TCP may take.
const METRICS_TIME: Duration = Duration::from_secs(10);
/// How long answers may take that were begun before another process took over.
const LEAVE_TIME: Duration = Duration::from_secs(1);
/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the interface is about, besides the gateway.
pub struct AdminOptions {
    /// The Unix socket, made with mode 0600.
    pub socket: Option<PathBuf>,
    /// Where metrics are given out over TCP.
    pub metrics: Option<SocketAddr>,
    /// The services' handle.
    pub control: Control,
    /// The last lines of the services' output.
    pub logs: LogBook,
    /// Counts the lines that the process could not write to its standard error.
    pub dropped_log_lines: Vec<Arc<AtomicU64>>,
    /// The configuration in force, without secrets.
    pub config: Arc<dyn Fn() -> Value + Send + Sync>,
    /// The admin socket and the one for metrics, if somebody else has bound them.
    pub inherited: (Option<OwnedFd>, Option<OwnedFd>),
    /// Blocks until this interface is the one to answer: two processes that response on one socket would tell different
    /// things.
    pub turn: Option<Box<dyn FnOnce() + Send>>,
    /// Takes what only the process as a whole can do.
    pub orders: UnboundedSender<Order>,
    /// The file that it comes from.
    pub config_file: PathBuf,
    /// The folder of this process's sockets.
    pub runtime_dir: PathBuf,
}

/// Why the interface cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The socket cannot be made.
    #[error("the admin socket {}: cannot {what}: {cause}; choose another path with `socket` in [admin], or none with admin = false", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system says.
        cause: io::Error,
    },
    /// Another gateway has the socket.
    #[error("the admin socket {} is in use by another gateway; stop it, or choose another path with `socket` in [admin]", path.display())]
    InUse {
        /// Its path.
        path: PathBuf,
    },
    /// The address for metrics cannot be listened on.
    #[error("metrics cannot be given out on {address}: {cause}; choose another address with `listen` in [metrics]")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// The thread or its event loop could not be made.
    #[error("the thread of the admin interface could not be started: {0}")]
    Thread(io::Error),
}

/// The running interface.
pub struct Admin {
    socket: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    listening: (Option<UnixListener>, Option<TcpListener>),
    stop: watch::Sender<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Listens, and answers from a thread of its own.
    ///
    /// # Errors
    /// Nothing is left behind when a socket or the thread is refused.
    pub fn start(options: AdminOptions, gateway: &Gateway) -> Result<Self, AdminError> {
        let AdminOptions { socket, metrics, inherited, turn, control, logs, config, orders, config_file, .. } = options;
        let (inherited_unix, mut inherited_tcp) = inherited;
        let tcp = metrics.map(|address| {
            let refused = |cause| AdminError::Metrics { address, cause };
            let listener = match inherited_tcp.take() {
                Some(socket) => TcpListener::from(socket),
                None => TcpListener::bind(address).map_err(refused)?,
            };
            listener.set_nonblocking(true).map_err(refused)?;
            listener.local_addr().map_err(refused).map(|bound| (listener, bound))
        });
        let (tcp, metrics) = tcp.transpose()?.unzip();
        let unix = match (socket.as_deref(), inherited_unix) {
            (None, _) => None,
            (Some(_), Some(inherited)) => Some(UnixListener::from(inherited)),
            (Some(path), None) => Some(bind(path)?),
        };
        let listening = (
            unix.as_ref().map(UnixListener::try_clone).transpose().map_err(AdminError::Thread)?,
            tcp.as_ref().map(TcpListener::try_clone).transpose().map_err(AdminError::Thread)?,
        );
        let (stop, stopped) = watch::channel(Stop::No);
        let shared = Arc::new(Shared {
            common: Arc::clone(gateway.common()),
            dropped_access_lines: gateway.dropped_access_lines(),
            dropped_log_lines: options.dropped_log_lines,
            control,
            logs,
            config,
            orders,
            config_file,
            runtime_dir: options.runtime_dir,
            refusals: Refusals::default(),
            begun: gateway.begun(),
            recent: Mutex::new(Recent::new(gateway.begun())),
            board: Board::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AdminError::Thread)?;
        let thread = std::thread::Builder::new()
            .name("admin".into())
            .spawn(move || {
                if let Some(turn) = turn {
                    turn();
                }
                if let Err(e) = runtime.block_on(serve(&shared, unix, tcp, stopped)) {
                    tracing::error!("the admin interface ended: {e}");
                }
            })
            .map_err(AdminError::Thread)?;
        Ok(Self { socket, metrics, listening, stop, thread: Some(thread) })
    }

    /// Where metrics are given out over TCP; a port of 0 has become a real one.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Admin {
    /// The sockets, for another process: that of the interface, and that for metrics.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn hand_over(&self) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
        let (unix, tcp) = &self.listening;
        let unix = unix.as_ref().map(|listener| listener.try_clone().map(OwnedFd::from)).transpose()?;
        let tcp = tcp.as_ref().map(|listener| listener.try_clone().map(OwnedFd::from)).transpose()?;
        Ok((unix, tcp))
    }

    /// Answers what has been asked, and nothing more. With [`SocketFile::Left`] another process has the socket, whose
    /// file stays.
    pub fn leave(mut self, socket: SocketFile) {
        let _ = self.stop.send(Stop::Leave); // nobody there: it has ended already
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of it has been printed
        }
        if socket == SocketFile::Left {
            self.socket = None;
        }
    }
}

/// What becomes of the file of the admin socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketFile {
    /// It goes.
    Removed,
    /// Another process has it.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    /// Answers that have been begun may end.
    Leave,
    Now,
}

impl Drop for Admin {
    fn drop(&mut self) {
        let _ = self.stop.send(Stop::Now); // nobody there: it has ended already
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of it has been printed
        }
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path); // somebody else may have removed it
        }
    }
}

/// Binds the socket, in the place of one that was left behind.
fn bind(path: &Path) -> Result<UnixListener, AdminError> {
    let failed = |what| move |cause| AdminError::Socket { path: path.to_owned(), what, cause };
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(AdminError::InUse { path: path.to_owned() });
        }
        std::fs::remove_file(path).map_err(failed("remove what an earlier gateway left there"))?;
    }
    let listener = UnixListener::bind(path).map_err(failed("bind it"))?;
    // Whoever connects before this is looked at all the same.
    make_private(path).map_err(failed("make it private (mode 0600)"))?;
    listener.set_nonblocking(true).map_err(failed("prepare it"))?;
    Ok(listener)
}

#[cfg(not(target_os = "linux"))]
use make_private_by_path as make_private;

#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled in tests, so that it keeps compiling"))]
fn make_private_by_path(socket: &Path) -> io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    Ok(rustix::fs::chmodat(rustix::fs::CWD, socket, mode, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Not by its path: where others may write, another file may be there by now, or a link to one.
#[cfg(target_os = "linux")]
fn make_private(socket: &Path) -> io::Result<()> {
    use rustix::fs::{FileType, Mode, OFlags};
    use std::os::fd::AsRawFd as _;

    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(socket, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&opened)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_uid != rustix::process::geteuid().as_raw()
    {
        return Err(io::Error::other("something else is there now; choose a folder that only this user may change"));
    }
    let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
    match rustix::fs::chmod(path, Mode::from_raw_mode(0o600)) {
        // Without /proc. Whoever connects is looked at all the same.
        Err(rustix::io::Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

async fn serve(
    shared: &Arc<Shared>,
    unix: Option<UnixListener>,
    tcp: Option<TcpListener>,
    mut stop: watch::Receiver<Stop>,
) -> io::Result<()> {
    let unix = unix.map(tokio::net::UnixListener::from_std).transpose()?;
    let tcp = tcp.map(tokio::net::TcpListener::from_std).transpose()?;
    let (mut open, mut refused) = (JoinSet::new(), JoinSet::new());
    let mut turn = tokio::time::interval_at(tokio::time::Instant::now() + TURN, TURN);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay); // of a machine that was asleep
    loop {
        while open.try_join_next().is_some() {}
        while refused.try_join_next().is_some() {}
        tokio::select! {
            // A followed log is a connection that ends when its reader wants: no stop may wait for one.
            _ = open.join_next(), if open.len() >= MAX_CONNECTIONS => {}
            _ = stop.wait_for(|stop| *stop != Stop::No) => break,
            _ = turn.tick(), if unix.is_some() => shared.turn(),
            accepted = accept_unix(unix.as_ref()), if open.len() < MAX_CONNECTIONS => match accepted {
                Ok(stream) => match stranger(shared, &stream) {
                    None => {
                        let shared = Arc::clone(shared);
                        open.spawn(http(stream, move |request| api::owner(Arc::clone(&shared), request)));
                    }
                    Some(why) if refused.len() < MAX_REFUSED => {
                        refused.spawn(async move {
                            let answering = http(stream, move |_| std::future::ready(api::turned_away(&why)));
                            let _ = tokio::time::timeout(REFUSED_TIME, answering).await; // who is slower is cut
                        });
                    }
                    Some(_) => {}
                },
                Err(e) => pause(&e).await,
            },
            accepted = accept_tcp(tcp.as_ref()), if open.len() < MAX_CONNECTIONS => match accepted {
                Ok(stream) => {
                    let shared = Arc::clone(shared);
                    open.spawn(async move {
                        let answering = http(stream, move |request| api::public(Arc::clone(&shared), request));
                        let _ = tokio::time::timeout(METRICS_TIME, answering).await; // who is slower is cut
                    });
                }
                Err(e) => pause(&e).await,
            },
        }
    }
    if *stop.borrow() == Stop::Leave {
        drop((unix, tcp));
        // Output that is followed has no end of its own.
        let _ = tokio::time::timeout(LEAVE_TIME, async { while open.join_next().await.is_some() {} }).await;
    }
    open.shutdown().await;
    Ok(())
}

async fn pause(error: &io::Error) {
    let hint = descriptors::hint(error);
    tracing::warn!("the admin interface could not accept a connection: {error}{hint}");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

async fn accept_unix(listener: Option<&tokio::net::UnixListener>) -> io::Result<tokio::net::UnixStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

async fn accept_tcp(listener: Option<&tokio::net::TcpListener>) -> io::Result<tokio::net::TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

/// Why the one who connected to the Unix socket gives no orders here, if so.
fn stranger(shared: &Shared, stream: &tokio::net::UnixStream) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let why = match stream.peer_cred().map(|peer| (peer.uid(), peer.pid())) {
        Ok((uid, _)) if uid != own && uid != 0 => format!(
            "this gateway runs under user id {own} and takes orders from that user and root only, not from user id {uid}"
        ),
        Ok((_, pid)) => {
            let pid = pid.map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
            match shared.control.guardians().descent_of_peer(stream) {
                Descent::Outside => return None,
                Descent::Service => format!(
                    "{pid} was started by a service of this gateway; orders are taken from processes outside of its services only"
                ),
                Descent::Unknown => format!(
                    "where {pid} comes from cannot be seen (it has ended, or is in another PID namespace), so it may be a service of this \
                     gateway; orders are taken from processes outside of its services only"
                ),
            }
        }
        Err(e) => format!("the user of the connection is not known: {e}"),
    };
    shared.refusals.log(&why);
    Some(why)
}

async fn http<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answer: impl Fn(http::Request<hyper::body::Incoming>) -> F,
) where
    F: Future<Output = http::Response<api::Body>>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    // Whoever sends a head by halves holds one of few places.
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    if let Err(e) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("a connection of the admin interface ended: {e}");
    }
}
