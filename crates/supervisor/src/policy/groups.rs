//! Services that share a budget: which instance may start now, and which must make room.
//!
//! ```text
//!  used    = every process of the group that has not exited, those that end included
//!  staying = used without those that end: what will be left when they have gone
//!  first    requests wait and the service has no instance: strictly in the order in which they began to wait
//!  more     it has one and wants another, or people asked for a start: free room, and that of idle instances
//!  kept     nobody waits (`min_instances`, `spare`): free room only
//! ```
//! Who makes room: the idle instance that was used least recently, then busy ones. A busy one is left alone for
//! `grace`, which counts from when it became ready and from when the request began to wait for which it would have to
//! go, whichever was later. So a swap gives an instance at least `grace`, and nobody waits for ever.
//!
//! Invariant: nothing is granted that does not fit beside all that still runs.
//! Invariant: what is free, or will be, is kept for the first who waits; nobody behind takes it.

use std::time::{Duration, Instant};

/// Between two looks at whether those who wait at a busy instance for longer have been answered: nobody tells of it.
const BACKLOG_PAUSE: Duration = Duration::from_millis(50);

/// What the services of a group may use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) max_running: Option<u32>,
    /// Bytes.
    pub(crate) memory: Option<u64>,
    /// How long a busy instance is left alone.
    pub(crate) grace: Duration,
}

/// What instances use of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) running: u32,
    pub(crate) memory: u64,
}

/// An instance of a service of the group, until its process has exited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) service: usize,
    pub(crate) memory: u64,
    pub(crate) standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has no answer to give yet, and nobody takes its place before it could.
    Starting,
    Ready {
        since: Instant,
        last_use: Instant,
        is_busy: bool,
        /// Since when the first request waits that it or another instance of its service is to answer.
        waited_for: Option<Instant>,
    },
    /// It takes no more requests; its room will be free.
    Ending,
}

/// A service that wants to start instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) service: usize,
    pub(crate) need: Need,
    /// Since when it is wanted: since its first request waits.
    pub(crate) since: Instant,
    /// How many.
    pub(crate) count: u32,
    /// What each takes.
    pub(crate) memory: u64,
}

/// How much a start is needed; the order in which it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    First,
    More,
    Kept,
}

/// A group at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) budget: Budget,
    pub(crate) members: Vec<Member>,
    /// One for each service at most.
    pub(crate) wants: Vec<Want>,
    /// Since when more runs than the budget allows, which is so only after it was made smaller.
    pub(crate) over_since: Option<Instant>,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Services, and how many instances each may start now.
    pub(crate) grants: Vec<(usize, u32)>,
    /// Instances that make room.
    pub(crate) drain: Vec<u64>,
    /// What is used or kept for somebody.
    taken: Usage,
    /// More runs than the budget allows.
    pub(crate) is_over: bool,
    /// When to decide again, if nothing else happens before.
    pub(crate) look_at: Option<Instant>,
}

impl Budget {
    /// Whether so much may be used at once.
    pub(crate) fn fits(&self, usage: Usage) -> bool {
        self.max_running.is_none_or(|max| usage.running <= max) && self.memory.is_none_or(|max| usage.memory <= max)
    }
}

impl Usage {
    pub(crate) fn with(self, memory: u64) -> Self {
        Self { running: self.running.saturating_add(1), memory: self.memory.saturating_add(memory) }
    }

    pub(crate) fn without(self, memory: u64) -> Self {
        Self { running: self.running.saturating_sub(1), memory: self.memory.saturating_sub(memory) }
    }
}

impl Decision {
    /// How many instances the service may start now.
    pub(crate) fn granted(&self, service: usize) -> u32 {
        self.grants.iter().find(|(other, _)| *other == service).map_or(0, |(_, count)| *count)
    }

    /// Whether one more fits that nobody waits for: the successor of one that runs, or a release that is tried.
    pub(crate) fn has_room(&self, budget: &Budget, memory: u64) -> bool {
        budget.fits(self.taken.with(memory))
    }
}

impl Group {
    pub(crate) fn used(&self) -> Usage {
        self.members.iter().fold(Usage::default(), |usage, member| usage.with(member.memory))
    }

    /// Decides.
    pub(crate) fn decide(&self, now: Instant) -> Decision {
        let mut round =
            Round { group: self, now, used: self.used(), staying: self.staying(), done: Decision::default() };
        round.done.is_over = !self.budget.fits(round.staying);
        if round.done.is_over {
            round.shrink();
        }
        let mut wants: Vec<&Want> = self.wants.iter().collect();
        wants.sort_by_key(|want| (want.need, want.since, want.service));
        for want in wants {
            round.serve(want);
        }
        round.done.taken = round.used;
        round.done
    }

