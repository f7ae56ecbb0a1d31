//! Routes that take requests by fields of a JSON body.
//!
//! A request of which such a route could be the most specific is not routed by its head: its body is read up to the
//! fields that are asked for. Within one host and path, a route with more fields comes before one with fewer, a value
//! before a pattern, a longer pattern before a shorter, and all of them before the route without. A route whose fields
//! are others leaves the request to the next less specific one.

use std::cmp::Reverse;

use crate::options::RouteSpec;

/// The routes of a table that have such rules, the most specific first.
#[derive(Default)]
pub(crate) struct JsonRoutes(Vec<JsonRoute>);

struct JsonRoute {
    /// Exact, `*.example.org`, or none.
    host: Option<Box<str>>,
    path: Box<str>,
    exact: bool,
    index: usize,
}

impl JsonRoutes {
    /// Of all routes of a table, those that have a rule.
    pub(crate) fn of(routes: &[RouteSpec]) -> Option<Box<Self>> {
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

    /// Those that could take a request for a host and a path, in their normal form, before `plain`, the route that its
    /// head alone leads to: their places in the table.
    pub(crate) fn candidates(
        &self,
        all: &[impl std::ops::Deref<Target = impl std::ops::Deref<Target = RouteSpec>>],
        host: &str,
        path: &str,
        plain: Option<&RouteSpec>,
    ) -> Vec<usize> {
        let least = plain.map(place_rank);
        let fitting = self.0.iter().map(|route| (route, all.get(route.index)));
        let fitting =
            fitting.filter_map(|(route, spec)| Some((route, spec?))).filter(|(route, _)| route.takes(host, path));
        let before = fitting.take_while(|(_, spec)| least.as_ref().is_none_or(|least| place_rank(spec) >= *least));
        before.map(|(route, _)| route.index).collect()
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
