//! Requests by plain HTTP that are for TLS: where their clients are sent.

use http::header::LOCATION;
use http::{HeaderValue, Response, StatusCode};

use crate::body::ResponseBody;
use crate::downstream::Downstream;
use crate::head::{Head, Scope};
use crate::listen_addr::ListenAddr;
use crate::options::{PlainHttp, RouteSpec};
use crate::routes::{Route, host_of};
use crate::target::{Origin, Scheme};
use crate::worker::Common;

/// The port of `https` that is not written (RFC 9110 §4.2.2).
const DEFAULT_PORT: u16 = 443;

/// Whether clients that come by plain HTTP are perhaps sent elsewhere.
pub(crate) fn may_redirect(common: &Common) -> bool {
    port(common).is_some() && !common.tls.store().is_empty()
}

/// The response to a request that is for TLS and came without.
#[inline(always)] // most requests need no more than to be asked
pub(super) fn redirect(
    common: &Common,
    client: &dyn Downstream,
    route: &Route,
    head: &Head,
) -> Option<Response<ResponseBody>> {
    // First, so that a gateway without certificates looks no further.
    let applies = match route.plain_http {
        PlainHttp::Allowed => false,
        PlainHttp::Automatic => !common.tls.store().is_empty(),
        PlainHttp::Redirected => true,
    };
    if !applies || head.scope != Scope::Resource {
        return None;
    }
    elsewhere(common, client, route, head)
}

fn elsewhere(common: &Common, client: &dyn Downstream, route: &Route, head: &Head) -> Option<Response<ResponseBody>> {
    let Origin { scheme, authority } = Origin::of_head(head, client.hop(head));
    let host = host_of(authority);
    if scheme == Scheme::Https || host.is_empty() {
        return None;
    }
    let location = HeaderValue::try_from(place(common, route, host, head.target())?).ok()?;
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}

/// Where a request for a host by plain HTTP is sent; `None`: it is answered.
pub(crate) fn place(common: &Common, route: &RouteSpec, host: &str, target: &str) -> Option<String> {
    match (route.plain_http, port(common)) {
        (PlainHttp::Redirected, port) => Some(location(host, port, target)),
        (PlainHttp::Automatic, Some(port)) if common.tls.store().has(host) => Some(location(host, Some(port), target)),
        (PlainHttp::Automatic | PlainHttp::Allowed, _) => None,
    }
}

fn location(host: &str, port: Option<u16>, target: &str) -> String {
    match port.filter(|port| *port != DEFAULT_PORT) {
        Some(port) => format!("https://{host}:{port}{target}"),
        None => format!("https://{host}{target}"),
    }
}

/// That of the first listener with TLS.
fn port(common: &Common) -> Option<u16> {
    common.addresses.load().iter().find_map(|address| match address {
        ListenAddr::Tls(address) => Some(address.port()),
        ListenAddr::Tcp(_) | ListenAddr::Unix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        assert_eq!(location("a.example", Some(443), "/x?y=%2F"), "https://a.example/x?y=%2F");
        assert_eq!(location("a.example", None, "/"), "https://a.example/");
        assert_eq!(location("[::1]", Some(8443), "/"), "https://[::1]:8443/");
    }
}
