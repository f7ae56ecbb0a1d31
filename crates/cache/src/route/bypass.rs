//! Requests that a route sends past the cache: nothing stored responses them, and their responses are not stored.

use http::{HeaderMap, HeaderName, Method};

use super::cookies;
use super::names::{NamePatterns, fold};

/// What sends a request past the cache. The default: nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BypassRules {
    /// Its method. Others than GET and HEAD go past the cache in any case.
    pub methods: Vec<Method>,
    /// A cookie of such a name.
    pub cookies: NamePatterns,
    /// A field of such a name.
    pub headers: Vec<HeaderName>,
    /// A parameter of such a name in the query.
    pub query: NamePatterns,
}

impl BypassRules {
    /// Whether the request goes past the cache, and by which rule: the key of the configuration.
    pub fn applies(&self, method: &Method, target: &str, request: &HeaderMap) -> Option<&'static str> {
        if self.methods.contains(method) {
            return Some("methods");
        }
        if self.headers.iter().any(|name| request.contains_key(name)) {
            return Some("headers");
        }
        if !self.cookies.is_empty() && cookies::may_have(request, &self.cookies) {
            return Some("cookies");
        }
        (!self.query.is_empty() && self.in_query(target)).then_some("query")
    }

    fn in_query(&self, target: &str) -> bool {
        let Some((_, query)) = target.split_once('?') else { return false };
        query.split(['&', ';']).any(|parameter| {
            let name = parameter.split('=').next().unwrap_or_default();
            self.query.may_be(&fold(name.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{COOKIE, HeaderName};

    use super::*;

    #[track_caller]
    fn check(method: &Method, target: &str, fields: &[(&'static str, &'static str)], expected: Option<&str>) {
        let rules = BypassRules {
            methods: vec![Method::HEAD],
            cookies: NamePatterns(vec!["session".parse().unwrap()]),
            headers: vec![HeaderName::from_static("x-debug")],
            query: NamePatterns(vec!["preview*".parse().unwrap()]),
        };
        let request: HeaderMap =
            fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        assert_eq!(rules.applies(method, target, &request), expected, "{method} {target} {fields:?}");
        assert_eq!(BypassRules::default().applies(method, target, &request), None);
    }

    #[test]
    fn each_rule() {
        check(&Method::GET, "/?a=preview", &[(COOKIE.as_str(), "a=session")], None);
        check(&Method::HEAD, "/", &[], Some("methods"));
        check(&Method::GET, "/", &[("x-debug", "")], Some("headers"));
        check(&Method::GET, "/", &[("cookie", "a=1; session=2")], Some("cookies"));
        for query in ["preview", "a=1&preview_id=2", "a=1;preview=1", "Preview=1", "pre%76iew", "preview[]=1"] {
            check(&Method::GET, &format!("/?{query}"), &[], Some("query"));
        }
    }
}
