use proptest::prelude::*;

use crate::{
    BodyLength, FieldTable, Limits, Malformed, Persistence, Target, Version, parse_request, parse_response,
    parse_trailers,
};

#[track_caller]
fn refused(request: &str, rule: Malformed) {
    let mut table = FieldTable::new();
    match parse_request(request.as_bytes(), &mut table, &Limits::REQUEST) {
        Err(found) => assert_eq!(found, rule, "{request:?}"),
        Ok(found) => panic!("{request:?}: taken: {found:?}"),
    }
}

fn get(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_request_is_read_where_it_stands() {
    let text = "\r\nPOST /a?b HTTP/1.1\r\nHost:  a:80 \r\nConnection: X-Hop, Content-Length,close\r\nContent-Length: 5\r\n\
                x-hop: 1\r\nTE: trailers\r\nExpect: 100-Continue\r\nEmpty:\r\n\r\nhello";
    let mut table = FieldTable::new();
    let head = parse_request(text.as_bytes(), &mut table, &Limits::REQUEST).unwrap().unwrap();
    assert_eq!((head.method, head.target, head.authority), ("POST", Target::Origin("/a?b"), "a:80"));
    assert_eq!((head.version, head.body), (Version::Http11, BodyLength::Exactly(5)));
    assert_eq!((head.persistence, head.expects_continue), (Persistence::Close, true));
    assert_eq!(&text[head.length..], "hello");
    let kept: Vec<_> = head.fields.end_to_end().map(|field| field.name).collect();
    assert_eq!(kept, [&b"Host"[..], b"Content-Length", b"Expect", b"Empty"]);
    assert_eq!(head.fields.one("X-HOP"), Some(&b"1"[..]));
    assert_eq!(head.fields.one("empty"), Some(&b""[..]));
}

#[test]
fn an_absolute_target_replaces_host() {
    let text = "GET http://b:1/x HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut table = FieldTable::new();
    let head = parse_request(text.as_bytes(), &mut table, &Limits::REQUEST).unwrap().unwrap();
    assert_eq!(head.authority, "b:1");
}

#[test]
fn a_fragment_is_no_part_of_the_target() {
    for text in ["GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a?b##/?c# HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut table = FieldTable::new();
        let head = parse_request(text.as_bytes(), &mut table, &Limits::REQUEST).unwrap().unwrap();
        assert_eq!((head.target, head.length), (Target::Origin("/a?b"), text.len()));
    }
}

#[test]
fn requests_that_are_refused() {
    refused("GET / HTTP/1.1\nHost: a\r\n\r\n", Malformed::BareLf);
    refused("GET / HTTP/1.1\rHost: a\r\n\r\n", Malformed::BareCr);
    refused("GET / HTTP\r\n", Malformed::Version);
    refused("GET\r\n", Malformed::RequestLine);
    refused("GET / HTTP/1.1\r\nHost: a\n\r\n", Malformed::BareLf);
    refused("GET / HTTP/1.1\r\nHost: a\r\n\n", Malformed::BareLf);
    refused(&get("a: b\rc: d\r\n"), Malformed::BareCr);
    refused(&get("a\r: b\r\n"), Malformed::BareCr);
    refused(&get("a : b\r\n"), Malformed::SpaceBeforeColon);
    refused(&get(" a: b\r\n"), Malformed::Folded);
    refused(&get("a: b\r\n c\r\n"), Malformed::Folded);
    refused(&get("a\r\n"), Malformed::NoColon);
    refused(&get(": b\r\n"), Malformed::FieldName);
    refused(&get("a(: b\r\n"), Malformed::FieldName);
    refused(&get("a: b\0\r\n"), Malformed::ValueByte);
    refused(&get("a: \x7f\r\n"), Malformed::ValueByte);
    refused("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::RequestLine);
    refused("GET /\r\nHost: a\r\n\r\n", Malformed::RequestLine);
    refused("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Malformed::Version);
    refused("GET # HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::TargetByte);
    refused("DELETE /a/#b HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::TargetByte);
    refused("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::TargetByte);
    refused("GET / http/1.1\r\nHost: a\r\n\r\n", Malformed::Version);
    refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Malformed::MajorVersion);
    refused("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Method);
    refused("\x16\x03\x01", Malformed::Method);
    refused("GET / HTTP/1.1\r\n\r\n", Malformed::NoHost);
    refused("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Malformed::SeveralHosts);
    refused("GET / HTTP/1.1\r\nHost: a:x\r\n\r\n", Malformed::Host);
    refused("GET http://b/ HTTP/1.1\r\nHost: [zz]\r\n\r\n", Malformed::Host);
    refused(&get("Content-Length: +5\r\n"), Malformed::Length);
    refused(&get("Content-Length: 5,\r\n"), Malformed::Length);
    refused(&get("Content-Length:\r\n"), Malformed::Length);
    refused(&get("Content-Length: 99999999999999999999\r\n"), Malformed::Length);
    refused(&get("Content-Length: 5, 6\r\n"), Malformed::LengthsDiffer);
    refused(&get("Content-Length: 5\r\nContent-Length: 6\r\n"), Malformed::LengthsDiffer);
    refused(&get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), Malformed::LengthAndCoding);
    refused(&get("Transfer-Encoding: gzip, chunked\r\n"), Malformed::Coding);
    refused(&get("Transfer-Encoding: chunked, gzip\r\n"), Malformed::CodingNotLast);
    refused(&get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), Malformed::CodingTwice);
    refused(&get("Transfer-Encoding: chunked, Chunked\r\n"), Malformed::CodingTwice);
    refused(&get("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n"), Malformed::Coding);
    refused(&get("Transfer-Encoding: xchunked\r\n"), Malformed::Coding);
    refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed::CodingInHttp10);
    refused(&get("Expect: 200-ok\r\n"), Malformed::Expectation);
    refused(&get(&"a: b\r\n".repeat(100)), Malformed::TooManyFields);
    refused(&get(&format!("a: {}\r\n", "b".repeat(70_000))), Malformed::HeadTooLarge);
    refused(&format!("GET /{}", "a".repeat(70_000)), Malformed::HeadTooLarge);
    refused("GET #a", Malformed::TargetByte);
    refused("GET #a\r\n", Malformed::TargetByte);
}

#[test]
fn limits_are_exact() {
    let fields = "a: b\r\n".repeat(99);
    let mut table = FieldTable::new();
    assert!(parse_request(get(&fields).as_bytes(), &mut table, &Limits::REQUEST).is_ok());
    let base = get("a: \r\n").len();
    for (size, fits) in [(Limits::REQUEST.max_head, true), (Limits::REQUEST.max_head + 1, false)] {
        let text = get(&format!("a: {}\r\n", "b".repeat(size - base)));
        assert_eq!(text.len(), size);
        assert_eq!(parse_request(text.as_bytes(), &mut table, &Limits::REQUEST).is_ok(), fits, "{size}");
    }
}

#[track_caller]
/// Else the rule would depend on how much had come when the size was looked at.
#[test]
fn what_stands_behind_a_limit_is_not_judged() {
    let limits = Limits { max_head: 64, max_trailers: 64, ..Limits::REQUEST };
    let (long, mut table) = (format!("a: {}\r\nb: c\n", "b".repeat(64)), FieldTable::new());
    let request = parse_request(get(&long).as_bytes(), &mut table, &limits).err();
    assert_eq!(request, Some(Malformed::HeadTooLarge));
    let text = format!("HTTP/1.1 200 OK\r\n{long}\r\n");
    assert_eq!(parse_response(text.as_bytes(), "GET", &mut table, &limits).err(), Some(Malformed::HeadTooLarge));
    assert_eq!(parse_trailers(long.as_bytes(), &mut table, &limits).err(), Some(Malformed::TrailersTooLarge));
}

fn response(method: &str, text: &str) -> Result<(u16, BodyLength, Persistence), Malformed> {
    let mut table = FieldTable::new();
    let head = parse_response(text.as_bytes(), method, &mut table, &Limits::RESPONSE)?.expect("it is whole");
    Ok((head.status, head.body, head.persistence))
}

#[test]
fn responses() {
    use BodyLength::{Chunked, Empty, Exactly, UntilClose};
    use Persistence::{Close, KeepAlive};
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(response("GET", length), Ok((200, Exactly(5), KeepAlive)));
    assert_eq!(response("HEAD", length), Ok((200, Empty, KeepAlive)));
    assert_eq!(response("GET", "HTTP/1.1 200\r\n\r\n"), Ok((200, UntilClose, Close)));
    assert_eq!(response("GET", "HTTP/1.2 204 \r\n\r\n"), Ok((204, Empty, KeepAlive)));
    assert_eq!(response("GET", "HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n"), Ok((304, Empty, KeepAlive)));
    let coded = "Transfer-Encoding: chunked\r\n\r\n";
    assert_eq!(response("GET", &format!("HTTP/1.1 200 OK\r\n{coded}")), Ok((200, Chunked, KeepAlive)));
    let kept = format!("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n{coded}");
    assert_eq!(response("GET", &kept), Ok((200, Chunked, Close)));
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\ncontent-length: 2\r\n\r\n";
    assert_eq!(response("GET", twice), Ok((200, Exactly(2), KeepAlive)));
    for (text, rule) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Malformed::Length),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed::LengthAndCoding),
        ("HTTP/1.1 20 OK\r\n\r\n", Malformed::Status),
        ("HTTP/1.1 600 OK\r\n\r\n", Malformed::Status),
        ("HTTP/1.1 099 OK\r\n\r\n", Malformed::Status),
        ("HTTP/1.1200 OK\r\n\r\n", Malformed::StatusLine),
        ("HTTP/1.1 200OK\r\n\r\n", Malformed::StatusLine),
        ("HTTP/2.0 200 OK\r\n\r\n", Malformed::MajorVersion),
        ("HTTX", Malformed::StatusLine),
        ("HTTP/1.1 200 OK\r\na: b\n\r\n", Malformed::BareLf),
    ] {
        assert_eq!(response("GET", text), Err(rule), "{text:?}");
        if rule != Malformed::LengthAndCoding {
            assert_eq!(response("HEAD", text), Err(rule), "{text:?}");
        }
    }
}

#[test]
fn trailer_sections() {
    let mut table = FieldTable::new();
    let check = |text: &str| {
        let mut table = FieldTable::new();
        let found = parse_trailers(text.as_bytes(), &mut table, &Limits::REQUEST);
        found.map(|found| found.map(|(fields, length)| (fields.len(), length)))
    };
    assert_eq!(check("\r\nnext"), Ok(Some((0, 2))));
    assert_eq!(check("a: b\r\nc: d\r\n\r\nnext"), Ok(Some((2, 14))));
    assert_eq!(check("a: b\r\n"), Ok(None));
    assert_eq!(check("\n"), Err(Malformed::BareLf));
    assert_eq!(check("a: b\r\n\n"), Err(Malformed::BareLf));
    assert_eq!(check("a: b\n\r\n"), Err(Malformed::BareLf));
    let long = format!("a: {}\r\n\r\n", "b".repeat(20_000));
    assert!(
        parse_trailers(long.as_bytes(), &mut table, &Limits::REQUEST).is_err_and(|e| e == Malformed::TrailersTooLarge)
    );
}

/// Pieces of which heads are made, good and bad.
fn head_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        5 => Just(&b"\r\n"[..]), 1 => Just(&b"\n"[..]), 1 => Just(&b"\r"[..]), 3 => Just(&b": "[..]), 2 => Just(&b" "[..]),
        2 => Just(&b"GET / HTTP/1.1\r\n"[..]), 1 => Just(&b"HTTP/1.1 200 OK\r\n"[..]), 2 => Just(&b"Host: a\r\n"[..]), 2 => Just(&b"name"[..]),
        1 => Just(&b"value, \"x\"\t"[..]), 1 => Just(&b"\xe9"[..]), 1 => Just(&b"\0"[..]), 1 => Just(&b"Content-Length: 3\r\n"[..]),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// What is taken, httparse takes as well, and finds the same in it. (It takes more: bare LF, for example.)
    #[test]
    fn httparse_agrees(tail in head_like()) {
        for start in ["GET /a HTTP/1.1\r\nHost: b\r\n", ""] {
            let text = [start.as_bytes(), &tail].concat();
            let mut table = FieldTable::new();
            let Ok(found) = parse_request(&text, &mut table, &Limits::REQUEST) else { continue };
            let mut theirs = [httparse::EMPTY_HEADER; 128];
            let mut request = httparse::Request::new(&mut theirs);
            let status = request.parse(&text);
            // A line that is not whole is judged here when it is.
            let Some(head) = found else {
                prop_assert!(!matches!(status, Ok(httparse::Status::Complete(_))));
                continue;
            };
            prop_assert_eq!(status, Ok(httparse::Status::Complete(head.length)));
            prop_assert_eq!(request.method, Some(head.method));
            let ours: Vec<_> = head.fields.iter().map(|field| (field.name, field.value)).collect();
            let theirs: Vec<_> = request.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut table = FieldTable::new();
        let _ = parse_request(&bytes, &mut table, &Limits::REQUEST);
        let _ = parse_response(&bytes, "GET", &mut table, &Limits::RESPONSE);
        let _ = parse_trailers(&bytes, &mut table, &Limits::REQUEST);
    }
}
