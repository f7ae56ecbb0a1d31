//! What the parts of a file have to do with each other: addresses that clash, routes that can never match, services
//! that nobody can reach.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use pilotlight_gateway::{ExternalAddr, ListenAddr, RouteSpec, RouteTo};

use super::address::{is_local, written};
use super::diagnostic::{Code, Diagnostic, Severity, Span};
use super::guards;
use super::model::{Config, ServiceKind};
use super::route::{Draft, Leads};
use super::shown::shown;
use super::value::nearest;

/// Checks the addresses against each other, against `dev`, and against the services.
pub(super) fn listeners(config: &Config, dev_at: Option<Span>, found: &mut Vec<Diagnostic>) {
    for (index, listener) in config.listen.iter().enumerate() {
        let earlier = config.listen[..index].iter();
        if let Some(first) = earlier
            .clone()
            .find(|first| first.address.socket() == listener.address.socket() && !any_port(&first.address))
        {
            found.push(
                Diagnostic::error(
                    Code::Duplicate,
                    listener.at.clone(),
                    format!("{} is there twice", written(&listener.address)),
                )
                .related(first.at.clone(), "the first is")
                .help("take one of the two away"),
            );
        } else if let Some(other) = config.listen.iter().find(|other| covers(&other.address, &listener.address)) {
            found.push(
                Diagnostic::error(
                    Code::Duplicate,
                    listener.at.clone(),
                    format!("{} is already covered by {}", written(&listener.address), written(&other.address)),
                )
                .related(other.at.clone(), "that is")
                .help("take one of the two away"),
            );
        }
    }
    let exposed = config.listen.iter().find(|listener| !is_local(&listener.address));
    if let (true, Some(at), Some(exposed)) = (config.settings.dev, dev_at, exposed) {
        let address = written(&exposed.address);
        let message = format!("`dev` shows the output of failing services to everybody who can reach {address}");
        found.push(Diagnostic::warning(Code::Unsafe, at, message).help("take `dev` away, or listen on 127.0.0.1 only"));
    }
    for service in &config.services {
        let ServiceKind::External(external) = &service.kind else {
            continue;
        };
        if let Some(own) =
            config.listen.iter().find(|own| external.servers.iter().any(|one| leads_to(&one.addr, &own.address)))
        {
            let message = format!(
                "the service {} has the address that Pilotlight itself listens on, so a request would go round in circles",
                shown(service.name())
            );
            found.push(
                Diagnostic::error(Code::Conflict, service.at.name.clone(), message)
                    .related(own.at.clone(), "`listen` is")
                    .help("give the address of the service"),
            );
        }
    }
}

/// What the file says about services and routes, right or wrong.
pub(super) struct Declared<'a> {
    /// The names of all services, with the place of each.
    pub(super) services: &'a [(String, Span)],
    /// Those that make pages for errors or have schedules, and where they are named.
    pub(super) named: &'a [(String, Span)],
    /// There may be further services under a misspelt heading.
    pub(super) services_elsewhere: bool,
    /// There is something about routes, perhaps misspelt or of a wrong type.
    pub(super) routes: bool,
    /// There is a Redis for the cache, right or wrong.
    pub(super) redis: bool,
}

/// Resolves the services of the routes and reports routes that can never match, and services without a route.
pub(super) fn routes(
    drafts: Vec<Draft>,
    config: &Config,
    declared: &Declared<'_>,
    found: &mut Vec<Diagnostic>,
) -> Vec<RouteSpec> {
    let indexes: HashMap<&str, usize> =
        config.services.iter().enumerate().map(|(index, service)| (service.name(), index)).collect();
    let names: HashSet<&str> = declared.services.iter().map(|(name, _)| name.as_str()).collect();
    let mut seen = HashMap::new();
    let mut used = HashSet::new();
    let mut has_unknown = false;
    let is_empty = drafts.is_empty();
    let (mut routes, mut places) = (Vec::with_capacity(drafts.len()), Vec::new());
    let deciding = drafts.iter().flat_map(|draft| &draft.needs.services);
    for (name, at) in declared.named.iter().chain(deciding) {
        if names.contains(name.as_str()) {
            used.insert(name.clone());
        } else if !declared.services_elsewhere {
            found.push(unknown_service(name, at, declared.services));
        }
    }
    for draft in drafts {
        match &draft.leads {
            Some(Leads::Itself(..)) => {}
            Some(Leads::Service(name, _)) if names.contains(name.as_str()) => {
                used.insert(name.clone());
            }
            Some(Leads::Service(name, at)) => {
                has_unknown = true;
                if !declared.services_elsewhere {
                    found.push(unknown_service(name, at, declared.services));
                }
            }
            None => has_unknown = true,
        }
        if config.cache.is_none()
            && let Some(at) = draft.cache_at.clone()
        {
            let message = "`cache` has no effect here: the file says cache = false";
            found.push(Diagnostic::warning(Code::NoEffect, at, message).help("take one of the two away"));
        }
        if let (Some(at), false) = (draft.shared_at.clone(), declared.redis) {
            let message = "`shared` needs a Redis, through which gateways count together, and the file has none";
            let help = "add [cache.redis] with url = \"redis://localhost\", or take `shared` away";
            found.push(Diagnostic::error(Code::MissingKey, at, message).help(help));
        }
        note_duplicate(&draft, &mut seen, found);
        let at = draft.at.clone();
        if let (Some(route), Some(at)) = (complete(draft, &indexes), at) {
            routes.push(route);
            places.push(at);
        }
    }
    guards::check(&routes.iter().zip(&places).collect::<Vec<_>>(), found);
    if is_empty && !declared.routes {
        let message = "there is no route, so every request is answered with 404";
        found.push(
            Diagnostic::whole_file(Severity::Warning, Code::Unused, message)
                .help("add [[routes]] with path = \"/\" and service = \"NAME\", or files = \"FOLDER\""),
        );
    }
    // A route whose service is misspelt or missing may be the one that uses a service.
    if !has_unknown && !is_empty {
        let unused = declared.services.iter().filter(|(name, _)| !used.contains(name.as_str()));
        found.extend(unused.map(|(name, at)| unused_service(name, at)));
    }
    routes
}

