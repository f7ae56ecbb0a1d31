//! Records of FastCGI (specification §3.3): eight bytes of header, content, padding.
//!
//! ```text
//!            ┌─────────── header ───────────┐
//!            │ version type id length pad 0 │ content (length) │ padding (pad) │
//! ```
//!
//! A connection carries one request at a time, whose id is 1.

use bytes::{BufMut, BytesMut};

/// Bytes of a header.
const HEADER: usize = 8;
/// Most bytes of a record's content.
pub const MAX_CONTENT: usize = 0xffff;
/// What is put in one record: a multiple of eight, so that no padding is wanted.
const CHUNK: usize = 0xfff8;
const VERSION: u8 = 1;
/// The only request of a connection.
const REQUEST: u16 = 1;
/// The id of records that belong to no request (§3.3).
const MANAGEMENT: u16 = 0;
/// §5.1.
const RESPONDER: u16 = 1;
const KEEP_CONN: u8 = 1;
/// Content of `FCGI_END_REQUEST`.
const END_BODY: usize = 8;

/// Types of records (§8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Begins a request.
    BeginRequest = 1,
    /// Ends it before its time.
    AbortRequest = 2,
    /// The program has ended it.
    EndRequest = 3,
    /// A part of the variables.
    Params = 4,
    /// A part of the request's body.
    Stdin = 5,
    /// A part of the response.
    Stdout = 6,
    /// A part of what is logged.
    Stderr = 7,
}

/// What becomes of the connection behind the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepConnection {
    /// It stays open for the next request.
    Yes,
    /// The program closes it.
    No,
}

fn header(out: &mut BytesMut, kind: Kind, length: usize) {
    out.put_u8(VERSION);
    out.put_u8(kind as u8);
    out.put_u16(REQUEST);
    out.put_u16(u16::try_from(length).unwrap_or(u16::MAX)); // callers give at most MAX_CONTENT
    out.put_u16(0);
}

/// Begins a request for a responder.
pub fn begin_request(out: &mut BytesMut, keep: KeepConnection) {
    header(out, Kind::BeginRequest, END_BODY);
    out.put_u16(RESPONDER);
    out.put_u8(if keep == KeepConnection::Yes { KEEP_CONN } else { 0 });
    out.put_bytes(0, 5);
}

/// Asks the program to give the request up (§5.4).
pub fn abort_request(out: &mut BytesMut) {
    header(out, Kind::AbortRequest, 0);
}

/// A part of the request's body; without bytes, its end.
pub fn stdin(out: &mut BytesMut, data: &[u8]) {
    if data.is_empty() {
        return header(out, Kind::Stdin, 0);
    }
    stream(out, Kind::Stdin, data);
}

/// A stream's bytes as records, without the one that ends it.
pub(crate) fn stream(out: &mut BytesMut, kind: Kind, data: &[u8]) {
    out.reserve(data.len() + (data.len() / CHUNK + 1) * HEADER);
    for part in data.chunks(CHUNK) {
        header(out, kind, part.len());
        out.put_slice(part);
    }
}

/// Ends a stream (§3.3: a record without content).
pub(crate) fn end_stream(out: &mut BytesMut, kind: Kind) {
    header(out, kind, 0);
}

/// Why bytes are not what a program may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotARecord {
    /// Another protocol, most likely.
    #[error("a record of FastCGI has version 1, not {0}")]
    Version(u8),
    /// For a request that it has not been given.
    #[error("a record for request {0}, which there is not")]
    Request(u16),
    /// What only a gateway sends.
    #[error("a record of type {0}, which programs do not send")]
    Type(u8),
    /// `FCGI_END_REQUEST` with another content than the specification's.
    #[error("FCGI_END_REQUEST has 8 bytes, not {0}")]
    EndLength(u16),
    /// A protocol status that there is not.
    #[error("protocol status {0} is not defined")]
    Status(u8),
}

/// How a request ended (§5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// As a process would have ended; 0 is success.
    pub app_status: u32,
    /// Whether the request was taken at all.
    pub protocol_status: ProtocolStatus,
}

