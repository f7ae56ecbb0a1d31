//! How the parts of the file hang together: which section a key opens, what a section must have, from where to where a
//! number goes. The JSON Schema for editors is made from this and from `schema`; the ranges are those of the types that
//! the readers read into.

use pilotlight_gateway::{
    BalanceOptions, CgiOptions, DnsOptions, GatewayOptions, HealthOptions, LambdaOptions, LimitSpec, Limits, RateSpec,
    RedisOptions, RouteSpec,
};
use pilotlight_stdio::StdioOptions;
use pilotlight_supervisor::{
    CgroupLimits, GroupSpec, HealthCheck, ImageSpec, QueueLimits, RecycleLimits, ResourceLimits, ServiceSpec,
};

use super::schema::Part;

/// From where to where a number goes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds {
    /// A whole number.
    Whole {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A number that may have a fraction.
    Decimal {
        /// The least.
        min: f64,
        /// The most.
        max: f64,
    },
}

/// What a section must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// This key.
    Key(&'static str),
    /// Exactly one of these keys.
    OneOf(&'static [&'static str]),
    /// One of these keys, or several.
    SomeOf(&'static [&'static str]),
}

/// The section that the value of a key is, or each of its values where the key has names of its own below it
/// (`services`, pages of `errors`).
#[must_use]
pub fn section_of(part: Part, key: &str) -> Option<Part> {
    Some(match (part, key) {
        (Part::Top, "tls") => Part::Tls,
        (Part::Top, "limits") => Part::Limits,
        (Part::Top, "cache") => Part::Cache,
        (Part::Top, "groups") => Part::Group,
        (Part::Top, "services") => Part::Service,
        (Part::Top, "routes") => Part::Route,
        (Part::Top, "schedules") => Part::Schedule,
        (Part::Top, "admin") => Part::Admin,
        (Part::Top, "metrics") => Part::Metrics,
        (Part::Top, "log") => Part::Log,
        (Part::Top, "service_log") => Part::ServiceLog,
        (Part::Top, "access_log") => Part::AccessLog,
        (Part::Top, "traces") => Part::Traces,
        (Part::Top | Part::Route, "errors") => Part::Errors,
        (Part::Errors, "STATUS") => Part::ErrorService,
        (Part::Tls, "certificates") => Part::TlsCertificate,
        (Part::Tls, "client_certificates") => Part::TlsClientCertificates,
        (Part::Tls, "acme") => Part::TlsAcme,
        (Part::TlsAcme | Part::TlsAcmeFallback, "eab") => Part::TlsAcmeEab,
        (Part::TlsAcme, "fallback") => Part::TlsAcmeFallback,
        (Part::TlsAcme, "on_demand") => Part::TlsAcmeOnDemand,
        (Part::Cache, "redis") => Part::CacheRedis,
        (Part::Service, "balance") => Part::ServiceBalance,
        (Part::Service, "dns") => Part::ServiceDns,
        (Part::Service, "spill") => Part::ServiceSpill,
        (Part::Top, "containers") => Part::Containers,
        (Part::Service, "container") => Part::ServiceContainer,
        (Part::Service, "tls") => Part::ServiceTls,
        (Part::Service, "cgi") => Part::ServiceCgi,
        (Part::Service, "lambda") => Part::ServiceLambda,
        (Part::Service, "stdio") => Part::ServiceStdio,
        (Part::Service, "queue") => Part::ServiceQueue,
        (Part::Service, "health") => Part::ServiceHealth,
        (Part::Service, "limits") => Part::ServiceLimits,
        (Part::Service, "cgroup") => Part::ServiceCgroup,
        (Part::Route, key) => return section_of_a_route(key),
        (Part::RouteCache, "key") => Part::RouteCacheKey,
        (Part::RouteCache, "bypass") => Part::RouteCacheBypass,
        (Part::RouteCache, "store") => Part::RouteCacheStore,
        (Part::RouteAllow, "jwt") => Part::RouteAllowJwt,
        (Part::RouteAllow, "forward") => Part::RouteAllowForward,
        _ => return None,
    })
}

fn section_of_a_route(key: &str) -> Option<Part> {
    Some(match key {
        "files" => Part::RouteFiles,
        "compress" => Part::RouteCompress,
        "request_fields" => Part::RouteRequestFields,
        "response_fields" => Part::RouteResponseFields,
        "redirect" => Part::RouteRedirect,
        "rewrite" => Part::RouteRewrite,
        "when" => Part::RouteWhen,
        "cache" => Part::RouteCache,
        "allow" => Part::RouteAllow,
        "deny" => Part::RouteDeny,
        "limit" => Part::RouteLimit,
        _ => return None,
    })
}

