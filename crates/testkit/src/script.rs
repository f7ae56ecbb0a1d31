//! A peer that does what a test wrote down, or what a closure answers.
//!
//! ```text
//! client ──▶ commands (any chunking) ──▶ handshake? ──no──▶ script or closure
//!                                          │ yes, unless the next step expects it
//!                                          ▼
//!                                     answered here
//! ```

mod commands;
mod handshake;
mod observed;
mod play;
mod steps;
mod transport;

pub use handshake::{Handshake, SlotRange, cluster_slots};
pub use observed::{Answer, ReceivedCommand, ScriptError};
pub use steps::{Script, Signal};

use bytes::Bytes;
use observed::{Observed, Progress};
use parking_lot::Mutex;
use play::Player;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use transport::Acceptor;

/// How long a step waits for its command, and [`ScriptedServer::finish`] for the whole script.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
/// What an in-memory connection holds in each direction.
const MEMORY_BYTES: usize = 64 << 10;

/// A scripted Redis server on the loopback interface, on a Unix socket, or in memory. Dropping it closes its
/// connections.
#[derive(Debug)]
pub struct ScriptedServer {
    place: ServedAt,
    observed: Arc<Observed>,
    scripted: usize,
    patience: Duration,
    acceptor: JoinHandle<()>,
}

#[derive(Debug)]
enum ServedAt {
    Tcp(SocketAddr),
    Unix(PathBuf, #[expect(dead_code, reason = "removes the folder when dropped")] TempDir),
    Memory(mpsc::UnboundedSender<DuplexStream>),
}

/// What a [`ScriptedServer`] is started with: by default on TCP, with the [default handshake](Handshake::default).
#[derive(Debug)]
#[must_use]
pub struct ScriptedServerBuilder {
    kind: Kind,
    handshake: Handshake,
    patience: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Tcp,
    Unix,
    Memory,
}

impl ScriptedServerBuilder {
    /// Listens on a Unix socket in a temporary folder.
    pub fn unix(mut self) -> Self {
        self.kind = Kind::Unix;
        self
    }

    /// Listens nowhere; [`ScriptedServer::dial`] makes connections. No byte passes the kernel, so paused time works.
    pub fn memory(mut self) -> Self {
        self.kind = Kind::Memory;
        self
    }

    /// What is answered without the script's doing.
    pub fn handshake(mut self, handshake: Handshake) -> Self {
        self.handshake = handshake;
        self
    }

    /// How long a step waits for its command (10 seconds by default).
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Plays a script.
    ///
    /// # Errors
    /// If it cannot listen.
    ///
    /// # Cancel safety
    /// A server that was not returned is gone.
    pub async fn play(self, script: Script) -> io::Result<ScriptedServer> {
        let scripted = script.connections.len();
        self.start(Player::Script(Arc::new(script)), scripted).await
    }

    /// Answers every command that is no handshake by a closure: with bytes (none for silence) or with an [`Answer`].
    ///
    /// # Errors
    /// If it cannot listen.
    ///
    /// # Cancel safety
    /// A server that was not returned is gone.
    pub async fn respond<F, A>(self, respond: F) -> io::Result<ScriptedServer>
    where
        F: Fn(Vec<Bytes>) -> A + Send + Sync + 'static,
        A: Into<Answer>,
    {
        self.start(Player::Closure(Arc::new(move |words| respond(words).into())), 0).await
    }

    async fn start(self, player: Player, scripted: usize) -> io::Result<ScriptedServer> {
        let (acceptor, place) = match self.kind {
            Kind::Tcp => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                let addr = listener.local_addr()?;
                (Acceptor::Tcp(listener), ServedAt::Tcp(addr))
            }
            Kind::Unix => {
                let dir = tempfile::Builder::new().prefix("pilotlight-script-").tempdir()?;
                let path = dir.path().join("redis.sock");
                (Acceptor::Unix(UnixListener::bind(&path)?), ServedAt::Unix(path, dir))
            }
            Kind::Memory => {
                let (dialer, dialed) = mpsc::unbounded_channel();
                (Acceptor::Memory(dialed), ServedAt::Memory(dialer))
            }
        };
        let observed = Arc::new(Observed {
            commands: Mutex::default(),
            handshake: Mutex::new(self.handshake),
            progress: watch::Sender::default(),
        });
        let accepting = accept(acceptor, player, Arc::clone(&observed), self.patience);
        Ok(ScriptedServer { place, observed, scripted, patience: self.patience, acceptor: tokio::spawn(accepting) })
    }
}

impl ScriptedServer {
    /// A server to be configured first.
    pub fn builder() -> ScriptedServerBuilder {
        ScriptedServerBuilder { kind: Kind::Tcp, handshake: Handshake::default(), patience: DEFAULT_PATIENCE }
    }

