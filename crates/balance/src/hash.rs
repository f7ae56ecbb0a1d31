//! Numbers that are the same in every gateway and every version: clients stay at their server across restarts.

/// FNV-1a, 64 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>), mixed so that every bit of it counts.
#[must_use]
pub fn key(bytes: &[u8]) -> u64 {
    let folded = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    mix(folded)
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a server scores for a key (weighted rendezvous hashing: −w / ln u). The highest takes it.
pub(crate) fn score(server: u64, key: u64, weight: u64) -> f64 {
    const STEPS: f64 = (1_u64 << 53) as f64;
    // 53 bits, never 0 and never 1: its logarithm is finite and below 0.
    let uniform = ((mix(server ^ key.rotate_left(32)) >> 11) as f64 + 0.5) / STEPS;
    -(weight as f64) / uniform.ln()
}
