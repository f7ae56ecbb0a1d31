//! Whether a request is let in on its route: after the route is known, and before the cache is looked at.
//!
//! ```text
//!  route ─▶ networks ─▶ rate ─▶ places ─▶ shared rate ─▶ credentials ─▶ cache, service
//!             │ 403       │ 429    │ 429       │ 429           │ 401
//! ```
//!
//! What is found out at once is found out where the head was read ([`Gate::at_once`]), so that a hit on a limited route
//! stays a hit; the rest on the way to the service ([`Gate::enter`]).
//!
//! A rate that gateways share is counted twice: here, which is what counts while Redis does not answer, and which turns
//! away most of those that Redis would; and there ([`Gate::count_shared`]), by which the count here is put right.
//!
//! Invariant: a request is counted once, wherever it is counted: who looks first hands on what was found ([`Checked`]).

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use pilotlight_cache_redis::{Counted as SharedCount, SharedRate, Tier};
use serde_json::{Value, json};

pub(crate) mod asker;
pub(crate) mod basic;
pub(crate) mod counts;
pub(crate) mod forward;
pub(crate) mod htpasswd;
mod jwt;
pub(crate) mod jwt_spec;
pub(crate) mod pacer;
pub(crate) mod rate;
pub(crate) mod refusal;
mod remembered;
pub(crate) mod spec;
mod verifier;

pub(crate) use asker::{Asker, AskerFields};
use asker::{Key, KeyBy};
use basic::{Basic, Credentials, Verdict};
use counts::{Counts, KeyHash, PaidUntil};
use forward::{Forward, ForwardAddr, remove_alike};
use jwt::{ClientFields, Jwt};
use rate::{Pace, Paid};
use refusal::Refusal;
use spec::{AdmissionSpec, LimitBy, Preflight, RateScope, RateSpec};

use crate::jwks::KeySources;
use crate::networks::Networks;
use crate::timing::Moment;

/// What is known of a request's admission.
#[derive(Debug, Default)]
pub(crate) enum Checked {
    /// Nothing was looked at, and nothing counted.
    #[default]
    Not,
    /// Networks and rate let it in, and it was counted here; what takes a while has to be looked at: a shared rate, its
    /// credentials.
    Counted,
    /// It is let in, and counted where it is to be.
    Granted,
    Refused(Box<Refusal>),
}

/// Whether a request may go on, with what it holds until its response is written.
#[derive(Debug)]
pub(crate) enum Entered {
    /// At once.
    Now(Option<Place>),
    /// When it was counted elsewhere ([`Gate::count_shared`]), and its credentials were looked at
    /// ([`Gate::credentials`]).
    Later(Option<Place>),
}

/// The admission of one route.
pub(crate) struct Gate {
    spec: Arc<AdmissionSpec>,
    /// So that no two routes count the same keys together.
    route: Box<str>,
    rate: Option<(Pace, RateSpec)>,
    /// What tells a shared rate from others of the route, in other versions of the configuration as well.
    shared: Option<Box<str>>,
    basic: Option<Arc<Basic>>,
    jwt: Option<Arc<Jwt>>,
    /// Fields that identify the client to the service, and that no client can send.
    claims: Arc<[HeaderName]>,
    /// The auth server; the exchange asks it.
    pub(crate) forward: Option<Forward>,
}

impl Gate {
    /// `None` where everybody is let in, always.
    pub(crate) fn new(spec: &Arc<AdmissionSpec>, keys: &KeySources, route: &str) -> Option<Self> {
        let rate = spec.limit.rate.clone().map(|limit| (Pace::new(limit.rate, limit.burst), limit));
        let is_shared = |limit: &&RateSpec| limit.scope == RateScope::Shared;
        let shared = spec.limit.rate.as_ref().filter(is_shared);
        let shared = shared.map(|limit| format!("{} {} {}", limit.rate, limit.burst, spec.limit.by.text()).into());
        let is_open = **spec == AdmissionSpec::default();
        let basic = spec.allow.basic.as_ref().map(|spec| Arc::new(Basic::new(spec)));
        (!is_open).then(|| Self {
            jwt: spec.allow.jwt.as_ref().map(|spec| Arc::new(Jwt::new(spec, keys))),
            claims: spec.fields_of_access().into(),
            forward: spec.allow.forward.as_ref().map(Forward::new),
            spec: Arc::clone(spec),
            route: route.into(),
            rate,
            shared,
            basic,
        })
    }

