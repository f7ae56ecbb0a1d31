//! `[[routes]]`, each by itself. What they have to do with each other and with the services is in `relations`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::StatusCode;
use pilotlight_gateway::{
    AmbiguousPaths, Limits, NotAProtocol, PlainHttp, RateScope, RouteCache, RouteControl, RouteRules, RouteSpec,
    RouteTo, Upgrades,
};
use pilotlight_gateway::{PERMITTED, is_permitted};
use toml::de::{DeTable, DeValue};

use super::admission::{self, Needs};
use super::caching;
use super::changes;
use super::compress;
use super::diagnostic::{Code, Diagnostic, Span};
use super::error_pages::Pages;
use super::files;
use super::json;
use super::named_files::AdmissionFile;
use super::pattern;
use super::readers::{choice, word};
use super::redirect;
use super::schema::{self, Part};
use super::section::{Field, Section, a_size, a_time, noted, or_none, type_name};
use super::shown::shown;
use super::value::Rejected;
use super::when;

/// The keys that say where a route leads; each route has one of them.
const LEADS: [(&str, &str); 4] = [
    ("service", "service = \"NAME\", the name of a [services.NAME]"),
    ("files", "files = \"FOLDER\""),
    ("redirect", "redirect = \"URL\""),
    ("respond", "respond = STATUS"),
];
/// Keys that say something of a service, or of what is kept of its answers.
const OF_A_SERVICE: [&str; 10] = [
    "strip_prefix",
    "restore_prefix",
    "rewrite",
    "upgrades",
    "cache",
    "timeout",
    "response_timeout",
    "response_body_timeout",
    "body_size",
    "request_fields",
];

/// Where a route leads.
#[derive(Clone, Debug)]
pub(super) enum Leads {
    /// To the service of this name.
    Service(String, Span),
    /// To no service.
    Itself(RouteTo, Span),
}

/// A route before its service is known.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// Without where it leads.
    pub(super) route: RouteSpec,
    /// Where its path stands; none: its path or its host is missing or wrong.
    pub(super) at: Option<Span>,
    /// None: what the file says of it is wrong, or missing.
    pub(super) leads: Option<Leads>,
    /// Where the cache is asked for.
    pub(super) cache_at: Option<Span>,
    /// What its rules of admission need of others.
    pub(super) needs: Needs,
    /// Where its rate is said to be counted by all gateways.
    pub(super) shared_at: Option<Span>,
}

pub(super) fn read_all(field: Option<Field<'_>>, pages: &mut Pages<'_>, found: &mut Vec<Diagnostic>) -> Vec<Draft> {
    let Some(field) = field else { return Vec::new() };
    let DeValue::Array(list) = field.value else {
        let diagnostic = field.wrong_type();
        found.push(match field.value {
            DeValue::Table(_) => diagnostic.help("write [[routes]], with two brackets, once for each route"),
            _ => diagnostic,
        });
        return Vec::new();
    };
    if list.len() > schema::MAX_ROUTES {
        let message = format!("the file has {} routes; at most {} are allowed", list.len(), schema::MAX_ROUTES);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
    }
    let mut drafts = Vec::new();
    for item in list.iter().take(schema::MAX_ROUTES) {
        match item.get_ref() {
            DeValue::Table(table) => drafts.push(read(item.span(), table, pages, found)),
            other => {
                let message = format!("each of `routes` must be a section, not {}", type_name(other));
                let help = "write [[routes]] with path = \"…\" and service = \"…\" below it, once for each route";
                found.push(Diagnostic::error(Code::WrongType, item.span(), message).help(help));
            }
        }
    }
    drafts
}

/// The files that their rules of admission need.
pub(super) fn admission_files(drafts: &[Draft]) -> Vec<AdmissionFile> {
    drafts.iter().flat_map(|draft| draft.needs.files.iter().cloned()).collect()
}

/// The folders of those that lead to files.
pub(super) fn file_roots(drafts: &[Draft]) -> Vec<(PathBuf, Span)> {
    let root = |draft: &Draft| match &draft.leads {
        Some(Leads::Itself(RouteTo::Files(options), at)) => Some((options.root.clone(), at.clone())),
        _ => None,
    };
    drafts.iter().filter_map(root).collect()
}

