//! From the configuration file's words to the settings of the supervisor and the gateway.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pilotlight_gateway::{
    CgiOptions, External, GatewayOptions, Inherited, IoUring, IssuerOptions, LambdaOptions, ListenAddr, RedisTier,
    ServiceTarget, Serving, Settings, SpillSpec, StorageSettings, TraceOptions, keep_private,
};
use pilotlight_stdio::{StdioOptions, Timeouts};
use pilotlight_supervisor::{ContainerOptions, Sandbox, Service, ServiceSpec};
use pilotlight_tls::{Protocol, TlsContext, TlsSettings};

use crate::config::{self, Config, ServiceKind, Workers};
use crate::memory;
use crate::presence;
use crate::trust;

/// Worker threads.
pub(crate) fn workers(config: &Config) -> usize {
    match config.workers {
        Workers::Exactly(count) => count,
        Workers::PerCore => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// The services that Pilotlight starts, in the order of the file, as the supervisor starts them; `program` is this one.
pub(crate) fn started<'a>(config: &'a Config, program: &'a Path) -> impl Iterator<Item = ServiceSpec> + 'a {
    config.services.iter().filter_map(move |service| {
        let mut spec = service.spec()?.clone();
        if let Some(options) = &service.stdio {
            adapt(&mut spec, options, program);
        }
        Some(spec)
    })
}

/// A program that speaks lines is started by an adapter, which this program is as well.
fn adapt(spec: &mut ServiceSpec, options: &StdioOptions, program: &Path) {
    let timeouts = Timeouts { idle: spec.idle_timeout, start: spec.start_timeout, stop: spec.stop_grace };
    if let (Sandbox::Strict { read, .. }, Some(own)) = (&mut spec.isolation.sandbox, spec.argv.first()) {
        // What the sandbox shows by itself is the adapter.
        read.extend(Path::new(own).is_absolute().then(|| own.into()));
    }
    let adapter = std::iter::once(program.as_os_str().to_owned());
    spec.argv = adapter.chain(pilotlight_stdio::command(options, timeouts, &spec.argv)).collect();
}

/// The services that Pilotlight starts, in the order of the file.
pub(crate) fn specs(config: &Config) -> impl Iterator<Item = &ServiceSpec> {
    config.services.iter().filter_map(config::Service::spec)
}

/// Whether a service runs as another user.
pub(crate) fn has_users(config: &Config) -> bool {
    specs(config).any(|spec| spec.isolation.user.is_some())
}

/// Every service as the gateway reaches it; `started` are those of [`specs`].
pub(crate) fn targets(config: &Config, started: &[Arc<Service>]) -> Vec<ServiceTarget> {
    let mut started = started.iter();
    let target = |service: &config::Service| match &service.kind {
        ServiceKind::Managed(spec) => {
            started.next().map(|service| ServiceTarget::Managed(Arc::clone(service), spec.transport))
        }
        ServiceKind::External(spec) => Some(ServiceTarget::External(Arc::new(External::new((**spec).clone())))),
    };
    config.services.iter().filter_map(target).collect()
}

/// Where clients connect.
pub(crate) fn listen(config: &Config) -> Vec<ListenAddr> {
    config.listen.iter().map(|listener| listener.address.clone()).collect()
}

/// TLS, which is nothing to speak of without `[tls]`.
pub(crate) fn tls(config: &Config) -> TlsSettings {
    config.tls.as_ref().map(|tls| tls.settings.clone()).unwrap_or_default()
}

/// What listeners with TLS offer to speak (ALPN), the preferred first.
pub(crate) fn protocols() -> Vec<Protocol> {
    vec![Protocol::Http2, Protocol::Http11]
}

/// What a running gateway can follow. Keys and secrets that the configuration names are private from now on.
pub(crate) fn serving(config: &Config, services: Vec<ServiceTarget>) -> Serving {
    keep_private(private(config));
    Serving {
        services,
        cgi: config.services.iter().filter_map(cgi).collect(),
        lambda: config.services.iter().filter_map(lambda).collect(),
        spill: config.services.iter().filter_map(spill).collect(),
        routes: config.routes.clone(),
        errors: config.errors.clone(),
        settings: Settings { traces: traces(config), ..config.settings.clone() },
        local_hosts: config.listen.iter().filter_map(|listener| listener.local_host.clone()).collect(),
        schedules: config.schedules.iter().map(|schedule| Arc::clone(&schedule.spec)).collect(),
    }
}

/// How a service is told of requests, if that is by variables. A copy: what stays of the configuration would hold the
/// pages that it was read into ([`memory::apart`]).
fn cgi(service: &config::Service) -> Option<(String, Arc<CgiOptions>)> {
    let mut options = service.cgi.as_deref()?.clone();
    if let Some(scripts) = &mut options.scripts {
        scripts.files = Arc::new((*scripts.files).clone());
    }
    Some((service.name().to_owned(), Arc::new(options)))
}

/// The settings of a service that is a function of AWS Lambda; a copy, too.
fn lambda(service: &config::Service) -> Option<(String, Arc<LambdaOptions>)> {
    let options = service.lambda.as_deref()?;
    Some((service.name().to_owned(), Arc::new(options.clone())))
}

/// Where its requests go when it is full.
fn spill(service: &config::Service) -> Option<(String, SpillSpec)> {
    Some((service.name().to_owned(), service.spill.as_ref()?.spec.clone()))
}

/// Traces, if they are wanted. Reads the environment, and the file of fields for the collector.
fn traces(config: &Config) -> Option<Arc<TraceOptions>> {
    let words = &config.traces.as_ref()?.words;
    let variable = |name: &str| std::env::var(name).ok();
    let complain = |text: String| tracing::warn!("{text}");
    Some(crate::traces::resolve(words, &config.settings.trust_forwarded, variable, complain))
}

/// The gateway's settings; `file` is that of the configuration, which is private from now on.
///
/// # Errors
/// It is not known where private keys are kept.
pub(crate) fn gateway(
    file: &Path,
    config: &Config,
    workers: usize,
    services: Vec<ServiceTarget>,
    inherited: Vec<Inherited>,
    tls: Arc<TlsContext>,
) -> anyhow::Result<GatewayOptions> {
    keep_private([file.to_owned()]);
    Ok(GatewayOptions {
        listen: listen(config),
        workers,
        io_uring: if config.io_uring { IoUring::IfAllowed } else { IoUring::Never },
        serving: serving(config, services),
        inherited,
        cache: config.cache.clone(),
        redis: config.cache_redis.as_ref().map(redis),
        tls,
        issuers: issuers(config)?,
        access_log: config.operate.access_log.clone(),
        freed: Some(memory::give_back_later),
        schedules_file: schedules_file(file),
    })
}

/// Name of the folder of schedules in the user's data.
const SCHEDULES_FOLDER: &str = "schedules";

/// Where it is kept up to when schedules of this configuration file were dealt with: in the user's data, as a service
/// manager gives a program of its own no better place that outlives it.
fn schedules_file(config: &Path) -> Option<PathBuf> {
    let data = pilotlight_authority::data_folder(variable).ok()?;
    Some(data.join(SCHEDULES_FOLDER).join(format!("{}.json", name_of(config))))
}

/// The engine of containers. A gateway's own are those of its configuration file, of which another one may run.
pub(crate) fn containers(file: &Path, config: &Config, is_heir: bool) -> ContainerOptions {
    let mut gateway = name_of(file);
    let others = || std::path::absolute(file).is_ok_and(|file| !presence::with_file(&file).0.is_empty());
    if !is_heir && others() {
        gateway = format!("{gateway}-{}", std::process::id());
    }
    ContainerOptions { socket: config.containers.socket.clone(), gateway, is_heir }
}

/// What a configuration file is called where its path would be too long.
fn name_of(config: &Path) -> String {
    let config = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    // FNV-1a: the same name for the same file, in every version of this program.
    let hash =
        config.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    format!("{hash:016x}")
}

/// Who gives certificates to hosts that have none in a file.
fn issuers(config: &Config) -> anyhow::Result<IssuerOptions> {
    let mut acme = None;
    if let Some(wanted) = &config.acme {
        let mut settings = wanted.settings.clone();
        if let Some(folder) = wanted.folder(variable).context("certificates by ACME cannot be kept")? {
            settings.storage = StorageSettings::Folder(folder);
        }
        acme = Some(settings);
    }
    Ok(IssuerOptions { acme, local_folder: trust::default_folder().ok() })
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

/// Files and folders of this gateway with keys, passwords and secrets: no folder of a route serves them.
fn private(config: &Config) -> Vec<PathBuf> {
    let mut all = Vec::new();
    if let Ok(data) = pilotlight_authority::data_folder(variable) {
        all.extend([trust::FOLDER, SCHEDULES_FOLDER].map(|folder| data.join(folder)));
    }
    if let Some(acme) = &config.acme {
        all.extend(acme.folder(variable).ok().flatten());
        let accounts = acme.settings.authorities.iter().filter_map(|one| one.external_account.as_ref());
        all.extend(accounts.map(|account| account.key_file.clone()));
    }
    let certificates = config.tls.iter().flat_map(|tls| &tls.settings.certificates);
    all.extend(certificates.map(|files| files.key.clone()));
    all.extend(config.password_files().map(Path::to_owned));
    for spec in specs(config) {
        all.extend(spec.isolation.env_files.iter().cloned());
        all.extend(spec.isolation.secrets.iter().map(|(_, file)| file.clone()));
    }
    all
}

fn redis(redis: &config::CacheRedis) -> RedisTier {
    RedisTier { servers: redis.url.config(), options: redis.options.clone() }
}

/// How long services may take to end: the longest that any of them was promised, and a little more.
pub(crate) fn stop_timeout(config: &Config) -> Duration {
    let promised = specs(config).map(|spec| spec.drain_timeout + spec.stop_grace);
    promised.max().unwrap_or_default() + Duration::from_secs(1)
}
