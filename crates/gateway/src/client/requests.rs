//! What a client sent, request by request: hits are answered here, the rest is given out.
//!
//! ```text
//!   unread bytes ──▶ head ──▶ hit in memory: its response is written, next head
//!                       ├──▶ Redis is asked ([`super::redis_lookup`]): hit, or a request
//!                       ├──▶ [`Next::Request`]
//!                       └──▶ [`Next::Refused`]: malformed, its response is written
//! ```
//!
//! A head is parsed once. Behind it nothing is looked at before its request is answered.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use pilotlight_http1::{self as http1, BodyLength, Known as Name, Malformed, RequestHead};

use super::body::ClientBody;
use super::hit_timer::HitTimer;
use super::hits::{self, Peeked};
use super::received::ReceivedRequest;
use super::redis_lookup::LookedUp;
use super::{Client, Io, Phase};
use crate::admission::Checked;
use crate::head::Head;
use crate::problem;
use crate::request_body::BodySource;
use crate::routes::Table;
use crate::scratch::Scratch;
use crate::strangers::Stranger;
use crate::timing::Moment;
use crate::worker::Worker;

/// Room for what is read at once.
const READ_SIZE: usize = 8 * 1024;

/// What comes next on a connection.
pub(crate) enum Next {
    Request(Box<ReceivedRequest>),
    /// The client has ended its direction between two requests.
    End,
    /// What came is no request, and the response says so.
    Refused,
    /// The connection begins with the preface of HTTP/2 (RFC 9113 §3.3), which is unread.
    Http2,
}

/// What the front of the unread bytes was.
enum Front {
    Hit,
    AsksRedis,
    Request(Box<ReceivedRequest>),
    Partial,
    Refused(Malformed),
}

impl Client {
    /// The next request that is not answered at once. What was answered meanwhile is still to be written.
    pub(crate) fn poll_next(self: &Rc<Self>, cx: &mut Context<'_>, worker: &Worker) -> Poll<io::Result<Next>> {
        let mut scratch = worker.scratch.borrow_mut();
        let (mut answered, mut needs_more) = (false, self.begun.get().is_some());
        let table = worker.common.table.load(); // one for all that are here
        let mut hit_timer = HitTimer::default();
        if let Some(begun) = self.begun.take() {
            hit_timer.restart(begun);
        }
        let next = loop {
            if self.has_pending_lookup() {
                // First: others wait for it as well, whether or not this client takes the responses before it.
                match self.poll_lookup(cx, worker, &mut scratch) {
                    Poll::Pending => break None,
                    Poll::Ready(LookedUp::Hit(written)) => {
                        hit_timer.restart(written);
                        answered = true;
                    }
                    Poll::Ready(LookedUp::Other(received)) => break Some(Next::Request(received)),
                }
            }
            match self.poll_room(cx) {
                Poll::Ready(Ok(())) => {}
                // A client that sends requests and takes no responses is not read on: what waits for it is bounded.
                Poll::Pending => break None,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            }
            let mut io = self.io.borrow_mut();
            if io.read.is_empty() || needs_more {
                hit_timer.time(); // reading is not their time
                match self.poll_more(cx, &mut io, &mut scratch.bytes, answered && !needs_more) {
                    Poll::Pending => break None,
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(Ok(false)) => break Some(Next::End),
                    Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                }
            }
            let begun = hit_timer.begun();
            let read = if needs_more { Moment::now() } else { begun };
            match self.look(worker, &table, &mut hit_timer, &mut scratch, &mut io, read) {
                Front::Hit => (answered, needs_more) = (true, false),
                Front::AsksRedis => {
                    io.shrink(&mut scratch.bytes);
                    needs_more = false;
                }
                Front::Partial => needs_more = true,
                Front::Request(received) => break Some(Next::Request(received)),
                Front::Refused(_) if !answered && !self.has_answered.get() && is_http2(&io.read) => {
                    break Some(Next::Http2);
                }
                Front::Refused(rule) => {
                    self.refuse(worker, &mut io, rule);
                    break Some(Next::Refused);
                }
            }
        };
        if answered {
            self.phase.set(Phase::Idle);
            self.answered();
        }
        match next {
            Some(next) => {
                hit_timer.time();
                Poll::Ready(Ok(next))
            }
            None => self.wait(cx, hit_timer.rest_begun().filter(|_| needs_more)).map(Err),
        }
    }

    /// Reads more of what the client sends; `false` when it has ended its direction.
    #[inline]
    fn poll_more(
        &self,
        cx: &mut Context<'_>,
        io: &mut Io,
        spare: &mut BytesMut,
        has_answered: bool,
    ) -> Poll<io::Result<bool>> {
        // Behind what has been answered there is mostly nothing, which is cheaper to ask than to read.
        if has_answered {
            ready!(io.socket.poll_readable(cx));
        }
        let filled = ready!(io.poll_fill(cx, spare))?;
        let unread = io.read.len();
        if filled == 0 && io.http.receive_end(unread).is_err() {
            tracing::debug!(peer = %self.peer, "a client's connection ended within a head");
        }
        Poll::Ready(Ok(filled > 0))
    }

    /// Nothing is left to do but to wait; ready when that takes too long. `begun` is when the head began that is not
    /// whole.
    fn wait(&self, cx: &mut Context<'_>, begun: Option<Moment>) -> Poll<io::Error> {
        self.begun.set(begun);
        if begun.is_some() && self.phase.get() == Phase::Idle {
            self.phase.set(Phase::Head);
            self.set_unless_blocked(Some(self.times.header));
        }
        self.timed_out(&mut self.io.borrow_mut(), cx).map_or(Poll::Pending, Poll::Ready)
    }

