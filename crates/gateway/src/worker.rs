//! One worker: a thread with its own runtime, listeners, client connections and connections to services.
//!
//! Invariant: nothing here is shared with another worker but what is in [`Common`].

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use arc_swap::ArcSwap;
use pilotlight_cache::Cache;
use pilotlight_supervisor::{Service, Transport, WorkerEvent, WorkerEvents};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::LocalOptions;
use tokio::sync::{Notify, watch};

use crate::access_log::{AccessLog, Sink};
use crate::client::{ClientTimes, Desk};
use crate::connection;
use crate::deadline::Deadlines;
use crate::listen::Listener;
use crate::metrics::{Connections, Registry};
use crate::net::Socket;
use crate::options::{ExternalAddr, Limits, ServerTiming, ServiceTarget};
use crate::request_id::RequestIds;
use crate::routes::Table;
use crate::spawn::Spawner;
use crate::timing::Clock;
use crate::upstream::http::Pool;
use crate::upstream::pipe::Link;

/// How often connections to services are looked at for idleness.
const POOL_SWEEP: Duration = Duration::from_secs(5);
/// Pause after a failed `accept`, so that a lack of descriptors is not a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections that are cut may take to go: no task blocks, so this is never used up.
const CUT_TIME: Duration = Duration::from_secs(1);

/// What all workers share.
pub(crate) struct Common {
    pub(crate) table: ArcSwap<Table>,
    pub(crate) cache: Option<Cache>,
    pub(crate) services: Vec<ServiceTarget>,
    pub(crate) limits: Limits,
    pub(crate) workers: usize,
    pub(crate) dev: bool,
    pub(crate) trust_forwarded: bool,
    pub(crate) server_timing: ServerTiming,
    pub(crate) metrics: Registry,
}

/// A worker's way to one service.
pub(crate) enum Upstream {
    Pipe(Arc<Service>, Rc<Link>),
    Http(Arc<Service>, Rc<Pool>),
    External(ExternalAddr, Rc<Pool>),
}

/// One worker.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) common: Arc<Common>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) ids: RequestIds,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) times: ClientTimes,
    pub(crate) spawner: Spawner,
    pub(crate) desk: RefCell<Desk>,
    pub(crate) clock: Clock,
    pub(crate) access_log: Option<Rc<AccessLog>>,
    stopping: Cell<bool>,
    clients: Cell<usize>,
    max_clients: usize,
    clients_changed: Notify,
}

/// The thread's body.
pub(crate) fn run(
    index: usize,
    common: Arc<Common>,
    listeners: Vec<Listener>,
    events: WorkerEvents,
    sink: Option<Sink>,
    stop: watch::Receiver<bool>,
    drained: mpsc::Sender<()>,
) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build_local(LocalOptions::default())?;
    runtime.block_on(main(index, common, listeners, events, sink, stop, drained))
}

async fn main(
    index: usize,
    common: Arc<Common>,
    listeners: Vec<Listener>,
    events: WorkerEvents,
    sink: Option<Sink>,
    mut stop: watch::Receiver<bool>,
    drained: mpsc::Sender<()>,
) -> io::Result<()> {
    let (spawner, tasks) = Spawner::new();
    let worker = Worker::new(index, common, spawner.clone(), sink);
    let owner = tokio::task::spawn_local(tasks.run());
    let (to_clients, clients) = Spawner::new();
    let clients = tokio::task::spawn_local(clients.run());
    spawner.spawn(Rc::clone(&worker.deadlines).sweep());
    spawner.spawn(Rc::clone(&worker).close_idle_connections());
    if let Some(log) = &worker.access_log {
        spawner.spawn(Rc::clone(log).run());
    }
    let supervised = tokio::task::spawn_local(Rc::clone(&worker).take_events(events));
    for listener in listeners {
        let listener = Accepting::new(listener)?;
        spawner.spawn(Rc::clone(&worker).accept(listener, stop.clone(), to_clients.clone()));
    }
    // An error means that the gateway was dropped without being stopped: that is a stop as well.
    let _ = stop.wait_for(|stop| *stop).await;
    worker.stopping.set(true);
    worker.deadlines.wake_all(); // idle connections close, busy ones close after their answer
    if tokio::time::timeout(worker.common.limits.shutdown_timeout, worker.all_gone()).await.is_err() {
        tracing::warn!(
            worker = index,
            "{} connections are cut: their requests took longer than limits.shutdown_timeout",
            worker.clients.get()
        );
        // With them go their leases: the supervisor would wait for those (an open WebSocket has one).
        clients.abort();
        if tokio::time::timeout(CUT_TIME, worker.all_gone()).await.is_err() {
            tracing::error!(
                worker = index,
                "connections are still open after they were cut; this is a bug of Pilotlight"
            );
        }
    }
    drop(drained);
    // The supervisor drains the services over this worker's connections and closes the queue when it is done, in bounded time.
    if let Err(e) = supervised.await {
        tracing::error!(worker = index, "the task for the supervisor's events failed: {e}");
    }
    if let Some(log) = &worker.access_log {
        log.pass_on();
    }
    owner.abort();
    Ok(())
}

