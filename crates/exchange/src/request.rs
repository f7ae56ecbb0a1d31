//! What the machine knows of a request before it begins.

use std::time::Duration;

use crate::wait::{Limit, Setting};

/// What a method promises (RFC 9110 §9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET, HEAD, OPTIONS, TRACE.
    Safe,
    /// PUT, DELETE.
    Idempotent,
    /// POST, whose response may be stored as that of a GET (RFC 9110 §9.3.3).
    Post,
    /// Any other.
    Other,
}

impl Method {
    /// RFC 9110 §9.2.1.
    pub fn is_safe(self) -> bool {
        self == Self::Safe
    }

    /// RFC 9110 §9.2.2: safe methods are idempotent, too.
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::Safe | Self::Idempotent)
    }
}

/// Who runs the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    /// We start its instances: a request needs a place at one.
    Managed,
    /// Somebody else.
    External,
}

/// How long things may take. `None`: for ever.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// The route's `timeout`: the whole exchange.
    pub timeout: Option<Duration>,
    /// The route's `response_timeout`.
    pub route_response: Option<Duration>,
    /// `limits.response_timeout`, where the route has none of its own.
    pub general_response: Option<Duration>,
    /// The service's `max_request_time`.
    pub max_request_time: Option<Duration>,
}

impl Limits {
    /// The service's time: the shorter one of the configured wait and what the service says of itself.
    pub(crate) fn response(&self) -> Option<Limit> {
        let limit = |after: Option<Duration>, setting| after.map(|after| Limit { after, setting });
        let route = limit(self.route_response, Setting::RouteResponseTimeout);
        let general = limit(self.general_response, Setting::GeneralResponseTimeout);
        let own = limit(self.max_request_time, Setting::MaxRequestTime);
        route.or(general).into_iter().chain(own).min_by_key(|limit| limit.after)
    }
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// What its method promises.
    pub method: Method,
    /// Whether it has a body, or may have one.
    pub has_body: bool,
    /// Whether its client waits for 100 before it sends the body (RFC 9110 §10.1.1).
    pub expects_continue: bool,
    /// Whether the gateway has a cache, whatever the route says.
    pub has_cache: bool,
    /// Who answers.
    pub upstream: Upstream,
    /// How long it may take.
    pub limits: Limits,
    /// How long Redis was asked before there was an exchange, which is a part of the whole time.
    pub already_took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(limits: [Option<u64>; 3], expected: Option<(u64, Setting)>) {
        let [route_response, general_response, max_request_time] = limits.map(|ms| ms.map(Duration::from_millis));
        let limits = Limits { timeout: None, route_response, general_response, max_request_time };
        let expected = expected.map(|(ms, setting)| Limit { after: Duration::from_millis(ms), setting });
        assert_eq!(limits.response(), expected, "{limits:?}");
    }

    #[test]
    fn the_shorter_time_counts() {
        check([None, None, None], None);
        check([Some(9), Some(5), None], Some((9, Setting::RouteResponseTimeout)));
        check([None, Some(5), None], Some((5, Setting::GeneralResponseTimeout)));
        check([None, Some(5), Some(4)], Some((4, Setting::MaxRequestTime)));
        check([None, Some(5), Some(5)], Some((5, Setting::GeneralResponseTimeout)));
        check([Some(3), None, Some(4)], Some((3, Setting::RouteResponseTimeout)));
    }
}
