//! What is said about the bounds of instances.

use super::Owner;
use crate::error::Exit;
use crate::isolation::{Isolation, Sandbox};
use crate::policy::hints;
use std::path::Path;

/// What has been said about a service, so that it is said once and not at each start.
#[derive(Debug, Default)]
pub(super) struct Said {
    notices: Vec<String>,
    sandbox: bool,
}

impl Owner {
    /// An instance was executed within its bounds.
    pub(super) fn bounded(&mut self, id: u64, notices: Vec<String>) {
        let Some(run) = self.runs.get(&id) else { return };
        let record = &mut self.records[run.service];
        record.said.say(record.service.name(), (&record.spec.isolation, record.spec.dir.as_deref()), notices);
    }

    /// An instance could not be put into its bounds. Paths and users are for the log and for developers, not for every client.
    pub(super) fn unbounded(&mut self, id: u64, detail: Option<String>) {
        if let (Some(run), Some(detail)) = (self.runs.get(&id), detail) {
            run.tail.push(&format!("[pilotlight] {detail}"));
        }
    }

    /// Notes why an instance ended, if it was a limit.
    pub(super) fn limit_reached(&mut self, id: u64, exit: Exit, limit: Option<String>) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.limit = limit.or_else(|| hints::of_exit(exit, &self.records[run.service].spec.isolation));
    }
}

impl Said {
    fn say(&mut self, service: &str, (isolation, dir): (&Isolation, Option<&Path>), notices: Vec<String>) {
        if isolation.sandbox != Sandbox::None && !self.sandbox {
            self.sandbox = true;
            tracing::info!(%service, "sandbox = \"strict\": {}", hints::sandbox(isolation, dir));
        }
        for notice in notices {
            if !self.notices.contains(&notice) {
                tracing::warn!(%service, "{notice}");
                self.notices.push(notice);
            }
        }
    }
}
