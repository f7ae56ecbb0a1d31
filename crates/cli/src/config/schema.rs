//! Every key of the file with what it takes. Its default and range belong to the type of the crate that uses it.
//! `docs/configuration.md` is the same for people; a test holds the two together.

mod admission;
mod bounds;
mod cache;
mod key;
mod limits;
mod operate;
mod schedule;
mod service;
mod tls;

pub use admission::{ROUTE_ALLOW, ROUTE_ALLOW_FORWARD, ROUTE_ALLOW_JWT, ROUTE_DENY, ROUTE_LIMIT};
pub use bounds::{
    LISTEN, MAX_ARGUMENTS, MAX_CACHE_NAMES, MAX_ENV, MAX_GROUPS, MAX_ISOLATION_PATHS, MAX_NAME, MAX_PATH, MAX_PRELOAD,
    MAX_ROUTES, MAX_SECRETS, MAX_SERVICES,
};
pub use cache::{CACHE, CACHE_REDIS, ROUTE_CACHE, ROUTE_CACHE_BYPASS, ROUTE_CACHE_KEY, ROUTE_CACHE_STORE};
pub use key::Key;
use key::{A_LIST, A_SECTION, A_SIZE, A_STRING, A_TIME, A_TIME_OR_NONE, AN_ADDRESS_OR_LIST, TRUE_OR_FALSE, key};
pub use limits::LIMITS;
pub use operate::{ACCESS_LOG, ADMIN, LOG, METRICS, TRACES};
pub use schedule::SCHEDULE;
pub use service::{
    CONTAINERS, GROUP, SERVICE, SERVICE_BALANCE, SERVICE_CGI, SERVICE_CGROUP, SERVICE_CONTAINER, SERVICE_DNS,
    SERVICE_HEALTH, SERVICE_LAMBDA, SERVICE_LIMITS, SERVICE_QUEUE, SERVICE_SPILL, SERVICE_STDIO, SERVICE_TLS,
};
pub use tls::{
    TLS, TLS_ACME, TLS_ACME_EAB, TLS_ACME_FALLBACK, TLS_ACME_ON_DEMAND, TLS_CERTIFICATE, TLS_CLIENT_CERTIFICATES,
};

/// The keys at the top of the file.
pub const ROOT: &[Key] = &[
    key("listen", AN_ADDRESS_OR_LIST, "\"127.0.0.1:8080\"", &["bind", "port", "address", "host", "addr"]),
    key("workers", "\"auto\" or a number", "\"auto\"", &["threads", "worker_processes", "cores"]),
    key("io_uring", TRUE_OR_FALSE, "false", &["uring"]),
    key("dev", TRUE_OR_FALSE, "true", &["debug", "development"]),
    key(
        "proxy_protocol",
        A_LIST,
        "[\"10.0.0.0/8\"]",
        &["accept_proxy", "proxy-protocol", "proxyprotocol", "proxy_protocols"],
    ),
    key(
        "trust_forwarded",
        "true, false or a list of networks",
        "[\"10.0.0.0/8\"]",
        &["trust_proxy", "trusted_proxies", "real_ip"],
    ),
    key("tls", A_SECTION, "[tls]", &["ssl", "https"]),
    key("limits", A_SECTION, "[limits]", &["limit"]),
    key("cache", "a section, or true or false", "[cache]", &[]),
    key("containers", A_SECTION, "[containers]", &["container", "docker", "podman", "engine"]),
    key("services", A_SECTION, "[services.NAME]", &["service", "processes", "upstreams", "apps"]),
    key("groups", A_SECTION, "[groups.NAME]", &["budgets", "pools"]),
    key("routes", "a list of sections", "[[routes]]", &["route", "locations", "rules"]),
    key(
        "schedules",
        "a list of sections",
        "[[schedules]]",
        &["schedule", "cron", "crontab", "crons", "jobs", "timers", "tasks"],
    ),
    key("server_timing", "\"never\", \"on-request\" or \"always\"", "\"on-request\"", &["timing", "server-timing"]),
    key("admin", "a section, or true or false", "[admin]", &["control", "api"]),
    key("metrics", "a section, or false", "[metrics]", &["prometheus"]),
    key("log", A_SECTION, "[log]", &["logging", "logger"]),
    key("service_log", A_SECTION, "[service_log]", &["service_logs", "output", "services_log"]),
    key("access_log", "a section, or false", "[access_log]", &["accesslog", "access_logs"]),
    key("traces", "a section, or true or false", "[traces]", &["tracing", "trace", "otel", "opentelemetry"]),
    key(
        "errors",
        A_SECTION,
        "{ \"5xx\" = \"error.html\" }",
        &["error_page", "error_pages", "handle_errors", "errorfile"],
    ),
];

