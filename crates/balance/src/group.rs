//! The servers of one service.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use crate::budget::{Budget, RetryCounts};
use crate::hash::{self, mix, score};
use crate::health::{Change, Health, Settings, State, Verdict};
use crate::time::Ms;
use crate::tried::Tried;

/// Most servers of one group.
pub const MAX_SERVERS: usize = 1024;

/// Largest weight.
pub const MAX_WEIGHT: u32 = 1000;

/// Candidates of one choice that need no memory from the heap.
const INLINE_CANDIDATES: usize = 64;

/// What a group is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server<'a> {
    /// Its name, which decides about its keys.
    pub address: &'a str,
    /// Its share of the requests, 1 to [`MAX_WEIGHT`].
    pub weight: u32,
    /// Servers with a larger number get what those with a smaller one cannot take: they were tried, are left out or
    /// have as many requests as they may.
    pub priority: u16,
}

impl<'a> Server<'a> {
    /// A server of the first priority.
    #[must_use]
    pub fn new(address: &'a str, weight: u32) -> Self {
        Self { address, weight, priority: 0 }
    }

    /// The same with another priority.
    #[must_use]
    pub fn of_priority(self, priority: u16) -> Self {
        Self { priority, ..self }
    }
}

/// What is known when a server is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// The time.
    pub now: Ms,
    /// 64 random bits.
    pub chance: u64,
    /// Of what goes to one server: [`key`](crate::key) of a client's address, say. Without it, the server with fewer
    /// open requests of two takes it.
    pub key: Option<u64>,
    /// The server that its client had before: it stays there while that one has room and is not left out.
    pub at: Option<usize>,
    /// Where the request was before. They are asked again only if there are no others.
    pub tried: Tried,
}

/// The servers of one service, as all workers see them. It does not change; another list is another group, which
/// shares with this one what is known of the servers that are in both ([`with`](Self::with)).
///
/// Invariant: a server has one number for as long as it is in the groups that follow one another, and no other server
/// has had it.
#[derive(Debug)]
pub struct Group {
    servers: Box<[Place]>,
    /// Those that servers have, the first one first.
    priorities: SmallVec<[u16; 2]>,
    settings: Settings,
    budget: Arc<Budget>,
    /// The number of the next server that is new.
    next: u64,
}

/// A server's place in one group.
#[derive(Debug)]
struct Place {
    member: Arc<Member>,
    weight: u64,
    priority: u16,
}

/// What is known of a server, whichever groups it is in. Two cache lines: the processor fetches them in pairs.
#[repr(align(128))]
#[derive(Debug)]
struct Member {
    open: AtomicU32,
    hash: u64,
    health: Health,
    number: u64,
    address: Box<str>,
}

/// A server that may be chosen, and what it weighs now.
#[derive(Clone, Copy, Default)]
struct Candidate {
    index: usize,
    weight: u64,
}

/// Those of one choice.
struct Candidates {
    all: SmallVec<[Candidate; INLINE_CANDIDATES]>,
    weight: u64,
}

