//! Rules of an HTTPRoute at the doors that it has.

use std::collections::{BTreeMap, BTreeSet};

use super::attach::Attachment;
use super::backends::{self, Unresolved};
use super::listeners::{Door, Doors};
use super::text::{Table, inline, list, quoted};
use super::work::{Piece, Place, Work, parent_status};
use crate::api::{Filter, HeaderModifier, HttpRouteSpec, Match, PathModifier, Redirect, Rule, UrlRewrite};
use crate::conditions::{Condition, ParentStatus};
use crate::duration;
use crate::snapshot::{Key, Specified};

/// A status for a rule that leads nowhere (Gateway API, HTTPRouteRule.backendRefs).
const LEADS_NOWHERE: &str = "500";

/// A status for a request that a listener has no route for.
const NO_ROUTE: &str = "404";

/// Puts a route into the configuration, and says what came of it at each parent.
pub(super) fn route(
    work: &mut Work<'_>,
    doors: &mut Doors,
    key: &Key,
    route: &Specified<HttpRouteSpec>,
    attachments: Vec<Attachment>,
) -> Vec<ParentStatus> {
    let mut unresolved: Option<Unresolved> = None;
    let places = Places::of(doors, &attachments);
    let mut refused = None;
    let before = work.pieces.len();
    for (index, rule) in route.spec.rules.iter().enumerate() {
        let of = OfRule { key, index, cache: route.meta.annotations.get("cache").map(String::as_str) };
        if let Err(why) = of.rule(work, rule, &places, &mut unresolved) {
            refused = Some(why);
            // All of it or nothing: half a route would send requests where nobody wants them.
            work.take_back(before);
            break;
        }
    }
    let resolved = match unresolved {
        None => Condition::yes("ResolvedRefs", "ResolvedRefs"),
        Some((reason, message)) => Condition::no("ResolvedRefs", reason, message),
    };
    let mut statuses = Vec::with_capacity(attachments.len());
    for attachment in attachments {
        let accepted = match (&attachment.refused, &refused) {
            (Some(refused), _) => refused.clone(),
            (None, Some(why)) => Condition::no("Accepted", "UnsupportedValue", why.clone()),
            (None, None) => {
                attachment.doors.iter().for_each(|(door, _)| doors.attached(*door, key));
                Condition::yes("Accepted", "Accepted")
            }
        };
        statuses.push(parent_status(&attachment, accepted, resolved.clone()));
    }
    statuses
}

/// What a redirect has to know of a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    scheme: &'static str,
    port: u16,
    listened: u16,
}

/// Hosts of a route, each with the listeners that it has there.
struct Places {
    hosts: BTreeMap<Option<String>, BTreeSet<Entry>>,
    /// All ports that are listened on.
    ports: BTreeSet<u16>,
}

impl Places {
    fn of(doors: &Doors, attachments: &[Attachment]) -> Self {
        let mut hosts: BTreeMap<_, BTreeSet<Entry>> = BTreeMap::new();
        for (index, of_door) in attachments.iter().flat_map(|attachment| &attachment.doors) {
            let Some(door) = doors.all.get(*index).filter(|door| door.is_open()) else { continue };
            let Door { port, listened, protocol, .. } = door;
            let entry = Entry { scheme: protocol.scheme(), port: *port, listened: *listened };
            for host in of_door.iter().filter(|host| !doors.is_of_narrower(*index, host.as_deref())) {
                hosts.entry(host.clone()).or_default().insert(entry);
            }
        }
        Self { hosts, ports: doors.ports() }
    }
}

struct OfRule<'a> {
    key: &'a Key,
    index: usize,
    cache: Option<&'a str>,
}

/// Where a rule leads.
enum Leads {
    Service(String),
    Nowhere,
    Redirect(Redirect),
}

