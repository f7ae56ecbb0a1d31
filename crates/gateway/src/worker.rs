//! One worker: a thread with its own runtime, listeners, client connections and connections to services.
//!
//! Invariant: nothing here is shared with another worker but what is in [`Common`].

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use pilotlight_cache::Cache;
use pilotlight_cache_redis::{SharedTier, Tier};
use pilotlight_supervisor::{Service, Transport, WorkerEvent, WorkerEvents};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, oneshot, watch};

use crate::access_log::{AccessLog, Sink};
use crate::client::Scratch;
use crate::coherence::CoherenceThread;
use crate::connection;
use crate::deadline::Deadlines;
use crate::listen::Listener;
use crate::metrics::{Connections, Registry};
use crate::net::Socket;
use crate::options::{Abandoned, External, ListenAddr, ServiceTarget};
use crate::request_id::RequestIds;
use crate::routes::Table;
use crate::spawn::Spawner;
use crate::strangers::Strangers;
use crate::timing::Clock;
use crate::upstream::http::Pool;
use crate::upstream::pipe::Link;

/// How often connections to services are looked at for idleness, and whether those of clients have freed memory.
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(5);
/// Pause after a failed `accept`, so that a lack of descriptors is not a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections that are cut may take to go: no task blocks, so this is never used up.
const CUT_TIME: Duration = Duration::from_secs(1);

/// How long what was stored last may take to be written to Redis.
const WRITE_OUT_TIME: Duration = Duration::from_secs(1);

/// What all workers share.
pub(crate) struct Common {
    pub(crate) table: ArcSwap<Table>,
    pub(crate) cache: Option<Cache>,
    pub(crate) abandoned: Abandoned,
    /// The cache's tier in Redis.
    pub(crate) second: Option<SharedTier>,
    /// What tells other gateways of purges, and is told of theirs.
    pub(crate) coherence: Option<CoherenceThread>,
    pub(crate) workers: usize,
    pub(crate) metrics: Registry,
    /// Told when memory has become free.
    pub(crate) freed: Option<fn()>,
    /// Where is listened, with real ports.
    pub(crate) addresses: ArcSwap<Vec<ListenAddr>>,
    /// Clients of other protocols that were named lately.
    pub(crate) strangers: Strangers,
}

/// A worker's way to one service.
pub(crate) enum Upstream {
    Pipe(Arc<Service>, Rc<Link>),
    Http(Arc<Service>, Rc<Pool>),
    External(Arc<External>, Rc<Pool>),
}

impl Upstream {
    /// Whether nothing is lost without it.
    fn is_unused(&self) -> bool {
        match self {
            Self::Pipe(_, link) => link.is_unused(),
            Self::Http(_, pool) | Self::External(_, pool) => pool.is_unused(),
        }
    }
}

/// What workers are told while they run.
pub(crate) enum Order {
    /// Accept connections there, too.
    Listen(ListenAddr, Listener),
    /// Accept none there any more.
    Close(ListenAddr),
    /// Follow the settings of the table.
    Follow,
}

/// How far a gateway has come on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    No,
    /// Another process accepts connections now: those that are open end with their next answer.
    Leave,
    /// Idle connections close now.
    Now,
}

/// One worker.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) common: Arc<Common>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) ids: RequestIds,
    /// Ways to services, made with the first request, by [`ServiceTarget::key`]. What is in here holds its service, so
    /// that no key is used twice.
    upstreams: RefCell<FxHashMap<usize, Rc<Upstream>>>,
    pub(crate) spawner: Spawner,
    pub(crate) scratch: RefCell<Scratch>,
    pub(crate) clock: Clock,
    pub(crate) access_log: Option<Rc<AccessLog>>,
    /// This worker's end of the tier in Redis.
    pub(crate) second: Option<Rc<Tier>>,
    /// Stale responses that are being revalidated beside their clients.
    pub(crate) refreshes: Cell<usize>,
    /// Told when they are to end.
    pub(crate) refreshes_end: Notify,
    stopping: Cell<Stop>,
    /// Memory of connections has become free since [`Worker::housekeeping`] did.
    freed: Cell<bool>,
    clients: Cell<usize>,
    /// Requests whose clients have gone, and that go on.
    abandoned: Cell<usize>,
    max_clients: Cell<usize>,
    clients_changed: Notify,
}

/// The thread's body.
pub(crate) fn run(
    index: usize,
    common: Arc<Common>,
    orders: UnboundedReceiver<Order>,
    events: WorkerEvents,
    sink: Option<Sink>,
    stop: watch::Receiver<Stop>,
    drained: mpsc::Sender<()>,
) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build_local(LocalOptions::default())?;
    runtime.block_on(main(index, common, orders, events, sink, stop, drained))
}

