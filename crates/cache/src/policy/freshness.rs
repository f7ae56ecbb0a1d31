//! Age and freshness lifetime (RFC 9111 §4.2).

use std::time::Duration;

use http::HeaderMap;
use http::header::{AGE, DATE, EXPIRES, LAST_MODIFIED};

use super::control::{Control, Field};
use super::directives::Seconds;
use super::fields;
use super::time::{Timestamp, Timing, millis};

/// Age and freshness lifetime (RFC 9111 §4.2) as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// When it was received, by the clock of whoever received it.
    pub received: Timestamp,
    /// `corrected_initial_age` (§4.2.3).
    pub initial_age_ms: u64,
    /// The freshness lifetime (§4.2.1).
    pub lifetime_ms: u64,
    /// Where the lifetime comes from.
    pub source: Source,
    /// It must not be used stale (§5.2.2.2).
    pub must_revalidate: bool,
    /// It must not be used without validation (§5.2.2.4).
    pub no_cache: bool,
    /// How long after its lifetime it may be used while it is being revalidated (RFC 5861 §3).
    pub while_revalidate_ms: u64,
    /// How long after its lifetime it may be used in place of an error (RFC 5861 §4).
    pub if_error_ms: u64,
}

/// What is assumed of a response that does not say it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Assumed {
    /// The lifetime.
    pub(crate) ttl: Option<Duration>,
    /// The longest lifetime inferred from `Last-Modified`.
    pub(crate) max_heuristic: Option<Duration>,
    /// How long it may be used when the service fails.
    pub(crate) stale_if_error: Option<Duration>,
}

/// Where a freshness lifetime comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The response says so itself.
    Response,
    /// The same, in a targeted field (RFC 9213).
    Targeted,
    /// The route's default: the service said nothing.
    Route,
    /// Inferred from `Last-Modified` (§4.2.2): likewise.
    Heuristic,
}

impl Freshness {
    /// How long after its lifetime it is of use without being validated first.
    pub fn stale_use_ms(&self) -> u64 {
        if self.must_revalidate || self.no_cache { 0 } else { self.while_revalidate_ms.max(self.if_error_ms) }
    }

    /// The freshness of a response, or `None` if it says nothing and nothing is assumed.
    pub(crate) fn of(headers: &HeaderMap, control: &Control, timing: Timing, assumed: Assumed) -> Option<Self> {
        let directives = &control.directives;
        let date = date(headers, timing.received);
        let said = match control.field {
            Field::CacheControl => Source::Response,
            Field::Targeted => Source::Targeted,
        };
        let (lifetime_ms, source) = match explicit_lifetime_ms(headers, control, date) {
            Some(lifetime) => (lifetime, said),
            None if directives.no_cache => (0, said),
            None => match assumed.ttl {
                Some(ttl) => (millis(ttl), Source::Route),
                None => (heuristic_lifetime_ms(headers, date, assumed.max_heuristic?)?, Source::Heuristic),
            },
        };
        // RFC 9111 §5.2.2.10: s-maxage has the semantics of proxy-revalidate for a shared cache.
        let must_revalidate =
            directives.must_revalidate || directives.proxy_revalidate || directives.s_maxage != Seconds::Absent;
        let window_ms = |seconds: Option<u64>| seconds.map_or(0, |seconds| seconds * 1000);
        Some(Self {
            received: timing.received,
            initial_age_ms: initial_age_ms(headers, date, timing),
            lifetime_ms,
            source,
            must_revalidate,
            no_cache: directives.no_cache,
            while_revalidate_ms: window_ms(directives.stale_while_revalidate.valid()),
            if_error_ms: match directives.stale_if_error {
                Seconds::Absent => assumed.stale_if_error.map_or(0, millis),
                said => window_ms(said.valid()),
            },
        })
    }

