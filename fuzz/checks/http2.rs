//! Bytes of a client that speaks HTTP/2: whatever they are, nothing panics, the cutting of the stream changes nothing,
//! and what is written are frames.

use std::task::{Context, Waker};

use pilotlight_http2::{
    End, FRAME_HEADER, FieldTable, Limits, MAX_FRAME, PREFACE, Received, ServerConnection, encode_status,
};

/// Small enough for a fuzzer to reach each of them.
const SMALL: Limits =
    Limits { streams: 4, header_list: 512, stream_window: 64, connection_window: 70_000, unwritten: 1024 };

/// The first byte says how the rest, which follows the preface and SETTINGS, is cut into reads.
pub(crate) fn check(data: &[u8]) {
    let Some((&step, stream)) = data.split_first() else { return };
    let stream = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], stream].concat();
    let whole = serve(&stream, stream.len());
    assert_eq!(whole, serve(&stream, usize::from(step).max(1)), "the cutting of the stream changed its events");
}

/// What came, and what was written.
fn serve(stream: &[u8], step: usize) -> (Vec<String>, Vec<u8>) {
    let mut connection = ServerConnection::new(SMALL);
    let (mut table, mut read, mut lines, mut said) = (FieldTable::new(), Vec::new(), Vec::new(), Vec::new());
    for piece in stream.chunks(step) {
        read.extend_from_slice(piece);
        loop {
            let (taken, received) = match connection.receive(&read, &mut table) {
                Ok((0, _)) => break,
                Ok(received) => received,
                Err(violation) => {
                    lines.push(violation.to_string());
                    connection.end(violation.code());
                    said.extend_from_slice(connection.output());
                    frames(&said);
                    return (lines, said);
                }
            };
            if let Received::Request(request, fields) = received {
                assert!(fields.method().is_some_and(|method| !method.is_empty()), "a request without a method");
                let fields: Vec<_> = fields.iter().map(|field| (field.name, field.value)).collect();
                lines.push(format!("{request:?} {fields:?}"));
                respond(&mut connection, request);
            }
            read.drain(..taken);
            said.extend_from_slice(&connection.output().split());
            connection.written();
        }
    }
    frames(&said);
    (lines, said)
}

/// One in three at once, one as a stream that ends, and one that does not.
fn respond(connection: &mut ServerConnection, request: pilotlight_http2::Request) {
    let id = request.stream();
    let mut block = Vec::new();
    encode_status(200, &mut block);
    if id.is_multiple_of(3) && connection.respond(request, &block, b"at once") {
        return;
    }
    connection.open(request);
    if id % 3 == 2 {
        return;
    }
    let cx = Context::from_waker(Waker::noop());
    let _ = connection.send_head(id, &block, End::No);
    if let std::task::Poll::Ready(Ok(room)) = connection.poll_room(id, &cx) {
        let _ = connection.send_data(id, &b"some of it"[..room.min(10)], End::Stream);
    }
    connection.drop_receiver(id);
    connection.drop_sender(id);
}

/// All of what was written are whole frames.
fn frames(mut said: &[u8]) {
    while let Some((header, rest)) = said.split_first_chunk::<FRAME_HEADER>() {
        let length = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
        assert!(length <= MAX_FRAME && header[3] <= 9, "{header:?}");
        assert!(length <= rest.len(), "a frame that is not whole");
        said = &rest[length..];
    }
    assert!(said.is_empty(), "the beginning of a frame");
}
