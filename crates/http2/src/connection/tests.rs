//! A connection by value, in pieces, under floods, and with the client of another implementation.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::connection::send::End;
use crate::frame::flag;
use crate::hpack::encoder::{encode_field, encode_status};
use crate::limits::{MAX_CONTINUATIONS, MAX_RESET_STREAMS};

const LIMITS: Limits =
    Limits { streams: 10, header_list: 4096, stream_window: 1000, connection_window: 70_000, unwritten: 64 * 1024 };

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_frame(kind, flags, stream, payload, &mut out);
    out.to_vec()
}

fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        values.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    frame(kind::SETTINGS, 0, 0, &payload)
}

/// GET / of http://a, and these fields.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x01, 1, b'a'];
    fields.iter().for_each(|(name, value)| encode_field(name.as_bytes(), value.as_bytes(), &mut block));
    block
}

fn get(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block(&[]))
}

fn post(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS, stream, &block(&[]))
}

fn reset(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &ErrorCode::CANCEL.0.to_be_bytes())
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// A frame as it was written: type, flags, stream, payload.
type Written = (u8, u8, u32, Vec<u8>);

fn written(connection: &mut ServerConnection) -> Vec<Written> {
    let bytes = connection.output().split();
    let (mut rest, mut frames) = (&bytes[..], Vec::new());
    while let Some(header) = FrameHeader::parse(rest) {
        let end = FRAME_HEADER + header.length;
        frames.push((header.kind, header.flags, header.stream, rest[FRAME_HEADER..end].to_vec()));
        rest = &rest[end..];
    }
    assert!(rest.is_empty());
    frames
}

fn reset_with(stream: u32, code: ErrorCode) -> Written {
    (kind::RST_STREAM, 0, stream, code.0.to_be_bytes().to_vec())
}

/// A connection whose preface and SETTINGS have come.
fn begun_with(values: &[(u16, u32)]) -> ServerConnection {
    let mut connection = ServerConnection::new(LIMITS);
    assert_eq!(receive(&mut connection, &[&PREFACE[..], &settings(values)].concat()), Ok(vec![]));
    connection.output().clear();
    connection
}

fn begun() -> ServerConnection {
    begun_with(&[])
}

/// Takes all of these bytes, and opens the streams of requests; their numbers.
fn receive(connection: &mut ServerConnection, bytes: &[u8]) -> Result<Vec<u32>, Violation> {
    let (mut table, mut rest, mut opened) = (FieldTable::new(), bytes, Vec::new());
    loop {
        let (taken, received) = connection.receive(rest, &mut table)?;
        rest = &rest[taken..];
        match received {
            Received::Incomplete if taken == 0 => break,
            Received::Incomplete | Received::Frame => {}
            Received::Request(request, _) => {
                connection.open(request);
                opened.push(request.stream());
            }
        }
    }
    assert!(rest.len() < FRAME_HEADER + MAX_FRAME);
    Ok(opened)
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn data(connection: &mut ServerConnection, stream: u32) -> Poll<Option<Result<Bytes, Gone>>> {
    connection.poll_data(stream, &context())
}

/// What ends the connection.
#[track_caller]
fn check_violation(bytes: &[u8], expected: Violation) {
    assert_eq!(receive(&mut begun(), bytes), Err(expected));
}

/// With what a stream is reset.
#[track_caller]
fn check_reset(bytes: &[u8], expected: &[Written]) {
    let mut connection = begun();
    receive(&mut connection, bytes).unwrap();
    assert_eq!(written(&mut connection), expected);
}

#[test]
fn what_the_server_says_first() {
    let mut connection = ServerConnection::new(LIMITS);
    let expected = [settings(&[(3, 10), (4, 1000), (6, 4096), (8, 1)]), window_update(0, 70_000 - 65_535)];
    assert_eq!(connection.output()[..], expected.concat());
    for wrong in
        [&b"GET / HTTP/1.1\r\n"[..], &[&PREFACE[..], &get(1)].concat(), &[&PREFACE[..], &frame(4, 1, 0, &[])].concat()]
    {
        assert_eq!(receive(&mut ServerConnection::new(LIMITS), wrong), Err(Violation::Preface));
    }
}

#[test]
fn a_request_that_is_answered_at_once() {
    let mut connection = begun();
    let mut table = FieldTable::new();
    let bytes = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block(&[("x-own", "1")]));
    let (taken, received) = connection.receive(&bytes, &mut table).unwrap();
    let Received::Request(request, fields) = received else { panic!("{received:?}") };
    assert_eq!((taken, request.stream(), request.ends()), (bytes.len(), 1, true));
    let pseudo = (fields.method(), fields.scheme(), fields.authority(), fields.path(), fields.protocol());
    assert_eq!(pseudo, (Some(&b"GET"[..]), Some(&b"http"[..]), Some(&b"a"[..]), Some(&b"/"[..]), None));
    assert_eq!(fields.all("x-own").collect::<Vec<_>>(), [b"1"]);
    assert!(fields.may_have(b"x-own") && !fields.may_have(b"range"));
    assert!(connection.respond(request, &[0x88], b"hello"));
    let head = (kind::HEADERS, flag::END_HEADERS, 1, vec![0x88]);
    assert_eq!(written(&mut connection), [head, (kind::DATA, flag::END_STREAM, 1, b"hello".to_vec())]);
    assert!(!connection.has_streams());
    // Beyond the windows nothing is sent.
    let mut small = begun_with(&[(4, 3)]);
    let (_, received) = small.receive(&bytes, &mut table).unwrap();
    let Received::Request(request, _) = received else { panic!("{received:?}") };
    assert!(!small.respond(request, &[0x88], b"hello"));
    assert_eq!(written(&mut small), []);
}

