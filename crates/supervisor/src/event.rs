//! What the supervisor tells a worker.

use crate::instance::Instance;
use crate::notice::Notice;
use crate::queue::Lease;
use crate::service::Service;
use crate::spec::{HealthCheck, Transport};
use bytes::Bytes;
use pilotlight_pipe::hello::{ConnectionKind, Hello};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// What the supervisor tells a worker.
#[derive(Debug)]
pub enum WorkerEvent {
    /// A connection of a pipe instance. HELLO was checked and WELCOME is written.
    Connected {
        /// The instance that dialled.
        instance: Arc<Instance>,
        /// Its service.
        service: Arc<Service>,
        /// What it sent; its kind and limits count.
        hello: Hello,
        /// The connection, non-blocking.
        stream: UnixStream,
        /// What was read after HELLO.
        read_ahead: Bytes,
        /// For shared connections: hold it while the connection is open (P-33).
        link: Option<SharedLink>,
    },
    /// Send MORE on a shared connection of this instance.
    SendMore {
        /// The instance.
        instance: Arc<Instance>,
        /// What to ask for.
        kind: ConnectionKind,
        /// How many.
        count: u16,
        /// The worker to name.
        for_worker: u32,
    },
    /// Send DRAIN on this worker's shared connection to this instance (P-31), if there is one; start no exchange with
    /// it, and wait for no connection to it.
    Drain {
        /// The instance.
        instance: Arc<Instance>,
        /// Time until SIGTERM.
        grace: Duration,
    },
    /// Send the instance of a new release its health request.
    Examine(Box<Examination>),
    /// An instance of a function starts: serve it the Runtime API. Told to one worker.
    RuntimeApi {
        /// The instance.
        instance: Arc<Instance>,
        /// Its service.
        service: Arc<Service>,
        /// Where it asks: on a loopback port, non-blocking.
        listener: TcpListener,
        /// The user that it runs as.
        user: u32,
    },
    /// The instance has ended: its connections are of no use.
    Gone {
        /// The instance.
        instance: Arc<Instance>,
    },
}

/// The health request of an instance that gets no other before.
#[derive(Debug)]
pub struct Examination {
    /// Its service.
    pub service: Arc<Service>,
    /// How it is spoken to.
    pub transport: Transport,
    /// What it is asked; the verdict goes to [`Instance::report_health`].
    pub health: HealthCheck,
    /// The place for that one request.
    pub lease: Lease,
    /// The folder of the settings, and that of the release which is tried.
    pub moved: Option<(PathBuf, PathBuf)>,
}

/// Says that a shared connection is open. When the last one of an instance is dropped, the instance counts as dead
/// (P-33).
#[derive(Debug)]
pub struct SharedLink {
    pub(crate) instance: Arc<Instance>,
    pub(crate) worker: usize,
}

impl Drop for SharedLink {
    fn drop(&mut self) {
        self.instance.notice(Notice::LinkClosed { instance: self.instance.id, worker: self.worker });
    }
}

/// A worker's events.
#[derive(Debug)]
pub struct WorkerEvents(pub(crate) mpsc::Receiver<WorkerEvent>);

impl WorkerEvents {
    /// The next event; `None` when the supervisor has stopped.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn recv(&mut self) -> Option<WorkerEvent> {
        self.0.recv().await
    }
}
