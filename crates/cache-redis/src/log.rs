//! The log of purges that all gateways share: one stream in Redis, in one slot. Here is what it consists of, and what
//! is to be done when it has lost its end; [`crate::coherence`] speaks to the server.
//!
//! ```text
//! PREFIX:p:{purges}:log         entries: `by` NODE COUNT, then a field for each purge: `hard tag` a, `soft url` http://…
//! PREFIX:p:{purges}:nodes       the names of the gateways that follow it
//! PREFIX:p:{purges}:node:NAME   the number up to which a gateway has applied it; expires
//! PREFIX:p:{purges}:records     a channel: records that were replaced, where the server refuses client tracking
//! ```
//!
//! The number of an entry is its id, in one word: milliseconds and a count within them. Ids grow by themselves, also
//! after a failover that has lost some, as far as the servers' clocks agree; where they do not, [`History::compare`]
//! finds out.
//!
//! What cannot be read is taken for a purge of everything: it may come from a newer version.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use pilotlight_cache::{Address, Mode, Purge, Scope};
use pilotlight_redis::reply::StreamEntry;

/// Entries of the log, about: older ones are trimmed away by the server. A gateway that was away for longer validates
/// everything it has.
pub const MAX_LOG_ENTRIES: i64 = 16_384;
/// Entries that a gateway remembers, in case a failover loses them.
pub const MAX_REMEMBERED_ENTRIES: usize = 1024;

/// Bits of a number that count within a millisecond: those above are good for more than 500 years.
const COUNT_BITS: u32 = 20;
const BY: &[u8] = b"by";

/// The names of what is in Redis.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) log: String,
    pub(crate) nodes: String,
    pub(crate) records: String,
    node: String,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        let name = |what: &str| format!("{prefix}:p:{{purges}}:{what}");
        Self { log: name("log"), nodes: name("nodes"), records: name("records"), node: name("node:") }
    }

    pub(crate) fn node(&self, name: &str) -> String {
        format!("{}{name}", self.node)
    }
}

/// The number of an id.
pub(crate) fn number(id: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(id).ok()?;
    let (milliseconds, count) = text.split_once('-')?;
    let (milliseconds, count): (u64, u64) = (milliseconds.parse().ok()?, count.parse().ok()?);
    let milliseconds = milliseconds.min(u64::MAX >> COUNT_BITS);
    Some(milliseconds << COUNT_BITS | count.min((1 << COUNT_BITS) - 1))
}

/// The id of a number.
pub(crate) fn id(number: u64) -> String {
    format!("{}-{}", number >> COUNT_BITS, number & ((1 << COUNT_BITS) - 1))
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    /// Who has appended it, and which of his it is; the same for one that was appended again. Empty: a mark without
    /// meaning of its own.
    pub(crate) by: Bytes,
    pub(crate) purges: Vec<Purge>,
}

impl Entry {
    pub(crate) fn read(entry: &StreamEntry) -> Self {
        // An id that cannot be read is no server's.
        let number = number(&entry.id).unwrap_or(u64::MAX);
        let by = entry.get(BY).cloned().unwrap_or_default();
        let fields = entry.fields.iter().filter(|(name, _)| &name[..] != BY);
        let unreadable = || Purge { scope: Scope::Everything, mode: Mode::Hard };
        let purges = fields.map(|(name, value)| purge(name, value).unwrap_or_else(unreadable));
        Self { number, purges: purges.collect(), by }
    }
}

/// The fields of an entry.
pub(crate) fn fields(by: &[u8], purges: &[Purge]) -> Vec<(Bytes, Bytes)> {
    let mut fields = vec![(Bytes::from_static(BY), Bytes::copy_from_slice(by))];
    fields.extend(purges.iter().map(|Purge { scope, mode }| {
        let (kind, value) = match scope {
            Scope::Url(address) => ("url", address.to_string()),
            Scope::Prefix(address) => ("prefix", address.to_string()),
            Scope::Tag(tag) => ("tag", tag.clone()),
            Scope::Group { scheme, authority, name } => ("group", format!("{scheme}://{authority}/{name}")),
            Scope::Everything => ("everything", String::new()),
        };
        let mode = match mode {
            Mode::Hard => "hard",
            Mode::Soft => "soft",
        };
        (Bytes::from(format!("{mode} {kind}")), Bytes::from(value))
    }));
    fields
}

