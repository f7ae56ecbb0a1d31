//! Ids of traces and spans.

use std::cell::Cell;

use crate::context::{SpanId, TraceId};

/// Makes ids, and random numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Each worker has its own, with a seed
/// from the system; nothing secret is made of it.
#[derive(Debug)]
pub struct IdSource(Cell<u64>);

impl IdSource {
    /// From a random seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A new trace. Its last seven bytes are random, as [`Flags::RANDOM`](crate::Flags::RANDOM) says.
    #[inline]
    pub fn trace_id(&self) -> TraceId {
        let mut bytes = [0; 16];
        let (high, low) = bytes.split_at_mut(8);
        high.copy_from_slice(&(self.next_u64() | 1).to_be_bytes()); // never all zeros
        low.copy_from_slice(&self.next_u64().to_be_bytes());
        TraceId(bytes)
    }

    /// A new span.
    #[inline]
    pub fn span_id(&self) -> SpanId {
        SpanId(self.next_u64().max(1).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ() {
        let ids = IdSource::new(7);
        let all: HashSet<TraceId> = (0..10_000).map(|_| ids.trace_id()).collect();
        assert_eq!(all.len(), 10_000);
        let all: HashSet<SpanId> = (0..10_000).map(|_| ids.span_id()).collect();
        assert_eq!(all.len(), 10_000);
    }
}
