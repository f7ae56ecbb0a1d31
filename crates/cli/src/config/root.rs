//! The top of the file, `[limits]` and `[cache]`.

use std::path::Path;

use pilotlight_gateway::{
    Abandoned, CacheOptions, CacheSettings, GatewayOptions, Limits, Settings, TagFields, TrustForwarded,
};
use pilotlight_supervisor::QueueLimits;
use toml::de::{DeTable, DeValue};

use super::acme;
use super::address::{self, Said};
use super::cache_policy;
use super::cache_redis;
use super::container;
use super::diagnostic::{Code, Diagnostic, Span};
use super::error_pages::Pages;
use super::groups;
use super::model::{CacheRedis, Config, Listener, Service, Workers};
use super::networks;
use super::operate;
use super::relations;
use super::route::{self, Draft};
use super::scaling;
use super::schedules;
use super::schema::{self, Part};
use super::section::{Field, Section, a_number, a_size, a_time, noted, or_none};
use super::service::{self, ForAll, Services};
use super::spill;
use super::tls;
use super::traces;
use super::value::HumanSize;

/// Services and routes that are not in the tree.
pub(super) trait More {
    /// Adds them behind those of the tree.
    fn add(&mut self, for_all: ForAll<'_>, services: &mut Services, drafts: &mut Vec<Draft>);

    /// So much was found of what services and routes have to do with each other.
    fn related(&mut self, found: usize);
}

/// There are none.
struct NoMore;

impl More for NoMore {
    fn add(&mut self, _: ForAll<'_>, _: &mut Services, _: &mut Vec<Draft>) {}

    fn related(&mut self, _: usize) {}
}

/// Reads the whole tree. What is wrong is noted and left out or replaced by its default, so that the rest can still be
/// checked.
pub(super) fn read<'a>(table: &'a DeTable<'a>, folder: &Path, found: &mut Vec<Diagnostic>) -> Config {
    read_with(table, folder, &mut NoMore, found)
}

/// The same with what is not in it.
pub(super) fn read_with<'a>(
    table: &'a DeTable<'a>,
    folder: &Path,
    more: &mut dyn More,
    found: &mut Vec<Diagnostic>,
) -> Config {
    let root = Section::read(Part::Top, "at the top of the file", 0..0, table, found);
    let (limits, queue_max) = limits(&root, found);
    let (cache, cache_redis) = cache(&root, found);
    let groups = groups::read_all(root.field("groups"), found);
    let for_all = ForAll { folder, queue_max, groups: &groups };
    let mut services = service::read_all(root.field("services"), for_all, found);
    let mut behind = Vec::new();
    more.add(for_all, &mut services, &mut behind);
    groups.unused(services.complete.iter().filter_map(Service::spec), found);
    let mut pages = Pages { folder, files: Vec::new(), services: Vec::new() };
    let errors = pages.read(root.field("errors"), "in [errors]", found);
    let (schedules, mut named) = schedules::read_all(root.field("schedules"), found);
    let mut drafts = route::read_all(root.field("routes"), &mut pages, found);
    drafts.append(&mut behind);
    let mut settings = Settings { limits, server_timing: operate::server_timing(&root, found), ..Settings::default() };
    let mut io_uring = true;
    root.set("io_uring", Field::boolean, &mut io_uring, found);
    root.set("dev", Field::boolean, &mut settings.dev, found);
    settings.proxy_protocol =
        root.field("proxy_protocol").map(|field| networks::read(&field, found)).unwrap_or_default();
    settings.trust_forwarded = trust_forwarded(&root, found);
    let tls = tls::read(&root, folder, found);
    let acme = acme::read(&root, folder, found);
    let folders: Vec<_> = services.complete.iter().flat_map(|service| service.at.folders.clone()).collect();
    let mut config = Config {
        listen: tls::spoken(listen(&root, folder, found), tls.as_ref(), found),
        tls,
        acme,
        workers: workers(&root, found),
        io_uring,
        settings,
        cache,
        cache_redis,
        operate: operate::read(&root, folder, found),
        traces: traces::read(&root, folder, found),
        containers: container::engine(&root, folder, found),
        services: services.complete,
        routes: Vec::new(),
        schedules,
        file_roots: route::file_roots(&drafts).into_iter().chain(folders).collect(),
        errors,
        error_pages: pages.files,
        admission_files: route::admission_files(&drafts),
    };
    relations::listeners(&config, root.field("dev").map(|field| field.at), found);
    operate::relations(&config, found);
    named.extend(pages.services);
    let spills = config.services.iter().filter_map(|service| service.spill.as_ref());
    named.extend(spills.map(|spill| (spill.spec.to.clone(), spill.at.clone())));
    let declared = relations::Declared {
        services: &services.declared,
        named: &named,
        services_elsewhere: root.meant("services"),
        routes: root.mentions("routes") || root.mentions("schedules") || !drafts.is_empty(),
        redis: has_redis(&root),
    };
    more.related(routes(&mut config, drafts, &declared, found));
    schedules::relations(&config, has_redis(&root), found);
    acme::relations(&mut config, found);
    tls::relations(&config, found);
    config
}

