use bytes::BytesMut;
use proptest::prelude::*;

use crate::{
    BodyLength, ClientConnection, FieldTable, Limits, Malformed, OutgoingRequest, Received, SendError, ServerConnection,
};

const NONE: [(&[u8], &[u8]); 0] = [];

/// What a server receives from `pieces`, each request answered with 204 as soon as its head is there: a line for each
/// event.
fn served(pieces: &[&[u8]]) -> Vec<String> {
    let mut server = ServerConnection::new(Limits::REQUEST);
    let mut table = FieldTable::new();
    let (mut unread, mut out, mut events) = (Vec::new(), BytesMut::new(), Vec::new());
    let mut data = Vec::new();
    for piece in pieces {
        unread.extend_from_slice(piece);
        loop {
            let mut answers = false;
            let taken = match server.receive(&unread, &mut table) {
                Ok((taken, Received::Incomplete)) => {
                    unread.drain(..taken);
                    break;
                }
                Ok((taken, Received::Head(head))) => {
                    events.push(format!("{} {:?} {:?} {}", head.method, head.target, head.body, head.fields.len()));
                    answers = true;
                    taken
                }
                Ok((taken, Received::Data(piece))) => {
                    assert!(!piece.is_empty());
                    data.extend_from_slice(piece); // pieces of a body depend on how it comes
                    taken
                }
                Ok((taken, Received::Trailers(fields))) => {
                    events.push(format!("{data:?} trailers {:?}", fields.iter().collect::<Vec<_>>()));
                    data.clear();
                    taken
                }
                Ok((taken, Received::End)) => {
                    events.push(format!("{data:?} end"));
                    data.clear();
                    taken
                }
                Err(rule) => {
                    events.push(format!("{rule:?}"));
                    assert!(server.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut table).is_err_and(|e| e == rule));
                    return events;
                }
            };
            unread.drain(..taken);
            if answers {
                server.send_head(204, "No Content", NONE, BodyLength::Empty, &mut out).unwrap();
                server.send_end(&mut out).unwrap();
            }
        }
    }
    events.push(format!("{:?}", server.receive_end(unread.len())));
    events
}

#[test]
fn requests_follow_each_other() {
    let text = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nPOST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nt: 1\r\n\r\n\
                 PUT /c HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy\r\nGET /d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /e";
    let events = served(&[text]);
    assert_eq!(events.len(), 7, "{events:#?}");
    assert!(events[1].starts_with("POST") && events[2].contains("trailers") && events[4] == "[120, 121] end");
    assert!(
        events[5].starts_with("GET") && events[6] == "Ok(())",
        "nothing is read behind the last request: {events:#?}"
    );
}