/// The keys of `[[routes]]`.
pub const ROUTE: &[Key] = &[
    key("path", A_STRING, "\"/users\"", &["prefix", "route", "location", "match"]),
    key("host", A_STRING, "\"example.org\"", &["hosts", "domain", "server_name"]),
    key("exact", TRUE_OR_FALSE, "false", &[]),
    key("json", "a table of strings", "{ model = \"llama-3*\" }", &["body", "json_body", "match_json", "json_field"]),
    key("when", A_SECTION, "{ headers = { version = \"two\" } }", &["if", "matcher", "condition", "matches"]),
    key("service", "the name of a service", "\"users\"", &["upstream", "target", "backend", "to"]),
    key("files", "a folder, or a section", "\"dist\"", &["root", "static", "file_server", "alias", "dir", "share"]),
    key(
        "redirect",
        "a URL, or a section",
        "\"https://new.example{path}{query}\"",
        &["return", "redir", "redirect_to", "redirectregex", "location_redirect"],
    ),
    key("respond", "a number", "404", &["status", "reply", "abort", "error"]),
    key("strip_prefix", TRUE_OR_FALSE, "false", &["strip", "strip_path", "uri_strip_prefix", "stripprefix"]),
    key("restore_prefix", TRUE_OR_FALSE, "true", &["proxy_redirect", "reverse_prefix", "proxy_pass_reverse"]),
    key("rewrite", "a path or a section", "\"/v1\"", &["replace_path", "rewrite_target", "add_prefix", "uri"]),
    key(
        "https",
        "\"redirect\" or \"allow\"",
        "\"allow\"",
        &["force_https", "ssl_redirect", "https_redirect", "require_tls"],
    ),
    key("hsts", A_TIME, "\"180d\"", &["strict_transport_security", "sts", "max_age"]),
    key("upgrades", A_LIST, "[\"websocket\"]", &["upgrade", "websocket", "protocols"]),
    key("cache", "true, false, a time with its unit, or a section", "\"5s\"", &["ttl", "cache_ttl", "max_age"]),
    key("compress", "true, false, or a section", "true", &["compression", "gzip", "encode", "brotli", "zstd"]),
    key("timeout", "a time with its unit or \"none\"", "\"30s\"", &["deadline"]),
    key("response_timeout", A_TIME, "\"60s\"", &["proxy_read_timeout"]),
    key("response_body_timeout", A_TIME_OR_NONE, "\"60s\"", &["stream_timeout", "stream_idle_timeout", "read_timeout"]),
    key("body_size", "a size with its unit or \"none\"", "\"10MiB\"", &["max_body_size", "client_max_body_size"]),
    key("allow", A_SECTION, "{ networks = [\"10.0.0.0/8\"] }", &["access", "auth", "permit", "allowed"]),
    key("deny", A_SECTION, "{ networks = [\"192.0.2.0/24\"] }", &["block", "forbid", "denied"]),
    key("limit", A_SECTION, "{ rate = \"100/s\" }", &["limits", "rate_limit", "limit_req", "ratelimit", "throttle"]),
    key(
        "request_fields",
        A_SECTION,
        "{ set = { \"X-Env\" = \"prod\" } }",
        &["request_headers", "proxy_set_header", "header_up", "customRequestHeaders", "request_header"],
    ),
    key(
        "response_fields",
        A_SECTION,
        "{ remove = [\"Server\"] }",
        &["response_headers", "add_header", "header_down", "headers", "header", "customResponseHeaders"],
    ),
    key(
        "errors",
        A_SECTION,
        "{ \"5xx\" = \"error.html\" }",
        &["error_page", "error_pages", "handle_errors", "errorfile"],
    ),
    key("tls", "\"internal\"", "\"internal\"", &["certificate", "issuer"]),
    key("ambiguous_paths", "\"refuse\" or \"allow\"", "\"refuse\"", &["merge_slashes", "path_normalization"]),
];

