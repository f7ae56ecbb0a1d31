//! One worker: a thread with its own runtime, listeners, client connections and connections to services.
//!
//! Invariant: nothing here is shared with another worker but what is in [`Common`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use pilotlight_cache::Cache;
use pilotlight_cache_redis::{SharedTier, Tier};
use pilotlight_cgi::Protocol as CgiProtocol;
use pilotlight_files::FileCache;
use pilotlight_send_batch::Batch;
use pilotlight_supervisor::{Service, Transport};
use pilotlight_tls::TlsContext;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::access_log::{AccessLog, Sink};
use crate::admission::counts::Counts;
use crate::coherence::CoherenceThread;
use crate::compress::Encoding;
use crate::deadline::Deadlines;
use crate::file_body::DiskReads;
use crate::floods::Floods;
use crate::handshakes::Handshakes;
use crate::issuers::Issuers;
use crate::jwks::KeySources;
use crate::metrics::{Connections, Registry};
use crate::names::Names;
use crate::net;
use crate::options::{Abandoned, External, IoUring, ListenAddr, ServerProtocol, ServiceTarget};
use crate::request_id::RequestIds;
use crate::routes::Table;
use crate::schedules::Schedules;
use crate::scratch::Scratch;
use crate::server_changes::ServerChanges;
use crate::spawn::Spawner;
use crate::strangers::Strangers;
use crate::timing::Clock;
use crate::traces::export::Exporter;
use crate::traces::tracer::Tracer;
use crate::upstream::http2;
use crate::upstream::lambda::Functions;
use crate::upstream::pipe::link::Link;
use crate::upstream::sockets::Pool;

pub(crate) mod run;

/// What all workers share.
pub(crate) struct Common {
    pub(crate) table: ArcSwap<Table>,
    pub(crate) cache: Option<Cache>,
    /// What the routes' limits count.
    pub(crate) counts: Arc<Counts>,
    pub(crate) abandoned: Abandoned,
    /// The cache's tier in Redis.
    pub(crate) second: Option<SharedTier>,
    /// What handshakes of TLS begin from.
    pub(crate) tls: Arc<TlsContext>,
    /// What tells other gateways of purges, and is told of theirs.
    pub(crate) coherence: Option<CoherenceThread>,
    /// Who gives it certificates while it runs.
    pub(crate) issuers: Issuers,
    /// The keys that tokens are verified by.
    pub(crate) keys: KeySources,
    pub(crate) workers: usize,
    pub(crate) io_uring: IoUring,
    pub(crate) metrics: Registry,
    /// Where spans go.
    pub(crate) exporter: Exporter,
    /// Told when memory has become free.
    pub(crate) freed: Option<fn()>,
    /// Where is listened, with real ports.
    pub(crate) addresses: ArcSwap<Vec<ListenAddr>>,
    /// Requests at certain times.
    pub(crate) schedules: Arc<Schedules>,
    /// Where instances of functions take their invocations.
    pub(crate) functions: Functions,
    /// Names of servers that are followed.
    pub(crate) names: Names,
    /// Servers of services that change while they run.
    pub(crate) server_changes: ServerChanges,
    /// Clients of other protocols that were named lately.
    pub(crate) strangers: Strangers,
    pub(crate) floods: Floods,
}

impl Common {
    /// Follows the names of the table's servers, and no others.
    pub(crate) fn follow_names(&self) {
        self.names.follow(self.table.load().services(), &self.server_changes.changed);
    }
}

/// A worker's way to one service.
pub(crate) enum Upstream {
    Pipe(Arc<Service>, Rc<Link>),
    Http(Arc<Service>, Rc<Pool>),
    External(Arc<External>, Rc<Pool>),
    Http2(Arc<Service>, Rc<http2::Pool>),
    ExternalHttp2(Arc<External>, Rc<http2::Pool>),
    Cgi(Arc<Service>, CgiProtocol, Rc<Pool>),
    ExternalCgi(Arc<External>, CgiProtocol, Rc<Pool>),
    /// With TLS: what is spoken behind it a server says.
    ExternalTls(Arc<External>, Rc<Pool>, Rc<http2::Pool>),
    Lambda(Arc<Service>),
}

impl Upstream {
    /// Whether nothing is lost without it.
    fn is_unused(&self) -> bool {
        match self {
            Self::Pipe(_, link) => link.is_unused(),
            Self::Http(_, pool) | Self::External(_, pool) => pool.is_unused(),
            Self::Http2(_, pool) | Self::ExternalHttp2(_, pool) => pool.is_unused(),
            Self::Cgi(_, _, pool) | Self::ExternalCgi(_, _, pool) => pool.is_unused(),
            Self::ExternalTls(_, http1, http2) => http1.is_unused() && http2.is_unused(),
            Self::Lambda(_) => true,
        }
    }
}

