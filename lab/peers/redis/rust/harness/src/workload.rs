//! What is asked for, by how many at once, and with which keys.

/// Distinct keys; each exists and holds a value of [`Workload::value_bytes`].
pub const KEYS: usize = 100_000;
/// Commands in a batch of `w2`.
pub const BATCH: usize = 64;
/// Where many measure at once, every so many steps of each are timed.
const TIMED_EVERY: u32 = 4;

/// How a task of a workload asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One command, awaited, then the next; so many of 100 are SETs.
    Single { set_percent: usize },
    /// [`BATCH`] GETs issued together, all awaited, then the next batch.
    Batch,
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

const ALL: [Workload; 6] = [
    W1,
    Workload { name: "w1k", value_bytes: 1024, prefix: "kib", ..W1 },
    Workload { name: "w2", kind: Kind::Batch, tasks: 16, timed_every: 1, ..W1 },
    Workload { name: "w3", kind: Kind::Single { set_percent: 100 }, ..W1 },
    Workload { name: "w4", kind: Kind::Single { set_percent: 20 }, ..W1 },
    // One hash tag, so one node and one socket: what a blocking loop has.
    Workload { name: "w5", tasks: 1, timed_every: 1, prefix: "{one}", ..W1 },
];

impl Workload {
    /// # Errors
    /// If there is none of this name.
    pub fn named(name: &str) -> Result<Self, String> {
        ALL.into_iter().find(|workload| workload.name == name).ok_or_else(|| format!("no workload {name}"))
    }

    pub fn keys(&self) -> Vec<String> {
        (0..KEYS).map(|number| format!("{}:{number}", self.prefix)).collect()
    }

    pub fn value(&self) -> Vec<u8> {
        vec![b'x'; self.value_bytes]
    }
}

impl Kind {
    /// Draws what comes next; a batch is made of GETs.
    #[inline]
    pub fn step(self, random: &mut Random) -> Step {
        match self {
            Self::Batch | Self::Single { set_percent: 0 } => Step::Get,
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
