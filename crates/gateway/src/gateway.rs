//! The gateway as a whole: binds, starts the workers, stops them.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use pilotlight_cache::{Cache, OptionsError};
use pilotlight_cache_redis::{SharedTier, record_name};
use pilotlight_logs::Destination;
use pilotlight_supervisor::WorkerEvents;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::access_log::Writer;
use crate::coherence::{CoherenceError, CoherenceThread};
use crate::descriptors;
use crate::floods::Floods;
use crate::issuers::{IssuerError, Issuers};
use crate::jwks::KeySources;
use crate::listen::{self, Bound, Legacy, ListenError};
use crate::metrics::Registry;
use crate::names::Names;
use crate::options::{AccessLogOptions, CacheSettings, GatewayOptions, Inherited, ListenAddr, RedisTier, Serving};
use crate::routes::Table;
use crate::schedules::Schedules;
use crate::server_changes::ServerChanges;
use crate::strangers::Strangers;
use crate::traces::export::Exporter;
use crate::upstream::lambda::Functions;
use crate::worker::run::{self, Order};
use crate::worker::{Common, Stop};

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The cache's sizes make no sense.
    #[error("the cache cannot be made: {0}")]
    Cache(#[from] OptionsError),
    /// Purges cannot be shared.
    #[error(transparent)]
    Coherence(#[from] CoherenceError),
    /// Nobody gives certificates.
    #[error(transparent)]
    Issuers(#[from] IssuerError),
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
    fn access_log(destination: &Destination, cause: io::Error) -> Self {
        Self::AccessLog { path: destination.name(), cause }
    }
}

/// A running gateway.
pub struct Gateway {
    listeners: Vec<Bound>,
    common: Arc<Common>,
    begun: Instant,
    access_log: Option<Writer>,
    workers: Vec<(UnboundedSender<Order>, JoinHandle<io::Result<()>>)>,
    stop: watch::Sender<Stop>,
    /// Ends when every worker has dropped its sender.
    drained: mpsc::Receiver<()>,
}

/// Addresses that are bound and not yet listened on by the workers; let go of when this is dropped.
#[derive(Debug)]
pub struct NewListeners {
    bound: Vec<(Bound, Vec<listen::Listener>)>,
    /// All that are to be listened on from then on.
    wanted: Vec<ListenAddr>,
}

/// The cache, as far as it is wanted.
#[derive(Default)]
struct Tiers {
    cache: Option<Cache>,
    second: Option<SharedTier>,
    coherence: Option<CoherenceThread>,
}

impl Tiers {
    fn start(settings: CacheSettings, redis: Option<RedisTier>) -> Result<Self, GatewayError> {
        let CacheSettings { memory, policy, .. } = settings;
        let cache = if redis.is_some() { Cache::shared(memory, record_name)? } else { Cache::new(memory)? };
        cache.set_policy(policy);
        let Some(RedisTier { servers, options }) = redis else {
            return Ok(Self { cache: Some(cache), ..Self::default() });
        };
        let second = SharedTier::new(servers, options);
        cache.tell_invalidations(second.invalidations());
        let coherence = CoherenceThread::start(&second, &cache)?;
        Ok(Self { cache: Some(cache), second: Some(second), coherence: Some(coherence) })
    }
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
        let new = NewListeners::inheriting(options.inherited, options.listen, workers)?;
        let abandoned = options.cache.as_ref().map(|cache| cache.abandoned).unwrap_or_default();
        let tiers = options.cache.map(|cache| Tiers::start(cache, options.redis)).transpose()?;
        let Tiers { cache, second, coherence } = tiers.unwrap_or_default();
        let issuers = Issuers::start(options.issuers, options.tls.store(), &new.wanted, &options.serving)?;
        let metrics = Registry::new(workers);
        let keys = KeySources::default();
        let exporter = Exporter::following(options.serving.settings.traces.as_ref());
        let schedules = Arc::new(Schedules::new(options.schedules_file, &options.serving.schedules, now()));
        let table = table(options.serving, &keys, &metrics);
        let access_log = options.access_log.as_ref().map(write_access_log).transpose()?;
        let (table, addresses) = (ArcSwap::from_pointee(table), ArcSwap::default());
        let common = Arc::new(Common {
            table,
            cache,
            counts: Arc::default(),
            second,
            coherence,
            issuers,
            keys,
            abandoned,
            metrics,
            exporter,
            workers,
            io_uring: options.io_uring,
            freed: options.freed,
            addresses,
            tls: options.tls,
            schedules,
            functions: Functions::default(),
            names: Names::default(),
            server_changes: ServerChanges::default(),
            strangers: Strangers::default(),
            floods: Floods::default(),
        });
        common.follow_names();
        let (stop, stopped) = watch::channel(Stop::No);
        let (draining, drained) = mpsc::channel();
        let mut gateway = Self {
            listeners: Vec::new(),
            common: Arc::clone(&common),
            begun: Instant::now(),
            workers: Vec::new(),
            access_log,
            stop,
            drained,
        };
        for (index, events) in events.into_iter().enumerate() {
            let sink = gateway.access_log.as_ref().map(Writer::sink);
            let (common, stopped, draining) = (Arc::clone(&common), stopped.clone(), draining.clone());
            let (orders, ordered) = unbounded_channel(); // a few for each reload
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || run::run(index, common, ordered, events, sink, stopped, draining));
            match thread {
                Ok(thread) => gateway.workers.push((orders, thread)),
                Err(cause) => {
                    let _ = gateway.stop.send(Stop::Now); // those that run end with their receivers of events
                    return Err(GatewayError::Thread { index, cause });
                }
            }
        }
        gateway.listen(new);
        Ok(gateway)
    }

    /// Binds those addresses that are not listened on yet. Nobody is accepted there before [`reload`](Self::reload).
    ///
    /// # Errors
    /// One of them cannot be had; those before it are let go of.
    pub fn bind(&self, wanted: Vec<ListenAddr>) -> Result<NewListeners, ListenError> {
        let is_new = |addr: &&ListenAddr| self.listeners.iter().all(|bound| bound.configured != **addr);
        // Where another protocol is spoken from now on, the socket is the same.
        let known = |addr: &ListenAddr| self.listeners.iter().find(|bound| bound.configured.socket() == addr.socket());
        let bind = |addr| match known(addr) {
            Some(bound) => bound.speaking(addr),
            None => listen::bind(addr, self.common.workers, &mut Legacy::default()),
        };
        let bound: Result<Vec<Bound>, _> = wanted.iter().filter(is_new).map(bind).collect();
        NewListeners::of(bound?, wanted)
    }

    /// Answers requests by something else from now on. Connections of clients, exchanges, what is cached, and the ways
    /// to services that stay the same objects are left as they are; limits count for connections that begin now.
    pub fn reload(&mut self, listeners: NewListeners, serving: Serving) {
        self.common.issuers.follow(&listeners.wanted, &serving);
        self.common.exporter.follow(serving.settings.traces.as_ref());
        let schedules = serving.schedules.clone();
        let changing = self.common.server_changes.hold();
        self.common.server_changes.replace(&serving.services, self.common.table.load().services());
        self.common.table.store(Arc::new(table(serving, &self.common.keys, &self.common.metrics)));
        drop(changing);
        self.common.follow_names();
        self.common.schedules.follow(&schedules, now());
        self.order(|| Order::Follow);
        self.listen(listeners);
    }

    /// Listens where it is new, and no longer where it is not wanted.
    fn listen(&mut self, new: NewListeners) {
        let NewListeners { bound, wanted } = new;
        for (bound, listeners) in bound {
            for (index, listener) in listeners.into_iter().enumerate() {
                let (orders, _) = &self.workers[index % self.workers.len()];
                let _ = orders.send(Order::Listen(bound.address.clone(), listener)); // a worker that has ended has said why
            }
            self.listeners.push(bound);
        }
        let (kept, closed) = std::mem::take(&mut self.listeners)
            .into_iter()
            .partition(|bound: &Bound| wanted.contains(&bound.configured));
        self.listeners = kept;
        for bound in closed {
            let address = bound.address.clone();
            drop(bound); // so that the workers' descriptors are the last
            self.order(|| Order::Close(address.clone()));
        }
        let place = |bound: &Bound| wanted.iter().position(|addr| *addr == bound.configured);
        self.listeners.sort_by_key(place);
        self.common.addresses.store(Arc::new(self.addresses()));
    }

    fn order(&self, order: impl Fn() -> Order) {
        for (orders, _) in &self.workers {
            let _ = orders.send(order()); // a worker that has ended has said why
        }
    }

    /// Where it listens; ports of 0 have become real ones.
    #[must_use]
    pub fn addresses(&self) -> Vec<ListenAddr> {
        self.listeners.iter().map(|bound| bound.address.clone()).collect()
    }

    /// The listening sockets, for another process that accepts from them, too.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn hand_over(&self) -> io::Result<Vec<Inherited>> {
        self.listeners.iter().map(Bound::hand_over).collect()
    }

    /// Another process accepts connections from now on. Nothing that waits in a listening socket is lost: it is the
    /// same socket. Open connections end with their next response, or after half of `limits.shutdown_timeout`. Waits
    /// until they have.
    pub fn leave(&mut self) {
        self.listeners.iter_mut().for_each(Bound::leave);
        self.listeners.clear();
        let _ = self.stop.send(Stop::Leave); // no receiver: every worker has ended already
        let _ = self.drained.recv(); // nothing is ever sent: the error says that the last worker is done
    }

    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// Lines of the access log that were not written, if there is one.
    pub(crate) fn dropped_access_lines(&self) -> Option<Arc<AtomicU64>> {
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
        let _ = self.stop.send(Stop::Now); // no receiver: every worker has ended already
        let _ = self.drained.recv(); // nothing is ever sent: the error says that the last worker is done
    }

    /// Waits for the workers, which end when the supervisor has.
    pub fn join(self) {
        for (index, (_, worker)) in self.workers.into_iter().enumerate() {
            match worker.join() {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::error!(worker = index, "the worker ended: {e}"),
                Err(_) => tracing::error!(worker = index, "the worker panicked; this is a bug of Pilotlight"),
            }
        }
        self.common.exporter.finish();
        if let Some(log) = self.access_log {
            log.finish();
        }
    }
}

