//! Between a client and a real server: a TCP proxy whose faults are set while it runs.
//!
//! ```text
//! client ──read──▶ queue (arrival + delay) ──▶ pause? drip? cut? ──write──▶ server      and the same the other way round
//! ```

mod faults;
mod forward;
mod link;
mod pump;

pub use faults::{DirectionFaults, Ending, Faults};

use crate::port::PortLease;
use link::Link;
use parking_lot::Mutex;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

const RETRY_EVERY: Duration = Duration::from_millis(5);
const REBIND_LIMIT: Duration = Duration::from_secs(5);

/// What happens to new connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Accepting {
    /// They reach the server.
    #[default]
    Forward,
    /// They are accepted, read and never answered; the server does not see them. They stay so.
    Swallow,
    /// Nobody listens.
    Refuse,
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyStats {
    /// Connections accepted, those swallowed included.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Connections ended by a cut or by [`FaultProxy::end_all`].
    pub cut: u64,
    /// Connections that could not be forwarded since the server refused them.
    pub unreachable: u64,
    /// Bytes that reached the server.
    pub bytes_to_server: u64,
    /// Bytes that reached the clients.
    pub bytes_to_client: u64,
}

/// A TCP proxy with faults. Dropping it closes its connections.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<ProxyState>,
    accepting: watch::Sender<Accepting>,
    applied: watch::Receiver<Accepting>,
    acceptor: JoinHandle<()>,
    port: PortLease,
}

/// A connection of a [`FaultProxy`]; a handle, also when the connection is over.
#[derive(Debug, Clone)]
pub struct ProxiedConnection(Arc<Link>);

#[derive(Debug)]
struct ProxyState {
    upstream: SocketAddr,
    faults: Mutex<Faults>,
    links: Mutex<Vec<Arc<Link>>>,
    unreachable: AtomicU64,
}

