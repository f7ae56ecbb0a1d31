//! Request ids: 32 hexadecimal digits, or what the client sent if that is sane.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest id taken from a client.
const MAX_CLIENT_ID: usize = 128;

/// An id as text.
#[derive(Clone)]
pub(crate) enum RequestId {
    Ours([u8; 32]),
    Client(Box<[u8]>),
}

impl RequestId {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Ours(hex) => hex,
            Self::Client(value) => value,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// An id outside any worker, for answers to what was no request.
    pub(crate) fn random() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let seed = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        Self::Ours(hex(seed, COUNT.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Makes ids for one worker.
pub(crate) struct RequestIds {
    seed: u64,
    count: Cell<u64>,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        let random = || getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        Self { seed: random(), count: Cell::new(random()) }
    }

    /// The client's id if it is 1 to 128 visible ASCII characters, else a new one.
    pub(crate) fn id(&self, given: Option<&[u8]>) -> RequestId {
        if let Some(bytes) = given
            && (1..=MAX_CLIENT_ID).contains(&bytes.len())
            && bytes.iter().all(u8::is_ascii_graphic)
        {
            return RequestId::Client(bytes.into());
        }
        let count = self.count.get().wrapping_add(1);
        self.count.set(count);
        RequestId::Ours(hex(self.seed, count))
    }
}

/// Both digits of each byte.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

fn hex(high: u64, low: u64) -> [u8; 32] {
    let mut text = [0; 32];
    let bytes = high.to_be_bytes().into_iter().chain(mix(low).to_be_bytes());
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        let digits = PAIRS[usize::from(byte)];
        (pair[0], pair[1]) = (digits[0], digits[1]);
    }
    text
}

/// splitmix64's finalizer: a bijection, so that ids differ as long as counts do and do not look alike.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_their_order() {
        assert_eq!(hex(0x0123_4567_89ab_cdef, 0), *b"0123456789abcdef0000000000000000");
    }

    #[test]
    fn ids_differ_and_clients_ids_are_kept_if_sane() {
        let ids = RequestIds::new();
        let (a, b) = (ids.id(None), ids.id(None));
        assert_ne!(a.as_str(), b.as_str());
        assert!(a.as_str().len() == 32 && a.as_str().bytes().all(|c| c.is_ascii_hexdigit()));
        assert_eq!(ids.id(Some(b"abc-123")).as_str(), "abc-123");
        assert_ne!(ids.id(Some(b"with space")).as_str(), "with space");
    }
}
