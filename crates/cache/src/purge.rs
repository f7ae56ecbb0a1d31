//! Purges: an order of them, not a search for what they forbid (docs/adr/0020).
//!
//! ```text
//!  purge ──▶ next number ──▶ table: tag, URL, prefix, everything → number of its last purge
//!                                        ▲
//!  fetch begins ──▶ position (number) ───┤ once for each response, after a purge
//!  lookup: the response's number ≥ the epoch and ≥ that of its stripe?  yes: nothing has happened
//! ```
//!
//! A response carries the number that was current when its fetch *began*, so a response that was made before a purge
//! and is stored after it is found out, too. A lookup compares numbers; only after a purge it asks the table, and the
//! response remembers the result.
//!
//! There are two numberings: that of this cache, and that of a log which several caches share. Both only grow. A
//! position holds the last number of each that had been applied; what is read from the shared tier is judged by the
//! log's.
//!
//! Purges and gaps in what is known may concern any response: they raise one number, the epoch, however many responses
//! and stripes there are. A record of the shared tier that another node has replaced concerns few responses: it raises
//! the number of their stripe alone.
//!
//! Invariant: when [`Purges::apply`] has returned, no lookup that begins gives a response that it forbids.
//! Invariant: what the table has forgotten, it takes for purged: what may have been forbidden must be validated.

mod scope;
mod standing;
mod table;
mod tags;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use http::HeaderMap;

use crate::key::Key;
use crate::policy::Timestamp;
use table::{Numbering, Numbers, Subject, Table};
use tags::Tags;

pub use scope::{Address, Mode, Purge, Scope};
pub use standing::Standing;
pub use table::{MAX_PURGED_PREFIXES, MAX_PURGED_TAGS, MAX_PURGED_URLS, PurgeCounts};
pub use tags::{MAX_TAG_BYTES, MAX_TAGS, TagFields};
pub(crate) use tags::{invalidated_groups, is_tag_field, remove_tag_fields};

/// Where the order of purges was at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    local: u64,
    logged: u64,
}

impl Position {
    /// The number of the last purge of the shared log that this cache had applied, 0 if none.
    pub fn logged(self) -> u64 {
        self.logged
    }
}

/// What a stored response carries of purges.
#[derive(Debug)]
pub(crate) struct Mark {
    position: Position,
    /// Nothing up to this number forbids it.
    checked: AtomicU64,
    stripe: u32,
    tags: Tags,
    tag_fields: TagFields,
}

impl Mark {
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Bytes on the heap.
    pub(crate) fn weight(&self) -> usize {
        self.tags.weight()
    }

    /// Whether clients get the fields that hold tags.
    pub(crate) fn tag_fields(&self) -> TagFields {
        self.tag_fields
    }
}

/// The purges of a cache.
#[derive(Debug)]
pub struct Purges {
    /// The number of the last event.
    sequence: AtomicU64,
    /// The number of the last purge of the shared log that was applied.
    logged: AtomicU64,
    /// The number of the last event that may concern any response: a purge, or a gap in what is known.
    epoch: AtomicU64,
    /// For each stripe the number of the last replaced record. There are a power of two of them.
    stripes: Box<[AtomicU64]>,
    /// Written before the numbers above. They are written under its lock, too.
    table: RwLock<Table>,
    hasher: RandomState,
    /// None: there is no shared tier, and no log.
    record_name: Option<RecordName>,
    tag_fields: TagFields,
}

