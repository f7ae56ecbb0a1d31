//! Which requests are passed on to the admin interface: those that the page makes, and no others.

use http::Method;

/// Whether it is one of them, by its method and path.
pub(crate) fn is_allowed(method: &Method, path: &str) -> bool {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let is_name = |name: &str| !name.is_empty() && !matches!(name, "." | "..");
    match (method, segments.as_slice()) {
        (&Method::GET, ["events"]) | (&Method::POST, ["purge"]) => true,
        (&Method::GET, ["services", name] | ["services", name, "logs"])
        | (&Method::POST, ["services", name, "start" | "stop" | "restart"]) => is_name(name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, path: &str, expected: bool) {
        assert_eq!(is_allowed(method, path), expected, "{method} {path}");
    }

    #[test]
    fn what_the_page_asks_for() {
        check(&Method::GET, "/events", true);
        check(&Method::GET, "/services/a%2Fb", true);
        check(&Method::GET, "/services/a/logs", true);
        check(&Method::POST, "/services/a/restart", true);
        check(&Method::POST, "/purge", true);
    }

    #[test]
    fn nothing_else() {
        for path in ["/", "/config", "/status", "/events/", "//events", "/services", "/services/", "/services/a/start"]
        {
            check(&Method::GET, path, false);
        }
        for path in
            ["/reload", "/upgrade", "/certificates/import", "/services/../start", "/services/a/b/start", "/events"]
        {
            check(&Method::POST, path, false);
        }
        check(&Method::PUT, "/purge", false);
        check(&Method::HEAD, "/events", false);
    }
}
