//! The published figures of the work that Pilotlight descends from. Another machine's, for one service in one language;
//! they stand beside ours to show the proportions, and can be compared with nothing else.

use crate::experiment::model::{Metric, Published};

const CAVEAT: &str =
    "published figures of another machine, another gateway and other services: compare proportions, not times";

/// Times are means of 50 sequential requests.
const PUBLISHED: [(&str, Metric, f64); 9] = [
    ("cached", Metric::MeanMs, 0.42),
    ("HTTP warm", Metric::MeanMs, 8.75),
    ("HTTP cold", Metric::ColdMs, 12.34),
    ("HTTP cold, the first request", Metric::ColdMs, 1240.0),
    ("HTTP, a service, at most", Metric::PssBytes, 100e6),
    ("pipe warm", Metric::MeanMs, 3.21),
    ("pipe cold", Metric::ColdMs, 5.87),
    ("pipe cold, the first request", Metric::ColdMs, 420.0),
    ("pipe, a service, at most", Metric::PssBytes, 50e6),
];

/// As rows of the report.
pub(super) fn published() -> Vec<Published> {
    let row = |(name, metric, value): &(&str, Metric, f64)| Published {
        group: String::new(),
        name: (*name).to_owned(),
        metric: *metric,
        value: *value,
        source: CAVEAT.to_owned(),
    };
    PUBLISHED.iter().map(row).collect()
}