fn purge(name: &[u8], value: &[u8]) -> Option<Purge> {
    let (mode, kind) = std::str::from_utf8(name).ok()?.split_once(' ')?;
    let mode = match mode {
        "hard" => Mode::Hard,
        "soft" => Mode::Soft,
        _ => return None,
    };
    let value = std::str::from_utf8(value).ok()?;
    let address = || {
        let (scheme, rest) = value.split_once("://")?;
        let (authority, target) = rest.split_at(rest.find('/')?);
        Some(Address { scheme: scheme.into(), authority: authority.into(), target: target.into() })
    };
    let scope = match kind {
        "url" => Scope::Url(address()?),
        "prefix" => Scope::Prefix(address()?),
        "tag" => Scope::Tag(value.to_owned()),
        "group" => {
            let Address { scheme, authority, target } = address()?;
            Scope::Group { scheme, authority, name: target.get(1..)?.to_owned() }
        }
        "everything" => Scope::Everything,
        _ => return None,
    };
    Some(Purge { scope, mode })
}

/// What a gateway has applied of the log.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The number of the last entry; 0 before the first.
    applied: u64,
    recent: VecDeque<Entry>,
    /// Entries before the recent ones are not remembered any more.
    has_forgotten: bool,
}

/// What a log that lacks the last entry applied means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// To be applied, in this order.
    pub(crate) fresh: Vec<Entry>,
    /// A mark with this number is to be appended, so that no new entry gets a number that an old one had.
    pub(crate) raise_to: Option<u64>,
    /// To be appended again: the log has lost them, or has given them numbers that are too small.
    pub(crate) again: Vec<Entry>,
    /// Entries before this one are gone, which may never have been applied here.
    pub(crate) forgotten: Option<u64>,
}

impl History {
    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    pub(crate) fn note(&mut self, entry: Entry) {
        self.applied = self.applied.max(entry.number);
        if entry.by.is_empty() {
            return;
        }
        // Appended again: it is remembered once.
        if let Some(known) = self.recent.iter().position(|known| known.by == entry.by) {
            self.recent.remove(known);
        }
        if self.recent.len() >= MAX_REMEMBERED_ENTRIES {
            self.recent.pop_front();
            self.has_forgotten = true;
        }
        self.recent.push_back(entry);
    }

