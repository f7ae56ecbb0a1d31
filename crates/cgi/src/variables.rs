//! What a program is told of a request: variables, as each protocol has them.
//!
//! ```text
//! FastCGI  length of the name, of the value (one byte each, or four with the highest bit set), name, value; as PARAMS
//! SCGI     name NUL value NUL, the first one being CONTENT_LENGTH; the whole as a netstring
//! uwsgi    length (two bytes, little end first), name, length, value; behind a header of four bytes
//! ```

use bytes::{BufMut, BytesMut};

use crate::protocol::Protocol;
use crate::record::{self, KeepConnection, Kind};

/// Most bytes of the variables of one request: heads of HTTP are smaller.
const MAX_BYTES: usize = 256 * 1024;
/// Most that a packet of uwsgi has.
const MAX_PACKET: usize = 0xffff;
/// Lengths below this one have one byte.
const SHORT: usize = 0x80;

/// The variables are more than the protocol has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes of variables are more than the {most} that fit in a request")]
pub struct TooLarge {
    /// How many there are.
    pub bytes: usize,
    /// How many there may be.
    pub most: usize,
}

/// Variables of one request, in the bytes of its protocol.
#[derive(Debug)]
pub struct Variables {
    protocol: Protocol,
    bytes: BytesMut,
}

impl Variables {
    /// `length` is that of the request's body.
    #[must_use]
    pub fn new(protocol: Protocol, length: Option<u64>) -> Self {
        let mut new = Self { protocol, bytes: BytesMut::with_capacity(2048) };
        match (length, protocol) {
            (Some(length), _) => new.put(b"CONTENT_LENGTH", &[length.to_string().as_bytes()]),
            // SCGI: it is the first one, and always there.
            (None, Protocol::Scgi) => new.put(b"CONTENT_LENGTH", &[b"0"]),
            (None, Protocol::Uwsgi) => new.put(b"CONTENT_LENGTH", &[b""]),
            (None, Protocol::FastCgi) => {}
        }
        if protocol == Protocol::Scgi {
            new.put(b"SCGI", &[b"1"]);
        }
        new
    }

    /// Adds a variable, whose value comes in pieces. One with NUL in it would be two of SCGI, and is left out.
    pub fn put(&mut self, name: &[u8], value: &[&[u8]]) {
        let length = value.iter().map(|piece| piece.len()).sum();
        if name.contains(&0) || value.iter().any(|piece| piece.contains(&0)) {
            return;
        }
        let out = &mut self.bytes;
        match self.protocol {
            Protocol::FastCgi => {
                put_length(out, name.len());
                put_length(out, length);
                out.put_slice(name);
                value.iter().for_each(|piece| out.put_slice(piece));
            }
            Protocol::Scgi => {
                out.put_slice(name);
                out.put_u8(0);
                value.iter().for_each(|piece| out.put_slice(piece));
                out.put_u8(0);
            }
            Protocol::Uwsgi => {
                out.put_u16_le(short(name.len()));
                out.put_slice(name);
                out.put_u16_le(short(length));
                value.iter().for_each(|piece| out.put_slice(piece));
            }
        }
    }

    /// Writes the beginning of a request with these variables; the body follows.
    ///
    /// # Errors
    /// There are too many.
    pub fn finish(self, out: &mut BytesMut, keep: KeepConnection) -> Result<(), TooLarge> {
        let bytes = self.bytes.len();
        let most = if self.protocol == Protocol::Uwsgi { MAX_PACKET } else { MAX_BYTES };
        if bytes > most {
            return Err(TooLarge { bytes, most });
        }
        match self.protocol {
            Protocol::FastCgi => {
                record::begin_request(out, keep);
                record::stream(out, Kind::Params, &self.bytes);
                record::end_stream(out, Kind::Params);
            }
            Protocol::Scgi => {
                out.put_slice(bytes.to_string().as_bytes());
                out.put_u8(b':');
                out.put_slice(&self.bytes);
                out.put_u8(b',');
            }
            Protocol::Uwsgi => {
                out.put_u8(0); // modifier1: a request of WSGI, PSGI, Rack …
                out.put_u16_le(short(bytes));
                out.put_u8(0);
                out.put_slice(&self.bytes);
            }
        }
        Ok(())
    }
}

fn put_length(out: &mut BytesMut, length: usize) {
    match u8::try_from(length) {
        Ok(short) if length < SHORT => out.put_u8(short),
        // Longer than `MAX_BYTES` is refused before it is sent.
        _ => out.put_u32(u32::try_from(length).unwrap_or(u32::MAX) | 1 << 31),
    }
}

/// What is longer is refused before it is sent, as the whole is longer then, too.
fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, length: Option<u64>, put: impl FnOnce(&mut Variables)) -> Vec<u8> {
        let (mut variables, mut out) = (Variables::new(protocol, length), BytesMut::new());
        put(&mut variables);
        variables.finish(&mut out, KeepConnection::No).unwrap();
        out.to_vec()
    }

    #[test]
    fn scgi_is_that_of_the_specification() {
        let out = written(Protocol::Scgi, Some(27), |variables| {
            variables.put(b"REQUEST_METHOD", &[b"POST"]);
            variables.put(b"REQUEST_URI", &[b"/deep", b"thought"]);
        });
        let expected = "70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn uwsgi_is_a_packet() {
        let out = written(Protocol::Uwsgi, Some(1), |variables| variables.put(b"A", &[b"bc"]));
        let expected = [&[0, 26, 0, 0, 14, 0][..], b"CONTENT_LENGTH", &[1, 0, b'1', 1, 0, b'A', 2, 0], b"bc"].concat();
        assert_eq!(out[..4], [0, 26, 0, 0]);
        assert_eq!(out, expected);
    }

    #[test]
    fn fastcgi_has_short_and_long_lengths() {
        let long = "v".repeat(300);
        let out = written(Protocol::FastCgi, None, |variables| variables.put(b"N", &[long.as_bytes()]));
        let content = [&[1, 0x80, 0, 1, 44, b'N'][..], long.as_bytes()].concat();
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let params = [&[1, 4, 0, 1, length[0], length[1], 0, 0][..], &content, &[1, 4, 0, 1, 0, 0, 0, 0]].concat();
        assert_eq!(out[16..], params);
    }

    #[test]
    fn nul_and_too_much_are_not_sent() {
        let (with, without) = (
            written(Protocol::Scgi, None, |variables| variables.put(b"A", &[b"x\0EVIL\0y"])),
            written(Protocol::Scgi, None, |_| {}),
        );
        assert_eq!(with, without);
        let mut variables = Variables::new(Protocol::Uwsgi, None);
        variables.put(b"A", &[&[b'x'; MAX_PACKET]]);
        let refused = variables.finish(&mut BytesMut::new(), KeepConnection::No);
        assert!(matches!(refused, Err(TooLarge { most: MAX_PACKET, .. })));
    }
}
