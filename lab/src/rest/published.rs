//! The published figures that this benchmark repeats. Another machine's: they stand beside ours to show the
//! proportions.

use super::case::Case;
use super::redis::Topology;
use crate::experiment::model::{Metric, Published};

/// What stands wherever these figures do.
const MACHINE: &str = "i7-12700K, 12 cores, WSL 2, February 2026";

const NET: &str = ".NET 8, Kestrel, StackExchange.Redis";
const HASKELL: &str = "Haskell, Scotty, GHC 9.8, RTS options tuned";
const HASKELL_DEFAULT: &str = "Haskell, Scotty, GHC 9.8, RTS options as they come";

struct Row {
    topology: Topology,
    case: Case,
    stack: &'static str,
    per_second: f64,
    /// p50, p97.5, p99, p99.9; what was not published, or is below the clock's millisecond, is absent.
    ms: [Option<f64>; 4],
}

const fn row(topology: Topology, case: Case, stack: &'static str, per_second: f64, ms: [Option<f64>; 4]) -> Row {
    Row { topology, case, stack, per_second, ms }
}

const fn all(p50: f64, p975: f64, p99: f64, p999: f64) -> [Option<f64>; 4] {
    [Some(p50), Some(p975), Some(p99), Some(p999)]
}

use Topology::{Cluster, Standalone};

#[rustfmt::skip]
const PUBLISHED: [Row; 16] = [
    row(Cluster, Case::GetWarm, NET, 138_479.0, all(6.0, 13.0, 15.0, 24.0)),
    row(Cluster, Case::GetWarm, HASKELL, 105_901.0, all(9.0, 12.0, 14.0, 26.0)),
    row(Cluster, Case::List, NET, 12_192.0, all(84.0, 115.0, 124.0, 200.0)),
    row(Cluster, Case::List, HASKELL, 10_132.0, all(97.0, 129.0, 136.0, 161.0)),
    row(Cluster, Case::PostSlow, NET, 186.0, all(5.0, 312.0, 463.0, 1222.0)),
    row(Cluster, Case::PostSlow, HASKELL, 126.0, all(9.0, 949.0, 1637.0, 3843.0)),
    row(Cluster, Case::MixedSlow, NET, 774.0, [None, Some(309.0), Some(466.0), Some(1071.0)]),
    row(Cluster, Case::MixedSlow, HASKELL, 578.0, [None, Some(250.0), Some(1039.0), Some(3045.0)]),
    row(Standalone, Case::GetWarm, NET, 132_587.0, [Some(6.0), None, Some(17.0), Some(24.0)]),
    row(Standalone, Case::GetWarm, HASKELL_DEFAULT, 95_625.0, [Some(10.0), None, Some(19.0), Some(31.0)]),
    row(Standalone, Case::List, NET, 12_431.0, [Some(81.0), None, Some(135.0), Some(154.0)]),
    row(Standalone, Case::List, HASKELL_DEFAULT, 8_766.0, [Some(111.0), None, Some(167.0), Some(207.0)]),
    row(Standalone, Case::PostSlow, NET, 183.0, [Some(5.0), None, Some(463.0), Some(1075.0)]),
    row(Standalone, Case::PostSlow, HASKELL_DEFAULT, 123.0, [Some(9.0), None, Some(1837.0), Some(3343.0)]),
    row(Standalone, Case::MixedSlow, NET, 737.0, [None, None, Some(462.0), Some(1522.0)]),
    row(Standalone, Case::MixedSlow, HASKELL_DEFAULT, 595.0, [None, None, Some(938.0), Some(3637.0)]),
];

/// Those of a case, to stand beside `group`.
pub(super) fn of(case: Case, topology: Topology, group: &str) -> Vec<Published> {
    let published = |row: &Row, metric, value| Published {
        group: group.to_owned(),
        name: row.stack.to_owned(),
        metric,
        value,
        source: MACHINE.to_owned(),
    };
    let times = [Metric::P50Ms, Metric::P975Ms, Metric::P99Ms, Metric::P999Ms];
    let of_row = |row: &Row| {
        let rate = published(row, Metric::PerSecond, row.per_second);
        let times = times.iter().zip(row.ms).filter_map(|(metric, ms)| Some(published(row, *metric, ms?)));
        std::iter::once(rate).chain(times).collect::<Vec<_>>()
    };
    PUBLISHED.iter().filter(|row| row.case == case && row.topology == topology).flat_map(of_row).collect()
}
