//! A message by a system call of its own.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::SendFlags;

use crate::message::Message;

/// A full socket is for its task to wait for, and a closed one must not end the process.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
/// The standard library has the process ignore SIGPIPE.
#[cfg(target_vendor = "apple")]
pub(crate) const FLAGS: SendFlags = SendFlags::DONTWAIT;

/// How much of it the socket took.
pub(crate) fn send(bytes: &[u8], message: &Message) -> io::Result<usize> {
    #[expect(unsafe_code, reason = "a batch cannot borrow from the streams that put something in it")]
    // SAFETY: the descriptor is open. It was taken from a stream that its `Batched` owns and lends to nobody who could
    // close it; before that stream is dropped, `Batched` has the batch sent, which empties the list of messages.
    let socket = unsafe { BorrowedFd::borrow_raw(message.socket) };
    Ok(rustix::net::send(socket, &bytes[message.range.clone()], FLAGS)?)
}
