//! Where a request comes from, by what browsers say of it.
//!
//! A page of another site can have a browser send requests here, and a name that it owns can be made to lead to
//! 127.0.0.1 (DNS rebinding). The first says so in `Origin` or `Sec-Fetch-Site`, the second in `Host`; pages can set
//! none of them (Fetch standard, forbidden request-headers).

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stranger {
    /// It names another host, several, or none.
    #[error("the dashboard is at the address that `pilotlight ui` prints; this request names another host")]
    Host,
    /// A page of another site has sent it.
    #[error("only the dashboard's own page may ask this")]
    Site,
}

/// Whether the request is for this host: 127.0.0.1 or localhost, with this port.
pub(crate) fn check_host(headers: &HeaderMap, port: u16) -> Result<(), Stranger> {
    let is_here = |host: &str| host == format!("127.0.0.1:{port}") || host == format!("localhost:{port}");
    match only(headers, HOST) {
        Some(host) if is_here(host) => Ok(()),
        _ => Err(Stranger::Host),
    }
}

/// Whether the dashboard's page has sent the request, or at least no browser for another page. What changes something
/// has to say where it comes from.
pub(crate) fn check_site(method: &Method, headers: &HeaderMap) -> Result<(), Stranger> {
    let host = only(headers, HOST).ok_or(Stranger::Host)?;
    let is_same_origin = match headers.contains_key(ORIGIN) {
        true => only(headers, ORIGIN).and_then(|origin| origin.strip_prefix("http://")) == Some(host),
        false => *method == Method::GET,
    };
    let is_same_site = match headers.contains_key(SEC_FETCH_SITE) {
        true => only(headers, SEC_FETCH_SITE) == Some("same-origin"),
        false => true,
    };
    if is_same_origin && is_same_site { Ok(()) } else { Err(Stranger::Site) }
}

fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    if all.next().is_some() { None } else { first.to_str().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        headers
    }

    #[track_caller]
    fn check_hosts(hosts: &[&'static str], expected: Result<(), Stranger>) {
        let fields: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        assert_eq!(check_host(&headers(&fields), 8000), expected, "{hosts:?}");
    }

    #[test]
    fn the_host_is_this_one() {
        check_hosts(&["127.0.0.1:8000"], Ok(()));
        check_hosts(&["localhost:8000"], Ok(()));
        for other in ["127.0.0.1", "127.0.0.1:80", "evil.example:8000", "127.0.0.1:8000.evil.example", "LOCALHOST:8001"]
        {
            check_hosts(&[other], Err(Stranger::Host));
        }
        check_hosts(&[], Err(Stranger::Host));
        check_hosts(&["127.0.0.1:8000", "evil.example"], Err(Stranger::Host));
    }

    #[track_caller]
    fn check(method: &Method, fields: &[(&'static str, &'static str)], expected: Result<(), Stranger>) {
        let mut headers = headers(fields);
        headers.insert(HOST, http::HeaderValue::from_static("127.0.0.1:8000"));
        assert_eq!(check_site(method, &headers), expected, "{method} {fields:?}");
    }

    #[test]
    fn the_page_is_this_one() {
        let own = ("origin", "http://127.0.0.1:8000");
        check(&Method::GET, &[], Ok(()));
        check(&Method::GET, &[("sec-fetch-site", "same-origin")], Ok(()));
        check(&Method::POST, &[own, ("sec-fetch-site", "same-origin")], Ok(()));
        check(&Method::POST, &[own], Ok(()));
        check(&Method::POST, &[], Err(Stranger::Site));
        for other in
            ["null", "http://127.0.0.1:8001", "https://127.0.0.1:8000", "http://localhost:8000", "http://a.example"]
        {
            check(&Method::POST, &[("origin", other)], Err(Stranger::Site));
            check(&Method::GET, &[("origin", other)], Err(Stranger::Site));
        }
        for site in ["cross-site", "same-site", "none"] {
            check(&Method::GET, &[("sec-fetch-site", site)], Err(Stranger::Site));
            check(&Method::POST, &[own, ("sec-fetch-site", site)], Err(Stranger::Site));
        }
        check(&Method::POST, &[own, own], Err(Stranger::Site));
    }
}
