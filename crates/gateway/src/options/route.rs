//! One route, and what it says of the requests that it takes.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use pilotlight_cache::{RouteControl, RouteRules};
use pilotlight_content_coding::CompressOptions;
use pilotlight_files::FilesOptions;

use crate::admission::spec::AdmissionSpec;
use crate::conditions::Conditions;
use crate::json_rule::JsonRule;
use crate::redirect::Redirect;
use crate::route_changes::RouteChanges;
use crate::upgrades::Upgrades;

/// One route. The precedence is: exact host, then the longest wildcard host, then no host; within these the exact path,
/// then the longest prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSpec {
    /// `example.org`, `*.example.org`, or `None` for every host. In lower case; an IPv6 address has no brackets.
    pub host: Option<String>,
    /// Starts with `/`; matches itself and everything below it, on segment boundaries.
    pub path: String,
    /// Matches `path` only.
    pub exact: bool,
    /// Takes only requests whose body says so.
    pub json: Option<Arc<JsonRule>>,
    /// Takes only requests whose head says so; never together with `json`.
    pub when: Option<Arc<Conditions>>,
    /// Where its requests go.
    pub to: RouteTo,
    /// Whether `path` is cut off the target before the service sees it.
    pub strip_prefix: bool,
    /// Whether what was cut off is put back into `Location` and cookies of the service.
    pub restore_prefix: bool,
    /// The protocols that a client and the service may switch to.
    pub upgrades: Upgrades,
    /// Whether and how answers are stored.
    pub cache: RouteCache,
    /// Who is let in, and how often; `None`: everybody, always.
    pub admission: Option<Arc<AdmissionSpec>>,
    /// Whether and which answers are brought into a content coding; in an `Arc`, as few routes have it.
    pub compress: Option<Arc<CompressOptions>>,
    /// How long a whole exchange may take; told to pipe services as a deadline.
    pub timeout: Option<Duration>,
    /// Replaces [`Limits::response_timeout`](crate::Limits::response_timeout).
    pub response_timeout: Option<Duration>,
    /// Replaces [`Limits::response_body_timeout`](crate::Limits::response_body_timeout), for event streams too.
    pub response_body_timeout: RouteLimit<Duration>,
    /// Replaces [`Limits::body_size`](crate::Limits::body_size).
    pub body_size: RouteLimit<u64>,
    /// What becomes of requests by plain HTTP.
    pub plain_http: PlainHttp,
    /// `Strict-Transport-Security` (RFC 6797) for so long, with responses over TLS.
    pub hsts: Option<Duration>,
    /// Whether the certificate of its host comes from the local authority.
    pub internal_tls: bool,
    /// What it changes of requests and responses, if anything.
    pub changes: Option<Arc<RouteChanges>>,
    /// Whether it takes a path that a server may read as the path of a route with stricter rules.
    pub ambiguous_paths: AmbiguousPaths,
}

/// How a route treats a path that servers read in several ways (`//`, `%2F`, `;`, `\`), where one reading would meet
/// stricter rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AmbiguousPaths {
    /// With 400.
    #[default]
    Refuse,
    /// The request is passed on.
    Allow,
}

impl AmbiguousPaths {
    /// Those that a configuration may name.
    pub const NAMES: [(&'static str, Self); 2] = [("refuse", Self::Refuse), ("allow", Self::Allow)];
}

/// Where the requests of a route go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteTo {
    /// To the service with this index in [`Serving::services`](crate::Serving::services).
    Service(usize),
    /// To no service: files of a folder answer them.
    Files(Arc<FilesOptions>),
    /// To no service: clients are sent elsewhere.
    Redirect(Arc<Redirect>),
    /// To no service: each request is answered with this error.
    Respond(StatusCode),
}

impl RouteTo {
    /// What stands for the service of a route that leads to none, in metrics and logs. No service has such a name.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Service(_) => "(service)",
            Self::Files(_) => "(files)",
            Self::Redirect(_) => "(redirect)",
            Self::Respond(_) => "(respond)",
        }
    }

    /// The index of the service, if it leads to one.
    #[must_use]
    pub fn service(&self) -> Option<usize> {
        match self {
            Self::Service(index) => Some(*index),
            Self::Files(_) | Self::Redirect(_) | Self::Respond(_) => None,
        }
    }
}

