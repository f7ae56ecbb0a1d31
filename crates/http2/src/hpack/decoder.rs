//! Header blocks to fields (RFC 7541 §3, §6).

use super::error::HpackError;
use super::huffman;
use super::integer;
use super::table::{DynamicTable, Entry};
use crate::class::{NameClass, ValueClass};
use crate::fields::FieldTable;

/// Changes of the table's size at the beginning of a block: the smallest since the last block, and the last (§4.2).
const MAX_SIZE_UPDATES: u32 = 2;
/// Bytes of [`Decoder::scratch`] that a connection keeps between blocks.
const MAX_KEPT_SCRATCH: usize = 8 * 1024;

/// The decoder of one connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable,
    /// Strings that were Huffman-coded.
    scratch: Vec<u8>,
}

/// How much of a header section is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionLimits {
    /// Bytes of names and values, and 32 for each field (RFC 9113 §6.5.2). What is beyond it is not kept.
    pub(crate) max_kept: usize,
    /// Beyond this the rest of the block is not decoded.
    pub(crate) max_unpacked: usize,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { table: DynamicTable::new(), scratch: Vec::new() }
    }

    /// Decodes a whole block into `fields`, in place of what is there.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        limits: SectionLimits,
        fields: &mut FieldTable,
    ) -> Result<(), HpackError> {
        fields.clear();
        let (mut rest, mut size_updates) = (block, 0);
        while let Some(first) = rest.first() {
            rest = if first & 0x80 != 0 {
                let (index, rest) = integer::decode(rest, 7)?;
                fields.push(self.table.get(index as usize)?, limits.max_kept);
                rest
            } else if first & 0x40 != 0 {
                self.literal(rest, 6, fields, limits)?
            } else if first & 0x20 != 0 {
                size_updates += 1;
                if size_updates > MAX_SIZE_UPDATES || !fields.is_untouched() {
                    return Err(HpackError::TableSize);
                }
                let (size, rest) = integer::decode(rest, 5)?;
                self.table.resize(size as usize)?;
                rest
            } else {
                self.literal(rest, 4, fields, limits)?
            };
            if fields.size() > limits.max_unpacked {
                return Err(HpackError::Bomb);
            }
        }
        if self.scratch.capacity() > MAX_KEPT_SCRATCH {
            self.scratch = Vec::new();
        }
        Ok(())
    }

    /// A field that is not in a table, or only by its name (§6.2). With a prefix of 6 bits it is put there.
    fn literal<'b>(
        &mut self,
        bytes: &'b [u8],
        prefix: u32,
        fields: &mut FieldTable,
        limits: SectionLimits,
    ) -> Result<&'b [u8], HpackError> {
        let (index, mut rest) = integer::decode(bytes, prefix)?;
        self.scratch.clear();
        let mut new_name = Text::Plain(&[]);
        if index == 0 {
            (new_name, rest) = string(rest, &mut self.scratch)?;
        }
        let (value, rest) = string(rest, &mut self.scratch)?;
        let known;
        let (name, name_class) = if index == 0 {
            let name = new_name.of(&self.scratch);
            (name, NameClass::of(name))
        } else {
            let entry = self.table.get(index as usize)?;
            // The entry may be evicted by its own successor.
            known = entry.name.to_vec();
            (&known[..], entry.name_class)
        };
        let value = value.of(&self.scratch);
        let entry = Entry { name, value, name_class, value_class: ValueClass::of(value) };
        fields.push(entry, limits.max_kept);
        if prefix == 6 {
            self.table.insert(entry);
        }
        Ok(rest)
    }
}

/// A string: in the block, or decoded in the scratch memory.
#[derive(Clone, Copy)]
enum Text<'b> {
    Plain(&'b [u8]),
    Decoded { from: usize, to: usize },
}

impl<'b> Text<'b> {
    fn of<'a>(self, scratch: &'a [u8]) -> &'a [u8]
    where
        'b: 'a,
    {
        match self {
            Self::Plain(text) => text,
            Self::Decoded { from, to } => scratch.get(from..to).unwrap_or_default(),
        }
    }
}

