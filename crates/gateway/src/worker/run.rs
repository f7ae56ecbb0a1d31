//! What a worker's thread does: accepts connections, follows orders and the supervisor's events, and stops.

use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pilotlight_supervisor::{Transport, WorkerEvent, WorkerEvents};
use rustc_hash::FxHashSet;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::{Common, Stop, Upstream, Worker, max_clients};
use crate::accepted;
use crate::accepted::{Accepted, Security};
use crate::access_log::Sink;
use crate::descriptors;
use crate::handshake::Place;
use crate::health;
use crate::listen::Listener;
use crate::metrics::Connections;
use crate::net::Socket;
use crate::options::{ListenAddr, ServiceTarget};
use crate::schedules::runner;
use crate::spawn::Spawner;
use crate::upstream::lambda::api::{self, Served};

/// How often connections to services are looked at for idleness, and whether those of clients have freed memory.
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(5);

/// Pause after a failed `accept`, so that a lack of descriptors is not a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections that are cut may take to go: no task blocks, so this is never used up.
const CUT_TIME: Duration = Duration::from_secs(1);

/// How long what was stored last may take to be written to Redis.
const WRITE_OUT_TIME: Duration = Duration::from_secs(1);

/// What workers are told while they run.
pub(crate) enum Order {
    /// Accept connections there, too.
    Listen(ListenAddr, Listener),
    /// Accept none there any more.
    Close(ListenAddr),
    /// Follow the settings of the table.
    Follow,
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
    worker.spawn_own_tasks();
    if index == 0 {
        worker.spawner.spawn(runner::run(Rc::clone(&worker), stop.clone()));
        worker.spawner.spawn(health::servers::run(Rc::clone(&worker), stop.clone()));
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
            Some(order) => worker.follow(order, &mut open, &stop, &to_clients),
            None => break,
        }
    }
    drain(&worker, &mut stop, &clients).await;
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

/// Lets connections end: those that are idle at once, those that are busy after their response, within
/// `limits.shutdown_timeout`. Those that are left are cut.
async fn drain(worker: &Worker, stop: &mut watch::Receiver<Stop>, clients: &JoinHandle<()>) {
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
            worker = worker.index,
            "{} connections are cut: their requests took longer than limits.shutdown_timeout",
            worker.clients.get()
        );
        // With them go their leases: the supervisor would wait for those (an open WebSocket has one).
        clients.abort();
        if tokio::time::timeout(CUT_TIME, worker.all_gone()).await.is_err() {
            tracing::error!(
                worker = worker.index,
                "connections are still open after they were cut; this is a bug of Pilotlight"
            );
        }
    }
}

impl Worker {
    fn spawn_own_tasks(self: &Rc<Self>) {
        self.spawner.spawn(Rc::clone(&self.deadlines).sweep());
        self.spawner.spawn(self.batch.clone().send_each_turn());
        self.spawner.spawn(Rc::clone(self).housekeeping());
        if let Some(log) = &self.access_log {
            self.spawner.spawn(Rc::clone(log).run());
        }
        if let Some(second) = &self.second {
            self.spawner.spawn(Rc::clone(second).run());
        }
    }

    fn follow(
        self: &Rc<Self>,
        order: Order,
        open: &mut Vec<(ListenAddr, oneshot::Sender<()>)>,
        stop: &watch::Receiver<Stop>,
        to_clients: &Spawner,
    ) {
        match order {
            Order::Listen(address, listener) => match Accepting::new(listener, &address) {
                Ok(listener) => {
                    let (close, closed) = oneshot::channel();
                    let accepting = Rc::clone(self).accept(listener, stop.clone(), closed, to_clients.clone());
                    self.spawner.spawn(accepting);
                    open.push((address, close));
                }
                Err(e) => tracing::error!(worker = self.index, %address, "cannot be listened on: {e}"),
            },
            Order::Close(closed) => open.retain(|(address, _)| *address != closed),
            Order::Follow => {
                self.max_clients.set(max_clients(&self.common));
                self.clients_changed.notify_waiters();
                self.checks_changed.notify_one();
            }
        }
    }

    fn connections(&self) -> &Connections {
        &self.common.metrics.connections[self.index]
    }

