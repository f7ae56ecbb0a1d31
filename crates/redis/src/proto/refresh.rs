//! When the topology of a cluster is asked for again, and whom.
//!
//! One refresh runs at a time, in the background; commands never wait for it to be allowed. Two paces: a stale topology
//! that commands find their way around (`MOVED`) is renewed at most once in [`RefreshPolicy::min_interval`]; while a
//! node is gone and commands wait, the pace follows the age of the outage, so that a promotion is seen soon after it
//! happens without a long outage becoming a storm.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::retry::Refresh;
use crate::config::NodeAddress;

/// How often the topology may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefreshPolicy {
    /// Shortest time between refreshes that nobody waits for. Default 1 s.
    pub min_interval: Duration,
    /// Shortest time between refreshes that commands wait for, in the first moments of an outage. Default 50 ms.
    pub urgent_interval: Duration,
    /// The same later, until it is a long outage. Default 65 ms.
    pub outage_interval: Duration,
    /// The same while the nodes contradict each other, for a moment. Default 20 ms.
    pub dispute_interval: Duration,
    /// Longest pause while refreshes fail. Default 5 s.
    pub max_backoff: Duration,
    /// Time after which the topology is asked for unasked; sooner after it has changed. Default 60 s; `None`: only on
    /// demand.
    pub interval: Option<Duration>,
    /// How many nodes are asked at once, so that their views can be compared. Default 3.
    pub parallel: usize,
}

/// After so many disputed topologies in a row the pace is the usual one.
const MAX_DISPUTES: u32 = 5;

/// What to do now about the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a refresh: [`RefreshSchedule::sources`], ask them, then [`RefreshSchedule::finished`].
    Start,
    /// Nothing before that time, unless somebody requests one.
    WaitUntil(Instant),
    /// Nothing until something is requested or the running refresh ends.
    Wait,
}

/// How a refresh ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There is a topology, and it differs from the old one.
    Renewed,
    /// There is a topology, but it says what the old one said: what commands wait for has not happened yet.
    Unchanged,
    /// The same, but not all nodes that were asked say so: a change may be spreading among them.
    Disputed,
    /// Nobody answered with a topology.
    Failed,
}

/// The state machine: requests in, refreshes out.
#[derive(Debug)]
pub(crate) struct RefreshSchedule {
    policy: RefreshPolicy,
    rng: Rng,
    wanted: Refresh,
    running: bool,
    /// When the last refresh ended.
    last: Option<Instant>,
    outage: Option<Outage>,
    /// When the topology became another one.
    renewed: Option<Instant>,
    failures: u32,
    /// Disputed topologies, one after the other.
    disputes: u32,
    /// Random part of the pauses, drawn anew for each refresh.
    jitter: f64,
    /// Who was asked since a topology was last obtained.
    asked: Vec<NodeAddress>,
}

/// A time in which commands wait for the topology to change.
#[derive(Debug, Clone, Copy)]
struct Outage {
    since: Instant,
    last_request: Instant,
}

impl RefreshSchedule {
    /// Without a topology yet: the first refresh is due at once.
    #[must_use]
    pub(crate) fn new(policy: RefreshPolicy, mut rng: Rng) -> Self {
        let jitter = rng.f64();
        Self {
            policy,
            rng,
            wanted: Refresh::Urgent,
            running: false,
            last: None,
            outage: None,
            renewed: None,
            failures: 0,
            disputes: 0,
            jitter,
            asked: Vec::new(),
        }
    }

    /// Somebody found the topology stale. Requests are joined; one that comes while a refresh runs asks for another one
    /// after it.
    pub(crate) fn request(&mut self, now: Instant, how: Refresh) {
        self.wanted = self.wanted.max(how);
        if how == Refresh::Urgent {
            // Commands that wait ask again and again: after two quiet intervals it is another outage.
            let quiet = self.policy.min_interval * 2;
            let same = self.outage.filter(|outage| now.saturating_duration_since(outage.last_request) < quiet);
            self.outage = Some(Outage { since: same.map_or(now, |outage| outage.since), last_request: now });
        }
    }

    /// What to do at `now`.
    pub(crate) fn poll(&mut self, now: Instant) -> Action {
        if self.running {
            return Action::Wait;
        }
        match self.due() {
            Some(due) if due > now => Action::WaitUntil(due),
            None if self.last.is_some() => Action::Wait,
            Some(_) | None => {
                self.running = true;
                self.wanted = Refresh::No;
                Action::Start
            }
        }
    }

