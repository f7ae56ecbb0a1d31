//! The program of a service changes while it runs, as during development.
//!
//! ```text
//!  takes requests ──outdate──▶ requests wait, nothing is started ──renew──▶ a new instance starts, requests enter it
//! ```
//! Two steps, because files are rarely written at once: an instance that starts between them might read half of a
//! change. No request that comes after `outdate` is answered by the program as it was before.

use super::instance_record::{AskedBy, Stage};
use super::state::Owner;
use std::time::Instant;

impl Owner {
    /// Instances that take requests are drained, those that start are given up, and none is started before
    /// [`renew_service`](Self::renew_service).
    pub(super) fn outdate_service(&mut self, service: usize, now: Instant) {
        let Some(record) = self.records.get_mut(service) else { return };
        record.outdated = true;
        record.start_renewed |=
            !record.members.is_empty() || record.last_failure.is_some() || record.service.queue.waiting() > 0;
        let instances: Vec<(u64, Stage)> = self
            .instances
            .values()
            .filter(|instance| instance.service == service)
            .map(|instance| (instance.id(), instance.stage))
            .collect();
        for (id, stage) in instances {
            match stage {
                Stage::Ready => self.drain(id, AskedBy::Gateway, now),
                Stage::Spawning | Stage::Starting | Stage::Examining => self.give_up(id, now),
                Stage::Draining | Stage::Terminating | Stage::Killing | Stage::Exited => {}
            }
        }
    }

    /// The program is whole again: an instance is started if there was one, or somebody waits. What failed before is
    /// forgotten. The zygote stays, as it has imported nothing of the program itself.
    pub(super) fn renew_service(&mut self, service: usize, now: Instant) {
        let Some(record) = self.records.get_mut(service) else { return };
        record.outdated = false;
        record.last_failure = None;
        record.service.queue.set_alert(false);
        let start = std::mem::take(&mut record.start_renewed);
        self.start_service(service, now);
        self.records[service].start_asked = start;
    }
}
