//! Whether a stored response may answer a request without asking the service (RFC 9111 §4, §5.2.1).

use super::directives::{MaxStale, RequestDirectives};
use super::freshness::Freshness;
use super::time::Timestamp;

/// Why a request goes to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forward {
    /// Neither GET nor HEAD.
    Method,
    /// GET or HEAD with a body, which the cache key does not cover.
    RequestBody,
    /// Nothing is stored for this target.
    UriMiss,
    /// Something is stored for this target, but made for other values of the fields in `Vary`.
    VaryMiss,
    /// The stored response is stale or must always be validated.
    Stale,
    /// The request's own directives do not accept the stored response.
    Request,
    /// The stored response is fresh only by the route's default, which does not apply to requests with `Cookie` or
    /// `Authorization`.
    Credentials,
    /// The cache is switched off for this route.
    Disabled,
    /// A rule of the route sends the request past the cache.
    Rule,
    /// The cookies and fields that the route puts into the key are too long for it.
    KeyTooLong,
}

impl Forward {
    /// The `fwd` parameter of `Cache-Status` (RFC 9211 §2.2).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::RequestBody | Self::Credentials | Self::Disabled | Self::Rule | Self::KeyTooLong => "bypass",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Stale => "stale",
            Self::Request => "request",
        }
    }

    /// More than `fwd` can say, for its `detail` parameter.
    pub fn detail(self) -> Option<&'static str> {
        match self {
            Self::RequestBody => Some("request-body"),
            Self::Credentials => Some("credentials"),
            Self::Disabled => Some("disabled"),
            Self::Rule => Some("rule"),
            Self::KeyTooLong => Some("key-too-long"),
            Self::Method | Self::UriMiss | Self::VaryMiss | Self::Stale | Self::Request => None,
        }
    }
}

/// `None` if the response may be used as it is, otherwise why it must be validated first.
pub(crate) fn refusal(freshness: &Freshness, request: &RequestDirectives, now: Timestamp) -> Option<Forward> {
    // RFC 9111 §5.2.2.4: no-cache: not without successful validation.
    if freshness.no_cache {
        return Some(Forward::Stale);
    }
    // RFC 9111 §5.2.1.4; max-age=0 is how browsers spell it.
    if request.wants_validation() {
        return Some(Forward::Request);
    }
    let (age_ms, lifetime_ms) = (freshness.age_ms(now), freshness.lifetime_ms);
    // RFC 9111 §5.2.1.1: not older than max-age.
    if request.max_age.is_some_and(|max_age| age_ms > max_age.saturating_mul(1000)) {
        return Some(Forward::Request);
    }
    // RFC 9111 §5.2.1.3: fresh for at least min-fresh more.
    if request.min_fresh.is_some_and(|min_fresh| lifetime_ms < age_ms.saturating_add(min_fresh.saturating_mul(1000))) {
        return Some(Forward::Request);
    }
    if freshness.is_fresh(now) {
        return None;
    }
    // RFC 9111 §4.2.4: no stale use against must-revalidate, proxy-revalidate, s-maxage.
    if freshness.must_revalidate {
        return Some(Forward::Stale);
    }
    // RFC 9111 §5.2.1.2: stale by at most max-stale.
    let staleness_ms = age_ms.saturating_sub(lifetime_ms);
    match request.max_stale {
        Some(MaxStale::Any) => None,
        Some(MaxStale::Seconds(seconds)) if staleness_ms <= seconds.saturating_mul(1000) => None,
        Some(MaxStale::Seconds(_)) | None => Some(Forward::Stale),
    }
}

/// Whether a response that [`refusal`] calls stale, or that was declared stale at a time, may be used while it is
/// revalidated (RFC 5861 §3).
pub(crate) fn serves_while_revalidated(
    freshness: &Freshness,
    request: &RequestDirectives,
    now: Timestamp,
    stale_since: Option<Timestamp>,
) -> bool {
    // RFC 9111 §5.2.1.2: a request that says how much staleness it accepts accepts no more.
    request.max_stale.is_none() && freshness.serves_while_revalidated(now, stale_since)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::CACHE_CONTROL};

    use super::super::control::Control;
    use super::super::freshness::Assumed;
    use super::super::options::PolicyOptions;
    use super::super::time::Timing;
    use super::*;

    fn headers(value: &'static str) -> HeaderMap {
        let mut map = HeaderMap::new();
        map.insert(CACHE_CONTROL, HeaderValue::from_static(value));
        map
    }

    /// The response arrives at second 1000 with age 0; the request comes `age_s` later.
    #[track_caller]
    fn check(response: &'static str, request: &'static str, age_s: u64, expected: Option<Forward>) {
        let arrival = Timestamp(1_000_000);
        let map = headers(response);
        let timing = Timing { sent: arrival, received: arrival };
        let control = Control::of(&map, &PolicyOptions::default());
        let freshness = Freshness::of(&map, &control, timing, Assumed::default()).unwrap();
        let directives = RequestDirectives::parse(&headers(request));
        let found = refusal(&freshness, &directives, Timestamp(arrival.0 + age_s * 1000));
        assert_eq!(found, expected, "{response:?} asked with {request:?} at age {age_s}");
    }

    #[test]
    fn plain() {
        check("max-age=10", "", 9, None);
        check("max-age=10", "", 10, Some(Forward::Stale));
        check("max-age=10, no-cache", "", 1, Some(Forward::Stale));
        check("max-age=10, no-cache", "max-stale", 1, Some(Forward::Stale));
        check("max-age=10, must-revalidate", "", 9, None);
    }

    #[test]
    fn wishes_of_the_request() {
        check("max-age=10", "no-cache", 1, Some(Forward::Request));
        check("max-age=10", "max-age=0", 0, Some(Forward::Request));
        check("max-age=10", "max-age=5", 5, None);
        check("max-age=10", "max-age=5", 6, Some(Forward::Request));
        check("max-age=10", "min-fresh=5", 5, None);
        check("max-age=10", "min-fresh=5", 6, Some(Forward::Request));
        check("max-age=10", "no-store, only-if-cached", 6, None);
    }

    #[test]
    fn stale_use() {
        check("max-age=10", "max-stale", 1_000_000, None);
        check("max-age=10", "max-stale=5", 15, None);
        check("max-age=10", "max-stale=5", 16, Some(Forward::Stale));
        check("max-age=10", "max-stale=5, max-age=12", 13, Some(Forward::Request));
        check("max-age=10, must-revalidate", "max-stale", 11, Some(Forward::Stale));
        check("max-age=10, proxy-revalidate", "max-stale", 11, Some(Forward::Stale));
        check("s-maxage=10", "max-stale", 11, Some(Forward::Stale));
    }
}
