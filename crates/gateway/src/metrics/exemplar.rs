//! Exemplars: for each power of two of a histogram the last sampled request in it, so that a slow bucket leads to a
//! trace.
//!
//! A slot has one writer and any number of readers, without a lock: its version is odd while it is being written, and
//! a reader that finds it odd or changed does without the exemplar (a sequence lock whose words are all atomic).

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use pilotlight_cache::Timestamp;
use pilotlight_traces::{SpanId, TraceContext, TraceId};

/// A request that is an example of how long things took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exemplar {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) ns: u64,
    /// When it was over.
    pub(crate) at: Timestamp,
}

impl Exemplar {
    pub(crate) fn of(context: &TraceContext, ns: u64, at: Timestamp) -> Self {
        Self { trace_id: context.trace_id, span_id: context.span_id, ns, at }
    }
}

/// One slot for each of `N` ranges: 48 bytes each once there was an exemplar, two words before.
#[derive(Debug)]
pub(super) struct Exemplars<const N: usize>(OnceLock<Box<[Slot; N]>>);

impl<const N: usize> Default for Exemplars<N> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<const N: usize> Exemplars<N> {
    /// Only for its one writer.
    pub(super) fn set(&self, at: usize, exemplar: &Exemplar) {
        let slots = self.0.get_or_init(|| Box::new(std::array::from_fn(|_| Slot::default())));
        if let Some(slot) = slots.get(at) {
            slot.set(exemplar);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Option<Exemplar>> {
        self.0.get().into_iter().flat_map(|slots| slots.iter().map(Slot::value))
    }
}

/// Trace (two words), span, nanoseconds, milliseconds since 1970.
const WORDS: usize = 5;

#[derive(Debug, Default)]
struct Slot {
    /// 0: empty; odd: being written.
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Slot {
    fn set(&self, exemplar: &Exemplar) {
        let trace = u128::from_be_bytes(*exemplar.trace_id.as_bytes());
        let span = u64::from_be_bytes(*exemplar.span_id.as_bytes());
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release); // the odd version is seen by all who see one of the words
        let words = [(trace >> 64) as u64, trace as u64, span, exemplar.ns, exemplar.at.0];
        self.words.iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
        self.version.store(version.wrapping_add(2), Release);
    }

    fn value(&self) -> Option<Exemplar> {
        let version = self.version.load(Acquire);
        let [high, low, span, ns, at] = std::array::from_fn(|word| self.words[word].load(Relaxed));
        fence(Acquire); // the words are read before the version is read again
        if version == 0 || version % 2 == 1 || self.version.load(Relaxed) != version {
            return None;
        }
        let trace = u128::from(high) << 64 | u128::from(low);
        let (trace_id, span_id) = (TraceId::from_bytes(trace.to_be_bytes())?, SpanId::from_bytes(span.to_be_bytes())?);
        Some(Exemplar { trace_id, span_id, ns, at: Timestamp(at) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exemplar(number: u64) -> Exemplar {
        let trace = u128::from(number) << 64 | u128::from(number);
        Exemplar {
            trace_id: TraceId::from_bytes(trace.to_be_bytes()).unwrap(),
            span_id: SpanId::from_bytes(number.to_be_bytes()).unwrap(),
            ns: number,
            at: Timestamp(number),
        }
    }

    #[test]
    fn the_last_one_is_kept() {
        let exemplars = Exemplars::<3>::default();
        assert_eq!(exemplars.all().count(), 0);
        exemplars.set(1, &exemplar(7));
        exemplars.set(1, &exemplar(8));
        exemplars.set(9, &exemplar(9)); // there is no such place
        assert_eq!(exemplars.all().collect::<Vec<_>>(), [None, Some(exemplar(8)), None]);
    }

    #[test]
    fn none_is_read_in_halves() {
        let slot = Slot::default();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (1..200_000).for_each(|number| slot.set(&exemplar(number))));
            while !writer.is_finished() {
                if let Some(read) = slot.value() {
                    assert_eq!(read, exemplar(read.ns));
                }
            }
        });
        assert_eq!(slot.value(), Some(exemplar(199_999)));
    }
}
