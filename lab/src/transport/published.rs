//! The published figures of the work that Pilotlight descends from. Another machine's, for one service in one language;
//! they stand beside ours to show the proportions, and can be compared with nothing else.

use serde::Serialize;

use super::cases::Case;

/// What stands wherever these figures do.
pub(crate) const CAVEAT: &str =
    "published figures of another machine, another gateway and other services: compare proportions, not times";

/// A row of the published table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Published {
    /// The case.
    pub(crate) case: Case,
    /// Mean time of 50 sequential requests.
    pub(crate) mean_ms: f64,
    /// The first request, where it was published.
    pub(crate) first_request_ms: Option<f64>,
    /// Memory of a service, in 1,000,000 bytes, from and to.
    pub(crate) memory_mb: Option<(f64, f64)>,
}

/// The published table.
pub(crate) const PUBLISHED: [Published; 5] = [
    Published { case: Case::Cached, mean_ms: 0.42, first_request_ms: None, memory_mb: None },
    Published { case: Case::HttpWarm, mean_ms: 8.75, first_request_ms: None, memory_mb: Some((60.0, 100.0)) },
    Published { case: Case::HttpCold, mean_ms: 12.34, first_request_ms: Some(1240.0), memory_mb: Some((60.0, 100.0)) },
    Published { case: Case::PipeWarm, mean_ms: 3.21, first_request_ms: None, memory_mb: Some((30.0, 50.0)) },
    Published { case: Case::PipeCold, mean_ms: 5.87, first_request_ms: Some(420.0), memory_mb: Some((30.0, 50.0)) },
];

/// The published figures of a case.
#[must_use]
pub(crate) fn published(case: Case) -> Option<Published> {
    PUBLISHED.into_iter().find(|row| row.case == case)
}