impl FaultProxy {
    /// A proxy to this server, without faults so far.
    ///
    /// # Errors
    /// If there is no port to listen on.
    ///
    /// # Cancel safety
    /// A proxy that was not returned is gone.
    pub async fn to(upstream: SocketAddr) -> io::Result<Self> {
        // Leased: nobody else gets the port while connections are refused.
        let port = PortLease::take().map_err(io::Error::other)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.port())).await?;
        let shared = Arc::new(ProxyState {
            upstream,
            faults: Mutex::default(),
            links: Mutex::default(),
            unreachable: AtomicU64::new(0),
        });
        let (accepting, wanted) = watch::channel(Accepting::Forward);
        let (applying, applied) = watch::channel(Accepting::Forward);
        let acceptor = tokio::spawn(accept(listener, Arc::clone(&shared), wanted, applying));
        Ok(Self { shared, accepting, applied, acceptor, port })
    }

    /// Where clients connect to.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// Changes the faults of all connections, open and to come:
    /// `proxy.set(|faults| faults.to_client.is_paused = true)`. To heal everything:
    /// `proxy.set(|faults| *faults = Faults::default())`.
    pub fn set(&self, change: impl Fn(&mut Faults)) {
        // Both locks, or a connection accepted meanwhile would miss it.
        let links = self.shared.links.lock();
        change(&mut self.shared.faults.lock());
        for link in links.iter() {
            link.set(&change);
        }
    }

    /// What happens to new connections from now on. Returns when it does.
    ///
    /// # Errors
    /// If the port could not be opened again.
    ///
    /// # Cancel safety
    /// The change happens all the same.
    pub async fn set_accepting(&self, accepting: Accepting) -> io::Result<()> {
        self.accepting.send_replace(accepting);
        let mut applied = self.applied.clone();
        let waited = timeout(REBIND_LIMIT, applied.wait_for(|applied| *applied == accepting)).await;
        match waited {
            Ok(Ok(_)) => Ok(()),
            _ => Err(io::ErrorKind::AddrInUse.into()),
        }
    }

    /// Ends all open connections now.
    pub fn end_all(&self, ending: Ending) {
        for link in self.shared.links.lock().iter() {
            link.end(ending);
        }
    }

    /// All connections so far, in the order of acceptance, also those that are over.
    pub fn connections(&self) -> Vec<ProxiedConnection> {
        self.shared.links.lock().iter().map(|link| ProxiedConnection(Arc::clone(link))).collect()
    }

    /// Counters since the start.
    pub fn stats(&self) -> ProxyStats {
        let links = self.shared.links.lock();
        let mut stats =
            ProxyStats { unreachable: self.shared.unreachable.load(Ordering::Relaxed), ..ProxyStats::default() };
        for link in links.iter() {
            stats.accepted += 1;
            stats.open += u64::from(link.is_open());
            stats.cut += u64::from(link.was_cut());
            stats.bytes_to_server += link.passed_to_server();
            stats.bytes_to_client += link.passed_to_client();
        }
        stats
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

impl ProxiedConnection {
    /// Changes the faults of this connection only.
    pub fn set(&self, change: impl FnOnce(&mut Faults)) {
        self.0.set(change);
    }

    /// Ends it now. Nothing happens if it is over.
    pub fn end(&self, ending: Ending) {
        self.0.end(ending);
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// The client's address.
    pub fn client_addr(&self) -> SocketAddr {
        self.0.client_addr()
    }

    /// Bytes that reached the server.
    pub fn bytes_to_server(&self) -> u64 {
        self.0.passed_to_server()
    }

    /// Bytes that reached the client.
    pub fn bytes_to_client(&self) -> u64 {
        self.0.passed_to_client()
    }

    /// Waits until it is over.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ended(&self) {
        self.0.ended().await;
    }
}

/// Owns the listener and the connections' tasks: they end when this ends.
async fn accept(
    listener: TcpListener,
    shared: Arc<ProxyState>,
    mut wanted: watch::Receiver<Accepting>,
    applying: watch::Sender<Accepting>,
) {
    let addr = listener.local_addr();
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        let accepting = *wanted.borrow_and_update();
        match (accepting, &listener, &addr) {
            (Accepting::Refuse, _, _) => listener = None,
            (_, None, Ok(addr)) => listener = rebind(*addr).await,
            _ => {}
        }
        if listener.is_some() || accepting == Accepting::Refuse {
            applying.send_replace(accepting);
        }
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            (client, client_addr) = next_client(listener.as_ref()) => {
                let link = shared.link(client_addr);
                connections.spawn(serve(client, link, Arc::clone(&shared), accepting));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn rebind(addr: SocketAddr) -> Option<TcpListener> {
    let again = async {
        loop {
            match TcpListener::bind(addr).await {
                Ok(listener) => return listener,
                Err(_) => sleep(RETRY_EVERY).await,
            }
        }
    };
    timeout(REBIND_LIMIT, again).await.ok()
}

async fn next_client(listener: Option<&TcpListener>) -> (TcpStream, SocketAddr) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok(client) => return client,
            // Too many open files, for example: some will be closed.
            Err(_) => sleep(RETRY_EVERY).await,
        }
    }
}

async fn serve(client: TcpStream, link: Arc<Link>, shared: Arc<ProxyState>, accepting: Accepting) {
    if accepting == Accepting::Swallow {
        return forward::swallow(&link, client).await;
    }
    match TcpStream::connect(shared.upstream).await {
        Ok(server) => forward::forward(&link, client, server).await,
        Err(_) => {
            shared.unreachable.fetch_add(1, Ordering::Relaxed);
            link.give_up();
        }
    }
}

impl ProxyState {
    fn link(&self, client_addr: SocketAddr) -> Arc<Link> {
        let mut links = self.links.lock();
        let link = Arc::new(Link::new(client_addr, self.faults.lock().clone()));
        links.push(Arc::clone(&link));
        link
    }
}
