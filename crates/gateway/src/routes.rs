//! From host and path to a route.
//!
//! Precedence, whatever the order in the file: an exact host before the longest wildcard host before no host; within
//! one, an exact path before the longest prefix. A prefix matches on segment boundaries only: `/api` takes `/api` and
//! `/api/x`, never `/apifoo`. A host whose routes do not match the path leaves it to the next less specific host.
//!
//! Matching looks at the normal form of the path ([`crate::path`]), so that `/public/../admin` and `/%61dmin` are
//! requests for `/admin`; the service gets the target as the client sent it. Where servers may read a path in several
//! ways, and one reading would meet stricter rules than the route that was found, the request is refused
//! ([`Table::check_readings`]).

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::admission::Gate;
use crate::admission::forward::ForwardAddr;
use crate::admission::spec::AdmissionSpec;
use crate::conditions::HeadFacts;
use crate::error_pages::{ErrorPages, LoadedPages, PageLevels};
use crate::json_routes::JsonRoutes;
use crate::jwks::KeySources;
use crate::metrics::Series;
use crate::options::{
    AmbiguousPaths, CgiOptions, External, ExternalAddr, ExternalSpec, LambdaOptions, RouteCache, RouteLimit, RouteSpec,
    RouteTo, ServerProtocol, ServiceTarget, Serving, Settings,
};
use crate::path::{self, normalized};
use crate::schedules::ScheduleSpec;
use crate::spill::Spill;
use crate::upgrades::Upgrades;

mod conditional;
mod hosts;

use conditional::Conditional;
use hosts::Hosts;

/// The longest wait for a page of an error that a service makes; then the gateway's own goes out.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// A route, and where its requests are counted.
pub(crate) struct Route {
    spec: RouteSpec,
    /// `None` where everybody is let in, always.
    pub(crate) gate: Option<Gate>,
    pub(crate) series: Arc<Series>,
    /// `None`: the gateway answers by itself, as [`RouteSpec::to`] says.
    pub(crate) service: Option<ServiceTarget>,
    /// How its service is told of requests, if that is by variables.
    pub(crate) cgi: Option<Arc<CgiOptions>>,
    /// Its settings, if it is a function of AWS Lambda.
    pub(crate) lambda: Option<Arc<LambdaOptions>>,
    /// Where requests go that it has no room for.
    pub(crate) spill: Option<Arc<Spill>>,
    /// The way to who else decides who is let in.
    pub(crate) auth: Option<Arc<Route>>,
    /// What an error looks like.
    pub(crate) pages: PageLevels,
    /// Whether a stored response may go out in another form than it is stored in.
    pub(crate) changes_responses: bool,
}

impl Route {
    /// The way to the auth server: a route that no request matches and that has no rules of its own. Its requests are
    /// not counted.
    fn to_auth_server(
        admission: &AdmissionSpec,
        services: &[ServiceTarget],
        kinds: &Kinds,
        series: &Arc<Series>,
    ) -> Option<Arc<Self>> {
        let forward = admission.allow.forward.as_ref()?;
        let of = |addr| {
            let spec = ExternalSpec::one("allow.forward", addr, ServerProtocol::Http1);
            ServiceTarget::External(Arc::new(External::new(spec)))
        };
        let service = match &forward.at {
            ForwardAddr::Tcp(host, port) => of(ExternalAddr::Tcp(host.clone(), *port)),
            ForwardAddr::Unix(path) => of(ExternalAddr::Unix(path.clone())),
            ForwardAddr::Service(name) => services.iter().find(|service| service.name() == name)?.clone(),
            ForwardAddr::Https { .. } => return None, // no server that services are behind
        };
        let (cache, timeout) = (RouteCache::Off, Some(forward.timeout));
        Some(Arc::new(Self {
            spec: RouteSpec { cache, timeout, ..RouteSpec::new("/", RouteTo::Service(0)) },
            gate: None,
            auth: None,
            series: Arc::clone(series),
            cgi: kinds.cgi.get(service.name()).cloned(),
            lambda: kinds.lambda.get(service.name()).cloned(),
            spill: None,
            service: Some(service),
            pages: PageLevels::default(),
            changes_responses: false,
        }))
    }
}