/// §5.2
fn string<'b>(bytes: &'b [u8], scratch: &mut Vec<u8>) -> Result<(Text<'b>, &'b [u8]), HpackError> {
    let is_coded = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let (length, rest) = integer::decode(bytes, 7)?;
    let (text, rest) = rest.split_at_checked(length as usize).ok_or(HpackError::Truncated)?;
    if !is_coded {
        return Ok((Text::Plain(text), rest));
    }
    let from = scratch.len();
    huffman::decode(text, scratch)?;
    Ok((Text::Decoded { from, to: scratch.len() }, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: SectionLimits = SectionLimits { max_kept: 16 * 1024, max_unpacked: 64 * 1024 };

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The fields of a block as lines; those of requests first.
    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
        let mut table = FieldTable::new();
        decoder.decode(block, LIMITS, &mut table)?;
        let fields = table.fields();
        let pseudo = [
            (":method", fields.method()),
            (":scheme", fields.scheme()),
            (":path", fields.path()),
            (":authority", fields.authority()),
        ];
        let pseudo = pseudo.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", text(value?))));
        Ok(pseudo.chain(fields.iter().map(|field| format!("{}: {}", text(field.name), text(field.value)))).collect())
    }

    /// A block, its fields, and the size and the entries of the table behind it.
    type Block<'b> = (&'b str, &'b [&'b str], usize, &'b [(&'b str, &'b str)]);

    /// Blocks of one connection.
    #[track_caller]
    fn check(blocks: &[Block<'_>]) {
        let mut decoder = Decoder::new();
        for (block, lines, size, entries) in blocks {
            assert_eq!(decoded(&mut decoder, &bytes(block)).unwrap(), *lines, "{block}");
            let (found_size, found) = decoder.table.listed();
            let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            assert_eq!((found_size, &found[..]), (*size, *entries), "{block}");
        }
    }

    const FIRST: [&str; 4] = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];

    fn second() -> Vec<&'static str> {
        [&FIRST[..], &["cache-control: no-cache"]].concat()
    }

    const THIRD: [&str; 5] = [
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ];

    #[test]
    fn requests_of_the_standard() {
        let authority = (":authority", "www.example.com");
        let (cached, custom) = (("cache-control", "no-cache"), ("custom-key", "custom-value"));
        // RFC 7541 C.3 and C.4
        for blocks in [
            [
                "828684410f7777772e6578616d706c652e636f6d",
                "828684be58086e6f2d6361636865",
                "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            ],
            [
                "828684418cf1e3c2e5f23a6ba0ab90f4ff",
                "828684be5886a8eb10649cbf",
                "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
            ],
        ] {
            check(&[
                (blocks[0], &FIRST, 57, &[authority]),
                (blocks[1], &second(), 110, &[cached, authority]),
                (blocks[2], &THIRD, 164, &[custom, cached, authority]),
            ]);
        }
    }

    #[test]
    fn literals_of_the_standard() {
        // RFC 7541 C.2.1 to C.2.4
        let custom = ("custom-key", "custom-header");
        check(&[
            ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", &["custom-key: custom-header"], 55, &[custom]),
            ("040c2f73616d706c652f70617468", &[":path: /sample/path"], 55, &[custom]),
            ("100870617373776f726406736563726574", &["password: secret"], 55, &[custom]),
            ("82", &[":method: GET"], 55, &[custom]),
        ]);
    }

    #[test]
    fn responses_of_the_standard_evict() {
        // RFC 7541 C.6, where the table has 256 bytes.
        let mut decoder = Decoder::new();
        decoder.table.resize(256).unwrap();
        for (block, size, first) in [
            (
                "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
                222,
                "location",
            ),
            ("4883640effc1c0bf", 222, ":status"),
            (
                "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
                215,
                "set-cookie",
            ),
        ] {
            decoded(&mut decoder, &bytes(block)).unwrap();
            let (found, entries) = decoder.table.listed();
            assert_eq!((found, entries[0].0.as_str()), (size, first));
        }
        let (_, entries) = decoder.table.listed();
        let values: Vec<&str> = entries.iter().map(|(_, value)| value.as_str()).collect();
        let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
        assert_eq!(values, [cookie, "gzip", "Mon, 21 Oct 2013 20:13:22 GMT"]);
    }

    #[test]
    fn what_is_no_block() {
        for (block, expected) in [
            ("80", HpackError::Index),
            ("be", HpackError::Index),
            ("ff8001", HpackError::Index),
            ("7f8001", HpackError::Truncated),
            ("4005", HpackError::Truncated),
            ("40016102ff", HpackError::Truncated),
            ("4001618102", HpackError::Huffman),
            ("3fe21f", HpackError::TableSize),
            ("8220", HpackError::TableSize),
            ("202020", HpackError::TableSize),
            ("0fffffffffff", HpackError::Integer),
        ] {
            assert_eq!(decoded(&mut Decoder::new(), &bytes(block)), Err(expected), "{block}");
        }
        assert!(decoded(&mut Decoder::new(), &bytes("203fe11f82")).is_ok(), "smallest, then last");
    }

    #[test]
    fn a_large_block_leaves_no_memory_behind() {
        let mut block = Vec::new();
        crate::hpack::encoder::encode_field(b"x", &[b'a'; 50_000], &mut block);
        let (mut decoder, limits) = (Decoder::new(), SectionLimits { max_kept: 100_000, max_unpacked: 100_000 });
        decoder.decode(&block, limits, &mut FieldTable::new()).unwrap();
        assert!(decoder.scratch.capacity() <= MAX_KEPT_SCRATCH, "{}", decoder.scratch.capacity());
    }

    #[test]
    fn a_small_block_that_unpacks_to_much() {
        let mut decoder = Decoder::new();
        let mut block = vec![0x40, 1, b'x', 0x7F, 0x81, 0x0F];
        block.resize(block.len() + 2048, b'b');
        decoded(&mut decoder, &block).unwrap();
        let mut table = FieldTable::new();
        assert_eq!(decoder.decode(&[0xBE; 20], LIMITS, &mut table), Ok(()));
        assert!(table.is_too_large(), "what is beyond the limit is not kept");
        assert!(table.fields().iter().map(|field| field.value.len()).sum::<usize>() <= LIMITS.max_kept);
        assert_eq!(decoder.decode(&[0xBE; 40], LIMITS, &mut table), Err(HpackError::Bomb));
    }

    proptest! {
        #[test]
        fn never_panics(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6)) {
            let mut decoder = Decoder::new();
            for block in blocks {
                if decoded(&mut decoder, &block).is_err() {
                    break;
                }
            }
        }
    }
}
