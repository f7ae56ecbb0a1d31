//! One connection after its handshake, and commands with their replies on one that nobody shares.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use pilotlight_resp::{Decoder, Frame, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::budget::ReplyBudget;
use super::transport::Transport;
use crate::address::NodeAddress;
use crate::command::Command;
use crate::credentials::Credentials;
use crate::out::Out;
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

/// Sends `command` and reads its reply. Pushes in between are passed over.
///
/// # Cancel safety
/// None: a connection whose exchange was dropped is to be dropped, too.
pub(crate) async fn exchange(connection: &mut Connection, command: &Command<'_>) -> io::Result<Value> {
    send_command(connection, command).await?;
    receive(connection).await
}

/// Sends `command`.
///
/// # Cancel safety
/// As [`exchange`].
pub(crate) async fn send_command(connection: &mut Connection, command: &Command<'_>) -> io::Result<()> {
    let mut out = Out::contiguous_only();
    command.encode(&mut out);
    send(connection, out.contiguous(Default::default()).unwrap_or_default()).await
}

/// Sends encoded commands.
///
/// # Cancel safety
/// As [`exchange`].
pub(crate) async fn send(connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
    connection.transport.write_all(bytes).await?;
    connection.transport.flush().await
}

/// Reads one reply. Pushes before it are passed over.
///
/// # Cancel safety
/// As [`exchange`].
pub(crate) async fn receive(connection: &mut Connection) -> io::Result<Value> {
    loop {
        if let Frame::Reply(value) = next_frame(connection).await? {
            return Ok(match &connection.budget {
                None => value,
                Some(budget) => budget.hold(value),
            });
        }
    }
}

/// Reads one reply or push.
///
/// # Cancel safety
/// What was read is kept: the next call goes on.
pub(crate) async fn next_frame(connection: &mut Connection) -> io::Result<Frame> {
    loop {
        match connection.decoder.decode(&mut connection.read_buffer) {
            Ok(Some(frame)) => return Ok(frame),
            Ok(None) => {}
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
        connection.read_buffer.reserve(connection.decoder.wanted().max(4096));
        if connection.transport.read_buf(&mut connection.read_buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
