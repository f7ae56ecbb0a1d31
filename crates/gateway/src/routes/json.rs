//! Routes that take requests by fields of a JSON body.
//!
//! A request of which such a route could be the most specific is not routed by its head: its body is read up to the
//! fields that are asked for. Within one host and path, a route with more fields comes before one with fewer, a value
//! before a pattern, a longer pattern before a shorter, and all of them before the route without. A route whose fields
//! are others leaves the request to the next less specific one.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use pilotlight_json_fields::{Found, Pattern, Scanner};

use super::{Route, host_of};
use crate::options::RouteSpec;
use crate::path::normalized;

/// What fields of a body have to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonRule {
    fields: Vec<(Box<str>, Pattern)>,
}

impl JsonRule {
    /// Most fields.
    pub const MAX_FIELDS: usize = 8;
    /// Most bytes of a field's name.
    pub const MAX_NAME: usize = 128;

    /// Asks for one field more.
    pub fn add(&mut self, name: &str, pattern: Pattern) {
        self.fields.push((name.into(), pattern));
        self.fields.sort_by(|one, other| one.0.cmp(&other.0));
    }

    /// The names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| &**name)
    }

    /// Whether what was found is what the rule asks for.
    pub(crate) fn takes(&self, scanner: &Scanner) -> bool {
        self.fields.iter().all(|(name, pattern)| match scanner.found(name) {
            Some(Found::Text(text)) => pattern.matches(text),
            Some(Found::Other) | None => false,
        })
    }

    fn rank(&self) -> impl Ord + use<> {
        let exact = self.fields.iter().filter(|(_, pattern)| pattern.is_exact()).count();
        let bytes: usize = self.fields.iter().map(|(_, pattern)| pattern.fixed_bytes()).sum();
        (self.fields.len(), exact, bytes)
    }
}

/// As a part of a route's label.
impl fmt::Display for JsonRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<String> = self.fields.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
        write!(formatter, "{{{}}}", fields.join(","))
    }
}

/// The routes of a table that have such rules, the most specific first.
#[derive(Default)]
pub(super) struct JsonRoutes(Vec<JsonRoute>);

struct JsonRoute {
    /// Exact, `*.example.org`, or none.
    host: Option<Box<str>>,
    path: Box<str>,
    exact: bool,
    index: usize,
}

impl JsonRoutes {
    /// Of all routes of a table, those that have a rule.
    pub(super) fn of(routes: &[RouteSpec]) -> Option<Box<Self>> {
        let mut all: Vec<(usize, &RouteSpec)> =
            routes.iter().enumerate().filter(|(_, route)| route.json.is_some()).collect();
        // The order of the file decides between equals, so that there is one.
        all.sort_by_key(|(_, route)| Reverse((place_rank(route), route.json.as_ref().map(|rule| rule.rank()))));
        let routes = all.into_iter().map(|(index, route)| JsonRoute {
            host: route.host.as_deref().map(|host| host.to_ascii_lowercase().into()),
            path: if route.exact { route.path.as_str() } else { route.path.trim_end_matches('/') }.into(),
            exact: route.exact,
            index,
        });
        let routes = Self(routes.collect());
        (!routes.0.is_empty()).then(|| Box::new(routes))
    }

    /// Those that could take the request before `plain`, the route that its head alone leads to.
    pub(super) fn candidates(
        &self,
        all: &[Arc<Route>],
        authority: &str,
        path: &str,
        plain: Option<&Arc<Route>>,
    ) -> Vec<Arc<Route>> {
        let (path, host) = (normalized(path), host_of(authority).to_ascii_lowercase());
        let least = plain.map(|route| place_rank(route));
        let fitting = self.0.iter().filter(|route| route.takes(&host, &path));
        let routes = fitting.filter_map(|route| all.get(route.index));
        routes.take_while(|route| least.as_ref().is_none_or(|least| place_rank(route) >= *least)).cloned().collect()
    }
}

impl JsonRoute {
    fn takes(&self, host: &str, path: &str) -> bool {
        let takes_host = match self.host.as_deref().map(|own| own.strip_prefix('*').ok_or(own)) {
            None => true,
            Some(Ok(suffix)) => host.len() > suffix.len() && host.ends_with(suffix),
            Some(Err(own)) => host == own,
        };
        let takes_path = match path.strip_prefix(&*self.path) {
            Some("") => true,
            Some(below) => !self.exact && below.starts_with('/'),
            None => false,
        };
        takes_host && takes_path
    }
}

/// How specific its host and its path are.
fn place_rank(route: &RouteSpec) -> impl Ord + use<> {
    let host = match route.host.as_deref() {
        None => (0, 0),
        Some(host) if host.starts_with('*') => (1, host.len()),
        Some(_) => (2, 0),
    };
    (host, route.exact, route.path.trim_end_matches('/').len())
}

/// Routes of which the body decides.
pub(crate) struct Choice {
    /// The most specific first.
    pub(crate) candidates: Vec<Arc<Route>>,
    /// Where a request goes that none of them takes.
    pub(crate) plain: Option<Arc<Route>>,
}

impl Choice {
    /// A scanner for the fields that its routes ask for.
    pub(crate) fn scanner(&self) -> Scanner {
        let mut names: Vec<&str> = self.rules().flat_map(JsonRule::names).collect();
        names.sort_unstable();
        names.dedup();
        Scanner::new(names)
    }

    /// The route for what was found.
    pub(crate) fn pick(&self, scanner: &Scanner) -> Option<&Arc<Route>> {
        let takes = |route: &&Arc<Route>| route.json.as_ref().is_some_and(|rule| rule.takes(scanner));
        self.candidates.iter().find(takes).or(self.plain.as_ref())
    }

    /// The fields, for people.
    pub(crate) fn fields(&self) -> String {
        let mut names: Vec<String> = self.rules().flat_map(JsonRule::names).map(|name| format!("`{name}`")).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    fn rules(&self) -> impl Iterator<Item = &JsonRule> {
        self.candidates.iter().filter_map(|route| route.json.as_deref())
    }
}
