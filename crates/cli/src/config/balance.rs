//! The servers of a service that somebody else runs: `url`, and `balance` where there are several.

use std::path::Path;

use pilotlight_gateway::{
    BalanceBy, BalanceOptions, HealthOptions, MAX_SERVERS, ProxyVersion, ServerProtocol, Versions, read_sticky_key,
};
use pilotlight_supervisor::QueueLimits;
use toml::de::DeValue;

use super::address;
use super::caching;
use super::diagnostic::{Code, Diagnostic, Span};
use super::dns::{Place, Servers, Written};
use super::model::{Service, ServiceKind, joined};
use super::readers::{non_empty, read_words, word};
use super::releases;
use super::schema::Part;
use super::section::{Field, Section, a_number, a_time, noted, or_none};
use super::shown::shown;
use super::value::{Rejected, nearest};

/// The servers, and what all of them speak. An empty list is one that is given while the gateway runs.
pub(super) fn servers(
    url: &Field<'_>,
    folder: &Path,
    found: &mut Vec<Diagnostic>,
) -> Option<(Vec<Written>, ServerProtocol)> {
    let words = match url.value {
        DeValue::String(text) => vec![(text.to_string(), url.at.clone())],
        DeValue::Array(list) => read_words(url, list, found)?,
        _ => {
            found.push(url.wrong_type());
            return None;
        }
    };
    if words.len() > MAX_SERVERS {
        let message = format!("`url` has {} servers, and a service has {MAX_SERVERS} at most", words.len());
        found.push(Diagnostic::error(Code::OutOfRange, url.at.clone(), message));
        return None;
    }
    let mut servers: Vec<(Place, ServerProtocol, Span)> = Vec::with_capacity(words.len());
    for (text, at) in words {
        let read = match address::srv(&text) {
            Some(read) => read.map(|(name, protocol)| (Place::Srv(name), protocol)),
            None => address::upstream(&text, folder).map(|(addr, protocol)| (Place::At(addr), protocol)),
        };
        let read = read.map_err(|wrong| Field { at: at.clone(), ..url.clone() }.rejected(wrong));
        let (place, protocol) = noted(read, found)?;
        if let Some((_, _, first)) = servers.iter().find(|(other, ..)| *other == place) {
            let message = format!("the server {} is there twice", shown(&text));
            let help = "`weights` in [services.NAME.balance] gives a server a larger share";
            found
                .push(Diagnostic::error(Code::Conflict, at, message).related(first.clone(), "the other is").help(help));
            return None;
        }
        if let Some((_, _, first)) = servers.iter().find(|(_, other, _)| *other != protocol) {
            let message = "the servers of a service speak one protocol, and these are two";
            let help = "make two services of them, and a route to each";
            found
                .push(Diagnostic::error(Code::Conflict, at, message).related(first.clone(), "the other is").help(help));
            return None;
        }
        servers.push((place, protocol, at));
    }
    let protocol = servers.first().map_or(ServerProtocol::Http1, |(_, protocol, _)| *protocol);
    Some((servers.into_iter().map(|(place, ..)| Written { place, weight: 1 }).collect(), protocol))
}

/// How several servers share the requests.
pub(super) fn read(
    section: &Section<'_>,
    servers: &mut [Written],
    folder: &Path,
    found: &mut Vec<Diagnostic>,
) -> BalanceOptions {
    let mut options = BalanceOptions::default();
    let is_one = matches!(servers, [Written { place: Place::At(_), .. }]) && section.field("dns").is_none();
    if let Some(field) = section.field("balance").filter(|_| is_one) {
        let message = "`balance` is for several servers, and this service has one";
        let help = "write url = [\"http://10.0.0.1:9000\", \"http://10.0.0.2:9000\"], or take `balance` away";
        found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
        return options;
    }
    let Some(part) = section.part("balance", Part::ServiceBalance, "in the service's balance", found) else {
        return options;
    };
    let settings = &mut options.settings;
    part.set("max_failures", a_number(&BalanceOptions::MAX_FAILURES), &mut settings.max_failures, found);
    part.set("eject_time", a_time(&BalanceOptions::EJECT_TIME), &mut settings.eject_time, found);
    let mut slow_start = None;
    part.set("slow_start", or_none(a_time(&BalanceOptions::SLOW_START)), &mut slow_start, found);
    settings.slow_start = slow_start.unwrap_or_default();
    let retries = &mut settings.retries;
    part.set("retry_percent", a_number(&BalanceOptions::RETRY_PERCENT), &mut retries.percent, found);
    part.set("retry_per_second", a_number(&BalanceOptions::RETRY_PER_SECOND), &mut retries.per_second, found);
    part.set("connect_timeout", a_time(&BalanceOptions::CONNECT_TIMEOUT), &mut options.connect_timeout, found);
    part.set("by", by, &mut options.by, found);
    if let Some(field) = part.field("sticky_key") {
        if !matches!(options.by, BalanceBy::Sticky(_)) {
            let message = "`sticky_key` has no effect: it is the secret of the cookie of by = \"sticky:NAME\"";
            let help = "write by = \"sticky:server\", or take it away";
            found.push(Diagnostic::warning(Code::NoEffect, field.key_at.clone(), message).help(help));
        }
        options.sticky_key = noted(non_empty(&field), found).map(|path| joined(folder, path));
    }
    if let Some(field) = part.field("weights") {
        let weights = weights(&field, servers.len(), found).unwrap_or_default();
        servers.iter_mut().zip(weights).for_each(|(server, weight)| server.weight = weight);
    }
    options
}

