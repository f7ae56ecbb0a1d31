//! Messages as bytes: the one writer of start lines, fields, chunks and trailers.

use bytes::BytesMut;

use crate::framing::BodyLength;

/// Writes heads and trailers to the end of a buffer. Names and values are the caller's, and are not checked again: they
/// come from a parsed message or from types that hold valid ones.
#[derive(Debug)]
pub struct MessageWriter<'o> {
    out: &'o mut BytesMut,
}

impl<'o> MessageWriter<'o> {
    /// Begins a response: `HTTP/1.1 status reason`.
    pub fn response(out: &'o mut BytesMut, status: u16, reason: &str) -> Self {
        out.reserve(256);
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
        out.extend_from_slice(b" ");
        out.extend_from_slice(reason.as_bytes());
        out.extend_from_slice(b"\r\n");
        Self { out }
    }

    /// Begins a request: `method target HTTP/1.1`, and its `host`.
    pub fn request(out: &'o mut BytesMut, method: &str, target: &[u8], authority: &str) -> Self {
        out.reserve(method.len() + target.len() + authority.len() + 256);
        out.extend_from_slice(method.as_bytes());
        out.extend_from_slice(b" ");
        out.extend_from_slice(target);
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(authority.as_bytes());
        out.extend_from_slice(b"\r\n");
        Self { out }
    }

    /// Fields behind those that are there.
    pub fn fields(out: &'o mut BytesMut) -> Self {
        Self { out }
    }

    /// Begins a trailer section, behind the last chunk.
    pub fn trailers(out: &'o mut BytesMut) -> Self {
        out.extend_from_slice(b"0\r\n");
        Self { out }
    }

    /// One field.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        let (begin, colon, line) = (self.out.len(), name.len(), name.len() + value.len() + 4);
        // Sized once: each append by itself would look at the room anew.
        self.out.resize(begin + line, 0);
        let line = &mut self.out[begin..];
        line[..colon].copy_from_slice(name);
        (line[colon], line[colon + 1]) = (b':', b' ');
        let (text, end) = line[colon + 2..].split_at_mut(value.len());
        text.copy_from_slice(value);
        (end[0], end[1]) = (b'\r', b'\n');
        self
    }

    /// One field, whose value is in pieces.
    #[inline]
    pub fn field_of(&mut self, name: &[u8], value: &[&[u8]]) -> &mut Self {
        let length: usize = value.iter().map(|piece| piece.len()).sum();
        self.out.reserve(name.len() + length + 4);
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        value.iter().for_each(|piece| self.out.extend_from_slice(piece));
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Fields that stand in their lines already.
    #[inline]
    pub fn lines(&mut self, lines: &[u8]) -> &mut Self {
        self.out.extend_from_slice(lines);
        self
    }

    /// Where it writes to: further lines may be put there.
    #[inline]
    pub fn out(&mut self) -> &mut BytesMut {
        self.out
    }

    /// The field that frames the body, if there is one to write: none for an empty body or one until close.
    pub fn framing(&mut self, body: BodyLength) -> &mut Self {
        match body {
            BodyLength::Empty | BodyLength::UntilClose => self,
            BodyLength::Exactly(length) => self.field(b"content-length", itoa::Buffer::new().format(length).as_bytes()),
            BodyLength::Chunked => self.field(b"transfer-encoding", b"chunked"),
        }
    }

    /// The empty line: the head, or the trailer section, is whole.
    pub fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Writes the pieces of one body by its framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyEncoder {
    length: BodyLength,
    sent: u64,
}

impl BodyEncoder {
    /// Of a body with this framing.
    pub fn new(length: BodyLength) -> Self {
        Self { length, sent: 0 }
    }

    /// Whether the framing allows as many bytes more.
    pub fn has_room(&self, bytes: usize) -> bool {
        match self.length {
            BodyLength::Empty => bytes == 0,
            BodyLength::Exactly(length) => self.sent + bytes as u64 <= length,
            BodyLength::Chunked | BodyLength::UntilClose => true,
        }
    }

    /// Whether trailers may follow.
    pub fn is_chunked(&self) -> bool {
        self.length == BodyLength::Chunked
    }

    /// Whether the body may end here.
    pub fn is_whole(&self) -> bool {
        match self.length {
            BodyLength::Exactly(length) => self.sent == length,
            BodyLength::Empty | BodyLength::Chunked | BodyLength::UntilClose => true,
        }
    }

    /// Appends what precedes a piece of data. The data follow as they are, so a large piece need not be copied; then
    /// [`BodyEncoder::after`]. An empty piece has to be left out: in chunks it would end the body.
    pub fn before(&mut self, out: &mut BytesMut, length: usize) {
        self.sent += length as u64;
        if self.length == BodyLength::Chunked {
            let mut digits = [0; 18];
            out.extend_from_slice(size_line(&mut digits, length));
        }
    }

    /// Appends what follows a piece of data.
    pub fn after(&self, out: &mut BytesMut) {
        if self.length == BodyLength::Chunked {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Appends a whole piece.
    pub fn data(&mut self, out: &mut BytesMut, data: &[u8]) {
        if !data.is_empty() {
            self.before(out, data.len());
            out.extend_from_slice(data);
            self.after(out);
        }
    }

    /// Appends the end of a body without trailers.
    pub fn end(&self, out: &mut BytesMut) {
        if self.length == BodyLength::Chunked {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// A chunk's size as hexadecimal digits with CRLF, at the end of `buffer`.
fn size_line(buffer: &mut [u8; 18], length: usize) -> &[u8] {
    let mut left = length as u64;
    buffer[16..].copy_from_slice(b"\r\n");
    let mut at = 16;
    loop {
        at -= 1;
        buffer[at] = b"0123456789abcdef"[(left & 15) as usize];
        left >>= 4;
        if left == 0 {
            return &buffer[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_hexadecimal() {
        for length in [1usize, 9, 10, 15, 16, 255, 256, 0x1234_5678, usize::MAX] {
            let mut buffer = [0; 18];
            assert_eq!(size_line(&mut buffer, length), format!("{length:x}\r\n").as_bytes());
        }
    }

    #[test]
    fn an_encoder_counts() {
        let mut out = BytesMut::new();
        let mut encoder = BodyEncoder::new(BodyLength::Exactly(5));
        assert!(encoder.has_room(5) && !encoder.has_room(6) && !encoder.is_whole());
        encoder.data(&mut out, b"hello");
        encoder.end(&mut out);
        assert!(encoder.is_whole() && !encoder.has_room(1));
        assert_eq!(&out[..], b"hello");
    }
}