/// RFC 9113 §8.2.3
#[test]
fn cookies_in_several_fields_are_one() {
    for (sent, expected) in [
        (&[("cookie", "a=1")][..], &["cookie: a=1"][..]),
        (
            &[("x-a", "1"), ("cookie", "a=1"), ("x-b", "2"), ("cookie", ""), ("cookie", "b=2")],
            &["x-a: 1", "cookie: a=1; ; b=2", "x-b: 2"],
        ),
        (&[("cookie", ""), ("cookie", ""), ("cookies", "c")], &["cookie: ; ", "cookies: c"]),
    ] {
        let (mut connection, mut table) = (begun(), FieldTable::new());
        for id in [1, 3] {
            let bytes = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &block(sent));
            let (_, received) = connection.receive(&bytes, &mut table).unwrap();
            let Received::Request(_, fields) = received else { panic!("{received:?}") };
            let text = |bytes| std::str::from_utf8(bytes).unwrap();
            let lines = fields.iter().map(|field| format!("{}: {}", text(field.name), text(field.value)));
            assert_eq!(lines.collect::<Vec<_>>(), expected);
            assert!(fields.may_have(b"cookie"));
        }
    }
}

#[test]
fn a_body_at_the_pace_of_its_windows() {
    let mut connection = begun_with(&[(4, 5)]);
    assert_eq!(receive(&mut connection, &get(1)), Ok(vec![1]));
    connection.send_head(1, &[0x88], End::No).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Ready(Ok(5)));
    connection.send_data(1, b"12345", End::No).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Pending);
    receive(&mut connection, &window_update(1, 3)).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Ready(Ok(3)));
    receive(&mut connection, &settings(&[(4, 0)])).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Pending, "below 0 by 2");
    receive(&mut connection, &settings(&[(4, 65_535)])).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Ready(Ok(MAX_FRAME)));
    let piece = vec![0; MAX_FRAME];
    for _ in 0..3 {
        connection.send_data(1, &piece, End::No).unwrap();
    }
    let Poll::Ready(Ok(left)) = connection.poll_room(1, &context()) else { panic!("room") };
    assert!(left < MAX_FRAME, "what waits to be written counts");
    connection.send_data(1, &piece[..left], End::No).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Pending);
    connection.output().clear();
    connection.written();
    let Poll::Ready(Ok(left)) = connection.poll_room(1, &context()) else { panic!("room") };
    connection.send_data(1, &piece[..left], End::No).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Pending, "the window of the connection is used up");
    receive(&mut connection, &[window_update(0, 7), window_update(1, 70_000)].concat()).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Ready(Ok(7)));
    connection.send_trailers(1, &[0x88]).unwrap();
    assert_eq!(connection.send_data(1, b"x", End::No), Err(Gone::Closed));
    connection.drop_sender(1);
    assert!(!connection.has_streams());
}

