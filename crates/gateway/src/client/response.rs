//! Answers on their way to the client: heads, bodies piece by piece, interim responses (RFC 9110 §15.2).

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use pilotlight_files::Sendable;
use pilotlight_http1::{BodyLength, members};

use super::direct::Direct;
use super::outgoing::{Outgoing, Piece, Takes};
use super::{Client, DIRECT_WRITE, MAX_GATHERED, MAX_TURN, Phase};
use crate::body::CutError;
use crate::date;
use crate::fields::is_hop_by_hop;
use crate::outbound::InterimSink;
use crate::response::ResponseHead;

/// Why a response cannot be ended as it should; the connection is closed (RFC 9112 §8).
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResponseError {
    #[error(transparent)]
    Client(#[from] std::io::Error),
    #[error(transparent)]
    Cut(CutError),
    /// A mistake of ours, or a service's that no other check has found.
    #[error("the answer's framing is broken: {0}")]
    Framing(#[from] pilotlight_http1::SendError),
}

impl Client {
    /// Writes the head of a response; its body follows.
    pub(crate) fn put_head(&self, answer: (ResponseHead, Outgoing)) -> Result<Outgoing, pilotlight_http1::SendError> {
        let (ResponseHead { status, fields, closes }, body) = answer;
        let io = &mut *self.io.borrow_mut();
        let is_head = io.http.is_asked_for_head();
        io.is_passed_on = true;
        self.response_moves();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            io.http.switch_protocols(&mut io.out, |writer| fields.write(writer))?;
            return Ok(body);
        }
        if closes {
            io.http.close_after();
        }
        let length = match (fields.content_length(), body.length()) {
            (Some(length), _) if is_head => BodyLength::Exactly(length),
            // RFC 9110 §9.3.2: a response to HEAD need not say what one to GET would.
            (None, None | Some(0)) if is_head => BodyLength::UntilClose,
            (_, Some(length)) | (Some(length), None) => BodyLength::Exactly(length),
            (None, None) => BodyLength::Chunked,
        };
        let announced = &mut *self.announced.borrow_mut();
        announced.clear();
        if self.takes_trailers.get() {
            fields.all(&TRAILER, |value| announced.extend(HeaderValue::from_bytes(value)));
        }
        let reason = status.canonical_reason().unwrap_or_default();
        io.http.send_head_with(status.as_u16(), reason, length, &mut io.out, |writer| {
            fields.write(writer);
            // RFC 9110 §6.6.1: who passes a response on without a date gives it one.
            if fields.get(&DATE).is_none() {
                writer.field(b"date", &date::now());
            }
        })?;
        let has_none = is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        Ok(if has_none { body.without_data() } else { body })
    }

    /// Writes the body as it comes. Ready when the response is over.
    pub(crate) fn poll_put_body(&self, cx: &mut Context<'_>, body: &mut Outgoing) -> Poll<Result<(), ResponseError>> {
        let mut taken = 0;
        let takes = if self.io.borrow().socket.sends_files() { Takes::Files } else { Takes::Bytes };
        loop {
            ready!(self.poll_room(cx))?;
            if body.is_end() {
                let io = &mut *self.io.borrow_mut();
                return Poll::Ready(Ok(io.http.send_end(&mut io.out)?));
            }
            if taken >= MAX_TURN {
                // Behind what the runtime learns of other sockets, which a task that is woken at once would not wait
                // for.
                return std::pin::pin!(tokio::task::yield_now()).poll(cx).map(|()| Ok(()));
            }
            match body.poll_piece(cx, takes, MAX_TURN) {
                Poll::Pending => return self.poll_gone(cx).map(|gone| Err(gone.into())),
                Poll::Ready(Some(Err(cut))) => return Poll::Ready(Err(ResponseError::Cut(cut))),
                Poll::Ready(None) => {
                    let io = &mut *self.io.borrow_mut();
                    return Poll::Ready(Ok(io.http.send_end(&mut io.out)?));
                }
                Poll::Ready(Some(Ok(Piece::File(part)))) => {
                    taken += part.left();
                    self.put_file(part)?;
                }
                Poll::Ready(Some(Ok(Piece::Frame(frame)))) => match frame.into_data() {
                    Ok(data) => {
                        taken += data.len() as u64;
                        self.put_data(data)?;
                    }
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        return Poll::Ready(Ok(self.put_trailers(&trailers)?));
                    }
                },
            }
        }
    }

    fn put_data(&self, data: Bytes) -> Result<(), pilotlight_http1::SendError> {
        let io = &mut *self.io.borrow_mut();
        self.response_moves();
        if data.len() < DIRECT_WRITE {
            io.is_passed_on = true;
            return io.http.send_data(&data, &mut io.out);
        }
        io.http.begin_piece(data.len(), &mut io.out)?;
        io.direct = Direct::Bytes(data);
        Ok(())
    }

    fn put_file(&self, part: Sendable) -> Result<(), pilotlight_http1::SendError> {
        let io = &mut *self.io.borrow_mut();
        self.response_moves();
        io.http.begin_piece(usize::try_from(part.left()).unwrap_or(usize::MAX), &mut io.out)?;
        io.direct = Direct::File(part);
        Ok(())
    }

    /// Those that the client takes and the head announced (RFC 9110 §6.5.1).
    fn put_trailers(&self, trailers: &HeaderMap) -> Result<(), pilotlight_http1::SendError> {
        let io = &mut *self.io.borrow_mut();
        let announced = self.announced.borrow();
        let is_announced = |name: &[u8]| {
            announced.iter().flat_map(|value| members(value.as_bytes())).any(|one| one.eq_ignore_ascii_case(name))
        };
        let mut passed =
            trailers.iter().map(|(name, value)| bytes(name, value)).filter(|(name, _)| is_announced(name)).peekable();
        match passed.peek() {
            Some(_) => io.http.send_trailers(passed, &mut io.out),
            None => io.http.send_end(&mut io.out),
        }
    }

    /// Tells the client to send the body of its request.
    pub(super) fn send_continue(&self) {
        let io = &mut *self.io.borrow_mut();
        // Behind the head of the response nobody waits for it.
        let _ = io.http.send_interim(100, "Continue", [], &mut io.out);
    }
}

impl InterimSink for Client {
    fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        // RFC 9110 §10.1.1: 100 is between a client and whoever reads its body. 101 ends HTTP.
        if matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS) {
            return;
        }
        let size = 64 + headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
        let io = &mut *self.io.borrow_mut();
        let has_room = io.out.len() + size <= MAX_GATHERED && !self.write_blocked.get();
        if self.phase.get() != Phase::Busy || !has_room {
            return;
        }
        // RFC 9110 §8.6: no 1xx has a Content-Length; a service on the pipe may have said anything.
        let crosses = |name: &HeaderName| *name != CONTENT_LENGTH && !is_hop_by_hop(name);
        let fields = headers.iter().filter(|(name, _)| crosses(name)).map(|(name, value)| bytes(name, value));
        let reason = status.canonical_reason().unwrap_or_default();
        // Behind the head of the response there is none, which cannot be: the service's head has not come.
        let _ = io.http.send_interim(status.as_u16(), reason, fields, &mut io.out);
    }
}

fn bytes<'h>(name: &'h HeaderName, value: &'h HeaderValue) -> (&'h [u8], &'h [u8]) {
    (name.as_str().as_bytes(), value.as_bytes())
}