/// The keys of `[routes.when]`.
pub const ROUTE_WHEN: &[Key] = &[
    key("methods", A_LIST, "[\"GET\", \"HEAD\"]", &["method", "verbs"]),
    key("headers", "a table of strings", "{ version = \"two\" }", &["header", "fields", "field"]),
    key("query", "a table of strings", "{ animal = \"whale\" }", &["params", "parameters", "query_params"]),
    key("ports", "a list of numbers", "[8080]", &["port", "listeners", "listen"]),
];

/// The keys of `[errors]` and `[routes.errors]`. The first stands for every status and class of errors.
pub const ERRORS: &[Key] = &[
    key("STATUS", "a path, or a section", "\"pages/404.html\"", &[]),
    key("intercept", TRUE_OR_FALSE, "true", &["proxy_intercept_errors", "intercept_errors"]),
];

/// The keys of a page that a service makes.
pub const ERROR_SERVICE: &[Key] = &[
    key("service", "the name of a service", "\"errors\"", &["upstream", "backend", "name"]),
    key("path", "a path", "\"/error/{status}\"", &["uri", "url", "query"]),
];

/// The keys of `[routes.request_fields]` and `[routes.response_fields]`.
pub const ROUTE_FIELDS: &[Key] = &[
    key("set", "a table of strings", "{ \"X-Env\" = \"prod\" }", &["replace", "header", "proxy_set_header"]),
    key("add", "a table of strings", "{ \"Link\" = \"</a.css>\" }", &["append", "add_header", "more_set_headers"]),
    key("remove", A_LIST, "[\"X-Powered-By\", \"X-Amz-*\"]", &["delete", "hide", "unset", "proxy_hide_header"]),
];

/// The keys of `[routes.redirect]`.
pub const ROUTE_REDIRECT: &[Key] = &[
    key("to", "a URL", "\"https://new.example\"", &["url", "target", "location", "replacement"]),
    key("status", "301, 302, 303, 307 or 308", "301", &["code", "permanent"]),
    key("keep_path", TRUE_OR_FALSE, "true", &["path", "preserve_path"]),
    key("keep_query", TRUE_OR_FALSE, "true", &["query", "preserve_query", "query_string"]),
];

/// The keys of `[routes.rewrite]`.
pub const ROUTE_REWRITE: &[Key] = &[
    key("to", "a path", "\"/v1\"", &["replacement", "target", "with", "replace"]),
    key("prefix", "a path", "\"/api\"", &["from", "strip_prefix", "path"]),
    key("pattern", "a path", "\"/blog/*/*\"", &["regex", "match", "path_regexp"]),
];

/// The keys of `[routes.files]`.
pub const ROUTE_FILES: &[Key] = &[
    key("root", "a folder", "\"dist\"", &["path", "dir", "folder", "directory"]),
    key("links", "a list of strings", "[\"/var/lib/dokuwiki\"]", &["symlinks", "follow_symlinks", "disable_symlinks"]),
    key("index", "the name of a file, or false", "\"index.html\"", &["index_file", "default"]),
    key("fallback", "the path of a file", "\"index.html\"", &["try_files", "spa", "not_found"]),
    key("listing", TRUE_OR_FALSE, "true", &["autoindex", "browse", "list"]),
    key("cache_control", "a table of strings", "{ \"assets/*\" = \"max-age=3600\" }", &["expires", "headers"]),
    key("types", "a table of strings", "{ \"*.ts\" = \"text/plain\" }", &["mime_types", "content_types", "charset"]),
];

