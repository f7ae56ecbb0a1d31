//! Why a request is not let in, and what its client is told of it beyond a status.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use http::header::WWW_AUTHENTICATE;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::spec::RateSpec;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client's address is in a network that is denied, or in none that is allowed; none on a Unix socket.
    Network(Option<IpAddr>),
    /// Too many requests in a time.
    Rate { limit: RateSpec, by: String, wait: Duration },
    /// Too many requests at a time.
    Concurrent { max: u32, by: String },
    /// No credentials, or wrong ones; with the value of `WWW-Authenticate`.
    Credentials { challenge: Box<str>, why: Cow<'static, str> },
    /// The token is right, and has not the scopes that are needed; with the value of `WWW-Authenticate`.
    Scope { challenge: Box<str> },
    /// Too many credentials of others are being looked at.
    Busy,
    /// There are no keys yet that tokens could be verified by, or they are too old.
    NoKeys,
    /// The auth server gave no decision.
    Undecided,
    /// The auth server refused it, and the client gets that server's answer.
    Forward,
}

/// What refused requests are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Network,
    Rate,
    Concurrent,
    Credentials,
    Scope,
    Busy,
    NoKeys,
    Undecided,
    Forward,
}

impl Refused {
    pub(crate) const ALL: [Self; 9] = [
        Self::Network,
        Self::Rate,
        Self::Concurrent,
        Self::Credentials,
        Self::Scope,
        Self::Busy,
        Self::NoKeys,
        Self::Undecided,
        Self::Forward,
    ];

    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Rate => "rate",
            Self::Concurrent => "concurrent",
            Self::Credentials => "credentials",
            Self::Scope => "scope",
            Self::Busy => "busy",
            Self::NoKeys => "keys",
            Self::Undecided => "undecided",
            Self::Forward => "forward",
        }
    }
}

impl Refusal {
    pub(crate) fn kind(&self) -> Refused {
        match self {
            Self::Network(_) => Refused::Network,
            Self::Rate { .. } => Refused::Rate,
            Self::Concurrent { .. } => Refused::Concurrent,
            Self::Credentials { .. } => Refused::Credentials,
            Self::Scope { .. } => Refused::Scope,
            Self::Busy => Refused::Busy,
            Self::NoKeys => Refused::NoKeys,
            Self::Undecided => Refused::Undecided,
            Self::Forward => Refused::Forward,
        }
    }

    /// Members of the problem document (RFC 9457 §3.2) beside those that all have.
    pub(crate) fn members(&self) -> Map<String, Value> {
        let limit = match self {
            Self::Network(_)
            | Self::Credentials { .. }
            | Self::Scope { .. }
            | Self::Busy
            | Self::NoKeys
            | Self::Undecided
            | Self::Forward => return Map::new(),
            Self::Rate { limit, by, .. } => {
                json!({ "rate": limit.rate.to_string(), "burst": limit.burst.get(), "by": by })
            }
            Self::Concurrent { max, by } => json!({ "concurrent": max, "by": by }),
        };
        Map::from_iter([("limit".to_owned(), limit)])
    }

    /// Fields of the response beside those that all have.
    pub(crate) fn fields(&self) -> Vec<(HeaderName, HeaderValue)> {
        match self {
            Self::Rate { limit, wait, .. } => rate_fields(limit, *wait),
            // RFC 9110 §15.5.2: a 401 has at least one challenge.
            Self::Credentials { challenge, .. } | Self::Scope { challenge } => {
                fields([(WWW_AUTHENTICATE, challenge.to_string())])
            }
            Self::Network(_)
            | Self::Concurrent { .. }
            | Self::Busy
            | Self::NoKeys
            | Self::Undecided
            | Self::Forward => Vec::new(),
        }
    }
}

/// `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-09 §3, §4): `q` requests in `w` seconds, of
/// which `r` are left, and more of them in `t` seconds.
fn rate_fields(limit: &RateSpec, wait: Duration) -> Vec<(HeaderName, HeaderValue)> {
    let (count, seconds) = (limit.rate.count, limit.rate.per.seconds());
    let wait = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    fields([
        (RATELIMIT_POLICY, format!("\"rate\";q={count};w={seconds}")),
        (RATELIMIT, format!("\"rate\";r=0;t={}", wait.max(1))),
    ])
}

fn fields<const N: usize>(fields: [(HeaderName, String); N]) -> Vec<(HeaderName, HeaderValue)> {
    fields.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?))).collect()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(Some(address)) => write!(f, "clients from {address} are not let in here"),
            Self::Network(None) => f.write_str("clients without an IP address are not let in here"),
            Self::Rate { limit, by, .. } => {
                let (rate, burst) = (limit.rate, limit.burst);
                write!(f, "too many requests: the route takes {rate} by {by}, at most {burst} at once")
            }
            Self::Credentials { why, .. } => f.write_str(why),
            Self::Scope { .. } => f.write_str("the token has not the scopes that are needed here"),
            Self::Busy => f.write_str("too many credentials are being checked; try again"),
            Self::NoKeys => f.write_str("there are no keys to verify tokens by at the moment; try again"),
            Self::Undecided => f.write_str("whether the request is let in could not be found out; try again"),
            Self::Forward => f.write_str("the request is not let in"),
            Self::Concurrent { max, by } => {
                write!(f, "too many requests at a time: the route takes {max} by {by}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::admission::rate::{Period, Rate};
    use crate::admission::spec::RateScope;

    #[test]
    fn what_a_client_is_told() {
        let number = |count| NonZeroU32::new(count).unwrap();
        let limit = RateSpec {
            rate: Rate { count: number(30), per: Period::Minute },
            burst: number(5),
            scope: RateScope::Gateway,
        };
        let refusal = Refusal::Rate { limit, by: "client".to_owned(), wait: Duration::from_millis(1500) };
        let fields: Vec<_> = refusal.fields().into_iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        assert_eq!(fields, [r#"ratelimit-policy: "\"rate\";q=30;w=60""#, r#"ratelimit: "\"rate\";r=0;t=2""#]);
        assert_eq!(Value::from(refusal.members()), json!({ "limit": { "rate": "30/m", "burst": 5, "by": "client" } }));
        assert_eq!(refusal.to_string(), "too many requests: the route takes 30/m by client, at most 5 at once");
        assert!(Refusal::Network(None).fields().is_empty() && Refusal::Network(None).members().is_empty());
    }
}
