//! The entries that a consumer has, and until when they are certainly its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HeldEntries(Mutex<HashMap<Bytes, Arc<Claim>>>);

/// A consumer's claim to one entry.
#[derive(Debug)]
pub(super) struct Claim {
    /// By this process's clock.
    until: Mutex<Instant>,
    /// The server says that it is not the consumer's any more.
    is_lost: AtomicBool,
}

impl HeldEntries {
    /// An entry was delivered. If it was held before, by somebody who was too slow, it is not any more.
    pub(super) fn take(&self, id: Bytes, until: Instant) -> Arc<Claim> {
        let claim = Arc::new(Claim { until: Mutex::new(until), is_lost: AtomicBool::new(false) });
        if let Some(before) = self.0.lock().insert(id, Arc::clone(&claim)) {
            before.lose();
        }
        claim
    }

    /// It is acknowledged, or given up.
    pub(super) fn release(&self, id: &Bytes, claim: &Arc<Claim>) {
        let mut entries = self.0.lock();
        if entries.get(id).is_some_and(|held| Arc::ptr_eq(held, claim)) {
            entries.remove(id);
        }
    }

    /// All of them.
    pub(super) fn ids(&self) -> Vec<Bytes> {
        self.0.lock().keys().cloned().collect()
    }

    /// Of `asked`, those that are not in `gone` are the consumer's until then.
    pub(super) fn note(&self, asked: &[Bytes], gone: &[Bytes], until: Instant) {
        let mut entries = self.0.lock();
        for id in asked {
            if gone.contains(id) {
                if let Some(claim) = entries.remove(id) {
                    claim.lose();
                }
            } else if let Some(claim) = entries.get(id) {
                *claim.until.lock() = until;
            }
        }
    }
}

impl Claim {
    /// Whether it is certainly the consumer's, at `now`.
    pub(super) fn is_good(&self, now: Instant) -> bool {
        !self.is_lost.load(Ordering::Relaxed) && now < *self.until.lock()
    }

    fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_claim_is_good_until_it_is_late_or_lost() {
        let (held, now) = (HeldEntries::default(), Instant::now());
        let second = Duration::from_secs(1);
        let ids = ["1-0", "2-0"].map(Bytes::from_static_str);
        let claims = ids.clone().map(|id| held.take(id, now + second));
        assert!(claims[0].is_good(now) && !claims[0].is_good(now + second));
        held.note(&ids, &ids[..1], now + 2 * second);
        assert_eq!((claims[0].is_good(now), claims[1].is_good(now + second)), (false, true));
        assert_eq!(held.ids(), ids[1..]);
    }

    #[test]
    fn who_was_too_slow_does_not_let_go_of_its_successors_entry() {
        let (held, now) = (HeldEntries::default(), Instant::now());
        let id = Bytes::from_static(b"1-0");
        let until = now + Duration::from_secs(1);
        let (first, second) = (held.take(id.clone(), until), held.take(id.clone(), until));
        assert_eq!((first.is_good(now), second.is_good(now)), (false, true));
        held.release(&id, &first);
        assert_eq!(held.ids(), std::slice::from_ref(&id));
        held.release(&id, &second);
        assert!(held.ids().is_empty());
    }

    trait StaticText {
        fn from_static_str(text: &'static str) -> Bytes;
    }

    impl StaticText for Bytes {
        fn from_static_str(text: &'static str) -> Bytes {
            Bytes::from_static(text.as_bytes())
        }
    }
}
