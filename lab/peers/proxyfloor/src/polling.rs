//! Level-triggered epoll: a socket that has bytes is read once; what is to be sent goes out by itself or together.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use io_uring::{IoUring, opcode, types};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::exchange::{Blocking, Exchanges};

const LISTENER: u64 = u64::MAX;
const EVENTS: usize = 256;
const RING_ENTRIES: u32 = 1024;

/// How messages go out.
pub enum Sending {
    /// Each by a `send` of its own, at once.
    Each,
    /// Those of one turn in one `io_uring_enter`, which returns when all are sent.
    Together { ring: Box<IoUring>, waiting: Vec<usize> },
}

impl Sending {
    pub fn together() -> io::Result<Self> {
        let ring = IoUring::builder().setup_single_issuer().setup_coop_taskrun().build(RING_ENTRIES)?;
        Ok(Self::Together { ring: Box::new(ring), waiting: Vec::new() })
    }

    fn send(&mut self, exchanges: &mut Exchanges, to: usize) -> io::Result<()> {
        if let Self::Together { waiting, .. } = self {
            waiting.push(to);
            return Ok(());
        }
        let Some(connection) = exchanges.connection(to) else { return Ok(()) };
        let sent = rustix::net::send(connection.as_fd(), &connection.output, SendFlags::NOSIGNAL);
        finish(sent.map_err(Into::into), &mut connection.output)
    }

    fn end_turn(&mut self, exchanges: &mut Exchanges) -> io::Result<()> {
        let Self::Together { ring, waiting } = self else { return Ok(()) };
        if waiting.is_empty() {
            return Ok(());
        }
        let mut count = 0;
        for to in waiting.drain(..) {
            let Some(connection) = exchanges.connection(to) else { continue };
            let socket = types::Fd(connection.as_fd().as_raw_fd());
            let entry = opcode::Send::new(socket, connection.output.as_ptr(), connection.output.len() as u32);
            let entry = entry.flags(SendFlags::NOSIGNAL.bits() as i32).build().user_data(to as u64);
            #[expect(unsafe_code, reason = "the output is not touched before its completion is read below")]
            let pushed = unsafe { ring.submission().push(&entry) };
            pushed.map_err(io::Error::other)?;
            count += 1;
        }
        ring.submit_and_wait(count)?;
        for completion in ring.completion() {
            let Some(connection) = exchanges.connection(completion.user_data() as usize) else { continue };
            let sent = usize::try_from(completion.result());
            let sent = sent.map_err(|_| io::Error::from_raw_os_error(-completion.result()));
            finish(sent, &mut connection.output)?;
        }
        Ok(())
    }
}

/// A message is sent as a whole or to nobody: it is small, and the buffers of sockets are empty.
pub fn finish(sent: io::Result<usize>, output: &mut Vec<u8>) -> io::Result<()> {
    let whole = match sent {
        Ok(bytes) => bytes == output.len(),
        Err(error) => matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
    };
    output.clear();
    if whole { Ok(()) } else { Err(io::Error::other("a message was sent in part")) }
}

pub fn serve(listener: &TcpListener, service: &Path, mut sending: Sending) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut exchanges = Exchanges::new(service, Blocking::No);
    let mut events = Vec::with_capacity(EVENTS);
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            match event.data.u64() {
                LISTENER => accept(listener, &epoll, &mut exchanges)?,
                index => turn(index as usize, &epoll, &mut exchanges, &mut sending)?,
            }
        }
        sending.end_turn(&mut exchanges)?;
    }
}

fn accept(listener: &TcpListener, epoll: &OwnedFd, exchanges: &mut Exchanges) -> io::Result<()> {
    while let Ok((client, _)) = listener.accept() {
        client.set_nonblocking(true)?;
        client.set_nodelay(true)?;
        let index = exchanges.accepted(client.into());
        watch(epoll, exchanges, index)?;
    }
    Ok(())
}

fn watch(epoll: &OwnedFd, exchanges: &mut Exchanges, index: usize) -> io::Result<()> {
    let Some(connection) = exchanges.connection(index) else { return Ok(()) };
    Ok(epoll::add(epoll, &*connection, EventData::new_u64(index as u64), EventFlags::IN)?)
}

fn turn(index: usize, epoll: &OwnedFd, exchanges: &mut Exchanges, sending: &mut Sending) -> io::Result<()> {
    let Some(connection) = exchanges.connection(index) else { return Ok(()) };
    let (socket, room) = connection.receiving();
    let bytes = match rustix::net::recv(socket, room, RecvFlags::empty()) {
        Ok((0, _)) | Err(Errno::CONNRESET) => {
            if let Some(other) = exchanges.closed(index) {
                exchanges.closed(other);
            }
            return Ok(());
        }
        Ok((bytes, _)) => bytes,
        Err(Errno::AGAIN) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let Some(passed) = exchanges.received(index, bytes)? else { return Ok(()) };
    if passed.fresh {
        watch(epoll, exchanges, passed.to)?;
    }
    sending.send(exchanges, passed.to)
}
