//! A stored response: what was kept, and the responses that are made from it.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::{BufMut, BytesMut};
use http::header::{
    AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, DATE, ETAG, EXPIRES, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use crate::body::StoredBody;
use crate::policy::freshness::Freshness;
use crate::policy::range::Requested;
use crate::policy::storing::has_credentials;
use crate::policy::validate::Validators;
use crate::policy::vary::Selection;
use crate::policy::{Forward, RequestDirectives, Timestamp, Timing, fields, reuse};
use crate::purge::{Mark, Position, Standing, TagFields, is_tag_field, remove_tag_fields};
use crate::request_fields::RequestFields;
use crate::status::{CACHE_STATUS, CacheStatus};
use crate::weight;

/// A stored response. Immutable: validation makes a new one that replaces it.
#[derive(Debug)]
pub struct Stored {
    status: StatusCode,
    /// Without `Age`; with `Date`, and with `Content-Length` where the status allows one.
    headers: HeaderMap,
    body: StoredBody,
    freshness: Freshness,
    vary: Selection,
    validators: Validators,
    /// What purges have to know of it.
    mark: Mark,
    weight: usize,
    /// The response's head as it is sent, for one second of age: nearly every hit is then one copy of it. Empty before
    /// the first, as dropping an `ArcSwap` is not cheap and what comes from Redis may go without a hit.
    prepared: OnceLock<ArcSwap<Prepared>>,
    /// The same in the form of another protocol.
    encoded: OnceLock<ArcSwap<Prepared>>,
}

/// Writes the head of a response in the form of a protocol.
pub type EncodeHead = fn(StatusCode, &HeaderMap, &mut Vec<u8>);

/// About as many as `Age` and the name of `Cache-Status` take in a response.
const AGE_BYTES: usize = 64;

#[derive(Debug)]
struct Prepared {
    age_s: u64,
    /// All of it: for HTTP/1.1 status line, fields, empty line.
    head: Box<[u8]>,
}

impl Prepared {
    fn new(age_s: u64, status: StatusCode, headers: &HeaderMap, encode: EncodeHead) -> Self {
        let mut head = Vec::with_capacity(head_bytes(headers));
        encode(status, headers, &mut head);
        Self { age_s, head: head.into() }
    }
}

/// About as many bytes as a head with these fields has.
fn head_bytes(headers: &HeaderMap) -> usize {
    64 + headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}

/// As HTTP/1.1 has it.
fn put_head(status: StatusCode, headers: &HeaderMap, head: &mut Vec<u8>) {
    put_status(status, head);
    headers.iter().for_each(|(name, value)| put_field(name, value, head));
    head.put_slice(b"\r\n\r\n");
}

fn put_status(status: StatusCode, out: &mut impl BufMut) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_slice(b" ");
    out.put_slice(status.canonical_reason().unwrap_or_default().as_bytes());
}

fn put_field(name: &HeaderName, value: &HeaderValue, out: &mut impl BufMut) {
    out.put_slice(b"\r\n");
    out.put_slice(name.as_str().as_bytes());
    out.put_slice(b": ");
    out.put_slice(value.as_bytes());
}

/// A response without its body.
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) freshness: Freshness,
    pub(crate) vary: Selection,
}

/// Why a stored response does not answer a request, for the choice among the responses of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Made for other values of the fields in `Vary`.
    OtherVariant,
    /// Purged.
    Gone,
    /// Stale, but usable while it is revalidated.
    Revalidate,
    /// Must be validated first.
    Validate(Forward),
    /// Not for this request at all.
    NotFor(Forward),
}

