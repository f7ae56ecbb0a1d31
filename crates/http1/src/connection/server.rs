//! The server's side of a connection: requests come, responses go.
//!
//! ```text
//!  request    Head ──▶ Body ──▶ Done ──┐ both done, and both sides stay: the next request
//!  response   Awaited ──▶ Body ──▶ Done┘
//! ```
//!
//! A response may begin, and end, before the request's body has come. Then the connection goes on only if the caller
//! reads the rest of that body.

use bytes::BytesMut;

use super::{Received, SendError, has_new_line, receive_body};
use crate::body::BodyDecoder;
use crate::error::Malformed;
use crate::fields::FieldTable;
use crate::framing::{BodyLength, Persistence};
use crate::head::RequestHead;
use crate::limits::Limits;
use crate::parse::request::parse_request;
use crate::version::Version;
use crate::write::{BodyEncoder, MessageWriter};

/// One client, as bytes.
#[derive(Debug)]
pub struct ServerConnection {
    limits: Limits,
    request: Request,
    response: Response,
    persistence: Persistence,
    /// Of the request that is being answered.
    asked: Asked,
}

#[derive(Debug)]
enum Request {
    /// As many bytes of an incomplete head were looked at.
    Head(usize),
    Body(BodyDecoder),
    Done,
    /// The client ended its side, in order.
    Closed,
    Failed(Malformed),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Response {
    /// No request is unanswered.
    None,
    Awaited,
    Body(BodyEncoder),
    Done,
    /// The bytes are another protocol's from now on.
    Switched,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    version: Version,
    is_head: bool,
}

impl ServerConnection {
    /// A new connection.
    pub fn new(limits: Limits) -> Self {
        let asked = Asked { version: Version::Http11, is_head: false };
        let (request, response) = (Request::Head(0), Response::None);
        Self { limits, request, response, persistence: Persistence::KeepAlive, asked }
    }

    /// Looks at the bytes that were read and not yet taken: how many of them are done with, and what they say. Call it
    /// again with the rest until it says [`Received::Incomplete`].
    ///
    /// A request that follows is given out only when the one before is answered.
    ///
    /// # Errors
    /// The rule that the client breaks, at this call and at each one after it. Answer it with its
    /// [refusal](Malformed::refusal), if no response has begun, and close.
    #[inline]
    pub fn receive<'b>(
        &mut self,
        bytes: &'b [u8],
        table: &'b mut FieldTable,
    ) -> Result<(usize, Received<'b, RequestHead<'b>>), Malformed> {
        match &mut self.request {
            Request::Head(searched) => {
                if bytes.is_empty() || !has_new_line(bytes, *searched) && bytes.len() <= self.limits.max_head {
                    *searched = bytes.len();
                    return Ok((0, Received::Incomplete));
                }
                *searched = bytes.len();
                match parse_request(bytes, table, &self.limits) {
                    Ok(None) => Ok((0, Received::Incomplete)),
                    Ok(Some(head)) => {
                        self.asked = Asked { version: head.version, is_head: head.method == "HEAD" };
                        self.response = Response::Awaited;
                        if head.persistence == Persistence::Close {
                            self.persistence = Persistence::Close;
                        }
                        self.request = match head.body {
                            BodyLength::Empty => Request::Done,
                            body => Request::Body(BodyDecoder::new(body)),
                        };
                        Ok((head.length, Received::Head(head)))
                    }
                    Err(rule) => {
                        self.request = Request::Failed(rule);
                        Err(rule)
                    }
                }
            }
            Request::Body(decoder) => match receive_body(decoder, bytes, table, &self.limits) {
                Ok((taken, event)) => {
                    // An end that is known with the last piece is given out by itself at the next call.
                    if matches!(event, Received::End | Received::Trailers(_)) {
                        self.request = Request::Done;
                        self.turn();
                    }
                    Ok((taken, event))
                }
                Err(rule) => {
                    self.request = Request::Failed(rule);
                    Err(rule)
                }
            },
            Request::Done | Request::Closed => Ok((0, Received::Incomplete)),
            Request::Failed(rule) => Err(*rule),
        }
    }

    /// The client closed its sending side; `unread` bytes are left that [`ServerConnection::receive`] found incomplete.
    /// A request that came whole is answered all the same.
    ///
    /// # Errors
    /// The message that was cut.
    pub fn receive_end(&mut self, unread: usize) -> Result<(), Malformed> {
        let cut = match &mut self.request {
            Request::Head(_) if unread > 0 => Malformed::CutHead,
            Request::Body(decoder) if !decoder.is_ended() => Malformed::CutBody,
            Request::Failed(rule) => *rule,
            _ => {
                self.request = Request::Closed;
                self.persistence = Persistence::Close;
                return Ok(());
            }
        };
        self.request = Request::Failed(cut);
        Err(cut)
    }

