//! Freshness lifetimes that a route gives: to answers that have none themselves, to errors, and the most it allows.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;

/// What a route adds to the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteRules {
    /// The freshness lifetime of responses that do not give one, none by default.
    ///
    /// It applies to statuses that are heuristically cacheable and not server errors (200, 203, 204, 300, 301, 308,
    /// 404, 410), and never between requests with `Cookie` or `Authorization`: a service that says nothing about
    /// caching has not said either that its response is for everybody.
    pub default_ttl: Option<Duration>,
    /// The longest freshness lifetime, whoever gives it; no bound by default. There is no shortest one: to use a
    /// response for longer than the service calls it fresh is to answer with what is wrong (RFC 9111 §4.2).
    pub max_ttl: Option<Duration>,
    /// Freshness lifetimes of errors that give none, under the same conditions as `default_ttl`.
    pub errors: ErrorLifetimes,
    /// The longest body that is stored, if that is less than the cache allows.
    pub max_object_bytes: Option<u64>,
    /// Every cookie of the request is in its key ([`crate::KeyRules::covers_cookies`]).
    pub cookies_in_key: bool,
    /// Requests are let in by credentials, which may be in fields that say nothing to a cache. All of them are taken
    /// for requests with `Authorization`: a response is stored only if it says `public`, `s-maxage` or
    /// `must-revalidate` (RFC 9111 §3.5).
    pub behind_credentials: bool,
}

/// Statuses of errors that a route may give a lifetime (negative caching).
///
/// They are about the target or the service as a whole. Others depend on what the request said besides its key: on who
/// asked (401, 403, 407), how often (429), when (425), with which fields (400, 405, 406, 412, 415, 417, 431): storing
/// one of them would let one client answer all others with the error that it provoked. A service that wants them stored
/// can say so in `Cache-Control`.
pub const ERROR_STATUSES: [u16; 8] = [404, 410, 451, 500, 501, 502, 503, 504];

/// The freshness lifetimes of errors that have none themselves, by status. The default gives none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErrorLifetimes {
    /// In the order of [`ERROR_STATUSES`].
    by_status: [Option<Duration>; ERROR_STATUSES.len()],
}

impl ErrorLifetimes {
    /// Gives statuses a lifetime. Those that are not among [`ERROR_STATUSES`] cannot have one.
    pub fn insert_all(&mut self, statuses: &[u16], lifetime: Duration) {
        for (status, place) in ERROR_STATUSES.iter().zip(&mut self.by_status) {
            if statuses.contains(status) {
                *place = Some(lifetime);
            }
        }
    }

    /// The lifetime of a status.
    pub fn of(&self, status: StatusCode) -> Option<Duration> {
        let place = ERROR_STATUSES.iter().position(|one| *one == status.as_u16())?;
        self.by_status[place]
    }

    /// The statuses that have one.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Duration)> {
        ERROR_STATUSES.into_iter().zip(self.by_status).filter_map(|(status, lifetime)| Some((status, lifetime?)))
    }
}

impl RouteRules {
    /// Values of `default_ttl`, `max_ttl` and the lifetimes of `errors`.
    pub const LIFETIME: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(365 * 24 * 3600);

    /// The lifetime of a response that gives none itself.
    pub(crate) fn lifetime(&self, status: StatusCode) -> Option<Duration> {
        self.errors.of(status).or_else(|| self.default_ttl.filter(|_| takes_default(status)))
    }
}

/// The heuristically cacheable statuses of RFC 9110 §15.1 without those that report a failing request or service.
fn takes_default(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 410)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_before_the_default() {
        let mut errors = ErrorLifetimes::default();
        errors.insert_all(&[404, 401], Duration::from_secs(1));
        errors.insert_all(&[503], Duration::from_secs(2));
        let rules = RouteRules { default_ttl: Some(Duration::from_secs(60)), errors, ..RouteRules::default() };
        let lifetime = |status| rules.lifetime(StatusCode::from_u16(status).unwrap()).map(|time| time.as_secs());
        assert_eq!(lifetime(200), Some(60));
        assert_eq!(lifetime(404), Some(1));
        assert_eq!(lifetime(410), Some(60));
        assert_eq!(lifetime(503), Some(2));
        assert_eq!([500, 401, 429, 302].map(lifetime), [None; 4]);
        assert_eq!(
            errors.iter().map(|(status, time)| (status, time.as_secs())).collect::<Vec<_>>(),
            [(404, 1), (503, 2)]
        );
    }
}