/// How far a gateway has come on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    No,
    /// Another process accepts connections now: those that are open end with their next response.
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
    pub(crate) tracer: Tracer,
    /// Ways to services, made with the first request, by [`ServiceTarget::key`]. What is in here holds its service, so
    /// that no key is used twice.
    upstreams: RefCell<FxHashMap<usize, Rc<Upstream>>>,
    pub(crate) spawner: Spawner,
    pub(crate) scratch: RefCell<Scratch>,
    pub(crate) clock: Clock,
    /// What is encoded at the moment.
    pub(crate) encoding: Encoding,
    /// Files that are open.
    pub(crate) files: RefCell<FileCache>,
    /// Those of files that the page cache does not have.
    pub(crate) disk_reads: DiskReads,
    /// Small messages, which go out at the end of each turn.
    batch: Batch,
    pub(crate) access_log: Option<Rc<AccessLog>>,
    /// This worker's end of the tier in Redis.
    pub(crate) second: Option<Rc<Tier>>,
    /// Stale responses that are being revalidated beside their clients.
    pub(crate) refreshes: Cell<usize>,
    /// Told when they are to end.
    pub(crate) refreshes_end: Notify,
    /// The servers that are sent health requests may have changed, by a reload.
    pub(crate) checks_changed: Notify,
    stopping: Cell<Stop>,
    /// Memory of connections has become free since [`Worker::housekeeping`] did.
    freed: Cell<bool>,
    clients: Cell<usize>,
    /// Handshakes of TLS that are under way.
    pub(crate) handshakes: Handshakes,
    /// Requests whose clients have gone, and that go on.
    abandoned: Cell<usize>,
    max_clients: Cell<usize>,
    clients_changed: Notify,
}

impl Worker {
    fn new(index: usize, common: Arc<Common>, spawner: Spawner, sink: Option<Sink>) -> Rc<Self> {
        let max_clients = max_clients(&common);
        Rc::new(Self {
            index,
            deadlines: Deadlines::new(),
            ids: RequestIds::new(),
            tracer: Tracer::new(),
            upstreams: RefCell::default(),
            spawner,
            scratch: RefCell::default(),
            clock: Clock::new(),
            encoding: Encoding::default(),
            files: RefCell::default(),
            disk_reads: DiskReads::default(),
            batch: net::batch(index, common.io_uring),
            access_log: sink.map(AccessLog::new),
            second: second_tier(index, &common),
            refreshes: Cell::new(0),
            refreshes_end: Notify::new(),
            checks_changed: Notify::new(),
            stopping: Cell::new(Stop::No),
            freed: Cell::new(false),
            clients: Cell::new(0),
            handshakes: Handshakes::new(),
            abandoned: Cell::new(0),
            max_clients: Cell::new(max_clients),
            clients_changed: Notify::new(),
            common,
        })
    }

    /// Small messages that go out at the end of the turn.
    pub(crate) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// What this worker counts of connections.
    pub(crate) fn connection_counts(&self) -> &Connections {
        &self.common.metrics.connections[self.index]
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get() == Stop::Now
    }

    /// Whether each connection is to end with its next response.
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
            ServiceTarget::Managed(service, Transport::Pipe | Transport::Stdio) => {
                let workers = u16::try_from(self.common.workers).unwrap_or(u16::MAX);
                let (service, spawner) = (Arc::clone(service), self.spawner.clone());
                let link = Link::new(Arc::clone(&service), self.index as u32, workers, spawner);
                Upstream::Pipe(service, link)
            }
            ServiceTarget::Managed(service, Transport::Http(_)) => {
                let (name, queue) = (service.name().to_string(), Some(Arc::clone(service)));
                Upstream::Http(Arc::clone(service), Pool::new(name, queue, self.batch.clone()))
            }
            ServiceTarget::Managed(service, Transport::H2c(_)) => {
                let (name, queue) = (service.name().to_string(), Some(Arc::clone(service)));
                Upstream::Http2(Arc::clone(service), http2::Pool::new(name, queue, self.spawner.clone()))
            }
            ServiceTarget::Managed(service, Transport::FastCgi(_)) => self.cgi(service, CgiProtocol::FastCgi),
            ServiceTarget::Managed(service, Transport::Scgi(_)) => self.cgi(service, CgiProtocol::Scgi),
            ServiceTarget::Managed(service, Transport::Uwsgi(_)) => self.cgi(service, CgiProtocol::Uwsgi),
            ServiceTarget::Managed(service, Transport::Lambda) => Upstream::Lambda(Arc::clone(service)),
            ServiceTarget::External(external) => {
                let (name, batch) = (external.name().to_owned(), self.batch.clone());
                let external = Arc::clone(external);
                match external.spec().protocol {
                    ServerProtocol::Http1 => Upstream::External(external, Pool::new(name, None, batch)),
                    ServerProtocol::H2c => {
                        Upstream::ExternalHttp2(external, http2::Pool::new(name, None, self.spawner.clone()))
                    }
                    ServerProtocol::Https(_) => {
                        let http2 = http2::Pool::new(name.clone(), None, self.spawner.clone());
                        Upstream::ExternalTls(external, Pool::new(name, None, batch), http2)
                    }
                    ServerProtocol::Cgi(protocol) => {
                        Upstream::ExternalCgi(external, protocol, Pool::new(name, None, batch))
                    }
                }
            }
        }
    }

    fn cgi(&self, service: &Arc<Service>, protocol: CgiProtocol) -> Upstream {
        let (name, queue) = (service.name().to_string(), Some(Arc::clone(service)));
        Upstream::Cgi(Arc::clone(service), protocol, Pool::new(name, queue, self.batch.clone()))
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

/// Counts a request whose client has gone.
pub(crate) struct AbandonedRequest(Rc<Worker>);

impl Drop for AbandonedRequest {
    fn drop(&mut self) {
        self.0.abandoned.set(self.0.abandoned.get() - 1);
    }
}