    /// Bytes of responses' bodies in a second, for each connection.
    pub(crate) fn bandwidth(&self) -> Option<u64> {
        self.spec.limit.bandwidth
    }

    /// What can be said from a head alone, and without anything that has to be held until the response is written.
    #[inline]
    pub(crate) fn at_once(&self, counts: &Counts, asker: &Asker<'_, impl AskerFields>) -> Checked {
        let limit = &self.spec.limit;
        if limit.concurrent.is_some() || limit.bandwidth.is_some() {
            return Checked::Not;
        }
        self.look(counts, asker)
    }

    /// The same for a request that goes on to the service; with what it holds until its response is written.
    pub(crate) fn enter(
        &self,
        counts: &Arc<Counts>,
        asker: &Asker<'_, impl AskerFields>,
        checked: Checked,
    ) -> Result<Entered, Box<Refusal>> {
        let checked = match checked {
            Checked::Not => self.look(counts, asker),
            checked => checked,
        };
        match checked {
            Checked::Refused(refusal) => Err(refusal),
            Checked::Granted => self.place(counts, asker).map(Entered::Now),
            Checked::Counted | Checked::Not => self.place(counts, asker).map(Entered::Later),
        }
    }

    fn place(&self, counts: &Arc<Counts>, asker: &Asker<'_, impl AskerFields>) -> Result<Option<Place>, Box<Refusal>> {
        let Some(max) = self.spec.limit.concurrent else { return Ok(None) };
        let key = self.key(counts, Counted::Open, asker);
        match counts.enter(key, max.get()) {
            true => Ok(Some(Place { counts: Arc::clone(counts), key })),
            false => Err(Box::new(Refusal::Concurrent { max: max.get(), by: self.spec.limit.by.text() })),
        }
    }

    /// Has a request that was counted here counted for all gateways, where the rate is shared. While Redis does not
    /// answer, the count here counts.
    ///
    /// # Cancel safety
    /// Dropping it may leave the request counted.
    pub(crate) async fn count_shared(
        &self,
        counts: &Counts,
        tier: Option<&Tier>,
        asker: &Asker<'_, impl AskerFields>,
    ) -> Result<(), Box<Refusal>> {
        let (Some(terms), Some((pace, limit)), Some(tier)) = (&self.shared, &self.rate, tier) else { return Ok(()) };
        let rate = SharedRate { cost_ns: pace.interval_ns, most_ns: pace.ahead_ns };
        let key = self.key_of(asker);
        let (kind, value) = key.parts();
        let parts = [self.route.as_bytes(), terms.as_bytes(), kind, value.as_ref()];
        let known = counts.hash((Counted::Rate, &*self.route, key));
        // From when it was asked: the count here is never ahead of that in Redis by the time that the answer took.
        let at = |ahead_ns| asker.now + Duration::from_nanos(ahead_ns);
        match tier.count(parts, rate).await {
            None => Ok(()),
            Some(SharedCount::Admitted { ahead_ns }) => {
                counts.learn(known, PaidUntil::AtLeast(at(ahead_ns)));
                Ok(())
            }
            Some(SharedCount::Refused { ahead_ns }) => {
                counts.learn(known, PaidUntil::Exactly(at(ahead_ns)));
                Err(self.too_early(limit, pace.wait(ahead_ns)))
            }
        }
    }

    fn too_early(&self, limit: &RateSpec, wait: Duration) -> Box<Refusal> {
        Box::new(Refusal::Rate { limit: limit.clone(), by: self.spec.limit.by.text(), wait })
    }

