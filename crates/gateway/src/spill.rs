//! Where requests go when the service that is started here for them has no room.

use std::sync::Arc;

use pilotlight_supervisor::{GivenAway, Service};

use crate::options::{External, ServiceTarget, SpillSpec};

/// The other service of a service that is started here.
pub(crate) struct Spill {
    target: ServiceTarget,
    queue: Option<usize>,
}

impl Spill {
    /// `None`: there is no such service.
    pub(crate) fn find(spec: &SpillSpec, services: &[ServiceTarget]) -> Option<Arc<Self>> {
        let target = services.iter().find(|one| one.name() == spec.to)?;
        Some(Arc::new(Self { target: target.clone(), queue: spec.queue }))
    }

    /// Where they go.
    pub(crate) fn target(&self) -> &ServiceTarget {
        &self.target
    }

    pub(crate) fn external(&self) -> Option<&Arc<External>> {
        match &self.target {
            ServiceTarget::External(external) => Some(external),
            ServiceTarget::Managed(..) => None,
        }
    }

    /// Requests that may wait before.
    pub(crate) fn queue(&self) -> Option<usize> {
        self.queue
    }

    /// Whether a request that found no room at the service goes there, and why.
    pub(crate) fn takes(&self, from: &Service) -> Option<GivenAway> {
        match self.queue {
            Some(most) if from.waiting() >= most => Some(GivenAway::Queue),
            _ if from.is_full() => Some(GivenAway::Full),
            _ => None,
        }
    }
}
