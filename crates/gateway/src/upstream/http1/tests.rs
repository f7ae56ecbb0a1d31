use super::*;

fn head(text: &str) -> Result<Option<ResponseHead>, Malformed> {
    let parsed = |keep| parse_response_head(&mut BytesMut::from(text), &Method::GET, keep, &mut FieldTable::new());
    let (lines, map) = (parsed(Keep::Lines), parsed(Keep::Map));
    match (lines, map) {
        (Ok(Some(mut lines)), Ok(Some(mut map))) => {
            assert_eq!(lines.fields.content_length(), map.fields.content_length(), "{text:?}");
            assert_eq!(lines.fields.map(), map.fields.map(), "{text:?}");
            assert_eq!((lines.body, lines.keep_alive), (map.body, map.keep_alive), "{text:?}");
            Ok(Some(lines))
        }
        (Ok(None), Ok(None)) => Ok(None),
        (Err(lines), Err(map)) if lines == map => Err(lines),
        (lines, map) => panic!("{text:?}: {lines:?} as lines, {map:?} as a map"),
    }
}

#[track_caller]
fn check_framing(text: &str, want: &Result<BodyLength, Malformed>) {
    let got = head(text).map(|h| h.expect("whole head").body);
    assert_eq!(&got, want, "{text:?}");
}

#[test]
fn framing_by_rfc_9112_6_3() {
    check_framing("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", &Ok(BodyLength::Exactly(5)));
    check_framing("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", &Ok(BodyLength::Exactly(5)));
    check_framing("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n", &Ok(BodyLength::Chunked));
    check_framing("HTTP/1.1 200 OK\r\n\r\n", &Ok(BodyLength::UntilClose));
    check_framing("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", &Ok(BodyLength::Empty));
    check_framing("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", &Ok(BodyLength::Empty));
}

#[test]
fn ambiguous_lengths_are_errors() {
    use Malformed::{Coding, CodingTwice, Length, LengthAndCoding, LengthsDiffer};
    let ambiguous = |text: &str| {
        assert!(matches!(head(text), Err(Length | LengthsDiffer | LengthAndCoding | Coding | CodingTwice)), "{text:?}");
    };
    ambiguous("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n");
    ambiguous("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n");
    ambiguous("HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n");
    ambiguous("HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n");
    ambiguous("HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n");
    ambiguous("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n");
    ambiguous("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n");
}

#[test]
fn keep_alive_by_version_and_connection() {
    let keeps = |text: &str| head(text).unwrap().unwrap().keep_alive;
    assert!(keeps("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    assert!(!keeps("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: Close\r\n\r\n"));
    assert!(!keeps("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"));
    assert!(keeps("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n"));
    assert!(!keeps("HTTP/1.1 200 OK\r\n\r\n"));
    assert!(keeps("HTTP/1.2 200 OK\r\ncontent-length: 0\r\n\r\n"));
    assert!(!keeps("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n"));
}

#[test]
fn heads_are_whole_or_not_there() {
    let text = "HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 2\r\n\r\nhi";
    for cut in 0..text.len() - 2 {
        assert!(head(&text[..cut]).unwrap().is_none(), "cut at {cut}");
    }
    let mut parsed = head(text).unwrap().unwrap();
    let cookies: Vec<_> = parsed.fields.map().get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert!(head("NOPE").is_err());
}

#[test]
fn heads_up_to_their_limits() {
    let fields = |count| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(count));
    assert_eq!(head(&fields(LIMITS.max_fields)).unwrap().unwrap().fields.map().len(), LIMITS.max_fields);
    assert_eq!(head(&fields(LIMITS.max_fields + 1)).unwrap_err(), Malformed::TooManyFields);
    let bytes = |count| format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(count - 24));
    assert!(head(&bytes(LIMITS.max_head)).unwrap().is_some());
    assert_eq!(head(&bytes(LIMITS.max_head + 1)).unwrap_err(), Malformed::HeadTooLarge);
    assert!(head(&bytes(LIMITS.max_head)[..LIMITS.max_head - 1]).unwrap().is_none());
}

fn decode(framing: BodyLength, pieces: &[&[u8]]) -> Result<(Vec<u8>, Option<HeaderMap>, bool), Malformed> {
    let (mut decoder, mut table) = (Decoder::new(framing), FieldTable::new());
    let (mut buf, mut data, mut trailers) = (BytesMut::new(), Vec::new(), None);
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buf, &mut table)? {
                Decoded::Data(d) => data.extend_from_slice(&d),
                Decoded::Trailers(t) => trailers = Some(t),
                Decoded::End => return Ok((data, trailers, true)),
                Decoded::More => break,
            }
        }
        data.extend(decoder.take_gathered().into_iter().flatten());
    }
    Ok((data, trailers, decoder.is_ended()))
}

