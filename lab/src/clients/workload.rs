//! The workloads by name, and what they find in the cluster. Each program of `lab/peers/redis` knows them, too.

use super::variant::Shape;
use crate::experiment::model::Metric;

/// Keys of each kind.
pub(super) const KEYS: usize = 100_000;
/// Bytes of the values under `PREFIX:0`, `PREFIX:1` ….
pub(super) const VALUES: [(&str, usize); 3] = [("key", SMALL), ("kib", 1024), ("{one}", SMALL)];
pub(super) const SMALL: usize = 64;

/// Of keys and of values of the published workloads.
pub(super) const PUBLISHED_BYTES: usize = 512;
/// Callers there, each with keys of its own.
const WORKERS: usize = 16;
/// Keys of one of them.
const SPAN: usize = KEYS / WORKERS;
/// The first key of a caller is so far from that of the one before it.
const PUBLISHED_STEP: usize = 10_000_000;

/// The keys of the published workloads that exist: prefixes, and how many callers have theirs. As published, one of
/// sixteen callers finds what it asks for, which is 6 %; with the prefix `found` all do.
const PUBLISHED_KEYS: [(&str, usize); 3] = [("bench", 1), ("found", WORKERS), ("mixed", 1)];

/// Those keys.
pub(super) fn published_keys() -> impl Iterator<Item = String> {
    PUBLISHED_KEYS.into_iter().flat_map(|(prefix, callers)| {
        (0..callers * SPAN).map(move |number| {
            let number = number / SPAN * PUBLISHED_STEP + number % SPAN;
            format!("{:0<PUBLISHED_BYTES$}", format!("{prefix}:{number}:"))
        })
    })
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    W1,
    W1k,
    W2,
    W3,
    W4,
    W5,
    PublishedGet,
    PublishedGetFound,
    PublishedSet,
    PublishedMixed,
}

impl Workload {
    pub(super) const ALL: [Self; 10] = [
        Self::W1,
        Self::W1k,
        Self::W2,
        Self::W3,
        Self::W4,
        Self::W5,
        Self::PublishedGet,
        Self::PublishedGetFound,
        Self::PublishedSet,
        Self::PublishedMixed,
    ];
    /// Those of the measurement that was published.
    pub(super) const PUBLISHED: [Self; 4] =
        [Self::PublishedGet, Self::PublishedGetFound, Self::PublishedSet, Self::PublishedMixed];

    pub(super) fn is_published(self) -> bool {
        Self::PUBLISHED.contains(&self)
    }

    /// Whether it asks for keys that are not there, as the published measurement did.
    pub(super) fn may_miss(self) -> bool {
        matches!(self, Self::PublishedGet | Self::PublishedMixed)
    }

    /// As on the command line of a program.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::W1 => "w1",
            Self::W1k => "w1k",
            Self::W2 => "w2",
            Self::W3 => "w3",
            Self::W4 => "w4",
            Self::W5 => "w5",
            Self::PublishedGet => "published-get",
            Self::PublishedGetFound => "published-get-found",
            Self::PublishedSet => "published-set",
            Self::PublishedMixed => "published-mixed",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::W1 => "W1: 256 concurrent callers, GET of 64 bytes",
            Self::W1k => "W1k: 256 concurrent callers, GET of 1 KiB",
            Self::W2 => "W2: 16 callers × batches of 64 GETs of 64 bytes (times are of a batch)",
            Self::W3 => "W3: 256 concurrent callers, SET of 64 bytes",
            Self::W4 => "W4: 256 concurrent callers, 80 % GET, 20 % SET of 64 bytes",
            Self::PublishedGet => "published: 16 callers × 64 GETs, 512-byte keys and values, 6 % of which exist",
            Self::PublishedGetFound => "the same, all of which exist",
            Self::PublishedSet => "published: 16 callers × 64 SETs, 512-byte keys and values",
            Self::PublishedMixed => "published: 16 callers × 64 commands, 512-byte keys and values, 20 % SET",
            Self::W5 => "W5: one caller, GET of 64 bytes, all keys on one node",
        }
    }

    /// What it is about: the time of one caller, else CPU time.
    pub(super) fn metric(self) -> Metric {
        if self == Self::W5 { Metric::P50Ms } else { Metric::CpuUs }
    }

    /// The name of the floor that a client of this shape is held against.
    pub(super) fn floor(self, shape: Shape) -> &'static str {
        match (self, shape) {
            (Self::W5, _) => "floor: blocking",
            (_, Shape::Ct) => "floor: tokio ct",
            (_, Shape::Mt2) => "floor: tokio mt2",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_sixteen_callers_finds_its_keys_as_published() {
        let keys: Vec<String> = published_keys().collect();
        assert!(keys.iter().all(|key| key.len() == PUBLISHED_BYTES));
        let of = |prefix: &str| keys.iter().filter(|key| key.starts_with(prefix)).count();
        assert_eq!((of("bench:"), of("found:"), of("mixed:")), (SPAN, KEYS, SPAN));
        assert!(keys.iter().any(|key| key.starts_with("found:150000000:0")));
    }
}
