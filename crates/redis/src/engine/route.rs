//! Whom to ask, where the caller knows better than the command's description.

use std::sync::Arc;

use crate::config::NodeAddress;
use crate::engine::lane::Lane;
use crate::error::Error;
use crate::proto::slot::Slot;
use crate::reply::Value;

/// Where a command is sent, instead of where its description says ([`Call::on`](crate::Call::on)).
///
/// It is sent as it is: a command with many keys is not split. A standalone server is every node, and the primary of
/// every slot.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error, Route};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let keys = client.dbsize().on(Route::AllPrimaries).await?;
/// let one = client.ping().on(Route::primary_of("user:1")).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// Any primary.
    Any,
    /// The primary of a slot. Redirects are followed.
    Primary(Slot),
    /// A replica of a slot's primary. Redirects are followed, so a server that does not take the connection for one to
    /// a replica leads to the primary.
    Replica(Slot),
    /// The node at this address, as the cluster announces it. Redirects are not followed: they are the reply.
    Node(NodeAddress),
    /// Every primary; their replies become one as the command's description says, by default an array.
    AllPrimaries,
    /// Every node, replicas included; their replies become one as the command's description says, by default an array.
    AllNodes,
}

/// What one node answered.
#[derive(Debug)]
pub struct NodeReply {
    /// The node, as the cluster announces it.
    pub node: NodeAddress,
    /// Its reply.
    pub reply: Result<Value, Error>,
}

impl Route {
    /// The primary of a key's slot.
    pub fn primary_of(key: impl AsRef<[u8]>) -> Self {
        Self::Primary(Slot::of(key.as_ref()))
    }

    /// A replica of the primary of a key's slot.
    pub fn replica_of(key: impl AsRef<[u8]>) -> Self {
        Self::Replica(Slot::of(key.as_ref()))
    }
}

/// Where one attempt after the other goes.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// To the owner of the command's slot, or who reads for it; without a slot, to any primary.
    Usual,
    /// To the primary of this slot, whichever node that becomes; without a slot, to any primary.
    Primary(Option<Slot>),
    /// To a replica of this slot's primary.
    Replica(Slot),
    /// To this node, and no other.
    Node(Arc<Lane>),
}
