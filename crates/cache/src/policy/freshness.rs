//! Age and freshness lifetime (RFC 9111 §4.2).

use std::time::Duration;

use http::HeaderMap;
use http::header::{AGE, DATE, EXPIRES};

use super::directives::{ResponseDirectives, Seconds};
use super::fields;
use super::time::{Timestamp, Timing, millis};
use crate::parts::Freshness as Parts;

/// How old a stored response was when it arrived, how long it is fresh, and what it demands when it no longer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freshness {
    received: Timestamp,
    initial_age_ms: u64,
    lifetime_ms: u64,
    pub(crate) source: Source,
    /// §4.2.4: it must not be used stale, whatever the request accepts.
    pub(crate) must_revalidate: bool,
    /// §5.2.2.4: it must not be used without validation, even fresh.
    pub(crate) no_cache: bool,
}

/// Where a freshness lifetime comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The response says so itself.
    Response,
    /// The route's default: the service said nothing.
    Route,
}

impl Freshness {
    /// The freshness of a response, or `None` if it says nothing and the route has no default.
    pub(crate) fn of(
        headers: &HeaderMap,
        directives: &ResponseDirectives,
        timing: Timing,
        default_ttl: Option<Duration>,
    ) -> Option<Self> {
        let date = date(headers, timing.received);
        let (lifetime_ms, source) = match explicit_lifetime_ms(headers, directives, date) {
            Some(lifetime) => (lifetime, Source::Response),
            None if directives.no_cache => (0, Source::Response),
            None => (default_ttl.map(millis)?, Source::Route),
        };
        Some(Self {
            received: timing.received,
            initial_age_ms: initial_age_ms(headers, date, timing),
            lifetime_ms,
            source,
            // RFC 9111 §5.2.2.10: s-maxage has the semantics of proxy-revalidate for a shared cache.
            must_revalidate: directives.must_revalidate
                || directives.proxy_revalidate
                || directives.s_maxage != Seconds::Absent,
            no_cache: directives.no_cache,
        })
    }

    pub(crate) fn to_parts(self) -> Parts {
        Parts {
            received: self.received,
            initial_age_ms: self.initial_age_ms,
            lifetime_ms: self.lifetime_ms,
            is_by_route: self.source == Source::Route,
            must_revalidate: self.must_revalidate,
            no_cache: self.no_cache,
        }
    }

    pub(crate) fn from_parts(parts: Parts) -> Self {
        Self {
            received: parts.received,
            initial_age_ms: parts.initial_age_ms,
            lifetime_ms: parts.lifetime_ms,
            source: if parts.is_by_route { Source::Route } else { Source::Response },
            must_revalidate: parts.must_revalidate,
            no_cache: parts.no_cache,
        }
    }

    /// Not reusable from the start: for an answer that serves one request and is not stored.
    pub(crate) fn stale(timing: Timing) -> Self {
        Self {
            received: timing.received,
            initial_age_ms: 0,
            lifetime_ms: 0,
            source: Source::Response,
            must_revalidate: true,
            no_cache: true,
        }
    }

    /// The same with a lifetime of at most so much.
    pub(crate) fn at_most(self, max: Option<Duration>) -> Self {
        Self { lifetime_ms: max.map_or(self.lifetime_ms, |max| self.lifetime_ms.min(millis(max))), ..self }
    }

    /// RFC 9111 §4.2.3: `current_age = corrected_initial_age + resident_time`.
    pub(crate) fn age_ms(&self, now: Timestamp) -> u64 {
        self.initial_age_ms.saturating_add(now.millis_since(self.received))
    }

    pub(crate) fn lifetime_ms(&self) -> u64 {
        self.lifetime_ms
    }

