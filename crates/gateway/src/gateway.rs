//! The gateway as a whole: binds, starts the workers, stops them.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use pilotlight_cache::{Cache, OptionsError};
use pilotlight_supervisor::WorkerEvents;
use tokio::sync::watch;

use crate::listen::{self, ListenError};
use crate::options::{GatewayOptions, ListenAddr};
use crate::routes::Table;
use crate::worker::{self, Common};

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The cache's sizes make no sense.
    #[error("the cache cannot be made: {0}")]
    Cache(#[from] OptionsError),
    /// The supervisor was started for another number of workers.
    #[error("{workers} workers got {events} receivers of events")]
    Events {
        /// Workers in the options.
        workers: usize,
        /// Receivers given.
        events: usize,
    },
    /// A thread could not be started.
    #[error("worker {index} could not be started: {cause}")]
    Thread {
        /// The worker.
        index: usize,
        /// What the system says.
        cause: io::Error,
    },
}

/// A running gateway.
pub struct Gateway {
    addresses: Vec<ListenAddr>,
    workers: Vec<JoinHandle<io::Result<()>>>,
    stop: watch::Sender<bool>,
    /// Ends when every worker has dropped its sender.
    drained: mpsc::Receiver<()>,
}

impl Gateway {
    /// Binds and begins to serve. `events` are the supervisor's, one for each worker.
    ///
    /// # Errors
    /// Nothing is left running when one of the addresses, sizes or threads is refused.
    pub fn start(options: GatewayOptions, events: Vec<WorkerEvents>) -> Result<Self, GatewayError> {
        let workers = options.workers.max(1);
        if events.len() != workers {
            return Err(GatewayError::Events { workers, events: events.len() });
        }
        let mut addresses = Vec::new();
        let mut listeners: Vec<Vec<listen::Listener>> = (0..workers).map(|_| Vec::new()).collect();
        for addr in &options.listen {
            let (bound, each) = listen::bind(addr, workers)?;
            addresses.push(bound);
            listeners.iter_mut().zip(each).for_each(|(all, one)| all.push(one));
        }
        let cache = options.cache.map(Cache::new).transpose()?;
        let common = Arc::new(Common {
            table: ArcSwap::from_pointee(Table::new(options.routes)),
            cache,
            services: options.services,
            limits: options.limits,
            workers,
            dev: options.dev,
            trust_forwarded: options.trust_forwarded,
        });
        let (stop, stopped) = watch::channel(false);
        let (draining, drained) = mpsc::channel();
        let mut gateway = Self { addresses, workers: Vec::new(), stop, drained };
        for (index, (listeners, events)) in listeners.into_iter().zip(events).enumerate() {
            let (common, stopped, draining) = (Arc::clone(&common), stopped.clone(), draining.clone());
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || worker::run(index, common, listeners, events, stopped, draining));
            match thread {
                Ok(thread) => gateway.workers.push(thread),
                Err(cause) => {
                    let _ = gateway.stop.send(true); // those that run end with their receivers of events
                    return Err(GatewayError::Thread { index, cause });
                }
            }
        }
        Ok(gateway)
    }

    /// Where it listens; ports of 0 have become real ones.
    #[must_use]
    pub fn addresses(&self) -> &[ListenAddr] {
        &self.addresses
    }

    /// Stops accepting and lets requests in progress finish within `limits.shutdown_timeout`. The workers keep their
    /// connections to services until the supervisor has stopped those.
    pub fn drain(&self) {
        let _ = self.stop.send(true); // no receiver: every worker has ended already
        let _ = self.drained.recv(); // nothing is ever sent: the error says that the last worker is done
    }

    /// Waits for the workers, which end when the supervisor has.
    pub fn join(self) {
        for (index, worker) in self.workers.into_iter().enumerate() {
            match worker.join() {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::error!(worker = index, "the worker ended: {e}"),
                Err(_) => tracing::error!(worker = index, "the worker panicked; this is a bug of Pilotlight"),
            }
        }
        for addr in &self.addresses {
            if let ListenAddr::Unix(path) = addr {
                let _ = std::fs::remove_file(path); // somebody else may have removed it
            }
        }
    }
}
