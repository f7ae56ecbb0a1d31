//! What is asked for, by how many at once, and with which keys.

/// Distinct keys; each exists and holds a value of [`Workload::value_bytes`].
pub const KEYS: usize = 100_000;
/// Commands in a batch of `w2`.
pub const BATCH: usize = 64;
/// Callers of the published workloads, each with keys of its own.
const WORKERS: usize = 16;
/// Keys of a caller, one after the other and then again.
const SPAN: usize = KEYS / WORKERS;
/// The first key of a caller is so far from that of the one before it.
const PUBLISHED_STEP: usize = 10_000_000;
const PUBLISHED_BYTES: usize = 512;
/// Where many measure at once, every so many steps of each are timed.
const TIMED_EVERY: u32 = 4;

/// How a task of a workload asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One command, awaited, then the next; so many of 100 are SETs.
    Single { set_percent: usize },
    /// [`BATCH`] GETs issued together, all awaited, then the next batch.
    Batch,
    /// [`BATCH`] single commands at once, all awaited, as the published measurement does; every so many of each five is
    /// a SET. GETs may ask for what is not there.
    Published { sets_of_five: usize, missing: Missing },
}

/// Whether a GET may find nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Then it is wrong.
    Wrong,
    /// As published, where 15 of 16 callers asked for keys that nobody had written.
    Allowed,
}

/// One step of a single-command task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Get,
    Set,
}

#[derive(Clone, Copy)]
pub struct Workload {
    pub name: &'static str,
    pub kind: Kind,
    /// Concurrent tasks.
    pub tasks: usize,
    pub value_bytes: usize,
    /// One step of how many is timed.
    pub timed_every: u32,
    prefix: &'static str,
}

const SMALL: usize = 64;
const GETS: Kind = Kind::Single { set_percent: 0 };
const W1: Workload =
    Workload { name: "w1", kind: GETS, tasks: 256, value_bytes: SMALL, timed_every: TIMED_EVERY, prefix: "key" };

const ALL: [Workload; 10] = [
    W1,
    Workload { name: "w1k", value_bytes: 1024, prefix: "kib", ..W1 },
    Workload { name: "w2", kind: Kind::Batch, tasks: 16, timed_every: 1, ..W1 },
    Workload { name: "w3", kind: Kind::Single { set_percent: 100 }, ..W1 },
    Workload { name: "w4", kind: Kind::Single { set_percent: 20 }, ..W1 },
    published("published-get", "bench", 0, Missing::Allowed),
    published("published-get-found", "found", 0, Missing::Wrong),
    published("published-set", "write", 5, Missing::Wrong),
    published("published-mixed", "mixed", 1, Missing::Allowed),
    // One hash tag, so one node and one socket: what a blocking loop has.
    Workload { name: "w5", tasks: 1, timed_every: 1, prefix: "{one}", ..W1 },
];

const fn published(name: &'static str, prefix: &'static str, sets_of_five: usize, missing: Missing) -> Workload {
    let kind = Kind::Published { sets_of_five, missing };
    Workload { name, kind, tasks: WORKERS, value_bytes: PUBLISHED_BYTES, timed_every: 1, prefix }
}

impl Workload {
    /// # Errors
    /// If there is none of this name.
    pub fn named(name: &str) -> Result<Self, String> {
        ALL.into_iter().find(|workload| workload.name == name).ok_or_else(|| format!("no workload {name}"))
    }

    pub fn keys(&self) -> Vec<String> {
        let key = |number: usize| match self.kind {
            Kind::Published { .. } => {
                let number = number / SPAN * PUBLISHED_STEP + number % SPAN;
                format!("{:0<PUBLISHED_BYTES$}", format!("{}:{number}:", self.prefix))
            }
            Kind::Single { .. } | Kind::Batch => format!("{}:{number}", self.prefix),
        };
        (0..KEYS).map(key).collect()
    }

    pub fn value(&self) -> Vec<u8> {
        vec![b'x'; self.value_bytes]
    }
}

impl Kind {
    /// What a caller of a published workload does as its command of this number.
    #[inline]
    pub fn published_step(self, count: usize) -> Step {
        match self {
            Self::Published { sets_of_five, .. } if count % 5 < sets_of_five => Step::Set,
            _ => Step::Get,
        }
    }

    /// Whether a value of this length answers a GET.
    #[inline]
    pub fn is_right(self, length: usize, wanted: usize) -> bool {
        let may_miss = matches!(self, Self::Published { missing: Missing::Allowed, .. });
        length == wanted || may_miss && length == 0
    }
    /// Draws what comes next; a batch is made of GETs.
    #[inline]
    pub fn step(self, random: &mut Random) -> Step {
        match self {
            Self::Batch | Self::Published { .. } | Self::Single { set_percent: 0 } => Step::Get,
            Self::Single { set_percent: 100 } => Step::Set,
            Self::Single { set_percent } if random.below(100) < set_percent => Step::Set,
            Self::Single { .. } => Step::Get,
        }
    }
}

/// xorshift64*: a few cycles a number, the same in every language here.
pub struct Random(u64);

impl Random {
    pub fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        ((high * bound as u64) >> 32) as usize
    }
}

/// The index of a caller's key of this number.
#[inline]
pub fn published_key(caller: usize, count: usize) -> usize {
    caller * SPAN + count % SPAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_keys_are_of_512_bytes_and_each_caller_has_its_own() {
        let workload = Workload::named("published-get").expect("known");
        let keys = workload.keys();
        assert!(keys.iter().all(|key| key.len() == PUBLISHED_BYTES));
        assert!(keys[published_key(0, 7)].starts_with("bench:7:000"));
        assert!(keys[published_key(3, SPAN + 7)].starts_with("bench:30000007:000"));
    }

    #[test]
    fn one_of_five_is_a_set() {
        let kind = Workload::named("published-mixed").expect("known").kind;
        let sets = (0..100).filter(|count| kind.published_step(*count) == Step::Set).count();
        assert_eq!(sets, 20);
        assert!(kind.is_right(0, 512) && kind.is_right(512, 512) && !kind.is_right(5, 512));
    }
}