#[test]
fn a_body_that_is_read_and_one_that_is_not() {
    let mut connection = begun();
    let sent = [post(1), frame(kind::DATA, 0, 1, &[7; 600])].concat();
    receive(&mut connection, &sent).unwrap();
    let Poll::Ready(Some(Ok(got))) = data(&mut connection, 1) else { panic!("data") };
    assert_eq!((got.len(), data(&mut connection, 1)), (600, Poll::Pending));
    connection.release(1, 600);
    assert_eq!(written(&mut connection), [(kind::WINDOW_UPDATE, 0, 1, 600u32.to_be_bytes().to_vec())]);
    // Padding counts, and is taken.
    receive(&mut connection, &frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, &[2, b'x', 0, 0])).unwrap();
    assert_eq!(data(&mut connection, 1), Poll::Ready(Some(Ok(Bytes::from_static(b"x")))));
    assert_eq!((data(&mut connection, 1), connection.is_received(1)), (Poll::Ready(None), true));
    // Nobody reads the next: its bytes are given back to the connection, and the client is told to stop.
    receive(&mut connection, &post(3)).unwrap();
    connection.drop_receiver(3);
    receive(&mut connection, &frame(kind::DATA, 0, 3, &[0; 900])).unwrap();
    connection.send_head(3, &[0x88], End::Stream).unwrap();
    assert!(written(&mut connection).contains(&reset_with(3, ErrorCode::NO_ERROR)));
    // A window is kept to.
    receive(&mut connection, &post(5)).unwrap();
    receive(&mut connection, &frame(kind::DATA, 0, 5, &[0; 1001])).unwrap();
    assert_eq!(written(&mut connection), [reset_with(5, ErrorCode::FLOW_CONTROL_ERROR)]);
    assert_eq!(data(&mut connection, 5), Poll::Ready(Some(Err(Gone::Reset(ErrorCode::FLOW_CONTROL_ERROR)))));
    let flood: Vec<u8> = (0..5).flat_map(|_| frame(kind::DATA, 0, 3, &[0; MAX_FRAME])).collect();
    assert_eq!(receive(&mut begun(), &[post(3), flood].concat()), Ok(vec![3]), "given back as it is refused");
}

#[test]
fn what_was_handed_out_and_not_taken_is_given_back() {
    let mut connection = begun();
    for id in (1..201).step_by(2) {
        let sent = [post(id), frame(kind::DATA, 0, id, &[7; 900])].concat();
        assert_eq!(receive(&mut connection, &sent), Ok(vec![id]), "the connection's window is left as it was");
        assert!(data(&mut connection, id).is_ready());
        connection.drop_receiver(id);
        connection.send_head(id, &[0x88], End::Stream).unwrap();
        connection.drop_sender(id);
    }
    assert!(!connection.has_streams());
    assert_eq!(connection.receive_window + i64::from(connection.unannounced), 70_000, "and not more often than once");
}

#[test]
fn a_body_that_is_whole_and_lost_before_it_is_taken_has_no_end() {
    let whole = [post(1), frame(kind::DATA, flag::END_STREAM, 1, b"abc")].concat();
    let mut connection = begun();
    receive(&mut connection, &[whole.clone(), reset(1)].concat()).unwrap();
    assert_eq!(data(&mut connection, 1), Poll::Ready(Some(Err(Gone::Reset(ErrorCode::CANCEL)))));
    let mut connection = begun();
    receive(&mut connection, &whole).unwrap();
    connection.close();
    assert_eq!(data(&mut connection, 1), Poll::Ready(Some(Err(Gone::Closed))));
}

#[test]
fn windows_of_the_connection() {
    let mut connection = ServerConnection::new(Limits { stream_window: 1 << 20, ..LIMITS });
    let bytes = [PREFACE.to_vec(), settings(&[]), post(1)].concat();
    receive(&mut connection, &bytes).unwrap();
    let flood: Vec<u8> = (0..5).flat_map(|_| frame(kind::DATA, 0, 1, &[0; MAX_FRAME])).collect();
    assert_eq!(receive(&mut connection, &flood), Err(Violation::Window));
}

#[test]
fn trailers() {
    let mut connection = begun();
    let mut block = Vec::new();
    encode_field(b"x-sum", b"7", &mut block);
    let trailers = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block);
    receive(&mut connection, &[post(1), trailers.clone()].concat()).unwrap();
    assert!(!connection.is_received(1));
    assert_eq!(data(&mut connection, 1), Poll::Ready(None));
    let table = connection.take_trailers(1).unwrap();
    assert_eq!(table.fields().all("x-sum").collect::<Vec<_>>(), [b"7"]);
    assert!(connection.is_received(1));
    check_reset(&[post(1), post(1)].concat(), &[reset_with(1, ErrorCode::PROTOCOL_ERROR)]);
    check_reset(&[post(1), get(1)].concat(), &[reset_with(1, ErrorCode::PROTOCOL_ERROR)]); // pseudo-fields
    check_reset(&[get(1), trailers].concat(), &[reset_with(1, ErrorCode::STREAM_CLOSED)]);
}