/// Joins routes to their services. Returns how much there was to say of it.
fn routes(
    config: &mut Config,
    drafts: Vec<Draft>,
    declared: &relations::Declared<'_>,
    found: &mut Vec<Diagnostic>,
) -> usize {
    let before = found.len();
    config.routes = relations::routes(drafts, config, declared, found);
    scaling::check_routes(config, found);
    spill::check(&config.services, found);
    found.len() - before
}

fn listen(root: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Vec<(Listener, Said)> {
    let default = || {
        address::listener(schema::LISTEN, folder)
            .map(|address| (Listener { address, local_host: None, at: 0..0 }, Said::Nothing))
    };
    let Some(field) = root.field("listen") else {
        return default().into_iter().collect();
    };
    let items: Vec<(Span, &DeValue<'_>)> = match field.value {
        DeValue::Array(list) => list.iter().map(|item| (item.span(), item.get_ref())).collect(),
        single => vec![(field.at.clone(), single)],
    };
    if items.is_empty() {
        found.push(
            Diagnostic::error(Code::BadValue, field.at.clone(), "`listen` is an empty list, so nobody could connect")
                .help(format!("write listen = \"{}\"", schema::LISTEN)),
        );
    }
    if items.len() > GatewayOptions::MAX_LISTENERS {
        let message =
            format!("`listen` has {} addresses; at most {} are allowed", items.len(), GatewayOptions::MAX_LISTENERS);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
    }
    items.into_iter().filter_map(|(at, value)| listener(&Field { at, value, ..field.clone() }, folder, found)).collect()
}

fn listener(field: &Field<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<(Listener, Said)> {
    let port = field.value.as_integer().and_then(|number| number.as_str().parse::<u16>().ok());
    let help = port.map(|port| format!("write \"127.0.0.1:{port}\""));
    let text = noted(field.string().map_err(|wrong| wrong.maybe_help(help)), found)?;
    let read = address::client_listener(text, folder).map_err(|wrong| field.rejected(wrong));
    let (address, said) = noted(read, found)?;
    let local_host = address::local_host(text);
    Some((Listener { address, local_host, at: field.at.clone() }, said))
}

/// Nobody, everybody, or proxies in some networks.
fn trust_forwarded(root: &Section<'_>, found: &mut Vec<Diagnostic>) -> TrustForwarded {
    root.field("trust_forwarded").map(|field| networks::trusted(&field, found)).unwrap_or_default()
}

fn workers(root: &Section<'_>, found: &mut Vec<Diagnostic>) -> Workers {
    let Some(field) = root.field("workers") else {
        return Workers::PerCore;
    };
    if field.value.as_str() == Some("auto") {
        return Workers::PerCore;
    }
    noted(field.number(&GatewayOptions::WORKERS), found).map_or(Workers::PerCore, Workers::Exactly)
}

/// `[limits]`, and the default that it gives to each service's `queue.max`.
fn limits(root: &Section<'_>, found: &mut Vec<Diagnostic>) -> (Limits, usize) {
    let (mut limits, mut queue_max) = (Limits::default(), QueueLimits::default().max);
    let Some(section) = root.part("limits", Part::Limits, "in [limits]", found) else { return (limits, queue_max) };
    if let Some(field) = section.field("queue")
        && let Some(max) = noted(field.number(&QueueLimits::MAX), found)
    {
        queue_max = max;
        let message = "`limits.queue` has become a setting of each service";
        let help =
            format!("write queue.max = {queue_max} in [services.NAME] instead; until then it is the default there");
        found.push(Diagnostic::warning(Code::Deprecated, field.key_at, message).help(help));
    }
    section.set("header_size", a_size(&Limits::HEADER_SIZE), &mut limits.header_size, found);
    section.set("header_count", a_number(&Limits::HEADER_COUNT), &mut limits.header_count, found);
    section.set("body_size", or_none(a_size(&Limits::BODY_SIZE)), &mut limits.body_size, found);
    section.set("json_look_ahead", a_size(&Limits::JSON_LOOK_AHEAD), &mut limits.json_look_ahead, found);
    section.set("header_timeout", a_time(&Limits::HEADER_TIMEOUT), &mut limits.header_timeout, found);
    section.set("body_timeout", a_time(&Limits::BODY_TIMEOUT), &mut limits.body_timeout, found);
    section.set("keepalive_timeout", a_time(&Limits::KEEPALIVE_TIMEOUT), &mut limits.keepalive_timeout, found);
    section.set("response_timeout", a_time(&Limits::RESPONSE_TIMEOUT), &mut limits.response_timeout, found);
    let silence = &mut limits.response_body_timeout;
    section.set("response_body_timeout", or_none(a_time(&Limits::RESPONSE_TIMEOUT)), silence, found);
    section.set("shutdown_timeout", a_time(&Limits::SHUTDOWN_TIMEOUT), &mut limits.shutdown_timeout, found);
    section.set("handshake_timeout", a_time(&Limits::HANDSHAKE_TIMEOUT), &mut limits.handshake_timeout, found);
    section.set("handshakes", a_number(&Limits::HANDSHAKES), &mut limits.handshakes, found);
    section.set("connections", a_number(&Limits::CONNECTIONS), &mut limits.connections, found);
    section.set("streams", a_number(&Limits::STREAMS), &mut limits.streams, found);
    (limits, queue_max)
}

/// Whether `[cache]` has something to say of a Redis.
fn has_redis(root: &Section<'_>) -> bool {
    let redis = |cache: Field<'_>| Some(cache.value.as_table()?.contains_key("redis"));
    root.field("cache").and_then(redis).unwrap_or(false)
}

/// `[cache]`: none if it is off, and its tier in Redis.
fn cache(root: &Section<'_>, found: &mut Vec<Diagnostic>) -> (Option<CacheSettings>, Option<CacheRedis>) {
    let mut cache = CacheSettings::default();
    let section = match root.field("cache").map(|field| field.value) {
        Some(DeValue::Boolean(false)) => return (None, None),
        Some(DeValue::Boolean(true)) => None,
        _ => root.part("cache", Part::Cache, "in [cache]", found),
    };
    let Some(section) = section else { return (Some(cache), None) };
    let memory = &mut cache.memory;
    section.set("memory", a_size(&CacheOptions::MAX_BYTES), &mut memory.max_bytes, found);
    section.set("max_object", a_size(&CacheOptions::MAX_OBJECT_BYTES), &mut memory.max_object_bytes, found);
    let half = memory.max_bytes / 2;
    match section.field("max_object") {
        None => memory.max_object_bytes = memory.max_object_bytes.min(half),
        Some(field) if memory.max_object_bytes > half => {
            let (most, all) = (HumanSize(memory.max_object_bytes), HumanSize(memory.max_bytes));
            let message = format!("`max_object` ({most}) is more than half of `memory` ({all})");
            found.push(
                Diagnostic::error(Code::Conflict, field.at, message)
                    .help("one answer may take half of the cache at most: lower `max_object` or raise `memory`"),
            );
        }
        Some(_) => {}
    }
    let (mut keeps_tags, mut finishes) = (false, true);
    section.set("keep_tags", Field::boolean, &mut keeps_tags, found);
    section.set("finish_abandoned", Field::boolean, &mut finishes, found);
    if keeps_tags {
        memory.tag_fields = TagFields::Kept;
    }
    if !finishes {
        cache.abandoned = Abandoned::Drop;
    }
    cache_policy::read(&section, &mut cache.policy, found);
    (Some(cache), cache_redis::read(&section, found))
}
