//! `[[routes]]`, each by itself. What they have to do with each other and with the services is in `relations`.

use std::time::Duration;

use pilotlight_gateway::{BodyTimeout, NotAProtocol, Upgrades};
use toml::de::{DeTable, DeValue};

use super::caching;
use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{HostPattern, Limits, PathMatch, RouteCache};
use super::pattern;
use super::schema::{self, Part};
use super::section::{Field, Section, noted, type_name};
use super::shown::shown;
use super::value::Rejected;

/// A route before its service is known.
#[derive(Debug)]
pub(super) struct Draft {
    /// None: no host is given; some none: it is wrong.
    pub(super) host: Option<Option<HostPattern>>,
    pub(super) path: Option<(String, Span)>,
    pub(super) path_match: PathMatch,
    pub(super) service: Option<(String, Span)>,
    pub(super) strip_prefix: bool,
    pub(super) upgrades: Upgrades,
    pub(super) cache: RouteCache,
    /// Where the cache is asked for.
    pub(super) cache_at: Option<Span>,
    pub(super) timeout: Option<Duration>,
    pub(super) response_timeout: Duration,
    pub(super) response_body_timeout: BodyTimeout,
    pub(super) body_size: Option<u64>,
}

pub(super) fn read_all(field: Option<Field<'_>>, limits: &Limits, found: &mut Vec<Diagnostic>) -> Vec<Draft> {
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
            DeValue::Table(table) => drafts.push(read(item.span(), table, limits, found)),
            other => {
                let message = format!("each of `routes` must be a section, not {}", type_name(other));
                let help = "write [[routes]] with path = \"…\" and service = \"…\" below it, once for each route";
                found.push(Diagnostic::error(Code::WrongType, item.span(), message).help(help));
            }
        }
    }
    drafts
}

fn read<'a>(at: Span, table: &'a DeTable<'a>, limits: &Limits, found: &mut Vec<Diagnostic>) -> Draft {
    let section = Section::read(Part::Route, "in [[routes]]", at, table, found);
    let path_match = if section.boolean("exact", false, found) { PathMatch::Exact } else { PathMatch::Prefix };
    let path = path(&section, path_match, found);
    let (cache, cache_at) = cache(section.field("cache"), found);
    let strip_prefix = section.boolean("strip_prefix", false, found);
    if let (true, Some(("/", _)), Some(field)) =
        (strip_prefix, path.as_ref().map(|(path, at)| (path.as_str(), at)), section.field("strip_prefix"))
    {
        let message = "`strip_prefix` has no effect: the path is `/`";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
    }
    Draft {
        host: section.field("host").map(|field| {
            let text = noted(field.string(), found)?;
            noted(pattern::host(text).map_err(|wrong| field.rejected(wrong)), found)
        }),
        service: required(&section, "service", "service = \"NAME\", the name of a [services.NAME]", found)
            .and_then(|field| Some((noted(field.string(), found)?.to_owned(), field.at))),
        timeout: section.time_or_none("timeout", &schema::ROUTE_TIMEOUT, None, found),
        response_timeout: section
            .field("response_timeout")
            .and_then(|field| noted(field.time(&schema::RESPONSE_TIMEOUT), found))
            .unwrap_or(limits.response_timeout),
        response_body_timeout: match section.field("response_body_timeout") {
            Some(_) => BodyTimeout::Own(section.time_or_none(
                "response_body_timeout",
                &schema::RESPONSE_BODY_TIMEOUT,
                limits.response_body_timeout,
                found,
            )),
            None => BodyTimeout::General,
        },
        body_size: section.size_or_none("body_size", &schema::BODY_SIZE, limits.body_size, found),
        path,
        path_match,
        strip_prefix,
        upgrades: upgrades(&section, found),
        cache,
        cache_at,
    }
}

fn path(section: &Section<'_>, path_match: PathMatch, found: &mut Vec<Diagnostic>) -> Option<(String, Span)> {
    let field = required(section, "path", "path = \"/\" for every request, or for example path = \"/users\"", found)?;
    let text = noted(field.string(), found)?;
    let read = noted(pattern::path(text, path_match).map_err(|wrong| field.rejected(wrong)), found)?;
    if let Some(remark) = read.remark {
        found.push(Diagnostic::warning(Code::BadValue, field.at.clone(), remark.reason).maybe_help(remark.help));
    }
    Some((read.path, field.at))
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
        None => (RouteCache::Explicit, None),
        Some(Field { value: DeValue::Boolean(false), .. }) => (RouteCache::Off, None),
        Some(Field { value: DeValue::Boolean(true), at, .. }) => (RouteCache::Explicit, Some(at)),
        Some(Field { value: DeValue::Table(table), at, .. }) => {
            let rules = caching::read(at.clone(), table, found);
            (RouteCache::Rules(Box::new(rules)), Some(at))
        }
        Some(field) => {
            let lifetime = noted(field.time(&schema::CACHE_LIFETIME), found);
            (lifetime.map_or(RouteCache::Explicit, RouteCache::Lifetime), Some(field.at))
        }
    }
}