    /// Verifies the credentials of a request, off the worker where that takes long. The fields identify the client.
    ///
    /// # Cancel safety
    /// Dropping it leaves what has begun to its end, and the request where it is.
    pub(crate) async fn credentials(&self, fields: &impl AskerFields) -> Result<ClientFields, Box<Refusal>> {
        if self.passes_preflight(fields) {
            return Ok(Vec::new());
        }
        if let Some(basic) = &self.basic {
            let credentials = self.said(fields)?;
            match Arc::clone(basic).verify(credentials).await {
                Verdict::Right => {}
                Verdict::Wrong => return Err(self.challenge("the user or the password is wrong")),
                Verdict::TooMany => return Err(Box::new(Refusal::Busy)),
            }
        }
        match &self.jwt {
            Some(jwt) => jwt.verify(fields).await,
            None => Ok(Vec::new()),
        }
    }

    /// Takes away what a client says in a field that only the gateway may fill.
    pub(crate) fn without_claims(&self, headers: &mut HeaderMap) {
        remove_alike(headers, &self.claims);
    }

    /// Those fields, if there are any.
    pub(crate) fn claims(&self) -> Option<&Arc<[HeaderName]>> {
        Some(&self.claims).filter(|claims| !claims.is_empty())
    }

    /// What can be said of them at once.
    fn credentials_now(&self, asker: &Asker<'_, impl AskerFields>) -> Checked {
        if self.forward.is_some() || !self.claims.is_empty() {
            return Checked::Counted; // the fields of the request change with it
        }
        if self.passes_preflight(asker.fields) {
            return Checked::Granted;
        }
        if let Some(basic) = &self.basic {
            match self.said(asker.fields) {
                Ok(credentials) if basic.at_once(&credentials, asker.now) == Some(Verdict::Right) => {}
                Ok(_) => return Checked::Counted,
                Err(refusal) => return Checked::Refused(refusal),
            }
        }
        match self.jwt.as_ref().map(|jwt| jwt.at_once(asker.fields, asker.now)) {
            None | Some(Ok(true)) => Checked::Granted,
            Some(Ok(false)) => Checked::Counted,
            Some(Err(refusal)) => Checked::Refused(refusal),
        }
    }

    /// Whether it is not asked for credentials, as it cannot have any.
    pub(crate) fn passes_preflight(&self, fields: &impl AskerFields) -> bool {
        self.spec.allow.preflight == Preflight::Passes && fields.is_preflight()
    }

    fn said(&self, fields: &impl AskerFields) -> Result<Credentials, Box<Refusal>> {
        let said = fields.only(&AUTHORIZATION).and_then(Credentials::parse);
        said.ok_or_else(|| self.challenge("a user and a password are needed here (Basic, RFC 7617)"))
    }