    /// Whom to ask in the refresh that starts, in this order: known nodes at random, then seeds; those last that were
    /// asked since the last topology. The first [`RefreshPolicy::parallel`] are asked at once, each of the others if
    /// one before it fails or is silent.
    pub(crate) fn sources(&mut self, known: &[NodeAddress], seeds: &[NodeAddress]) -> Vec<NodeAddress> {
        let mut known: Vec<_> = known.iter().collect();
        self.rng.shuffle(&mut known);
        let mut sources: Vec<NodeAddress> = Vec::new();
        for node in known.into_iter().chain(seeds) {
            if !sources.contains(node) {
                sources.push(node.clone());
            }
        }
        if sources.iter().all(|node| self.asked.contains(node)) {
            self.asked.clear();
        }
        sources.sort_by_key(|node| self.asked.contains(node));
        self.asked.extend(sources.iter().take(self.parallel()).cloned());
        sources
    }

    /// How many sources are asked at once.
    #[must_use]
    pub(crate) fn parallel(&self) -> usize {
        self.policy.parallel.max(1)
    }

    /// Whoever ran the refreshes was stopped, perhaps in the middle of one; another begins.
    pub(crate) fn restarted(&mut self) {
        self.running = false;
        self.wanted = Refresh::Urgent;
    }

    /// The running refresh ended.
    pub(crate) fn finished(&mut self, now: Instant, outcome: Outcome) {
        self.running = false;
        let is_first = self.last.replace(now).is_none();
        self.jitter = self.rng.f64();
        self.disputes = if outcome == Outcome::Disputed { self.disputes.saturating_add(1) } else { 0 };
        match outcome {
            Outcome::Renewed | Outcome::Unchanged | Outcome::Disputed => {
                self.failures = 0;
                self.asked.clear();
                if outcome == Outcome::Renewed {
                    // If commands go on asking, nodes do not agree, or another one is lost: neither the first pace nor
                    // that of a long outage.
                    if let Some(outage) = &mut self.outage {
                        outage.since =
                            now.checked_sub(self.policy.urgent_interval * 6).map_or(now, |then| then.max(outage.since));
                    }
                    self.renewed = Some(now).filter(|_| !is_first);
                }
            }
            Outcome::Failed => {
                self.failures = self.failures.saturating_add(1);
                self.wanted = self.wanted.max(Refresh::Soon);
            }
        }
    }

    /// When the next refresh may start; `None`: not before somebody requests one.
    fn due(&self) -> Option<Instant> {
        let last = self.last?;
        let pause = match self.wanted {
            Refresh::Urgent if self.failures > 0 => self.backoff().min(self.spread(self.policy.min_interval)),
            _ if self.failures > 0 => self.backoff(),
            Refresh::Urgent => self.urgent(last),
            Refresh::Soon => self.spread(self.policy.min_interval),
            Refresh::No => self.spread(self.unasked(last)?),
        };
        Some(last + pause)
    }

    /// 50 ms at first, for a failover that was asked for is over in a moment; 65 ms when it takes the servers longer,
    /// so that commands go on within 100 ms of a promotion; from 6.5 s on a hundredth of the outage's age: 150 ms after
    /// 15 s (their usual node time-out), a second after two minutes. Some nodes know of the successor already? Then all
    /// will in a moment; a node that is cut off contradicts for ever, and is not waited for.
    fn urgent(&self, last: Instant) -> Duration {
        if (1..=MAX_DISPUTES).contains(&self.disputes) {
            return self.spread(self.policy.dispute_interval.min(self.policy.min_interval));
        }
        let age = self.outage.map_or(Duration::ZERO, |outage| last.saturating_duration_since(outage.since));
        let RefreshPolicy { urgent_interval, outage_interval, .. } = self.policy;
        let pace = (age / 2).max(urgent_interval).min(outage_interval).max(age / 100);
        self.spread(pace.min(self.policy.min_interval))
    }

    /// A change is seldom the last: a replica that was promoted is followed by one that takes its place, once it has
    /// the data. So the topology is looked at again when it is a second old, two, four, up to the interval.
    fn unasked(&self, last: Instant) -> Option<Duration> {
        let interval = self.policy.interval?;
        let age = self.renewed.map_or(interval, |renewed| last.saturating_duration_since(renewed));
        Some(interval.min(age.max(self.policy.min_interval)))
    }

    fn backoff(&self) -> Duration {
        let doublings = 1_u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
        self.spread(self.policy.urgent_interval.saturating_mul(doublings).min(self.policy.max_backoff))
    }

    /// Up to a fifth longer, so that clients that started together do not ask together.
    fn spread(&self, pause: Duration) -> Duration {
        pause.mul_f64(1.0 + self.jitter / 5.0)
    }
}

impl Default for RefreshPolicy {
    fn default() -> Self {
        Self {
            min_interval: Duration::from_secs(1),
            urgent_interval: Duration::from_millis(50),
            outage_interval: Duration::from_millis(65),
            dispute_interval: Duration::from_millis(20),
            max_backoff: Duration::from_secs(5),
            interval: Some(Duration::from_secs(60)),
            parallel: 3,
        }
    }
}

#[cfg(test)]
mod tests;
