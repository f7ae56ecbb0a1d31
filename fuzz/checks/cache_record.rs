//! A record from Redis, whatever its bytes are: it is refused or read, nothing panics, and what was read is written as
//! the same bytes again, but for the order of fields that a map does not keep.

use pilotlight_cache::Key;
use pilotlight_cache_redis::record::{self, Content};

const KEY: Key<'_> = Key { scheme: "http", authority: "fuzz.test", target: "/", extra: "" };

pub(crate) fn check(data: &[u8]) {
    read(data);
    // A fuzzer does not find checksums: so the same once more with the right one.
    let mut repaired = data.to_vec();
    if record::repair(&mut repaired) {
        read(&repaired);
    }
}

fn read(data: &[u8]) {
    let Ok(read) = record::decode(data, &KEY) else { return };
    let again = match &read.content {
        Content::Response(response) => record::encode_response(read.generation, &KEY, response),
        Content::Variants(names) => record::encode_variants(read.generation, names.iter()),
        Content::Tombstone => record::encode_tombstone(read.generation),
    };
    let reread = record::decode(&again, &KEY);
    assert_eq!(reread.as_ref(), Ok(&read), "what was read is not what is written");
}