fn read<'a>(at: Span, table: &'a DeTable<'a>, pages: &mut Pages<'_>, found: &mut Vec<Diagnostic>) -> Draft {
    let section = Section::read(Part::Route, "in [[routes]]", at, table, found);
    let mut route = RouteSpec::new("", RouteTo::Service(0));
    section.set("exact", Field::boolean, &mut route.exact, found);
    let mut at = path(&section, &mut route, found);
    section.set("strip_prefix", Field::boolean, &mut route.strip_prefix, found);
    section.set("restore_prefix", Field::boolean, &mut route.restore_prefix, found);
    if let (true, false, Some(field)) = (route.restore_prefix, route.strip_prefix, section.field("restore_prefix")) {
        let message = "`restore_prefix` has no effect without `strip_prefix`";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("add strip_prefix = true"));
    }
    if let (true, "/", Some(field)) = (route.strip_prefix, route.path.as_str(), section.field("strip_prefix")) {
        let message = "`strip_prefix` has no effect: the path is `/`";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
    }
    if let Some(field) = section.field("host") {
        let host = noted(field.string(), found).map(|text| pattern::host(text).map_err(|wrong| field.rejected(wrong)));
        route.host = host.and_then(|host| noted(host, found));
        at = at.filter(|_| route.host.is_some());
    }
    if let Some(field) = section.field("json") {
        let rule = json::read(&field, found);
        at = at.filter(|_| rule.is_some());
        route.json = rule.map(Arc::new);
    }
    if let Some(field) = section.field("when") {
        let conditions = when::read(&field, found);
        at = at.filter(|_| conditions.is_some());
        route.when = conditions.map(Arc::new);
        if let Some(json) = section.field("json") {
            let message = "`when` and `json` cannot both be there";
            found.push(Diagnostic::error(Code::Conflict, field.key_at, message).related(json.key_at, "`json` is"));
        }
    }
    let leads = leads(&section, pages.folder, found);
    if let Some(Leads::Itself(..)) = &leads {
        without_service(&section, found);
    }
    section.set("timeout", or_none(a_time(&RouteSpec::TIMEOUT)), &mut route.timeout, found);
    section.set("response_timeout", a_time(&Limits::RESPONSE_TIMEOUT), &mut route.response_timeout, found);
    let silence = &mut route.response_body_timeout;
    section.set("response_body_timeout", or_none(a_time(&Limits::RESPONSE_TIMEOUT)), silence, found);
    section.set("body_size", or_none(a_size(&Limits::BODY_SIZE)), &mut route.body_size, found);
    if let Some(field) = section.field("https") {
        route.plain_http = word(&field, &PlainHttp::NAMES, found).unwrap_or_default();
    }
    if let Some(field) = section.field("ambiguous_paths") {
        route.ambiguous_paths = word(&field, &AmbiguousPaths::NAMES, found).unwrap_or_default();
    }
    section.set("hsts", a_time(&RouteSpec::HSTS), &mut route.hsts, found);
    route.upgrades = upgrades(&section, found);
    let errors = pages.read(section.field("errors"), "in the route's errors", found);
    route.changes = changes::read(&section, &route.path, errors, found).map(Arc::new);
    route.compress = section.field("compress").and_then(|field| compress::read(&field, found)).map(Arc::new);
    internal(&section, &mut route, found);
    let (cache, cache_at) = cache(section.field("cache"), found);
    route.cache = cache;
    let mut needs = Needs::default();
    route.admission = admission::read(&section, pages.folder, &mut needs, found);
    let within = |name: &str, key: &str| Some(section.field(name)?.value.as_table()?.get(key)?.span());
    let limit = route.admission.as_ref().and_then(|admission| admission.limit.rate.as_ref());
    let shared_at = limit.filter(|rate| rate.scope == RateScope::Shared).and_then(|_| within("limit", "shared"));
    Draft { route, at, leads, cache_at, needs, shared_at }
}

/// `tls = "internal"`: the local authority signs for the route's host.
fn internal(section: &Section<'_>, route: &mut RouteSpec, found: &mut Vec<Diagnostic>) {
    let Some(field) = section.field("tls") else { return };
    if noted(choice(&field, &["internal"]), found).is_none() {
        return;
    }
    let Some(host) = &route.host else {
        let message = "`tls` has no effect: the route has no host";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("add host = \"app.test\""));
        return;
    };
    route.internal_tls = is_permitted(host);
    if !route.internal_tls {
        let message = format!("the local authority gives no certificate for {}", shown(host));
        let names = PERMITTED.join(", ");
        let help = format!("its names end in {names}: with its key nobody can pretend to be a site");
        found.push(Diagnostic::error(Code::BadValue, field.at, message).help(help));
    }
}

