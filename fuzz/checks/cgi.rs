//! What a program sends over FastCGI, and the head in it: whatever the bytes, nothing panics, and however the reads are
//! cut, the outputs, the end and the head are the same.

use bytes::{Buf, BytesMut};
use pilotlight_cgi::{Decoder, Ended, Found, HeadError, HeadReader, NotARecord, Piece};

/// What was read of a connection.
#[derive(Debug, Default, PartialEq)]
struct Read {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ended: Option<Ended>,
    refused: Option<NotARecord>,
    /// Bytes behind the end.
    rest: Vec<u8>,
}

pub(crate) fn check(data: &[u8]) {
    let whole = read(data, usize::MAX);
    for step in [1, 3, 8, 64] {
        let cut = read(data, step);
        // What is refused is refused at the same byte; what came before it was given out as far as it was there.
        assert_eq!(cut, whole, "{step} bytes at a time");
    }
    heads(&whole.stdout);
    heads(data);
}

fn read(data: &[u8], step: usize) -> Read {
    let (mut decoder, mut buf, mut given, mut read) = (Decoder::new(), BytesMut::new(), 0, Read::default());
    loop {
        let Found { skip, piece } = match decoder.decode(&buf) {
            Ok(found) => found,
            Err(refused) => {
                read.refused = Some(refused);
                return read;
            }
        };
        assert!(skip <= buf.len());
        buf.advance(skip);
        match piece {
            Piece::Stdout(length) => read.stdout.extend(take(&mut buf, length)),
            Piece::Stderr(length) => read.stderr.extend(take(&mut buf, length)),
            Piece::End(ended) => {
                read.ended = Some(ended);
                read.rest = [&buf[..], &data[given..]].concat();
                assert!(decoder.is_ended());
                return read;
            }
            Piece::Incomplete if given == data.len() => return read,
            Piece::Incomplete => {
                let more = step.min(data.len() - given);
                buf.extend_from_slice(&data[given..given + more]);
                given += more;
            }
        }
    }
}

fn take(buf: &mut BytesMut, length: usize) -> BytesMut {
    assert!(length > 0 && length <= buf.len());
    buf.split_to(length)
}

fn heads(data: &[u8]) {
    let whole = head(data, usize::MAX);
    for step in [1, 7] {
        assert_eq!(head(data, step), whole, "{step} bytes at a time");
    }
    if let Ok(Some((length, head))) = whole {
        assert!(length <= data.len() && head.starts_with(b"HTTP/1.1 ") && head.ends_with(b"\r\n\r\n"));
    }
}

fn head(data: &[u8], step: usize) -> Result<Option<(usize, Vec<u8>)>, HeadError> {
    let (mut reader, mut out, mut given) = (HeadReader::new(), BytesMut::new(), 0);
    loop {
        if let Some(length) = reader.read(&data[..given], &mut out)? {
            return Ok(Some((length, out.to_vec())));
        }
        if given == data.len() {
            return Ok(None);
        }
        given += step.min(data.len() - given);
    }
}