impl Group {
    /// A group of the first [`MAX_SERVERS`] of `servers`, which have different addresses.
    #[must_use]
    pub fn new(servers: &[Server<'_>], settings: Settings) -> Self {
        Self::of(servers, settings, Arc::default(), 0, |_| None)
    }

    /// The group that follows this one. A server with the address of one that is here is the same server, whose
    /// requests, failures and health go on to count. One that joins others begins slowly
    /// ([`slow_start`](Settings::slow_start)).
    #[must_use]
    pub fn with(&self, servers: &[Server<'_>], settings: Settings, now: Ms) -> Self {
        let known: HashMap<&str, &Arc<Member>> =
            self.servers.iter().map(|place| (&*place.member.address, &place.member)).collect();
        let group = Self::of(servers, settings, Arc::clone(&self.budget), self.next, |address| {
            known.get(address).map(|member| Arc::clone(member))
        });
        let is_new = |place: &&Place| !self.servers.is_empty() && place.member.number >= self.next;
        group.servers.iter().filter(is_new).for_each(|place| place.member.health.joins(now));
        group
    }

    fn of(
        servers: &[Server<'_>],
        settings: Settings,
        budget: Arc<Budget>,
        mut next: u64,
        known: impl Fn(&str) -> Option<Arc<Member>>,
    ) -> Self {
        let mut place = |server: &Server<'_>| {
            let member = known(server.address).unwrap_or_else(|| {
                next += 1;
                Arc::new(Member::new(server.address, next - 1))
            });
            Place { member, weight: u64::from(server.weight.clamp(1, MAX_WEIGHT)), priority: server.priority }
        };
        let servers: Box<[Place]> = servers.iter().take(MAX_SERVERS).map(&mut place).collect();
        let mut priorities: SmallVec<[u16; 2]> = servers.iter().map(|place| place.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        Self { servers, priorities, settings, budget, next }
    }

    /// Whether it has no server.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The number of a server, which it keeps in the groups that follow.
    #[must_use]
    pub fn number(&self, index: usize) -> u64 {
        self.servers.get(index).map_or(u64::MAX, |place| place.member.number)
    }

    /// The index of the server that takes a request, which counts as open there until [`ended`](Self::ended). `None`:
    /// those that it may go to have [`max_open`](Settings::max_open).
    #[must_use]
    pub fn choose(&self, ask: Ask) -> Option<usize> {
        loop {
            let candidates = self.candidates(&ask);
            let index = match ask.key {
                _ if candidates.all.is_empty() => return None,
                _ if candidates.all.len() == 1 => candidates.all[0].index,
                _ if candidates.have(ask.at) => ask.at?,
                None => self.least_of_two(&candidates, ask.chance),
                Some(key) => self.of_key(&candidates, key),
            };
            // Another worker may have filled or tried it meanwhile: then it is no candidate the next time.
            let member = &self.servers.get(index)?.member;
            if !member.health.lets_try(ask.now) {
                continue;
            }
            if member.open(self.settings.max_open) {
                self.count(&ask);
                return Some(index);
            }
        }
    }

    fn count(&self, ask: &Ask) {
        if ask.tried == Tried::default() {
            self.budget.began(ask.now);
        } else {
            self.budget.retried(ask.now);
        }
    }

    /// Whether a request may be sent again: see [`Retries`](crate::Retries).
    #[must_use]
    pub fn may_retry(&self, now: Ms) -> bool {
        self.budget.has_room(self.settings.retries, now)
    }

    /// A request was not sent again, because there were too many.
    pub fn refused_retry(&self) {
        self.budget.refused();
    }

    /// Requests that were sent again, and those that were not for want of budget.
    #[must_use]
    pub fn retries(&self) -> RetryCounts {
        self.budget.counts()
    }

    /// A request has left the server: its response is whole, or was given up.
    pub fn ended(&self, index: usize) {
        if let Some(member) = self.member(index) {
            // Never below 0, whatever the caller does.
            let _ = member.open.fetch_update(Relaxed, Relaxed, |open| open.checked_sub(1));
        }
    }

    /// It answered. Returns whether it had been ejected.
    pub fn answered(&self, index: usize) -> bool {
        self.member(index).is_some_and(|member| member.health.answered())
    }

    /// It could not be asked, or gave no answer. Returns whether it is ejected by this.
    pub fn failed(&self, index: usize, now: Ms) -> bool {
        self.member(index).is_some_and(|member| member.health.failed(&self.settings, now))
    }

    /// It took no connection: for a quarter of a second no request goes there, and then one at a time until it has
    /// answered.
    pub fn refused(&self, index: usize, now: Ms) {
        if let Some(member) = self.member(index) {
            member.health.refused(now);
        }
    }

    /// Whether there is no server, or none that takes connections.
    #[must_use]
    pub fn takes_none(&self, now: Ms) -> bool {
        self.servers.iter().all(|place| place.member.health.refuses(now))
    }

    /// A health request came to this. Returns what changes by it.
    pub fn examined(&self, index: usize, verdict: Verdict, now: Ms) -> Change {
        self.member(index).map_or(Change::None, |member| member.health.examined(verdict, &self.settings, now))
    }

    /// Whether there is a server that gets requests, and that this one was not sent to.
    #[must_use]
    pub fn has_others(&self, tried: Tried, now: Ms) -> bool {
        let is_in = |index: usize| !self.is_ejected(index, now) && !self.refuses(index, now);
        (0..self.servers.len()).any(|index| !tried.has(self.number(index)) && is_in(index))
    }

    /// Requests that are open there.
    #[must_use]
    pub fn open(&self, index: usize) -> u32 {
        self.member(index).map_or(0, |member| member.open.load(Relaxed))
    }

    /// Whether it gets requests.
    #[must_use]
    pub fn state(&self, index: usize, now: Ms) -> State {
        self.member(index).map_or(State::In, |member| member.health.state(now))
    }

    /// Whether it is left out.
    #[must_use]
    pub fn is_ejected(&self, index: usize, now: Ms) -> bool {
        self.member(index).is_some_and(|member| member.health.is_ejected(now))
    }

    fn refuses(&self, index: usize, now: Ms) -> bool {
        self.member(index).is_some_and(|member| member.health.refuses(now))
    }

    fn member(&self, index: usize) -> Option<&Member> {
        self.servers.get(index).map(|place| &*place.member)
    }

    /// Those that were not tried and are not ejected; those that are not ejected; or, if all are, those that were not
    /// tried; or all. Of each only those that have room and did not refuse a connection just now, and of these those of
    /// the first priority.
    fn candidates(&self, ask: &Ask) -> Candidates {
        let is_full = |index: usize| self.settings.max_open.is_some_and(|max| self.open(index) >= max);
        let has_room = |index: usize| !is_full(index) && !self.refuses(index, ask.now);
        let is_new = |index: usize| !ask.tried.has(self.number(index)) && has_room(index);
        let is_in = |index: usize| !self.is_ejected(index, ask.now);
        let mut found = self.gather(ask.now, |index| is_new(index) && is_in(index));
        if found.all.is_empty() {
            found = self.gather(ask.now, |index| is_in(index) && has_room(index));
        }
        // One that is full is waited for rather than one asked that is left out.
        let is_waited_for = |index: usize| is_in(index) && !self.refuses(index, ask.now);
        if found.all.is_empty() && !(0..self.servers.len()).any(is_waited_for) {
            found = self.gather(ask.now, is_new);
            if found.all.is_empty() {
                found = self.gather(ask.now, has_room);
            }
        }
        found
    }

    /// Those of the first priority of which there is one.
    fn gather(&self, now: Ms, takes: impl Fn(usize) -> bool) -> Candidates {
        let mut found = Candidates { all: SmallVec::new(), weight: 0 };
        for priority in &self.priorities {
            let of_it = self.servers.iter().enumerate().filter(|(_, place)| place.priority == *priority);
            for (index, place) in of_it.filter(|(index, _)| takes(*index)) {
                let weight = place.weight * place.member.health.share(&self.settings, now);
                found.all.push(Candidate { index, weight });
                found.weight += weight;
            }
            if !found.all.is_empty() {
                break;
            }
        }
        found
    }

    /// Two different ones are drawn by their weights; the first of them unless the other has fewer open requests for
    /// what it weighs.
    fn least_of_two(&self, candidates: &Candidates, chance: u64) -> usize {
        let first = candidates.draw(chance, None);
        let second = candidates.draw(mix(chance), Some(first));
        let (one, other) = (candidates.all[first], candidates.all[second]);
        let load = |candidate: Candidate| u64::from(self.open(candidate.index));
        let is_fuller = load(one) * other.weight > load(other) * one.weight;
        if is_fuller { other.index } else { one.index }
    }

    /// The one with the highest score that has room: 1.25 times its share of what is open with this request.
    fn of_key(&self, candidates: &Candidates, key: u64) -> usize {
        let each = &candidates.all;
        let open: u64 = each.iter().map(|candidate| u64::from(self.open(candidate.index))).sum();
        let has_room = |candidate: &Candidate| {
            let own = u64::from(self.open(candidate.index));
            own * 4 * candidates.weight < (open + 1) * 5 * candidate.weight
        };
        let scores = each.iter().filter(|candidate| has_room(candidate)).map(|candidate| {
            let server = self.member(candidate.index).map_or(0, |member| member.hash);
            (candidate.index, score(server, key, candidate.weight))
        });
        let best = scores.max_by(|(_, one), (_, other)| one.total_cmp(other));
        best.map_or(each[0].index, |(index, _)| index)
    }
}

impl Member {
    fn new(address: &str, number: u64) -> Self {
        let (open, hash) = (AtomicU32::new(0), hash::key(address.as_bytes()));
        Self { open, hash, health: Health::default(), number, address: address.into() }
    }

    /// Counts one more, unless there are as many as may be.
    fn open(&self, max: Option<u32>) -> bool {
        let Some(max) = max else {
            self.open.fetch_add(1, Relaxed);
            return true;
        };
        self.open.fetch_update(Relaxed, Relaxed, |open| (open < max).then(|| open + 1)).is_ok()
    }
}

impl Candidates {
    fn have(&self, index: Option<usize>) -> bool {
        self.all.iter().any(|candidate| Some(candidate.index) == index)
    }

    /// The place of one, by weight, among all but `without`.
    fn draw(&self, chance: u64, without: Option<usize>) -> usize {
        let left = self.weight - without.map_or(0, |place| self.all[place].weight);
        let mut at = chance % left.max(1);
        for (place, candidate) in self.all.iter().enumerate() {
            if Some(place) == without {
                continue;
            }
            if at < candidate.weight {
                return place;
            }
            at -= candidate.weight;
        }
        0 // not reachable: `at` is below the sum
    }
}

#[cfg(test)]
mod tests;