#[test]
fn requests_that_are_malformed() {
    let mut cases = vec![
        vec![],
        vec![0x82, 0x86],                                    // no :path
        vec![0x82, 0x84],                                    // no :scheme
        vec![0x86, 0x84],                                    // no :method
        [block(&[]), vec![0x84]].concat(),                   // twice
        [vec![0x0F, 0x00, 0x01, b'x'], block(&[])].concat(), // behind another one
        [block(&[]), vec![0x88]].concat(),
        vec![0x82, 0x86, 0x04, 0x00],                                        // empty
        vec![0x02, 7, b'C', b'O', b'N', b'N', b'E', b'C', b'T', 0x86, 0x84], // CONNECT has neither
    ];
    for (name, value) in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("content-length", "5"),
        ("content-length", "x"),
        (":unknown", "1"),
        (":protocol", "websocket"),
        ("x-value", "a\r\nb"),
        ("x name", "1"),
        ("", "1"),
    ] {
        cases.push(block(&[(name, value)]));
    }
    cases.push([block(&[]), vec![0, 1, b'X', 0]].concat());
    for case in cases {
        let bytes = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &case);
        let mut connection = begun();
        assert_eq!(receive(&mut connection, &bytes), Ok(vec![]), "{case:?}");
        assert_eq!(written(&mut connection), [reset_with(1, ErrorCode::PROTOCOL_ERROR)], "{case:?}");
    }
    assert_eq!(receive(&mut begun(), &frame(1, 5, 1, &block(&[("te", "trailers")]))), Ok(vec![1]));
}

#[test]
fn bodies_are_as_long_as_was_said() {
    let head = frame(kind::HEADERS, flag::END_HEADERS, 1, &block(&[("content-length", "3")]));
    for (last, is_right) in [(&b"abc"[..], true), (b"ab", false), (b"abcd", false)] {
        let expected = if is_right { vec![] } else { vec![reset_with(1, ErrorCode::PROTOCOL_ERROR)] };
        check_reset(&[head.clone(), frame(kind::DATA, flag::END_STREAM, 1, last)].concat(), &expected);
    }
    check_reset(&[head, frame(kind::DATA, 0, 1, b"abcd")].concat(), &[reset_with(1, ErrorCode::PROTOCOL_ERROR)]);
}

#[test]
fn frames_that_end_a_connection() {
    use Violation::*;
    let head = |flags| frame(kind::HEADERS, flags, 1, &block(&[]));
    for (bytes, expected) in [
        ([0, 0x40, 1, 0, 0, 0, 0, 0, 1].to_vec(), FrameSize),
        (frame(kind::DATA, 0, 0, &[]), StreamNumber),
        (frame(kind::DATA, 0, 1, &[]), IdleStream),
        ([post(1), frame(kind::DATA, flag::PADDED, 1, &[5, 0])].concat(), Padding),
        (get(2), StreamNumber),
        (get(0), StreamNumber),
        ([get(5), get(3)].concat(), StreamNumber),
        ([get(5), reset(5), get(5)].concat(), ClosedStream),
        ([head(0), get(3)].concat(), Block),
        ([head(0), frame(kind::CONTINUATION, 0, 3, &[])].concat(), Block),
        (frame(kind::CONTINUATION, 0, 1, &[]), Block),
        (frame(kind::HEADERS, 5, 1, &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), Hpack(crate::HpackError::Integer)),
        (frame(kind::HEADERS, 5 | flag::PRIORITY, 1, &[0; 4]), FrameSize),
        (frame(kind::PRIORITY, 0, 0, &[0; 5]), StreamNumber),
        (frame(kind::PRIORITY, 0, 1, &[0; 4]), FrameSize),
        (reset(0), StreamNumber),
        (reset(1), IdleStream),
        ([get(5), reset(2)].concat(), IdleStream),
        ([get(5), window_update(4, 1)].concat(), IdleStream),
        ([get(5), frame(kind::DATA, 0, 2, &[])].concat(), IdleStream),
        ([get(1), frame(kind::RST_STREAM, 0, 1, &[0; 3])].concat(), FrameSize),
        (frame(kind::SETTINGS, 0, 1, &[]), StreamNumber),
        (frame(kind::SETTINGS, 0, 0, &[0; 5]), FrameSize),
        (frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), FrameSize),
        (settings(&[(2, 2)]), Setting),
        (settings(&[(4, 1 << 31)]), Window),
        (settings(&[(5, 16_383)]), Setting),
        (settings(&[(5, 1 << 24)]), Setting),
        (frame(kind::PUSH_PROMISE, 0, 1, &[0; 4]), Push),
        (frame(kind::PING, 0, 1, &[0; 8]), StreamNumber),
        (frame(kind::PING, 0, 0, &[0; 7]), FrameSize),
        (frame(kind::GOAWAY, 0, 1, &[0; 8]), StreamNumber),
        (window_update(0, 0), NoIncrement),
        (window_update(1, 1), IdleStream),
        (window_update(0, (1 << 31) - 1), Window),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), FrameSize),
    ] {
        check_violation(&bytes, expected);
    }
}

