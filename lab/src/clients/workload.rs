//! The workloads by name, and what they find in the cluster. Each program of `lab/peers/redis` knows them, too.

use super::variant::Shape;
use crate::experiment::model::Metric;

/// Keys of each kind.
pub(super) const KEYS: usize = 100_000;
/// Bytes of the values under `PREFIX:0`, `PREFIX:1` ….
pub(super) const VALUES: [(&str, usize); 3] = [("key", SMALL), ("kib", 1024), ("{one}", SMALL)];
pub(super) const SMALL: usize = 64;

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    W1,
    W1k,
    W2,
    W3,
    W4,
    W5,
}

impl Workload {
    pub(super) const ALL: [Self; 6] = [Self::W1, Self::W1k, Self::W2, Self::W3, Self::W4, Self::W5];

    /// As on the command line of a program.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::W1 => "w1",
            Self::W1k => "w1k",
            Self::W2 => "w2",
            Self::W3 => "w3",
            Self::W4 => "w4",
            Self::W5 => "w5",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::W1 => "W1: 256 concurrent callers, GET of 64 bytes",
            Self::W1k => "W1k: 256 concurrent callers, GET of 1 KiB",
            Self::W2 => "W2: 16 callers × batches of 64 GETs of 64 bytes (times are of a batch)",
            Self::W3 => "W3: 256 concurrent callers, SET of 64 bytes",
            Self::W4 => "W4: 256 concurrent callers, 80 % GET, 20 % SET of 64 bytes",
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