/// The way of a schedule's requests: a route that no other request matches.
fn of_schedule(schedule: &ScheduleSpec, service: usize) -> RouteSpec {
    RouteSpec {
        cache: RouteCache::Off,
        upgrades: Upgrades::of([]),
        timeout: Some(schedule.timeout),
        response_timeout: Some(schedule.timeout),
        response_body_timeout: RouteLimit::Own(None),
        ..RouteSpec::new("/", RouteTo::Service(service))
    }
}

/// Two routes with one URL and other conditions store what answers them apart.
fn with_key_of_conditions(mut spec: RouteSpec) -> RouteSpec {
    if let (Some(when), RouteCache::On { rules, control }) = (&spec.when, &spec.cache) {
        let mut control = control.as_deref().cloned().unwrap_or_default();
        control.key.route = when.to_string();
        spec.cache = RouteCache::on(*rules, control);
    }
    spec
}

/// What a service is told of a client it may answer by, so it belongs to the key of what is stored.
fn with_key_of_access(mut spec: RouteSpec) -> RouteSpec {
    let told = spec.admission.as_ref().map(|admission| admission.fields_of_access()).unwrap_or_default();
    if let (false, RouteCache::On { rules, control }) = (told.is_empty(), &spec.cache) {
        let mut control = control.as_deref().cloned().unwrap_or_default();
        let known = control.key.headers.clone();
        control.key.headers.extend(told.into_iter().filter(|name| !known.contains(name)));
        spec.cache = RouteCache::on(*rules, control);
    }
    spec
}

impl Deref for Route {
    type Target = RouteSpec;

    fn deref(&self) -> &RouteSpec {
        &self.spec
    }
}

/// All routes, where they lead to, and what counts for connections that begin now.
pub(crate) struct Table {
    routes: Vec<Arc<Route>>,
    hosts: Hosts,
    /// Those that bodies decide of, which are in none of the others.
    json: Option<Box<JsonRoutes>>,
    /// All routes, if the heads of requests decide of some.
    conditional: Option<Box<Conditional>>,
    caches: bool,
    /// Whether a route refuses requests that another one would take.
    has_guards: bool,
    pages: PageLevels,
    /// Ways to services that are asked for pages, by their names.
    page_routes: FxHashMap<Box<str>, Arc<Route>>,
    /// Ways of schedules, by their names.
    schedule_routes: FxHashMap<Box<str>, Arc<Route>>,
    services: Vec<ServiceTarget>,
    kinds: Kinds,
    settings: Arc<Settings>,
}

/// What services of some kinds have beside what all have, by their names.
struct Kinds {
    cgi: HashMap<String, Arc<CgiOptions>>,
    lambda: HashMap<String, Arc<LambdaOptions>>,
    spill: HashMap<String, Arc<Spill>>,
}

impl Kinds {
    fn of(&self, service: Option<&ServiceTarget>) -> (Option<Arc<CgiOptions>>, Option<Arc<LambdaOptions>>) {
        let Some(name) = service.map(ServiceTarget::name) else { return (None, None) };
        (self.cgi.get(name).cloned(), self.lambda.get(name).cloned())
    }
}