#[test]
fn frames_that_reset_a_stream() {
    for (bytes, code) in [
        ([get(1), window_update(1, 0)].concat(), ErrorCode::PROTOCOL_ERROR),
        ([get(1), window_update(1, (1 << 31) - 1)].concat(), ErrorCode::FLOW_CONTROL_ERROR),
        ([get(1), frame(kind::DATA, 0, 1, b"x")].concat(), ErrorCode::STREAM_CLOSED),
        ([get(1), reset(1), frame(kind::DATA, 0, 1, b"x")].concat(), ErrorCode::STREAM_CLOSED),
        ([get(1), frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0])].concat(), ErrorCode::PROTOCOL_ERROR),
        ([get(1), frame(kind::PRIORITY, 0, 1, &[0; 4])].concat(), ErrorCode::FRAME_SIZE_ERROR),
    ] {
        check_reset(&bytes, &[reset_with(1, code)]);
    }
    // What was on its way is ignored.
    check_reset(
        &[get(1), window_update(1, 0), frame(kind::DATA, 0, 1, b"x"), window_update(1, 1)].concat(),
        &[reset_with(1, ErrorCode::PROTOCOL_ERROR)],
    );
}

/// CVE-2025-8671: what costs as much as a stream that the client resets.
#[test]
fn streams_that_a_client_has_reset_are_counted() {
    for (bytes, expected) in [
        ([get(1), window_update(1, 0)].concat(), 1),
        ([get(1), get(3), window_update(1, (1 << 31) - 1), frame(kind::DATA, 0, 3, b"x")].concat(), 2),
        ([get(1), frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0])].concat(), 1),
        ([post(1), post(1)].concat(), 1),
        // CVE-2019-9514
        (frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block(&[("te", "x")])), 1),
        // Nobody was at work.
        ([get(1), reset(1), window_update(1, 0)].concat(), 0),
    ] {
        let mut connection = begun();
        receive(&mut connection, &bytes).unwrap();
        let faults = [connection.take_events(), connection.take_events()].map(|events| events.faults);
        assert_eq!(faults, [expected, 0], "{bytes:?}");
    }
}

#[test]
fn the_last_of_several_windows_is_the_one() {
    let mut connection = begun_with(&[(4, 7)]);
    receive(&mut connection, &[get(1), settings(&[(4, 90), (4, 0), (4, 5)])].concat()).unwrap();
    assert_eq!(connection.poll_room(1, &context()), Poll::Ready(Ok(5)));
    // Each of them counts: a window is never beyond 2^31-1.
    let largest = (1 << 31) - 1;
    let grown = [get(1), window_update(1, 1), settings(&[(4, largest), (4, 5)])].concat();
    assert_eq!(receive(&mut begun(), &grown), Err(Violation::Window));
}

#[test]
fn frames_that_are_answered_or_ignored() {
    let ping = frame(kind::PING, 0, 0, b"12345678");
    check_reset(&ping, &[(kind::PING, flag::ACK, 0, b"12345678".to_vec())]);
    check_reset(&settings(&[(77, 1)]), &[(kind::SETTINGS, flag::ACK, 0, vec![])]);
    for ignored in [
        frame(77, 0xFF, 1, b"x"),
        frame(kind::PRIORITY, 0, 9, &[0; 5]),
        frame(kind::GOAWAY, 0, 0, &[0; 8]),
        frame(kind::PING, flag::ACK, 0, &[0; 8]),
        frame(kind::SETTINGS, flag::ACK, 0, &[]),
    ] {
        check_reset(&ignored, &[]);
    }
}

#[test]
fn a_smaller_table_of_the_client() {
    let mut connection = begun_with(&[(1, 100)]);
    receive(&mut connection, &[get(1), get(3)].concat()).unwrap();
    for (stream, expected) in [(1, &[0x20, 0x88][..]), (3, &[0x88])] {
        connection.send_head(stream, &[0x88], End::Stream).unwrap();
        let sent = written(&mut connection);
        assert_eq!(sent, [(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, expected.to_vec())]);
    }
}

#[test]
fn heads_in_several_frames() {
    let fields = [("x-large", "a".repeat(2000)), ("x-more", "b".repeat(1500))];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    let block = block(&fields);
    for cut in [1, 100, 1000] {
        let mut pieces = block.chunks(cut).peekable();
        let mut bytes = frame(kind::HEADERS, flag::END_STREAM, 1, pieces.next().unwrap());
        let mut count = 0;
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
            bytes.extend(frame(kind::CONTINUATION, flags, 1, piece));
            count += 1;
        }
        let expected = if count > MAX_CONTINUATIONS { Err(Violation::LargeBlock) } else { Ok(vec![1]) };
        assert_eq!(receive(&mut begun(), &bytes), expected, "{cut}");
    }
    // A response as well.
    let mut connection = begun();
    receive(&mut connection, &get(1)).unwrap();
    connection.send_head(1, &vec![0x88; MAX_FRAME + 5], End::Stream).unwrap();
    let sent = written(&mut connection);
    let shape: Vec<_> = sent.iter().map(|(kind, flags, _, payload)| (*kind, *flags, payload.len())).collect();
    assert_eq!(shape, [(kind::HEADERS, flag::END_STREAM, MAX_FRAME), (kind::CONTINUATION, flag::END_HEADERS, 5)]);
}

