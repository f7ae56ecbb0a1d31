//! Replays the corpus of the fuzz target `cgi`, and connections made at random.

use bytes::BytesMut;
use pilotlight_cgi::{KeepConnection, Protocol, Variables};
use proptest::prelude::*;

use crate::checks::cgi;
use crate::corpus;

#[test]
fn replayed() {
    corpus::replay("cgi", cgi::check);
}

/// A record that may be right.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![8 => 6..=7_u8, 1 => Just(3_u8), 1 => 0..=12_u8];
    let id = prop_oneof![9 => Just(1_u8), 1 => 0..=2_u8];
    let text = prop_oneof![
        "(Status: [0-9]{1,4} ?[a-z]{0,3}|[A-Za-z-]{1,9}: ?[a-z]{0,9}|Location: /x|)\r?\n\r?\n?"
            .prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..40),
        Just(vec![0; 8]),
    ];
    (kind, id, text, 0..9_u8).prop_map(|(kind, id, content, padding)| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let mut all = vec![1, kind, 0, id, length[0], length[1], padding, 0];
        all.extend(content);
        all.extend(vec![0; usize::from(padding)]);
        all
    })
}

/// What a program reads of SCGI.
fn read_scgi(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let colon = bytes.iter().position(|byte| *byte == b':').unwrap();
    let length: usize = std::str::from_utf8(&bytes[..colon]).unwrap().parse().unwrap();
    assert_eq!(bytes[colon + 1 + length..], *b",");
    let mut parts = bytes[colon + 1..colon + 1 + length].split(|byte| *byte == 0).map(<[u8]>::to_vec);
    let mut all = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        all.push((name, value));
    }
    all
}

/// What a program reads of a packet of uwsgi.
fn read_uwsgi(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rest = &bytes[4..];
    assert_eq!(usize::from(u16::from_le_bytes([bytes[1], bytes[2]])), rest.len());
    let mut text = || {
        let length = usize::from(u16::from_le_bytes([*rest.first()?, rest[1]]));
        let (text, after) = rest[2..].split_at(length);
        rest = after;
        Some(text.to_vec())
    };
    let mut all = Vec::new();
    while let Some(name) = text() {
        all.push((name, text().unwrap()));
    }
    all
}

/// What a program reads of FastCGI.
fn read_fastcgi(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut params = Vec::new();
    while let Some(header) = bytes.get(..8) {
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[1] == 4 {
            params.extend(&bytes[8..8 + length]);
        }
        bytes = &bytes[8 + length..];
    }
    let (mut rest, mut all) = (&params[..], Vec::new());
    let length = |rest: &mut &[u8]| match rest[0] {
        short @ 0..0x80 => {
            *rest = &rest[1..];
            usize::from(short)
        }
        _ => {
            let length = u32::from_be_bytes([rest[0] & 0x7f, rest[1], rest[2], rest[3]]);
            *rest = &rest[4..];
            length as usize
        }
    };
    while !rest.is_empty() {
        let (name, value) = (length(&mut rest), length(&mut rest));
        all.push((rest[..name].to_vec(), rest[name..name + value].to_vec()));
        rest = &rest[name + value..];
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(corpus::cases()))]

    #[test]
    fn any_chunking_is_the_whole(records in proptest::collection::vec(record(), 0..12), cut in any::<usize>()) {
        let mut all = records.concat();
        all.truncate(all.len() - cut % (all.len() / 4 + 1));
        cgi::check(&all);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn programs_read_what_was_put(pairs in proptest::collection::vec(("[A-Z_]{1,200}", "[ -~]{0,300}"), 0..10)) {
        let length = Some(5);
        for (protocol, read) in [
            (Protocol::FastCgi, read_fastcgi as fn(&[u8]) -> _),
            (Protocol::Scgi, read_scgi as fn(&[u8]) -> _),
            (Protocol::Uwsgi, read_uwsgi as fn(&[u8]) -> _),
        ] {
            let (mut variables, mut out) = (Variables::new(protocol, length), BytesMut::new());
            for (name, value) in &pairs {
                variables.put(name.as_bytes(), &[&value.as_bytes()[..value.len() / 2], &value.as_bytes()[value.len() / 2..]]);
            }
            variables.finish(&mut out, KeepConnection::Yes).unwrap();
            let mut expected = vec![(b"CONTENT_LENGTH".to_vec(), b"5".to_vec())];
            if protocol == Protocol::Scgi {
                expected.push((b"SCGI".to_vec(), b"1".to_vec()));
            }
            expected.extend(pairs.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())));
            prop_assert_eq!(read(&out), expected, "{:?}", protocol);
        }
    }
}
