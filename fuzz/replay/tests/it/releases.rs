//! Replays the corpus of the fuzz target `release_archive`, and what a few bytes make of it.

use proptest::prelude::*;

use crate::checks::release_archive;
use crate::corpus;

#[test]
fn replayed() {
    corpus::replay("release_archive", release_archive::check);
}

/// Sets the checksum of the header in a block right, as an attacker would (POSIX.1-2017, pax, ustar).
fn checked(bytes: &mut [u8], block: usize) {
    const CHECKSUM: std::ops::Range<usize> = 148..156;
    let Some(header) = bytes.get_mut(block * 512..block * 512 + 512) else { return };
    header[CHECKSUM].fill(b' ');
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(corpus::cases().min(1_000_000) / 4))]
    #[test]
    fn mutated(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(b'.'), Just(b'/'), Just(b'5'), Just(0), any::<u8>()]), 1..6),
    ) {
        let corpus = corpus::inputs("release_archive");
        let mut bytes = which.get(&corpus).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            checked(&mut bytes, at / 512);
        }
        release_archive::check(&bytes);
    }
}
