//! From the configuration file's words to the settings of the supervisor and the gateway.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_gateway::{
    Abandoned, CacheOptions, External, ExternalAddr, GatewayOptions, Inherited, Limits, ListenAddr, RedisOptions,
    RouteCache, RouteControl, RouteRules, RouteSpec, ServiceTarget, Serving, Settings, TagFields,
};
use pilotlight_supervisor::{
    HttpSocket, MinInstances, Preload, PreloadAt, RecycleLimits, Service, ServiceSpec, Spare, Transport,
};

use crate::config::{self, Config, Managed, PathMatch, ServiceKind, Upstream, Workers};
use crate::memory;

/// Worker threads.
pub(crate) fn workers(config: &Config) -> usize {
    match config.workers {
        Workers::Exactly(count) => count,
        Workers::PerCore => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// The services that Pilotlight starts, in the order of the file.
pub(crate) fn specs(config: &Config) -> impl Iterator<Item = ServiceSpec> + '_ {
    let managed = config.services.iter().filter_map(|service| match &service.kind {
        ServiceKind::Managed(managed) => Some((service.name.as_str(), managed)),
        ServiceKind::External(_) => None,
    });
    managed.map(|(name, managed)| spec(name, managed))
}

/// Whether a service runs as another user.
pub(crate) fn has_users(config: &Config) -> bool {
    config.services.iter().any(|service| match &service.kind {
        ServiceKind::Managed(managed) => managed.isolation.user.is_some(),
        ServiceKind::External(_) => false,
    })
}

pub(crate) fn spec(name: &str, managed: &Managed) -> ServiceSpec {
    let scaling = &managed.scaling;
    let program = managed.program.clone().into_os_string();
    let argv = std::iter::once(program).chain(managed.args.iter().map(Into::into)).collect();
    ServiceSpec {
        dir: Some(managed.dir.clone()),
        env: managed.env.clone(),
        min_instances: if managed.min_instances == 0 { MinInstances::Zero } else { MinInstances::One },
        start_timeout: managed.start_timeout,
        idle_timeout: managed.idle_timeout,
        drain_timeout: managed.drain_timeout,
        stop_grace: managed.stop_grace,
        max_instances: scaling.max_instances,
        concurrency: scaling.concurrency,
        spare: if scaling.spare == 0 { Spare::None } else { Spare::One },
        queue: scaling.queue,
        scale_up_after: scaling.scale_up_after,
        scale_down_after: scaling.scale_down_after,
        recycle: RecycleLimits {
            max_requests: scaling.max_requests,
            max_age: scaling.max_age,
            max_memory: scaling.max_memory,
        },
        max_request_time: scaling.max_request_time,
        max_failures: scaling.max_failures,
        preload: managed.cold_start.preload.as_ref().map(preload),
        freeze_after: managed.cold_start.freeze_after,
        isolation: managed.isolation.clone(),
        inherit_env: managed.inherit_env.clone(),
        ..ServiceSpec::new(name, argv, transport(managed.transport))
    }
}

fn preload(preload: &config::Preload) -> Preload {
    let at = match preload.at {
        config::PreloadAt::Boot => PreloadAt::Boot,
        config::PreloadAt::First => PreloadAt::First,
    };
    Preload { modules: preload.modules.clone(), at }
}

fn transport(transport: config::Transport) -> Transport {
    match transport {
        config::Transport::Pipe => Transport::Pipe,
        config::Transport::Http(config::HttpSocket::Unix) => Transport::Http(HttpSocket::Unix),
        config::Transport::Http(config::HttpSocket::Tcp) => Transport::Http(HttpSocket::Tcp),
        config::Transport::Http(config::HttpSocket::Port) => Transport::Http(HttpSocket::Port),
    }
}

/// Every service as the gateway reaches it; `started` are those of [`specs`].
pub(crate) fn targets(config: &Config, started: &[Arc<Service>]) -> Vec<ServiceTarget> {
    let mut started = started.iter();
    let target = |service: &config::Service| match &service.kind {
        ServiceKind::Managed(managed) => {
            started.next().map(|s| ServiceTarget::Managed(Arc::clone(s), transport(managed.transport)))
        }
        ServiceKind::External(upstream) => {
            let addr = match upstream {
                Upstream::Tcp { host, port } => ExternalAddr::Tcp(host.clone(), *port),
                Upstream::Unix(path) => ExternalAddr::Unix(path.clone()),
            };
            Some(ServiceTarget::External(Arc::new(External { name: service.name.clone(), addr })))
        }
    };
    config.services.iter().filter_map(target).collect()
}

/// Where clients connect.
pub(crate) fn listen(config: &Config) -> Vec<ListenAddr> {
    let one = |listener: &config::Listener| match &listener.address {
        config::ListenerAddress::Tcp(addr) => ListenAddr::Tcp(*addr),
        config::ListenerAddress::Unix(path) => ListenAddr::Unix(path.clone()),
    };
    config.listen.iter().map(one).collect()
}

/// What a running gateway can follow.
pub(crate) fn serving(config: &Config, services: Vec<ServiceTarget>) -> Serving {
    Serving {
        services,
        routes: config.routes.iter().map(|route| self::route(route, &config.limits)).collect(),
        settings: Settings {
            limits: limits(&config.limits),
            dev: config.dev,
            trust_forwarded: config.trust_forwarded,
            server_timing: config.operate.server_timing,
        },
    }
}

/// The gateway's settings.
pub(crate) fn gateway(
    config: &Config,
    workers: usize,
    services: Vec<ServiceTarget>,
    inherited: Vec<Inherited>,
) -> GatewayOptions {
    GatewayOptions {
        listen: listen(config),
        workers,
        serving: serving(config, services),
        inherited,
        cache: config.cache.as_ref().map(|cache| CacheOptions {
            max_bytes: cache.memory,
            max_object_bytes: cache.max_object,
            tag_fields: if cache.keep_tags { TagFields::Kept } else { TagFields::Removed },
        }),
        abandoned: match &config.cache {
            Some(cache) if !cache.finish_abandoned => Abandoned::Drop,
            _ => Abandoned::Finish,
        },
        redis: config.cache_redis.as_ref().map(redis),
        cache_policy: config.cache.as_ref().map(|cache| cache.policy.clone()).unwrap_or_default(),
        access_log: config.operate.access_log.clone(),
        freed: Some(memory::give_back_later),
    }
}

fn redis(redis: &config::CacheRedis) -> RedisOptions {
    let default = RedisOptions::new(redis.url.config());
    RedisOptions {
        prefix: redis.prefix.as_str().into(),
        budget: redis.budget,
        lease: redis.lease,
        max_queue: redis.queue,
        max_queue_bytes: redis.queue_memory,
        keep_stale: redis.keep_stale,
        ..default
    }
}

fn limits(limits: &config::Limits) -> Limits {
    Limits {
        header_size: usize::try_from(limits.header_size).unwrap_or(usize::MAX),
        header_count: limits.header_count,
        body_size: limits.body_size,
        header_timeout: limits.header_timeout,
        body_timeout: limits.body_timeout,
        keepalive_timeout: limits.keepalive_timeout,
        response_timeout: Some(limits.response_timeout),
        response_body_timeout: limits.response_body_timeout,
        connections: limits.connections,
        shutdown_timeout: limits.shutdown_timeout,
    }
}

pub(crate) fn route(route: &config::Route, limits: &config::Limits) -> RouteSpec {
    RouteSpec {
        host: route.host.as_ref().map(ToString::to_string),
        path: route.path.clone(),
        exact: route.path_match == PathMatch::Exact,
        service: route.service,
        strip_prefix: route.strip_prefix,
        upgrades: route.upgrades.clone(),
        cache: cache(&route.cache),
        timeout: route.timeout,
        // The file's values have the general ones as defaults; errors are to name the setting that applied.
        response_timeout: Some(route.response_timeout).filter(|t| *t != limits.response_timeout),
        response_body_timeout: route.response_body_timeout,
        body_size: route.body_size,
    }
}

fn cache(cache: &config::RouteCache) -> RouteCache {
    let plain =
        |default_ttl| RouteCache::On { rules: RouteRules { default_ttl, ..RouteRules::default() }, control: None };
    match cache {
        config::RouteCache::Off => RouteCache::Off,
        config::RouteCache::Explicit => plain(None),
        config::RouteCache::Lifetime(ttl) => plain(Some(*ttl)),
        config::RouteCache::Rules(route) => {
            // A route that only gives lifetimes costs a request nothing.
            let control = (route.control != RouteControl::default()).then(|| Arc::new(route.control.clone()));
            RouteCache::On { rules: route.rules, control }
        }
    }
}

/// How long services may take to end: the longest that any of them was promised, and a little more.
pub(crate) fn stop_timeout(config: &Config) -> Duration {
    let promised = config.services.iter().filter_map(|service| match &service.kind {
        ServiceKind::Managed(managed) => Some(managed.drain_timeout + managed.stop_grace),
        ServiceKind::External(_) => None,
    });
    promised.max().unwrap_or_default() + Duration::from_secs(1)
}