    fn staying(&self) -> Usage {
        let staying = self.members.iter().filter(|member| member.standing != Standing::Ending);
        staying.fold(Usage::default(), |usage, member| usage.with(member.memory))
    }
}

/// One decision as it is made.
struct Round<'a> {
    group: &'a Group,
    now: Instant,
    /// With what was granted, or is kept for the first who waits.
    used: Usage,
    staying: Usage,
    done: Decision,
}

/// For whom room is made.
#[derive(Clone, Copy)]
struct Reason {
    /// Its own instances stay.
    service: Option<usize>,
    need: Need,
    since: Instant,
}

impl Round<'_> {
    /// The budget has become smaller.
    fn shrink(&mut self) {
        let since = self.group.over_since.unwrap_or(self.now);
        let reason = Reason { service: None, need: Need::First, since };
        let leaving = self.leaving(reason, Usage::default());
        self.drain(leaving);
    }

    /// Grants what there is room for, and makes room.
    fn serve(&mut self, want: &Want) {
        let (budget, mut count) = (&self.group.budget, 0);
        while count < want.count && budget.fits(self.used.with(want.memory)) {
            (self.used, self.staying) = (self.used.with(want.memory), self.staying.with(want.memory));
            count += 1;
        }
        if count > 0 {
            self.done.grants.push((want.service, count));
        }
        if count == want.count || want.need == Need::Kept {
            return;
        }
        let more = Usage::default().with(want.memory);
        let reason = Reason { service: Some(want.service), need: want.need, since: want.since };
        let leaving = if budget.fits(self.staying.with(want.memory)) { Vec::new() } else { self.leaving(reason, more) };
        self.drain(leaving);
        // Kept for it, so that it is not overtaken for ever by those who need less.
        if want.need == Need::First || budget.fits(self.staying.with(want.memory)) {
            (self.used, self.staying) = (self.used.with(want.memory), self.staying.with(want.memory));
        }
    }

    /// The instances that make room for so much more; none if that would not be enough.
    fn leaving(&mut self, reason: Reason, more: Usage) -> Vec<Member> {
        let (mut candidates, mut later) = (Vec::<(bool, Instant, Member)>::new(), None::<Instant>);
        for member in &self.group.members {
            let Standing::Ready { since, last_use, is_busy, waited_for } = member.standing else { continue };
            let is_own = reason.service == Some(member.service);
            if is_own || self.done.drain.contains(&member.id) || (is_busy && reason.need != Need::First) {
                continue;
            }
            let grace_over = since.max(reason.since) + self.group.budget.grace;
            // Those who have waited for longer are answered first.
            let is_behind = reason.service.is_some() && waited_for.is_some_and(|other| other < reason.since);
            let safe_until = if is_behind { grace_over.max(self.now + BACKLOG_PAUSE) } else { grace_over };
            if is_behind || (is_busy && safe_until > self.now) {
                later = Some(later.map_or(safe_until, |at| at.min(safe_until)));
            } else {
                candidates.push((is_busy, if is_busy { since } else { last_use }, *member));
            }
        }
        candidates.sort_by_key(|(is_busy, since, member)| (*is_busy, *since, member.id));
        let is_enough = |left: Usage| {
            let running = left.running.saturating_add(more.running);
            self.group.budget.fits(Usage { running, memory: left.memory.saturating_add(more.memory) })
        };
        let (mut left, mut leaving) = (self.staying, Vec::new());
        for (_, _, member) in candidates {
            if is_enough(left) {
                break;
            }
            left = left.without(member.memory);
            leaving.push(member);
        }
        if !is_enough(left) {
            self.done.look_at = self.done.look_at.into_iter().chain(later).min();
            let is_shrinking = reason.service.is_none();
            return if is_shrinking { leaving } else { Vec::new() };
        }
        // A later one may be so large that an earlier one can stay: the one used most recently first.
        for index in (0..leaving.len()).rev() {
            if is_enough(left.with(leaving[index].memory)) {
                left = left.with(leaving.remove(index).memory);
            }
        }
        leaving
    }

    fn drain(&mut self, leaving: Vec<Member>) {
        for member in leaving {
            self.staying = self.staying.without(member.memory);
            self.done.drain.push(member.id);
        }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