impl Table {
    /// `keys` has those that tokens are verified by; `series` finds where the requests of a route are counted.
    pub(crate) fn new(serving: Serving, keys: &KeySources, series: impl Fn(&RouteSpec, &str) -> Arc<Series>) -> Self {
        let Serving { services, cgi, lambda, spill, mut routes, errors, settings, local_hosts: _, schedules } = serving;
        routes.retain(|route| route.to.service().is_none_or(|index| index < services.len())); // whoever read them has checked it
        routes.iter_mut().for_each(|route| route.path = normalized(&route.path).into_owned());
        let found = |(name, spec)| Some((name, Spill::find(&spec, &services)?));
        let spill = spill.into_iter().filter_map(found).collect();
        let mut table = Self {
            routes: Vec::new(),
            hosts: Hosts::default(),
            json: JsonRoutes::of(&routes),
            conditional: Conditional::of(&routes),
            caches: false,
            has_guards: false,
            pages: PageLevels { own: None, general: LoadedPages::read(&errors) },
            page_routes: FxHashMap::default(),
            schedule_routes: FxHashMap::default(),
            services,
            kinds: Kinds { cgi, lambda, spill },
            settings: Arc::new(settings),
        };
        table.has_guards = routes.iter().any(is_guarded);
        table.caches = routes.iter().any(|route| route.cache != RouteCache::Off && route.to.service().is_some());
        for (index, route) in routes.iter().enumerate() {
            table.place(index, route);
        }
        table.hosts.sort();
        let all = routes.iter().filter_map(|route| route.changes.as_ref()).map(|changes| &changes.errors);
        let asked: Vec<String> = all.chain([&errors]).flat_map(ErrorPages::services).map(str::to_owned).collect();
        let counted = |spec: RouteSpec| {
            let spec = with_key_of_conditions(with_key_of_access(spec));
            let service = spec.to.service().and_then(|index| table.services.get(index)).cloned();
            let series = series(&spec, service.as_ref().map_or(spec.to.kind(), ServiceTarget::name));
            let changes = spec.changes.as_ref();
            let own = changes.and_then(|changes| LoadedPages::read(&changes.errors));
            let pages = PageLevels { own, ..table.pages.clone() };
            let changes_responses = pages.intercept()
                || spec.hsts.is_some()
                || spec.restore_prefix
                || changes.is_some_and(|changes| !changes.response_fields.is_empty());
            let gate = spec.admission.as_ref().and_then(|admission| Gate::new(admission, keys, &spec.label()));
            let auth = spec
                .admission
                .as_ref()
                .and_then(|admission| Route::to_auth_server(admission, &table.services, &table.kinds, &series));
            let (cgi, lambda) = table.kinds.of(service.as_ref());
            let spill = service.as_ref().and_then(|service| table.spill(service.name())).cloned();
            Arc::new(Route { series, spec, gate, auth, service, cgi, lambda, spill, pages, changes_responses })
        };
        let page_route = |name: String| {
            let index = table.services.iter().position(|service| service.name() == name)?;
            let spec = RouteSpec {
                cache: RouteCache::Off,
                upgrades: Upgrades::of([]),
                timeout: Some(PAGE_TIMEOUT),
                ..RouteSpec::new("/", RouteTo::Service(index))
            };
            Some((name.into_boxed_str(), counted(spec)))
        };
        let schedule_route = |schedule: &Arc<ScheduleSpec>| {
            let index = table.services.iter().position(|service| service.name() == schedule.service)?;
            Some((schedule.name.as_str().into(), counted(of_schedule(schedule, index))))
        };
        let schedule_routes = schedules.iter().filter_map(schedule_route).collect();
        let page_routes = asked.into_iter().filter_map(page_route).collect();
        table.routes = routes.into_iter().map(counted).collect::<Box<[_]>>().into_vec(); // not in the memory of the specs
        table.page_routes = page_routes;
        table.schedule_routes = schedule_routes;
        table
    }

    fn place(&mut self, index: usize, route: &RouteSpec) {
        let paths = self.hosts.paths_of(route.host.as_deref());
        if route.json.is_some() || route.when.is_some() {
            return; // its host is known by it
        }
        paths.insert(route, index);
    }

