//! The published figures that this benchmark repeats. Another machine's: they stand beside ours to show the
//! proportions.

use super::case::Case;
use crate::experiment::model::{Metric, Published};

/// What stands wherever these figures do.
const CAVEAT: &str = "another machine's: a 12-core desktop, its own disk, a cluster of five primaries";

struct Row {
    case: Case,
    stack: &'static str,
    per_second: f64,
    p99_ms: Option<f64>,
}

const NET: &str = ".NET, Kestrel, StackExchange.Redis";
const HASKELL: &str = "Haskell";

const PUBLISHED: [Row; 8] = [
    Row { case: Case::GetWarm, stack: NET, per_second: 138_479.0, p99_ms: None },
    Row { case: Case::GetWarm, stack: HASKELL, per_second: 105_901.0, p99_ms: None },
    Row { case: Case::List, stack: NET, per_second: 12_192.0, p99_ms: None },
    Row { case: Case::List, stack: HASKELL, per_second: 10_132.0, p99_ms: None },
    Row { case: Case::PostSlow, stack: NET, per_second: 186.0, p99_ms: Some(463.0) },
    Row { case: Case::PostSlow, stack: HASKELL, per_second: 126.0, p99_ms: None },
    Row { case: Case::MixedSlow, stack: NET, per_second: 774.0, p99_ms: None },
    Row { case: Case::MixedSlow, stack: HASKELL, per_second: 578.0, p99_ms: None },
];

/// Those of a case, to stand beside `group`.
pub(super) fn of(case: Case, group: &str) -> Vec<Published> {
    let published = |row: &Row, metric, value| Published {
        group: group.to_owned(),
        name: row.stack.to_owned(),
        metric,
        value,
        source: CAVEAT.to_owned(),
    };
    let rows = PUBLISHED.iter().filter(|row| row.case == case);
    let both = |row: &Row| {
        let rate = published(row, Metric::PerSecond, row.per_second);
        std::iter::once(rate).chain(row.p99_ms.map(|ms| published(row, Metric::P99Ms, ms))).collect::<Vec<_>>()
    };
    rows.flat_map(both).collect()
}
