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

use std::mem::MaybeUninit;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pilotlight_cache::{Lookup, QueryRules, RouteControl};

use super::intake::Share;
use super::{Client, Io};
use crate::access_log::Entry;
use crate::timing::Moment;
use crate::worker::Worker;
use crate::{cache_key, exchange, server_timing};

/// Bytes of a head that is looked at here.
const MAX_HEAD: usize = 8 * 1024;
/// Fields of a head that is looked at here.
const MAX_FIELDS: usize = 32;
/// So many requests in a row that were no hits, and looking at more is not worth it: a look in vain costs a request that is passed
/// on a seventh more instructions.
const MAX_OTHERS: u32 = 8;
/// Larger bodies are written from where they are, by hyper.
const MAX_BODY: usize = super::DIRECT_WRITE;

/// What is kept from one look to the next, one for each worker: memory that is warm.
#[derive(Default)]
pub(crate) struct Desk {
    headers: HeaderMap,
    bytes: BytesMut,
}

/// What is at the front of the bytes that a client sent.
#[derive(Debug, PartialEq, Eq)]
enum Front {
    /// A hit of so many bytes, whose answer was written by then.
    Hit(usize, Moment),
    /// A request of so many bytes, all of them its head.
    Bodyless(usize),
    /// Not all of a head.
    Partial,
    Other,
}

impl Client {
    /// Answers the hits at the front of what the client sent. `true` if nothing is left to do then, `false` if hyper has to look.
    pub(crate) fn answer_hits(&self, cx: &mut Context<'_>, worker: &Worker) -> bool {
        if !self.io.borrow().intake.is_at_request() {
            return false;
        }
        let mut desk = worker.desk.borrow_mut();
        let (mut answered, mut needs_more) = (false, false);
        // One reading of the clock for the begin of a head and the end of the one before.
        let mut begun = None;
        let share = loop {
            if !matches!(self.poll_room(cx), Poll::Ready(Ok(()))) {
                answered = true; // as far as possible
                break Share::Nothing;
            }
            let mut io = self.io.borrow_mut();
            let Io { socket, out, intake } = &mut *io;
            if intake.bytes.is_empty() || needs_more {
                match intake.poll_fill(cx, socket, &mut desk.bytes) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Pending if !needs_more => break Share::Nothing,
                    // The end, or half a head: hyper knows what to do.
                    _ => break Share::Everything,
                }
            }
            let since = *begun.get_or_insert_with(Moment::now);
            match look(worker, self, since, &mut desk.headers, &intake.bytes, out) {
                Front::Hit(length, written) => {
                    begun = Some(written);
                    intake.bytes.advance(length);
                    intake.others = 0;
                    (answered, needs_more) = (true, false);
                }
                Front::Bodyless(length) => {
                    intake.others += 1;
                    break if intake.others < MAX_OTHERS { Share::Head(length) } else { Share::Everything };
                }
                Front::Partial if intake.bytes.len() < MAX_HEAD => needs_more = true,
                Front::Partial | Front::Other => break Share::Everything,
            }
        };
        self.io.borrow_mut().intake.share = share;
        self.begun.set(begun.filter(|_| share != Share::Nothing));
        if share != Share::Nothing {
            return false;
        }
        if answered {
            self.answered();
            // Registered, as hyper's look at the connection may not have come yet.
            let _ = self.deadline.poll(cx);
        }
        answered
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

fn look(
    worker: &Worker,
    client: &Client,
    begun: Moment,
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
    match request.path.filter(|_| is_plain).and_then(|target| answer(worker, &client.peer, begun, target, headers, out))
    {
        Some(written) => Front::Hit(length, written),
        None => Front::Bodyless(length),
    }
}

/// Answers from memory, if the answer is there, and counts it. Returns when that was done.
fn answer(
    worker: &Worker,
    peer: &str,
    begun: Moment,
    target: &str,
    headers: &HeaderMap,
    out: &mut BytesMut,
) -> Option<Moment> {
    // What is stored was once a target that hyper took, so one that is found needs no check of its own, unless a rule of the
    // route has left out a part of it.
    let path = &target[..memchr::memchr(b'?', target.as_bytes()).unwrap_or(target.len())];
    if !path.starts_with('/') {
        return None;
    }
    let authority = exchange::host(headers).filter(|host| exchange::is_authority(host))?;
    let table = worker.common.table.load();
    let route = table.find(authority, path)?;
    if path.len() < target.len() && cache_key::control(route).is_some_and(|control| !is_hypers(control, target)) {
        return None;
    }
    let now = worker.clock.timestamp(begun);
    match exchange::look_up(&worker.common, route, (authority, target), (&Method::GET, headers), now)? {
        Lookup::Hit(stored) if stored.body().len() <= MAX_BODY => {
            stored.write_answer(now, out);
            let written = Moment::now();
            let took_ns = written.since(begun);
            let (status, sent_bytes) = (stored.status().as_u16(), stored.body().len() as u64);
            // By reference: a count of references that workers share would be a shared number on the hot path.
            let series = &*route.series;
            series.book(worker.index).hit(status, sent_bytes, took_ns);
            if let Some(log) = &worker.access_log {
                let at = worker.clock.timestamp(begun);
                log.write(&Entry::of_hit(series, (at, took_ns), peer, target, headers, (status, sent_bytes)));
            }
            Some(written)
        }
        _ => None,
    }
}

/// Whether hyper takes the target, and takes it as it stands, as far as rules for the query make that a question.
fn is_hypers(control: &RouteControl, target: &str) -> bool {
    control.key.query == QueryRules::default()
        || target.parse::<PathAndQuery>().is_ok_and(|parsed| parsed.as_str() == target)
}
