//! Hits in memory, answered from bytes that the stored response has ready: without a future, a request or a response.
//!
//! `Host`, route and cache are asked through the functions that [`crate::exchange`] uses. What is stated here only
//! narrows: a GET by HTTP/1.1 without a body, without conditions and without a word about the connection.
//!
//! What memory has not, Redis may have: [`super::redis_lookup`].

use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use http::header::{ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderName, Method};
use pilotlight_cache::{Lookup, RequestFields, Stored, Timestamp};
use pilotlight_http1::{BodyLength, Fields, Persistence, RequestHead, Target, Version};

use super::Client;
use super::hit_timer::HitTimer;
use super::pending_lookup::LookupRequest;
use super::received::Known;
use crate::access_log::{Entry, Hit};
use crate::admission::{Asker, AskerFields, Checked};
use crate::cache_key::CacheKey;
use crate::conditions::{ConditionFields, HeadFacts};
use crate::forwarded::TrustForwarded;
use crate::head::put_fields;
use crate::lookup::{self, CacheRequest};
use crate::metrics::Verdict;
use crate::options::{PlainHttp, RouteCache, Settings};
use crate::path::is_normal;
use crate::peer_address::PeerAddress;
use crate::routes::{Route, Table};
use crate::target::{Origin, RequestUrl, Scheme};
use crate::timing::Moment;
use crate::traces::TRACEPARENT_NAME;
use crate::traces::tracer::{Sampling, TracedHit};
use crate::worker::Worker;
use crate::{cache_key, compress, server_timing};

/// Larger bodies are written from where they are.
pub(crate) const MAX_BODY: usize = super::DIRECT_WRITE;

/// What was found for a head.
pub(super) enum Peeked {
    /// A hit, which has been written.
    Hit,
    /// Redis is being asked.
    AsksRedis,
    /// The service has to be asked, or something else than the stored response as it is answers.
    Known(Known),
    /// Whatever else there is to say about it, the exchange says.
    Nothing(Checked),
}

/// Whether a stored response may answer the request as it stands.
#[inline]
pub(super) fn is_plain(head: &RequestHead<'_>) -> bool {
    head.method == "GET"
        && head.version == Version::Http11
        && head.persistence == Persistence::KeepAlive
        && head.content_length.is_none()
        && head.body == BodyLength::Empty
        && head.upgrade.is_none()
        && !ASK_FOR_MORE
            .iter()
            .any(|name| head.fields.may_have(name.as_bytes()) && head.fields.all(name).next().is_some())
}

/// Names of fields that ask for something else than the stored response as it is.
pub(crate) const ASK_FOR_MORE: [&str; 5] =
    ["range", "expect", "if-none-match", "if-modified-since", server_timing::ASKS_NAME];

/// The fields of a head where they were read, whichever protocol has them.
pub(crate) trait ReadFields: Copy {
    /// Names and values of those that a proxy may pass on.
    fn end_to_end<'a>(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])>
    where
        Self: 'a;

    /// Whether there may be one with this name: `false` is certain.
    fn may_have(self, name: &[u8]) -> bool;
}

impl ReadFields for Fields<'_> {
    #[inline]
    fn end_to_end<'a>(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])>
    where
        Self: 'a,
    {
        Fields::end_to_end(self).map(|field| (field.name, field.value))
    }

    #[inline]
    fn may_have(self, name: &[u8]) -> bool {
        Fields::may_have(self, name)
    }
}

/// The same as the cache looks at them.
struct Unread<F> {
    fields: F,
    /// What stands for `Accept-Encoding` on a route that chooses the coding.
    accept_encoding: Option<&'static str>,
}

impl<F: ReadFields> Unread<F> {
    #[inline]
    fn new(fields: F, route: &Route) -> Self {
        let mut unread = Self { fields, accept_encoding: None };
        if let Some(options) = &route.compress {
            unread.accept_encoding = Some(compress::chosen(options, &unread));
        }
        unread
    }

    #[inline]
    fn replaced(&self, name: &HeaderName) -> Option<&'static [u8]> {
        self.accept_encoding.filter(|_| *name == ACCEPT_ENCODING).map(str::as_bytes)
    }
}