/// The keys of `[routes.compress]`.
pub const ROUTE_COMPRESS: &[Key] = &[
    key("types", A_LIST, "[\"text/*\", \"application/json\"]", &["gzip_types", "content_types", "mime_types", "match"]),
    key("min_size", A_SIZE, "\"1KiB\"", &["min_length", "gzip_min_length", "minimum_length", "threshold"]),
    key("algorithms", A_LIST, "[\"zstd\", \"br\", \"gzip\"]", &["encodings", "codings", "methods", "prefer"]),
];

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Before the first heading.
    Top,
    /// `[tls]`.
    Tls,
    /// `[tls.acme]`.
    TlsAcme,
    /// An authority in `fallback` of `[tls.acme]`.
    TlsAcmeFallback,
    /// `on_demand` in `[tls.acme]`.
    TlsAcmeOnDemand,
    /// `eab` in `[tls.acme]`.
    TlsAcmeEab,
    /// An entry of `certificates` in `[tls]`.
    TlsCertificate,
    /// `client_certificates` in `[tls]`.
    TlsClientCertificates,
    /// `[limits]`.
    Limits,
    /// `[cache]`.
    Cache,
    /// `[cache.redis]`.
    CacheRedis,
    /// `[groups.NAME]`.
    Group,
    /// `[containers]`.
    Containers,
    /// `[services.NAME]`.
    Service,
    /// `[services.NAME.balance]`.
    ServiceBalance,
    /// `[services.NAME.dns]`.
    ServiceDns,
    /// `[services.NAME.spill]`.
    ServiceSpill,
    /// `[services.NAME.container]`.
    ServiceContainer,
    /// `[services.NAME.tls]`.
    ServiceTls,
    /// `[services.NAME.cgi]`.
    ServiceCgi,
    /// `[services.NAME.lambda]`.
    ServiceLambda,
    /// `[services.NAME.stdio]`.
    ServiceStdio,
    /// `[services.NAME.queue]`.
    ServiceQueue,
    /// `[services.NAME.health]`.
    ServiceHealth,
    /// `[services.NAME.limits]`.
    ServiceLimits,
    /// `[services.NAME.cgroup]`.
    ServiceCgroup,
    /// `[[routes]]`.
    Route,
    /// `[routes.files]`.
    RouteFiles,
    /// `[routes.compress]`.
    RouteCompress,
    /// `[errors]` and `[routes.errors]`.
    Errors,
    /// A page of `[errors]` that a service makes.
    ErrorService,
    /// `[routes.when]`.
    RouteWhen,
    /// `[routes.request_fields]`.
    RouteRequestFields,
    /// `[routes.response_fields]`.
    RouteResponseFields,
    /// `[routes.redirect]`.
    RouteRedirect,
    /// `[routes.rewrite]`.
    RouteRewrite,
    /// `[routes.cache]`.
    RouteCache,
    /// `[routes.cache.key]`.
    RouteCacheKey,
    /// `[routes.cache.bypass]`.
    RouteCacheBypass,
    /// `[routes.cache.store]`.
    RouteCacheStore,
    /// `[routes.allow]`.
    RouteAllow,
    /// `[routes.allow.jwt]`.
    RouteAllowJwt,
    /// `[routes.allow.forward]`.
    RouteAllowForward,
    /// `[routes.deny]`.
    RouteDeny,
    /// `[routes.limit]`.
    RouteLimit,
    /// `[[schedules]]`.
    Schedule,
    /// `[admin]`.
    Admin,
    /// `[metrics]`.
    Metrics,
    /// `[log]`.
    Log,
    /// `[service_log]`.
    ServiceLog,
    /// `[access_log]`.
    AccessLog,
    /// `[traces]`.
    Traces,
}