#[test]
fn chunked_bodies_at_every_split() {
    let text = b"5\r\nhello\r\n7;ext=\"v\"\r\n, world\r\n0\r\nx-sum: 12\r\n\r\n";
    for cut in 0..=text.len() {
        let (data, trailers, ended) = decode(BodyLength::Chunked, &[&text[..cut], &text[cut..]]).unwrap();
        assert_eq!((data.as_slice(), ended), (&b"hello, world"[..], true), "cut at {cut}");
        assert_eq!(trailers.unwrap()["x-sum"], "12");
    }
}

#[test]
fn small_chunks_in_the_buffer_are_one_piece() {
    let mut buf = BytesMut::new();
    for byte in 0..1_000u32 {
        buf.extend_from_slice(&[b"1\r\n", &[byte as u8][..], b"\r\n"].concat());
    }
    buf.extend_from_slice(b"0\r\nx-sum: 12\r\n\r\n");
    let (mut decoder, mut table) = (Decoder::new(BodyLength::Chunked), FieldTable::new());
    let Ok(Decoded::Data(data)) = decoder.decode(&mut buf, &mut table) else { panic!("no data") };
    assert!(data.iter().enumerate().all(|(at, byte)| *byte == at as u8) && data.len() == 1_000);
    assert!(matches!(decoder.decode(&mut buf, &mut table), Ok(Decoded::Trailers(trailers)) if trailers.len() == 1));
    // What is wrong behind them is told after them, and large pieces are not copied.
    let mut buf = BytesMut::from(&b"1\r\na\r\n1\r\nb\r\nx\r\n 0\r\n\r\n"[..]);
    let mut decoder = Decoder::new(BodyLength::Chunked);
    assert_eq!(decoder.decode(&mut buf, &mut table), Ok(Decoded::Data(Bytes::from_static(b"ab"))));
    assert!(decoder.decode(&mut buf, &mut table).is_err() && decoder.decode(&mut buf, &mut table).is_err());
    let many = [&b"4000\r\n"[..], &[b'x'; 0x4000], b"\r\n1\r\ny\r\n"].concat();
    let mut decoder = Decoder::new(BodyLength::Chunked);
    assert!(
        matches!(decoder.decode(&mut BytesMut::from(&many[..]), &mut table), Ok(Decoded::Data(data)) if data.len() == 0x4000)
    );
}

#[test]
fn small_chunks_of_several_reads_are_one_piece() {
    let (mut decoder, mut table) = (Decoder::new(BodyLength::Chunked), FieldTable::new());
    let mut buf = BytesMut::new();
    for read in [&b"1\r\na\r\n1\r\nb\r\n1\r"[..], b"\nc\r\n2\r\nd", b"e\r\n"] {
        buf.extend_from_slice(read);
        assert_eq!(decoder.decode(&mut buf, &mut table), Ok(Decoded::More));
    }
    assert_eq!(decoder.take_gathered().as_deref(), Some(&b"abcde"[..]));
    assert_eq!(decoder.take_gathered(), None);
    let mut whole = 0;
    for _ in 0..MAX_GATHERED {
        buf.extend_from_slice(b"1\r\nx\r\n1\r\ny\r\n");
        match decoder.decode(&mut buf, &mut table) {
            Ok(Decoded::More) => {}
            Ok(Decoded::Data(data)) => whole += usize::from((MAX_GATHERED..MAX_GATHERED + 16).contains(&data.len())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(whole, 2, "no more is held than is gathered");
}

#[test]
fn bad_chunks_are_errors() {
    for bad in [
        &b"xyz\r\n"[..],
        b"5\r\nhelloo\r\n",
        b"-1\r\n",
        b"fffffffffffffffff\r\n",
        b"\r\n\r\n",
        b";x\r\n\r\n",
        b" \r\n\r\n",
        b"0\r\n\n",
        b"0\r\nx: 1\n\r\n",
    ] {
        assert!(decode(BodyLength::Chunked, &[bad]).is_err(), "{bad:?}");
    }
}

#[test]
fn a_length_takes_no_more_than_it_says() {
    let (data, _, ended) = decode(BodyLength::Exactly(5), &[b"he", b"llo, next"]).unwrap();
    assert_eq!((data.as_slice(), ended), (&b"hello"[..], true));
}
