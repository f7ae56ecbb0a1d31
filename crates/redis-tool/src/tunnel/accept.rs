//! Accepts clients and gives each to one of the threads, up to `--max-clients`.

use std::io::Write;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::ports::Target;
use super::shared::Shared;

/// Pause after a failure to accept, such as no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A client on its way to a worker.
pub(super) struct Job {
    pub(super) socket: StdStream,
    /// The node that it is for; `None`: all of them together.
    pub(super) target: Option<Target>,
    pub(super) permit: OwnedSemaphorePermit,
}

/// Gives clients to the threads, one after the other.
pub(super) struct Acceptor {
    senders: Vec<mpsc::UnboundedSender<Job>>,
    next: AtomicUsize,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
}

impl Acceptor {
    pub(super) fn new(senders: Vec<mpsc::UnboundedSender<Job>>, shared: Arc<Shared>) -> Self {
        let places = Arc::new(Semaphore::new(shared.limits.max_clients.min(Semaphore::MAX_PERMITS)));
        Self { senders, next: AtomicUsize::new(0), places, shared }
    }

    /// What all clients have in common.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
}

/// Binds a port.
pub(super) fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = StdListener::bind(address)
        .with_context(|| format!("cannot listen on {address}; --listen takes another port, 0 any that is free"))?;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}
