//! What people tell the supervisor's thread.

use crate::deploy::{DeployError, Deployed, Trial};
use crate::service::Service;
use crate::service_id::ServiceId;
use crate::spec::ServiceSpec;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// What people tell the supervisor's thread: one message for each thing that they do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Stop the service's instances, until a request or a start asks for it.
    Stop(ServiceId),
    /// Start the service, whatever failed before.
    Start(ServiceId),
    /// Replace the service's instances by new ones.
    Restart(ServiceId),
    /// The service's program changes: no request is to be answered by it as it was.
    Outdate(ServiceId),
    /// The service's program has changed.
    Renew(ServiceId),
    /// Try a release, and follow it if it is healthy.
    Deploy(Deploy),
    /// Follow these settings.
    Configure(Configure),
    /// Stop the services and forget them when nobody uses them any more.
    Retire(Vec<ServiceId>),
    /// Containers with these numbers are another gateway's: leave them when their exchanges are done.
    Leave(Vec<String>),
    /// Stop everything until then.
    Shutdown { until: Instant },
}

/// A release of a service that is to become the current one.
#[derive(Debug)]
pub(crate) struct Deploy {
    pub(crate) service: ServiceId,
    pub(crate) trial: Trial,
    pub(crate) reply: oneshot::Sender<Result<Deployed, DeployError>>,
}

/// New settings of services: of one that there is, or of another one. The reply has the services in the same order.
#[derive(Debug)]
pub(crate) struct Configure {
    pub(crate) specs: Vec<(Option<ServiceId>, ServiceSpec)>,
    pub(crate) reply: std::sync::mpsc::Sender<Vec<Arc<Service>>>,
}
