//! Rules of one route that another route leads past: it is broader, has weaker rules or none, and reaches the same
//! service or folder.

use pilotlight_gateway::{RouteSpec, RouteTo};

use super::diagnostic::{Code, Diagnostic, Span};
use super::shown::shown;

/// Most routes that are compared with each other; of more none is.
const MAX_ROUTES: usize = 2_000;

/// Warns of rules that can be avoided.
pub(super) fn check(routes: &[(&RouteSpec, &Span)], found: &mut Vec<Diagnostic>) {
    if routes.len() > MAX_ROUTES {
        return;
    }
    let plain = |route: &RouteSpec| route.json.is_none() && route.when.is_none();
    for (guarded, at) in routes.iter().filter(|(route, _)| route.admission.is_some() && plain(route)) {
        let past = routes.iter().filter(|(route, _)| route.admission.is_none()).find_map(|(route, other_at)| {
            let way = way_past(route, guarded).filter(|way| !is_guarded(way, route, routes))?;
            Some((*route, *other_at, way))
        });
        if let Some((route, other_at, way)) = past {
            let (own, way, other) = (shown(&guarded.path), shown(&way), shown(&route.path));
            let message =
                format!("the rules of {own} can be avoided: {way} leads to the same, by the route for {other}");
            found.push(
                Diagnostic::warning(Code::Unsafe, (*at).clone(), message)
                    .related(other_at.clone(), "that is")
                    .help("give that route the same rules, or a route for that path"),
            );
        }
    }
}

/// A path of `route` that reaches what `guarded` is for, if there is one that has another route than that.
fn way_past(route: &RouteSpec, guarded: &RouteSpec) -> Option<String> {
    match (&route.to, &guarded.to) {
        (RouteTo::Service(one), RouteTo::Service(other)) if one == other => {
            // The service sees the same path below another one, or the host alone decides.
            let seen = if guarded.strip_prefix { "/" } else { &guarded.path };
            let same_host = route.host == guarded.host;
            if route.strip_prefix && !guarded.strip_prefix && (same_host || guarded.host.is_none()) && !route.exact {
                return Some(joined(&route.path, seen)).filter(|path| !is_below(path, &guarded.path));
            }
            let is_of_one_host = route.host.is_some() && guarded.host.is_none();
            let is_broader = is_below(&guarded.path, &route.path) && !is_below(&route.path, &guarded.path);
            let covers = !route.exact && is_broader && !route.strip_prefix;
            let host = route.host.as_deref().filter(|_| is_of_one_host && covers)?;
            Some(format!("{host}{}", guarded.path))
        }
        (RouteTo::Files(one), RouteTo::Files(other)) if !route.exact => {
            let below = other.root.strip_prefix(&one.root).ok()?;
            let path = joined(&route.path, &format!("/{}", below.to_str()?));
            let has_its_rules =
                is_below(&path, &guarded.path) && (guarded.host.is_none() || route.host == guarded.host);
            (!has_its_rules).then_some(path)
        }
        _ => None,
    }
}

/// Whether a third route, with rules, takes the path that would lead past those of the first.
fn is_guarded(way: &str, route: &RouteSpec, all: &[(&RouteSpec, &Span)]) -> bool {
    let path = route.host.as_deref().and_then(|host| way.strip_prefix(host)).unwrap_or(way);
    all.iter().any(|(other, _)| {
        other.admission.is_some() && other.host == route.host && !other.exact && is_below(path, &other.path)
    })
}

fn joined(path: &str, below: &str) -> String {
    format!("{}{below}", path.trim_end_matches('/'))
}

/// On segment boundaries, as routes match.
fn is_below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.trim_end_matches('/').strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