#[test]
fn heads_that_are_too_large() {
    let large = "~".repeat(5000);
    check_reset(
        &frame(1, 5, 1, &block(&[("x-large", &large)])),
        &[(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, [&[0x08, 0x03][..], b"431"].concat())],
    );
    let mut connection = begun();
    receive(&mut connection, &[1, 3].map(|id| frame(1, 5, id, &block(&[("x-large", &large)]))).concat()).unwrap();
    assert_eq!((connection.take_events().too_large, connection.take_events().too_large), (2, 0));
    let bomb = "~".repeat(17_000);
    let begin = frame(kind::HEADERS, flag::END_STREAM, 1, &block(&[("x-large", &bomb)])[..MAX_FRAME]);
    let rest = frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block(&[("x-large", &bomb)])[MAX_FRAME..]);
    check_violation(&[begin, rest].concat(), Violation::LargeBlock);
    let mut bomb = vec![0x40, 1, b'x', 0x7F, 0x81, 0x0F];
    bomb.extend([b'b'; 2048]);
    bomb.extend([0xBE; 100]);
    check_violation(&frame(1, 5, 1, &bomb), Violation::Hpack(crate::HpackError::Bomb));
    // In empty pieces.
    let empty = frame(kind::CONTINUATION, 0, 1, &[]).repeat(MAX_CONTINUATIONS as usize + 1);
    check_violation(&[frame(kind::HEADERS, 0, 1, &block(&[])), empty].concat(), Violation::LargeBlock);
}

#[test]
fn streams_beyond_the_limit() {
    let mut connection = begun();
    let requests: Vec<u8> = (0..12).flat_map(|number| get(2 * number + 1)).collect();
    assert_eq!(receive(&mut connection, &requests).unwrap().len(), 10);
    let refused = [21, 23].map(|stream| reset_with(stream, ErrorCode::REFUSED_STREAM));
    assert_eq!(written(&mut connection), refused);
    connection.drop_sender(1);
    assert_eq!(receive(&mut connection, &get(25)), Ok(vec![25]));
    // Those that are reset make room, but not for as many as one likes before they have ended.
    let mut connection = begun();
    let pairs: Vec<u8> = (0..200).flat_map(|number| [get(2 * number + 1), reset(2 * number + 1)].concat()).collect();
    assert_eq!(receive(&mut connection, &pairs), Err(Violation::Resets));
    assert_eq!(connection.streams.len(), LIMITS.streams as usize + MAX_RESET_STREAMS);
}

#[test]
fn leaving() {
    let mut connection = begun();
    receive(&mut connection, &get(1)).unwrap();
    connection.leave();
    connection.leave();
    let goaway = |last: u32| (kind::GOAWAY, 0, 0, [last.to_be_bytes(), [0; 4]].concat());
    assert_eq!(written(&mut connection), [goaway(u32::MAX >> 1), (kind::PING, 0, 0, LEAVING.to_vec())]);
    assert_eq!(receive(&mut connection, &[get(3), frame(kind::PING, flag::ACK, 0, &LEAVING)].concat()), Ok(vec![3]));
    assert_eq!(written(&mut connection), [goaway(3)]);
    assert_eq!(receive(&mut connection, &get(5)), Ok(vec![]), "not answered, and not an error");
    assert!(!connection.has_left());
    connection.end(ErrorCode::NO_ERROR);
    assert_eq!(written(&mut connection), [goaway(3)], "never more than was said (RFC 9113 §6.8)");
}

/// RFC 9113 §6.8: of streams behind the last one of GOAWAY everything is ignored, however many there are.
#[test]
fn streams_behind_the_last_one() {
    let mut connection = begun();
    receive(&mut connection, &post(1)).unwrap();
    connection.leave();
    receive(&mut connection, &frame(kind::PING, flag::ACK, 0, &LEAVING)).unwrap();
    written(&mut connection);
    let trailers = |id| frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &[0x00, 1, b'x', 1, b'y']);
    let late = || (3..3 + 4 * MAX_REMEMBERED as u32).step_by(2);
    let heads: Vec<u8> = late().flat_map(post).collect();
    let rest: Vec<u8> = late().flat_map(|id| [frame(kind::DATA, 0, id, b"x"), trailers(id)].concat()).collect();
    assert_eq!(receive(&mut connection, &[heads, rest].concat()), Ok(vec![]));
    assert_eq!(written(&mut connection), []);
    assert!(connection.has_streams(), "the first one is answered");
}

