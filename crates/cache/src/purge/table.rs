//! The table: for each thing that was purged the numbers of its last purges. Bounded; what is forgotten raises a floor.

use std::collections::HashMap;

use super::scope::{Address, Mode};
use super::standing::Standing;
use super::tags::Tags;
use crate::key::Key;
use crate::policy::Timestamp;

/// Tags and groups whose last purge is remembered. When there are more, the older half is forgotten, and responses with
/// tags that are older than that must be validated.
pub const MAX_PURGED_TAGS: usize = 65_536;
/// URLs whose last purge is remembered. When there are more, the older half is forgotten, and responses that are older
/// than that must be validated.
pub const MAX_PURGED_URLS: usize = 65_536;
/// Prefixes whose last purge is remembered. Each response is compared with those that came after it, once; when there
/// are more, the oldest is forgotten, and responses that are older than its purge must be validated.
pub const MAX_PURGED_PREFIXES: usize = 256;

/// How much there was to do, and is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeCounts {
    /// Purges applied since the start, those of other nodes included.
    pub applied: u64,
    /// Tags and groups whose last purge is remembered.
    pub tags: usize,
    /// URLs whose last purge is remembered.
    pub urls: usize,
    /// Prefixes whose last purge is remembered.
    pub prefixes: usize,
}

/// A purge whose names are hashed.
pub(super) struct Hashed<'p> {
    pub(super) what: What<'p>,
    pub(super) mode: Mode,
}

pub(super) enum What<'p> {
    Url(u64),
    Prefix(&'p Address),
    /// Or a group.
    Tag(u64),
    Everything,
}

/// Which of the two numberings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// This cache's own.
    Local,
    /// That of the shared log.
    Logged,
}

/// The numbers of one event; 0 where it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) local: u64,
    pub(super) logged: u64,
}

impl Numbers {
    fn by(self, numbering: Numbering) -> u64 {
        match numbering {
            Numbering::Local => self.local,
            Numbering::Logged => self.logged,
        }
    }

    fn raise(&mut self, to: Self) {
        self.local = self.local.max(to.local);
        self.logged = self.logged.max(to.logged);
    }
}

/// The last purges of one thing.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    hard: Numbers,
    soft: Numbers,
    soft_at: Timestamp,
    /// Purges that are made and have no number of the log yet.
    hard_waiting: u32,
    soft_waiting: u32,
}

impl Last {
    fn take(&mut self, mode: Mode, numbers: Numbers, now: Timestamp) {
        match mode {
            Mode::Hard => self.hard.raise(numbers),
            Mode::Soft => {
                self.soft.raise(numbers);
                self.soft_at = self.soft_at.max(now);
            }
        }
    }

    fn standing(&self, numbering: Numbering, since: u64) -> Standing {
        let waits = |count| numbering == Numbering::Logged && count > 0;
        if self.hard.by(numbering) > since || waits(self.hard_waiting) {
            Standing::Gone
        } else if self.soft.by(numbering) > since || waits(self.soft_waiting) {
            Standing::Stale(self.soft_at)
        } else {
            Standing::Good
        }
    }

    fn newest(&self) -> Numbers {
        let mut newest = self.hard;
        newest.raise(self.soft);
        newest
    }

    fn waiting(&mut self, mode: Mode) -> &mut u32 {
        match mode {
            Mode::Hard => &mut self.hard_waiting,
            Mode::Soft => &mut self.soft_waiting,
        }
    }

    fn is_waiting(&self) -> bool {
        self.hard_waiting > 0 || self.soft_waiting > 0
    }

    fn number(&mut self, mode: Mode, logged: u64) {
        let waiting = self.waiting(mode);
        *waiting = waiting.saturating_sub(1);
        self.take(mode, Numbers { local: 0, logged }, Timestamp::default());
    }
}

/// Names of one kind, by their hashes.
#[derive(Debug, Default)]
struct Names {
    last: HashMap<u64, Last>,
    /// What is older may have been purged.
    floor: Numbers,
}

impl Names {
    fn take(&mut self, name: u64, max: usize) -> &mut Last {
        if self.last.len() >= max && !self.last.contains_key(&name) {
            self.forget_half();
        }
        self.last.entry(name).or_default()
    }

    /// Halves, so that the price of the search is paid by as many purges.
    fn forget_half(&mut self) {
        let mut ages: Vec<u64> = self.last.values().map(|last| last.newest().local).collect();
        let middle = ages.len() / 2;
        let (_, &mut median, _) = ages.select_nth_unstable(middle);
        let floor = &mut self.floor;
        self.last.retain(|_, last| {
            // What waits is bounded by the queue that it waits in.
            let is_newer = last.newest().local > median || last.is_waiting();
            if !is_newer {
                floor.raise(last.newest());
            }
            is_newer
        });
    }

    fn standing(&self, name: u64, numbering: Numbering, since: u64) -> Standing {
        self.last.get(&name).map_or(Standing::Good, |last| last.standing(numbering, since))
    }

    fn forgotten(&self, numbering: Numbering, since: u64) -> Standing {
        if self.floor.by(numbering) > since { Standing::Unknown } else { Standing::Good }
    }
}

/// Who is judged.
pub(super) struct Subject<'a> {
    pub(super) key: &'a Key<'a>,
    pub(super) url: u64,
    pub(super) tags: &'a Tags,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Table {
    tags: Names,
    /// The newest purge of any tag, for responses that count as having every tag.
    any_tag: Last,
    urls: Names,
    /// By their local numbers, the oldest first.
    prefixes: Vec<(Address, Last)>,
    prefix_floor: Numbers,
    everything: Last,
    /// Purges of forgotten prefixes that wait for their numbers.
    orphans: u32,
    /// What is older may have been purged or replaced while nobody could tell.
    pub(super) uncovered: u64,
    applied: u64,
}

