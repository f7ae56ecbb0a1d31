//! Ingresses of our class: plain HTTP at port 80, and TLS at 443 where an Ingress has certificates.

use std::collections::BTreeSet;

use super::backends::{self, Unresolved};
use super::listeners::{Doors, Protocol};
use super::model::Options;
use super::rules::cached;
use super::text::{inline, quoted};
use super::work::{Piece, Place, Work};
use crate::api::INGRESS_CONTROLLER;
use crate::conditions::{Statuses, Subject, Wanted};
use crate::snapshot::{IngressBackend, IngressSpec, Key, Snapshot, Specified};

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// Where a path leads.
struct Leads {
    key: &'static str,
    /// As it stands in the file.
    value: String,
    service: Option<String>,
}

/// An Ingress of ours, and where it is listened on.
pub(super) struct Listened<'a> {
    key: &'a Key,
    ingress: &'a Specified<IngressSpec>,
    ports: BTreeSet<u16>,
    has_tls: bool,
}

/// One path of an Ingress.
struct Path<'a> {
    host: Option<&'a str>,
    path: &'a str,
    exact: bool,
    backend: &'a IngressBackend,
}

/// Listens for all Ingresses of our class.
pub(super) fn listen<'a>(snapshot: &'a Snapshot, doors: &mut Doors, options: &Options) -> Vec<Listened<'a>> {
    let mut ours: Vec<_> =
        snapshot.ingresses.iter().filter(|(_, ingress)| is_ours(snapshot, options, &ingress.spec)).collect();
    // The older one of two with the same host and path wins.
    ours.sort_by_key(|(key, ingress)| (ingress.meta.created, (*key).clone()));
    ours.into_iter().map(|(key, ingress)| listen_for(snapshot, doors, options, key, ingress)).collect()
}

/// Puts them into the configuration.
pub(super) fn all(work: &mut Work<'_>, listened: &[Listened<'_>], options: &Options, statuses: &mut Statuses) {
    for one in listened {
        routes(work, one, options);
        statuses.insert(Subject::Ingress(one.key.clone()), Wanted::Addresses(options.addresses.clone()));
    }
}

fn is_ours(snapshot: &Snapshot, options: &Options, ingress: &IngressSpec) -> bool {
    let is_wanted = |name: &str| options.class_name.as_deref().is_none_or(|wanted| wanted == name);
    let mut classes = snapshot.ingress_classes.iter().filter(|(key, class)| match &ingress.class {
        Some(name) => *key.name == **name,
        None => class.is_default,
    });
    classes.any(|(key, class)| class.controller == INGRESS_CONTROLLER && is_wanted(&key.name))
}

fn listen_for<'a>(
    snapshot: &Snapshot,
    doors: &mut Doors,
    options: &Options,
    key: &'a Key,
    ingress: &'a Specified<IngressSpec>,
) -> Listened<'a> {
    let mut ports = BTreeSet::new();
    let mut add = |doors: &mut Doors, port, protocol| {
        let listened = options.listened(port);
        if doors.add(listened, protocol, options) {
            ports.insert(listened);
        } else {
            tracing::warn!("Ingress {key}: port {listened} cannot be listened on for {}", protocol.scheme());
        }
    };
    add(doors, HTTP, Protocol::Http);
    let has_tls = certificates(snapshot, doors, key, &ingress.spec);
    if has_tls {
        add(doors, HTTPS, Protocol::Https);
    }
    Listened { key, ingress, ports, has_tls }
}