/// Whether a request was taken (§5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// It was, and has its answer.
    Complete,
    /// The connection has a request already.
    CannotMultiplex,
    /// Too much to do.
    Overloaded,
    /// It is no responder.
    UnknownRole,
}

/// What was found at the front of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Bytes in front of the piece that say nothing any more.
    pub skip: usize,
    /// What is behind them.
    pub piece: Piece,
}

/// A part of what a program sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes of its standard output; never 0.
    Stdout(usize),
    /// So many bytes of its standard error; never 0.
    Stderr(usize),
    /// The request has ended; its bytes are among those skipped.
    End(Ended),
    /// More bytes are needed.
    Incomplete,
}

/// Takes records off the front of a buffer. It keeps no bytes: the caller removes `skip`, and then the piece.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// What is left of the record's content, and whose it is.
    content: Option<(Output, usize)>,
    padding: usize,
    is_ended: bool,
}

/// The streams of a program; what is for none is thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Stdout,
    Stderr,
    Ignored,
}

impl Decoder {
    /// For the first record of a connection, or that behind the end of a request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the request has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// The next piece at the front of `buf`. Behind the end of the request there is none.
    ///
    /// # Errors
    /// No program sends this.
    pub fn decode(&mut self, buf: &[u8]) -> Result<Found, NotARecord> {
        let mut skip = 0;
        while !self.is_ended {
            let rest = &buf[skip..];
            if let Some((output, left)) = self.content {
                let here = left.min(rest.len());
                if here == 0 {
                    break;
                }
                self.content = (left > here).then_some((output, left - here));
                match output {
                    Output::Stdout => return Ok(Found { skip, piece: Piece::Stdout(here) }),
                    Output::Stderr => return Ok(Found { skip, piece: Piece::Stderr(here) }),
                    Output::Ignored => skip += here,
                }
                continue;
            }
            if self.padding > 0 {
                let here = self.padding.min(rest.len());
                if here == 0 {
                    break;
                }
                self.padding -= here;
                skip += here;
                continue;
            }
            let Some((header, content)) = rest.split_at_checked(HEADER) else { break };
            let (kind, length, padding) = checked(header)?;
            if kind == Kind::EndRequest as u8 {
                let Some(body) = content.get(..END_BODY + padding) else { break };
                let ended = ended(body)?;
                self.is_ended = true;
                return Ok(Found { skip: skip + HEADER + END_BODY + padding, piece: Piece::End(ended) });
            }
            let output = match kind {
                kind if kind == Kind::Stdout as u8 => Output::Stdout,
                kind if kind == Kind::Stderr as u8 => Output::Stderr,
                _ => Output::Ignored,
            };
            skip += HEADER;
            self.content = (length > 0).then_some((output, length));
            self.padding = padding;
        }
        Ok(Found { skip, piece: Piece::Incomplete })
    }
}

/// Type, content and padding of a header that a program may send.
fn checked(header: &[u8]) -> Result<(u8, usize, usize), NotARecord> {
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (version, kind, id, length, padding) = (header[0], header[1], word(2), word(4), header[6]);
    if version != VERSION {
        return Err(NotARecord::Version(version));
    }
    let is_output = [Kind::Stdout as u8, Kind::Stderr as u8, Kind::EndRequest as u8].contains(&kind);
    match id {
        MANAGEMENT if !is_output => {} // §4: nothing was asked, so nothing is answered; an unknown type is no error
        REQUEST if is_output => {}
        REQUEST => return Err(NotARecord::Type(kind)),
        id => return Err(NotARecord::Request(id)),
    }
    if kind == Kind::EndRequest as u8 && usize::from(length) != END_BODY {
        return Err(NotARecord::EndLength(length));
    }
    Ok((kind, usize::from(length), usize::from(padding)))
}

