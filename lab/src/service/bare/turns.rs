//! The epoll loop of all floors.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// What is read at once.
const ROOM: usize = 64 * 1024;
const EVENTS: usize = 256;
/// Tokens of listeners count down from here, those of connections up from 0.
const FIRST_LISTENER: u64 = u64::MAX;

/// What is done with a connection.
pub(super) trait Connection {
    /// Reads what is there, answers it, and writes what the socket takes. An error ends the connection.
    fn turn(&mut self, socket: &mut TcpStream, flags: EventFlags, room: &mut [u8]) -> io::Result<()>;
    /// Whether the socket has not taken everything: then no more requests are read until it has.
    fn has_unsent(&self) -> bool;
}

/// Connections by their tokens.
pub(super) type Connections<C> = [Option<(TcpStream, C)>];

/// Takes connections, and gives each its turn when its socket is ready; `after` all turns that were due is called with
/// all connections. `accepted` gets the number of its listener.
///
/// # Errors
/// The system refuses a socket, or one of the two fails.
pub(super) fn turn_for_ever<C: Connection>(
    listeners: &[TcpListener],
    accepted: impl Fn(usize) -> anyhow::Result<C>,
    mut after: impl FnMut(&mut Connections<C>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (token, listener) in (0..=FIRST_LISTENER).rev().zip(listeners) {
        listener.set_nonblocking(true)?;
        epoll::add(&epoll, listener, EventData::new_u64(token), EventFlags::IN)?;
    }
    let mut connections: Vec<Option<(TcpStream, C)>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut events = Vec::with_capacity(EVENTS);
    let mut room = vec![0; ROOM];
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let token = event.data.u64();
            let number = (FIRST_LISTENER - token) as usize;
            if let Some(listener) = listeners.get(number) {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true)?;
                    socket.set_nodelay(true)?;
                    let index = free.pop().unwrap_or(connections.len());
                    epoll::add(&epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN)?;
                    connections.resize_with(connections.len().max(index + 1), || None);
                    connections[index] = Some((socket, accepted(number)?));
                }
                continue;
            }
            let place = &mut connections[token as usize];
            let Some((socket, connection)) = place else { continue };
            let waited = connection.has_unsent();
            if connection.turn(socket, event.flags, &mut room).is_err() {
                *place = None; // a client that has gone, or has sent what no client of the lab sends
                free.push(token as usize);
            } else if waited != connection.has_unsent() {
                let interest = if waited { EventFlags::IN } else { EventFlags::OUT };
                epoll::modify(&epoll, &*socket, EventData::new_u64(token), interest)?;
            }
        }
        after(&mut connections)?;
    }
}

/// Whether there is something to read, if only the end.
pub(super) fn is_readable(flags: EventFlags) -> bool {
    flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
}

/// What there is; `None`: nothing now.
///
/// # Errors
/// The other side has gone.
pub(super) fn read(socket: &mut TcpStream, room: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.read(room) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes, and keeps what the socket does not take.
///
/// # Errors
/// The other side has gone.
pub(super) fn write(socket: &mut TcpStream, bytes: &[u8], unsent: &mut Vec<u8>) -> io::Result<()> {
    let written = taken(socket.write(bytes))?;
    unsent.extend_from_slice(&bytes[written..]);
    Ok(())
}

/// Writes what was kept.
///
/// # Errors
/// The other side has gone.
pub(super) fn flush(socket: &mut TcpStream, unsent: &mut Vec<u8>) -> io::Result<()> {
    let written = taken(socket.write(unsent))?;
    unsent.drain(..written);
    Ok(())
}

fn taken(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}
