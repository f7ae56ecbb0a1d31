//! Whom to ask, where the caller knows better than the command's description.

use std::sync::Arc;

use crate::call::CallOptions;
use crate::client::Client;
use crate::command::Command;
use crate::config::NodeAddress;
use crate::error::Error;
use crate::net::lane::Lane;
use crate::proto::slot::Slot;
use crate::reply::Value;
use crate::special;

/// Where a command is sent, instead of where its description says ([`Call::on`](crate::Call::on)).
///
/// It is sent as it is: a command with many keys is not split. A standalone server is every node, and the primary of
/// every slot.
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

impl Client {
    /// Runs a command on every node of `route` at the same time, and tells what each of them answered.
    ///
    /// ```no_run
    /// # use pilotlight_redis::{Client, Command, Error, Route};
    /// # async fn example(client: &Client) -> Result<(), Error> {
    /// for answer in client.on_all(Route::AllNodes, Command::raw("INFO").arg("memory")).await? {
    ///     println!("{}: {:?}", answer.node, answer.reply?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No node is known until the deadline, or the command cannot be sent on shared connections. What goes wrong at one
    /// node is in its own place.
    ///
    /// # Cancel safety
    /// As [`Call`](crate::Call), at each node.
    pub async fn on_all(&self, route: Route, command: Command<'_>) -> Result<Vec<NodeReply>, Error> {
        special::on_all(self, &route, &command, CallOptions::of(self)).await
    }
}

/// The way of one attempt after the other.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// To the owner of the command's slot, or who reads for it; without a slot, to any primary.
    Usual,
    /// To the primary of this slot, whichever node that becomes; without a slot, to any primary.
    Primary(Option<Slot>),
    /// To a replica of this slot's primary.
    Replica(Slot),
    /// To this node, and no other.
    Node(Arc<Lane>),
}
