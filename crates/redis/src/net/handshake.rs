//! The handshake on a stream: writes what the state machine says, and feeds it what is read.

use std::io;

use bytes::BytesMut;
use pilotlight_resp::{Decoder, Frame, Limits, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connect_error::ConnectErrorKind;
use super::connection::Connection;
use super::transport::Transport;
use super::wire::Wire;
use crate::config::NodeAddress;
use crate::error::ErrorKind;
use crate::proto::handshake::{Handshake, Plan};

/// The first buffer for replies; the lane goes on with it.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// Bytes of the stream that are kept to tell what listens there instead.
const OPENING_BYTES: usize = 16;

/// A stream with what was read from it.
#[derive(Debug)]
pub(super) struct Session {
    address: NodeAddress,
    transport: Transport,
    decoder: Decoder,
    input: BytesMut,
    pushes: Vec<Vec<Value>>,
    /// The first bytes that were read.
    opening: Vec<u8>,
    /// Why the last write failed. What the server had to say first may still be readable.
    write_error: Option<io::Error>,
}

/// Speaks the handshake. `None`: the server closed the connection at a command that
/// [`Style::Bare`](crate::proto::handshake::Style::Bare) does without.
pub(super) async fn run(mut session: Session, plan: Plan) -> Result<Option<Connection>, ConnectErrorKind> {
    let mut handshake = Handshake::new(plan);
    let mut out = Vec::new();
    while handshake.send(&mut out) {
        session.write(&out).await;
        out.clear();
        while handshake.awaited() > 0 {
            match session.reply().await? {
                Some(reply) => handshake.receive(reply)?,
                None if handshake.may_be_bare() => return Ok(None),
                None => return Err(session.closed()),
            }
        }
    }
    Ok(Some(session.into_connection(handshake)))
}

/// The same on a connection that was used.
pub(super) async fn run_again(wire: &mut Wire, handshake: &mut Handshake) -> Result<(), ConnectErrorKind> {
    let lost = |_: ErrorKind| ConnectErrorKind::Closed { silent: false };
    let mut out = Vec::new();
    while handshake.send(&mut out) {
        wire.send(&out).await.map_err(lost)?;
        out.clear();
        while handshake.awaited() > 0 {
            handshake.receive(wire.receive().await.map_err(lost)?)?;
        }
    }
    Ok(())
}

impl Session {
    pub(super) fn new(address: NodeAddress, transport: Transport, limits: Limits) -> Self {
        Self {
            address,
            transport,
            decoder: Decoder::new(limits),
            input: BytesMut::with_capacity(READ_BUFFER_BYTES),
            pushes: Vec::new(),
            opening: Vec::new(),
            write_error: None,
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        let written = async {
            self.transport.write_all(bytes).await?;
            self.transport.flush().await
        };
        self.write_error = written.await.err();
    }

    /// The next reply. `None`: the server closed the connection between two of them.
    async fn reply(&mut self) -> Result<Option<Value>, ConnectErrorKind> {
        loop {
            match self.decoder.decode(&mut self.input) {
                Ok(Some(Frame::Reply(value))) => return Ok(Some(value)),
                Ok(Some(Frame::Push(push))) => self.pushes.push(push),
                Ok(None) => {
                    if !self.read().await? {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(self.not_resp().unwrap_or(ConnectErrorKind::Protocol(error))),
            }
        }
    }

    /// Reads once. False: the server has closed the connection.
    async fn read(&mut self) -> Result<bool, ConnectErrorKind> {
        self.input.reserve(self.decoder.wanted().max(1));
        let before = self.input.len();
        match self.transport.read_buf(&mut self.input).await {
            Ok(0) => self.not_resp().map_or(Ok(false), Err),
            Ok(_) => {
                let room = OPENING_BYTES.saturating_sub(self.opening.len());
                self.opening.extend(self.input[before..].iter().take(room));
                Ok(true)
            }
            Err(error) if is_closed(&error) => Ok(false),
            Err(error) => Err(ConnectErrorKind::Io(error)),
        }
    }

    fn closed(&mut self) -> ConnectErrorKind {
        match self.write_error.take() {
            Some(error) if !is_closed(&error) => ConnectErrorKind::Io(error),
            _ => ConnectErrorKind::Closed { silent: self.opening.is_empty() },
        }
    }

    /// What listens there instead of Redis, if that can be told.
    fn not_resp(&self) -> Option<ConnectErrorKind> {
        let what = match self.opening.as_slice() {
            [b'H', b'T', b'T', b'P', b'/', ..] => "it answers in HTTP",
            // A TLS record: alert (0x15) or handshake (0x16), version 3.x.
            [0x15 | 0x16, 0x03, ..] => "it answers in TLS; use rediss:// or a TLS configuration",
            [b'S', b'S', b'H', b'-', ..] => "it answers in SSH",
            _ => return None,
        };
        Some(ConnectErrorKind::NotRedis(what))
    }

    fn into_connection(self, handshake: Handshake) -> Connection {
        Connection {
            address: self.address,
            transport: self.transport,
            decoder: self.decoder,
            read_buffer: self.input,
            pushes: self.pushes,
            credentials: handshake.credentials().cloned(),
            budget: None,
            server: handshake.into_server(),
        }
    }
}

/// The peer went away, by whichever name.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            // Of rustls: closed without a close_notify.
            | io::ErrorKind::UnexpectedEof
    )
}
