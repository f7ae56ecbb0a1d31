//! Names that clients ask for and that no route names: which of them the gateway looks up, and how many get a
//! certificate. Any client may ask for any name, so every number here is bounded. Pure: the time is an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::name::Name;
use crate::options::OrderRate;

/// Most names that are looked up at a time. A client that asks for another one gets no certificate for it.
pub(crate) const MAX_PENDING: usize = 64;
/// Most refused names that are remembered.
const MAX_REFUSED: usize = 4096;
/// How often refusals that are over are removed.
const TIDIED_EVERY: Duration = Duration::from_secs(1);

/// How long a refusal by `on_demand.ask` is remembered.
pub(crate) const REFUSED: Duration = Duration::from_secs(60);
/// How long it is remembered that `on_demand.ask` or the storage did not answer.
pub(crate) const UNANSWERED: Duration = Duration::from_secs(5);
/// Longest time for which a name whose order failed is refused without another lookup.
pub(crate) const FAILED_MAX: Duration = Duration::from_secs(3600);

/// Names that clients have asked for. `W` is what clients that ask for the same name wait with.
#[derive(Debug)]
pub(crate) struct Demands<W> {
    pending: HashMap<Name, W>,
    refused: HashMap<Name, Instant>,
    tidied: Option<Instant>,
}

/// What a client that asks for a name has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Demanded<W> {
    /// Wait: it is the first.
    First(W),
    /// Wait with others.
    Another(W),
    /// Go on without: the name gets no certificate now, or too many are being looked up.
    Refused,
}

impl<W: Clone> Demands<W> {
    pub(crate) fn new() -> Self {
        Self { pending: HashMap::new(), refused: HashMap::new(), tidied: None }
    }

    /// A client asks for a name.
    pub(crate) fn demand(&mut self, name: &Name, now: Instant, wait: impl FnOnce() -> W) -> Demanded<W> {
        if let Some(waits) = self.pending.get(name) {
            return Demanded::Another(waits.clone());
        }
        if self.refused.get(name).is_some_and(|until| now < *until) || self.pending.len() >= MAX_PENDING {
            return Demanded::Refused;
        }
        let wait = wait();
        self.pending.insert(name.clone(), wait.clone());
        Demanded::First(wait)
    }

    /// Ends the lookup of a name: it has a certificate (`None`), or is refused for a time.
    pub(crate) fn settle(&mut self, name: &Name, refused: Option<Duration>, now: Instant) {
        self.pending.remove(name);
        self.refused.remove(name);
        let Some(refused) = refused else { return };
        if self.refused.len() >= MAX_REFUSED {
            if self.tidied.is_none_or(|at| now.saturating_duration_since(at) >= TIDIED_EVERY) {
                self.refused.retain(|_, until| now < *until);
                self.tidied = Some(now);
            }
            // Any one of them: the next client that asks for it has it looked up again.
            let one = self.refused.keys().next().filter(|_| self.refused.len() >= MAX_REFUSED).cloned();
            one.and_then(|one| self.refused.remove(&one));
        }
        self.refused.insert(name.clone(), now + refused);
    }
}

/// How many names may still get a certificate: as many as the limit says at once, and then one after the other.
#[derive(Debug)]
pub(crate) struct Budget {
    rate: OrderRate,
    left: f64,
    filled: Instant,
}

impl Budget {
    pub(crate) fn new(rate: OrderRate, now: Instant) -> Self {
        Self { rate, left: f64::from(rate.count.get()), filled: now }
    }

    /// One more name.
    ///
    /// # Errors
    /// The limit is reached; there is room after this time.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let most = f64::from(self.rate.count.get());
        let each = self.rate.per.as_secs_f64() / most;
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        (self.left, self.filled) = ((self.left + passed / each).min(most), now);
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) * each));
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::name::Reach;

    fn name(number: usize) -> Name {
        Name::of_host(&format!("n{number}.example.org"), Reach::Public).unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn clients_that_ask_for_the_same_name_wait_together() {
        let (mut demands, now) = (Demands::new(), Instant::now());
        assert_eq!(demands.demand(&name(1), now, || 1), Demanded::First(1));
        assert_eq!(demands.demand(&name(1), now, || 2), Demanded::Another(1));
        assert_eq!(demands.demand(&name(2), now, || 3), Demanded::First(3));
        demands.settle(&name(1), None, now);
        assert_eq!(demands.demand(&name(1), now, || 4), Demanded::First(4));
    }

    #[test]
    fn a_refusal_is_remembered_for_its_time() {
        let (mut demands, now) = (Demands::new(), Instant::now());
        demands.demand(&name(1), now, || ());
        demands.settle(&name(1), Some(REFUSED), now);
        assert_eq!(demands.demand(&name(1), now + REFUSED - SECOND, || ()), Demanded::Refused);
        assert_eq!(demands.demand(&name(1), now + REFUSED, || ()), Demanded::First(()));
        demands.settle(&name(1), None, now + REFUSED);
        assert_eq!(demands.demand(&name(1), now + REFUSED, || ()), Demanded::First(()));
    }

    #[test]
    fn a_flood_of_names_is_bounded_in_every_place() {
        let (mut demands, now) = (Demands::new(), Instant::now());
        let begun = (0..1000).filter(|number| demands.demand(&name(*number), now, || ()) == Demanded::First(()));
        assert_eq!(begun.count(), MAX_PENDING);
        for number in 0..MAX_REFUSED * 2 {
            demands.settle(&name(number), Some(REFUSED), now);
        }
        assert_eq!((demands.pending.len(), demands.refused.len()), (0, MAX_REFUSED));
        demands.settle(&name(MAX_REFUSED * 2), Some(REFUSED), now + REFUSED);
        assert_eq!(demands.refused.len(), 1, "what is over is forgotten");
    }

    #[test]
    fn as_many_as_the_limit_says() {
        let now = Instant::now();
        let rate = OrderRate { count: NonZeroU32::new(10).unwrap(), per: SECOND * 60 };
        let mut budget = Budget::new(rate, now);
        let mut taken = |at: Duration| (0..1000).filter(|_| budget.take(now + at).is_ok()).count();
        assert_eq!(taken(Duration::ZERO), 10);
        assert_eq!(taken(SECOND * 6), 1);
        assert_eq!(taken(SECOND * 66), 10);
        assert_eq!(taken(SECOND * 10_000), 10, "what was not used is not saved for ever");
        let wait = budget.take(now + SECOND * 10_000).unwrap_err();
        assert!(wait <= SECOND * 6 && wait > SECOND * 5, "{wait:?}");
    }
}