impl NewListeners {
    /// Binds them; what a process before this one has bound is taken.
    fn inheriting(inherited: Vec<Inherited>, wanted: Vec<ListenAddr>, workers: usize) -> Result<Self, ListenError> {
        let mut legacy = Legacy::new(inherited);
        let bound = wanted.iter().map(|addr| listen::bind(addr, workers, &mut legacy)).collect::<Result<_, _>>()?;
        Self::of(bound, wanted)
    }

    fn of(bound: Vec<Bound>, wanted: Vec<ListenAddr>) -> Result<Self, ListenError> {
        let cloned = |bound: Bound| match bound.listeners() {
            Ok(listeners) => Ok((bound, listeners)),
            Err(cause) => {
                let hint = descriptors::hint(&cause);
                Err(ListenError { addr: bound.configured.clone(), cause, hint })
            }
        };
        let bound = bound.into_iter().map(cloned).collect::<Result<_, _>>()?;
        Ok(Self { bound, wanted })
    }
}

fn write_access_log(log: &AccessLogOptions) -> Result<Writer, GatewayError> {
    Writer::start(log).map_err(|cause| GatewayError::access_log(&log.destination, cause))
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn table(serving: Serving, keys: &KeySources, metrics: &Registry) -> Table {
    Table::new(serving, keys, |route, service| metrics.series(&route.label(), service))
}
