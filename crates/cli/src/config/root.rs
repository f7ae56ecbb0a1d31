//! The top of the file, `[limits]` and `[cache]`.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::address;
use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{CacheLimits, Config, Limits, Listener, Workers};
use super::operate;
use super::relations;
use super::route;
use super::scaling;
use super::schema::{self, Part};
use super::section::{Field, Section, noted};
use super::service;
use super::value::HumanSize;
use super::{cache_policy, cache_redis};

/// Reads the whole tree. What is wrong is noted and left out or replaced by its default, so that the rest can still be
/// checked.
pub(super) fn read<'a>(table: &'a DeTable<'a>, folder: &Path, found: &mut Vec<Diagnostic>) -> Config {
    let root = Section::read(Part::Top, "at the top of the file", 0..0, table, found);
    let (limits, queue_max) = limits(&root, found);
    let cache_field = root.field("cache");
    let services = service::read_all(root.field("services"), folder, queue_max, found);
    let drafts = route::read_all(root.field("routes"), &limits, found);
    let mut config = Config {
        listen: listen(&root, folder, found),
        workers: workers(&root, found),
        dev: root.boolean("dev", false, found),
        trust_forwarded: root.boolean("trust_forwarded", false, found),
        cache: cache(cache_field.as_ref(), found),
        cache_redis: cache_redis::read(cache_field.as_ref(), found),
        limits,
        operate: operate::read(&root, folder, found),
        services: services.complete,
        routes: Vec::new(),
    };
    relations::listeners(&config, root.field("dev").map(|field| field.at), found);
    operate::relations(&config, found);
    let declared = relations::Declared {
        services: &services.declared,
        services_elsewhere: root.meant("services"),
        routes: root.mentions("routes"),
    };
    config.routes = relations::routes(drafts, &config, &declared, found);
    scaling::check_routes(&config, found);
    config
}

fn listen(root: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Vec<Listener> {
    let default = || address::listener(schema::LISTEN, folder).map(|address| Listener { address, at: 0..0 });
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
    if items.len() > schema::MAX_LISTENERS {
        let message = format!("`listen` has {} addresses; at most {} are allowed", items.len(), schema::MAX_LISTENERS);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
    }
    items.into_iter().filter_map(|(at, value)| listener(&Field { at, value, ..field.clone() }, folder, found)).collect()
}

fn listener(field: &Field<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<Listener> {
    let port = field.value.as_integer().and_then(|number| number.as_str().parse::<u16>().ok());
    let help = port.map(|port| format!("write \"127.0.0.1:{port}\""));
    let text = noted(field.string().map_err(|wrong| wrong.maybe_help(help)), found)?;
    let address = noted(address::listener(text, folder).map_err(|wrong| field.rejected(wrong)), found)?;
    Some(Listener { address, at: field.at.clone() })
}

fn workers(root: &Section<'_>, found: &mut Vec<Diagnostic>) -> Workers {
    let Some(field) = root.field("workers") else {
        return Workers::PerCore;
    };
    if field.value.as_str() == Some("auto") {
        return Workers::PerCore;
    }
    let number = noted(field.number(&schema::WORKERS), found).and_then(|number| usize::try_from(number).ok());
    number.map_or(Workers::PerCore, Workers::Exactly)
}

/// `[limits]`, and the default that it gives to each service's `queue.max`.
fn limits(root: &Section<'_>, found: &mut Vec<Diagnostic>) -> (Limits, u64) {
    let empty = DeTable::new();
    let field = root.field("limits");
    let table = field.as_ref().and_then(|field| noted(field.value.as_table().ok_or_else(|| field.wrong_type()), found));
    let at = field.as_ref().map_or(0..0, |field| field.at.clone());
    let limits = Section::read(Part::Limits, "in [limits]", at, table.unwrap_or(&empty), found);
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let queue = limits.field("queue");
    let queue_max = queue.as_ref().and_then(|field| noted(field.number(&schema::QUEUE_MAX), found));
    if let Some((field, queue_max)) = queue.zip(queue_max) {
        let message = "`limits.queue` has become a setting of each service";
        let help =
            format!("write queue.max = {queue_max} in [services.NAME] instead; until then it is the default there");
        found.push(Diagnostic::warning(Code::Deprecated, field.key_at, message).help(help));
    }
    let limits = Limits {
        header_size: limits.size("header_size", &schema::HEADER_SIZE, found),
        header_count: count(limits.number("header_count", &schema::HEADER_COUNT, found)),
        body_size: limits.size_or_none("body_size", &schema::BODY_SIZE, Some(schema::BODY_SIZE.default), found),
        header_timeout: limits.time("header_timeout", &schema::HEADER_TIMEOUT, found),
        body_timeout: limits.time("body_timeout", &schema::BODY_TIMEOUT, found),
        keepalive_timeout: limits.time("keepalive_timeout", &schema::KEEPALIVE_TIMEOUT, found),
        response_timeout: limits.time("response_timeout", &schema::RESPONSE_TIMEOUT, found),
        response_body_timeout: limits.time_or_none(
            "response_body_timeout",
            &schema::RESPONSE_BODY_TIMEOUT,
            Some(schema::RESPONSE_BODY_TIMEOUT.default),
            found,
        ),
        shutdown_timeout: limits.time("shutdown_timeout", &schema::SHUTDOWN_TIMEOUT, found),
        connections: count(limits.number("connections", &schema::CONNECTIONS, found)),
    };
    (limits, queue_max.unwrap_or(schema::QUEUE_MAX.default))
}

fn cache(field: Option<&Field<'_>>, found: &mut Vec<Diagnostic>) -> Option<CacheLimits> {
    let empty = DeTable::new();
    let (table, at) = match field {
        Some(Field { value: DeValue::Boolean(false), .. }) => return None,
        Some(Field { value: DeValue::Boolean(true), at, .. }) => (None, at.clone()),
        Some(field) => (noted(field.value.as_table().ok_or_else(|| field.wrong_type()), found), field.at.clone()),
        None => (None, 0..0),
    };
    let section = Section::read(Part::Cache, "in [cache]", at, table.unwrap_or(&empty), found);
    let memory = section.size("memory", &schema::CACHE_MEMORY, found);
    let max_object = section.size("max_object", &schema::CACHE_MAX_OBJECT, found);
    let policy = cache_policy::read(&section, found);
    let keep_tags = section.boolean("keep_tags", false, found);
    let finish_abandoned = section.boolean("finish_abandoned", true, found);
    let Some(field) = section.field("max_object") else {
        let max_object = max_object.min(memory / 2);
        return Some(CacheLimits { memory, max_object, keep_tags, finish_abandoned, policy });
    };
    if max_object > memory / 2 {
        let message =
            format!("`max_object` ({}) is more than half of `memory` ({})", HumanSize(max_object), HumanSize(memory));
        found.push(
            Diagnostic::error(Code::Conflict, field.at, message)
                .help("one answer may take half of the cache at most: lower `max_object` or raise `memory`"),
        );
    }
    Some(CacheLimits { memory, max_object, keep_tags, finish_abandoned, policy })
}
