//! A release that is tried: its first instance, how far it has come, and who waits for what comes of it.

use crate::deploy::{Blame, DeployError, Deployed, Trial};
use crate::service::Service;
use std::io;
use tokio::sync::oneshot;

pub(super) type Reply = oneshot::Sender<Result<Deployed, DeployError>>;

/// An instance of a release that is tried, and who waits for what comes of it.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(super) id: u64,
    pub(super) reply: Reply,
    pub(super) step: Step,
}

#[derive(Debug)]
pub(super) enum Step {
    /// It starts, or is being examined.
    Tried(Trial),
    /// It is healthy, and its release is being made the current one. There is no way back from here.
    Switching { status: u16 },
}

/// The link of a service's releases leads to another one now, or could not be changed.
#[derive(Debug)]
pub(super) struct Switched {
    pub(super) service: usize,
    pub(super) instance: u64,
    pub(super) result: io::Result<()>,
}

/// Counts what came of a release, and tells who asked, who may have gone.
pub(super) fn tell(reply: Reply, service: &Service, result: Result<Deployed, DeployError>) {
    let counts = &mut service.status_mut().deploys;
    match &result {
        Ok(_) => counts.used += 1,
        Err(error) if error.blame == Blame::Release => counts.refused += 1,
        Err(_) => counts.abandoned += 1,
    }
    let _ = reply.send(result);
}