    /// RFC 9111 §4.2: `response_is_fresh = (freshness_lifetime > current_age)`.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        self.lifetime_ms > self.age_ms(now)
    }

    /// Fresh, and usable without validation.
    pub(crate) fn is_reusable(&self, now: Timestamp) -> bool {
        !self.no_cache && self.is_fresh(now)
    }

    /// The `Age` field's value.
    pub(crate) fn age_s(&self, now: Timestamp) -> u64 {
        self.age_ms(now) / 1000
    }

    /// RFC 9211 §2.4: the remaining freshness lifetime in seconds at an age, negative when stale.
    pub(crate) fn ttl_s(&self, age_s: u64) -> i64 {
        let seconds = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        seconds(self.lifetime_ms / 1000).saturating_sub(seconds(age_s))
    }
}

/// RFC 9111 §4.2.1, the first that applies: s-maxage, max-age, Expires minus Date. Invalid values mean stale.
fn explicit_lifetime_ms(headers: &HeaderMap, directives: &ResponseDirectives, date: Timestamp) -> Option<u64> {
    match (directives.s_maxage, directives.max_age) {
        (Seconds::Valid(seconds), _) | (Seconds::Absent, Seconds::Valid(seconds)) => return Some(seconds * 1000),
        (Seconds::Invalid, _) | (Seconds::Absent, Seconds::Invalid) => return Some(0),
        (Seconds::Absent, Seconds::Absent) => {}
    }
    let mut lines = headers.get_all(EXPIRES).iter();
    let first = lines.next()?;
    // RFC 9111 §5.3: an invalid date, especially "0", is in the past. Lines that differ are invalid (§4.2.1).
    let expires = Timestamp::from_http_date(first).filter(|_| lines.all(|line| line == first));
    Some(expires.map_or(0, |expires| expires.millis_since(date)))
}

/// `date_value`. RFC 9110 §6.6.1: a recipient with a clock replaces a missing or invalid one by the time of receipt.
fn date(headers: &HeaderMap, received: Timestamp) -> Timestamp {
    let received_second = Timestamp(received.seconds() * 1000);
    headers.get(DATE).and_then(Timestamp::from_http_date).unwrap_or(received_second)
}

/// RFC 9111 §4.2.3, `corrected_initial_age`.
fn initial_age_ms(headers: &HeaderMap, date: Timestamp, timing: Timing) -> u64 {
    // Date has whole seconds: comparing it with milliseconds would age every response by up to one.
    let apparent_age = timing.received.seconds().saturating_sub(date.seconds()) * 1000;
    let response_delay = timing.received.millis_since(timing.sent);
    let corrected_age_value = age_value_s(headers).saturating_mul(1000).saturating_add(response_delay);
    apparent_age.max(corrected_age_value)
}

