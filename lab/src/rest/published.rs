//! The published figures that this benchmark repeats. Another machine's: they stand beside ours to show the proportions.

use serde::Serialize;

use super::case::Case;

/// What stands wherever these figures do.
pub(super) const CAVEAT: &str = "another machine's: a 12-core desktop, its own disk, a cluster of five primaries";

/// A published figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Published {
    pub(super) case: Case,
    pub(super) stack: &'static str,
    pub(super) per_second: f64,
    pub(super) p99_ms: Option<f64>,
}

const NET: &str = ".NET, Kestrel, StackExchange.Redis";
const HASKELL: &str = "Haskell";

pub(super) const PUBLISHED: [Published; 8] = [
    Published { case: Case::GetWarm, stack: NET, per_second: 138_479.0, p99_ms: None },
    Published { case: Case::GetWarm, stack: HASKELL, per_second: 105_901.0, p99_ms: None },
    Published { case: Case::List, stack: NET, per_second: 12_192.0, p99_ms: None },
    Published { case: Case::List, stack: HASKELL, per_second: 10_132.0, p99_ms: None },
    Published { case: Case::PostSlow, stack: NET, per_second: 186.0, p99_ms: Some(463.0) },
    Published { case: Case::PostSlow, stack: HASKELL, per_second: 126.0, p99_ms: None },
    Published { case: Case::MixedSlow, stack: NET, per_second: 774.0, p99_ms: None },
    Published { case: Case::MixedSlow, stack: HASKELL, per_second: 578.0, p99_ms: None },
];
