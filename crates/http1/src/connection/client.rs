//! The client's side of a connection: requests go, responses come.

use bytes::BytesMut;

use super::server::write_head;
use super::{Received, SendError, has_new_line, receive_body};
use crate::body::BodyDecoder;
use crate::error::Malformed;
use crate::fields::FieldTable;
use crate::framing::{BodyLength, Persistence};
use crate::head::ResponseHead;
use crate::limits::Limits;
use crate::parse::response::parse_response;
use crate::write::{BodyEncoder, MessageWriter};

/// One service, as bytes.
#[derive(Debug)]
pub struct ClientConnection {
    limits: Limits,
    request: Request,
    response: Response,
    persistence: Persistence,
    asked: Asked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// None is under way.
    None,
    Body(BodyEncoder),
    Done,
}

#[derive(Debug)]
enum Response {
    /// As many bytes of an incomplete head were looked at.
    Head(usize),
    Body(BodyDecoder),
    Done,
    Switched,
    Failed(Malformed),
}

/// What the response depends on.
#[derive(Debug, Clone, Copy)]
struct Asked {
    method: Method,
    is_upgrade: bool,
}

#[derive(Debug, Clone, Copy)]
enum Method {
    Head,
    Connect,
    Other,
}

impl ClientConnection {
    /// A new connection.
    pub fn new(limits: Limits) -> Self {
        let asked = Asked { method: Method::Other, is_upgrade: false };
        Self { limits, request: Request::None, response: Response::Done, persistence: Persistence::KeepAlive, asked }
    }

    /// The head of a request. The fields have no framing of their own, nor `Host` or `Connection`.
    ///
    /// # Errors
    /// [`SendError::Head`] if the exchange before is not over.
    pub fn send_head<'f>(
        &mut self,
        head: &OutgoingRequest<'_>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut BytesMut,
    ) -> Result<(), SendError> {
        if !self.is_reusable() {
            return Err(SendError::Head);
        }
        self.asked = Asked {
            method: match head.method {
                "HEAD" => Method::Head,
                "CONNECT" => Method::Connect,
                _ => Method::Other,
            },
            is_upgrade: head.upgrade.is_some(),
        };
        write_head(MessageWriter::request(out, head.method, head.target, head.authority), fields, |writer| {
            writer.framing(head.body);
            if let Some(protocol) = head.upgrade {
                writer.field(b"connection", b"upgrade").field(b"upgrade", protocol);
            }
        });
        self.response = Response::Head(0);
        self.request = match head.body {
            BodyLength::Empty => Request::Done,
            body => Request::Body(BodyEncoder::new(body)),
        };
        Ok(())
    }

    /// A piece of the request's body.
    ///
    /// # Errors
    /// [`SendError::Body`] without a head; [`SendError::TooLong`] if it is more than was announced: nothing is written.
    pub fn send_data(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), SendError> {
        let Request::Body(encoder) = &mut self.request else { return Err(SendError::Body) };
        if !encoder.has_room(data.len()) {
            return Err(SendError::TooLong);
        }
        encoder.data(out, data);
        Ok(())
    }

    /// The request is over.
    ///
    /// # Errors
    /// [`SendError::TooShort`] if less was sent than announced: close the connection.
    pub fn send_end(&mut self, out: &mut BytesMut) -> Result<(), SendError> {
        let Request::Body(encoder) = &self.request else { return Err(SendError::Body) };
        if !encoder.is_whole() {
            self.persistence = Persistence::Close;
            return Err(SendError::TooShort);
        }
        encoder.end(out);
        self.request = Request::Done;
        Ok(())
    }

    /// Looks at the bytes that were read and not yet taken: how many of them are done with, and what they say. An
    /// interim response is a head with a status below 200; any number of them may precede the final one (RFC 9110
    /// §15.2).
    ///
    /// # Errors
    /// The rule that the service breaks, at this call and at each one after it: the connection is of no further use.
    pub fn receive<'b>(
        &mut self,
        bytes: &'b [u8],
        table: &'b mut FieldTable,
    ) -> Result<(usize, Received<'b, ResponseHead<'b>>), Malformed> {
        match &mut self.response {
            Response::Head(searched) => {
                if bytes.is_empty() || !has_new_line(bytes, *searched) && bytes.len() <= self.limits.max_head {
                    *searched = bytes.len();
                    return Ok((0, Received::Incomplete));
                }
                *searched = bytes.len();
                let method = match self.asked.method {
                    Method::Head => "HEAD",
                    Method::Connect => "CONNECT",
                    Method::Other => "GET",
                };
                let found = parse_response(bytes, method, table, &self.limits);
                match found.and_then(|head| head.map(|head| self.begin(head)).transpose()) {
                    Ok(None) => Ok((0, Received::Incomplete)),
                    Ok(Some(head)) => Ok((head.length, Received::Head(head))),
                    Err(rule) => {
                        self.response = Response::Failed(rule);
                        Err(rule)
                    }
                }
            }
            Response::Body(decoder) => match receive_body(decoder, bytes, table, &self.limits) {
                Ok((taken, event)) => {
                    if matches!(event, Received::End | Received::Trailers(_)) {
                        self.response = Response::Done;
                    }
                    Ok((taken, event))
                }
                Err(rule) => {
                    self.response = Response::Failed(rule);
                    Err(rule)
                }
            },
            Response::Done | Response::Switched => Ok((0, Received::Incomplete)),
            Response::Failed(rule) => Err(*rule),
        }
    }

    /// The service closed its sending side; `unread` bytes are left. `Ok(true)` ends a body that lasts until then.
    ///
    /// # Errors
    /// The message that was cut; [`Malformed::CutHead`] also if there is no response at all.
    pub fn receive_end(&mut self, unread: usize) -> Result<bool, Malformed> {
        self.persistence = Persistence::Close;
        let cut = match &mut self.response {
            Response::Body(decoder) => match decoder.closed() {
                Ok(()) if unread == 0 => {
                    self.response = Response::Done;
                    return Ok(true);
                }
                _ => Malformed::CutBody,
            },
            Response::Head(_) => Malformed::CutHead,
            Response::Failed(rule) => *rule,
            Response::Done | Response::Switched => return Ok(false),
        };
        self.response = Response::Failed(cut);
        Err(cut)
    }

    /// Whether another request may be sent: the exchange before is over on both sides, and both stay.
    pub fn is_reusable(&self) -> bool {
        self.persistence == Persistence::KeepAlive
            && matches!(self.response, Response::Done)
            && !matches!(self.request, Request::Body(_))
    }

    fn begin<'b>(&mut self, head: ResponseHead<'b>) -> Result<ResponseHead<'b>, Malformed> {
        self.response = match head.status {
            101 if self.asked.is_upgrade && head.upgrade.is_some() => Response::Switched,
            101 => return Err(Malformed::UnaskedSwitch),
            100..=199 => Response::Head(0),
            _ if head.body == BodyLength::Empty => Response::Done,
            _ => Response::Body(BodyDecoder::new(head.body)),
        };
        if head.status >= 200 && head.persistence == Persistence::Close {
            self.persistence = Persistence::Close;
        }
        Ok(head)
    }
}

/// What begins a request.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingRequest<'a> {
    /// A token.
    pub method: &'a str,
    /// In origin form; see [`crate::Target::write_origin`].
    pub target: &'a [u8],
    /// Value of `Host`.
    pub authority: &'a str,
    /// How its body ends; [`BodyLength::UntilClose`] is of responses only and counts as chunked.
    pub body: BodyLength,
    /// The protocols to switch to.
    pub upgrade: Option<&'a [u8]>,
}
