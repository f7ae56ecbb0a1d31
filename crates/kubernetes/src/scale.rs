//! When a workload is woken, and when it is scaled to zero. Pure: time is an argument, and what others say as well.
//!
//! Each replica of the gateway knows what it has itself, and tells the others how long each workload has not been used:
//! ages, not times, so that clocks of machines may differ. Whoever reads a report notes when it came. A replica that
//! said that something is open is believed until its next report; one that has gone silent counts as having used
//! everything until its last one.
//!
//! What is seen of a workload may be old: the API server tells of a change when it gets to it. Whatever is to be scaled
//! comes with the version of the workload that it was decided by, so that the API server refuses what was decided by an
//! old one; and a workload counts as one of no replicas from when it was scaled to zero, not from when that is seen.
//!
//! Invariant: nothing is scaled to zero that this replica has open or waiting, that a report says is open, or that was
//! up for less than its idle timeout.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::snapshot::{Workload, WorkloadKey};

/// A report that is older is one of a replica that has gone silent.
pub const SILENT_AFTER: Duration = Duration::from_secs(30);
/// How often a replica reports, if nothing is new.
pub const REPORT_EVERY: Duration = Duration::from_secs(10);
/// A wake that has shown no effect is tried again after this long.
pub const WAKE_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Time since the start of this process.
pub type Time = Duration;

/// What this replica has for a workload now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Requests that are being answered.
    pub open: usize,
    /// Requests that wait for an endpoint.
    pub waiting: usize,
    /// When the last one began or ended.
    pub last: Option<Time>,
}

/// What one other replica has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When it came here.
    pub seen: Time,
    /// For how long each workload had not been used; none: it was.
    pub unused: BTreeMap<WorkloadKey, Option<Duration>>,
}

/// A workload that is to be scaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Which one.
    pub key: WorkloadKey,
    /// How many replicas it is to have.
    pub replicas: i32,
    /// The version of it that was looked at.
    pub version: Arc<str>,
}

/// What is known of each workload.
#[derive(Debug, Default)]
pub struct Scaler {
    known: BTreeMap<WorkloadKey, Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// When it was seen to have replicas for the first time since it had none.
    up_since: Option<Time>,
    /// The version of it that was scaled to zero here, as long as no other one is seen.
    ended: Option<Arc<str>>,
    now: Use,
    /// What has been reported, and when.
    reported: Option<(Time, Option<Duration>)>,
    woken: Option<Time>,
}

impl Scaler {
    /// Takes note of what there is, and of what this replica has for it.
    pub fn observe(
        &mut self,
        now: Time,
        workloads: &BTreeMap<WorkloadKey, Workload>,
        uses: &BTreeMap<WorkloadKey, Use>,
    ) {
        self.known.retain(|key, _| workloads.contains_key(key));
        for (key, workload) in workloads {
            let known = self.known.entry(key.clone()).or_default();
            known.ended = known.ended.take().filter(|version| *version == workload.version);
            let is_up = workload.replicas > 0 && known.ended.is_none();
            known.up_since = is_up.then(|| known.up_since.unwrap_or(now));
            let found = uses.get(key).copied().unwrap_or_default();
            // Whoever counts may begin anew after a reload.
            known.now = Use { last: found.last.max(known.now.last), ..found };
            if is_up {
                known.woken = None;
            }
        }
    }

    /// The workloads that somebody waits for and that have no replicas. Each is named again when nothing has come of
    /// it.
    pub fn wakes(&mut self, now: Time, workloads: &BTreeMap<WorkloadKey, Workload>) -> Vec<Order> {
        let mut all = Vec::new();
        for (key, known) in &mut self.known {
            let Some(workload) = workloads.get(key) else { continue };
            let is_due = known.woken.is_none_or(|woken| now.saturating_sub(woken) >= WAKE_AGAIN_AFTER);
            if known.up_since.is_none() && known.now.waiting > 0 && is_due {
                known.woken = Some(now);
                all.push(Order::of(key, workload, workload.min_replicas));
            }
        }
        all
    }

    /// A wake could not be carried out: it is due again.
    pub fn not_woken(&mut self, key: &WorkloadKey) {
        if let Some(known) = self.known.get_mut(key) {
            known.woken = None;
        }
    }

    /// It was scaled to zero by this order.
    pub fn ended(&mut self, order: &Order) {
        if let Some(known) = self.known.get_mut(&order.key) {
            (known.ended, known.up_since) = (Some(Arc::clone(&order.version)), None);
        }
    }

    /// What is to be reported now: everything, if it is time or if something is used that was reported as unused.
    pub fn report(&mut self, now: Time) -> Option<BTreeMap<WorkloadKey, Option<Duration>>> {
        let is_due = |known: &Known| match known.reported {
            None => true,
            Some((at, said)) => {
                let age = known.now.unused(now);
                // It is used since.
                let is_news = said.is_some() && age.is_none_or(|age| now.saturating_sub(age) > at);
                is_news || now.saturating_sub(at) >= REPORT_EVERY
            }
        };
        if !self.known.values().any(is_due) {
            return None;
        }
        let one = |(key, known): (&WorkloadKey, &mut Known)| {
            // What it never had is not told: it would be told as of the beginning.
            let said = known.now.unused(now);
            known.reported = Some((now, said));
            let is_used = known.now.last.is_some() || said.is_none();
            is_used.then(|| (key.clone(), said))
        };
        Some(self.known.iter_mut().filter_map(one).collect())
    }

    /// The report could not be written: it is due again.
    pub fn not_reported(&mut self) {
        self.known.values_mut().for_each(|known| known.reported = None);
    }

    /// The workloads that nobody has used for their idle timeout, by what everybody says.
    pub fn downs(&self, now: Time, workloads: &BTreeMap<WorkloadKey, Workload>, others: &[Report]) -> Vec<Order> {
        let is_idle = |key: &WorkloadKey, workload: &Workload| {
            let Some(known) = self.known.get(key) else { return false };
            let Some(up_since) = known.up_since else { return false };
            if known.now.open > 0 || known.now.waiting > 0 {
                return false;
            }
            let mut last = known.now.last.unwrap_or(up_since).max(up_since);
            for other in others {
                match other.last_use(now, key) {
                    LastUse::Now => return false,
                    LastUse::At(at) => last = last.max(at),
                    LastUse::Never => {}
                }
            }
            now.saturating_sub(last) >= workload.idle_timeout
        };
        let idle = workloads.iter().filter(|(key, workload)| is_idle(key, workload));
        idle.map(|(key, workload)| Order::of(key, workload, 0)).collect()
    }
}

impl Order {
    fn of(key: &WorkloadKey, workload: &Workload, replicas: i32) -> Self {
        Self { key: key.clone(), replicas, version: Arc::clone(&workload.version) }
    }
}

impl Use {
    /// For how long it has not been used; none: it is.
    fn unused(&self, now: Time) -> Option<Duration> {
        (self.open == 0 && self.waiting == 0).then(|| now.saturating_sub(self.last.unwrap_or_default()))
    }
}

enum LastUse {
    Now,
    At(Time),
    Never,
}

impl Report {
    fn last_use(&self, now: Time, key: &WorkloadKey) -> LastUse {
        let is_silent = now.saturating_sub(self.seen) > SILENT_AFTER;
        match self.unused.get(key) {
            // Nobody knows what it has had since.
            _ if is_silent => LastUse::At(self.seen + SILENT_AFTER),
            Some(None) => LastUse::Now,
            Some(Some(unused)) => LastUse::At(self.seen.saturating_sub(*unused)),
            None => LastUse::Never,
        }
    }
}

#[cfg(test)]
mod tests;