    /// This worker's part of `limits.handshakes`.
    pub(crate) fn max_handshakes(&self) -> usize {
        let limit = self.common.table.load().settings().limits.handshakes;
        (limit / self.common.workers).max(1)
    }

    /// Somebody who waits may be accepted.
    pub(crate) fn has_room(&self) {
        self.clients_changed.notify_waiters();
    }

    async fn all_gone(&self) {
        while self.clients.get() > 0 {
            self.clients_changed.notified().await;
        }
    }

    async fn accept(
        self: Rc<Self>,
        listener: Accepting,
        mut stop: watch::Receiver<Stop>,
        mut closed: oneshot::Receiver<()>,
        to_clients: Spawner,
    ) {
        loop {
            // limits.connections, limits.handshakes: those beyond them wait in the kernel's backlog.
            while self.clients.get() >= self.max_clients.get()
                || listener.security == Security::Tls && self.handshakes.open() >= self.max_handshakes()
            {
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
                    let (open, socket) = (OpenClient(Rc::clone(&self)), socket.in_batch(&self.batch));
                    // Taken here: all of a burst are accepted before the first of their tasks runs.
                    let place = (listener.security == Security::Tls).then(|| Place::new(&self));
                    let accepted = Accepted { socket, peer, port: listener.port, place };
                    to_clients.spawn(async move { accepted::serve(&open.0, accepted).await });
                }
                Err(e) => {
                    let hint = descriptors::hint(&e);
                    tracing::warn!(worker = self.index, "a connection could not be accepted: {e}{hint}");
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
                WorkerEvent::RuntimeApi { instance, service, listener, user } => {
                    let common = Arc::clone(&self.common);
                    self.spawner.spawn(async move {
                        api::serve(&common.functions, Served { instance, service, user }, listener).await;
                    });
                }
                WorkerEvent::Examine(examination) => {
                    self.spawner.spawn(health::examine(Rc::clone(&self), examination));
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

    /// Closes idle connections to services, and gives notice of memory that has become free.
    async fn housekeeping(self: Rc<Self>) {
        loop {
            tokio::time::sleep(HOUSEKEEPING_EVERY).await;
            if self.freed.take()
                && let Some(freed) = self.common.freed
            {
                freed();
            }
            self.files.borrow_mut().forget_idle(std::time::Instant::now());
            let table = self.common.table.load_full();
            let known: FxHashSet<usize> = table.services().iter().map(ServiceTarget::key).collect();
            self.upstreams.borrow_mut().retain(|key, upstream| {
                match &**upstream {
                    Upstream::Http(_, pool) | Upstream::External(_, pool) => pool.close_idle(),
                    Upstream::Cgi(_, _, pool) | Upstream::ExternalCgi(_, _, pool) => pool.close_idle(),
                    Upstream::Http2(_, pool) => pool.close_idle(|_| true),
                    Upstream::ExternalHttp2(external, pool) => pool.close_idle(|number| external.has(number)),
                    Upstream::ExternalTls(external, http1, http2) => {
                        http1.close_idle();
                        http2.close_idle(|number| external.has(number));
                    }
                    Upstream::Pipe(..) | Upstream::Lambda(_) => {}
                }
                !upstream.is_unused() || known.contains(key) // what is configured no longer, or with another address, goes
            });
        }
    }
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

struct Accepting {
    listener: AsyncListener,
    security: Security,
    /// None of a Unix socket.
    port: Option<u16>,
}

enum AsyncListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    fn new(listener: Listener, address: &ListenAddr) -> io::Result<Self> {
        let listener = match listener {
            Listener::Tcp(l) => AsyncListener::Tcp(TcpListener::from_std(l)?),
            Listener::Unix(l) => AsyncListener::Unix(UnixListener::from_std(l)?),
        };
        Ok(Self { listener, security: Security::of(address), port: address.port() })
    }

    async fn accept(&self) -> io::Result<(Socket, String)> {
        match &self.listener {
            AsyncListener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((stream.into(), peer.to_string()))
            }
            AsyncListener::Unix(listener) => Ok((listener.accept().await?.0.into(), String::new())),
        }
    }
}