    fn challenge(&self, why: &'static str) -> Box<Refusal> {
        let realm = self.spec.allow.basic.as_ref().map_or("", |basic| &basic.realm);
        // RFC 7617 §2.1: the text of both is UTF-8.
        let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"").into();
        Box::new(Refusal::Credentials { challenge, why: why.into() })
    }

    /// What it lets in, in words.
    pub(crate) fn explain(&self) -> Value {
        let AdmissionSpec { allow, deny, limit } = &*self.spec;
        let networks = |networks: &Networks| networks.listed().iter().map(ToString::to_string).collect::<Vec<_>>();
        let by = limit.by.text();
        let mut rules = Vec::new();
        if let Some(allowed) = &allow.networks {
            rules.push(json!({ "rule": "allow.networks", "value": networks(allowed).join(" "), "beyond": 403 }));
        }
        if !deny.is_empty() {
            rules.push(json!({ "rule": "deny.networks", "value": networks(deny).join(" "), "beyond": 403 }));
        }
        if let Some(basic) = &allow.basic {
            let value = format!("the users of {}", basic.file.display());
            rules.push(json!({ "rule": "allow.basic", "value": value, "beyond": 401 }));
        }
        if let Some(jwt) = &allow.jwt {
            rules.push(json!({ "rule": "allow.jwt", "value": jwt.text(), "beyond": 401 }));
        }
        if let Some(forward) = &allow.forward {
            let at = match (&forward.at, &forward.authority) {
                (ForwardAddr::Tcp(..) | ForwardAddr::Unix(_), Some(authority)) => authority.clone(),
                (at, _) => at.text(),
            };
            let value = format!("what {at}{} says", forward.target);
            rules.push(json!({ "rule": "allow.forward", "value": value, "beyond": 401 }));
        }
        if let Some(RateSpec { rate, burst, scope }) = &limit.rate {
            let shared = if *scope == RateScope::Shared { ", shared through cache.redis" } else { "" };
            let value = format!("{rate} by {by}, at most {burst} at once{shared}");
            rules.push(json!({ "rule": "limit.rate", "value": value, "beyond": 429 }));
        }
        if let Some(max) = limit.concurrent {
            rules.push(json!({ "rule": "limit.concurrent", "value": format!("{max} by {by}"), "beyond": 429 }));
        }
        if let Some(bytes) = limit.bandwidth {
            rules.push(json!({ "rule": "limit.bandwidth", "value": format!("{bytes} bytes/s for each connection") }));
        }
        rules.into()
    }

    /// What [`at_once`](Self::at_once) would say, open requests and bandwidth aside; nothing is counted.
    pub(crate) fn peek(&self, counts: &Counts, asker: &Asker<'_, impl AskerFields>) -> Checked {
        self.look_by(counts, asker, Counts::peek)
    }

    fn look(&self, counts: &Counts, asker: &Asker<'_, impl AskerFields>) -> Checked {
        self.look_by(counts, asker, Counts::pay)
    }

    /// A request that was let in here is another route's.
    pub(crate) fn take_back(&self, counts: &Counts, asker: &Asker<'_, impl AskerFields>) {
        if let Some((pace, _)) = &self.rate {
            counts.take_back(self.key(counts, Counted::Rate, asker), *pace);
        }
    }

    /// Whether both ask the same of a client, whatever they count.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec)
            || (&self.spec.allow, &self.spec.deny) == (&other.spec.allow, &other.spec.deny)
    }

    #[inline]
    fn look_by(
        &self,
        counts: &Counts,
        asker: &Asker<'_, impl AskerFields>,
        pay: impl FnOnce(&Counts, KeyHash, Pace, Moment) -> Paid,
    ) -> Checked {
        if !self.lets_in(asker.address) {
            return Checked::Refused(Box::new(Refusal::Network(asker.address)));
        }
        let Some((pace, limit)) = &self.rate else { return self.credentials_now(asker) };
        match pay(counts, self.key(counts, Counted::Rate, asker), *pace, asker.now) {
            Paid::Until(_) if self.shared.is_some() => Checked::Counted,
            Paid::Until(_) => self.credentials_now(asker),
            Paid::TooEarly(wait) => Checked::Refused(self.too_early(limit, wait)),
        }
    }

    /// By the networks. A client on a Unix socket has no address: it is in no network.
    fn lets_in(&self, address: Option<IpAddr>) -> bool {
        let AdmissionSpec { allow, deny, .. } = &*self.spec;
        let is_denied = !deny.is_empty() && address.is_some_and(|address| deny.contain(address));
        let has = |networks: &Networks| address.is_some_and(|address| networks.contain(address));
        !is_denied && allow.networks.as_ref().is_none_or(has)
    }

    fn key(&self, counts: &Counts, what: Counted, asker: &Asker<'_, impl AskerFields>) -> KeyHash {
        counts.hash((what, &*self.route, self.key_of(asker)))
    }

    fn key_of<'a>(&self, asker: &Asker<'a, impl AskerFields>) -> Key<'a> {
        let by = match &self.spec.limit.by {
            LimitBy::Route => return Key::All,
            LimitBy::Client => KeyBy::Client,
            LimitBy::Header(name) => KeyBy::Header(name),
            LimitBy::Cookie(name) => KeyBy::Cookie(name),
        };
        Key::new(by, asker.fields, || asker.address)
    }
}

/// What is counted apart.
#[derive(Hash)]
enum Counted {
    Rate,
    Open,
}

