//! Who leads, by a Lease of `coordination.k8s.io`. Pure: what to do with it, as seen now.
//!
//! Clocks of machines may differ, so a lease counts as expired when it has not changed for its duration as this process
//! has seen it, not by the times that are in it.

use std::time::Duration;

use crate::scale::Time;

/// For how long a lease holds without being renewed.
pub const DURATION: Duration = Duration::from_secs(15);
/// After how long without a renewal the leader no longer acts as one.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// How often it is looked at, and renewed.
pub const RETRY: Duration = Duration::from_secs(2);

/// What a lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Whose it is; empty: nobody's.
    pub holder: String,
    /// Changes with each renewal.
    pub renewed: String,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// There is none: make it.
    Create,
    /// It is ours, or nobody's, or of one who is gone: write our name.
    Take,
    /// Somebody else leads.
    Wait,
}

/// What this process knows of the lease.
#[derive(Debug, Default)]
pub struct Election {
    name: String,
    seen: Option<(Record, Time)>,
    renewed: Option<Time>,
}

impl Election {
    /// Of the process with this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// What to do about a lease that was read now.
    pub fn decide(&mut self, now: Time, found: Option<&Record>) -> Action {
        let Some(found) = found else { return Action::Create };
        let since = match &self.seen {
            Some((known, since)) if known == found => *since,
            _ => {
                self.seen = Some((found.clone(), now));
                now
            }
        };
        let is_free = found.holder.is_empty() || found.holder == self.name;
        if is_free || now.saturating_sub(since) >= DURATION { Action::Take } else { Action::Wait }
    }

    /// Our name was written; `begun` is when that was begun.
    pub fn taken(&mut self, begun: Time) {
        self.renewed = Some(begun);
    }

    /// It was not: somebody else was quicker.
    pub fn lost(&mut self) {
        self.renewed = None;
    }

    /// Whether this process leads.
    #[must_use]
    pub fn leads(&self, now: Time) -> bool {
        self.renewed.is_some_and(|renewed| now.saturating_sub(renewed) < DEADLINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn record(holder: &str, renewed: u32) -> Record {
        Record { holder: holder.to_owned(), renewed: renewed.to_string() }
    }

    #[test]
    fn the_first_makes_it_and_the_second_waits() {
        let (mut a, mut b) = (Election::new("a"), Election::new("b"));
        assert_eq!(a.decide(Time::ZERO, None), Action::Create);
        a.taken(Time::ZERO);
        assert_eq!(b.decide(S, Some(&record("a", 1))), Action::Wait);
        assert_eq!(a.decide(2 * S, Some(&record("a", 1))), Action::Take);
        assert!(a.leads(S) && !b.leads(S));
    }

    #[test]
    fn who_is_gone_is_replaced_after_the_duration_as_it_was_seen() {
        let mut b = Election::new("b");
        assert_eq!(b.decide(100 * S, Some(&record("a", 1))), Action::Wait);
        assert_eq!(b.decide(110 * S, Some(&record("a", 2))), Action::Wait);
        assert_eq!(b.decide(124 * S, Some(&record("a", 2))), Action::Wait);
        assert_eq!(b.decide(125 * S, Some(&record("a", 2))), Action::Take);
        assert_eq!(b.decide(100 * S, Some(&record("", 3))), Action::Take, "it was given back");
    }

    #[test]
    fn a_leader_that_cannot_renew_stops_before_another_begins() {
        let mut a = Election::new("a");
        a.taken(Time::ZERO);
        assert!(a.leads(9 * S));
        assert!(!a.leads(10 * S), "the lease of 15 s is still its own");
        a.taken(12 * S);
        assert!(a.leads(13 * S));
        a.lost();
        assert!(!a.leads(13 * S));
    }
}