/// RFC 9113 §5.1: what was on its way to a stream that was reset here is ignored, for the latest of them.
#[test]
fn streams_that_were_reset_long_ago() {
    let reset_here = |count: usize| {
        let mut connection = begun();
        for id in (1..).step_by(2).take(count) {
            receive(&mut connection, &post(id)).unwrap();
            connection.drop_sender(id);
            connection.drop_receiver(id);
        }
        written(&mut connection);
        connection
    };
    let data = frame(kind::DATA, 0, 1, b"x");
    let mut connection = reset_here(MAX_REMEMBERED);
    assert_eq!(receive(&mut connection, &[data.clone(), get(1)].concat()), Ok(vec![]));
    assert_eq!(written(&mut connection), []);
    let mut connection = reset_here(MAX_REMEMBERED + 1);
    for frame in [reset(1), window_update(1, 5)] {
        assert_eq!(receive(&mut connection, &frame), Ok(vec![]), "of any closed stream");
    }
    assert_eq!(written(&mut connection), []);
    assert_eq!(receive(&mut connection, &get(1)), Err(Violation::ClosedStream));
    let mut connection = reset_here(MAX_REMEMBERED + 1);
    assert_eq!(receive(&mut connection, &[data.clone(), data, get(1)].concat()), Ok(vec![]), "it is a late one again");
    assert_eq!(written(&mut connection), [reset_with(1, ErrorCode::STREAM_CLOSED)]);
}

#[test]
fn having_left() {
    let mut connection = begun();
    receive(&mut connection, &[get(1), get(3)].concat()).unwrap();
    connection.leave();
    receive(&mut connection, &frame(kind::PING, flag::ACK, 0, &LEAVING)).unwrap();
    assert!(!connection.has_left());
    for stream in [1, 3] {
        connection.send_head(stream, &[0x88], End::Stream).unwrap();
        connection.drop_sender(stream);
    }
    assert!(connection.has_left());
}

#[test]
fn the_end_of_a_connection() {
    let mut connection = begun();
    receive(&mut connection, &[get(1), post(3)].concat()).unwrap();
    connection.end(ErrorCode::ENHANCE_YOUR_CALM);
    assert_eq!(written(&mut connection), [(kind::GOAWAY, 0, 0, [[0, 0, 0, 3], [0, 0, 0, 11]].concat())]);
    assert_eq!(connection.poll_gone(1, &context()), Poll::Ready(Gone::Closed));
    assert_eq!(data(&mut connection, 3), Poll::Ready(Some(Err(Gone::Closed))));
    assert_eq!(connection.send_head(1, &[0x88], End::No), Err(Gone::Closed));
    [1, 3].into_iter().for_each(|stream| connection.drop_sender(stream));
    connection.drop_receiver(3);
    assert!(!connection.has_streams() && connection.output().is_empty());
}

/// Everything that a connection says and does with these bytes.
fn trace(bytes: &[u8], cut: usize) -> (Vec<String>, Vec<Written>) {
    let mut connection = ServerConnection::new(LIMITS);
    let (mut table, mut read, mut events) = (FieldTable::new(), Vec::new(), Vec::new());
    for piece in bytes.chunks(cut.max(1)) {
        read.extend_from_slice(piece);
        loop {
            match connection.receive(&read, &mut table) {
                Ok((0, _)) => break,
                Ok((taken, received)) => {
                    if let Received::Request(request, fields) = received {
                        let fields: Vec<_> = fields.iter().map(|field| (field.name, field.value)).collect();
                        events.push(format!("{request:?} {fields:?}"));
                        connection.open(request);
                        if request.stream().is_multiple_of(3) {
                            let _ = connection.send_head(request.stream(), &[0x88], End::Stream);
                            connection.drop_sender(request.stream());
                        }
                    }
                    read.drain(..taken);
                }
                Err(violation) => {
                    events.push(violation.to_string());
                    connection.end(violation.code());
                    return (events, written(&mut connection));
                }
            }
        }
    }
    (events, written(&mut connection))
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = prop_oneof![Just(0u32), Just(1), Just(3), Just(5), Just(6), Just(7), Just(9)];
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        Just(block(&[("x-own", "1")])),
        Just(vec![0x82, 0x86, 0x84, 0xBE, 0xBF]),
        Just(vec![0, 0, 0, 5]),
        Just(vec![0; 8]),
    ];
    (0u8..11, any::<u8>(), stream, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}

