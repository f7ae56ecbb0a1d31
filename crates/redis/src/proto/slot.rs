//! Hash slots (Redis Cluster specification, "Key distribution model" and "Hash tags").

use std::fmt;

/// Number of hash slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// A hash slot, below [`SLOTS`].
///
/// ```
/// use pilotlight_redis::Slot;
///
/// assert_eq!(Slot::of(b"123456789").number(), 12739);
/// assert_eq!(Slot::of(b"{user:1}:name"), Slot::of(b"user:1"));
/// assert_eq!(Slot::new(16_384), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(u16);

impl Slot {
    /// The slot with this number, if there is one.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number < SLOTS { Some(Self(number)) } else { None }
    }

    /// The slot of a key: CRC16 of its hash tag, or of the whole key without one.
    #[must_use]
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        Self(crc16(hash_tag(key)) % SLOTS)
    }

    /// All slots, in order.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..SLOTS).map(Self)
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What of a key is hashed: what stands between the first `{` anywhere in the key and the first `}` after it, unless
/// that is empty.
#[must_use]
#[inline]
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    if key.len() < SHORT_BYTES && !has_open(key) {
        return key;
    }
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    let rest = &key[open + 1..];
    match memchr::memchr(b'}', rest) {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

/// Keys below this are looked through by words: for nine bytes `memchr` takes 84 instructions (callgrind).
const SHORT_BYTES: usize = 32;

/// Whether there is a `{`.
#[inline]
fn has_open(key: &[u8]) -> bool {
    const OPEN: u64 = u64::from_ne_bytes([b'{'; 8]);
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let (words, rest) = key.as_chunks::<8>();
    let in_words = words.iter().fold(0, |found, word| {
        // A byte that is `{` is zero now: only then does a borrow set a high bit that was not set.
        let zeroed = u64::from_ne_bytes(*word) ^ OPEN;
        found | zeroed.wrapping_sub(LOW) & !zeroed & HIGH
    });
    in_words != 0 || rest.contains(&b'{')
}

/// CRC-16/XMODEM (polynomial 0x1021, initial value 0): "123456789" gives 0x31C3.
#[must_use]
#[inline]
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let crc = steps.iter().fold(0, |crc, step| {
        let [high, low] = u16::to_be_bytes(crc);
        // Each byte as if it were alone and zeros followed: a CRC is linear.
        let first = at(STEP - 1, step[0] ^ high) ^ at(STEP - 2, step[1] ^ low);
        (2..STEP).fold(first, |sum, place| sum ^ at(STEP - 1 - place, step[place]))
    });
    // By four, the rest waits for its tables a third as often as by one.
    let (steps, rest) = rest.as_chunks::<4>();
    let crc = steps.iter().fold(crc, |crc, step| {
        let [high, low] = u16::to_be_bytes(crc);
        at(3, step[0] ^ high) ^ at(2, step[1] ^ low) ^ at(1, step[2]) ^ at(0, step[3])
    });
    rest.iter().fold(crc, |crc, byte| (crc << 8) ^ at(0, (crc >> 8) as u8 ^ byte))
}

/// Bytes of a step. Of a key of 512 bytes each takes 8.0 instructions by itself, 3.05 of eight, 2.55 of sixteen, and
/// the time goes from 3.0 µs to 0.7 and 0.4 (callgrind; the least of three alternating runs).
const STEP: usize = 16;

#[inline]
fn at(zeros: usize, byte: u8) -> u16 {
    TABLES[zeros][usize::from(byte)]
}

/// The CRC of each byte with so many zeros behind it.
static TABLES: [[u16; 256]; STEP] = tables();

#[expect(clippy::cast_possible_truncation, reason = "index < 256")]
const fn tables() -> [[u16; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut zeros = 0;
        while zeros < STEP {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
                bit += 1;
            }
            tables[zeros][index] = crc;
            zeros += 1;
        }
        index += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: &str, tag: &str) {
        assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
    }

    #[test]
    fn the_check_value_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(Slot::of(b"foo").number(), 12_182);
    }

    #[test]
    fn the_first_brace_anywhere_begins_the_tag() {
        check("{user1000}.following", "user1000");
        check("key{tag}", "tag");
        check("foo{}{bar}", "foo{}{bar}");
        check("foo{{bar}}zap", "{bar");
        check("foo{bar}{zap}", "bar");
        check("a}b{c", "a}b{c");
        check("a}b{c}", "c");
        check("", "");
    }

    #[test]
    fn special_characters_are_part_of_a_tag() {
        check("a{b:c-d_e.f}g", "b:c-d_e.f");
        check("{\u{e9} \r\n}", "\u{e9} \r\n");
        check("{ }", " ");
    }

    #[test]
    fn keys_with_one_tag_share_a_slot_and_others_mostly_do_not() {
        assert_eq!(Slot::of(b"{user1000}.following"), Slot::of(b"any{user1000}thing"));
        assert_eq!(Slot::of(b"{user1000}.following"), Slot::of(b"user1000"));
        let slots: std::collections::HashSet<_> = (0..1000).map(|n| Slot::of(format!("key{n}").as_bytes())).collect();
        assert!(slots.len() > 900, "{}", slots.len());
    }

    #[test]
    fn keys_of_any_length_have_a_slot() {
        assert_eq!(Slot::of(b"").number(), 0);
        for length in [1, 2, 7, 8, 9, 100, 65_536, 1 << 20] {
            let key = vec![b'x'; length];
            assert_eq!(Slot::of(&key).number(), bit_by_bit(&key) % 16_384, "{length}");
        }
    }

    /// As the specification has it.
    fn bit_by_bit(key: &[u8]) -> u16 {
        let step = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        key.iter().fold(0_u16, |crc, &byte| (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| step(crc)))
    }

    proptest::proptest! {
        #[test]
        fn a_brace_is_found_by_words_wherever_it_is(key in proptest::collection::vec(120..127_u8, 0..40)) {
            proptest::prop_assert_eq!(has_open(&key), key.contains(&b'{'));
        }

        #[test]
        fn many_bytes_a_step_are_the_same_as_bit_by_bit(key in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            proptest::prop_assert_eq!(crc16(&key), bit_by_bit(&key));
        }
    }
}