impl Table {
    pub(super) fn apply(&mut self, purge: &Hashed<'_>, numbers: Numbers, now: Timestamp) {
        let mode = purge.mode;
        self.applied += u64::from(numbers.local > 0);
        match purge.what {
            What::Everything => self.everything.take(mode, numbers, now),
            What::Url(url) => self.urls.take(url, MAX_PURGED_URLS).take(mode, numbers, now),
            What::Tag(tag) => {
                self.tags.take(tag, MAX_PURGED_TAGS).take(mode, numbers, now);
                self.any_tag.take(mode, numbers, now);
            }
            What::Prefix(prefix) => self.apply_prefix(prefix, mode, numbers, now),
        }
    }

    fn apply_prefix(&mut self, prefix: &Address, mode: Mode, numbers: Numbers, now: Timestamp) {
        let known = self.prefixes.iter().position(|(known, _)| known == prefix);
        let (prefix, mut last) = match known {
            Some(at) => self.prefixes.remove(at),
            None => (prefix.clone(), Last::default()),
        };
        last.take(mode, numbers, now);
        if self.prefixes.len() >= MAX_PURGED_PREFIXES {
            let (_, oldest) = self.prefixes.remove(0);
            self.prefix_floor.raise(oldest.newest());
            // Its numbers will come for a prefix that is not known any more.
            self.orphans += oldest.hard_waiting + oldest.soft_waiting;
        }
        self.prefixes.push((prefix, last));
    }

    /// A purge that was applied is to get a number of the log.
    pub(super) fn wait(&mut self, purge: &Hashed<'_>) {
        let mode = purge.mode;
        match self.last(&purge.what) {
            Some(last) => *last.waiting(mode) += 1,
            None => self.orphans += 1,
        }
        if let What::Tag(_) = purge.what {
            *self.any_tag.waiting(mode) += 1;
        }
    }

    /// It has got it.
    pub(super) fn number(&mut self, purge: &Hashed<'_>, logged: u64) {
        let mode = purge.mode;
        match self.last(&purge.what) {
            Some(last) => last.number(mode, logged),
            None => {
                self.orphans = self.orphans.saturating_sub(1);
                self.prefix_floor.raise(Numbers { local: 0, logged });
            }
        }
        if let What::Tag(_) = purge.what {
            self.any_tag.number(mode, logged);
        }
    }

    /// What is remembered of a thing. Only prefixes are forgotten before they have their numbers.
    fn last(&mut self, what: &What<'_>) -> Option<&mut Last> {
        match what {
            What::Everything => Some(&mut self.everything),
            What::Url(url) => Some(self.urls.last.entry(*url).or_default()),
            What::Tag(tag) => Some(self.tags.last.entry(*tag).or_default()),
            What::Prefix(prefix) => self.prefixes.iter_mut().find(|(known, _)| known == *prefix).map(|(_, last)| last),
        }
    }

    pub(super) fn forget_logged(&mut self, number: u64) {
        let floor = Numbers { local: 0, logged: number };
        self.tags.floor.raise(floor);
        self.urls.floor.raise(floor);
        self.prefix_floor.raise(floor);
    }

    /// What purges after `since` say about `subject`.
    pub(super) fn standing(&self, numbering: Numbering, since: u64, subject: &Subject<'_>) -> Standing {
        self.everything
            .standing(numbering, since)
            .and(self.urls.standing(subject.url, numbering, since))
            .and(self.urls.forgotten(numbering, since))
            .and(self.by_tags(numbering, since, subject.tags))
            .and(self.by_prefix(numbering, since, subject.key))
    }

    fn by_tags(&self, numbering: Numbering, since: u64, tags: &Tags) -> Standing {
        match tags {
            Tags::None => Standing::Good,
            Tags::These(tags) => tags
                .iter()
                .map(|tag| self.tags.standing(*tag, numbering, since))
                .fold(self.tags.forgotten(numbering, since), Standing::and),
            Tags::Every => self.any_tag.standing(numbering, since).and(self.tags.forgotten(numbering, since)),
        }
    }

    fn by_prefix(&self, numbering: Numbering, since: u64, key: &Key<'_>) -> Standing {
        let is_forgotten =
            self.prefix_floor.by(numbering) > since || (numbering == Numbering::Logged && self.orphans > 0);
        let floor = if is_forgotten { Standing::Unknown } else { Standing::Good };
        let newer = self.prefixes.iter().filter(|(_, last)| last.standing(numbering, since) != Standing::Good);
        let matching = newer.filter(|(prefix, _)| {
            prefix.authority == key.authority && key.target.starts_with(&prefix.target) && prefix.scheme == key.scheme
        });
        matching.map(|(_, last)| last.standing(numbering, since)).fold(floor, Standing::and)
    }

    /// What lost connections say about a response.
    pub(super) fn coverage(&self, since: u64) -> Standing {
        if self.uncovered > since { Standing::Unknown } else { Standing::Good }
    }

    pub(super) fn counts(&self) -> PurgeCounts {
        PurgeCounts {
            applied: self.applied,
            tags: self.tags.last.len(),
            urls: self.urls.last.len(),
            prefixes: self.prefixes.len(),
        }
    }
}