/// One of the requests that may be open at a time, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    counts: Arc<Counts>,
    key: KeyHash,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counts.leave(self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::admission::rate::{Period, Rate};
    use crate::admission::spec::{AllowSpec, LimitSpec};
    use crate::networks::Network;

    struct Fields(&'static str, &'static str);

    impl AskerFields for Fields {
        fn first(&self, name: &HeaderName) -> Option<&[u8]> {
            (name == self.0).then_some(self.1.as_bytes())
        }

        fn count(&self, name: &HeaderName) -> usize {
            usize::from(name == self.0)
        }

        fn is_preflight(&self) -> bool {
            false
        }
    }

    const NONE: Fields = Fields("", "");

    fn number(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    fn gate(spec: AdmissionSpec) -> Gate {
        Gate::new(&Arc::new(spec), &KeySources::default(), "/").unwrap()
    }

    fn limited(by: LimitBy) -> Gate {
        let rate =
            RateSpec { rate: Rate { count: number(1), per: Period::Day }, burst: number(1), scope: RateScope::Gateway };
        gate(AdmissionSpec {
            limit: LimitSpec { by, rate: Some(rate), ..LimitSpec::default() },
            ..AdmissionSpec::default()
        })
    }

    fn look(gate: &Gate, counts: &Counts, address: &str, fields: &Fields) -> bool {
        let asker = Asker { address: address.parse().ok(), fields, now: Moment::now() };
        matches!(gate.at_once(counts, &asker), Checked::Granted)
    }

    #[test]
    fn no_rule_is_no_gate() {
        assert!(Gate::new(&Arc::new(AdmissionSpec::default()), &KeySources::default(), "/").is_none());
    }

    #[test]
    fn a_shared_rate_is_not_decided_here_alone() {
        let shared = |by, count| {
            let rate = Rate { count: number(count), per: Period::Day };
            let rate = RateSpec { rate, burst: number(1), scope: RateScope::Shared };
            gate(AdmissionSpec {
                limit: LimitSpec { by, rate: Some(rate), ..LimitSpec::default() },
                ..AdmissionSpec::default()
            })
        };
        let (gate, counts) = (shared(LimitBy::Client, 1), Counts::default());
        let asker = Asker { address: "192.0.2.1".parse().ok(), fields: &NONE, now: Moment::now() };
        assert!(matches!(gate.at_once(&counts, &asker), Checked::Counted));
        assert!(matches!(gate.at_once(&counts, &asker), Checked::Refused(_)), "what is known here is not asked");
        let terms: Vec<_> = [shared(LimitBy::Client, 2), shared(LimitBy::Route, 1), gate]
            .into_iter()
            .filter_map(|gate| gate.shared)
            .collect();
        assert_eq!(terms, ["2/d 1 client", "1/d 1 route", "1/d 1 client"].map(Box::from));
        assert!(limited(LimitBy::Client).shared.is_none());
    }

    #[test]
    fn keys_for_other_gateways() {
        let address = |text: &str| Key::of(text.parse().ok());
        let keys = [
            Key::All,
            Key::Local,
            address("192.0.2.1"),
            address("192.0.2.2"),
            address("2001:db8::1"),
            address("2001:db8:0:1::1"),
            Key::Value(b""),
            Key::Value(&[192, 0, 2, 1]),
            Key::Value(b"local"),
        ]; // all different
        for (at, key) in keys.iter().enumerate() {
            let same = keys.iter().filter(|other| other.parts() == key.parts()).count();
            assert_eq!(same, 1, "{at}");
        }
        assert_eq!(address("2001:db8::1").parts(), address("2001:db8::ffff:1").parts());
        assert_eq!(address("::ffff:192.0.2.1").parts(), address("192.0.2.1").parts());
    }

    #[track_caller]
    fn check_networks(allow: Option<&[&str]>, deny: &[&str], address: &str, expected: bool) {
        let read = |texts: &[&str]| texts.iter().map(|text| text.parse::<Network>().unwrap()).collect::<Networks>();
        let allow = AllowSpec { networks: allow.map(read), ..AllowSpec::default() };
        let gate = Gate {
            spec: Arc::new(AdmissionSpec { allow, deny: read(deny), ..AdmissionSpec::default() }),
            route: "/".into(),
            rate: None,
            shared: None,
            basic: None,
            jwt: None,
            claims: Arc::new([]),
            forward: None,
        };
        assert_eq!(look(&gate, &Counts::default(), address, &NONE), expected, "{address}");
    }

    #[test]
    fn networks() {
        check_networks(Some(&["10.0.0.0/8"]), &[], "10.1.2.3", true);
        check_networks(Some(&["10.0.0.0/8"]), &[], "11.1.2.3", false);
        check_networks(Some(&["10.0.0.0/8"]), &["10.1.0.0/16"], "10.1.2.3", false);
        check_networks(None, &["10.1.0.0/16"], "10.1.2.3", false);
        check_networks(None, &["10.1.0.0/16"], "10.2.2.3", true);
        // A Unix socket is in no network.
        check_networks(Some(&["0.0.0.0/0", "::/0"]), &[], "", false);
        check_networks(None, &["0.0.0.0/0"], "", true);
        check_networks(Some(&[]), &[], "10.1.2.3", false);
    }

    #[test]
    fn what_is_counted_together() {
        let counts = Counts::default();
        let gate = limited(LimitBy::Client);
        assert!(look(&gate, &counts, "10.0.0.1", &NONE));
        assert!(!look(&gate, &counts, "10.0.0.1", &NONE));
        assert!(!look(&gate, &counts, "::ffff:10.0.0.1", &NONE), "the same client");
        assert!(look(&gate, &counts, "10.0.0.2", &NONE));
        assert!(look(&gate, &counts, "2001:db8::1", &NONE));
        assert!(!look(&gate, &counts, "2001:db8::ffff:ffff:ffff:ffff", &NONE), "the same subscriber");
        assert!(look(&gate, &counts, "2001:db8:0:1::1", &NONE));
        assert!(look(&gate, &counts, "", &NONE) && !look(&gate, &counts, "", &NONE));
        let other = Gate { route: "/other".into(), ..limited(LimitBy::Client) };
        assert!(look(&other, &counts, "10.0.0.1", &NONE), "another route counts by itself");

        let counts = Counts::default();
        let gate = limited(LimitBy::Route);
        assert!(look(&gate, &counts, "10.0.0.1", &NONE) && !look(&gate, &counts, "10.0.0.2", &NONE));

        let counts = Counts::default();
        let gate = limited(LimitBy::Header(HeaderName::from_static("x-api-key")));
        assert!(look(&gate, &counts, "10.0.0.1", &Fields("x-api-key", "a")));
        assert!(!look(&gate, &counts, "10.0.0.2", &Fields("x-api-key", "a")));
        assert!(look(&gate, &counts, "10.0.0.1", &Fields("x-api-key", "b")));
        assert!(look(&gate, &counts, "10.0.0.1", &NONE) && !look(&gate, &counts, "10.0.0.1", &NONE), "by the client");

        let counts = Counts::default();
        let gate = limited(LimitBy::Cookie("sid".to_owned()));
        assert!(look(&gate, &counts, "10.0.0.1", &Fields("cookie", "a=b; sid=1")));
        assert!(!look(&gate, &counts, "10.0.0.2", &Fields("cookie", "sid=1; a=c")));
        assert!(look(&gate, &counts, "10.0.0.1", &Fields("cookie", "xsid=1")));
    }

    #[test]
    fn places_are_given_back() {
        let counts = Arc::new(Counts::default());
        let limit = LimitSpec { concurrent: Some(number(1)), ..LimitSpec::default() };
        let gate = gate(AdmissionSpec { limit, ..AdmissionSpec::default() });
        let asker = Asker { address: None, fields: &NONE, now: Moment::now() };
        assert!(matches!(gate.at_once(&counts, &asker), Checked::Not), "a hit has no place to hold");
        let place = gate.enter(&counts, &asker, Checked::Not).unwrap();
        assert!(matches!(*gate.enter(&counts, &asker, Checked::Not).unwrap_err(), Refusal::Concurrent { max: 1, .. }));
        drop(place);
        assert!(matches!(gate.enter(&counts, &asker, Checked::Granted), Ok(Entered::Now(Some(_)))));
    }

    #[test]
    fn a_request_is_counted_once() {
        let counts = Arc::new(Counts::default());
        let gate = limited(LimitBy::Route);
        let asker = Asker { address: None, fields: &NONE, now: Moment::now() };
        let checked = gate.at_once(&counts, &asker);
        assert!(gate.enter(&counts, &asker, checked).is_ok());
        let checked = gate.at_once(&counts, &asker);
        assert!(matches!(*gate.enter(&counts, &asker, checked).unwrap_err(), Refusal::Rate { .. }));
    }
}