impl<F: ReadFields> RequestFields for Unread<F> {
    #[inline]
    fn lines<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> + 'a {
        let replaced = self.replaced(name);
        let name = name.as_str().as_bytes();
        let is_read = replaced.is_none();
        let same =
            move |field: &(&[u8], &[u8])| is_read && field.0.len() == name.len() && field.0.eq_ignore_ascii_case(name);
        replaced.into_iter().chain(self.fields.end_to_end().filter(same).map(|field| field.1))
    }

    #[inline]
    fn has(&self, name: &HeaderName) -> bool {
        self.replaced(name).is_some()
            || self.fields.may_have(name.as_str().as_bytes()) && self.lines(name).next().is_some()
    }
}

impl<F: ReadFields> AskerFields for Unread<F> {
    fn first(&self, name: &HeaderName) -> Option<&[u8]> {
        let name = name.as_str().as_bytes();
        self.fields.end_to_end().find(|field| field.0.eq_ignore_ascii_case(name)).map(|field| field.1)
    }

    fn count(&self, name: &HeaderName) -> usize {
        self.lines(name).count()
    }

    /// It is a GET ([`is_plain`]).
    fn is_preflight(&self) -> bool {
        false
    }
}

/// The same as conditions look at them.
struct Lines<F>(F);

impl<F: ReadFields> ConditionFields for Lines<F> {
    fn each_line(&self, name: &HeaderName, value: &mut dyn FnMut(&[u8])) {
        let name = name.as_str().as_bytes();
        if self.0.may_have(name) {
            let is_of_name = |field: &(&[u8], &[u8])| field.0.eq_ignore_ascii_case(name);
            self.0.end_to_end().filter(is_of_name).for_each(|field| value(field.1));
        }
    }
}

/// What memory has for a plain GET whose target is in normal form ([`route_of`]), by its head alone; `None` where more
/// of it counts than its target and what stored responses vary on.
#[inline]
pub(crate) fn peek(
    worker: &Worker,
    settings: &Settings,
    route: &Route,
    fields: impl ReadFields,
    url: RequestUrl<'_>,
    now: Timestamp,
) -> Option<Lookup> {
    let cache = worker.common.cache.as_ref()?;
    if cache_key::control(route).is_some()
        || settings.trust_forwarded != TrustForwarded::Nobody
        || worker.access_log.is_some()
    {
        return None;
    }
    let RouteCache::On { .. } = route.cache else { return None };
    let key = CacheKey::of_normal_url(url);
    cache.lookup_plain(&key.as_key(), &Unread::new(fields, route), now)
}

/// Whether it matters whose request it is, where fields tell that: it takes a head to know.
#[inline]
pub(crate) fn wants_client(worker: &Worker, settings: &Settings, route: &Route) -> bool {
    settings.trust_forwarded != TrustForwarded::Nobody && (route.gate.is_some() || worker.access_log.is_some())
}

/// Answers from memory, if the response is there, and counts it. If it is not, Redis may be asked.
#[inline]
pub(super) fn find<'a>(
    worker: &'a Worker,
    client: &Rc<Client>,
    table: &'a Table,
    hit_timer: &mut HitTimer<'a>,
    head: &RequestHead<'_>,
    headers: &mut HeaderMap,
    out: &mut BytesMut,
) -> Peeked {
    let Target::Origin(target) = head.target else { return Peeked::Nothing(Checked::Not) };
    let sampling = sampling(worker, &client.settings, &client.peer, head.fields);
    if sampling == Sampling::Asked {
        return Peeked::Nothing(Checked::Not);
    }
    let Some(route) = find_route(worker, client, table, head, target) else { return Peeked::Nothing(Checked::Not) };
    let begun = begin(hit_timer, sampling);
    match check(worker, &client.peer, route, head.fields, begun) {
        Checked::Granted => {}
        checked => return Peeked::Nothing(checked),
    }
    if route.service.is_none() {
        return Peeked::Nothing(Checked::Granted);
    }
    let now = worker.clock.timestamp(begun);
    let origin = Origin { scheme: client.scheme, authority: head.authority };
    let peeked = peek(worker, &client.settings, route, head.fields, RequestUrl { origin, target }, now);
    if sampling == Sampling::Drawn && !answers(&peeked, route) {
        return Peeked::Nothing(Checked::Granted); // each of its phases is a span
    }
    if !matches!(peeked, Some(Lookup::Hit(_))) {
        put(head, route, headers);
    }
    let lookup = peeked.or_else(|| {
        let origin = Origin::of(headers, head.authority, client.hop_of(headers));
        let url = RequestUrl { origin, target };
        let request = CacheRequest { method: &Method::GET, url, headers, has_content: false };
        lookup::look_up(&worker.common, route, request, now)
    });
    let stale = match lookup {
        Some(Lookup::Hit(stored)) if is_answer(&stored, route) => {
            // By reference: a count of references that workers share would be a shared number on the hot path.
            let book = route.series.book(worker.index);
            hit_timer.turn_to(book);
            stored.write_response(now, out);
            hit_timer.count(book, stored.status().as_u16(), stored.body().len() as u64);
            match sampling {
                Sampling::Drawn => trace(worker, client, route, head, &stored, hit_timer),
                _ => worker.tracer.pass(),
            }
            if worker.access_log.is_some() {
                log(worker, client, route, head, headers, &stored, hit_timer);
            }
            return Peeked::Hit;
        }
        Some(Lookup::Hit(_)) => {
            put(head, route, headers);
            return known(route, lookup);
        }
        // Its refresh needs the whole request.
        Some(Lookup::StaleWhileRevalidate(_)) => return Peeked::Nothing(Checked::Granted),
        Some(Lookup::Miss(_)) => None,
        Some(Lookup::Stale(ref stale, _)) => Some(stale),
        lookup => return known(route, lookup),
    };
    if ask(worker, client, hit_timer, route, head, headers, stale) {
        return Peeked::AsksRedis;
    }
    known(route, lookup)
}