impl Part {
    /// Every part.
    pub const ALL: [Part; 52] = [
        Part::Top,
        Part::Tls,
        Part::TlsAcme,
        Part::TlsAcmeFallback,
        Part::TlsAcmeOnDemand,
        Part::TlsAcmeEab,
        Part::TlsCertificate,
        Part::TlsClientCertificates,
        Part::Limits,
        Part::Cache,
        Part::CacheRedis,
        Part::Group,
        Part::Containers,
        Part::Service,
        Part::ServiceBalance,
        Part::ServiceDns,
        Part::ServiceSpill,
        Part::ServiceContainer,
        Part::ServiceTls,
        Part::ServiceCgi,
        Part::ServiceLambda,
        Part::ServiceStdio,
        Part::ServiceQueue,
        Part::ServiceHealth,
        Part::ServiceLimits,
        Part::ServiceCgroup,
        Part::Route,
        Part::RouteFiles,
        Part::RouteCompress,
        Part::Errors,
        Part::ErrorService,
        Part::RouteWhen,
        Part::RouteRequestFields,
        Part::RouteResponseFields,
        Part::RouteRedirect,
        Part::RouteRewrite,
        Part::RouteCache,
        Part::RouteCacheKey,
        Part::RouteCacheBypass,
        Part::RouteCacheStore,
        Part::RouteAllow,
        Part::RouteAllowJwt,
        Part::RouteAllowForward,
        Part::RouteDeny,
        Part::RouteLimit,
        Part::Schedule,
        Part::Admin,
        Part::Metrics,
        Part::Log,
        Part::ServiceLog,
        Part::AccessLog,
        Part::Traces,
    ];

