//! What a valid file means: plain values, defaults filled in, paths joined to the file's folder.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use pilotlight_gateway::{
    AccessLogOptions, AcmeSettings, CacheSettings, CgiOptions, ErrorPages, ExternalSpec, LambdaOptions, ListenAddr,
    Ratio, RecordedQuery, RedisConfig, RedisOptions, RouteSpec, RouteTo, ScheduleSpec, Settings, SpillSpec,
    TrustForwarded,
};
use pilotlight_logs::{Destination, Facility, SyslogFormat};
use pilotlight_stdio::StdioOptions;
use pilotlight_supervisor::ServiceSpec;
use pilotlight_tls::TlsSettings;

use super::diagnostic::Span;
use super::named_files::{AdmissionFile, AdmissionFileKind, PageFile};

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where clients connect; at least one.
    pub listen: Vec<Listener>,
    /// How many worker threads answer.
    pub workers: Workers,
    /// Whether small messages go out by io_uring where the system allows it.
    pub io_uring: bool,
    /// What counts for a client's connection.
    pub settings: Settings,
    /// TLS; none: no listener speaks it.
    pub tls: Option<Tls>,
    /// Certificates by ACME, if they are wanted.
    pub acme: Option<Acme>,
    /// The response cache; none: nothing is cached.
    pub cache: Option<CacheSettings>,
    /// The cache's tier in Redis, if there is one.
    pub cache_redis: Option<CacheRedis>,
    /// What the operator sees.
    pub operate: Operate,
    /// Traces, if they are wanted.
    pub traces: Option<Traces>,
    /// The engine of containers.
    pub containers: Containers,
    /// The services, in the order of the file.
    pub services: Vec<Service>,
    /// The routes, in the order of the file, which has no meaning for precedence; no two have the same host, path and
    /// `exact`. Their services are indexes of `services`.
    pub routes: Vec<RouteSpec>,
    /// Requests that services get at certain times, in the order of the file; no two have the same name.
    pub schedules: Vec<Schedule>,
    /// The folders of routes to files, and where they stand in the file.
    pub(crate) file_roots: Vec<(PathBuf, Span)>,
    /// The files of routes that ask for credentials, likewise.
    pub(crate) admission_files: Vec<AdmissionFile>,
    /// Pages for errors, of all routes.
    pub errors: ErrorPages,
    /// All pages for errors, those of routes as well, with their places in the file.
    pub error_pages: Vec<PageFile>,
}

/// The engine of containers, `[containers]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Containers {
    /// Its socket, if the file names it.
    pub socket: Option<PathBuf>,
    /// Whether labels declare services.
    pub discover: bool,
}

impl Config {
    /// Files of users with their passwords.
    pub(crate) fn password_files(&self) -> impl Iterator<Item = &Path> {
        let files = self.admission_files.iter().filter(|file| file.kind == AdmissionFileKind::Users);
        files.map(|file| file.path.as_path())
    }

    /// The service that a route leads to.
    #[must_use]
    pub fn service_of(&self, route: &RouteSpec) -> Option<&Service> {
        self.services.get(route.to.service()?)
    }

    /// Where a route leads, for people: the name of a service, or `files in FOLDER`.
    #[must_use]
    pub fn destination(&self, route: &RouteSpec) -> String {
        match &route.to {
            RouteTo::Service(index) => self.services.get(*index).map_or_else(String::new, |one| one.name().to_owned()),
            RouteTo::Files(options) => format!("files in {}", options.root.display()),
            RouteTo::Redirect(redirect) => format!("redirect to {}", redirect.text()),
            RouteTo::Respond(status) => format!("answered with {}", status.as_u16()),
        }
    }

    /// All of it but services and routes.
    pub(crate) fn without_services(&self) -> Self {
        let Self {
            listen,
            workers,
            io_uring,
            settings,
            tls,
            acme,
            cache,
            cache_redis,
            operate,
            traces,
            containers,
            ..
        } = self;
        Self {
            listen: listen.clone(),
            workers: *workers,
            io_uring: *io_uring,
            settings: settings.clone(),
            tls: tls.clone(),
            acme: acme.clone(),
            cache: cache.clone(),
            cache_redis: cache_redis.clone(),
            operate: operate.clone(),
            traces: traces.clone(),
            containers: containers.clone(),
            services: Vec::new(),
            routes: Vec::new(),
            schedules: Vec::new(),
            file_roots: Vec::new(),
            errors: ErrorPages::default(),
            error_pages: Vec::new(),
            admission_files: Vec::new(),
        }
    }
}