impl OfRule<'_> {
    fn rule(
        &self,
        work: &mut Work<'_>,
        rule: &Rule,
        places: &Places,
        unresolved: &mut Option<Unresolved>,
    ) -> Result<(), String> {
        let whole = |what: &str| format!("rule {}: {what}", self.index);
        if rule.session_persistence.is_some() {
            return Err(whole("sessionPersistence is not supported"));
        }
        if rule.retry.is_some() {
            return Err(whole("retry is not supported"));
        }
        let filters = Filters::of(&rule.filters).map_err(|why| whole(&why))?;
        let leads = match &filters.redirect {
            Some(redirect) => Leads::Redirect(redirect.clone()),
            None => self.backends(work, rule, unresolved).map_err(|why| whole(&why))?,
        };
        let everything = [Match::default()];
        let matches = if rule.matches.is_empty() { &everything[..] } else { &rule.matches };
        for one in matches {
            let one = Matched::of(one).map_err(|why| whole(&why))?;
            let common = self.common(rule, &filters, &one, &leads).map_err(|why| whole(&why))?;
            for (host, entries) in &places.hosts {
                for piece in pieces(host.as_deref(), entries, places, &one, &leads, &common)? {
                    work.push(&piece).map_err(|why| whole(&why))?;
                }
                if let (Some(host), true) = (host, one.is_everything()) {
                    work.taken.extend(entries.iter().map(|entry| (host.clone(), entry.listened)));
                }
            }
        }
        Ok(())
    }

    fn backends(&self, work: &mut Work<'_>, rule: &Rule, unresolved: &mut Option<Unresolved>) -> Result<Leads, String> {
        let (mut resolved, mut lost) = (Vec::new(), 0);
        for reference in &rule.backend_refs {
            if !reference.filters.is_empty() {
                return Err("filters of backendRefs are not supported".to_owned());
            }
            match backends::of_route(work.snapshot, self.key, reference) {
                Ok(one) => resolved.push(one),
                Err(why) => {
                    *unresolved = Some(why);
                    lost += u64::from(reference.weight.unwrap_or(1));
                }
            }
        }
        let name = format!("{}_{}_r{}", self.key.namespace, self.key.name, self.index);
        match work.backends.add(work.snapshot, &name, resolved, lost) {
            Ok(Some(service)) => Ok(Leads::Service(service)),
            Ok(None) => Ok(Leads::Nowhere),
            Err(why) => {
                *unresolved = Some(why);
                Ok(Leads::Nowhere)
            }
        }
    }

    /// What is the same at all hosts.
    fn common(&self, rule: &Rule, filters: &Filters<'_>, one: &Matched<'_>, leads: &Leads) -> Result<Table, String> {
        let mut table = Table::default();
        table.set("https", quoted("allow"));
        if !filters.response.is_empty() {
            table.set("response_fields", fields(&filters.response, None)?);
        }
        if !matches!(leads, Leads::Service(_)) {
            return Ok(table);
        }
        let host = filters.rewrite.as_ref().and_then(|rewrite| rewrite.hostname.as_deref());
        if !filters.request.is_empty() || host.is_some() {
            table.set("request_fields", fields(&filters.request, host)?);
        }
        if let Some(path) = filters.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref()) {
            table.set("rewrite", rewrite(path, one)?);
        }
        let timeouts = rule.timeouts.clone().unwrap_or_default();
        for (key, time) in [("timeout", timeouts.request), ("response_timeout", timeouts.backend_request)] {
            let Some(text) = time else { continue };
            let time = duration::parse(&text).ok_or_else(|| format!("{text:?} is not a time"))?;
            if !time.is_zero() {
                table.set(key, quoted(&duration::written(time))); // 0: no limit
            }
        }
        if let Some(cache) = self.cache {
            table.set("cache", cached(cache));
        }
        Ok(table)
    }
}

/// The annotation `cache`: `true`, `false` or a time.
pub(super) fn cached(text: &str) -> String {
    if matches!(text, "true" | "false") { text.to_owned() } else { quoted(text) }
}

/// The routes of one match at one host.
fn pieces(
    host: Option<&str>,
    entries: &BTreeSet<Entry>,
    places: &Places,
    one: &Matched<'_>,
    leads: &Leads,
    common: &Table,
) -> Result<Vec<Piece>, String> {
    let service = match leads {
        Leads::Service(name) => Some(name.clone()),
        Leads::Nowhere | Leads::Redirect(_) => None,
    };
    let piece = |ports: Vec<u16>, leads: &dyn Fn(&mut Table)| {
        let conditions = one.conditions(&ports);
        let place = Place { host, path: one.path, exact: one.exact, conditions: conditions.as_deref() };
        let mut table = place.table();
        leads(&mut table);
        table.extend(common);
        Piece { place: place.text(), service: service.clone(), table }
    };
    match leads {
        Leads::Redirect(redirect) => {
            let one_entry = |entry: &Entry| {
                let to = location(redirect, *entry, one)?;
                let status = redirect.status_code.unwrap_or(302).to_string();
                let to = inline([("to".to_owned(), quoted(&to)), ("status".to_owned(), status)]);
                Ok(piece(only(&[entry.listened], places), &|table| table.set("redirect", to.clone())))
            };
            entries.iter().map(one_entry).collect()
        }
        Leads::Service(_) | Leads::Nowhere => {
            let listened: Vec<u16> = entries.iter().map(|entry| entry.listened).collect();
            let leads = |table: &mut Table| match leads {
                Leads::Service(name) => table.set("service", quoted(name)),
                _ => table.set("respond", LEADS_NOWHERE.to_owned()),
            };
            Ok(vec![piece(only(&listened, places), &leads)])
        }
    }
}

