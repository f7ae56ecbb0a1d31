//! What is said about the bounds of instances.

use super::state::Owner;
use crate::error::Exit;
use crate::isolation::{Sandbox, SandboxBounds};
use crate::policy::hints;

/// What no sandbox of this gateway can do.
pub(super) fn say_at_start(sandbox: Option<&SandboxBounds>) {
    let Some(missing) = sandbox.and_then(SandboxBounds::missing) else { return };
    let advice = if rustix::process::geteuid().is_root() {
        "this system does not let it mount (a container?), or its kernel is too old"
    } else {
        "Pilotlight does not run as root, and this system gives it less without, or its kernel is too old"
    };
    tracing::warn!(
        "on this machine sandbox = \"strict\" does not keep services that use the pipe from: {missing}: {advice}"
    );
}

impl Owner {
    /// Finds out at the start what the sandbox of services can do here, if one has any.
    pub(super) fn probe_sandbox(&self) {
        let is_strict = self.records.iter().any(|record| record.spec.isolation.sandbox != Sandbox::None);
        if let Some(link) = self.link.as_ref().filter(|_| is_strict)
            && let Err(error) = link.probe_sandbox()
        {
            tracing::debug!(%error, "the guardian cannot be asked about sandboxes");
        }
    }

    /// An instance was executed within its bounds.
    pub(super) fn bounded(&mut self, id: u64, notices: Vec<String>, sandbox: Option<SandboxBounds>) {
        let Some(instance) = self.instances.get(&id) else { return };
        let record = &mut self.records[instance.service];
        if let Some(bounds) = &sandbox {
            record.reported.in_force(record.service.name(), bounds);
        }
        record.service.status_mut().sandbox = sandbox;
        record.reported.say(&record.spec, notices);
    }

    /// An instance could not be put into its bounds. Paths and users are for the log and for developers, not for every
    /// client.
    pub(super) fn unbounded(&mut self, id: u64, detail: Option<String>) {
        if let (Some(instance), Some(detail)) = (self.instances.get(&id), detail) {
            instance.tail.push(&format!("[pilotlight] {detail}"));
        }
    }

    /// Notes why an instance ended, if it was a limit.
    pub(super) fn limit_reached(&mut self, id: u64, exit: Exit, limit: Option<String>) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.limit = limit.or_else(|| hints::of_exit(exit, &self.records[instance.service].spec.isolation));
    }
}