    /// What is to be done about a log, all of it, that does not have the last entry that was applied here, or of which
    /// nothing was applied yet.
    pub(crate) fn compare(&self, log: Vec<Entry>, max_entries: usize) -> Difference {
        let first = log.first().map(|entry| entry.number);
        // The server leaves as many or a few more.
        let may_be_trimmed = log.len() >= max_entries;
        if self.applied == 0 {
            return Difference { forgotten: first.filter(|_| may_be_trimmed), fresh: log, ..Difference::default() };
        }
        let last = log.last().map_or(0, |entry| entry.number);
        let known: HashSet<&Bytes> = self.recent.iter().map(|entry| &entry.by).collect();
        let there: HashSet<&Bytes> = log.iter().map(|entry| &entry.by).collect();
        // What was trimmed away is not lost.
        let begins = first.filter(|_| may_be_trimmed).unwrap_or(0);
        let lost = self.recent.iter().filter(|entry| entry.number >= begins && !there.contains(&entry.by));
        let mut again: Vec<Entry> = lost.cloned().collect();
        let oldest_known = self.recent.front().map_or(0, |entry| entry.number);
        let is_fresh =
            |entry: &&Entry| entry.number > self.applied || (entry.number > oldest_known && !known.contains(&entry.by));
        let fresh: Vec<Entry> = log.iter().filter(is_fresh).cloned().collect();
        // Appended after the loss, with numbers that records may already have.
        again.extend(fresh.iter().filter(|entry| entry.number <= self.applied && !entry.by.is_empty()).cloned());
        let is_shorter_than_memory = self.has_forgotten && last < oldest_known;
        if is_shorter_than_memory {
            let everything = Purge { scope: Scope::Everything, mode: Mode::Hard };
            let by = Bytes::from(format!("repair {}", self.applied));
            again.push(Entry { number: self.applied, by, purges: vec![everything] });
        }
        let is_lost = !again.is_empty() || last < self.applied;
        Difference {
            fresh,
            raise_to: (is_lost && last <= self.applied).then_some(self.applied + 1),
            again,
            forgotten: first.filter(|first| *first > self.applied && may_be_trimmed),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(number: u64, by: &'static str) -> Entry {
        let purges = vec![Purge { scope: Scope::Tag(by.to_owned()), mode: Mode::Hard }];
        Entry { number, by: Bytes::from_static(by.as_bytes()), purges }
    }

    /// What is done by one that has applied `applied` when it finds `log`: fresh, mark, again, forgotten.
    #[track_caller]
    fn check(
        applied: &[(u64, &'static str)],
        log: &[(u64, &'static str)],
        expected: (&[&str], Option<u64>, &[&str], Option<u64>),
    ) {
        let mut history = History::default();
        applied.iter().for_each(|(number, by)| history.note(entry(*number, by)));
        let found = history.compare(log.iter().map(|(number, by)| entry(*number, by)).collect(), 4);
        let names = |entries: &[Entry]| -> Vec<String> {
            entries.iter().map(|entry| String::from_utf8_lossy(&entry.by).into_owned()).collect()
        };
        let found = (names(&found.fresh), found.raise_to, names(&found.again), found.forgotten);
        let (fresh, raise_to, again, forgotten) = expected;
        let own = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(found, (own(fresh), raise_to, own(again), forgotten));
    }

    #[test]
    fn the_first_look() {
        check(&[], &[], (&[], None, &[], None));
        check(&[], &[(3, "a"), (5, "b")], (&["a", "b"], None, &[], None));
        check(&[], &[(3, "a"), (4, "b"), (5, "c"), (6, "d")], (&["a", "b", "c", "d"], None, &[], Some(3)));
    }

    #[test]
    fn a_log_that_has_lost_its_end_gets_it_again() {
        let applied = &[(3, "a"), (5, "b"), (7, "c")];
        check(applied, &[(3, "a")], (&[], Some(8), &["b", "c"], None));
        check(applied, &[], (&[], Some(8), &["a", "b", "c"], None));
        // Others have appended since: with a later clock, with one that is behind.
        check(applied, &[(3, "a"), (9, "d")], (&["d"], None, &["b", "c"], None));
        check(applied, &[(3, "a"), (6, "d")], (&["d"], Some(8), &["b", "c", "d"], None));
        // Another one has repaired it already.
        check(applied, &[(3, "a"), (8, ""), (9, "b"), (10, "c")], (&["", "b", "c"], None, &[], None));
    }

    #[test]
    fn a_log_that_was_trimmed_is_not_lost() {
        let log = &[(8, "d"), (9, "e"), (10, "f"), (11, "g")];
        check(&[(3, "a"), (5, "b")], log, (&["d", "e", "f", "g"], None, &[], Some(8)));
    }

    #[test]
    fn what_is_no_longer_remembered_is_everything() {
        let mut history = History::default();
        for number in 1..=MAX_REMEMBERED_ENTRIES as u64 + 5 {
            history.note(Entry { by: Bytes::from(number.to_string()), ..entry(number, "") });
        }
        let found = history.compare(vec![Entry { by: Bytes::from_static(b"1"), ..entry(1, "") }], 4);
        let last = found.again.last().unwrap();
        assert_eq!(last.purges, [Purge { scope: Scope::Everything, mode: Mode::Hard }]);
        assert_eq!(found.again.len(), MAX_REMEMBERED_ENTRIES + 1);
    }

    #[test]
    fn what_cannot_be_read_is_everything() {
        let everything = vec![Purge { scope: Scope::Everything, mode: Mode::Hard }];
        for field in ["firm tag", "soft colour", "hard", "soft url"] {
            let fields = vec![
                (Bytes::from_static(BY), Bytes::from_static(b"x 1")),
                (Bytes::from(field), Bytes::from_static(b"v")),
            ];
            let read = Entry::read(&StreamEntry { id: Bytes::from_static(b"5-1"), fields });
            assert_eq!((read.number, read.purges), (5 << COUNT_BITS | 1, everything.clone()), "{field}");
        }
    }

    fn scope() -> impl Strategy<Value = Scope> {
        let address = || {
            ("[a-z.:0-9]{1,8}", "/[ -~é]{0,8}").prop_map(|(authority, target)| Address {
                scheme: "http".into(),
                authority,
                target,
            })
        };
        prop_oneof![
            address().prop_map(Scope::Url),
            address().prop_map(Scope::Prefix),
            "[ -~é/]{1,8}".prop_map(Scope::Tag),
            ("[a-z.:0-9]{1,8}", "[ -~/]{1,8}").prop_map(|(authority, name)| Scope::Group {
                scheme: "http".into(),
                authority,
                name
            }),
            Just(Scope::Everything),
        ]
    }

    proptest! {
        #[test]
        fn entries_are_read_as_they_were_written(
            scopes in proptest::collection::vec((scope(), any::<bool>()), 0..5),
            number in any::<u64>(),
        ) {
            let mode = |soft| if soft { Mode::Soft } else { Mode::Hard };
            let purges: Vec<Purge> = scopes.into_iter().map(|(scope, soft)| Purge { scope, mode: mode(soft) }).collect();
            let written = StreamEntry { id: Bytes::from(id(number)), fields: fields(b"node 7", &purges) };
            prop_assert_eq!(Entry::read(&written), Entry { number, by: Bytes::from_static(b"node 7"), purges });
        }

        #[test]
        fn numbers_are_in_the_order_of_ids(a in (0..1u64 << 43, 0..1u64 << 20), b in (0..1u64 << 43, 0..1u64 << 20)) {
            let of = |(milliseconds, count): (u64, u64)| number(format!("{milliseconds}-{count}").as_bytes()).unwrap();
            prop_assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
        }
    }
}