    fn look<'a>(
        self: &Rc<Self>,
        worker: &'a Worker,
        table: &'a Table,
        hit_timer: &mut HitTimer<'a>,
        scratch: &mut Scratch,
        io: &mut Io,
        read_at: Moment,
    ) -> Front {
        let Io { read, http, out, .. } = io;
        let Scratch { headers, fields, .. } = scratch;
        let head = match http.receive(read, fields) {
            Ok((_, http1::Received::Head(head))) => head,
            Ok(_) => return Front::Partial,
            Err(rule) => return Front::Refused(rule),
        };
        let length = head.length;
        let (mut known, mut checked) = (None, Checked::Not);
        if self.is_peeked && !worker.is_leaving() && hits::is_plain(&head) {
            match hits::find(worker, self, table, hit_timer, &head, headers, out) {
                Peeked::Hit => {
                    // It is a response to the request that was just received.
                    let _ = http.sent_whole();
                    read.advance(length);
                    return Front::Hit;
                }
                Peeked::AsksRedis => {
                    self.takes_trailers.set(takes_trailers(&head));
                    read.advance(length);
                    return Front::AsksRedis;
                }
                Peeked::Known(found) => known = Some(found),
                Peeked::Nothing(found) => checked = found,
            }
        }
        let received = match known {
            Some(_) => Head::with_map(&head, std::mem::take(headers)),
            None => Head::received(&head),
        };
        let owned = match received {
            Ok(owned) => owned,
            Err(rule) => return Front::Refused(rule),
        };
        self.takes_trailers.set(takes_trailers(&head));
        let (has_body, is_expected) = (head.body != BodyLength::Empty, head.expects_continue);
        read.advance(length);
        let body = has_body.then(|| {
            // What follows an expectation is a client that did not wait for the word.
            let is_expected = is_expected && read.is_empty();
            Box::new(ClientBody::behind(self, http, is_expected)) as Box<dyn BodySource>
        });
        hit_timer.time(); // of the hits before it
        let begun = hit_timer.begun();
        let read_at = read_at.max(begun);
        let received = ReceivedRequest { head: owned, body, begun, read: read_at, checked, known, redis: None };
        Front::Request(Box::new(received))
    }

    /// Answers what is no request. Nothing behind it is read as one.
    fn refuse(&self, worker: &Worker, io: &mut Io, rule: Malformed) {
        if !self.has_answered.get()
            && let Some(stranger) = Stranger::of(&io.read)
        {
            worker.common.strangers.name(&self.peer, stranger);
        }
        let (status, text) = problem::refusal(rule, &self.settings.limits);
        tracing::debug!(peer = %self.peer, "{status}: {rule}");
        // RFC 9110 §9.3.2: no response to HEAD has a body.
        let is_head = io.read.trim_ascii_start().starts_with(b"HEAD ");
        let end = memchr::memmem::find(&text, b"\r\n\r\n").filter(|_| is_head).map_or(text.len(), |end| end + 4);
        io.out.extend_from_slice(&text[..end]);
        self.rejected.set(Some(status.as_u16()));
    }
}

impl Io {
    /// Reads what is there, into `spare` if nothing is here; 0 is the end of the stream.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>, spare: &mut BytesMut) -> Poll<io::Result<usize>> {
        if self.read.is_empty() {
            std::mem::swap(&mut self.read, spare);
        }
        self.read.reserve(READ_SIZE);
        let filled = self.socket.poll_read_buf(cx, &mut self.read);
        if self.read.is_empty() {
            std::mem::swap(&mut self.read, spare);
        }
        filled
    }

    /// Keeps what is unread in no more memory than it needs, for as long as something else is waited for.
    fn shrink(&mut self, spare: &mut BytesMut) {
        let unread = BytesMut::from(&self.read[..]);
        *spare = std::mem::replace(&mut self.read, unread);
        spare.clear();
    }
}

/// The preface, or its beginning. No request of HTTP/1.1 begins so: the target `*` is OPTIONS' alone.
fn is_http2(bytes: &[u8]) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    bytes.starts_with(b"PRI * ") && PREFACE.iter().zip(bytes).all(|(one, other)| one == other)
}

/// RFC 9110 §10.1.4: `trailers` in `TE`.
fn takes_trailers(head: &RequestHead<'_>) -> bool {
    let values = head.fields.iter().filter(|field| field.known == Name::Te).map(|field| field.value);
    values.flat_map(http1::members).any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

#[cfg(test)]
mod tests {
    use pilotlight_http1::{FieldTable, Limits};

    use super::*;

    /// Whether a stored response may answer it as it stands.
    fn is_plain(line: &str) -> bool {
        let text = format!("GET / HTTP/1.1\r\nhost: a\r\n{line}\r\n\r\n");
        let mut table = FieldTable::new();
        hits::is_plain(&http1::parse_request(text.as_bytes(), &mut table, &Limits::REQUEST).unwrap().unwrap())
    }

    #[test]
    fn what_a_stored_response_answers_as_it_stands() {
        for line in ["accept: */*", "connection: keep-alive", "te: trailers", "x: y"] {
            assert!(is_plain(line), "{line}");
        }
        for line in
            ["connection: close", "range: bytes=0-", "if-none-match: *", "content-length: 0", "x-pilotlight-timing: 1"]
        {
            assert!(!is_plain(line), "{line}");
        }
        assert!(!is_plain("connection: upgrade\r\nupgrade: websocket"));
    }
}
