//! Hits in memory, answered from what was received and what the stored response has ready: without a stream, a request
//! or a response.
//!
//! Which requests these may be is said where HTTP/1.1 has them ([`crate::client::hits`]). What is stated here only
//! narrows: whatever is not the plain case goes the way of all requests.

use http::header::USER_AGENT;
use http::{HeaderMap, StatusCode, Version};
use pilotlight_cache::{Lookup, Stored};
use pilotlight_http2::{Fields, Request, ServerConnection, encode_field, encode_status};

use super::request::{plain_authority, plain_path};
use super::session::Session;
use crate::admission::Checked;
use crate::client::hit_timer::HitTimer;
use crate::client::hits::{self, ASK_FOR_MORE, MAX_BODY, ReadFields};
use crate::options::{PlainHttp, ServerTiming};
use crate::routes::{Route, Table};
use crate::target::{Origin, RequestUrl, Scheme};
use crate::traces::TRACEPARENT_NAME;
use crate::traces::tracer::{Sampling, TracedHit};

impl ReadFields for Fields<'_> {
    #[inline]
    fn end_to_end<'a>(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])>
    where
        Self: 'a,
    {
        // Those of a connection are refused, but for `te`, on which nothing varies.
        self.iter().map(|field| (field.name, field.value))
    }

    #[inline]
    fn may_have(self, name: &[u8]) -> bool {
        Fields::may_have(self, name)
    }
}

/// The head of a stored response. It has no fields of a connection.
fn encode(status: StatusCode, headers: &HeaderMap, block: &mut Vec<u8>) {
    encode_status(status.as_u16(), block);
    headers.iter().for_each(|(name, value)| encode_field(name.as_str().as_bytes(), value.as_bytes(), block));
}

/// Whether the requests of a connection are looked at here.
pub(super) fn are_possible(session: &Session) -> bool {
    let Session { worker, peer, settings, .. } = session;
    worker.common.cache.is_some()
        && worker.access_log.is_none()
        && settings.server_timing != ServerTiming::Always
        && peer.certificate().is_none()
}

/// Whether a stored response may answer the request as it stands.
fn is_plain(session: &Session, fields: Fields<'_>) -> bool {
    let has = |name: &str| fields.may_have(name.as_bytes()) && fields.all(name).next().is_some();
    fields.method() == Some(b"GET")
        && fields.protocol().is_none()
        && matches!(fields.scheme(), Some(b"https" | b"http"))
        && fields.len() <= session.settings.limits.header_count
        && !fields.has_padding()
        && !has("host")
        && !has("content-length")
        && !has("te")
        && !ASK_FOR_MORE.iter().any(|name| has(name))
}

/// Answers from memory, if the response is there, and counts it.
///
/// # Errors
/// It is not, or not so: the exchange goes on from what was found of who asks.
#[inline]
pub(super) fn answer<'a>(
    session: &Session,
    h2: &mut ServerConnection,
    table: &'a Table,
    hit_timer: &mut HitTimer<'a>,
    request: Request,
    fields: Fields<'_>,
) -> Result<(), Checked> {
    if !request.ends() || !is_plain(session, fields) {
        return Err(Checked::Not);
    }
    let Session { worker, peer, settings, .. } = session;
    let traceparent = || {
        let is_there = fields.may_have(TRACEPARENT_NAME.as_bytes());
        is_there.then(|| fields.all(TRACEPARENT_NAME).next()).flatten()
    };
    let sampling = worker.tracer.sampling(settings.traces.as_ref(), peer, traceparent);
    if sampling == Sampling::Asked {
        return Err(Checked::Not);
    }
    let (authority, target) = (fields.authority().and_then(plain_authority), fields.path().and_then(plain_path));
    let (Some(authority), Some(target)) = (authority, target) else { return Err(Checked::Not) };
    let Some(route) = hits::route_of(table, fields, authority, target, peer) else { return Err(Checked::Not) };
    let scheme = peer.scheme();
    let is_for_tls = scheme == Scheme::Http && route.plain_http != PlainHttp::Allowed;
    if is_for_tls || route.service.is_none() || route.changes_responses || hits::wants_client(worker, settings, route) {
        return Err(Checked::Not);
    }
    let begun = hits::begin(hit_timer, sampling);
    match hits::check(worker, peer, route, fields, begun) {
        Checked::Granted => {}
        checked => return Err(checked),
    }
    let now = worker.clock.timestamp(begun);
    let url = RequestUrl { origin: Origin { scheme, authority }, target };
    let Some(Lookup::Hit(stored)) = hits::peek(worker, settings, route, fields, url, now) else {
        return Err(Checked::Granted);
    };
    let body = match stored.body().pieces() {
        [] => &[][..],
        [one] if one.len() <= MAX_BODY => one,
        _ => return Err(Checked::Granted),
    };
    if !stored.with_encoded_head(now, encode, |block| h2.respond(request, block, body)) {
        return Err(Checked::Granted);
    }
    // By reference: a count of references that workers share would be a shared number on the hot path.
    let book = route.series.book(worker.index);
    hit_timer.turn_to(book);
    hit_timer.count(book, stored.status().as_u16(), body.len() as u64);
    match sampling {
        Sampling::Drawn => trace(session, route, fields, url, &stored, hit_timer),
        _ => worker.tracer.pass(),
    }
    Ok(())
}

/// Tells of a hit that is sampled.
#[cold]
fn trace<'a>(
    session: &Session,
    route: &'a Route,
    fields: Fields<'_>,
    url: RequestUrl<'_>,
    stored: &Stored,
    hit_timer: &mut HitTimer<'a>,
) {
    let Session { worker, peer, settings, .. } = session;
    let Some(options) = &settings.traces else { return };
    let begun = hit_timer.begun();
    let hit = TracedHit {
        series: &route.series,
        book: route.series.book(worker.index),
        peer,
        authority: url.origin.authority,
        target: url.target,
        version: Version::HTTP_2,
        user_agent: fields.all(USER_AGENT.as_str()).next(),
        status: stored.status().as_u16(),
        sent_bytes: stored.body().len() as u64,
        begun,
        at: worker.clock.timestamp(begun),
        took_ns: hit_timer.time(),
    };
    worker.tracer.hit(&worker.common.exporter, options, &hit);
}