/// One address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address.
    pub address: ListenAddr,
    /// The name below `localhost` that stands in it.
    pub local_host: Option<String>,
    pub(super) at: Span,
}

impl Listener {
    /// One with TLS on the loopback interface, for a name below `localhost`, that stands in no file.
    pub(crate) fn development(host: String, address: SocketAddr) -> Self {
        Self { address: ListenAddr::Tls(address), local_host: Some(host), at: 0..0 }
    }
}

impl Service {
    /// A server that is already running, and stands in no file.
    pub(crate) fn running(external: ExternalSpec) -> Self {
        Self {
            kind: ServiceKind::External(Box::new(external)),
            cgi: None,
            lambda: None,
            stdio: None,
            spill: None,
            at: ServiceSpans::default(),
        }
    }
}

/// A request that a service gets at certain times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What it is.
    pub spec: Arc<ScheduleSpec>,
    /// Where its time zone stands in the file.
    pub(super) timezone_at: Option<Span>,
    pub(super) event_at: Option<Span>,
    /// Where it says that one of several gateways runs it, if it does.
    pub(super) shared_at: Option<Span>,
}

/// Certificates by ACME.
#[derive(Clone, Debug)]
pub struct Acme {
    /// Authorities, storage, challenges. A folder without a path is that of the user's data.
    pub settings: AcmeSettings,
    pub(super) storage: AcmeStorage,
    /// Where the key stands.
    pub(super) at: Span,
    pub(super) storage_at: Span,
}

/// Where the file stands does not matter.
impl PartialEq for Acme {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl Eq for Acme {}

/// Where certificates are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcmeStorage {
    /// In a folder.
    Folder,
    /// In the Redis of `[cache.redis]`.
    Redis,
}

/// TLS of the listeners that speak it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates, versions, clients.
    pub settings: TlsSettings,
    /// Where the section begins.
    pub(super) at: Span,
    /// Where the files of each pair stand, in the order of [`TlsSettings::certificates`].
    pub(super) pairs_at: Vec<PairSpans>,
    pub(super) ca_at: Span,
    /// Whether the file says something of certificates, if only misspelt.
    pub(super) mentions_certificates: bool,
}

/// Where the files of a certificate stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PairSpans {
    pub(super) certificate: Span,
    pub(super) key: Span,
}

/// What the operator sees of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operate {
    /// The admin interface; none: it is off.
    pub admin: Option<AdminSocket>,
    /// Where metrics are given out over TCP.
    pub metrics: Option<SocketAddr>,
    /// A line for each request.
    pub access_log: Option<AccessLogOptions>,
    /// The gateway's own lines.
    pub log: LogOptions,
    /// Lines that services print.
    pub service_log: LogOptions,
    pub(super) at: OperateSpans,
}

/// Where lines go, and how they look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Where they go.
    pub destination: Destination,
    /// What a line is, or the text of a message.
    pub format: LogFormat,
    /// Of messages to the journal and to syslog.
    pub facility: Facility,
    /// The head of messages to syslog; `None`: what the server usually reads.
    pub syslog_format: Option<SyslogFormat>,
    /// Bytes after which a file is moved to the same name with `.1` and begun anew; `None` never.
    pub max_size: Option<u64>,
}

impl LogOptions {
    /// Whether another log goes to the same place in the same way, so that one thread can write both.
    #[must_use]
    pub fn shares_its_end(&self, other: &Self) -> bool {
        LogOptions { format: other.format, ..self.clone() } == *other
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            destination: Destination::Stderr,
            format: LogFormat::Text,
            facility: Facility::Daemon,
            syslog_format: None,
            max_size: None,
        }
    }
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object on one line.
    Json,
}

/// `[traces]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// What the file says.
    pub words: TracesWords,
    pub(super) at: TracesSpans,
}

/// What the file says of traces; `None` is left to the environment, or to a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracesWords {
    /// The collector.
    pub endpoint: Option<Uri>,
    /// The part of requests without a parent that is sampled.
    pub sample: Option<Ratio>,
    /// Whose `traceparent` is followed; `None`: those of `trust_forwarded`.
    pub trust_parent: Option<TrustForwarded>,
    /// `service.name`.
    pub service_name: Option<String>,
    /// Whether spans have the query.
    pub query: RecordedQuery,
    /// Fields for the collector, which may be keys.
    pub headers_file: Option<PathBuf>,
    /// The authorities by which the collector is checked.
    pub ca: Option<PathBuf>,
    /// How long a request to the collector may take.
    pub timeout: Option<Duration>,
}

