//! Groups: services that share a budget, and so are not all there at once.

use crate::policy::groups::Budget;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// What the services of a group may use together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its name.
    pub name: String,
    /// Instances that may be there at once; `None`: any number.
    pub max_running: Option<u32>,
    /// Bytes that they may take together, as their shares say; `None`: any number.
    pub memory: Option<u64>,
    /// How long an instance with open requests is left alone while others wait for its room: from when it became ready,
    /// and from when the first of the others began to wait. Default 10 s.
    pub grace: Duration,
}

/// The place of a service in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupShare {
    /// The group.
    pub group: Arc<GroupSpec>,
    /// Bytes that each of its instances counts for.
    pub memory: u64,
}

impl GroupSpec {
    /// Values of `max_running`.
    pub const MAX_RUNNING: RangeInclusive<u32> = 1..=10_000;
    /// Values of `memory`, of the group and of a share.
    pub const MEMORY: RangeInclusive<u64> = 1024 * 1024..=1 << 50;
    /// Values of `grace`.
    pub const GRACE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(24 * 3600);

    /// A group without a budget yet.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), max_running: None, memory: None, grace: Duration::from_secs(10) }
    }

    pub(crate) fn budget(&self) -> Budget {
        Budget { max_running: self.max_running, memory: self.memory, grace: self.grace }
    }

    /// The budget, as the file says it.
    #[must_use]
    pub fn said(&self) -> String {
        let running = self.max_running.map(|max| format!("max_running = {max}"));
        let memory = self.memory.map(|bytes| format!("memory = {} MiB", bytes >> 20));
        running.into_iter().chain(memory).collect::<Vec<_>>().join(", ")
    }
}