fn routes(work: &mut Work<'_>, listened: &Listened<'_>, options: &Options) {
    let Listened { key, ingress, ports, has_tls } = listened;
    let mut places = Vec::new();
    for rule in &ingress.spec.rules {
        for path in &rule.paths {
            let (host, backend) = (rule.host.as_deref(), &path.backend);
            let text = if path.path.is_empty() { "/" } else { &path.path };
            places.push(Path { host, path: text, exact: path.exact, backend });
        }
        if let (true, Some(backend)) = (rule.paths.is_empty(), &ingress.spec.default_backend) {
            places.push(Path { host: rule.host.as_deref(), path: "/", exact: false, backend });
        }
    }
    if let Some(backend) = &ingress.spec.default_backend {
        places.push(Path { host: None, path: "/", exact: false, backend });
    }
    let to_https = *has_tls && ingress.meta.annotations.get("ssl-redirect").is_none_or(|value| value != "false");
    for place in places {
        let cache = ingress.meta.annotations.get("cache").map(String::as_str);
        if let Err((_, why)) = route(work, options, key, &place, ports, to_https, cache) {
            tracing::warn!("Ingress {key}: {}{}: {why}", place.host.unwrap_or_default(), place.path);
        }
    }
}

/// Whether there is one that can be used.
fn certificates(snapshot: &Snapshot, doors: &mut Doors, key: &Key, ingress: &IngressSpec) -> bool {
    let mut has_one = false;
    for name in &ingress.tls {
        let secret = Key::new(&key.namespace, name);
        match snapshot.secrets.get(&secret) {
            Some(found) if found.problem.is_none() => {
                doors.file(&secret, found);
                has_one = true;
            }
            Some(found) => {
                let why = found.problem.as_deref().unwrap_or_default();
                tracing::warn!("Ingress {key}: the Secret {secret} cannot be used: {why}");
            }
            None => tracing::warn!("Ingress {key}: there is no Secret {secret} of the type kubernetes.io/tls"),
        }
    }
    has_one
}

fn route(
    work: &mut Work<'_>,
    options: &Options,
    key: &Key,
    place: &Path<'_>,
    ports: &BTreeSet<u16>,
    to_https: bool,
    cache: Option<&str>,
) -> Result<(), Unresolved> {
    let (plain, tls) = (options.listened(HTTP), options.listened(HTTPS));
    if to_https {
        // Not `https = "redirect"`, which would name the port that is listened on.
        let to =
            inline([("to".to_owned(), quoted("https://{host}{path}{query}")), ("status".to_owned(), "308".to_owned())]);
        push(work, place, &[plain], Leads { key: "redirect", value: to, service: None }, None)?;
    }
    let ports: Vec<u16> = ports.iter().copied().filter(|port| !to_https || *port == tls).collect();
    if ports.is_empty() {
        return Ok(());
    }
    let found = match &place.backend.service {
        None => Err(("InvalidKind", "its backend is not a Service".to_owned())),
        Some(service) => {
            let service = Key::new(&key.namespace, service);
            backends::of_service(work.snapshot, &service, &place.backend.port, 1)
        }
    };
    let (leads, service, unresolved) = match found.and_then(|one| work.backends.add(work.snapshot, "", vec![one], 0)) {
        Ok(Some(name)) => (("service", quoted(&name)), Some(name), None),
        Ok(None) => (("respond", "503".to_owned()), None, None),
        Err(why) => (("respond", "503".to_owned()), None, Some(why)),
    };
    push(work, place, &ports, Leads { key: leads.0, value: leads.1, service }, cache)?;
    unresolved.map_or(Ok(()), Err)
}

fn push(
    work: &mut Work<'_>,
    place: &Path<'_>,
    ports: &[u16],
    leads: Leads,
    cache: Option<&str>,
) -> Result<(), Unresolved> {
    let Path { host, path, exact, .. } = *place;
    let path = if exact || path.len() == 1 { path } else { path.strip_suffix('/').unwrap_or(path) };
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let when = inline([("ports".to_owned(), format!("[{}]", ports.join(", ")))]);
    let host = host.map(str::to_ascii_lowercase);
    let place = Place { host: host.as_deref(), path, exact, conditions: Some(&when) };
    let mut table = place.table();
    if let ("service", Some(cache)) = (leads.key, cache) {
        table.set("cache", cached(cache));
    }
    table.set(leads.key, leads.value);
    table.set("https", quoted("allow"));
    work.push(&Piece { place: place.text(), service: leads.service, table }).map_err(|why| ("UnsupportedValue", why))
}