/// What becomes of a request by plain HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainHttp {
    /// It is sent to `https://` if a listener has TLS and a certificate names the host, else answered.
    #[default]
    Automatic,
    /// It is sent to `https://` (308).
    Redirected,
    /// It is answered.
    Allowed,
}

impl PlainHttp {
    /// Those that a configuration may name.
    pub const NAMES: [(&'static str, Self); 2] = [("redirect", Self::Redirected), ("allow", Self::Allowed)];
}

/// A limit that a route may have instead of the general one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouteLimit<T> {
    /// The one of [`Limits`] counts.
    #[default]
    General,
    /// This one counts; `None` for no limit.
    Own(Option<T>),
}

impl<T> From<Option<T>> for RouteLimit<T> {
    fn from(own: Option<T>) -> Self {
        Self::Own(own)
    }
}

impl RouteSpec {
    /// Values of `timeout`; the wire holds it in 32 bits of milliseconds.
    pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(30 * 24 * 3600);

    /// Statuses that a route may answer with by itself.
    pub const RESPOND: RangeInclusive<u16> = 400..=599;

    /// Values of `hsts`; 0 has browsers forget it.
    pub const HSTS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(1000 * 24 * 3600);

    /// A route with default settings.
    #[must_use]
    pub fn new(path: impl Into<String>, to: RouteTo) -> Self {
        Self {
            host: None,
            path: path.into(),
            exact: false,
            json: None,
            when: None,
            to,
            strip_prefix: false,
            upgrades: Upgrades::default(),
            cache: RouteCache::default(),
            admission: None,
            compress: None,
            timeout: None,
            response_timeout: None,
            response_body_timeout: RouteLimit::General,
            body_size: RouteLimit::General,
            plain_http: PlainHttp::default(),
            hsts: None,
            restore_prefix: false,
            internal_tls: false,
            changes: None,
            ambiguous_paths: AmbiguousPaths::default(),
        }
    }

    /// Whether the local authority signs for its host: below `.localhost`, and where the route says so.
    #[must_use]
    pub fn is_signed_locally(&self) -> bool {
        let host = self.host.as_deref().unwrap_or_default();
        self.internal_tls || host == "localhost" || host.ends_with(".localhost")
    }

    /// What it is called in metrics and logs: `example.org/users`, `=/health` if it matches that path only.
    #[must_use]
    pub fn label(&self) -> String {
        let (exact, host) = (if self.exact { "=" } else { "" }, self.host.as_deref().unwrap_or_default());
        let json = self.json.as_ref().map(ToString::to_string).unwrap_or_default();
        let when = self.when.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{exact}{host}{}{json}{when}", self.path)
    }
}

/// Whether answers of a route are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteCache {
    /// Never looked up, never stored.
    Off,
    /// By RFC 9111, and what the route adds.
    On {
        /// How long, and how much.
        rules: RouteRules,
        /// What belongs to the key, what goes past the cache, what may be stored; `None` where the route says nothing
        /// of it.
        control: Option<Arc<RouteControl>>,
    },
}

impl RouteCache {
    /// By the rules of a route. Those that only give lifetimes cost a request nothing.
    #[must_use]
    pub fn on(rules: RouteRules, control: RouteControl) -> Self {
        let control = (control != RouteControl::default()).then(|| Arc::new(control));
        Self::On { rules, control }
    }
}

impl Default for RouteCache {
    fn default() -> Self {
        Self::On { rules: RouteRules::default(), control: None }
    }
}