    /// Not reusable from the start: for a response that serves one request and is not stored.
    pub(crate) fn stale(timing: Timing) -> Self {
        Self {
            received: timing.received,
            initial_age_ms: 0,
            lifetime_ms: 0,
            source: Source::Response,
            must_revalidate: true,
            no_cache: true,
            while_revalidate_ms: 0,
            if_error_ms: 0,
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

    /// RFC 9111 §4.2: `response_is_fresh = (freshness_lifetime > current_age)`.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        self.lifetime_ms > self.age_ms(now)
    }

    /// Fresh, and usable without validation.
    pub(crate) fn is_reusable(&self, now: Timestamp) -> bool {
        !self.no_cache && self.is_fresh(now)
    }

    /// Whether the service has not said how long it is fresh, and so not either that it is for everybody.
    pub(crate) fn is_assumed(&self) -> bool {
        matches!(self.source, Source::Route | Source::Heuristic)
    }

    /// Whether it may be used while it is being revalidated (RFC 5861 §3). `stale_since` is when it was declared stale,
    /// if it was.
    pub(crate) fn serves_while_revalidated(&self, now: Timestamp, stale_since: Option<Timestamp>) -> bool {
        self.allows_stale() && self.staleness_ms(now, stale_since) < self.while_revalidate_ms
    }

    /// Whether it may be used in place of an error (RFC 5861 §4): for as long as it allows itself, or `asked_s`
    /// seconds.
    pub(crate) fn serves_if_error(&self, asked_s: Option<u64>, now: Timestamp, stale_since: Option<Timestamp>) -> bool {
        let window_ms = self.if_error_ms.max(asked_s.map_or(0, |seconds| seconds.saturating_mul(1000)));
        self.allows_stale() && self.staleness_ms(now, stale_since) < window_ms
    }

    /// Whether it is of any use once it is stale and cannot be validated.
    pub(crate) fn has_stale_use(&self) -> bool {
        self.allows_stale() && (self.while_revalidate_ms > 0 || self.if_error_ms > 0)
    }

    /// RFC 9111 §4.2.4: not against no-cache, must-revalidate, proxy-revalidate or s-maxage.
    fn allows_stale(&self) -> bool {
        !self.no_cache && !self.must_revalidate
    }

    fn staleness_ms(&self, now: Timestamp, stale_since: Option<Timestamp>) -> u64 {
        let declared = stale_since.map_or(0, |since| now.millis_since(since));
        self.age_ms(now).saturating_sub(self.lifetime_ms).max(declared)
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
fn explicit_lifetime_ms(headers: &HeaderMap, control: &Control, date: Timestamp) -> Option<u64> {
    let directives = &control.directives;
    match (directives.s_maxage, directives.max_age) {
        (Seconds::Valid(seconds), _) | (Seconds::Absent, Seconds::Valid(seconds)) => return Some(seconds * 1000),
        (Seconds::Invalid, _) | (Seconds::Absent, Seconds::Invalid) => return Some(0),
        (Seconds::Absent, Seconds::Absent) => {}
    }
    // RFC 9213 §2.2: beside a targeted field, Expires is ignored.
    if control.field == Field::Targeted {
        return None;
    }
    let mut lines = headers.get_all(EXPIRES).iter();
    let first = lines.next()?;
    // RFC 9111 §5.3: an invalid date, especially "0", is in the past. Lines that differ are invalid (§4.2.1).
    let expires = Timestamp::from_http_date(first).filter(|_| lines.all(|line| line == first));
    Some(expires.map_or(0, |expires| expires.millis_since(date)))
}

/// RFC 9111 §4.2.2: a tenth of the time since the last modification, at most `max`.
fn heuristic_lifetime_ms(headers: &HeaderMap, date: Timestamp, max: Duration) -> Option<u64> {
    let modified = Timestamp::from_http_date(headers.get(LAST_MODIFIED)?)?;
    Some((date.millis_since(modified) / 10).min(millis(max)))
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

    use super::super::options::PolicyOptions;
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const T: u64 = 784_111_777_000;
    const DATE_T: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const T_PLUS_10: &str = "Sun, 06 Nov 1994 08:49:47 GMT";
    const T_MINUS_10: &str = "Sun, 06 Nov 1994 08:49:27 GMT";

    fn freshness(fields: &[(&'static str, &'static str)], timing: Timing, default_s: Option<u64>) -> Option<Freshness> {
        let headers = fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        let assumed = Assumed { ttl: default_s.map(Duration::from_secs), ..Assumed::default() };
        Freshness::of(&headers, &Control::of(&headers, &PolicyOptions::default()), timing, assumed)
    }

    #[track_caller]
    fn check_lifetime(fields: &[(&'static str, &'static str)], default_s: Option<u64>, expected_s: Option<u64>) {
        let timing = Timing { sent: Timestamp(T), received: Timestamp(T) };
        let found = freshness(fields, timing, default_s).map(|freshness| freshness.lifetime_ms / 1000);
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

    #[test]
    fn heuristics() {
        const TEN_DAYS_BEFORE_T: &str = "Thu, 27 Oct 1994 08:49:37 GMT";
        const DAY: u64 = 24 * 3600;
        let timing = Timing { sent: Timestamp(T), received: Timestamp(T) };
        let check = |fields: &[(&'static str, &'static str)], max_s: Option<u64>, expected_s: Option<u64>| {
            let headers =
                fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
            let control = Control::of(&headers, &PolicyOptions::default());
            let assumed = Assumed { max_heuristic: max_s.map(Duration::from_secs), ..Assumed::default() };
            let found = Freshness::of(&headers, &control, timing, assumed);
            assert_eq!(found.map(|f| f.lifetime_ms / 1000), expected_s, "{fields:?}");
            assert!(found.is_none_or(|f| f.is_assumed() == (f.source == Source::Heuristic)));
        };
        let modified = ("last-modified", TEN_DAYS_BEFORE_T);
        check(&[modified, ("date", DATE_T)], Some(7 * DAY), Some(DAY));
        check(&[modified], Some(7 * DAY), Some(DAY));
        check(&[modified], Some(60), Some(60));
        check(&[modified], None, None);
        check(&[], Some(60), None);
        check(&[("last-modified", "x")], Some(60), None);
        check(&[("last-modified", T_PLUS_10), ("date", DATE_T)], Some(60), Some(0));
        check(&[modified, ("cache-control", "max-age=5")], Some(7 * DAY), Some(5));
        check(&[modified, ("expires", "0")], Some(7 * DAY), Some(0));
        check(&[modified, ("expires", "0"), ("cdn-cache-control", "public")], Some(7 * DAY), Some(DAY));
        check(&[modified, ("cdn-cache-control", "max-age=3"), ("cache-control", "max-age=5")], None, Some(3));
    }

    #[track_caller]
    fn check_stale(value: &'static str, assumed_s: u64, asked_s: Option<u64>, at_s: u64, expected: (bool, bool)) {
        let timing = Timing { sent: Timestamp(T), received: Timestamp(T) };
        let headers = std::iter::once((http::header::CACHE_CONTROL, HeaderValue::from_static(value))).collect();
        let assumed = Assumed { stale_if_error: Some(Duration::from_secs(assumed_s)), ..Assumed::default() };
        let control = Control::of(&headers, &PolicyOptions::default());
        let freshness = Freshness::of(&headers, &control, timing, assumed).unwrap();
        let now = Timestamp(T + at_s * 1000);
        let found = (freshness.serves_while_revalidated(now, None), freshness.serves_if_error(asked_s, now, None));
        assert_eq!(found, expected, "{value} at {at_s} s");
    }

    #[test]
    fn stale_use() {
        check_stale("max-age=10", 0, None, 11, (false, false));
        check_stale("max-age=10, stale-while-revalidate=5", 0, None, 14, (true, false));
        check_stale("max-age=10, stale-while-revalidate=5", 0, None, 15, (false, false));
        check_stale("max-age=10, stale-if-error=5", 0, None, 14, (false, true));
        check_stale("max-age=10, stale-if-error=5", 60, None, 15, (false, false));
        check_stale("max-age=10, stale-if-error=x", 60, None, 11, (false, false));
        check_stale("max-age=10", 60, None, 69, (false, true));
        check_stale("max-age=10", 0, Some(5), 14, (false, true));
        check_stale("max-age=10, stale-if-error=1", 0, Some(5), 14, (false, true));
        check_stale("max-age=10", 0, None, 9, (false, false));
        check_stale("max-age=10, stale-if-error=1", 0, None, 9, (false, true));
        // Declared stale at second 3, when it was fresh.
        let headers = std::iter::once((http::header::CACHE_CONTROL, "max-age=10, stale-while-revalidate=5"))
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect();
        let timing = Timing { sent: Timestamp(T), received: Timestamp(T) };
        let control = Control::of(&headers, &PolicyOptions::default());
        let freshness = Freshness::of(&headers, &control, timing, Assumed::default()).unwrap();
        let serves =
            |at_s: u64| freshness.serves_while_revalidated(Timestamp(T + at_s * 1000), Some(Timestamp(T + 3000)));
        assert!(serves(3) && serves(7) && !serves(8));
        for forbidding in ["must-revalidate", "proxy-revalidate", "s-maxage=10", "no-cache"] {
            let value: &'static str =
                format!("max-age=10, stale-while-revalidate=60, stale-if-error=60, {forbidding}").leak();
            check_stale(value, 60, Some(60), 11, (false, false));
        }
    }
}
