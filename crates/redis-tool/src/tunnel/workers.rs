//! The threads that serve clients, and how clients come to them.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use pilotlight_redis::config::{Config, WhenDown};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::pinned::Target;
use super::smart::Upstream;
use super::{Opened, Shared, TunnelArgs, announce, pinned, smart};

/// Pause after a failure to accept, such as no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections to servers get so long to end at the tunnel's end.
const CLOSE_PATIENCE: Duration = Duration::from_millis(200);

/// A client on its way to a worker.
pub(super) struct Job {
    socket: StdStream,
    /// The node that it is for; `None`: all of them together.
    target: Option<Target>,
    permit: OwnedSemaphorePermit,
}

/// All threads.
pub(super) struct Workers {
    senders: Vec<mpsc::UnboundedSender<Job>>,
    next: AtomicUsize,
    places: Arc<Semaphore>,
    ending: watch::Sender<bool>,
    grace: watch::Sender<Duration>,
    threads: std::sync::Mutex<Vec<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

impl Workers {
    /// Starts so many.
    pub(super) fn start(count: usize, config: &Config, shared: &Arc<Shared>) -> io::Result<Self> {
        let (ending, grace) = (watch::Sender::new(false), watch::Sender::new(shared.limits.grace));
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (sender, jobs) = mpsc::unbounded_channel();
            let (config, shared, ending, grace) =
                (config.clone(), Arc::clone(shared), ending.subscribe(), grace.subscribe());
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let thread = std::thread::Builder::new().name(format!("tunnel-{number}"));
            threads.push(thread.spawn(move || runtime.block_on(work(config, shared, jobs, ending, grace)))?);
            senders.push(sender);
        }
        Ok(Self {
            senders,
            next: AtomicUsize::new(0),
            places: Arc::new(Semaphore::new(shared.limits.max_clients.min(Semaphore::MAX_PERMITS))),
            ending,
            grace,
            threads: std::sync::Mutex::new(threads),
            shared: Arc::clone(shared),
        })
    }

    /// Accepts for ever.
    pub(super) async fn accept(&self, listener: TcpListener, target: Option<Target>) {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => self.give(socket, target.clone()),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn give(&self, socket: TcpStream, target: Option<Target>) {
        let _ = socket.set_nodelay(true);
        let Ok(mut socket) = socket.into_std() else { return };
        let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() else {
            self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
            // If it does not take so little at once, it gets nothing.
            let _ = socket.write(b"-ERR max number of clients reached (--max-clients)\r\n");
            return;
        };
        self.shared.counters.clients.fetch_add(1, Ordering::Relaxed);
        let worker = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len().max(1);
        if let Some(sender) = self.senders.get(worker) {
            let _ = sender.send(Job { socket, target, permit });
        }
    }

    /// Lets what is in flight finish, and joins the threads.
    pub(super) fn end(&self, grace: Duration) {
        self.grace.send_replace(grace);
        self.ending.send_replace(true);
        let mut threads = self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
    }
}

async fn work(
    config: Config,
    shared: Arc<Shared>,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    mut ending: watch::Receiver<bool>,
    grace: watch::Receiver<Duration>,
) {
    let upstream = Arc::new(Upstream::new(config.clone(), Arc::clone(&shared.replies)));
    let config = Arc::new(config);
    let mut clients = JoinSet::new();
    loop {
        let job = tokio::select! {
            job = jobs.recv() => job,
            Some(_) = clients.join_next() => continue,
            _ = ending.wait_for(|ending| *ending) => None,
        };
        let Some(Job { socket, target, permit }) = job else { break };
        let Ok(socket) = TcpStream::from_std(socket) else { continue };
        let (shared, upstream, config, ending) =
            (Arc::clone(&shared), Arc::clone(&upstream), Arc::clone(&config), ending.clone());
        clients.spawn(async move {
            // That a client went away in the middle of something is not news.
            let _ = match target {
                None => smart::serve(socket, shared, upstream, ending).await,
                Some(target) => pinned::serve(socket, shared, config, target, ending).await,
            };
            drop(permit);
        });
    }
    let patience = *grace.borrow();
    let _ = tokio::time::timeout(patience, async { while clients.join_next().await.is_some() {} }).await;
    clients.shutdown().await;
    upstream.close(CLOSE_PATIENCE).await;
}

/// Binds a port.
pub(super) fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = StdListener::bind(address)
        .with_context(|| format!("cannot listen on {address}; --listen takes another port, 0 any that is free"))?;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

/// One port for all servers.
pub(super) async fn listen(args: &TunnelArgs, config: &Config, workers: &Workers) -> anyhow::Result<()> {
    let listener = bind(SocketAddr::new(args.bind, args.listen))?;
    // It is better known now than to each client later.
    let (command_timeout, when_down) = (Some(config.connect_timeout), WhenDown::FailFast);
    let config_of_probe = Config { command_timeout, when_down, ..config.clone() };
    let probe = Upstream::new(config_of_probe, Arc::clone(&workers.shared.replies));
    probe.check().await?;
    probe.close(CLOSE_PATIENCE).await;
    let local = listener.local_addr()?;
    announce(args, &[Opened { node: config.to_string(), local }])?;
    workers.accept(listener, None).await;
    Ok(())
}