    /// Every route, in the order in which they were given.
    pub(crate) fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }

    /// How a service is told of requests, if that is by variables.
    pub(crate) fn cgi(&self, service: &str) -> Option<&Arc<CgiOptions>> {
        self.kinds.cgi.get(service)
    }

    /// The settings of a function of AWS Lambda.
    pub(crate) fn lambda(&self, service: &str) -> Option<&Arc<LambdaOptions>> {
        self.kinds.lambda.get(service)
    }

    /// Where requests go that a service has no room for.
    pub(crate) fn spill(&self, service: &str) -> Option<&Arc<Spill>> {
        self.kinds.spill.get(service)
    }

    /// Every service, in the order in which they were given.
    pub(crate) fn services(&self) -> &[ServiceTarget] {
        &self.services
    }

    /// What counts for connections that begin now.
    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The way to a service that is asked for a page of an error.
    pub(crate) fn page_route(&self, service: &str) -> Option<&Arc<Route>> {
        self.page_routes.get(service)
    }

    /// The way of a schedule's requests.
    pub(crate) fn schedule_route(&self, schedule: &str) -> Option<&Arc<Route>> {
        self.schedule_routes.get(schedule)
    }

    /// What an error looks like where there is no route.
    pub(crate) fn pages(&self) -> &PageLevels {
        &self.pages
    }

    /// Whether a request for `path` has to be checked with [`check_readings`](Self::check_readings).
    #[inline]
    pub(crate) fn may_be_ambiguous(&self, path: &str) -> bool {
        self.has_guards && path::is_ambiguous(path)
    }

    /// Checks that no server can read in `path` what stricter rules protect than those of `route`, which was found for
    /// it.
    ///
    /// # Errors
    /// A reading with another access rule, limit or refusal; or more readings than are looked up.
    pub(crate) fn check_readings<'a>(
        &self,
        authority: &str,
        path: &str,
        route: &Route,
        facts: impl Fn() -> HeadFacts<'a>,
    ) -> Result<(), AmbiguousPath> {
        if route.ambiguous_paths == AmbiguousPaths::Allow || !self.may_be_ambiguous(path) {
            return Ok(());
        }
        let readings = path::readings(path).map_err(|_| AmbiguousPath { reading: None })?;
        for reading in readings {
            let plain = self.find_for(authority, &reading, &facts);
            let chosen = self.json_candidates(authority, &reading, plain);
            if plain.into_iter().chain(&chosen).any(|other| is_stricter(other, route)) {
                return Err(AmbiguousPath { reading: Some(reading) });
            }
        }
        Ok(())
    }

    /// Whether any route uses the cache.
    pub(crate) fn caches(&self) -> bool {
        self.caches
    }

    /// Whether a route takes this host without naming it: by a wildcard, or as any other.
    pub(crate) fn takes_unnamed(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let any = || self.hosts.takes_any() || self.conditional.as_ref().is_some_and(|all| all.takes_any_host());
        !self.hosts.names(&host) && (any() || self.hosts.has_wildcard_for(&host))
    }

    /// Whether more of some requests than host and path says which route they have.
    #[inline]
    pub(crate) fn has_conditions(&self) -> bool {
        self.conditional.is_some()
    }

    /// The route for `authority` and `path`, as [`find`](Self::find) has it, and what else the head says; that is
    /// looked at only if a route asks for it.
    #[inline]
    pub(crate) fn find_for<'a>(
        &self,
        authority: &str,
        path: &str,
        asked: impl FnOnce() -> HeadFacts<'a>,
    ) -> Option<&Arc<Route>> {
        match &self.conditional {
            Some(conditional) => self.find_conditional(conditional, authority, path, &asked()),
            None => self.find(authority, path),
        }
    }

    fn find_conditional(
        &self,
        conditional: &Conditional,
        authority: &str,
        path: &str,
        asked: &HeadFacts<'_>,
    ) -> Option<&Arc<Route>> {
        let holds = |index: usize| {
            let route = self.routes.get(index)?;
            route.when.as_deref().is_none_or(|when| when.hold(asked)).then_some(route)
        };
        conditional.find(&host_of(authority).to_ascii_lowercase(), &normalized(path), holds)
    }

    /// The route for `authority` (as in the request, with or without a port) and `path` (without the query), of those
    /// without conditions.
    pub(crate) fn find(&self, authority: &str, path: &str) -> Option<&Arc<Route>> {
        self.find_normal(authority, &normalized(path))
    }

    /// The same for a path that is in normal form.
    #[inline]
    pub(crate) fn find_normal(&self, authority: &str, path: &str) -> Option<&Arc<Route>> {
        if self.hosts.has_names() {
            let host = host_of(authority).to_ascii_lowercase();
            if let Some(index) = self.hosts.find_named(&host, |paths| paths.find(path)) {
                return self.routes.get(index);
            }
        }
        self.hosts.of_any().find(path).and_then(|index| self.routes.get(index))
    }
}

impl Table {
    /// Whether the body of a request may decide on its route.
    #[inline]
    pub(crate) fn has_json(&self) -> bool {
        self.json.is_some()
    }

    /// The routes that could take a request before `plain`, if its body says so, the most specific first.
    pub(crate) fn json_candidates(&self, authority: &str, path: &str, plain: Option<&Arc<Route>>) -> Vec<Arc<Route>> {
        let Some(json) = &self.json else { return Vec::new() };
        let host = host_of(authority).to_ascii_lowercase();
        let found = json.candidates(&self.routes, &host, &normalized(path), plain.map(|route| &***route));
        found.into_iter().filter_map(|index| self.routes.get(index).cloned()).collect()
    }
}