/// When it began, as its metrics have it. What is sampled has a time of its own.
#[inline]
pub(crate) fn begin(hit_timer: &mut HitTimer<'_>, sampling: Sampling) -> Moment {
    if sampling == Sampling::Drawn {
        hit_timer.time();
    }
    hit_timer.begun()
}

/// The route, if its responses are for this client as it is.
#[inline]
fn find_route<'a>(
    worker: &Worker,
    client: &Client,
    table: &'a Table,
    head: &RequestHead<'_>,
    target: &str,
) -> Option<&'a Arc<Route>> {
    let route = route_of(table, head.fields, head.authority, target, &client.peer)?;
    let is_for_tls = client.scheme == Scheme::Http && is_for_tls(client, route);
    (!is_for_tls && !wants_client(worker, &client.settings, route)).then_some(route)
}

/// The route of a GET, of which only host, path and what conditions look at are known.
#[inline]
pub(crate) fn route_of<'a>(
    table: &'a Table,
    fields: impl ReadFields,
    authority: &str,
    target: &str,
    peer: &PeerAddress,
) -> Option<&'a Arc<Route>> {
    let (path, query) = match memchr::memchr(b'?', target.as_bytes()) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    // Another spelling has another key, and the exchange says whether an ambiguous one is refused.
    if !is_normal(target) || table.may_be_ambiguous(path) {
        return None;
    }
    if !table.has_conditions() {
        return table.find_normal(authority, path);
    }
    let port = peer.listener_port();
    let fields = Lines(fields);
    table.find_for(authority, path, || HeadFacts { method: &Method::GET, fields: &fields, query, port })
}

/// Writes a hit to the access log.
fn log<'a>(
    worker: &Worker,
    client: &Client,
    route: &'a Route,
    head: &RequestHead<'_>,
    headers: &HeaderMap,
    stored: &Stored,
    hit_timer: &mut HitTimer<'a>,
) {
    let (Some(log), Target::Origin(target)) = (&worker.access_log, head.target) else { return };
    let (at, took_ns) = (worker.clock.timestamp(hit_timer.begun()), hit_timer.time());
    let (status, sent_bytes) = (stored.status().as_u16(), stored.body().len() as u64);
    let hit = Hit { at, took_ns, peer: &client.peer, target, headers, status, sent_bytes };
    log.write(&Entry::of_hit(Verdict::Hit, &route.series, &hit));
}

/// What the request is to traces.
#[inline]
fn sampling(worker: &Worker, settings: &Settings, peer: &PeerAddress, fields: Fields<'_>) -> Sampling {
    let is_there = || fields.may_have(TRACEPARENT_NAME.as_bytes());
    let value = || is_there().then(|| fields.all(TRACEPARENT_NAME).next()).flatten();
    worker.tracer.sampling(settings.traces.as_ref(), peer, value)
}