fn ended(body: &[u8]) -> Result<Ended, NotARecord> {
    let protocol_status = match body[4] {
        0 => ProtocolStatus::Complete,
        1 => ProtocolStatus::CannotMultiplex,
        2 => ProtocolStatus::Overloaded,
        3 => ProtocolStatus::UnknownRole,
        other => return Err(NotARecord::Status(other)),
    };
    Ok(Ended { app_status: u32::from_be_bytes([body[0], body[1], body[2], body[3]]), protocol_status })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, id: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let mut all = vec![1, kind, 0, id, length[0], length[1], padding, 0];
        all.extend(content);
        all.extend(std::iter::repeat_n(0xee, usize::from(padding)));
        all
    }

    /// Both outputs, the end, and how much is left.
    type Read = (Vec<u8>, Vec<u8>, Option<Ended>, usize);

    /// What a connection has, with at most `step` bytes more at a time.
    fn read(bytes: &[u8], step: usize) -> Result<Read, NotARecord> {
        let (mut decoder, mut buf, mut out, mut err) = (Decoder::new(), Vec::new(), Vec::new(), Vec::new());
        let mut rest = bytes;
        loop {
            let Found { skip, piece } = decoder.decode(&buf)?;
            buf.drain(..skip);
            match piece {
                Piece::Stdout(length) => out.extend(buf.drain(..length)),
                Piece::Stderr(length) => err.extend(buf.drain(..length)),
                Piece::End(ended) => return Ok((out, err, Some(ended), buf.len() + rest.len())),
                Piece::Incomplete if rest.is_empty() => return Ok((out, err, None, 0)),
                Piece::Incomplete => {
                    let (more, after) = rest.split_at(step.min(rest.len()));
                    buf.extend(more);
                    rest = after;
                }
            }
        }
    }

    #[test]
    fn an_answer_in_records() {
        let parts = [
            record(6, 1, b"Status: 200\r\n", 3),
            record(7, 1, b"oh\n", 5),
            record(11, 0, b"unknown", 1),
            record(6, 1, b"\r\nhello", 0),
            record(6, 1, b"", 0),
            record(3, 1, &[0, 0, 0, 7, 0, 0, 0, 0], 2),
            b"rest".to_vec(),
        ];
        let ended = Ended { app_status: 7, protocol_status: ProtocolStatus::Complete };
        let expected = (b"Status: 200\r\n\r\nhello".to_vec(), b"oh\n".to_vec(), Some(ended), 4);
        for step in [1, 2, 7, 8, 9, 1000] {
            assert_eq!(read(&parts.concat(), step), Ok(expected.clone()), "{step}");
        }
    }

    #[track_caller]
    fn refused(bytes: &[u8], why: NotARecord) {
        assert_eq!(read(bytes, 1), Err(why));
        assert_eq!(read(bytes, usize::MAX), Err(why));
    }

    #[test]
    fn what_no_program_sends() {
        refused(b"HTTP/1.1 200 OK\r\n\r\n", NotARecord::Version(b'H'));
        refused(&record(6, 2, b"x", 0), NotARecord::Request(2));
        refused(&record(6, 0, b"x", 0), NotARecord::Request(0));
        refused(&record(5, 1, b"x", 0), NotARecord::Type(5));
        refused(&record(3, 1, b"short", 0), NotARecord::EndLength(5));
        refused(&record(3, 1, &[0, 0, 0, 0, 9, 0, 0, 0], 0), NotARecord::Status(9));
    }

    #[test]
    fn what_a_gateway_sends() {
        let mut out = BytesMut::new();
        begin_request(&mut out, KeepConnection::Yes);
        assert_eq!(&out[..], [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        out.clear();
        abort_request(&mut out);
        stdin(&mut out, b"");
        assert_eq!(&out[..], [1, 2, 0, 1, 0, 0, 0, 0, 1, 5, 0, 1, 0, 0, 0, 0]);
        out.clear();
        stdin(&mut out, &vec![b'x'; CHUNK + 1]);
        assert_eq!(&out[..8], [1, 5, 0, 1, 0xff, 0xf8, 0, 0]);
        assert_eq!(&out[8 + CHUNK..], [1, 5, 0, 1, 0, 1, 0, 0, b'x']);
    }
}