/// `age_value`. RFC 9111 §5.1: of several members the first is used; an invalid one is ignored.
fn age_value_s(headers: &HeaderMap) -> u64 {
    const MAX: u64 = 1 << 31;
    let Some(first) = fields::members(headers, &AGE).next() else {
        return 0;
    };
    if !first.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    first.iter().fold(0, |sum: u64, byte| (sum * 10 + u64::from(byte - b'0')).min(MAX))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const T: u64 = 784_111_777_000;
    const DATE_T: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const T_PLUS_10: &str = "Sun, 06 Nov 1994 08:49:47 GMT";
    const T_MINUS_10: &str = "Sun, 06 Nov 1994 08:49:27 GMT";

    fn freshness(fields: &[(&'static str, &'static str)], timing: Timing, default_s: Option<u64>) -> Option<Freshness> {
        let headers = fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        Freshness::of(&headers, &ResponseDirectives::parse(&headers), timing, default_s.map(Duration::from_secs))
    }

    #[track_caller]
    fn check_lifetime(fields: &[(&'static str, &'static str)], default_s: Option<u64>, expected_s: Option<u64>) {
        let timing = Timing { sent: Timestamp(T), received: Timestamp(T) };
        let found = freshness(fields, timing, default_s).map(|freshness| freshness.lifetime_ms() / 1000);
        assert_eq!(found, expected_s, "{fields:?}");
    }

    #[test]
    fn lifetimes() {
        check_lifetime(&[], None, None);
        check_lifetime(&[], Some(5), Some(5));
        check_lifetime(&[("cache-control", "max-age=60")], Some(5), Some(60));
        check_lifetime(&[("cache-control", "max-age=60, s-maxage=7")], None, Some(7));
        check_lifetime(&[("cache-control", "max-age=60"), ("expires", T_PLUS_10), ("date", DATE_T)], None, Some(60));
        check_lifetime(&[("expires", T_PLUS_10), ("date", DATE_T)], Some(5), Some(10));
        check_lifetime(&[("expires", T_PLUS_10)], None, Some(10));
        check_lifetime(&[("expires", T_PLUS_10), ("date", "nonsense")], None, Some(10));
        check_lifetime(&[("expires", T_PLUS_10), ("date", T_MINUS_10)], None, Some(20));
        check_lifetime(&[("cache-control", "no-cache")], Some(5), Some(0));
        check_lifetime(&[("cache-control", "public")], None, None);
    }

    #[test]
    fn invalid_freshness_is_stale_and_keeps_the_default_out() {
        check_lifetime(&[("cache-control", "max-age=x")], Some(5), Some(0));
        check_lifetime(&[("cache-control", "max-age=60, s-maxage=x")], Some(5), Some(0));
        check_lifetime(&[("cache-control", "max-age=60, max-age=61")], Some(5), Some(0));
        check_lifetime(&[("expires", "0")], Some(5), Some(0));
        check_lifetime(&[("expires", T_PLUS_10), ("expires", DATE_T), ("date", DATE_T)], Some(5), Some(0));
        check_lifetime(&[("expires", T_MINUS_10), ("date", DATE_T)], Some(5), Some(0));
    }

    #[track_caller]
    fn check_age(fields: &[(&'static str, &'static str)], delay_ms: u64, after_ms: u64, expected_ms: u64) {
        let timing = Timing { sent: Timestamp(T + 300 - delay_ms), received: Timestamp(T + 300) };
        let found = freshness(fields, timing, Some(60)).unwrap().age_ms(Timestamp(T + 300 + after_ms));
        assert_eq!(found, expected_ms, "{fields:?}");
    }

    #[test]
    fn ages() {
        check_age(&[], 0, 0, 0);
        check_age(&[], 120, 1000, 1120);
        check_age(&[("date", DATE_T)], 0, 0, 0);
        check_age(&[("date", T_MINUS_10)], 0, 500, 10_500);
        check_age(&[("date", T_PLUS_10)], 0, 500, 500);
        check_age(&[("age", "7")], 100, 0, 7100);
        check_age(&[("age", "7"), ("date", T_MINUS_10)], 100, 0, 10_000);
        check_age(&[("age", "12"), ("date", T_MINUS_10)], 100, 0, 12_100);
        check_age(&[("age", "7, 90")], 0, 0, 7000);
        check_age(&[("age", "-7")], 0, 0, 0);
        check_age(&[("age", "99999999999999999999")], 0, 0, (1 << 31) * 1000);
    }

    #[test]
    fn fresh_until_its_age_reaches_its_lifetime() {
        let timing = Timing { sent: Timestamp(T), received: Timestamp(T) };
        let freshness = freshness(&[("cache-control", "max-age=2")], timing, None).unwrap();
        assert!(freshness.is_fresh(Timestamp(T + 1999)));
        assert!(!freshness.is_fresh(Timestamp(T + 2000)));
        assert_eq!(freshness.ttl_s(freshness.age_s(Timestamp(T + 1999))), 1);
        assert_eq!(freshness.ttl_s(freshness.age_s(Timestamp(T + 5000))), -3);
        assert!(freshness.is_fresh(Timestamp(T - 60_000)), "a clock set back makes it younger, not older");
    }

    #[test]
    fn who_must_revalidate() {
        let timing = Timing { sent: Timestamp(T), received: Timestamp(T) };
        let of = |value| freshness(&[("cache-control", value)], timing, None).unwrap();
        assert!(!of("max-age=1").must_revalidate);
        for value in
            ["max-age=1, must-revalidate", "max-age=1, proxy-revalidate", "s-maxage=1", "max-age=1, s-maxage=x"]
        {
            assert!(of(value).must_revalidate, "{value}");
        }
        assert!(of("max-age=1, no-cache").no_cache);
    }
}
