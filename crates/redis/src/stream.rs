//! A connection as a stream of bytes, for those who speak the protocol themselves: prompts, tunnels.

use std::time::Instant;

use bytes::BytesMut;

use crate::call::CallOptions;
use crate::client::Client;
use crate::command::{Command, UNKNOWN};
use crate::config::{ByteStream, NodeAddress};
use crate::error::{Error, ErrorKind, Misuse, Ran};
use crate::proto::retry::Refresh;
use crate::route::Route;
use crate::special;

const NAME: &str = "connect";

/// A connection after its handshake: who the client is and which database it uses is settled, and the next reply is the one to the next command. It is the caller's alone: the client does not count it,
/// and knows nothing of what is sent on it.
pub struct RawStream {
    /// The node, as it is announced.
    pub node: NodeAddress,
    /// The bytes, both ways; encrypted if the configuration says so.
    pub stream: Box<dyn ByteStream>,
    /// What was read already and is to be decoded first.
    pub read: BytesMut,
}

impl Client {
    /// A connection to the node of `route`, by one attempt to connect; where there is a cluster, its map is waited for within the command timeout.
    ///
    /// # Errors
    /// No connection can be made, no map is known, or `route` is more than one node.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn stream(&self, route: Route) -> Result<RawStream, Error> {
        let (core, since) = (self.core(), Instant::now());
        if matches!(route, Route::AllPrimaries | Route::AllNodes) {
            return Err(Error::new(Misuse::Unroutable { command: NAME, instead: "name one node" }, Ran::NotSent, NAME));
        }
        let timeout = CallOptions::of(self).timeout;
        let way = special::way(core, &Command::new(&UNKNOWN), &route)?;
        let lane = loop {
            let map_version = core.map_version();
            match core.lane_by(&way, &UNKNOWN, None) {
                Ok(lane) => break lane,
                Err(error) if timeout.is_some_and(|timeout| since.elapsed() >= timeout) => return Err(error),
                Err(_) => core.pause_or_new_map(special::MAP_PAUSE, Refresh::Urgent, map_version).await,
            }
        };
        let connection = lane.dial_another().await.map_err(|error| {
            let kind = if error.is_final { ErrorKind::Rejected(error.text) } else { ErrorKind::Connect(error.text) };
            Error::new(kind, Ran::NotSent, NAME)
        })?;
        Ok(RawStream { node: connection.address, stream: Box::new(connection.transport), read: connection.read_buffer })
    }
}

impl std::fmt::Debug for RawStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawStream").field("node", &self.node).finish_non_exhaustive()
    }
}