    /// The keys that it has.
    #[must_use]
    pub fn keys(self) -> &'static [Key] {
        match self {
            Part::Top => ROOT,
            Part::Tls => TLS,
            Part::TlsAcme => TLS_ACME,
            Part::TlsAcmeFallback => TLS_ACME_FALLBACK,
            Part::TlsAcmeOnDemand => TLS_ACME_ON_DEMAND,
            Part::TlsAcmeEab => TLS_ACME_EAB,
            Part::TlsCertificate => TLS_CERTIFICATE,
            Part::TlsClientCertificates => TLS_CLIENT_CERTIFICATES,
            Part::Limits => LIMITS,
            Part::Cache => CACHE,
            Part::CacheRedis => CACHE_REDIS,
            Part::Group => GROUP,
            Part::Service => SERVICE,
            Part::ServiceBalance => SERVICE_BALANCE,
            Part::ServiceDns => SERVICE_DNS,
            Part::ServiceSpill => SERVICE_SPILL,
            Part::Containers => CONTAINERS,
            Part::ServiceContainer => SERVICE_CONTAINER,
            Part::ServiceTls => SERVICE_TLS,
            Part::ServiceCgi => SERVICE_CGI,
            Part::ServiceLambda => SERVICE_LAMBDA,
            Part::ServiceStdio => SERVICE_STDIO,
            Part::ServiceQueue => SERVICE_QUEUE,
            Part::ServiceHealth => SERVICE_HEALTH,
            Part::ServiceLimits => SERVICE_LIMITS,
            Part::ServiceCgroup => SERVICE_CGROUP,
            Part::Route => ROUTE,
            Part::RouteFiles => ROUTE_FILES,
            Part::RouteCompress => ROUTE_COMPRESS,
            Part::Errors => ERRORS,
            Part::ErrorService => ERROR_SERVICE,
            Part::RouteRequestFields | Part::RouteResponseFields => ROUTE_FIELDS,
            Part::RouteRedirect => ROUTE_REDIRECT,
            Part::RouteRewrite => ROUTE_REWRITE,
            Part::RouteWhen => ROUTE_WHEN,
            Part::RouteCache => ROUTE_CACHE,
            Part::RouteCacheKey => ROUTE_CACHE_KEY,
            Part::RouteCacheBypass => ROUTE_CACHE_BYPASS,
            Part::RouteCacheStore => ROUTE_CACHE_STORE,
            Part::RouteAllow => ROUTE_ALLOW,
            Part::RouteAllowJwt => ROUTE_ALLOW_JWT,
            Part::RouteAllowForward => ROUTE_ALLOW_FORWARD,
            Part::RouteDeny => ROUTE_DENY,
            Part::RouteLimit => ROUTE_LIMIT,
            Part::Schedule => SCHEDULE,
            Part::Admin => ADMIN,
            Part::Metrics => METRICS,
            Part::Log | Part::ServiceLog => LOG,
            Part::AccessLog => ACCESS_LOG,
            Part::Traces => TRACES,
        }
    }

    /// Where it is, to be read after "belongs".
    #[must_use]
    pub fn place(self) -> &'static str {
        match self {
            Part::Top => "at the top of the file, before the first [section]",
            Part::Tls => "in [tls]",
            Part::TlsAcme => "in [tls.acme]",
            Part::TlsAcmeFallback => "in `fallback` of [tls.acme]",
            Part::TlsAcmeOnDemand => "in `on_demand` of [tls.acme]",
            Part::TlsAcmeEab => "in `eab` of [tls.acme]",
            Part::TlsCertificate => "in `certificates` of [tls]",
            Part::TlsClientCertificates => "in `client_certificates` of [tls]",
            Part::Limits => "in [limits]",
            Part::Cache => "in [cache]",
            Part::CacheRedis => "in [cache.redis]",
            Part::Group => "in [groups.NAME]",
            Part::Service => "in [services.NAME]",
            Part::ServiceBalance => "in [services.NAME.balance]",
            Part::ServiceDns => "in [services.NAME.dns]",
            Part::ServiceSpill => "in [services.NAME.spill]",
            Part::Containers => "in [containers]",
            Part::ServiceContainer => "in [services.NAME.container]",
            Part::ServiceTls => "in [services.NAME.tls]",
            Part::ServiceCgi => "in [services.NAME.cgi]",
            Part::ServiceLambda => "in [services.NAME.lambda]",
            Part::ServiceStdio => "in [services.NAME.stdio]",
            Part::ServiceQueue => "in [services.NAME.queue]",
            Part::ServiceHealth => "in [services.NAME.health]",
            Part::ServiceLimits => "in [services.NAME.limits]",
            Part::ServiceCgroup => "in [services.NAME.cgroup]",
            Part::Route => "in [[routes]]",
            Part::RouteFiles => "in [routes.files]",
            Part::RouteCompress => "in [routes.compress]",
            Part::Errors => "in [errors] or [routes.errors]",
            Part::ErrorService => "in a page of [errors] that a service makes",
            Part::RouteRequestFields => "in [routes.request_fields]",
            Part::RouteResponseFields => "in [routes.response_fields]",
            Part::RouteRedirect => "in [routes.redirect]",
            Part::RouteRewrite => "in [routes.rewrite]",
            Part::RouteWhen => "in [routes.when]",
            Part::RouteCache => "in [routes.cache]",
            Part::RouteCacheKey => "in [routes.cache.key]",
            Part::RouteCacheBypass => "in [routes.cache.bypass]",
            Part::RouteCacheStore => "in [routes.cache.store]",
            Part::RouteAllow => "in [routes.allow]",
            Part::RouteAllowJwt => "in [routes.allow.jwt]",
            Part::RouteAllowForward => "in [routes.allow.forward]",
            Part::RouteDeny => "in [routes.deny]",
            Part::RouteLimit => "in [routes.limit]",
            Part::Schedule => "in [[schedules]]",
            Part::Admin => "in [admin]",
            Part::Metrics => "in [metrics]",
            Part::Log => "in [log]",
            Part::ServiceLog => "in [service_log]",
            Part::AccessLog => "in [access_log]",
            Part::Traces => "in [traces]",
        }
    }
}
