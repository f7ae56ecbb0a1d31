//! `[[routes]]`, each by itself. What they have to do with each other and with the services is in `relations`.

use pilotlight_gateway::{Limits, NotAProtocol, RouteCache, RouteControl, RouteRules, RouteSpec, Upgrades};
use toml::de::{DeTable, DeValue};

use super::caching;
use super::diagnostic::{Code, Diagnostic, Span};
use super::pattern;
use super::schema::{self, Part};
use super::section::{Field, Section, a_size, a_time, noted, or_none, type_name};
use super::shown::shown;
use super::value::Rejected;

/// A route before its service is known.
#[derive(Debug)]
pub(super) struct Draft {
    /// Without its service.
    pub(super) route: RouteSpec,
    /// Where its path stands; none: its path or its host is missing or wrong.
    pub(super) at: Option<Span>,
    pub(super) service: Option<(String, Span)>,
    /// Where the cache is asked for.
    pub(super) cache_at: Option<Span>,
}

pub(super) fn read_all(field: Option<Field<'_>>, found: &mut Vec<Diagnostic>) -> Vec<Draft> {
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
            DeValue::Table(table) => drafts.push(read(item.span(), table, found)),
            other => {
                let message = format!("each of `routes` must be a section, not {}", type_name(other));
                let help = "write [[routes]] with path = \"…\" and service = \"…\" below it, once for each route";
                found.push(Diagnostic::error(Code::WrongType, item.span(), message).help(help));
            }
        }
    }
    drafts
}

fn read<'a>(at: Span, table: &'a DeTable<'a>, found: &mut Vec<Diagnostic>) -> Draft {
    let section = Section::read(Part::Route, "in [[routes]]", at, table, found);
    let mut route = RouteSpec::new("", 0);
    section.set("exact", Field::boolean, &mut route.exact, found);
    let mut at = path(&section, &mut route, found);
    section.set("strip_prefix", Field::boolean, &mut route.strip_prefix, found);
    if let (true, "/", Some(field)) = (route.strip_prefix, route.path.as_str(), section.field("strip_prefix")) {
        let message = "`strip_prefix` has no effect: the path is `/`";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
    }
    if let Some(field) = section.field("host") {
        let host = noted(field.string(), found).map(|text| pattern::host(text).map_err(|wrong| field.rejected(wrong)));
        route.host = host.and_then(|host| noted(host, found));
        at = at.filter(|_| route.host.is_some());
    }
    let service = required(&section, "service", "service = \"NAME\", the name of a [services.NAME]", found)
        .and_then(|field| Some((noted(field.string(), found)?.to_owned(), field.at)));
    section.set("timeout", or_none(a_time(&RouteSpec::TIMEOUT)), &mut route.timeout, found);
    section.set("response_timeout", a_time(&Limits::RESPONSE_TIMEOUT), &mut route.response_timeout, found);
    let silence = &mut route.response_body_timeout;
    section.set("response_body_timeout", or_none(a_time(&Limits::RESPONSE_TIMEOUT)), silence, found);
    section.set("body_size", or_none(a_size(&Limits::BODY_SIZE)), &mut route.body_size, found);
    route.upgrades = upgrades(&section, found);
    let (cache, cache_at) = cache(section.field("cache"), found);
    route.cache = cache;
    Draft { route, at, service, cache_at }
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