proptest! {
    #[test]
    fn any_pieces(frames in prop::collection::vec(any_frame(), 0..30), cut in 1usize..40) {
        let bytes = [PREFACE.to_vec(), settings(&[]), get(1), post(3), frames.concat()].concat();
        prop_assert_eq!(trace(&bytes, usize::MAX), trace(&bytes, cut));
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        trace(&[PREFACE.to_vec(), settings(&[]), bytes].concat(), 7);
    }
}

mod with_another_client {
    use std::rc::Rc;

    use http::{HeaderMap, Request as HttpRequest};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    /// Answers each request with its own fields, once its body has come.
    async fn serve(mut io: DuplexStream) {
        let mut connection = ServerConnection::new(Limits { stream_window: 1 << 16, ..LIMITS });
        let (mut table, mut read, mut open) = (FieldTable::new(), BytesMut::new(), Vec::new());
        loop {
            while let Ok((taken @ 1.., received)) = connection.receive(&read, &mut table) {
                if let Received::Request(request, fields) = received {
                    let mut block = Vec::new();
                    encode_status(200, &mut block);
                    fields.iter().for_each(|field| encode_field(field.name, field.value, &mut block));
                    encode_field(b"x-path", fields.path().unwrap(), &mut block);
                    if !request.ends() || !connection.respond(request, &block, b"hit") {
                        connection.open(request);
                        open.push((request.stream(), block, Vec::new()));
                    }
                }
                let _ = read.split_to(taken);
            }
            open.retain_mut(|(stream, block, body)| {
                while let Poll::Ready(Some(Ok(data))) = data(&mut connection, *stream) {
                    connection.release(*stream, data.len());
                    body.extend_from_slice(&data);
                }
                if !connection.is_received(*stream) {
                    return true;
                }
                connection.send_head(*stream, block, End::No).unwrap();
                for piece in body.chunks(1000) {
                    connection.send_data(*stream, piece, End::No).unwrap();
                }
                connection.send_trailers(*stream, &[0x0F, 13, 1, b'x']).unwrap();
                connection.drop_receiver(*stream);
                connection.drop_sender(*stream);
                false
            });
            let out = connection.output().split();
            io.write_all(&out).await.unwrap();
            if io.read_buf(&mut read).await.unwrap() == 0 {
                return;
            }
        }
    }

    type Field = (String, String);

    async fn exchange(requests: &[(String, Vec<Field>, usize)]) -> Vec<(HeaderMap, usize)> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (client, driver) = h2::client::handshake(theirs).await.unwrap();
        let mut answers = Vec::new();
        let asks = async {
            let mut client = client.ready().await.unwrap();
            for (path, fields, length) in requests {
                let mut request = HttpRequest::builder().uri(format!("http://a/{path}"));
                for (name, value) in fields {
                    request = request.header(name, value);
                }
                let (response, mut body) = client.send_request(request.body(()).unwrap(), *length == 0).unwrap();
                if *length > 0 {
                    body.send_data(vec![b'x'; *length].into(), true).unwrap();
                }
                let response = response.await.unwrap();
                assert_eq!(response.status(), 200);
                let (parts, mut body) = response.into_parts();
                let mut got = 0;
                while let Some(data) = body.data().await {
                    let data = data.unwrap();
                    body.flow_control().release_capacity(data.len()).unwrap();
                    got += data.len();
                }
                answers.push((parts.headers, got));
            }
        };
        tokio::select! {
            () = asks => {}
            _ = driver => panic!("the connection ended"),
            () = serve(ours) => panic!("the server ended"),
        }
        answers
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Its encoder uses the dynamic table and Huffman codes as it likes, and its decoder reads what ours writes.
        #[test]
        fn what_it_sends_comes_and_goes(
            requests in prop::collection::vec(
                ("[a-z0-9/%?=~]{0,40}", prop::collection::vec(("x-[a-z]{1,20}", "[!-~]([ -~]{0,60}[!-~])?"), 0..8), 0usize..5000),
                1..12,
            ),
        ) {
            let requests: Rc<[_]> = requests.into();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let answers = runtime.block_on(exchange(&requests));
            for ((path, fields, length), (headers, got)) in requests.iter().zip(answers) {
                prop_assert_eq!(headers.get("x-path").unwrap().to_str().unwrap(), format!("/{path}"));
                let names = fields.iter().map(|(name, _)| name);
                for name in names {
                    let expected: Vec<&str> = fields.iter().filter(|(other, _)| other == name).map(|(_, value)| &value[..]).collect();
                    let found: Vec<&str> = headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
                    prop_assert_eq!(found, expected);
                }
                prop_assert_eq!(got, if *length == 0 { 3 } else { *length });
            }
        }
    }
}