async fn main(
    index: usize,
    common: Arc<Common>,
    mut orders: UnboundedReceiver<Order>,
    events: WorkerEvents,
    sink: Option<Sink>,
    mut stop: watch::Receiver<Stop>,
    drained: mpsc::Sender<()>,
) -> io::Result<()> {
    let (spawner, tasks) = Spawner::new();
    let worker = Worker::new(index, common, spawner.clone(), sink);
    let owner = tokio::task::spawn_local(tasks.run());
    let (to_clients, clients) = Spawner::new();
    let clients = tokio::task::spawn_local(clients.run());
    spawner.spawn(Rc::clone(&worker.deadlines).sweep());
    spawner.spawn(Rc::clone(&worker).housekeeping());
    if let Some(log) = &worker.access_log {
        spawner.spawn(Rc::clone(log).run());
    }
    if let Some(second) = &worker.second {
        spawner.spawn(Rc::clone(second).run());
    }
    let supervised = tokio::task::spawn_local(Rc::clone(&worker).take_events(events));
    let mut open = Vec::new();
    loop {
        // An error means that the gateway was dropped without being stopped: that is a stop as well.
        let order = tokio::select! {
            _ = stop.wait_for(|stop| *stop != Stop::No) => break,
            order = orders.recv() => order,
        };
        match order {
            Some(order) => worker.follow(order, &mut open, (&stop, &to_clients)),
            None => break,
        }
    }
    let limits = worker.common.table.load().settings().limits.clone();
    let begun = Instant::now();
    if *stop.borrow() == Stop::Leave {
        worker.stopping.set(Stop::Leave);
        worker.deadlines.wake_all();
        let now = stop.wait_for(|stop| *stop == Stop::Now);
        tokio::select! {
            _ = now => {}
            () = worker.all_gone() => {}
            () = tokio::time::sleep(limits.shutdown_timeout / 2) => {} // the rest is for those that are busy
        }
    }
    worker.stopping.set(Stop::Now);
    worker.refreshes_end.notify_waiters(); // nobody waits for them, and they hold leases
    worker.deadlines.wake_all(); // idle connections close, busy ones close after their answer
    let timeout = limits.shutdown_timeout.saturating_sub(begun.elapsed());
    if tokio::time::timeout(timeout, worker.all_gone()).await.is_err() {
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
    // The supervisor drains the services over this worker's connections and closes the queue when it is done, in
    // bounded time.
    if let Err(e) = supervised.await {
        tracing::error!(worker = index, "the task for the supervisor's events failed: {e}");
    }
    if let Some(log) = &worker.access_log {
        log.pass_on();
    }
    if let Some(second) = &worker.second {
        second.close(WRITE_OUT_TIME).await;
    }
    owner.abort();
    Ok(())
}

impl Worker {
    fn new(index: usize, common: Arc<Common>, spawner: Spawner, sink: Option<Sink>) -> Rc<Self> {
        let max_clients = max_clients(&common);
        Rc::new(Self {
            index,
            deadlines: Deadlines::new(),
            ids: RequestIds::new(),
            upstreams: RefCell::default(),
            spawner,
            scratch: RefCell::default(),
            clock: Clock::new(),
            access_log: sink.map(AccessLog::new),
            second: second_tier(index, &common),
            refreshes: Cell::new(0),
            refreshes_end: Notify::new(),
            stopping: Cell::new(Stop::No),
            freed: Cell::new(false),
            clients: Cell::new(0),
            abandoned: Cell::new(0),
            max_clients: Cell::new(max_clients),
            clients_changed: Notify::new(),
            common,
        })
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get() == Stop::Now
    }

    /// Whether each connection is to end with its next answer.
    pub(crate) fn is_leaving(&self) -> bool {
        self.stopping.get() != Stop::No
    }

    /// This worker's way to a service.
    pub(crate) fn upstream(&self, target: &ServiceTarget) -> Rc<Upstream> {
        let mut all = self.upstreams.borrow_mut();
        Rc::clone(all.entry(target.key()).or_insert_with(|| Rc::new(self.make(target))))
    }

    fn make(&self, target: &ServiceTarget) -> Upstream {
        match target {
            ServiceTarget::Managed(service, Transport::Pipe) => {
                let workers = u16::try_from(self.common.workers).unwrap_or(u16::MAX);
                let (service, spawner) = (Arc::clone(service), self.spawner.clone());
                let link = Link::new(Arc::clone(&service), self.index as u32, workers, spawner);
                Upstream::Pipe(service, link)
            }
            ServiceTarget::Managed(service, Transport::Http(_)) => {
                Upstream::Http(Arc::clone(service), Pool::new(service.name().to_string(), Some(Arc::clone(service))))
            }
            ServiceTarget::External(external) => {
                Upstream::External(Arc::clone(external), Pool::new(external.name.clone(), None))
            }
        }
    }

    fn follow(
        self: &Rc<Self>,
        order: Order,
        open: &mut Vec<(ListenAddr, oneshot::Sender<()>)>,
        (stop, to_clients): (&watch::Receiver<Stop>, &Spawner),
    ) {
        match order {
            Order::Listen(address, listener) => match Accepting::new(listener) {
                Ok(listener) => {
                    let (close, closed) = oneshot::channel();
                    let ends = (stop.clone(), closed);
                    self.spawner.spawn(Rc::clone(self).accept(listener, ends, to_clients.clone()));
                    open.push((address, close));
                }
                Err(e) => tracing::error!(worker = self.index, %address, "cannot be listened on: {e}"),
            },
            Order::Close(closed) => open.retain(|(address, _)| *address != closed),
            Order::Follow => {
                self.max_clients.set(max_clients(&self.common));
                self.clients_changed.notify_waiters();
            }
        }
    }

    /// Whether one more request may go on for the cache alone when its client has gone: `limits.connections` bounds
    /// them, too.
    pub(crate) fn has_room_for_abandoned(&self) -> bool {
        self.abandoned.get() < self.max_clients.get()
    }

    /// Counts a request whose client has gone, until what is returned is dropped.
    pub(crate) fn abandon(self: &Rc<Self>) -> AbandonedRequest {
        self.abandoned.set(self.abandoned.get() + 1);
        AbandonedRequest(Rc::clone(self))
    }

    fn connections(&self) -> &Connections {
        &self.common.metrics.connections[self.index]
    }

    async fn all_gone(&self) {
        while self.clients.get() > 0 {
            self.clients_changed.notified().await;
        }
    }

    async fn accept(
        self: Rc<Self>,
        listener: Accepting,
        (mut stop, mut closed): (watch::Receiver<Stop>, oneshot::Receiver<()>),
        to_clients: Spawner,
    ) {
        loop {
            // limits.connections: those beyond it wait in the kernel's backlog.
            while self.clients.get() >= self.max_clients.get() {
                self.clients_changed.notified().await;
            }
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop != Stop::No) => return,
                accepted = listener.accept() => accepted,
                // Last, so that whoever has connected is not turned away.
                _ = &mut closed => return,
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
                WorkerEvent::Connected { instance, service, hello, stream, read_ahead, link } => {
                    let target = ServiceTarget::Managed(service, Transport::Pipe);
                    if let Upstream::Pipe(_, to) = &*self.upstream(&target) {
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
    fn link(&self, instance: &pilotlight_supervisor::Instance) -> Option<Rc<Link>> {
        self.upstreams.borrow().values().find_map(|upstream| match &**upstream {
            Upstream::Pipe(service, link) if service.id() == instance.service() => Some(Rc::clone(link)),
            _ => None,
        })
    }

    /// A connection takes less memory from now on.
    pub(crate) fn has_freed(&self) {
        self.freed.set(true);
    }

    /// Closes idle connections to services, and gives notice of memory that has become free.
    async fn housekeeping(self: Rc<Self>) {
        loop {
            tokio::time::sleep(HOUSEKEEPING_EVERY).await;
            if self.freed.take()
                && let Some(freed) = self.common.freed
            {
                freed();
            }
            let table = self.common.table.load_full();
            let known: FxHashSet<usize> = table.services().iter().map(ServiceTarget::key).collect();
            self.upstreams.borrow_mut().retain(|key, upstream| {
                if let Upstream::Http(_, pool) | Upstream::External(_, pool) = &**upstream {
                    pool.close_idle();
                }
                !upstream.is_unused() || known.contains(key) // what is configured no longer, or with another address, goes
            });
        }
    }
}

/// A worker's end of the tier in Redis. What its configuration cannot be was found out when it was read, or here: the
/// gateway runs without it, then.
fn second_tier(index: usize, common: &Common) -> Option<Rc<Tier>> {
    let (shared, cache) = (common.second.as_ref()?, common.cache.as_ref()?);
    Tier::new(shared, cache).inspect_err(|e| tracing::error!(worker = index, "cache.redis cannot be used: {e}")).ok()
}

/// One worker's part of `limits.connections`.
fn max_clients(common: &Common) -> usize {
    (common.table.load().settings().limits.connections / common.workers).max(1)
}

/// Counts an open client connection.
struct OpenClient(Rc<Worker>);

impl Drop for OpenClient {
    fn drop(&mut self) {
        self.0.clients.set(self.0.clients.get() - 1);
        self.0.has_freed();
        self.0.connections().closed.add(1);
        self.0.clients_changed.notify_waiters();
    }
}

/// Counts a request whose client has gone.
pub(crate) struct AbandonedRequest(Rc<Worker>);

impl Drop for AbandonedRequest {
    fn drop(&mut self) {
        self.0.abandoned.set(self.0.abandoned.get() - 1);
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
