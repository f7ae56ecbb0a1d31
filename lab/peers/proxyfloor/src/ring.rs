//! Everything by io_uring: connections are accepted, received from and sent to with one `io_uring_enter` a turn.
//!
//! A connection's buffers stay where they are while the kernel has them: the input until its receive has completed, the
//! output until its send has; a connection that ended is kept until neither is owed.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

use io_uring::squeue::Entry;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

use crate::exchange::{Blocking, Exchanges};
use crate::polling::finish;

const ENTRIES: u32 = 2048;
const ACCEPT: u64 = u64::MAX;
/// Marks the completion of a send.
const SEND: u64 = 1 << 40;

struct Ring {
    ring: IoUring,
    exchanges: Exchanges,
}

pub fn serve(listener: &TcpListener, service: &Path) -> io::Result<()> {
    let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES)?;
    let mut serving = Ring { ring, exchanges: Exchanges::new(service, Blocking::Yes) };
    let accept = opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).build().user_data(ACCEPT);
    serving.push(&accept)?;
    let mut done: Vec<cqueue::Entry> = Vec::new();
    loop {
        serving.ring.submit_and_wait(1)?;
        done.clear();
        done.extend(serving.ring.completion());
        for completion in &done {
            let (token, result) = (completion.user_data(), completion.result());
            let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            match token {
                ACCEPT => serving.accepted(result?)?,
                sent if sent & SEND != 0 => serving.sent((sent & !SEND) as usize, result)?,
                index => serving.received(index as usize, result)?,
            }
        }
    }
}

impl Ring {
    fn accepted(&mut self, descriptor: usize) -> io::Result<()> {
        #[expect(unsafe_code, reason = "the kernel has just given this descriptor out, and nobody else knows it")]
        let client = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
        let client = TcpStream::from(client);
        client.set_nodelay(true)?;
        let index = self.exchanges.accepted(client.into());
        self.receive(index)
    }

    fn sent(&mut self, index: usize, result: io::Result<usize>) -> io::Result<()> {
        let Some(connection) = self.exchanges.connection(index) else { return Ok(()) };
        connection.sending = false;
        let ended = connection.ended;
        finish(result, &mut connection.output)?;
        if ended { self.close(index) } else { Ok(()) }
    }

    fn received(&mut self, index: usize, result: io::Result<usize>) -> io::Result<()> {
        let bytes = match result {
            Ok(0) | Err(_) => return self.ended(index),
            Ok(bytes) => bytes,
        };
        if let Some(passed) = self.exchanges.received(index, bytes)? {
            if passed.fresh {
                self.receive(passed.to)?;
            }
            self.send(passed.to)?;
        }
        self.receive(index)
    }

    /// The receive that was owed has ended the connection; a send may still be owed.
    fn ended(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = self.exchanges.connection(index) else { return Ok(()) };
        connection.ended = true;
        if connection.sending { Ok(()) } else { self.close(index) }
    }

    /// Nothing is owed to it any more. The other side's receive is, and ends when its socket is shut down.
    fn close(&mut self, index: usize) -> io::Result<()> {
        let other = self.exchanges.closed(index).and_then(|other| self.exchanges.connection(other));
        let Some(other) = other else { return Ok(()) };
        match rustix::net::shutdown(other.as_fd(), Shutdown::Both) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = self.exchanges.connection(index) else { return Ok(()) };
        let (socket, room) = connection.receiving();
        let entry = opcode::Recv::new(types::Fd(socket.as_raw_fd()), room.as_mut_ptr(), room.len() as u32);
        self.push(&entry.build().user_data(index as u64))
    }

    fn send(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = self.exchanges.connection(index) else { return Ok(()) };
        connection.sending = true;
        let (socket, output) = (types::Fd(connection.as_fd().as_raw_fd()), &connection.output);
        let entry = opcode::Send::new(socket, output.as_ptr(), output.len() as u32);
        let entry = entry.flags(SendFlags::NOSIGNAL.bits() as i32).build().user_data(SEND | index as u64);
        self.push(&entry)
    }

    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        #[expect(unsafe_code, reason = "buffers outlive what the kernel does with them: see above")]
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(io::Error::other)
    }
}