/// How many requests may be open at each server, and how many wait beyond that.
pub(super) fn limits(
    section: &Section<'_>,
    balance: &mut BalanceOptions,
    servers: &Servers,
    queue_max: usize,
    found: &mut Vec<Diagnostic>,
) -> QueueLimits {
    let mut queue = QueueLimits { max: queue_max, ..QueueLimits::default() };
    let max_open = &mut balance.settings.max_open;
    section.set("max_connections", or_none(a_number(&BalanceOptions::MAX_CONNECTIONS)), max_open, found);
    if let Some(part) = section.part("queue", Part::ServiceQueue, "in the service's queue", found) {
        part.set("max", a_number(&QueueLimits::MAX), &mut queue.max, found);
        part.set("timeout", a_time(&QueueLimits::TIMEOUT), &mut queue.timeout, found);
    }
    let may_wait = max_open.is_some() || servers.may_be_none();
    if let Some(field) = section.field("queue").filter(|_| !may_wait) {
        let message = "`queue` has no effect without `max_connections`: no request waits for a server";
        let help = "add max_connections = 100, or take `queue` away";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
    }
    // A list may become empty, and stays the same service then.
    if may_wait || servers.servers.len() != 1 { queue } else { QueueLimits::default() }
}

/// Whether connections say whose they are, and what is spoken on them then.
pub(super) fn proxy_protocol(
    section: &Section<'_>,
    protocol: ServerProtocol,
    found: &mut Vec<Diagnostic>,
) -> (Option<ProxyVersion>, ServerProtocol) {
    const VERSIONS: [(&str, ProxyVersion); 2] = [("v1", ProxyVersion::V1), ("v2", ProxyVersion::V2)];
    let Some(field) = section.field("proxy_protocol") else { return (None, protocol) };
    match protocol {
        ServerProtocol::H2c => {
            let message = "`proxy_protocol` says whose a connection is, and by HTTP/2 many clients share one";
            let help = "write http:// in `url`, or take `proxy_protocol` away";
            found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
            (None, protocol)
        }
        ServerProtocol::Https(_) => (word(&field, &VERSIONS, found), ServerProtocol::Https(Versions::Http1)),
        _ => (word(&field, &VERSIONS, found), protocol),
    }
}

/// What the servers are asked, whether there are requests or not.
pub(super) fn health(
    section: &Section<'_>,
    balance: &mut BalanceOptions,
    found: &mut Vec<Diagnostic>,
) -> Option<HealthOptions> {
    let field = section.field("health")?;
    let mut options = HealthOptions::default();
    if let Some(part) = releases::health(&field, &mut options.check, found) {
        part.set("interval", a_time(&HealthOptions::INTERVAL), &mut options.interval, found);
        let settings = &mut balance.settings;
        part.set("healthy", a_number(&HealthOptions::IN_A_ROW), &mut settings.healthy, found);
        part.set("unhealthy", a_number(&HealthOptions::IN_A_ROW), &mut settings.unhealthy, found);
    }
    Some(options)
}

/// Whether the secret of its cookies can be read.
pub(super) fn check(service: &Service, found: &mut Vec<Diagnostic>) {
    let ServiceKind::External(spec) = &service.kind else { return };
    if let Some(path) = &spec.balance.sticky_key
        && let Err(e) = read_sticky_key(path)
    {
        let message = format!("`sticky_key` of the service {}: {} cannot be used: {e}", spec.name, path.display());
        let help = "make it with `openssl rand -base64 32`, and let only the gateway's user read it";
        found.push(Diagnostic::error(Code::Missing, service.at.name.clone(), message).help(help));
    }
}

fn by(field: &Field<'_>) -> Result<BalanceBy, Diagnostic> {
    const HELP: &str = "it is \"requests\", \"client\", \"header:NAME\", \"cookie:NAME\" or \"sticky:NAME\"";
    let text = field.string()?;
    let wrong = |what: &str, help: &str| field.rejected(Rejected::help(format!("{} {what}", shown(text)), help));
    match text.split_once(':') {
        None if text == "requests" => Ok(BalanceBy::Requests),
        None if text == "client" => Ok(BalanceBy::Client),
        Some(("header", name)) => {
            name.parse().map(BalanceBy::Header).map_err(|_| wrong("is not the name of a field", HELP))
        }
        Some(("cookie", name)) => caching::cookie(name).map(BalanceBy::Cookie).map_err(|wrong| field.rejected(wrong)),
        Some(("sticky", name)) => caching::cookie(name).map(BalanceBy::Sticky).map_err(|wrong| field.rejected(wrong)),
        _ => {
            let near = match text {
                "sticky" | "sticky_cookie" => Some("sticky:server"),
                "ip" | "ip_hash" | "client_ip" | "source" | "address" => Some("client"),
                "least_conn" | "leastconn" | "least_requests" | "round_robin" | "random" => Some("requests"),
                _ => nearest(text, ["requests", "client"]),
            };
            let help = near.map_or(HELP.to_owned(), |near| format!("did you mean \"{near}\"?"));
            Err(wrong("is nothing to choose by", &help))
        }
    }
}

fn weights(field: &Field<'_>, count: usize, found: &mut Vec<Diagnostic>) -> Option<Vec<u32>> {
    let list = noted(field.value.as_array().ok_or_else(|| field.wrong_type()), found)?;
    if list.len() != count {
        let message = format!("`weights` has {} numbers, and `url` has {count} servers", list.len());
        let help = "write one for each server, in the order of `url`";
        found.push(Diagnostic::error(Code::Conflict, field.at.clone(), message).help(help));
        return None;
    }
    let each = list.iter().map(|item| {
        let one = Field { value: item.get_ref(), at: item.span(), ..field.clone() };
        noted(one.number(&BalanceOptions::WEIGHT), found)
    });
    each.collect()
}