/// How a shared tier names the record of a key: what it tells of records, it tells by this number. See
/// [`Purges::replaced`].
pub type RecordName = fn(&Key<'_>) -> u64;

impl Purges {
    /// `stripes` is rounded up to a power of two; one is enough for a cache that shares nothing.
    pub(crate) fn new(stripes: usize, record_name: Option<RecordName>, tag_fields: TagFields) -> Self {
        let stripes = stripes.next_power_of_two();
        Self {
            sequence: AtomicU64::new(0),
            logged: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            stripes: (0..stripes).map(|_| AtomicU64::new(0)).collect(),
            table: RwLock::default(),
            hasher: RandomState::new(),
            record_name,
            tag_fields,
        }
    }

    /// What a fetch that begins now is to carry.
    pub fn position(&self) -> Position {
        // Each is a lower bound of its own, so their order does not matter.
        Position { local: self.sequence.load(Ordering::Acquire), logged: self.logged.load(Ordering::Acquire) }
    }

    /// Applies purges of this cache's own. In front of a shared tier each waits for its [`number`](Self::number): until
    /// then it forbids every record.
    pub fn apply(&self, purges: &[Purge], now: Timestamp) {
        self.write(purges.iter().map(|purge| (purge, 0)), now);
    }

    /// Applies purges of the shared log that others have made, with their numbers.
    pub fn apply_logged(&self, purges: &[(Purge, u64)], now: Timestamp) {
        self.write(purges.iter().map(|(purge, number)| (purge, *number)), now);
    }

    /// The shared log has this number for a purge that [`apply`](Self::apply) was given: records are judged by it from
    /// now on.
    pub fn number(&self, purge: &Purge, logged: u64) {
        self.locked().number(&self.hashed(purge), logged);
        self.logged.fetch_max(logged, Ordering::AcqRel);
    }

    /// Purges that wait for their numbers will never get one: a purge of everything is to stand for them, and waits in
    /// their place.
    pub fn fold(&self, purges: &[Purge]) {
        let mut table = self.locked();
        table.wait(&table::Hashed { what: table::What::Everything, mode: Mode::Hard });
        for purge in purges {
            table.number(&self.hashed(purge), 0);
        }
    }

    /// The shared log no longer has what is older than this number: a record that is older may have been purged.
    pub fn forget_logged(&self, number: u64) {
        self.locked().forget_logged(number);
        self.logged.fetch_max(number, Ordering::AcqRel);
    }

    /// Whatever is stored now may have been purged or replaced without this cache's having been told. Each response is
    /// validated before its next use.
    pub fn uncover(&self) {
        let mut table = self.locked();
        let next = self.next();
        table.uncovered = next;
        self.publish(next);
    }

    /// A record of the shared tier, known by its [name](RecordName), was replaced or removed by another node: what is
    /// stored here of the same key must be validated. So must what shares its stripe.
    pub fn replaced(&self, record_names: &[u64]) {
        let _table = self.locked();
        let next = self.next();
        for name in record_names {
            self.stripes[self.stripe(*name)].store(next, Ordering::Release);
        }
        self.sequence.store(next, Ordering::Release);
    }

    /// What purges say about a record of the shared tier that was fetched at this number of the log and has these
    /// fields.
    pub fn admits(&self, key: &Key<'_>, headers: &HeaderMap, logged: u64) -> Standing {
        let tags = Tags::of(headers, key, |tag| self.hash(tag));
        let subject = Subject { key, url: self.hash_url(key), tags: &tags };
        self.table().standing(Numbering::Logged, logged, &subject)
    }

    /// How much there was to do.
    pub fn counts(&self) -> PurgeCounts {
        self.table().counts()
    }

    /// What purges say about a stored response.
    #[inline]
    pub(crate) fn standing(&self, key: &Key<'_>, mark: &Mark) -> Standing {
        if mark.checked.load(Ordering::Relaxed) >= self.current(mark) { Standing::Good } else { self.check(key, mark) }
    }

    /// What a response with these fields, fetched at `position`, is to carry.
    pub(crate) fn mark(&self, key: &Key<'_>, headers: &HeaderMap, position: Position) -> Mark {
        self.mark_in(self.record_name.map_or(0, |name| self.stripe(name(key))), key, headers, position)
    }

    /// The same for a record of the shared tier, whose [name](RecordName) is known.
    pub(crate) fn mark_record(&self, name: u64, key: &Key<'_>, headers: &HeaderMap, position: Position) -> Mark {
        self.mark_in(self.stripe(name), key, headers, position)
    }

    fn mark_in(&self, stripe: usize, key: &Key<'_>, headers: &HeaderMap, position: Position) -> Mark {
        // At most as many stripes as fit into memory many times over.
        let stripe = stripe as u32;
        let tags = Tags::of(headers, key, |tag| self.hash(tag));
        Mark { position, checked: AtomicU64::new(position.local), stripe, tags, tag_fields: self.tag_fields }
    }

    #[cold]
    fn check(&self, key: &Key<'_>, mark: &Mark) -> Standing {
        let subject = Subject { key, url: self.hash_url(key), tags: &mark.tags };
        let table = self.table();
        let current = self.current(mark);
        let standing = table
            .standing(Numbering::Local, mark.position.local, &subject)
            .and(table.coverage(mark.position.local))
            .and(self.replacement(mark));
        if standing == Standing::Good {
            // Under the lock: nothing has been added to the table since the number was read.
            mark.checked.fetch_max(current, Ordering::Relaxed);
        }
        standing
    }

    /// What replaced records say about a response: nothing, or that it must be validated.
    fn replacement(&self, mark: &Mark) -> Standing {
        let replaced = self.stripes[mark.stripe as usize].load(Ordering::Acquire);
        if replaced > mark.position.local { Standing::Unknown } else { Standing::Good }
    }

    fn write<'p>(&self, purges: impl Iterator<Item = (&'p Purge, u64)>, now: Timestamp) {
        let mut table = self.locked();
        let next = self.next();
        let mut last = 0;
        for (purge, logged) in purges {
            let purge = self.hashed(purge);
            table.apply(&purge, Numbers { local: next, logged }, now);
            if logged == 0 && self.record_name.is_some() {
                table.wait(&purge);
            }
            last = last.max(logged);
        }
        self.logged.fetch_max(last, Ordering::AcqRel);
        self.publish(next);
    }

    /// The next number. The caller holds the lock for writing.
    fn next(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed) + 1
    }

    /// The number of the last event that may concern a response. Both numbers only grow, and are published after what
    /// they stand for.
    #[inline]
    fn current(&self, mark: &Mark) -> u64 {
        self.stripes[mark.stripe as usize].load(Ordering::Acquire).max(self.epoch.load(Ordering::Acquire))
    }

    /// An event that may concern any response has happened: one number, however many stripes there are.
    fn publish(&self, next: u64) {
        self.epoch.store(next, Ordering::Release);
        self.sequence.store(next, Ordering::Release);
    }

    fn hashed<'p>(&self, purge: &'p Purge) -> table::Hashed<'p> {
        let what = match &purge.scope {
            Scope::Url(Address { scheme, authority, target }) => {
                table::What::Url(self.hash_url(&Key { scheme, authority, target, extra: "" }))
            }
            Scope::Prefix(address) => table::What::Prefix(address),
            Scope::Tag(tag) => table::What::Tag(self.hash(tags::Named::Tag(tag.as_bytes()))),
            Scope::Group { scheme, authority, name } => {
                table::What::Tag(self.hash(tags::Named::Group { scheme, authority, name }))
            }
            Scope::Everything => table::What::Everything,
        };
        table::Hashed { what, mode: purge.mode }
    }

    fn hash(&self, name: tags::Named<'_>) -> u64 {
        self.hasher.hash_one(name)
    }

    fn hash_url(&self, key: &Key<'_>) -> u64 {
        self.hasher.hash_one((key.scheme, key.authority, key.target))
    }

    fn stripe(&self, name: u64) -> usize {
        // The mask leaves an index.
        name as usize & (self.stripes.len() - 1)
    }

    // A panic elsewhere does not spoil the table: it is consistent between any two statements.
    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}