impl Stored {
    /// Keeps a response whose body is complete. The fields come from [`fields::to_store`].
    pub(crate) fn new(mut head: Head, timing: Timing, body: StoredBody, mark: Mark) -> Self {
        let kept = &mut head.headers;
        ensure_date(kept, timing.received);
        // RFC 9110 §8.6: no Content-Length with 204. Elsewhere it replaces the framing that was not stored.
        if head.status == StatusCode::NO_CONTENT {
            kept.remove(CONTENT_LENGTH);
        } else if !kept.contains_key(CONTENT_LENGTH) {
            kept.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        Self::assemble(head, body, mark)
    }

    pub(crate) fn assemble(head: Head, body: StoredBody, mark: Mark) -> Self {
        let Head { status, headers, freshness, vary } = head;
        let weight = weight::of_response(size_of::<Self>(), &headers, &body) + vary.weight() + mark.weight();
        let validators = Validators::of(&headers);
        Self {
            status,
            headers,
            body,
            freshness,
            vary,
            validators,
            mark,
            weight,
            prepared: OnceLock::new(),
            encoded: OnceLock::new(),
        }
    }

    /// The response to a GET or HEAD from this response, with `Age` and `Cache-Status: pilotlight; hit`.
    ///
    /// It is 304 where the client's own condition says so (RFC 9111 §4.3.2), 206 or 416 where the client asks for a
    /// range (RFC 9110 §14.2), and has no body for HEAD.
    pub fn response(&self, method: &Method, request: &HeaderMap, now: Timestamp) -> Response<StoredBody> {
        let age_s = self.freshness.age_s(now);
        self.finish(self.headers_at(age_s, CacheStatus::hit(self.freshness.ttl_s(age_s))), method, request)
    }

    /// Writes [`Stored::answer`] to a GET without conditions as HTTP/1.1 sends it, head and body, behind what is in
    /// `out`.
    pub fn write_response(&self, now: Timestamp, out: &mut BytesMut) {
        self.with_prepared(&self.prepared, put_head, now, |prepared| {
            out.reserve(prepared.head.len() + self.body.len());
            out.extend_from_slice(&prepared.head);
            self.body.pieces().iter().for_each(|piece| out.extend_from_slice(piece));
        });
    }

    /// Hands the head of the same response to `then`, in the form of another protocol than HTTP/1.1. It is kept for
    /// one second of age, so `encode` is to be the same function each time.
    pub fn with_encoded_head<R>(&self, now: Timestamp, encode: EncodeHead, then: impl FnOnce(&[u8]) -> R) -> R {
        self.with_prepared(&self.encoded, encode, now, |prepared| then(&prepared.head))
    }

    /// Writes [`Stored::response_as`] in the same way.
    pub fn write_response_as(&self, status: CacheStatus, now: Timestamp, out: &mut BytesMut) {
        let status = status.value();
        out.reserve(head_bytes(&self.headers) + AGE_BYTES + status.len() + self.body.len());
        put_status(self.status, out);
        let hides_tags = self.mark.tag_fields() == TagFields::Removed;
        let kept = self.headers.iter().filter(|(name, _)| **name != AGE && !(hides_tags && is_tag_field(name)));
        kept.for_each(|(name, value)| put_field(name, value, out));
        put_field(&AGE, &HeaderValue::from(self.freshness.age_s(now)), out);
        // Behind those of caches nearer to the service, which are among the fields (RFC 9211 §2).
        put_field(&CACHE_STATUS, &status, out);
        out.put_slice(b"\r\n\r\n");
        self.body.pieces().iter().for_each(|piece| out.put_slice(piece));
    }

    /// The same with another `Cache-Status`, for answers that were validated or shared (collapsed).
    pub fn response_as(
        &self,
        status: CacheStatus,
        method: &Method,
        request: &HeaderMap,
        now: Timestamp,
    ) -> Response<StoredBody> {
        let headers = self.headers_at(self.freshness.age_s(now), status);
        self.finish(headers, method, request)
    }

    pub(crate) fn serves_if_error(&self, request: &HeaderMap, now: Timestamp, standing: Standing) -> bool {
        let stale_since = match standing {
            Standing::Good => None,
            Standing::Stale(since) => Some(since),
            Standing::Unknown | Standing::Gone => return false,
        };
        let asked_s = RequestDirectives::parse(request).stale_if_error;
        self.vary.matches(request)
            && !(self.freshness.is_assumed() && has_credentials(request))
            && self.freshness.serves_if_error(asked_s, now, stale_since)
    }

    /// Makes an upstream request conditional on this response (RFC 9111 §4.3.1): the client's `If-None-Match` and
    /// `If-Modified-Since` give way to the stored validators.
    pub fn make_conditional(&self, request: &mut HeaderMap) {
        self.validators.apply(request);
    }

    /// The remaining freshness lifetime in seconds, negative when stale.
    pub fn ttl_s(&self, now: Timestamp) -> i64 {
        self.freshness.ttl_s(self.freshness.age_s(now))
    }

    /// The stored status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The stored body.
    pub fn body(&self) -> &StoredBody {
        &self.body
    }

    /// Bytes of memory this response counts for.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Where the order of purges was when its fetch began.
    pub fn position(&self) -> Position {
        self.mark.position()
    }

    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    pub(crate) fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    pub(crate) fn vary(&self) -> &Selection {
        &self.vary
    }

    pub(crate) fn validators(&self) -> &Validators {
        &self.validators
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Reusable right now by a request without wishes, so worth waiting for.
    pub(crate) fn is_reusable(&self, now: Timestamp) -> bool {
        self.freshness.is_reusable(now)
    }

    pub(crate) fn refusal(
        &self,
        request: &impl RequestFields,
        directives: &RequestDirectives,
        now: Timestamp,
        standing: Standing,
    ) -> Option<Refusal> {
        if !self.vary.matches(request) {
            return Some(Refusal::OtherVariant);
        }
        if standing == Standing::Gone {
            return Some(Refusal::Gone);
        }
        if self.freshness.is_assumed() && has_credentials(request) {
            return Some(Refusal::NotFor(Forward::Credentials));
        }
        let stale_since = match standing {
            Standing::Good => None,
            Standing::Stale(since) => Some(since),
            Standing::Unknown | Standing::Gone => return Some(Refusal::Validate(Forward::Stale)),
        };
        match reuse::refusal(&self.freshness, directives, now) {
            None if stale_since.is_none() => None,
            None | Some(Forward::Stale)
                if reuse::serves_while_revalidated(&self.freshness, directives, now, stale_since) =>
            {
                Some(Refusal::Revalidate)
            }
            why => Some(Refusal::Validate(why.unwrap_or(Forward::Stale))),
        }
    }

    /// What this response becomes when `fresh`, the fields of a 304 or of a response to HEAD, update it (RFC 9111
    /// §3.2).
    pub(crate) fn merged_headers(&self, fresh: &HeaderMap, timing: Timing) -> HeaderMap {
        let mut merged = fields::updated(&self.headers, fresh);
        // The stored Date is that of the old exchange: an update without one happened on receipt.
        if !fresh.contains_key(DATE) {
            merged.insert(DATE, timing.received.http_date());
        }
        ensure_date(&mut merged, timing.received);
        merged
    }

    /// This response with updated fields; the body and what it was selected by stay.
    pub(crate) fn with_headers(&self, headers: HeaderMap, freshness: Freshness, vary: Selection, mark: Mark) -> Self {
        Self::assemble(Head { status: self.status, headers, freshness, vary }, self.body.clone(), mark)
    }

    fn headers_at(&self, age_s: u64, status: CacheStatus) -> HeaderMap {
        let mut headers = self.headers.clone();
        if self.mark.tag_fields() == TagFields::Removed {
            remove_tag_fields(&mut headers);
        }
        // RFC 9111 §5.1: a response from a store has an Age.
        headers.insert(AGE, HeaderValue::from(age_s));
        status.append_to(&mut headers);
        headers
    }

    fn with_prepared<R>(
        &self,
        place: &OnceLock<ArcSwap<Prepared>>,
        encode: EncodeHead,
        now: Timestamp,
        then: impl FnOnce(&Prepared) -> R,
    ) -> R {
        let age_s = self.freshness.age_s(now);
        match place.get().map(ArcSwap::load) {
            Some(prepared) if prepared.age_s == age_s => then(&prepared),
            _ => then(&self.prepare(place, encode, age_s)),
        }
    }

    #[cold]
    fn prepare(&self, place: &OnceLock<ArcSwap<Prepared>>, encode: EncodeHead, age_s: u64) -> Arc<Prepared> {
        let headers = self.headers_at(age_s, CacheStatus::hit(self.freshness.ttl_s(age_s)));
        let prepared = Arc::new(Prepared::new(age_s, self.status, &headers, encode));
        match place.get() {
            Some(place) => place.store(Arc::clone(&prepared)),
            // Another worker's, if it was first, is as good.
            None => drop(place.set(ArcSwap::new(Arc::clone(&prepared)))),
        }
        prepared
    }

    fn finish(&self, headers: HeaderMap, method: &Method, request: &HeaderMap) -> Response<StoredBody> {
        // RFC 9110 §13.2.1: conditions are ignored where the response without them would not be 2xx.
        if self.status.is_success() && self.validators.not_modified(request) {
            return respond(StatusCode::NOT_MODIFIED, for_not_modified(&headers), StoredBody::default());
        }
        // RFC 9110 §14.2: a range is a part of what would be answered with 200.
        if self.status == StatusCode::OK {
            let length = self.body.len();
            match Requested::of(method, request, &self.validators, length as u64) {
                Requested::Whole => {}
                Requested::Part(range) => {
                    let mut headers = headers;
                    // RFC 9110 §14.4
                    let content_range = format!("bytes {}-{}/{length}", range.start, range.end - 1);
                    set(&mut headers, CONTENT_RANGE, &content_range);
                    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
                    // Within the body, whose length is a usize.
                    let body = self.body.slice(range.start as usize..range.end as usize);
                    return respond(StatusCode::PARTIAL_CONTENT, headers, body);
                }
                Requested::Unsatisfiable => {
                    let mut headers = only(&headers, &[&DATE, &AGE, &CACHE_STATUS]);
                    // RFC 9110 §15.5.17
                    set(&mut headers, CONTENT_RANGE, &format!("bytes */{length}"));
                    headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
                    return respond(StatusCode::RANGE_NOT_SATISFIABLE, headers, StoredBody::default());
                }
            }
        }
        // RFC 9110 §9.3.2: HEAD has the fields of GET, Content-Length included, and no content.
        let body = if method == Method::HEAD { StoredBody::default() } else { self.body.clone() };
        respond(self.status, headers, body)
    }
}

fn respond(status: StatusCode, headers: HeaderMap, body: StoredBody) -> Response<StoredBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// RFC 9110 §15.4.5: the fields a 304 must have, and those that tell how caching went.
fn for_not_modified(headers: &HeaderMap) -> HeaderMap {
    let kept = [&CACHE_CONTROL, &CONTENT_LOCATION, &DATE, &ETAG, &EXPIRES, &VARY, &LAST_MODIFIED, &AGE, &CACHE_STATUS];
    only(headers, &kept)
}

fn only(headers: &HeaderMap, kept: &[&HeaderName]) -> HeaderMap {
    let mut answer = HeaderMap::with_capacity(kept.len());
    for name in kept {
        for value in headers.get_all(*name) {
            answer.append((*name).clone(), value.clone());
        }
    }
    answer
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Digits and ASCII of this file, so there is always a value.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// RFC 9110 §6.6.1: a recipient with a clock gives a response without a valid Date one before it caches it.
fn ensure_date(headers: &mut HeaderMap, received: Timestamp) {
    if headers.get(DATE).and_then(Timestamp::from_http_date).is_none() {
        headers.insert(DATE, received.http_date());
    }
}
