//! Hints in errors for callers whose URL names another kind of server than the one that answers.

use super::core::Core;
use super::lane::Lane;
use crate::error::table::About;
use crate::error::{Advice, Error};
use crate::proto::handshake::ServerMode;

const CLUSTER: &str = "the server is a node of a cluster: connect with redis+cluster://";
const SENTINEL: &str = "the server is a Sentinel: connect with redis+sentinel://…/master-name";

/// Returns the hint for an error that a lane's server answered with.
#[cold]
pub(crate) fn of(core: &Core, lane: &Lane, error: &Error) -> Option<&'static str> {
    let server = error.server()?;
    if core.is_cluster() {
        return None;
    }
    let judgement = error.judge(server);
    let is_redirect = judgement.remedy.advice() == Advice::Redirect && judgement.about == About::Slot;
    match lane.mode() {
        _ if is_redirect => Some(CLUSTER),
        Some(ServerMode::Cluster) if judgement.about == About::Slot => Some(CLUSTER),
        Some(ServerMode::Sentinel) if error.needs().is_some() => Some(SENTINEL),
        _ => None,
    }
}