    /// Plays a script on a TCP port.
    ///
    /// # Errors
    /// If it cannot listen.
    ///
    /// # Cancel safety
    /// A server that was not returned is gone.
    pub async fn play(script: Script) -> io::Result<Self> {
        Self::builder().play(script).await
    }

    /// Answers by a closure on a TCP port; see [`ScriptedServerBuilder::respond`].
    ///
    /// # Errors
    /// If it cannot listen.
    ///
    /// # Cancel safety
    /// A server that was not returned is gone.
    pub async fn respond<F, A>(respond: F) -> io::Result<Self>
    where
        F: Fn(Vec<Bytes>) -> A + Send + Sync + 'static,
        A: Into<Answer>,
    {
        Self::builder().respond(respond).await
    }

    /// The TCP address, if it listens on one.
    pub fn addr(&self) -> Option<SocketAddr> {
        if let ServedAt::Tcp(addr) = &self.place { Some(*addr) } else { None }
    }

    /// The TCP port; 0 if it listens on none.
    pub fn port(&self) -> u16 {
        self.addr().map_or(0, |addr| addr.port())
    }

    /// `redis://127.0.0.1:PORT` or `unix:///PATH`; `memory:` in memory.
    pub fn url(&self) -> String {
        match &self.place {
            ServedAt::Tcp(addr) => format!("redis://{addr}"),
            ServedAt::Unix(path, _) => format!("unix://{}", path.display()),
            ServedAt::Memory(_) => "memory:".to_owned(),
        }
    }

    /// The Unix socket, if it listens on one.
    pub fn unix_path(&self) -> Option<&PathBuf> {
        if let ServedAt::Unix(path, _) = &self.place { Some(path) } else { None }
    }

    /// The client's end of a new connection in memory.
    ///
    /// # Errors
    /// If this server is not in memory.
    pub fn dial(&self) -> io::Result<DuplexStream> {
        let ServedAt::Memory(dialer) = &self.place else { return Err(io::ErrorKind::Unsupported.into()) };
        let (client, server) = tokio::io::duplex(MEMORY_BYTES);
        dialer.send(server).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(client)
    }

    /// Replaces what is answered without the script's doing; connections that are open take it up, too.
    pub fn set_handshake(&self, handshake: Handshake) {
        *self.observed.handshake.lock() = handshake;
    }

    /// All commands so far, with the handshakes.
    pub fn commands(&self) -> Vec<ReceivedCommand> {
        self.observed.commands.lock().clone()
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.observed.progress.borrow().accepted
    }

    /// Waits until this many connections were accepted; `false` if they did not come in time.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for_connections(&self, count: usize) -> bool {
        self.wait_for(|progress| progress.accepted >= count).await
    }

    /// Waits until this many commands came, those of handshakes included; `false` if they did not in time.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for_commands(&self, count: usize) -> bool {
        self.wait_for(|progress| progress.received >= count).await
    }

    /// Waits until every connection of the script was played to its end.
    ///
    /// # Errors
    /// If the client did something else than the script expects, or not everything.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn finish(&self) -> Result<(), ScriptError> {
        let is_over = |progress: &Progress| progress.failure.is_some() || progress.played >= self.scripted;
        // Longer than a step waits, so that the step is named.
        let within = self.patience + Duration::from_secs(1);
        let mut progress = self.observed.progress.subscribe();
        let waited = tokio::time::timeout(within, progress.wait_for(is_over)).await;
        let progress = self.observed.progress.borrow().clone();
        match (progress.failure, waited) {
            (Some(failure), _) => Err(failure),
            (None, Ok(Ok(_))) => Ok(()),
            (None, _) => Err(ScriptError::Unfinished {
                played: progress.played,
                scripted: self.scripted,
                within,
                commands: format!("{:?}", self.observed.commands.lock()),
            }),
        }
    }

    async fn wait_for(&self, is_so: impl FnMut(&Progress) -> bool) -> bool {
        let mut progress = self.observed.progress.subscribe();
        let waited = tokio::time::timeout(self.patience, progress.wait_for(is_so)).await;
        matches!(waited, Ok(Ok(_)))
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// Owns the connections' tasks: they end when this ends.
async fn accept(mut acceptor: Acceptor, player: Player, observed: Arc<Observed>, patience: Duration) {
    let mut connections = JoinSet::new();
    let mut accepted = 0;
    while let Ok(stream) = acceptor.accept().await {
        let play = play::connection(stream, player.clone(), accepted, Arc::clone(&observed), patience);
        accepted += 1;
        observed.progress.send_modify(|progress| progress.accepted = accepted);
        connections.spawn(play);
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
}