/// Where the route leads, which one key says.
fn leads(section: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<Leads> {
    let mut said = LEADS.iter().filter_map(|(name, _)| section.field(name));
    let Some(field) = said.next() else {
        if !LEADS.iter().any(|(name, _)| section.mentions(name)) {
            let message = "the route leads nowhere: it has no `service`, no `files`, no `redirect` and no `respond`";
            let ways: Vec<&str> = LEADS.iter().map(|(_, add)| *add).collect();
            found.push(
                Diagnostic::error(Code::MissingKey, section.at.clone(), message)
                    .help(format!("add {}", ways.join(", or "))),
            );
        }
        return None;
    };
    if let Some(other) = said.next() {
        let (one, other_name) = (field.key.name, other.key.name);
        let message = format!("`{one}` and `{other_name}` cannot both be there: a route leads to one of them");
        found.push(
            Diagnostic::error(Code::Conflict, other.key_at, message)
                .related(field.key_at, "the other one is")
                .help("take one of the two away, or make two routes with different paths"),
        );
        return None;
    }
    match field.key.name {
        "redirect" => {
            let redirect = redirect::read(&field, found)?;
            Some(Leads::Itself(RouteTo::Redirect(Arc::new(redirect)), field.at))
        }
        "respond" => {
            let status = noted(field.number(&RouteSpec::RESPOND), found)?;
            let status = StatusCode::from_u16(status).ok()?;
            Some(Leads::Itself(RouteTo::Respond(status), field.at))
        }
        "files" => {
            let options = files::read(&field, folder, found)?;
            Some(Leads::Itself(RouteTo::Files(Arc::new(options)), field.at))
        }
        _ => Some(Leads::Service(noted(field.string(), found)?.to_owned(), field.at)),
    }
}

/// What counts for a service only.
fn without_service(section: &Section<'_>, found: &mut Vec<Diagnostic>) {
    for field in OF_A_SERVICE.iter().filter_map(|name| section.field(name)) {
        let message = format!("`{}` has no effect: the route leads to no service", field.key.name);
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
    }
    if let (Some(files), Some(exact)) = (section.field("files"), section.field("exact"))
        && exact.value.as_bool() == Some(true)
    {
        let message = "`exact` and `files` cannot both be there: no file is below a single path";
        found.push(
            Diagnostic::error(Code::Conflict, exact.key_at, message)
                .related(files.key_at, "`files` is")
                .help("take `exact` away"),
        );
    }
}

/// Reads the path, and gives back where it stands.
fn path(section: &Section<'_>, route: &mut RouteSpec, found: &mut Vec<Diagnostic>) -> Option<Span> {
    let field = required(section, "path", "path = \"/\" for every request, or for example path = \"/users\"", found)?;
    let text = noted(field.string(), found)?;
    let read = noted(pattern::path(text, route.exact).map_err(|wrong| field.rejected(wrong)), found)?;
    if let Some(remark) = read.remark {
        found.push(Diagnostic::warning(Code::BadValue, field.at.clone(), remark.reason).maybe_help(remark.help));
    }
    route.path = read.path;
    Some(field.at)
}

/// The protocols that a connection may switch to.
fn upgrades(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> Upgrades {
    let Some(field) = section.field("upgrades") else { return Upgrades::default() };
    let names = caching::words(Some(&field), found, |word, _| {
        Upgrades::name(word).map_err(|why| match why {
            NotAProtocol::Name => Rejected::help(
                format!("{} is not the name of a protocol", shown(word)),
                "write it as it stands in the field Upgrade: \"websocket\", or with a version, \"chat/2\"",
            ),
            NotAProtocol::Http => Rejected::help(
                format!("{} never passes", shown(word)),
                "behind it are requests that the gateway does not see: no route, no cache and no limit applies to them",
            ),
        })
    });
    Upgrades::of(names)
}

fn required<'a>(section: &Section<'a>, name: &str, add: &str, found: &mut Vec<Diagnostic>) -> Option<Field<'a>> {
    let field = section.field(name);
    if field.is_none() && !section.mentions(name) {
        let message = format!("the route has no `{name}`");
        found.push(Diagnostic::error(Code::MissingKey, section.at.clone(), message).help(format!("add {add}")));
    }
    field
}

fn cache(field: Option<Field<'_>>, found: &mut Vec<Diagnostic>) -> (RouteCache, Option<Span>) {
    match field {
        None => (RouteCache::default(), None),
        Some(Field { value: DeValue::Boolean(false), .. }) => (RouteCache::Off, None),
        Some(Field { value: DeValue::Boolean(true), at, .. }) => (RouteCache::default(), Some(at)),
        Some(Field { value: DeValue::Table(table), at, .. }) => (caching::read(at.clone(), table, found), Some(at)),
        Some(field) => {
            let default_ttl = noted(field.time(&RouteRules::LIFETIME), found);
            let rules = RouteRules { default_ttl, ..RouteRules::default() };
            (RouteCache::on(rules, RouteControl::default()), Some(field.at))
        }
    }
}