#[test]
fn a_smuggled_request_is_none() {
    for (body, rule) in [
        ("0\r\n\nPOST /victim HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::BareLf),
        ("0\r\nX: a\r\n\nGET /victim HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::BareLf),
        ("0\r\nX: a\n\r\n", Malformed::BareLf),
        ("\r\n\r\n", Malformed::ChunkSize),
        ("1\r\nab\r\n", Malformed::ChunkEnd),
        ("1\r\na\n0\r\n\r\n", Malformed::ChunkEnd),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let events = served(&[text.as_bytes()]);
        assert_eq!((events.len(), events.last()), (2, Some(&format!("{rule:?}"))), "{body:?}");
    }
}

#[test]
fn an_end_between_requests_is_in_order_and_one_within_is_not() {
    let end = |text: &str| {
        let mut server = ServerConnection::new(Limits::REQUEST);
        let mut table = FieldTable::new();
        let mut unread = text.as_bytes();
        while let Ok((taken, event)) = server.receive(unread, &mut table) {
            let is_over = matches!(event, Received::Incomplete);
            unread = &unread[taken..];
            if is_over {
                break;
            }
        }
        server.receive_end(unread.len())
    };
    assert_eq!(end(""), Ok(()));
    assert_eq!(end("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(()));
    assert_eq!(end("GET / HT"), Err(Malformed::CutHead));
    assert_eq!(end("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na"), Err(Malformed::CutBody));
    assert_eq!(end("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"), Ok(()));
    assert_eq!(end("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"), Err(Malformed::CutBody));
}

/// What a server sends to one request.
#[track_caller]
fn answer(request: &str, status: u16, body: BodyLength, data: &[u8]) -> (String, ServerConnection) {
    let mut server = ServerConnection::new(Limits::REQUEST);
    let mut table = FieldTable::new();
    let (taken, _) = server.receive(request.as_bytes(), &mut table).unwrap();
    assert_eq!(taken, request.len());
    let mut out = BytesMut::new();
    let fields: [(&[u8], &[u8]); 1] = [(b"a", b"b")];
    server.send_head(status, "X", fields, body, &mut out).unwrap();
    server.send_data(data, &mut out).unwrap();
    server.send_end(&mut out).unwrap();
    (String::from_utf8(out.to_vec()).unwrap(), server)
}

#[test]
fn framing_suits_the_client() {
    let new = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let old = "GET / HTTP/1.0\r\n\r\n";
    let kept = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for (request, status, body, data, expected, is_over) in [
        (new, 200, BodyLength::Exactly(2), "hi", "content-length: 2\r\n\r\nhi", false),
        (new, 200, BodyLength::Empty, "", "content-length: 0\r\n\r\n", false),
        (new, 200, BodyLength::Chunked, "hi", "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", false),
        (new, 204, BodyLength::Empty, "", "\r\n", false),
        (new, 304, BodyLength::Exactly(9), "", "\r\n", false),
        (head, 200, BodyLength::Exactly(9), "", "content-length: 9\r\n\r\n", false),
        (head, 200, BodyLength::Chunked, "", "transfer-encoding: chunked\r\n\r\n", false),
        (last, 200, BodyLength::Exactly(2), "hi", "content-length: 2\r\nconnection: close\r\n\r\nhi", true),
        (old, 200, BodyLength::Exactly(2), "hi", "content-length: 2\r\n\r\nhi", true),
        (kept, 200, BodyLength::Exactly(2), "hi", "content-length: 2\r\nconnection: keep-alive\r\n\r\nhi", false),
        (kept, 200, BodyLength::Chunked, "hi", "\r\nhi", true),
        (new, 200, BodyLength::UntilClose, "hi", "connection: close\r\n\r\nhi", true),
    ] {
        let (text, server) = answer(request, status, body, data.as_bytes());
        assert_eq!(text, format!("HTTP/1.1 {status} X\r\na: b\r\n{expected}"), "{request:?}");
        assert_eq!(server.is_over(), is_over, "{request:?} {body:?}");
    }
}

#[test]
fn an_early_answer_leaves_a_body_to_read() {
    let mut server = ServerConnection::new(Limits::REQUEST);
    let (mut table, mut out) = (FieldTable::new(), BytesMut::new());
    let request = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    server.receive(request, &mut table).unwrap();
    server.send_head(413, "X", NONE, BodyLength::Empty, &mut out).unwrap();
    server.send_end(&mut out).unwrap();
    assert!(server.has_unread_body() && !server.is_over() && !server.is_busy());
    let (taken, _) = server.receive(b"abcGET", &mut table).unwrap();
    assert_eq!(taken, 3);
    assert!(matches!(server.receive(b"", &mut table), Ok((0, Received::End))));
    assert!(!server.has_unread_body());
    assert!(matches!(server.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut table), Ok((27, Received::Head(_)))));
}

#[test]
fn what_may_not_be_sent_is_not() {
    let mut server = ServerConnection::new(Limits::REQUEST);
    let (mut table, mut out) = (FieldTable::new(), BytesMut::new());
    assert_eq!(server.send_head(200, "", NONE, BodyLength::Empty, &mut out), Err(SendError::Head));
    assert_eq!(server.send_data(b"a", &mut out), Err(SendError::Body));
    server.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut table).unwrap();
    server.send_head(200, "", NONE, BodyLength::Exactly(1), &mut out).unwrap();
    let head = out.len();
    assert_eq!(server.send_data(b"ab", &mut out), Err(SendError::TooLong));
    assert_eq!(out.len(), head);
    assert_eq!(server.send_end(&mut out), Err(SendError::TooShort));
    assert!(server.is_over());
}

/// What a client receives for a GET (or HEAD) in one piece, then the end.
fn received(method: &str, upgrade: Option<&[u8]>, text: &[u8]) -> (Vec<String>, ClientConnection) {
    let mut client = ClientConnection::new(Limits::RESPONSE);
    let (mut table, mut out, mut events) = (FieldTable::new(), BytesMut::new(), Vec::new());
    let request = OutgoingRequest { method, target: b"/", authority: "a", body: BodyLength::Empty, upgrade };
    client.send_head(&request, NONE, &mut out).unwrap();
    let mut unread = text;
    loop {
        match client.receive(unread, &mut table) {
            Ok((taken, Received::Incomplete)) => {
                unread = &unread[taken..];
                break;
            }
            Ok((taken, event)) => {
                unread = &unread[taken..];
                events.push(match event {
                    Received::Head(head) => head.status.to_string(),
                    Received::Data(data) => String::from_utf8_lossy(data).into_owned(),
                    Received::Trailers(_) => "trailers".to_owned(),
                    Received::End | Received::Incomplete => "end".to_owned(),
                });
            }
            Err(rule) => {
                events.push(format!("{rule:?}"));
                return (events, client);
            }
        }
    }
    if !client.is_reusable() {
        events.push(format!("{:?}", client.receive_end(unread.len())));
    }
    (events, client)
}

#[test]
fn responses_are_received() {
    #[track_caller]
    fn check(text: &str, expected: &[&str], is_reusable: bool) {
        let (events, client) = received("GET", None, text.as_bytes());
        assert_eq!(events, expected, "{text:?}");
        assert_eq!(client.is_reusable(), is_reusable, "{text:?}");
    }
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", &["200", "hi", "end"], true);
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 X\r\n\r\n";
    check(interim, &["103", "100", "204"], true);
    check("HTTP/1.1 200 OK\r\n\r\nhi", &["200", "hi", "Ok(true)"], false);
    check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", &["200", "hi", "Err(CutBody)"], false);
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n\r\n", &["200", "hi", "ChunkSize"], false);
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", &["200", "hi", "Err(CutBody)"], false);
    check("HTTP/1.1 200", &["Err(CutHead)"], false);
    check("", &["Err(CutHead)"], false);
    check("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", &["UnaskedSwitch"], false);
    check("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", &["200", "Ok(false)"], false);
    let (events, client) = received("HEAD", None, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    assert_eq!((events, client.is_reusable()), (vec!["200".to_owned()], true));
    let switched = b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00";
    assert_eq!(received("GET", Some(b"websocket"), switched).0, ["101", "Ok(false)"]);
}

#[test]
fn a_request_is_written() {
    let mut client = ClientConnection::new(Limits::RESPONSE);
    let mut out = BytesMut::new();
    let head =
        OutgoingRequest { method: "PUT", target: b"/a?b", authority: "c:1", body: BodyLength::Chunked, upgrade: None };
    let fields: [(&[u8], &[u8]); 1] = [(b"x", b"y")];
    client.send_head(&head, fields, &mut out).unwrap();
    client.send_data(b"0123456789abcdef", &mut out).unwrap();
    client.send_data(b"", &mut out).unwrap();
    client.send_end(&mut out).unwrap();
    let expected = "PUT /a?b HTTP/1.1\r\nhost: c:1\r\nx: y\r\ntransfer-encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";
    assert_eq!(std::str::from_utf8(&out), Ok(expected));
    assert!(!client.is_reusable());
    assert_eq!(client.send_head(&head, NONE, &mut out), Err(SendError::Head));
}

/// Requests, whole and broken, one after the other.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(&b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"[..]),
        3 => Just(&b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd"[..]),
        3 => Just(&b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"[..]),
        3 => Just(&b"5;a=b\r\nhello\r\n"[..]), 2 => Just(&b"0\r\n\r\n"[..]), 2 => Just(&b"0\r\nt: v\r\n\r\n"[..]),
        1 => Just(&b"\r\n"[..]), 1 => Just(&b"\n"[..]), 1 => Just(&b"0\r\n\n"[..]), 1 => Just(&b"PUT / HTTP/1.1\r\n"[..]),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_chunking(text in requests(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        at.extend([0, text.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let whole = served(&[&text]);
        prop_assert_eq!(&served(&pieces), &whole);
        let single: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(&served(&single), &whole);
    }

    /// What one side writes, the other reads.
    #[test]
    fn encoded_bodies_are_decoded(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6), kind in 0..3) {
        let whole = pieces.concat();
        let body = match kind {
            0 => BodyLength::Exactly(whole.len() as u64),
            1 => BodyLength::Chunked,
            _ => BodyLength::UntilClose,
        };
        let mut server = ServerConnection::new(Limits::REQUEST);
        let (mut table, mut out) = (FieldTable::new(), BytesMut::new());
        server.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut table).unwrap();
        server.send_head(200, "OK", NONE, body, &mut out).unwrap();
        for piece in &pieces {
            server.send_data(piece, &mut out).unwrap();
        }
        server.send_end(&mut out).unwrap();
        let (events, client) = received("GET", None, &out);
        prop_assert_eq!(client.is_reusable(), body != BodyLength::UntilClose);
        prop_assert!(matches!(events.last().map(String::as_str), Some("end" | "Ok(true)")) || whole.is_empty());
    }
}
