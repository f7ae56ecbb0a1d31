//! One connection after its handshake.

use std::sync::Arc;

use bytes::BytesMut;
use pilotlight_resp::{Decoder, Value};

use super::budget::ReplyBudget;
use super::transport::Transport;
use crate::address::NodeAddress;
use crate::credentials::Credentials;
use crate::proto::handshake::ServerInfo;

/// A connection after its handshake: the next reply is the one to the next command.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The server's address, as it is announced.
    pub(crate) address: NodeAddress,
    /// The stream.
    pub(crate) transport: Transport,
    /// Where the decoder is; between two frames.
    pub(crate) decoder: Decoder,
    /// Bytes that were read and not decoded.
    pub(crate) read_buffer: BytesMut,
    /// Pushes that came during the handshake, in order.
    pub(crate) pushes: Vec<Vec<Value>>,
    /// What the server said of itself.
    pub(crate) server: ServerInfo,
    /// Who it was told that the client is.
    pub(crate) credentials: Option<Credentials>,
    /// What large replies count against.
    pub(crate) budget: Option<Arc<ReplyBudget>>,
}
