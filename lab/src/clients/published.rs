//! The published figures of the client that ours descends from. Another machine's: they stand beside ours to show the
//! proportions.

use crate::experiment::Group;
use crate::experiment::model::{Metric, Published};

const CLIENT: &str = "hask-redis-mux, GHC 9.8, best of three runs";
const MACHINE: &str = "i7-12700K, 12 cores, WSL 2, February 2026";
const PER_SECOND: [(&str, f64); 3] =
    [("published-get", 238_867.0), ("published-set", 204_260.0), ("published-mixed", 223_009.0)];

/// That of a group, if there is one.
pub(super) fn of(group: &Group) -> Option<Published> {
    let (_, value) = PER_SECOND.iter().find(|(id, _)| *id == group.id)?;
    let (name, source) = (CLIENT.to_owned(), MACHINE.to_owned());
    Some(Published { group: group.id.clone(), name, metric: Metric::PerSecond, value: *value, source })
}