/// Where the parts of [`Traces`] stand in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TracesSpans {
    pub(super) headers_file: Span,
    pub(super) ca: Span,
}

/// The socket of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminSocket {
    /// `admin.sock` in the gateway's runtime folder.
    InRuntimeDir,
    /// At this path.
    At(PathBuf),
}

/// Where the parts of [`Operate`] stand in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OperateSpans {
    pub(super) socket: Span,
    pub(super) metrics: Span,
    pub(super) log: Span,
    pub(super) service_log: Span,
    pub(super) access_log: Span,
}

/// How many worker threads answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One for each core that this process may use.
    PerCore,
    /// This many, at least one.
    Exactly(usize),
}

/// The tier in Redis, which several gateways share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRedis {
    /// The servers, as the client of Redis reads it.
    pub url: RedisUrl,
    /// The rest.
    pub options: RedisOptions,
}

/// A URL that is known to be one, and may have a password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(pub(super) String);

impl RedisUrl {
    /// What it says.
    ///
    /// # Panics
    /// Never: it was read before.
    #[must_use]
    pub fn config(&self) -> RedisConfig {
        RedisConfig::from_url(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(a URL, which may have a password in it)")
    }
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Who starts it.
    pub kind: ServiceKind,
    /// How it is told of requests, if that is by variables.
    pub cgi: Option<Arc<CgiOptions>>,
    /// Its settings as a function of AWS Lambda, if it is one.
    pub lambda: Option<Arc<LambdaOptions>>,
    /// Its settings as a program that speaks lines on its standard streams, if it is one.
    pub stdio: Option<StdioOptions>,
    /// Where its requests go when it is full.
    pub(crate) spill: Option<Spill>,
    pub(super) at: ServiceSpans,
}

/// Where requests go that a service has no room for.
#[derive(Clone, Debug)]
pub(crate) struct Spill {
    pub(crate) spec: SpillSpec,
    /// Where the other service is named.
    pub(super) at: Span,
}

// Where it stands does not matter.
impl PartialEq for Spill {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Eq for Spill {}

impl Service {
    /// Its name, unique in the file: 1–64 of `a-z`, `0-9`, `-`, `_`.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.kind {
            ServiceKind::Managed(spec) => &spec.name,
            ServiceKind::External(external) => &external.name,
        }
    }

    /// Where in the text it stands.
    pub(crate) fn place(&self) -> usize {
        self.at.name.start
    }

    /// How Pilotlight runs it, unless somebody else does.
    #[must_use]
    pub fn spec(&self) -> Option<&ServiceSpec> {
        match &self.kind {
            ServiceKind::Managed(spec) => Some(spec),
            ServiceKind::External(_) => None,
        }
    }
}

/// Who starts a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Pilotlight starts and stops it, in this way. Its program is a path joined to its folder, or a bare name to be
    /// looked up in `PATH`.
    Managed(Box<ServiceSpec>),
    /// Somebody else does.
    External(Box<ExternalSpec>),
}

/// Where `tls` of a service stands, and the files that it names.
pub(super) type TlsFiles = (Span, Vec<(PathBuf, Span)>);

/// Where a service and its parts stand in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceSpans {
    pub(super) name: Span,
    pub(super) program: Span,
    /// One for each word behind the program.
    pub(super) args: Vec<Span>,
    pub(super) dir: Span,
    pub(super) releases: Option<Span>,
    /// The folders that `cgi` names.
    pub(super) folders: Vec<(PathBuf, Span)>,
    pub(super) max_request_time: Option<Span>,
    /// `tls`, and the files that it names.
    pub(super) tls: Option<TlsFiles>,
    pub(super) isolation: IsolationSpans,
}

/// What the file says about isolation, with the places of what only the machine can check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IsolationSpans {
    pub(super) account: Option<Span>,
    pub(super) env_files: Vec<Span>,
    pub(super) secrets: Vec<Span>,
    pub(super) read: Vec<Span>,
    pub(super) write: Vec<Span>,
}

/// `path` as seen from `folder`.
pub(super) fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut out = folder.to_path_buf();
    for part in Path::new(path).components() {
        match part {
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