/// No ports if these are all that there are.
fn only(listened: &[u16], places: &Places) -> Vec<u16> {
    let all: BTreeSet<u16> = listened.iter().copied().collect();
    if places.ports.is_subset(&all) { Vec::new() } else { all.into_iter().collect() }
}

/// A match that the gateway has.
struct Matched<'a> {
    path: &'a str,
    exact: bool,
    one: &'a Match,
}

impl<'a> Matched<'a> {
    fn of(one: &'a Match) -> Result<Self, String> {
        let (kind, path) = match &one.path {
            None => ("PathPrefix", "/"),
            Some(path) => (path.kind.as_deref().unwrap_or("PathPrefix"), path.value.as_deref().unwrap_or("/")),
        };
        let exact = match kind {
            "Exact" => true,
            "PathPrefix" => false,
            other => return Err(format!("paths of the type {other} are not supported")),
        };
        let wrong = one
            .headers
            .iter()
            .chain(&one.query_params)
            .find(|one| one.kind.as_deref().is_some_and(|kind| kind != "Exact"));
        if let Some(wrong) = wrong {
            let kind = wrong.kind.as_deref().unwrap_or_default();
            return Err(format!("matches of the type {kind} are not supported ({})", wrong.name));
        }
        // What is below `/a/` is below `/a`.
        let path = if exact || path.len() == 1 { path } else { path.strip_suffix('/').unwrap_or(path) };
        Ok(Self { path, exact, one })
    }

    /// Whether it takes every request to its host.
    fn is_everything(&self) -> bool {
        let Match { method, headers, query_params, .. } = self.one;
        self.path == "/" && !self.exact && method.is_none() && headers.is_empty() && query_params.is_empty()
    }

    /// `when`; none: nothing is asked for.
    fn conditions(&self, ports: &[u16]) -> Option<String> {
        let mut all = Vec::new();
        if let Some(method) = &self.one.method {
            all.push(("methods".to_owned(), list([method.as_str()])));
        }
        let pairs = |all: &[crate::api::ValueMatch], same: fn(&str) -> String| {
            // Of several with one name the first counts (Gateway API, HTTPRouteMatch).
            let mut first = BTreeMap::new();
            for one in all {
                first.entry(same(&one.name)).or_insert_with(|| one.value.clone());
            }
            inline(first.into_iter().map(|(name, value)| (quoted(&name), quoted(&value))))
        };
        if !self.one.headers.is_empty() {
            all.push(("headers".to_owned(), pairs(&self.one.headers, str::to_ascii_lowercase)));
        }
        if !self.one.query_params.is_empty() {
            all.push(("query".to_owned(), pairs(&self.one.query_params, str::to_owned)));
        }
        if !ports.is_empty() {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            all.push(("ports".to_owned(), format!("[{}]", ports.join(", "))));
        }
        (!all.is_empty()).then(|| inline(all))
    }
}

/// Filters of a rule.
#[derive(Default)]
struct Filters<'a> {
    request: HeaderModifier,
    response: HeaderModifier,
    redirect: Option<Redirect>,
    rewrite: Option<&'a UrlRewrite>,
}

impl<'a> Filters<'a> {
    fn of(all: &'a [Filter]) -> Result<Self, String> {
        let mut filters = Self::default();
        let missing = |filter: &Filter| format!("the filter {} says nothing", filter.kind);
        for filter in all {
            match filter.kind.as_str() {
                "RequestHeaderModifier" => {
                    let add = filter.request_header_modifier.clone().ok_or_else(|| missing(filter))?;
                    filters.request = add;
                }
                "ResponseHeaderModifier" => {
                    let add = filter.response_header_modifier.clone().ok_or_else(|| missing(filter))?;
                    filters.response = add;
                }
                "RequestRedirect" => {
                    filters.redirect = Some(filter.request_redirect.clone().ok_or_else(|| missing(filter))?);
                }
                "URLRewrite" => filters.rewrite = Some(filter.url_rewrite.as_ref().ok_or_else(|| missing(filter))?),
                other => return Err(format!("the filter {other} is not supported")),
            }
        }
        if filters.redirect.is_some() && filters.rewrite.is_some() {
            return Err("RequestRedirect and URLRewrite cannot both be there".to_owned());
        }
        Ok(filters)
    }
}

