//! Messages over a pair of sockets: `length u32` (native order: it is one machine), JSON, and descriptors beside it.
//! The gateway speaks so with its guardian, and with the process that takes over from it.
//!
//! Descriptors ride on the first byte of their message and arrive in the order of the messages, so a queue of them is
//! enough: each message takes as many as it needs.

use crate::limits::MAX_MESSAGE;
use bytes::{Buf, BytesMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Descriptors beside one message at most.
pub const MAX_FDS: usize = 128;

/// Encodes a message.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut out = vec![0; 4];
    serde_json::to_writer(&mut out, message)?;
    let length = out.len() - 4;
    if length > MAX_MESSAGE {
        return Err(io::Error::other(format!("{length} bytes of arguments and environment, at most {MAX_MESSAGE}")));
    }
    out[..4].copy_from_slice(&(length as u32).to_ne_bytes());
    Ok(out)
}

/// Encodes and sends a message with its descriptors. Not cancel safe: a message may be cut.
pub(crate) async fn send(socket: &UnixStream, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_encoded(socket, &encode(message)?, fds).await
}

/// Sends an encoded message with its descriptors. Not cancel safe.
pub(crate) async fn send_encoded(socket: &UnixStream, mut bytes: &[u8], mut fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = socket.async_io(Interest::WRITABLE, || send_some(socket, bytes, fds)).await?;
        bytes = &bytes[sent..];
        fds = &[];
    }
    Ok(())
}

/// Encodes and sends a message with its descriptors on a socket that waits.
///
/// # Errors
/// Those of the socket; a message of more than [`MAX_MESSAGE`] bytes or [`MAX_FDS`] descriptors.
pub fn send_blocking(
    socket: &std::os::unix::net::UnixStream,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let encoded = encode(message)?;
    let (mut bytes, mut fds) = (&encoded[..], fds);
    while !bytes.is_empty() {
        let sent = send_some(socket, bytes, fds)?;
        bytes = &bytes[sent..];
        fds = &[];
    }
    Ok(())
}

fn send_some(socket: &impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("more descriptors than one message carries"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, NO_SIGNAL)?)
}

/// What has arrived on one socket.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: BytesMut,
    fds: VecDeque<OwnedFd>,
}

impl Inbox {
    /// The next message, `None` at the end of the stream. Cancel safe.
    pub(crate) async fn receive<M: DeserializeOwned>(&mut self, socket: &UnixStream) -> io::Result<Option<M>> {
        loop {
            if let Some(message) = self.split()? {
                return Ok(Some(message));
            }
            if socket.async_io(Interest::READABLE, || self.receive_some(socket)).await? == 0 {
                return if self.bytes.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// The next message on a socket that waits, `None` at the end of the stream.
    ///
    /// # Errors
    /// Those of the socket, its time to wait among them; an end within a message; what is no message.
    pub fn receive_blocking<M: DeserializeOwned>(
        &mut self,
        socket: &std::os::unix::net::UnixStream,
    ) -> io::Result<Option<M>> {
        loop {
            if let Some(message) = self.split()? {
                return Ok(Some(message));
            }
            if self.receive_some(socket)? == 0 {
                return if self.bytes.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// The next descriptor that came beside a message.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }

    fn split<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some(length) = self.bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_ne_bytes(*length) as usize;
        if length > MAX_MESSAGE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("message of {length} bytes")));
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        self.bytes.advance(4);
        Ok(Some(serde_json::from_slice(&self.bytes.split_to(length))?))
    }

    fn receive_some(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffer = [0; 4096];
        let received = recvmsg(socket, &mut [IoSliceMut::new(&mut buffer)], &mut control, receive_flags())?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        self.bytes.extend_from_slice(&buffer[..received.bytes]);
        Ok(received.bytes)
    }
}

/// Sends without SIGPIPE; on other systems than Linux, Rust's runtime ignores that signal.
#[cfg(target_os = "linux")]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();

#[cfg(target_os = "linux")]
fn receive_flags() -> RecvFlags {
    RecvFlags::CMSG_CLOEXEC
}

#[cfg(not(target_os = "linux"))]
fn receive_flags() -> RecvFlags {
    RecvFlags::empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_in_order_and_whole() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (left, right) = UnixStream::pair().unwrap();
            let sender = tokio::spawn(async move {
                for number in 0..20_usize {
                    let (read, write) = rustix::pipe::pipe().unwrap();
                    rustix::io::write(&write, &[number as u8]).unwrap();
                    let fds = [read.as_fd()];
                    let text = "x".repeat(number * 40_000);
                    send(&left, &(number, text), &fds[..number % 2]).await.unwrap();
                }
            });
            let mut inbox = Inbox::default();
            for expected in 0..20_usize {
                let (number, text): (usize, String) = inbox.receive(&right).await.unwrap().unwrap();
                assert_eq!((number, text.len()), (expected, expected * 40_000));
                if number % 2 == 1 {
                    let mut byte = [0];
                    rustix::io::read(inbox.take_fd().unwrap(), &mut byte).unwrap();
                    assert_eq!(usize::from(byte[0]), number);
                }
            }
            sender.await.unwrap();
            assert!(inbox.receive::<u32>(&right).await.unwrap().is_none());
            assert!(inbox.take_fd().is_none());
        });
    }

    #[test]
    fn an_oversized_message_is_refused_by_both_sides() {
        assert!(encode(&"x".repeat(MAX_MESSAGE)).is_err());
        let mut inbox = Inbox::default();
        inbox.bytes.extend_from_slice(&(MAX_MESSAGE as u32 + 1).to_ne_bytes());
        assert_eq!(inbox.split::<u32>().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
