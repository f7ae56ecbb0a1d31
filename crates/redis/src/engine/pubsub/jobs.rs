//! What the tasks of a hub are for.

use crate::address::NodeAddress;

/// What a task is for.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Connection(NodeAddress),
    Cluster,
}
