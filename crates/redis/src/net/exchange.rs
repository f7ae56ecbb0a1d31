//! Commands and their replies on a connection that nobody shares.

use std::io;

use pilotlight_resp::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connect::Connection;
use super::out::Out;
use crate::command::Command;
use crate::reply::Value;

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
