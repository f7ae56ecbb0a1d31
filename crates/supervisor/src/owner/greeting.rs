//! The greeting of a new connection: HELLO is read in bounded time and memory, or the connection is refused.

use crate::fd_message::NO_SIGNAL;
use crate::limits::HELLO_TIMEOUT;
use bytes::{Bytes, BytesMut};
use pilotlight_pipe::frame::{FrameHeader, FrameType, HEADER_LEN};
use pilotlight_pipe::hello::{Hello, MAX_HELLO};
use pilotlight_pipe::reset::{Reset, ResetCode};
use rustix::net::{SendFlags, send};
use std::io;
use std::time::Instant;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// What a new connection sent.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) stream: UnixStream,
    pub(super) uid: u32,
    pub(super) accepted: Instant,
    pub(super) hello: Result<(Hello, Bytes), Unwelcome>,
}

/// Why a connection is not accepted.
#[derive(Debug)]
pub(super) enum Unwelcome {
    /// It gets a RESET with this text.
    Refused(String),
    /// It was closed before it sent HELLO.
    Gone,
}

/// Reads HELLO, in bounded time and memory.
pub(super) async fn greet(mut stream: UnixStream, uid: u32, accepted: Instant) -> Greeting {
    let hello = match tokio::time::timeout(HELLO_TIMEOUT, read_hello(&mut stream)).await {
        Ok(hello) => hello,
        Err(_) => Err(Unwelcome::Refused(format!("P-4: no HELLO within {HELLO_TIMEOUT:?}"))),
    };
    Greeting { stream, uid, accepted, hello }
}

async fn read_hello(stream: &mut UnixStream) -> Result<(Hello, Bytes), Unwelcome> {
    let mut buffer = BytesMut::with_capacity(HEADER_LEN + MAX_HELLO);
    while buffer.len() < HEADER_LEN {
        read_some(stream, &mut buffer).await?;
    }
    let header = buffer.split_to(HEADER_LEN);
    let header = header.first_chunk().map(FrameHeader::decode).ok_or(Unwelcome::Gone)?;
    if header.kind != FrameType::HELLO || header.exchange != 0 {
        return Err(refused(format!("P-1: the first frame must be HELLO on exchange 0, not type {}", header.kind)));
    }
    let length = header.length as usize;
    if length > MAX_HELLO {
        return Err(refused(format!("P-6: HELLO of {length} bytes, at most {MAX_HELLO}")));
    }
    while buffer.len() < length {
        read_some(stream, &mut buffer).await?;
    }
    let payload = buffer.split_to(length);
    let hello = Hello::parse(&payload).map_err(|error| refused(error.to_string()))?;
    Ok((hello, buffer.freeze()))
}

async fn read_some(stream: &mut UnixStream, buffer: &mut BytesMut) -> Result<(), Unwelcome> {
    match stream.read_buf(buffer).await {
        Ok(0) | Err(_) => Err(Unwelcome::Gone),
        Ok(_) => Ok(()),
    }
}

fn refused(text: String) -> Unwelcome {
    Unwelcome::Refused(text)
}

pub(super) fn refuse(stream: &UnixStream, text: String) {
    tracing::warn!("a service's connection was refused: {text}");
    let mut frame = BytesMut::new();
    Reset::new(ResetCode::Protocol, text).encode(&mut frame, 0);
    if let Err(error) = write_whole(stream, &frame) {
        tracing::debug!(%error, "it did not take the reason");
    }
}

/// Past the event loop, which may not have seen yet that a new stream takes bytes.
pub(super) fn write_whole(stream: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    match send(stream, bytes, NO_SIGNAL | SendFlags::DONTWAIT)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
