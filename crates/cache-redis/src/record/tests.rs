use http::header::{CACHE_CONTROL, ETAG};
use proptest::prelude::*;

use super::*;

const KEY: Key<'_> = Key { scheme: "http", authority: "example.org", target: "/a?b=c", extra: "e" };

fn small() -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
    headers.append(ETAG, HeaderValue::from_static("\"a\""));
    let freshness = Freshness {
        received: Timestamp(1_700_000_000_123),
        initial_age_ms: 1500,
        lifetime_ms: 60_000,
        source: LifetimeSource::Response,
        must_revalidate: true,
        no_cache: false,
        while_revalidate_ms: 0,
        if_error_ms: 0,
    };
    let selection = Selection::default();
    let parts =
        Parts { status: StatusCode::OK, headers, body: Bytes::from_static(b"body\0\r\n"), selection, freshness };
    Response { parts, apart: None, position: 7 }
}

fn names() -> impl Strategy<Value = HeaderName> {
    "[a-z][a-z0-9-]{0,20}".prop_map(|name| HeaderName::try_from(name).unwrap())
}

prop_compose! {
    fn freshness()(
        (received, initial_age_ms, lifetime_ms) in any::<(u64, u64, u64)>(),
        source in prop::sample::select(SOURCES.map(|(source, _)| source).to_vec()),
        must_revalidate: bool,
        no_cache: bool,
        (while_revalidate_ms, if_error_ms) in any::<(u64, u64)>(),
    ) -> Freshness {
        Freshness {
            received: Timestamp(received),
            initial_age_ms,
            lifetime_ms,
            source,
            must_revalidate,
            no_cache,
            while_revalidate_ms,
            if_error_ms,
        }
    }
}

prop_compose! {
    fn responses()(
        status in 100u16..1000,
        // Visible characters, blanks and what is beyond ASCII, as RFC 9110 §5.5 has it.
        fields in prop::collection::vec((names(), prop::collection::vec(0x20u8..=0x7e, 0..40)), 0..12),
        selecting in prop::collection::vec((names(), prop::option::of(prop::collection::vec(any::<u8>(), 0..20))), 0..4),
        body in prop::collection::vec(any::<u8>(), 0..400),
        apart in prop::option::of((any::<u64>(), any::<u64>(), any::<u32>())),
        freshness in freshness(),
        position: u64,
    ) -> Response {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_bytes(&value).unwrap());
        }
        let selection = Selection::from_fields(selecting.into_iter().map(|(name, value)| (name, value.map(Into::into))));
        let apart = apart.map(|(id, length, crc)| Apart { id, length, crc });
        let body = if apart.is_some() { Bytes::new() } else { body.into() };
        let parts = Parts { status: StatusCode::from_u16(status).unwrap(), headers, body, selection, freshness };
        Response { parts, apart, position }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(response in responses(), generation: [u8; 8]) {
        let generation = Generation(generation);
        let record = encode_response(generation, &KEY, &response);
        let content = Content::Response(Box::new(response));
        prop_assert_eq!(decode(&record, &KEY), Ok(Record { generation, content }));
        prop_assert_eq!(Generation::of(&record), Some(generation));
    }

    #[test]
    fn a_flipped_bit_is_noticed(response in responses(), at: prop::sample::Index, bit in 0u8..8) {
        let mut record = encode_response(Generation([1; 8]), &KEY, &response);
        let at = at.index(record.len());
        record[at] ^= 1 << bit;
        prop_assert!(decode(&record, &KEY).is_err());
    }

    #[test]
    fn bytes_that_are_no_record_are_refused_or_read(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..6,
    ) {
        let _ = decode(&bytes, &KEY);
        // The same as a record whose checksum is right.
        bytes.splice(..0, MAGIC.iter().copied().chain([kind]).chain([0; 12]));
        repair(&mut bytes);
        let _ = decode(&bytes, &KEY);
    }
}

#[test]
fn every_prefix_of_a_record_is_refused() {
    let record = encode_response(Generation([1; 8]), &KEY, &small());
    for length in 0..record.len() {
        assert!(decode(&record[..length], &KEY).is_err(), "{length} bytes");
        let mut cut = record[..length].to_vec();
        // Only the body has no length of its own: the checksum alone ends it.
        if length < record.len() - small().parts.body.len() && repair(&mut cut) {
            assert!(decode(&cut, &KEY).is_err(), "{length} bytes with the right checksum");
        }
    }
}

#[test]
fn only_the_target_that_was_asked_for() {
    let record = encode_response(Generation([1; 8]), &KEY, &small());
    for other in [
        Key { target: "/a?b=d", ..KEY },
        Key { scheme: "https", ..KEY },
        Key { authority: "example.com", ..KEY },
        Key { extra: "", ..KEY },
    ] {
        assert_eq!(decode(&record, &other), Err(RecordError::OtherTarget));
    }
}

#[test]
fn other_versions_kinds_and_demands_are_unknown() {
    let record = encode_response(Generation([1; 8]), &KEY, &small());
    let with = |at: usize, byte: u8| {
        let mut other = record.clone();
        other[at] = byte;
        repair(&mut other);
        decode(&other, &KEY)
    };
    assert_eq!(with(3, 2), Err(RecordError::Unknown), "version");
    assert_eq!(with(4, 9), Err(RecordError::Unknown), "kind");
    let demands = record.windows(2).position(|two| two == [0b010, 7]).unwrap();
    assert_eq!(with(demands, 0b1_1010), Err(RecordError::Unknown), "a lifetime of two sources");
}

#[test]
fn the_fields_of_variants_and_tombstones() {
    let generation = Generation([9; 8]);
    let names = vec![HeaderName::from_static("accept"), HeaderName::from_static("x-a")];
    let record = encode_variants(generation, names.iter());
    assert_eq!(decode(&record, &KEY), Ok(Record { generation, content: Content::Variants(names) }));
    let record = encode_tombstone(generation);
    assert_eq!(decode(&record, &KEY), Ok(Record { generation, content: Content::Tombstone }));
    assert_eq!(record.len(), 17);
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    // docs/spec/cache-record.md: change the version with the format.
    let record = encode_response(Generation(*b"generati"), &KEY, &small());
    let payload =
        b"\x04http\x0bexample.org\x06/a?b=c\x01e\xc8\x01\xfb\xd0\x95\xff\xbc\x31\xdc\x0b\xe0\xd4\x03\x02\x07\x00\x02\
        \x0dcache-control\x0amax-age=60\x04etag\x03\"a\"body\0\r\n";
    assert_eq!(&record[..13], b"PLR\x01\x01generati");
    assert_eq!(record[PAYLOAD_AT..], payload[..], "{:?}", Bytes::copy_from_slice(&record[PAYLOAD_AT..]));
}

#[test]
fn a_body_apart_is_known_by_length_and_checksum() {
    let apart = Apart::new(b"the body");
    assert!(apart.is(b"the body"));
    assert!(!apart.is(b"the bodx") && !apart.is(b"the bod") && !apart.is(b""));
}
