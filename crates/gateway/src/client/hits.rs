//! Hits are answered before hyper sees them.
//!
//! hyper costs a request more than finding its answer does: a request and a response are built, and taken apart again. So the
//! heads at the front of what a client sent are looked at first. One that asks for what is in memory is answered from bytes that
//! the stored response has ready. Whatever else it is, it goes to hyper, which remains the one that decides what a request is.
//!
//! No rule is stated twice. httparse reads the head, as it does for hyper; `Host`, route and cache are asked through the functions
//! that [`crate::exchange`] uses. What is stated here only narrows: GET or HEAD, HTTP/1.1, nothing that frames a body or speaks
//! about the connection. hyper gets exactly the head of such a request; a connection with any other is hyper's for good, so
//! where one request ends and the next begins is never a question with two answers.
//!
//! What memory has not, Redis may have: [`super::asking`].

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pilotlight_cache::{Lookup, QueryRules, Stored};

use super::asking::Turned;
use super::intake::Share;
use super::tally::Tally;
use super::{Client, Io};
use crate::access_log::Entry;
use crate::metrics::Verdict;
use crate::routes::{Route, Table};
use crate::target::{self, Origin, Trust};
use crate::timing::Moment;
use crate::worker::Worker;
use crate::{cache_key, exchange, server_timing};

/// Bytes of a head that is looked at here.
const MAX_HEAD: usize = 8 * 1024;
/// Fields of a head that is looked at here.
const MAX_FIELDS: usize = 32;
/// Larger bodies are written from where they are, by hyper.
pub(super) const MAX_BODY: usize = super::DIRECT_WRITE;

/// What is kept from one look to the next, one for each worker: memory that is warm.
#[derive(Default)]
pub(crate) struct Desk {
    pub(super) headers: HeaderMap,
    bytes: BytesMut,
}

/// What is at the front of the bytes that a client sent.
#[derive(Debug, PartialEq, Eq)]
enum Front {
    /// A hit of so many bytes, which has been answered.
    Hit(usize),
    /// A request for which Redis is being asked now.
    Asked,
    /// A request of so many bytes, all of them its head.
    Bodyless(usize),
    /// Not all of a head.
    Partial,
    Other,
}

impl Client {
    /// Answers the hits at the front of what the client sent. `true` if nothing is left to do then, `false` if hyper has to look.
    #[inline]
    pub(crate) fn answer_hits(&self, cx: &mut Context<'_>, worker: &Worker) -> bool {
        if !self.io.borrow().intake.is_at_request() {
            return false;
        }
        let mut desk = worker.desk.borrow_mut();
        let (mut answered, mut needs_more, mut is_asking) = (false, false, self.is_asking());
        let table = worker.common.table.load(); // one for all that are here
        let mut tally = Tally::default();
        let share = loop {
            // First: others wait for the answer, too, whether or not this client takes what it has asked for before.
            if is_asking {
                let Poll::Ready(turned) = self.poll_asking(cx, worker, &mut desk) else { break Share::Nothing };
                is_asking = false;
                match turned {
                    Turned::Hit(length, written) => {
                        tally.restart(written);
                        self.io.borrow_mut().intake.take_hit(length);
                        answered = true;
                    }
                    Turned::Other(length, since) => {
                        tally.restart(since);
                        break self.io.borrow_mut().intake.take_other(length);
                    }
                }
            }
            if !matches!(self.poll_room(cx), Poll::Ready(Ok(()))) {
                answered = true; // as far as possible
                break Share::Nothing;
            }
            let mut io = self.io.borrow_mut();
            let Io { socket, out, intake, .. } = &mut *io;
            if intake.bytes.is_empty() || needs_more {
                tally.time(); // reading is not their time
                // Behind what has been answered there is mostly nothing, which is cheaper to ask than to read.
                if answered && !needs_more && socket.poll_readable(cx).is_pending() {
                    break Share::Nothing;
                }
                match intake.poll_fill(cx, socket, &mut desk.bytes) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Pending if !needs_more => break Share::Nothing,
                    // The end, or half a head: hyper knows what to do.
                    _ => break Share::Everything,
                }
            }
            tally.begun();
            match look(worker, self, (&table, &mut tally), &mut desk.headers, &intake.bytes, out) {
                Front::Hit(length) => {
                    intake.take_hit(length);
                    (answered, needs_more) = (true, false);
                }
                Front::Asked => {
                    intake.shrink(&mut desk.bytes);
                    (is_asking, needs_more) = (true, false);
                }
                Front::Bodyless(length) => break intake.take_other(length),
                Front::Partial if intake.bytes.len() < MAX_HEAD => needs_more = true,
                Front::Partial | Front::Other => break Share::Everything,
            }
        };
        self.io.borrow_mut().intake.share = share;
        self.begun.set(tally.rest_begun().filter(|_| share != Share::Nothing));
        if share != Share::Nothing {
            return false;
        }
        if answered {
            self.answered();
            // Registered, as hyper's look at the connection may not have come yet.
            let _ = self.deadline.poll(cx);
        }
        answered || is_asking
    }

    /// Whether there is more to answer: hyper is done with its request, and more has been read.
    pub(crate) fn has_next(&self) -> bool {
        let intake = &self.io.borrow().intake;
        intake.is_at_request() && !intake.bytes.is_empty()
    }

    /// Leaves everything to hyper.
    pub(crate) fn leave_to_hyper(&self) {
        self.io.borrow_mut().intake.share = Share::Everything;
    }
}

