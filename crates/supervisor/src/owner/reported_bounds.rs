//! What has been logged about the bounds of a service.

use crate::isolation::{Sandbox, SandboxBounds};
use crate::policy::hints;
use crate::spec::ServiceSpec;

/// What has been said about a service, so that it is said once and not at each start.
#[derive(Debug, Default)]
pub(super) struct ReportedBounds {
    notices: Vec<String>,
    sandbox: bool,
    in_force: Option<SandboxBounds>,
}

impl ReportedBounds {
    /// What is in force, and what is not; again if it has changed.
    pub(super) fn in_force(&mut self, service: &str, bounds: &SandboxBounds) {
        if self.in_force.as_ref() == Some(bounds) {
            return;
        }
        let all = bounds.all();
        let by = all.iter().filter_map(|(name, _, by)| Some(format!("{name} by {}", (*by)?)));
        tracing::info!(%service, "its sandbox is in force: {}", by.collect::<Vec<_>>().join(", "));
        if let Some(missing) = bounds.missing() {
            tracing::warn!(%service, "its sandbox does not keep it from: {missing}");
        }
        self.in_force = Some(bounds.clone());
    }

    pub(super) fn say(&mut self, spec: &ServiceSpec, notices: Vec<String>) {
        let ServiceSpec { name: service, isolation, dir, .. } = spec;
        if isolation.sandbox != Sandbox::None && !self.sandbox {
            self.sandbox = true;
            tracing::info!(%service, "sandbox = \"strict\": {}", hints::sandbox(isolation, dir.as_deref()));
        }
        for notice in notices {
            if !self.notices.contains(&notice) {
                tracing::warn!(%service, "{notice}");
                self.notices.push(notice);
            }
        }
    }
}
