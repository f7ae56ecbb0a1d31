//! The table: for each thing that was purged the numbers of its last purges. Bounded; what is forgotten raises a floor.

use std::collections::HashMap;

use super::tags::Tags;
use super::{Address, Mode, PurgeCounts, Standing};
use crate::key::Key;
use crate::policy::Timestamp;

/// Tags and groups whose last purge is remembered. When there are more, the older half is forgotten, and responses with tags that are older than that
/// must be validated.
pub const MAX_PURGED_TAGS: usize = 65_536;
/// URLs whose last purge is remembered. When there are more, the older half is forgotten, and responses that are older than that must be validated.
pub const MAX_PURGED_URLS: usize = 65_536;
/// Prefixes whose last purge is remembered. Each response is compared with those that came after it, once; when there are more, the oldest is
/// forgotten, and responses that are older than its purge must be validated.
pub const MAX_PURGED_PREFIXES: usize = 256;

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
        if self.hard.by(numbering) > since {
            Standing::Gone
        } else if self.soft.by(numbering) > since {
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

    fn has(&self, mode: Mode, logged: u64) -> bool {
        match mode {
            Mode::Hard => self.hard.logged >= logged,
            Mode::Soft => self.soft.logged >= logged,
        }
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
            let is_newer = last.newest().local > median;
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
#[derive(Debug)]
pub(super) struct Table {
    tags: Names,
    /// The newest purge of any tag, for responses that count as having every tag.
    any_tag: Last,
    urls: Names,
    /// By their local numbers, the oldest first.
    prefixes: Vec<(Address, Last)>,
    prefix_floor: Numbers,
    everything: Last,
    /// What is older may have been purged or replaced while nobody could tell.
    pub(super) uncovered: u64,
    /// For each stripe the number of the last replacement of a record.
    pub(super) replaced: Box<[u64]>,
    applied: u64,
}

impl Table {
    pub(super) fn new(stripes: usize) -> Self {
        Self {
            tags: Names::default(),
            any_tag: Last::default(),
            urls: Names::default(),
            prefixes: Vec::new(),
            prefix_floor: Numbers::default(),
            everything: Last::default(),
            uncovered: 0,
            replaced: vec![0; stripes].into(),
            applied: 0,
        }
    }

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
        }
        self.prefixes.push((prefix, last));
    }

    /// Whether a purge of the log with this number, or a later one of the same, was applied.
    pub(super) fn knows(&self, purge: &Hashed<'_>, logged: u64) -> bool {
        let last = match purge.what {
            What::Everything => Some(&self.everything),
            What::Url(url) => self.urls.last.get(&url),
            What::Tag(tag) => self.tags.last.get(&tag),
            What::Prefix(prefix) => self.prefixes.iter().find(|(known, _)| known == prefix).map(|(_, last)| last),
        };
        last.is_some_and(|last| last.has(purge.mode, logged))
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
        let floor = if self.prefix_floor.by(numbering) > since { Standing::Unknown } else { Standing::Good };
        let newer = self.prefixes.iter().rev().filter(|(_, last)| last.newest().by(numbering) > since);
        let matching = newer.filter(|(prefix, _)| {
            prefix.authority == key.authority && key.target.starts_with(&prefix.target) && prefix.scheme == key.scheme
        });
        matching.map(|(_, last)| last.standing(numbering, since)).fold(floor, Standing::and)
    }

    /// What lost connections and other nodes' writes say about a response of a stripe.
    pub(super) fn coverage(&self, stripe: usize, since: u64) -> Standing {
        let replaced = self.replaced.get(stripe).is_some_and(|number| *number > since);
        if replaced || self.uncovered > since { Standing::Unknown } else { Standing::Good }
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