fn unused_service(name: &str, at: &Span) -> Diagnostic {
    Diagnostic::warning(Code::Unused, at.clone(), format!("no route leads to the service {}", shown(name)))
        .help("add [[routes]] with its name, or take the service away")
}

fn complete(draft: Draft, indexes: &HashMap<&str, usize>) -> Option<RouteSpec> {
    draft.at?;
    let to = match draft.leads? {
        Leads::Service(name, _) => RouteTo::Service(*indexes.get(name.as_str())?),
        Leads::Itself(to, _) => to,
    };
    Some(RouteSpec { to, ..draft.route })
}

/// Order has no meaning and the most specific route wins, so a route is hidden only by an equal one.
fn note_duplicate(draft: &Draft, seen: &mut HashMap<String, Span>, found: &mut Vec<Diagnostic>) {
    let Some(at) = &draft.at else { return };
    let RouteSpec { host, path, .. } = &draft.route;
    let name = host.as_ref().map_or_else(String::new, |host| format!(" for the host {}", shown(host)));
    if let Some(first) = seen.get(&draft.route.label()) {
        found.push(
            Diagnostic::error(
                Code::Duplicate,
                at.clone(),
                format!("this route can never match: {} has a route already{name}", shown(path)),
            )
            .related(first.clone(), "the other is")
            .help("take one of the two away, or change its path or its host"),
        );
    } else {
        seen.insert(draft.route.label(), at.clone());
    }
}

fn unknown_service(name: &str, at: &Span, declared: &[(String, Span)]) -> Diagnostic {
    let diagnostic =
        Diagnostic::error(Code::UnknownService, at.clone(), format!("there is no service {}", shown(name)));
    match nearest(name, declared.iter().map(|(name, _)| name.as_str())) {
        Some(near) => diagnostic.help(format!("did you mean {}?", shown(near))),
        None if declared.is_empty() => diagnostic.help(format!("add [services.{name}] with its `command` or `url`")),
        None => {
            const MAX_NAMES: usize = 8;
            let names: Vec<String> = declared.iter().take(MAX_NAMES).map(|(name, _)| shown(name)).collect();
            let rest = if declared.len() > MAX_NAMES { ", …" } else { "" };
            diagnostic.help(format!("the services of this file are {}{rest}", names.join(", ")))
        }
    }
}

fn any_port(address: &ListenAddr) -> bool {
    matches!(address.socket(), ListenAddr::Tcp(address) if address.port() == 0)
}

/// Whether `one` is the unspecified address of the same family and port as `other`.
fn covers(one: &ListenAddr, other: &ListenAddr) -> bool {
    let (ListenAddr::Tcp(one), ListenAddr::Tcp(other)) = (one.socket(), other.socket()) else {
        return false;
    };
    one.port() != 0
        && one.port() == other.port()
        && one.ip().is_unspecified()
        && !other.ip().is_unspecified()
        && one.is_ipv4() == other.is_ipv4()
}

fn leads_to(upstream: &ExternalAddr, own: &ListenAddr) -> bool {
    match (upstream, own) {
        (ExternalAddr::Unix(path), ListenAddr::Unix(own)) => path == own,
        (ExternalAddr::Tcp(host, port), ListenAddr::Tcp(own) | ListenAddr::Tls(own)) => {
            let ip = if host == "localhost" { Some(IpAddr::from([127, 0, 0, 1])) } else { host.parse().ok() };
            ip.is_some_and(|ip: IpAddr| {
                let wildcard = SocketAddr::new(own.ip(), *port).ip().is_unspecified() && ip.is_loopback();
                *port == own.port() && (ip == own.ip() || (wildcard && ip.is_ipv4() == own.is_ipv4()))
            })
        }
        _ => false,
    }
}