impl Worker {
    fn new(index: usize, common: Arc<Common>, spawner: Spawner, sink: Option<Sink>) -> Rc<Self> {
        let limits = &common.limits;
        let times = ClientTimes {
            header: limits.header_timeout,
            write: limits.body_timeout,
            idle: limits.keepalive_timeout,
            header_size: limits.header_size,
        };
        let workers = u16::try_from(common.workers).unwrap_or(u16::MAX);
        let upstream = |target: &ServiceTarget| match target {
            ServiceTarget::Managed(service, Transport::Pipe) => {
                let link = Link::new(Arc::clone(service), index as u32, workers, spawner.clone(), limits.queue);
                Upstream::Pipe(Arc::clone(service), link)
            }
            ServiceTarget::Managed(service, Transport::Http(_)) => {
                Upstream::Http(Arc::clone(service), Pool::new(service.name().to_string()))
            }
            ServiceTarget::External(external) => {
                Upstream::External(external.addr.clone(), Pool::new(external.name.clone()))
            }
        };
        let upstreams = common.services.iter().map(upstream).collect();
        let max_clients = (limits.connections / common.workers).max(1);
        Rc::new(Self {
            index,
            deadlines: Deadlines::new(),
            ids: RequestIds::new(),
            upstreams,
            times,
            spawner,
            desk: RefCell::default(),
            clock: Clock::new(),
            access_log: sink.map(AccessLog::new),
            stopping: Cell::new(false),
            clients: Cell::new(0),
            max_clients,
            clients_changed: Notify::new(),
            common,
        })
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    fn connections(&self) -> &Connections {
        &self.common.metrics.connections[self.index]
    }

    async fn all_gone(&self) {
        while self.clients.get() > 0 {
            self.clients_changed.notified().await;
        }
    }

    async fn accept(self: Rc<Self>, listener: Accepting, mut stop: watch::Receiver<bool>, to_clients: Spawner) {
        loop {
            // limits.connections: those beyond it wait in the kernel's backlog.
            while self.clients.get() >= self.max_clients {
                self.clients_changed.notified().await;
            }
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, peer)) => {
                    self.clients.set(self.clients.get() + 1);
                    self.connections().accepted.add(1);
                    let open = OpenClient(Rc::clone(&self));
                    to_clients.spawn(async move {
                        connection::serve(&open.0, socket, peer).await;
                    });
                }
                Err(e) => {
                    tracing::warn!(worker = self.index, "a connection could not be accepted: {e}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn take_events(self: Rc<Self>, mut events: WorkerEvents) {
        while let Some(event) = events.recv().await {
            match event {
                WorkerEvent::Connected { instance, hello, stream, read_ahead, link } => {
                    if let Some(to) = self.link(&instance) {
                        to.connected(&instance, &hello, stream, read_ahead, link);
                    }
                }
                WorkerEvent::SendMore { instance, kind, count, for_worker } => {
                    if let Some(to) = self.link(&instance) {
                        to.send_more(&instance, kind, count, for_worker);
                    }
                }
                WorkerEvent::Drain { instance, grace } => {
                    if let Some(to) = self.link(&instance) {
                        to.drain(&instance, grace);
                    }
                }
                WorkerEvent::Gone { instance } => {
                    if let Some(to) = self.link(&instance) {
                        to.gone(&instance);
                    }
                }
            }
        }
    }

    /// The link of the service that an instance is a copy of.
    fn link(&self, instance: &pilotlight_supervisor::Instance) -> Option<&Rc<Link>> {
        self.upstreams.iter().find_map(|upstream| match upstream {
            Upstream::Pipe(service, link) if service.id() == instance.service() => Some(link),
            _ => None,
        })
    }

    async fn close_idle_connections(self: Rc<Self>) {
        loop {
            tokio::time::sleep(POOL_SWEEP).await;
            for upstream in &self.upstreams {
                match upstream {
                    Upstream::Http(_, pool) | Upstream::External(_, pool) => pool.close_idle(),
                    Upstream::Pipe(..) => {}
                }
            }
        }
    }
}

/// Counts an open client connection.
struct OpenClient(Rc<Worker>);

impl Drop for OpenClient {
    fn drop(&mut self) {
        self.0.clients.set(self.0.clients.get() - 1);
        self.0.connections().closed.add(1);
        self.0.clients_changed.notify_waiters();
    }
}

enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(l) => Self::Tcp(TcpListener::from_std(l)?),
            Listener::Unix(l) => Self::Unix(UnixListener::from_std(l)?),
        })
    }

    async fn accept(&self) -> io::Result<(Socket, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Socket::Tcp(stream), peer.to_string()))
            }
            Self::Unix(listener) => Ok((Socket::Unix(listener.accept().await?.0), String::new())),
        }
    }
}
