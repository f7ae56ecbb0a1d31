//! Which hosts a route has at a listener.

/// The hosts of a route at a listener: those that both are for. `None` in the list: every host. Empty: no host is for
/// both (Gateway API, HTTPRouteSpec.hostnames).
pub(super) fn shared(listener: Option<&str>, route: &[String]) -> Vec<Option<String>> {
    let lower = |host: &str| host.to_ascii_lowercase();
    match (listener.map(lower), route) {
        (None, []) => vec![None],
        (Some(listener), []) => vec![Some(listener)],
        (None, hosts) => hosts.iter().map(|host| Some(lower(host))).collect(),
        (Some(listener), hosts) => {
            let mut all: Vec<Option<String>> =
                hosts.iter().filter_map(|host| narrower(&listener, &lower(host))).map(Some).collect();
            all.dedup();
            all
        }
    }
}

/// Whether all hosts of one are hosts of the other.
pub(super) fn within(inner: &str, outer: &str) -> bool {
    match outer.strip_prefix('*') {
        None => inner == outer,
        Some(suffix) => {
            let inner = inner.strip_prefix('*').unwrap_or(inner);
            inner.ends_with(suffix) && (inner.len() > suffix.len() || inner == suffix && is_wildcard_twin(inner, outer))
        }
    }
}

/// The one of two that says more, if it is for hosts of the other.
fn narrower(one: &str, other: &str) -> Option<String> {
    if within(other, one) {
        return Some(other.to_owned());
    }
    within(one, other).then(|| one.to_owned())
}

/// `*.a` is within `*.a`, while the host `.a` is none.
fn is_wildcard_twin(inner: &str, outer: &str) -> bool {
    outer.strip_prefix('*') == Some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(listener: &str, route: &[&str], expected: &[&str]) {
        let route: Vec<String> = route.iter().map(|host| (*host).to_owned()).collect();
        let found = shared(Some(listener).filter(|host| !host.is_empty()), &route);
        let expected: Vec<Option<String>> =
            expected.iter().map(|host| Some((*host).to_owned()).filter(|host| !host.is_empty())).collect();
        assert_eq!(found, expected, "{listener} {route:?}");
    }

    #[test]
    fn hosts_of_both() {
        check("", &[], &[""]);
        check("a.example", &[], &["a.example"]);
        check("", &["A.example", "*.b.example"], &["a.example", "*.b.example"]);
        check("a.example", &["a.example", "b.example"], &["a.example"]);
        check("*.example", &["a.example", "example", "x.y.example"], &["a.example", "x.y.example"]);
        check("a.example", &["*.example"], &["a.example"]);
        check("*.a.example", &["*.example"], &["*.a.example"]);
        check("*.example", &["*.a.example", "*.other"], &["*.a.example"]);
        check("*.example", &["*.example"], &["*.example"]);
        check("*.example", &["badexample"], &[]);
    }
}
