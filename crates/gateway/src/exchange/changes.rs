//! What a request puts in place of the placeholders of its route's rules, and what they make of its response.

use http::StatusCode;
use http::header::{ALLOW, DATE, HeaderName, RETRY_AFTER, SET_COOKIE, STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE};

use crate::body::ResponseBody;
use crate::error_pages::{ErrorBy, LoadedPage};
use crate::head::Head;
use crate::problem;
use crate::response::ResponseHead;
use crate::routes::{Route, host_of};
use crate::target::{Hop, Origin, Scheme};
use crate::template::Facts;

mod prefix;

/// A request that a route's rules look at.
pub(super) struct Seen<'a> {
    pub(super) head: &'a Head,
    pub(super) hop: Hop,
    /// The client's address, without its port.
    pub(super) client: &'a str,
    pub(super) request_id: &'a str,
}

impl<'a> Seen<'a> {
    pub(super) fn facts(&self) -> Facts<'a> {
        let Origin { scheme, authority } = Origin::of_head(self.head, self.hop);
        let path = self.head.path();
        Facts {
            client: self.client,
            host: host_of(authority),
            scheme: scheme.as_str(),
            request_id: self.request_id,
            path,
            below: "",
            query: &self.head.target()[path.len()..],
            status: "",
        }
    }

    /// The response as the client gets it: an error may have a page of the route's, fields are its rules'. Nothing
    /// changes the response by which the connection becomes another protocol's.
    pub(super) fn change(&self, route: &Route, response: &mut ResponseHead, body: &mut ResponseBody) {
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        if let Some(page) = route.pages.find(response.status, ErrorBy::Service).and_then(LoadedPage::text) {
            let (head, text) = ResponseHead::part(problem::own_page(page, response.status, self.request_id));
            (*response, *body) = replaced(response, (head, ResponseBody::full(text)));
        }
        if route.restore_prefix {
            prefix::restore(&route.path, self.head.authority(), response.fields.map());
        }
        self.change_fields(route, response);
    }

    /// The same for what the gateway has made, which has its page.
    pub(super) fn change_fields(&self, route: &Route, response: &mut ResponseHead) {
        // RFC 6797 §7.2: over secure transport only.
        if let Some(hsts) = route.hsts.filter(|_| Origin::of_head(self.head, self.hop).scheme == Scheme::Https) {
            let value = format!("max-age={}", hsts.as_secs());
            response.fields.set(STRICT_TRANSPORT_SECURITY, value.as_bytes());
        }
        if let Some(changes) = route.changes.as_ref().filter(|changes| !changes.response_fields.is_empty()) {
            changes.response_fields.apply(&self.facts(), &mut response.fields);
        }
    }
}

/// A page in place of an error.
pub(super) fn replaced(error: &mut ResponseHead, page: (ResponseHead, ResponseBody)) -> (ResponseHead, ResponseBody) {
    let (mut head, body) = page;
    for name in &OF_ERRORS {
        let mut values = error.fields.map().get_all(name).iter().peekable();
        if values.peek().is_some() {
            head.fields.map().remove(name);
        }
        for value in values {
            head.fields.append(name.clone(), value.clone());
        }
    }
    head.closes = error.closes;
    head.status = error.status;
    (head, body)
}

/// What stays of an error that has another page: what the client needs beside it.
const OF_ERRORS: [HeaderName; 11] = [
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
    WWW_AUTHENTICATE,
    ALLOW,
    RETRY_AFTER,
    SET_COOKIE,
    DATE,
    HeaderName::from_static("cache-status"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("server-timing"),
    HeaderName::from_static("via"),
];
