//! The gateway as a whole: binds, starts the workers, stops them.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use arc_swap::ArcSwap;
use pilotlight_cache::{Cache, OptionsError};
use pilotlight_supervisor::WorkerEvents;
use tokio::sync::watch;

use crate::access_log::Writer;
use crate::listen::{self, ListenError};
use crate::metrics::Registry;
use crate::options::{AccessLogTarget, GatewayOptions, ListenAddr, RouteSpec, ServiceTarget};
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
    /// The access log cannot be opened.
    #[error(
        "the access log cannot be opened: {path}: {cause}; check that its folder exists and that this user may write to it"
    )]
    AccessLog {
        /// Where it was to be written.
        path: String,
        /// What the system says.
        cause: io::Error,
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

impl GatewayError {
    fn access_log(target: &AccessLogTarget, cause: io::Error) -> Self {
        let path = match target {
            AccessLogTarget::Stdout => "stdout".to_owned(),
            AccessLogTarget::File(path) => path.display().to_string(),
        };
        Self::AccessLog { path, cause }
    }
}

/// A running gateway.
pub struct Gateway {
    addresses: Vec<ListenAddr>,
    common: Arc<Common>,
    begun: Instant,
    access_log: Option<Writer>,
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
        let metrics = Registry::new(workers);
        let services = &options.services;
        let series = |route: &RouteSpec| {
            metrics.series(&route.label(), services.get(route.service).map_or("none", ServiceTarget::name))
        };
        let table = Table::new(options.routes, series);
        let access_log = match &options.access_log {
            Some(log) => Some(Writer::start(log).map_err(|cause| GatewayError::access_log(&log.target, cause))?),
            None => None,
        };
        let common = Arc::new(Common {
            table: ArcSwap::from_pointee(table),
            cache,
            metrics,
            services: options.services,
            limits: options.limits,
            workers,
            dev: options.dev,
            trust_forwarded: options.trust_forwarded,
            server_timing: options.server_timing,
        });
        let (stop, stopped) = watch::channel(false);
        let (draining, drained) = mpsc::channel();
        let mut gateway = Self {
            addresses,
            common: Arc::clone(&common),
            begun: Instant::now(),
            workers: Vec::new(),
            access_log,
            stop,
            drained,
        };
        for (index, (listeners, events)) in listeners.into_iter().zip(events).enumerate() {
            let sink = gateway.access_log.as_ref().map(Writer::sink);
            let (common, stopped, draining) = (Arc::clone(&common), stopped.clone(), draining.clone());
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || worker::run(index, common, listeners, events, sink, stopped, draining));
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

    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// Lines of the access log that were not written, if there is one.
    pub(crate) fn dropped_log_lines(&self) -> Option<Arc<AtomicU64>> {
        self.access_log.as_ref().map(Writer::dropped)
    }

    /// Opens the access log's file anew, after somebody has moved it.
    #[must_use = "it reopens the log when it is called"]
    pub fn log_reopener(&self) -> impl Fn() + Send + use<> {
        let reopener = self.access_log.as_ref().map(Writer::reopener);
        move || reopener.iter().for_each(|log| log.reopen())
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
        if let Some(log) = self.access_log {
            log.finish();
        }
        for addr in &self.addresses {
            if let ListenAddr::Unix(path) = addr {
                let _ = std::fs::remove_file(path); // somebody else may have removed it
            }
        }
    }
}
