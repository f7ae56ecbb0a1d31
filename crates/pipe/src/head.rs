//! Request and response heads and trailers: strings ended by zero bytes (spec §3).
//!
//! Owns the bytes of REQUEST, RESPONSE, INFO and TRAILERS, and which fields cross the pipe (P-8, P-9). Decoded values
//! are slices of the frame; nothing is copied but the names of fields that the `http` crate does not know.
//!
//! ```text
//! REQUEST   head_length u32 │ deadline_ms u32 │ method 0 scheme 0 authority 0 target 0 protocol 0 peer 0 request_id 0 │ fields │ body
//! RESPONSE  head_length u32 │ status u16, 0   │ fields │ body
//! fields    name 0 value 0 name 0 value 0 …
//! ```

mod decode;
mod encode;
mod hop;

pub use decode::{
    DecodedRequest, HeadError, decode_fields, decode_info, decode_offer, decode_request, decode_response, decode_switch,
};
pub use encode::{RequestHead, TooLarge, encode_fields, encode_info, encode_request, encode_response};
pub use hop::crosses;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameHeader, FrameType, MAX_FRAME, flags, split_frame};
    use bytes::{BufMut, Bytes, BytesMut};
    use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
    use proptest::prelude::*;

    fn head(headers: &HeaderMap) -> RequestHead<'_> {
        RequestHead {
            method: "GET",
            scheme: "http",
            authority: "example.org",
            target: "/a?b=%20c",
            protocol: "HTTP/1.1",
            peer: "127.0.0.1:4711",
            request_id: "r-1",
            deadline_ms: 250,
            headers,
        }
    }

    fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        map
    }

    fn only_frame(mut out: BytesMut) -> (FrameHeader, Bytes) {
        let frame = split_frame(&mut out, MAX_FRAME).unwrap().unwrap();
        assert!(out.is_empty());
        frame
    }

    #[test]
    fn a_request_is_the_bytes_of_the_specification() {
        let headers = fields(&[("accept", "*/*"), ("x-a", "1"), ("x-a", "2")]);
        let mut out = BytesMut::new();
        encode_request(&mut out, 7, flags::END, &head(&headers), b"hi").unwrap();
        let (header, payload) = only_frame(out);
        assert_eq!((header.kind, header.flags, header.exchange), (FrameType::REQUEST, flags::END, 7));
        let strings =
            b"GET\0http\0example.org\0/a?b=%20c\0HTTP/1.1\x00127.0.0.1:4711\0r-1\0accept\0*/*\0x-a\x001\0x-a\x002\0";
        let mut expected = Vec::new();
        expected.put_u32_le(strings.len() as u32);
        expected.put_u32_le(250);
        expected.put_slice(strings);
        expected.put_slice(b"hi");
        assert_eq!(&payload[..], expected);

        let (request, body) = decode_request(payload).unwrap();
        assert_eq!(request.method, Method::GET);
        assert_eq!(
            [
                request.scheme(),
                request.authority(),
                request.target(),
                request.protocol(),
                request.peer(),
                request.request_id()
            ],
            ["http", "example.org", "/a?b=%20c", "HTTP/1.1", "127.0.0.1:4711", "r-1"]
        );
        assert_eq!((request.deadline_ms, &body[..]), (250, &b"hi"[..]));
        assert_eq!(request.headers, headers);
    }

    #[test]
    fn fields_of_the_hop_do_not_cross() {
        let headers = fields(&[
            ("connection", "x-hop, Close"),
            ("x-hop", "1"),
            ("keep-alive", "1"),
            ("proxy-connection", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("host", "h"),
            ("x-stays", "1"),
        ]);
        let stays = fields(&[("x-stays", "1")]);
        let mut out = BytesMut::new();
        encode_request(&mut out, 1, 0, &head(&headers), b"").unwrap();
        assert_eq!(decode_request(only_frame(out).1).unwrap().0.headers, stays);
        let mut out = BytesMut::new();
        encode_response(&mut out, 1, 0, StatusCode::OK, &headers, b"").unwrap();
        assert_eq!(decode_response(only_frame(out).1).unwrap().1, stays);

        // P-9: what a service sends all the same is dropped on reading.
        let mut raw = BytesMut::new();
        let strings = b"x-hop\x001\0connection\0x-hop\0Transfer-Encoding\0chunked\0x-stays\x001\0";
        raw.put_u32_le(strings.len() as u32);
        raw.put_u32_le(200);
        raw.put_slice(strings);
        assert_eq!(decode_response(raw.freeze()).unwrap().1, stays);
    }

    #[test]
    fn an_upgrade_crosses_with_its_flag_only() {
        let headers =
            fields(&[("connection", "upgrade, x-hop"), ("upgrade", "websocket"), ("x-hop", "1"), ("x-a", "1")]);
        let crossed = fields(&[("upgrade", "websocket"), ("x-a", "1")]);
        let mut out = BytesMut::new();
        encode_request(&mut out, 1, flags::END | flags::UPGRADE, &head(&headers), b"").unwrap();
        let (header, offer) = only_frame(out);
        assert!(header.is_upgrade() && header.is_end());
        assert_eq!(decode_offer(offer.clone()).unwrap().0.headers, crossed);
        assert_eq!(decode_request(offer).unwrap().0.headers, fields(&[("x-a", "1")]));
        let switch = |status: u16, body: &[u8]| {
            let mut out = BytesMut::new();
            let status = StatusCode::from_u16(status).unwrap();
            encode_response(&mut out, 1, flags::UPGRADE, status, &headers, body).unwrap();
            decode_switch(only_frame(out).1).map_err(|error| error.to_string())
        };
        assert_eq!(switch(101, b""), Ok(crossed));
        assert_eq!(switch(200, b""), Err("P-11: status 200 is not allowed here".to_owned()));
        assert_eq!(switch(101, b"hi"), Err("P-40: 2 bytes behind the head of a RESPONSE with UPGRADE".to_owned()));
    }

    #[test]
    fn a_zero_byte_cannot_shift_the_strings() {
        let headers = HeaderMap::new();
        let mut out = BytesMut::new();
        let evil = RequestHead { request_id: "r\0host\0evil", ..head(&headers) };
        encode_request(&mut out, 1, 0, &evil, b"").unwrap();
        let (request, _) = decode_request(only_frame(out).1).unwrap();
        assert_eq!((request.request_id(), request.headers.len()), ("r", 0));
    }

    #[test]
    fn too_large_leaves_the_buffer_alone() {
        let headers = HeaderMap::new();
        let mut out = BytesMut::from(&b"before"[..]);
        let error = encode_request(&mut out, 1, 0, &head(&headers), &vec![0; MAX_FRAME]).unwrap_err();
        assert!(error.size > MAX_FRAME && error.size < MAX_FRAME + 200);
        assert_eq!(&out[..], b"before");
        assert!(encode_response(&mut out, 1, 0, StatusCode::OK, &headers, &vec![0; MAX_FRAME - 7]).is_err());
        assert_eq!(&out[..], b"before");
        encode_response(&mut out, 1, 0, StatusCode::OK, &headers, &vec![0; MAX_FRAME - 8]).unwrap();
    }

    #[track_caller]
    fn refused(payload: &[u8], expected: &str) {
        assert_eq!(decode_response(Bytes::copy_from_slice(payload)).unwrap_err().to_string(), expected);
    }

    #[test]
    fn malformed_heads_name_the_rule() {
        refused(b"123", "P-8: a payload of 3 bytes is shorter than a head's 8 fixed bytes");
        refused(b"\x09\0\0\0\xc8\0\0\0ab", "P-8: head_length 9 is larger than the 2 bytes that follow");
        refused(b"\x04\0\0\0\xc8\0\0\0a\0b!", "P-8: the head has no final zero byte");
        refused(b"\x02\0\0\0\xc8\0\0\0a\0", "P-8: an odd number of strings: a field without a value");
        refused(b"\x06\0\0\0\xc8\0\0\0a b\0c\0", "P-8: \"a b\" is not a field name");
        refused(b"\x05\0\0\0\xc8\0\0\0ab\0\n\0", "P-8: the value of ab has a byte that is not allowed");
        refused(b"\0\0\0\0\x07\0\0\0", "P-11: status 7 is not allowed here");
        refused(b"\0\0\0\0\x64\0\0\0", "P-11: status 100 is not allowed here");
        let info = decode_info(Bytes::from_static(b"\0\0\0\0\xc8\0\0\0")).unwrap_err();
        assert_eq!(info.to_string(), "P-11: status 200 is not allowed here");
        let few = decode_request(Bytes::from_static(b"\x04\0\0\0\0\0\0\0GET\0")).unwrap_err();
        assert_eq!(few.to_string(), "P-8: a request head of 1 strings; it has at least 7");
    }

    fn any_fields() -> impl Strategy<Value = HeaderMap> {
        let pair = ("x-[a-z]{1,3}|accept|cookie|set-cookie", "[ -~é\t]{0,30}");
        prop::collection::vec(pair, 0..12).prop_map(|pairs| {
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            map
        })
    }

    proptest! {
        #[test]
        fn decode_of_encode(headers in any_fields(), body in prop::collection::vec(any::<u8>(), 0..99), status in 200u16..600) {
            let mut out = BytesMut::new();
            encode_request(&mut out, 9, 0, &head(&headers), &body).unwrap();
            let (request, rest) = decode_request(only_frame(out).1).unwrap();
            prop_assert_eq!(&request.headers, &headers);
            prop_assert_eq!(&rest[..], &body[..]);

            let status = StatusCode::from_u16(status).unwrap();
            let mut out = BytesMut::new();
            encode_response(&mut out, 9, flags::END, status, &headers, &body).unwrap();
            prop_assert_eq!(decode_response(only_frame(out).1).unwrap(), (status, headers.clone(), Bytes::from(body)));

            let mut out = BytesMut::new();
            encode_fields(&mut out, 9, &headers).unwrap();
            prop_assert_eq!(decode_fields(&only_frame(out).1).unwrap(), headers);
        }

        #[test]
        fn random_heads_never_panic(length in 0u32..64, second in any::<u32>(), text in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>(), b'a'..=b'z'], 0..80)) {
            let mut raw = BytesMut::new();
            raw.put_u32_le(length);
            raw.put_u32_le(second);
            raw.put_slice(&text);
            let raw = raw.freeze();
            for error in [decode_request(raw.clone()).err(), decode_response(raw.clone()).err(), decode_info(raw.clone()).err(), decode_switch(raw.clone()).err(), decode_fields(&raw).err()].into_iter().flatten() {
                prop_assert!(error.to_string().starts_with("P-"));
            }
        }
    }
}