/// A path that a server may read as another one, which stricter rules protect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AmbiguousPath {
    /// The other path; `None`: there are too many to look up.
    pub(crate) reading: Option<String>,
}

/// Whether a route refuses some requests.
fn is_guarded(route: &RouteSpec) -> bool {
    route.admission.is_some() || matches!(route.to, RouteTo::Respond(_))
}

/// Whether `other` has a rule that may refuse what `route` lets pass.
fn is_stricter(other: &RouteSpec, route: &RouteSpec) -> bool {
    let has_other_rules = other.admission.is_some() && other.admission != route.admission;
    has_other_rules || matches!(other.to, RouteTo::Respond(_)) && other.to != route.to
}

/// The host of an authority, without user, port and the dot at its end.
pub(crate) fn host_of(authority: &str) -> &str {
    let host = authority.rsplit_once('@').map_or(authority, |(_, h)| h);
    if host.starts_with('[') {
        return host.split_inclusive(']').next().unwrap_or(host); // an IPv6 literal
    }
    host.split(':').next().unwrap_or(host).trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use std::collections::BTreeSet;

    use crate::options::{External, ExternalAddr, ExternalSpec, RouteTo, ServerProtocol};

    fn table(routes: &[(&str, &str, bool)]) -> Table {
        let spec = |(service, &(host, path, exact)): (usize, &(&str, &str, bool))| RouteSpec {
            host: (!host.is_empty()).then(|| host.to_owned()),
            exact,
            cache: RouteCache::Off,
            ..RouteSpec::new(path, RouteTo::Service(service))
        };
        let registry = crate::metrics::Registry::new(1);
        let external = |index: usize| {
            let addr = ExternalAddr::Unix("/x".into());
            External::new(ExternalSpec::one(&index.to_string(), addr, ServerProtocol::Http1))
        };
        let services = (0..routes.len()).map(|index| ServiceTarget::External(Arc::new(external(index)))).collect();
        let routes = routes.iter().enumerate().map(spec).collect();
        Table::new(
            Serving {
                services,
                cgi: HashMap::default(),
                lambda: HashMap::default(),
                spill: HashMap::default(),
                routes,
                errors: ErrorPages::default(),
                settings: Settings::default(),
                local_hosts: BTreeSet::new(),
                schedules: Vec::new(),
            },
            &KeySources::default(),
            |route, service| registry.series(&route.label(), service),
        )
    }

    #[track_caller]
    fn check(table: &Table, host: &str, path: &str, want: Option<usize>) {
        assert_eq!(table.find(host, path).and_then(|r| r.to.service()), want, "{host} {path}");
    }

    #[test]
    fn prefixes_end_at_segments() {
        let t = table(&[("", "/api", false), ("", "/api/v2/", false)]);
        check(&t, "h", "/api", Some(0));
        check(&t, "h", "/api/", Some(0));
        check(&t, "h", "/api/x/y", Some(0));
        check(&t, "h", "/apifoo", None);
        check(&t, "h", "/api/v2", Some(1));
        check(&t, "h", "/api/v2/x", Some(1));
        check(&t, "h", "/api/v22", Some(0));
        check(&t, "h", "/", None);
        check(&t, "h", "", None);
    }

    #[test]
    fn exact_before_prefix_and_longest_prefix_first() {
        let t = table(&[("", "/", false), ("", "/a", true), ("", "/a", false), ("", "/a/b", false)]);
        check(&t, "h", "/a", Some(1));
        check(&t, "h", "/a/", Some(2));
        check(&t, "h", "/a/b/c", Some(3));
        check(&t, "h", "/zzz", Some(0));
        check(&t, "h", "/a/bc", Some(2));
        check(&t, "h", "/é/b/c", Some(0));
        check(&t, "h", "//a", Some(0));
    }

    #[test]
    fn hosts_by_how_much_they_say() {
        let t = table(&[
            ("", "/", false),
            ("example.org", "/x", false),
            ("*.example.org", "/", false),
            ("*.deep.example.org", "/", false),
        ]);
        check(&t, "example.org", "/x", Some(1));
        check(&t, "EXAMPLE.org:8080", "/x/y", Some(1));
        check(&t, "example.org.", "/x/y", Some(1));
        check(&t, "example.org", "/y", Some(0));
        check(&t, "a.example.org", "/x", Some(2));
        check(&t, "a.deep.example.org", "/x", Some(3));
        check(&t, "badexample.org", "/x", Some(0));
        check(&t, "[::1]:80", "/x", Some(0));
    }

    /// Routes with one host, each with its path and a header that it asks for, and a port.
    fn conditional(routes: &[(&str, &str, &str, u16)]) -> Table {
        let specs: Vec<_> = routes.iter().map(|(host, path, ..)| (*host, *path, false)).collect();
        let table = table(&specs);
        let with = |(route, (_, _, version, port)): (&Arc<Route>, &(&str, &str, &str, u16))| RouteSpec {
            when: (!version.is_empty() || *port > 0).then(|| {
                let fields = Some(version).filter(|version| !version.is_empty());
                let name = http::HeaderName::from_static("version");
                Arc::new(Conditions {
                    fields: fields.map(|version| (name, (*version).to_owned())).into_iter().collect(),
                    ports: Some(*port).filter(|port| *port > 0).into_iter().collect(),
                    ..Conditions::default()
                })
            }),
            ..route.spec.clone()
        };
        let specs: Vec<RouteSpec> = table.routes.iter().zip(routes).map(with).collect();
        let registry = crate::metrics::Registry::new(1);
        let services = table.services.clone();
        let serving = Serving {
            services,
            cgi: HashMap::default(),
            lambda: HashMap::default(),
            spill: HashMap::default(),
            routes: specs,
            errors: ErrorPages::default(),
            settings: Settings::default(),
            local_hosts: BTreeSet::new(),
            schedules: Vec::new(),
        };
        Table::new(serving, &KeySources::default(), |route, service| registry.series(&route.label(), service))
    }

    #[track_caller]
    fn check_for(table: &Table, path: &str, version: &str, port: u16, want: Option<usize>) {
        let mut fields = http::HeaderMap::new();
        fields.extend(
            http::HeaderValue::from_str(version).ok().map(|value| (http::HeaderName::from_static("version"), value)),
        );
        let asked = HeadFacts { method: &http::Method::GET, fields: &fields, query: None, port: Some(port) };
        let found = table.find_for("example.org", path, || asked).and_then(|route| route.to.service());
        assert_eq!(found, want, "{path} {version} {port}");
    }

    #[test]
    fn conditions_leave_requests_to_less_specific_routes() {
        let t = conditional(&[
            ("", "/", "", 0),
            ("example.org", "/a", "two", 0),
            ("example.org", "/a", "", 8443),
            ("example.org", "/a/b", "three", 0),
            ("example.org", "/a/b", "three", 8443),
        ]);
        check_for(&t, "/a", "two", 80, Some(1));
        check_for(&t, "/a", "two", 8443, Some(1));
        check_for(&t, "/a", "one", 8443, Some(2));
        check_for(&t, "/a", "one", 80, Some(0));
        check_for(&t, "/a/b/c", "three", 80, Some(3));
        check_for(&t, "/a/b/c", "three", 8443, Some(4));
        check_for(&t, "/a/b/c", "two", 80, Some(1));
        check_for(&t, "/b", "two", 80, Some(0));
        assert_eq!(t.find("example.org", "/a").and_then(|route| route.to.service()), Some(0));
        let label = "example.org/a [version=\"two\"]";
        assert!(t.routes.iter().any(|route| route.label() == label), "{label}");
    }

    #[test]
    fn dot_segments_do_not_dodge_a_route() {
        let t = table(&[("", "/public", false), ("", "/admin", false)]);
        check(&t, "h", "/public/../admin", Some(1));
        check(&t, "h", "/public/%2e%2E/admin/x", Some(1));
        check(&t, "h", "/public/./a", Some(0));
        check(&t, "h", "/../../admin", Some(1));
        check(&t, "h", "/public/a/..", Some(0));
        check(&t, "h", "/public/..", None);
        check(&t, "h", "/public/a%20b", Some(0));
    }
}