fn look<'a>(
    worker: &Worker,
    client: &Client,
    (table, tally): (&'a Table, &mut Tally<'a>),
    headers: &mut HeaderMap,
    bytes: &[u8],
    out: &mut BytesMut,
) -> Front {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_request_with_uninit_headers(&mut request, bytes, &mut fields);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Front::Partial,
        Err(_) => return Front::Other,
    };
    let limits = &client.settings.limits;
    if length > limits.header_size || request.headers.len() > limits.header_count || request.version != Some(1) {
        return Front::Other;
    }
    let is_get = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Front::Other,
    };
    headers.clear();
    let mut is_plain = is_get;
    for field in request.headers.iter() {
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(field.name.as_bytes()), HeaderValue::from_bytes(field.value))
        else {
            return Front::Other;
        };
        match name.as_str() {
            "content-length" | "transfer-encoding" | "expect" | "upgrade" | "trailer" | "te" => return Front::Other,
            "connection" if !field.value.eq_ignore_ascii_case(b"keep-alive") => return Front::Other,
            // Answered by something else than the stored response as it is.
            "if-none-match" | "if-modified-since" | "range" | server_timing::ASKS => is_plain = false,
            _ => {}
        }
        headers.append(name, value);
    }
    let Some(target) = request.path.filter(|_| is_plain) else { return Front::Bodyless(length) };
    answer(worker, client, (table, tally), (target, length), headers, out).unwrap_or(Front::Bodyless(length))
}

/// Answers from memory, if the answer is there, and counts it. If it is not, Redis may be asked.
fn answer<'a>(
    worker: &Worker,
    client: &Client,
    (table, tally): (&'a Table, &mut Tally<'a>),
    (target, length): (&str, usize),
    headers: &mut HeaderMap,
    out: &mut BytesMut,
) -> Option<Front> {
    // What is stored was once a target that hyper took, so one that is found needs no check of its own, unless a rule of the
    // route has left out a part of it.
    let path = &target[..memchr::memchr(b'?', target.as_bytes()).unwrap_or(target.len())];
    if !path.starts_with('/') {
        return None;
    }
    let authority = target::host_authority(headers)?;
    let route = table.find(authority, path)?;
    let has_rules = |route| cache_key::control(route).is_some_and(|control| control.key.query != QueryRules::default());
    if path.len() < target.len() && has_rules(route) && !is_hypers(target) {
        return None;
    }
    let begun = tally.begun();
    let now = worker.clock.timestamp(begun);
    let origin = Origin::of(headers, authority, Trust::of(client.settings.trust_forwarded));
    match exchange::look_up(&worker.common, route, (origin, target), (&Method::GET, headers), now)? {
        Lookup::Hit(stored) if stored.body().len() <= MAX_BODY => {
            // By reference: a count of references that workers share would be a shared number on the hot path.
            let series = &*route.series;
            let book = series.book(worker.index);
            tally.turn_to(book);
            stored.write_answer(now, out);
            let answer = (stored.status().as_u16(), stored.body().len() as u64);
            tally.count(book, answer.0, answer.1);
            if let Some(log) = &worker.access_log {
                let at = (worker.clock.timestamp(begun), tally.time());
                log.write(&Entry::of_hit(Verdict::Hit, series, at, (&client.peer, target, headers), answer));
            }
            Some(Front::Hit(length))
        }
        Lookup::Miss(_) => ask(worker, client, tally, route, (target, length), headers, None),
        Lookup::Stale(stale, _) => ask(worker, client, tally, route, (target, length), headers, Some(stale)),
        _ => None,
    }
}

/// Asks Redis, if there is one, for what memory has not, or no longer.
#[cold]
fn ask(
    worker: &Worker,
    client: &Client,
    tally: &mut Tally<'_>,
    route: &Arc<Route>,
    (target, length): (&str, usize),
    headers: &mut HeaderMap,
    stale: Option<Arc<Stored>>,
) -> Option<Front> {
    if worker.second.is_none() || !is_hypers(target) {
        return None;
    }
    tally.time(); // Redis is waited for by those that follow
    let begun = tally.begun();
    let now = worker.clock.timestamp(begun);
    let trust = Trust::of(client.settings.trust_forwarded);
    let origin = Origin::of(headers, target::host_authority(headers)?, trust);
    let asks = exchange::lead(worker, route, (origin, target), headers, now)?;
    client.ask(worker, begun, route, (target, length), (std::mem::take(headers), stale), asks);
    Some(Front::Asked)
}

/// Counts and logs a hit in Redis.
pub(super) fn count(
    worker: &Worker,
    route: &Route,
    (begun, written): (Moment, Moment),
    request: (&str, &str, &HeaderMap),
    answer: (u16, u64),
) {
    let took_ns = written.since(begun);
    let series = &*route.series;
    let book = series.book(worker.index);
    book.hit(Verdict::Redis, answer.0, answer.1);
    book.hits_took(1, took_ns);
    if let Some(log) = &worker.access_log {
        let at = (worker.clock.timestamp(begun), took_ns);
        log.write(&Entry::of_hit(Verdict::Redis, series, at, request, answer));
    }
}

/// Whether hyper takes the target, and takes it as it stands.
fn is_hypers(target: &str) -> bool {
    target.parse::<PathAndQuery>().is_ok_and(|parsed| parsed.as_str() == target)
}
