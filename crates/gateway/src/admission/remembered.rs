//! What was found out about requests, for a while: by a keyed hash of what it was found out from, so that nothing that
//! is remembered can be read, or used elsewhere.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::hmac;
use rustc_hash::FxHashMap;

use crate::timing::{Moment, nanos};

/// The keyed hash of what something was found out from.
type Proof = [u8; 32];

/// See the module.
pub(crate) struct Remembered<T> {
    /// Of this process and route alone. `None`: there are no random numbers, and nothing is remembered.
    key: Option<hmac::Key>,
    known: Mutex<Known<T>>,
}

struct Known<T> {
    all: FxHashMap<Proof, (u64, T)>,
    /// When what is over was taken away.
    swept_ns: u64,
}

impl<T: Clone> Remembered<T> {
    /// How much is remembered for a route. What comes when it is full is not.
    const MAX: usize = 16_384;
    /// How often what is over is looked for while it is full.
    const SWEEP_EVERY_NS: u64 = 1_000_000_000;

    pub(crate) fn new() -> Self {
        let mut seed = [0; 32];
        let key = getrandom::fill(&mut seed).is_ok().then(|| hmac::Key::new(hmac::HMAC_SHA256, &seed));
        Self { key, known: Mutex::new(Known { all: FxHashMap::default(), swept_ns: 0 }) }
    }

    /// A proof of these parts, in this order.
    pub(crate) fn proof<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Option<Proof> {
        let mut context = hmac::Context::with_key(self.key.as_ref()?);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        context.sign().as_ref().try_into().ok()
    }

    pub(crate) fn find(&self, proof: &Proof, now: Moment) -> Option<T> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.all.get(proof).filter(|(until, _)| *until > now.as_ns()).map(|(_, known)| known.clone())
    }

    pub(crate) fn put(&self, proof: Proof, what: T, time: Duration) {
        let now = Moment::now().as_ns();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.all.len() >= Self::MAX && now.saturating_sub(known.swept_ns) >= Self::SWEEP_EVERY_NS {
            known.swept_ns = now;
            known.all.retain(|_, (until, _)| *until > now);
        }
        if known.all.len() < Self::MAX {
            known.all.insert(proof, (now.saturating_add(nanos(time)), what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_known_for_its_time() {
        let all = Remembered::new();
        let proof = |parts: &[&str]| all.proof(parts.iter().map(|part| part.as_bytes())).unwrap();
        assert_ne!(proof(&["ab", "c"]), proof(&["a", "bc"]));
        assert_ne!(proof(&["a"]), Remembered::<()>::new().proof([&b"a"[..]]).unwrap(), "another route's");
        let (one, now) = (proof(&["a"]), Moment::now());
        all.put(one, 7, Duration::from_secs(10));
        assert_eq!(all.find(&one, now), Some(7));
        assert_eq!(all.find(&proof(&["b"]), now), None);
        assert_eq!(all.find(&one, now + Duration::from_secs(11)), None);
        for other in 0..2 * Remembered::<i32>::MAX {
            all.put(proof(&[&other.to_string()]), 8, Duration::from_secs(10));
        }
        assert_eq!(all.known.lock().unwrap().all.len(), Remembered::<i32>::MAX);
        assert_eq!(all.find(&one, now), Some(7), "what is known is not displaced");
    }
}
