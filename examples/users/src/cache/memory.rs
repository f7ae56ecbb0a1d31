//! Users in this process. It sees what other processes write into the same database only after the TTL.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quick_cache::sync::{Cache, EntryAction, EntryResult};
use quick_cache::{DefaultHashBuilder, Weighter};

use super::{LEASE, Lease, Lookup};

/// What an entry takes besides its bytes, about.
const OVERHEAD_BYTES: u64 = 128;
/// For the first size of tables.
const EXPECTED_BYTES: u64 = OVERHEAD_BYTES + 200;

#[derive(Clone, Debug)]
enum Entry {
    User {
        bytes: Bytes,
        until: Instant,
    },
    Lease {
        token: u64,
        until: Instant,
    },
    /// Writes that are under way.
    Claim {
        writes: usize,
    },
}

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<i64, Entry> for ByBytes {
    fn weight(&self, _: &i64, entry: &Entry) -> u64 {
        match entry {
            Entry::User { bytes, .. } => OVERHEAD_BYTES + bytes.len() as u64,
            Entry::Lease { .. } => OVERHEAD_BYTES,
            // What weighs nothing is never evicted. There are no more of these than requests.
            Entry::Claim { .. } => 0,
        }
    }
}

/// Shared by the threads of a process.
#[derive(Debug)]
pub(crate) struct Memory {
    entries: Cache<i64, Entry, ByBytes, DefaultHashBuilder>,
}

/// A write under way; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    memory: Arc<Memory>,
    id: i64,
}

impl Memory {
    pub(super) fn new(max_bytes: u64) -> Self {
        let items = usize::try_from(max_bytes / EXPECTED_BYTES).unwrap_or(usize::MAX).clamp(16, 1 << 20);
        Self { entries: Cache::with_weighter(items, max_bytes, ByBytes) }
    }

    pub(super) fn look_up(&self, id: i64, now: Instant) -> Lookup {
        if let Some(Entry::User { bytes, until }) = self.entries.get(&id)
            && now < until
        {
            return Lookup::Hit(bytes);
        }
        let lease = Lease::new(now);
        let mine = Entry::Lease { token: lease.token, until: now + LEASE };
        let found = self.entries.entry(&id, None, |_, entry| {
            EntryAction::Retain(match entry {
                Entry::User { bytes, until } if now < *until => Lookup::Hit(bytes.clone()),
                Entry::Lease { until, .. } if now < *until => Lookup::Miss(None),
                Entry::Claim { .. } => Lookup::Miss(None),
                expired => {
                    *expired = mine.clone();
                    Lookup::Miss(Some(Lease { ..lease }))
                }
            })
        });
        match found {
            EntryResult::Retained(lookup) => lookup,
            EntryResult::Vacant(place) => Lookup::Miss(place.insert(mine).is_ok().then_some(lease)),
            EntryResult::Removed(..) | EntryResult::Replaced(..) | EntryResult::Timeout => Lookup::Miss(None),
        }
    }

    pub(super) fn keep(&self, id: i64, lease: &Lease, bytes: &Bytes, now: Instant) {
        let Some(ttl) = lease.ttl(now) else { return };
        // The user is put in the place of its lease, not written over it: what an entry grows by in its place evicts
        // nothing.
        let place = self.entries.entry(&id, None, |_, entry| match entry {
            Entry::Lease { token, .. } if *token == lease.token => EntryAction::ReplaceWithGuard,
            _ => EntryAction::Retain(()),
        });
        match place {
            EntryResult::Replaced(place, _) => {
                // An error: it has been removed since, and is not kept.
                let _ = place.insert(Entry::User { bytes: bytes.clone(), until: now + ttl });
            }
            // Its lease was evicted, is another's, or had to yield to a claim: it stays as it is.
            EntryResult::Vacant(_) | EntryResult::Retained(()) | EntryResult::Removed(..) | EntryResult::Timeout => {}
        }
    }

    pub(super) fn claim(self: &Arc<Self>, id: i64) -> Claim {
        while !self.claimed(id) {}
        Claim { memory: Arc::clone(self), id }
    }

    /// Counts one more write. `false`: somebody was in the way.
    fn claimed(&self, id: i64) -> bool {
        let entry = self.entries.entry(&id, None, |_, entry| {
            match entry {
                Entry::Claim { writes } => *writes += 1,
                user_or_lease => *user_or_lease = Entry::Claim { writes: 1 },
            }
            EntryAction::Retain(())
        });
        match entry {
            EntryResult::Retained(()) => true,
            EntryResult::Vacant(place) => place.insert(Entry::Claim { writes: 1 }).is_ok(),
            EntryResult::Removed(..) | EntryResult::Replaced(..) | EntryResult::Timeout => false,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.memory.entries.entry(&self.id, None, |_, entry| match entry {
            Entry::Claim { writes } if *writes > 1 => {
                *writes -= 1;
                EntryAction::Retain(())
            }
            _ => EntryAction::Remove,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::TTL;

    #[test]
    fn users_and_leases_expire() {
        let (memory, start) = (Memory::new(1 << 20), Instant::now());
        let Lookup::Miss(Some(lease)) = memory.look_up(1, start) else { panic!("a lease") };
        assert!(matches!(memory.look_up(1, start), Lookup::Miss(None)));
        let Lookup::Miss(Some(next)) = memory.look_up(1, start + LEASE) else { panic!("its time was over") };
        let user = Bytes::from_static(b"{}");
        memory.keep(1, &lease, &user, start + LEASE);
        assert!(matches!(memory.look_up(1, start + LEASE), Lookup::Miss(None)), "another has the lease");
        memory.keep(1, &next, &user, start + LEASE);
        assert!(matches!(memory.look_up(1, start + LEASE), Lookup::Hit(_)));
        assert!(matches!(memory.look_up(1, start + LEASE + TTL), Lookup::Miss(Some(_))));
    }

    #[test]
    fn a_claim_stays_as_long_as_a_write_and_is_never_evicted() {
        let (memory, now) = (Arc::new(Memory::new(10_000)), Instant::now());
        let (one, other) = (memory.claim(-1), memory.claim(-1));
        drop(one);
        for id in 0..1000 {
            if let Lookup::Miss(Some(lease)) = memory.look_up(id, now) {
                memory.keep(id, &lease, &Bytes::from_static(&[b' '; 100]), now);
            }
        }
        assert!(matches!(memory.look_up(-1, now + TTL), Lookup::Miss(None)));
        drop(other);
        assert!(matches!(memory.look_up(-1, now), Lookup::Miss(Some(_))));
    }

    #[test]
    fn it_keeps_to_its_bytes() {
        let (memory, now) = (Memory::new(100_000), Instant::now());
        for id in 0..2000 {
            if let Lookup::Miss(Some(lease)) = memory.look_up(id, now) {
                memory.keep(id, &lease, &Bytes::from(vec![b' '; 500]), now);
            }
        }
        assert!(memory.entries.weight() <= 100_000, "{}", memory.entries.weight());
    }
}
