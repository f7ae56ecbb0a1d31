//! Access and limits of a route: plain data, already checked by the reader of the configuration.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use http::HeaderName;

use super::basic::BasicSpec;
use super::forward::ForwardSpec;
use super::jwt_spec::JwtSpec;
use super::rate::Rate;
use crate::networks::Networks;

/// Access and limits of a route. The default lets in every request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdmissionSpec {
    /// The clients that are let in: every rule here has to hold.
    pub allow: AllowSpec,
    /// Clients from here are not, whatever else they have.
    pub deny: Networks,
    /// How often, and how much at a time.
    pub limit: LimitSpec,
}

impl AdmissionSpec {
    /// Whether a request is known by more than where it comes from: what one was answered may not be for another.
    pub(crate) fn asks_credentials(&self) -> bool {
        let AllowSpec { networks: _, basic, jwt, forward, preflight: _ } = &self.allow;
        basic.is_some() || jwt.is_some() || forward.is_some()
    }

    /// The fields by which the service is told who the client is.
    pub(crate) fn fields_of_access(&self) -> Vec<HeaderName> {
        let of_token = self.allow.jwt.iter().flat_map(|jwt| jwt.claims.iter().map(|(field, _)| field));
        of_token.chain(self.allow.forward.iter().flat_map(|forward| &forward.fields)).cloned().collect()
    }
}

/// The clients that are let in. The default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowSpec {
    /// Clients from here; `None`: from everywhere.
    pub networks: Option<Networks>,
    /// Users with their passwords.
    pub basic: Option<BasicSpec>,
    /// Clients with a signed token.
    pub jwt: Option<JwtSpec>,
    /// An auth server that decides (forward authentication).
    pub forward: Option<ForwardSpec>,
    /// What becomes of a CORS preflight, which never has credentials.
    pub preflight: Preflight,
}

/// What becomes of a CORS preflight (Fetch §4.8) on a route that asks for credentials: `OPTIONS` with `Origin` and
/// `Access-Control-Request-Method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preflight {
    /// It is asked for credentials as every request.
    #[default]
    Asked,
    /// It passes to the service without any. Networks and limits hold.
    Passes,
}

/// How often requests are let in, and how much at a time. The default has no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitSpec {
    /// What is counted together.
    pub by: LimitBy,
    /// How often.
    pub rate: Option<RateSpec>,
    /// Requests whose response is not written yet.
    pub concurrent: Option<NonZeroU32>,
    /// Bytes of responses' bodies in a second, for each connection of a client.
    pub bandwidth: Option<u64>,
}

impl LimitSpec {
    /// Values of `concurrent`.
    pub const CONCURRENT: RangeInclusive<u32> = 1..=1_000_000;
    /// Values of `bandwidth`.
    pub const BANDWIDTH: RangeInclusive<u64> = 1 << 10..=1 << 40;
}

/// A rate of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateSpec {
    /// The rate.
    pub rate: Rate,
    /// How many of them may come at once.
    pub burst: NonZeroU32,
    /// The clients that share a count.
    pub scope: RateScope,
}

/// The clients that share a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateScope {
    /// The workers of a gateway.
    #[default]
    Gateway,
    /// All gateways with the same Redis and prefix, and each by itself while that does not answer.
    Shared,
}

impl RateSpec {
    /// Values of `burst`.
    pub const BURST: RangeInclusive<u32> = 1..=1_000_000;
}

/// What requests have in common that are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LimitBy {
    /// The client's address; of IPv6 the first 64 bits, as one subscriber has all the others (RFC 6177 §2).
    #[default]
    Client,
    /// The route: all of its requests.
    Route,
    /// The value of a field. Requests without it, or with more than one, are counted by their client.
    Header(HeaderName),
    /// The value of a cookie. Requests without it, or with more than one, are counted by their client.
    Cookie(String),
}

impl LimitBy {
    /// As it stands in the configuration.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Client => "client".to_owned(),
            Self::Route => "route".to_owned(),
            Self::Header(name) => format!("header:{name}"),
            Self::Cookie(name) => format!("cookie:{name}"),
        }
    }
}