/// What a section must have.
#[must_use]
pub fn needs(part: Part) -> &'static [Needs] {
    match part {
        Part::Tls => &[Needs::SomeOf(&["certificates", "acme"])],
        Part::TlsAcmeFallback => &[Needs::Key("directory")],
        Part::TlsAcmeOnDemand => &[Needs::Key("ask")],
        Part::TlsAcmeEab => &[Needs::Key("kid"), Needs::Key("key_file")],
        Part::TlsCertificate => &[Needs::Key("certificate"), Needs::Key("key")],
        Part::TlsClientCertificates => &[Needs::Key("ca")],
        Part::CacheRedis => &[Needs::Key("url")],
        Part::Group => &[Needs::SomeOf(&["max_running", "memory"])],
        Part::Service => &[Needs::OneOf(&["command", "container", "url"])],
        Part::ServiceSpill => &[Needs::Key("to")],
        Part::ServiceContainer => &[Needs::OneOf(&["image", "compose", "name", "labels"])],
        Part::Route => &[Needs::Key("path"), Needs::OneOf(&["service", "files", "redirect", "respond"])],
        Part::RouteFiles => &[Needs::Key("root")],
        Part::RouteRedirect | Part::RouteRewrite => &[Needs::Key("to")],
        Part::ErrorService => &[Needs::Key("service"), Needs::Key("path")],
        Part::RouteDeny => &[Needs::Key("networks")],
        Part::RouteWhen => &[Needs::SomeOf(&["methods", "headers", "query", "ports"])],
        Part::RouteLimit => &[Needs::SomeOf(&["rate", "concurrent", "bandwidth"])],
        Part::RouteAllowJwt => &[Needs::Key("jwks")],
        Part::RouteAllowForward => &[Needs::OneOf(&["url", "service"])],
        Part::Schedule => &[Needs::Key("cron"), Needs::Key("service"), Needs::OneOf(&["path", "event"])],
        Part::Metrics => &[Needs::Key("listen")],
        Part::AccessLog => &[Needs::Key("path")],
        _ => &[],
    }
}

/// From where to where the number of a key goes; none for what is no number, or has no other bound than its type.
#[must_use]
pub fn bounds(part: Part, key: &str) -> Option<Bounds> {
    Some(match (part, key) {
        (Part::Top, "workers") => whole(&GatewayOptions::WORKERS),
        (Part::Limits, "header_count") => whole(&Limits::HEADER_COUNT),
        (Part::Limits, "handshakes") => whole(&Limits::HANDSHAKES),
        (Part::Limits, "connections") => whole(&Limits::CONNECTIONS),
        (Part::Limits, "streams") => whole(&Limits::STREAMS),
        (Part::Limits, "queue") | (Part::ServiceQueue, "max") | (Part::ServiceSpill, "queue") => {
            whole(&QueueLimits::MAX)
        }
        (Part::CacheRedis, "queue") => whole(&RedisOptions::MAX_QUEUE),
        (Part::Group, "max_running") => whole(&GroupSpec::MAX_RUNNING),
        (Part::Service, "max_instances") => whole(&ServiceSpec::MAX_INSTANCES),
        (Part::Service, "concurrency") => whole(&ServiceSpec::CONCURRENCY),
        (Part::Service, "max_requests") => whole(&RecycleLimits::MAX_REQUESTS),
        (Part::Service, "max_failures") => whole(&ServiceSpec::MAX_FAILURES),
        (Part::Service, "keep_releases") => whole(&ServiceSpec::KEEP_RELEASES),
        (Part::Service, "max_connections") => whole(&BalanceOptions::MAX_CONNECTIONS),
        (Part::ServiceBalance, "max_failures") => whole(&BalanceOptions::MAX_FAILURES),
        (Part::ServiceBalance, "retry_percent") => whole(&BalanceOptions::RETRY_PERCENT),
        (Part::ServiceBalance, "retry_per_second") => whole(&BalanceOptions::RETRY_PER_SECOND),
        (Part::ServiceDns, "max_addresses") => whole(&DnsOptions::MAX_ADDRESSES),
        (Part::ServiceContainer, "port") => whole(&ImageSpec::PORT),
        (Part::ServiceCgi, "keep_connections") => whole(&CgiOptions::KEEP_CONNECTIONS),
        (Part::ServiceLambda, "memory_size") => whole(&LambdaOptions::MEMORY_SIZE),
        (Part::ServiceStdio, "max_processes") => whole(&StdioOptions::MAX_PROCESSES),
        (Part::ServiceHealth, "status") => whole(&HealthCheck::STATUS),
        (Part::ServiceHealth, "healthy" | "unhealthy") => whole(&HealthOptions::IN_A_ROW),
        (Part::ServiceLimits, "open_files") => whole(&ResourceLimits::OPEN_FILES),
        (Part::ServiceLimits, "processes") => whole(&ResourceLimits::PROCESSES),
        (Part::ServiceLimits, "cpu_seconds") => whole(&ResourceLimits::CPU_SECONDS),
        (Part::ServiceCgroup, "cpu") => {
            Bounds::Decimal { min: *CgroupLimits::CPU.start(), max: *CgroupLimits::CPU.end() }
        }
        (Part::Traces, "sample") => Bounds::Decimal { min: 0.0, max: 1.0 },
        (Part::Route, "respond") => whole(&RouteSpec::RESPOND),
        (Part::RouteLimit, "burst") => whole(&RateSpec::BURST),
        (Part::RouteLimit, "concurrent") => whole(&LimitSpec::CONCURRENT),
        _ => return None,
    })
}

fn whole<T: Copy + TryInto<u64>>(range: &std::ops::RangeInclusive<T>) -> Bounds {
    let end = |number: T| number.try_into().unwrap_or(u64::MAX);
    Bounds::Whole { min: end(*range.start()), max: end(*range.end()) }
}