/// Tells of a hit that is sampled.
#[cold]
fn trace<'a>(
    worker: &'a Worker,
    client: &Client,
    route: &'a Route,
    head: &RequestHead<'_>,
    stored: &Stored,
    hit_timer: &mut HitTimer<'a>,
) {
    let (Target::Origin(target), Some(options)) = (head.target, &client.settings.traces) else { return };
    let begun = hit_timer.begun();
    let hit = TracedHit {
        series: &route.series,
        book: route.series.book(worker.index),
        peer: &client.peer,
        authority: head.authority,
        target,
        version: http::Version::HTTP_11,
        user_agent: head.fields.all(USER_AGENT.as_str()).next(),
        status: stored.status().as_u16(),
        sent_bytes: stored.body().len() as u64,
        begun,
        at: worker.clock.timestamp(begun),
        took_ns: hit_timer.time(),
    };
    worker.tracer.hit(&worker.common.exporter, options, &hit);
}

/// Whether a stored response is an answer as it is.
#[inline]
fn is_answer(stored: &Stored, route: &Route) -> bool {
    stored.body().len() <= MAX_BODY && !route.changes_responses
}

fn answers(peeked: &Option<Lookup>, route: &Route) -> bool {
    matches!(peeked, Some(Lookup::Hit(stored)) if is_answer(stored, route))
}

/// The fields as the route's exchange goes on with them.
fn put(head: &RequestHead<'_>, route: &Route, headers: &mut HeaderMap) {
    put_fields(head, headers);
    compress::normalise(route, headers);
}

/// Whether the client is let in, as far as that can be said at once.
#[inline]
pub(crate) fn check(
    worker: &Worker,
    peer: &PeerAddress,
    route: &Route,
    fields: impl ReadFields,
    begun: Moment,
) -> Checked {
    let Some(gate) = &route.gate else { return Checked::Granted };
    let fields = &Unread { fields, accept_encoding: None };
    gate.at_once(&worker.common.counts, &Asker { address: peer.address(), fields, now: begun })
}

/// Whether a request by plain HTTP is perhaps to be sent elsewhere.
#[inline]
fn is_for_tls(client: &Client, route: &Route) -> bool {
    match route.plain_http {
        PlainHttp::Automatic => client.may_redirect.get(),
        PlainHttp::Redirected => true,
        PlainHttp::Allowed => false,
    }
}

fn known(route: &Arc<Route>, lookup: Option<Lookup>) -> Peeked {
    Peeked::Known(Known { route: Arc::clone(route), lookup })
}

/// Asks Redis, if there is one, for what memory has not, or no longer.
fn ask(
    worker: &Worker,
    client: &Client,
    hit_timer: &mut HitTimer<'_>,
    route: &Arc<Route>,
    head: &RequestHead<'_>,
    headers: &mut HeaderMap,
    stale: Option<&Arc<Stored>>,
) -> bool {
    let Target::Origin(target) = head.target else { return false };
    if worker.second.is_none() {
        return false;
    }
    hit_timer.time(); // Redis is waited for by those that follow
    let begun = hit_timer.begun();
    let now = worker.clock.timestamp(begun);
    let origin = Origin::of(headers, head.authority, client.hop_of(headers));
    let url = RequestUrl { origin, target };
    let Some((tier, fill)) = lookup::lead(worker, route, url, headers, now) else { return false };
    let request = LookupRequest {
        headers: std::mem::take(headers),
        begun,
        asked: Moment::now(),
        route: Arc::clone(route),
        stale: stale.cloned(),
        target: target.into(),
        authority: head.authority.into(),
    };
    client.ask(tier, fill, request);
    true
}

/// Counts and logs a hit in Redis.
pub(super) fn count(worker: &Worker, client: &Client, request: &LookupRequest, stored: &Stored, written: Moment) {
    let LookupRequest { headers, begun, route, target, .. } = request;
    let (status, sent_bytes) = (stored.status().as_u16(), stored.body().len() as u64);
    let took_ns = written.since(*begun);
    let series = &*route.series;
    let book = series.book(worker.index);
    book.hit(Verdict::Redis, status, sent_bytes);
    worker.tracer.pass();
    book.hits_took(1, took_ns);
    if let Some(log) = &worker.access_log {
        let at = worker.clock.timestamp(*begun);
        let hit = Hit { at, took_ns, peer: &client.peer, target, headers, status, sent_bytes };
        log.write(&Entry::of_hit(Verdict::Redis, series, &hit));
    }
}