    /// The response that is being made, or the next one, is the last one.
    pub fn close_after(&mut self) {
        self.persistence = Persistence::Close;
    }

    /// An interim response (1xx but 101). A client of HTTP/1.0 gets none (RFC 9110 §15.2).
    ///
    /// # Errors
    /// [`SendError::Head`] if no response is awaited.
    pub fn send_interim<'f>(
        &mut self,
        status: u16,
        reason: &str,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut BytesMut,
    ) -> Result<(), SendError> {
        if self.response != Response::Awaited {
            return Err(SendError::Head);
        }
        if self.asked.version == Version::Http11 {
            write_head(MessageWriter::response(out, status, reason), fields, |_| {});
        }
        Ok(())
    }

    /// The head of the final response. `body` is how its body ends; the framing that suits this client is chosen from
    /// it, and written after the fields, which have none of their own, nor `Connection`.
    ///
    /// A response to HEAD, 204 or 304 has no body: `body` then says what the fields tell of one.
    ///
    /// # Errors
    /// [`SendError::Head`] if no response is awaited.
    pub fn send_head<'f>(
        &mut self,
        status: u16,
        reason: &str,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        body: BodyLength,
        out: &mut BytesMut,
    ) -> Result<(), SendError> {
        let write = |writer: &mut MessageWriter<'_>| {
            for (name, value) in fields {
                writer.field(name, value);
            }
        };
        self.send_head_with(status, reason, body, out, write)
    }

    /// The same, with fields that `write` writes.
    ///
    /// # Errors
    /// As those of [`ServerConnection::send_head`].
    pub fn send_head_with(
        &mut self,
        status: u16,
        reason: &str,
        body: BodyLength,
        out: &mut BytesMut,
        write: impl FnOnce(&mut MessageWriter<'_>),
    ) -> Result<(), SendError> {
        if self.response != Response::Awaited {
            return Err(SendError::Head);
        }
        let has_none = self.asked.is_head || status == 204 || status == 304;
        let framing = match body {
            BodyLength::Chunked if self.asked.version == Version::Http10 => BodyLength::UntilClose,
            body => body,
        };
        if framing == BodyLength::UntilClose && !has_none {
            self.persistence = Persistence::Close;
        }
        let mut writer = MessageWriter::response(out, status, reason);
        write(&mut writer);
        match (framing, status) {
            (_, 204 | 304) => {}
            // RFC 9112 §6.3: without a length the body would last until the close.
            (BodyLength::Empty, _) => {
                writer.framing(BodyLength::Exactly(0));
            }
            (framing, _) => {
                writer.framing(framing);
            }
        }
        match (self.persistence, self.asked.version) {
            (Persistence::Close, Version::Http11) => {
                writer.field(b"connection", b"close");
            }
            (Persistence::KeepAlive, Version::Http10) => {
                writer.field(b"connection", b"keep-alive");
            }
            _ => {}
        }
        writer.end();
        self.response = Response::Body(BodyEncoder::new(if has_none { BodyLength::Empty } else { framing }));
        Ok(())
    }

    /// 101, with fields that `write` writes: from here on the bytes are another protocol's, in both directions.
    ///
    /// # Errors
    /// [`SendError::Head`] if no response is awaited.
    pub fn switch_protocols(
        &mut self,
        out: &mut BytesMut,
        write: impl FnOnce(&mut MessageWriter<'_>),
    ) -> Result<(), SendError> {
        if self.response != Response::Awaited {
            return Err(SendError::Head);
        }
        let mut writer = MessageWriter::response(out, 101, "Switching Protocols");
        write(&mut writer);
        writer.field(b"connection", b"upgrade").end();
        (self.request, self.response) = (Request::Closed, Response::Switched);
        Ok(())
    }

    /// The caller has written a whole response by itself, one that keeps the connection.
    ///
    /// # Errors
    /// [`SendError::Head`] if no response is awaited.
    #[inline]
    pub fn sent_whole(&mut self) -> Result<(), SendError> {
        if self.response != Response::Awaited {
            return Err(SendError::Head);
        }
        self.response = Response::Done;
        self.turn();
        Ok(())
    }

    /// A piece of the response's body.
    ///
    /// # Errors
    /// [`SendError::Body`] without a head; [`SendError::TooLong`] if it is more than was announced: nothing is written.
    pub fn send_data(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), SendError> {
        self.encoder(data.len())?.data(out, data);
        Ok(())
    }

    /// What precedes a piece that the caller writes from where it is; [`ServerConnection::end_piece`] follows it.
    ///
    /// # Errors
    /// As those of [`ServerConnection::send_data`].
    pub fn begin_piece(&mut self, length: usize, out: &mut BytesMut) -> Result<(), SendError> {
        self.encoder(length)?.before(out, length);
        Ok(())
    }

    /// What follows such a piece.
    pub fn end_piece(&self, out: &mut BytesMut) {
        if let Response::Body(encoder) = &self.response {
            encoder.after(out);
        }
    }

    fn encoder(&mut self, more: usize) -> Result<&mut BodyEncoder, SendError> {
        match &mut self.response {
            Response::Body(encoder) if encoder.has_room(more) => Ok(encoder),
            Response::Body(_) => Err(SendError::TooLong),
            _ => Err(SendError::Body),
        }
    }

    /// The response is over, with trailers. Those of a body that is not chunked are left out.
    ///
    /// # Errors
    /// As those of [`ServerConnection::send_end`].
    pub fn send_trailers<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut BytesMut,
    ) -> Result<(), SendError> {
        match &self.response {
            Response::Body(encoder) if encoder.is_chunked() => {
                write_head(MessageWriter::trailers(out), fields, |_| {});
                self.response = Response::Done;
                self.turn();
                Ok(())
            }
            _ => self.send_end(out),
        }
    }

    /// The response is over.
    ///
    /// # Errors
    /// [`SendError::TooShort`] if less was sent than announced: close the connection.
    pub fn send_end(&mut self, out: &mut BytesMut) -> Result<(), SendError> {
        let Response::Body(encoder) = &self.response else { return Err(SendError::Body) };
        if !encoder.is_whole() {
            self.persistence = Persistence::Close;
            self.response = Response::Done;
            return Err(SendError::TooShort);
        }
        encoder.end(out);
        self.response = Response::Done;
        self.turn();
        Ok(())
    }

    /// Whether a request was received whole or in part, and its response is not over.
    pub fn is_busy(&self) -> bool {
        matches!(self.response, Response::Awaited | Response::Body(_))
    }

    /// Whether the connection is to be closed: the last response is over, or the client has gone between two requests.
    pub fn is_over(&self) -> bool {
        match self.response {
            Response::None => matches!(self.request, Request::Closed | Request::Failed(_)),
            Response::Done => self.persistence == Persistence::Close || matches!(self.request, Request::Failed(_)),
            Response::Awaited | Response::Body(_) | Response::Switched => false,
        }
    }

    /// Whether the request that is being answered is HEAD.
    pub fn is_asked_for_head(&self) -> bool {
        self.asked.is_head
    }

    /// Whether a part of the request's body has not been received.
    pub fn is_in_body(&self) -> bool {
        matches!(self.request, Request::Body(_))
    }

    /// Bytes of the request's body that are still to come, if that is known.
    pub fn body_remaining(&self) -> Option<u64> {
        match &self.request {
            Request::Body(decoder) => decoder.remaining(),
            _ => Some(0),
        }
    }

    /// Appends what `bytes` go on with to `out`, as [`BodyDecoder::gather`] does; how many bytes of `bytes` are done
    /// with.
    pub fn gather(&mut self, bytes: &[u8], out: &mut BytesMut, max: usize) -> usize {
        match &mut self.request {
            Request::Body(decoder) => decoder.gather(bytes, &self.limits, out, max),
            _ => 0,
        }
    }

    /// Whether the response is over and a part of the request's body has not come.
    pub fn has_unread_body(&self) -> bool {
        self.response == Response::Done && matches!(self.request, Request::Body(_))
    }

    /// When both sides are done with a request, the next one may come.
    fn turn(&mut self) {
        let both = matches!(self.request, Request::Done) && self.response == Response::Done;
        if both && self.persistence == Persistence::KeepAlive {
            (self.request, self.response) = (Request::Head(0), Response::None);
        }
    }
}

/// Writes fields, then what `last` adds, then the end of the head.
pub(super) fn write_head<'f>(
    mut writer: MessageWriter<'_>,
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    last: impl FnOnce(&mut MessageWriter<'_>),
) {
    for (name, value) in fields {
        writer.field(name, value);
    }
    last(&mut writer);
    writer.end();
}