impl HeaderModifier {
    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// `request_fields` or `response_fields`.
fn fields(changes: &HeaderModifier, host: Option<&str>) -> Result<String, String> {
    let mut all = Vec::new();
    for (key, list_of) in [("set", &changes.set), ("add", &changes.add)] {
        let mut pairs: BTreeMap<String, (String, String)> = BTreeMap::new();
        for one in list_of {
            if has_placeholder(&one.value) {
                return Err(format!("the value of {} has a word in braces, which the gateway would fill in", one.name));
            }
            let name = one.name.to_ascii_lowercase();
            pairs.entry(name).or_insert_with(|| (quoted(&one.name), quoted(&one.value)));
        }
        if let (Some(host), "set") = (host, key) {
            pairs.insert("host".to_owned(), (quoted("Host"), quoted(host)));
        }
        if !pairs.is_empty() {
            all.push((key.to_owned(), inline(pairs.into_values())));
        }
    }
    if !changes.remove.is_empty() {
        all.push(("remove".to_owned(), list(changes.remove.iter().map(String::as_str))));
    }
    Ok(inline(all))
}

/// Whether the gateway would read `{word}` in it.
fn has_placeholder(value: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    value
        .split('{')
        .skip(1)
        .any(|after| after.split_once('}').is_some_and(|(word, _)| !word.is_empty() && word.chars().all(is_word)))
}

/// `rewrite`.
fn rewrite(path: &PathModifier, one: &Matched<'_>) -> Result<String, String> {
    let pair = |key: &str, text: &str| (key.to_owned(), quoted(text));
    match (path.kind.as_str(), &path.replace_full_path, &path.replace_prefix_match) {
        ("ReplaceFullPath", Some(to), _) if !has_placeholder(to) => {
            Ok(inline([pair("pattern", "/**"), pair("to", absolute(to))]))
        }
        ("ReplacePrefixMatch", _, Some(to)) if !one.exact => {
            Ok(inline([pair("prefix", one.path), pair("to", absolute(to))]))
        }
        ("ReplacePrefixMatch", ..) => Err("ReplacePrefixMatch needs a match of the type PathPrefix".to_owned()),
        (kind, ..) => Err(format!("the change of a path by {kind} is not supported")),
    }
}

fn absolute(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// Where a redirect leads from a listener.
fn location(redirect: &Redirect, entry: Entry, one: &Matched<'_>) -> Result<String, String> {
    let scheme = redirect.scheme.as_deref().unwrap_or(entry.scheme);
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        other => return Err(format!("redirects to the scheme {other} are not supported")),
    };
    // Gateway API, HTTPRequestRedirectFilter.port: that of the scheme if one is given, else that of the listener.
    let port = redirect.port.unwrap_or(if redirect.scheme.is_some() { default } else { entry.port });
    let host = redirect.hostname.as_deref().unwrap_or("{host}");
    let path = match &redirect.path {
        None => "{path}".to_owned(),
        Some(PathModifier { kind, replace_full_path: Some(to), .. }) if kind == "ReplaceFullPath" => {
            absolute(to).to_owned()
        }
        Some(PathModifier { kind, replace_prefix_match: Some(to), .. })
            if kind == "ReplacePrefixMatch" && !one.exact =>
        {
            format!("{}{{below}}", to.trim_end_matches('/'))
        }
        Some(path) => return Err(format!("the change of a path by {} is not supported here", path.kind)),
    };
    let port = if port == default { String::new() } else { format!(":{port}") };
    Ok(format!("{scheme}://{host}{port}{path}{{query}}"))
}

/// Keeps listeners of one port apart: what no route of the more specific host takes is 404, and no route of a less
/// specific listener has it (Gateway API, Listener.hostname).
pub(super) fn keep_apart(work: &mut Work<'_>, doors: &Doors) -> Result<(), String> {
    for (host, port) in doors.narrower() {
        if work.taken.contains(&(host.clone(), port)) {
            continue;
        }
        let conditions = inline([("ports".to_owned(), format!("[{port}]"))]);
        let place = Place { host: Some(&host), path: "/", exact: false, conditions: Some(&conditions) };
        let mut table = place.table();
        table.set("respond", NO_ROUTE.to_owned());
        table.set("https", quoted("allow"));
        work.push(&Piece { place: place.text(), service: None, table })?;
    }
    Ok(())
}
