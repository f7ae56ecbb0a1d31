//! The floor of all servers: one thread, one epoll loop, requests counted by their ends, answers made beforehand. It
//! parses nothing, so it can be held against servers that do.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use memchr::memmem;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{answer_body, say_address};

const ROOM: usize = 16 * 1024;
const EVENTS: usize = 256;
const LISTENER: u64 = u64::MAX;
const END: &[u8] = b"\r\n\r\n";

/// Answers every request with the same 200 bytes, on a free port, for ever.
///
/// # Errors
/// The system refuses a socket.
pub(super) fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    say_address(listener.local_addr()?)?;
    let body = answer_body();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    let answer = format!("{head}{body}").into_bytes();
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
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
            if token == LISTENER {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true)?;
                    socket.set_nodelay(true)?;
                    let index = connections.iter().position(Option::is_none).unwrap_or(connections.len());
                    epoll::add(&epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN)?;
                    connections.resize_with(connections.len().max(index + 1), || None);
                    connections[index] = Some(Connection { socket, begun: Vec::new(), unsent: Vec::new() });
                }
                continue;
            }
            let place = &mut connections[token as usize];
            let Some(connection) = place else { continue };
            let waited = !connection.unsent.is_empty();
            if connection.turn(event.flags, &mut room, &answer).is_err() {
                *place = None; // a client that has gone, or has sent more than a request
            } else if waited == connection.unsent.is_empty() {
                // Answers that the client does not take are waited with, and no more requests are read.
                let interest = if waited { EventFlags::IN } else { EventFlags::OUT };
                epoll::modify(&epoll, &connection.socket, EventData::new_u64(token), interest)?;
            }
        }
    }
}

struct Connection {
    socket: TcpStream,
    /// The beginning of a request that is not whole yet.
    begun: Vec<u8>,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
}

impl Connection {
    fn turn(&mut self, flags: EventFlags, room: &mut [u8], answer: &[u8]) -> io::Result<()> {
        if flags.contains(EventFlags::OUT) {
            let written = self.write(None)?;
            self.unsent.drain(..written);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return Ok(());
        }
        let read = match self.socket.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let requests = self.count(&room[..read])?;
        let (written, answers) = match requests {
            0 => return Ok(()),
            1 => (self.write(Some(answer))?, answer),
            _ => {
                let answers = answer.repeat(requests);
                let written = self.write(Some(&answers))?;
                self.unsent.extend_from_slice(&answers[written..]);
                return Ok(());
            }
        };
        self.unsent.extend_from_slice(&answers[written..]);
        Ok(())
    }

    /// Requests that end in what was read.
    fn count(&mut self, read: &[u8]) -> io::Result<usize> {
        if self.begun.is_empty() && read.ends_with(END) {
            return Ok(memmem::find_iter(read, END).count());
        }
        self.begun.extend_from_slice(read);
        let last = memmem::rfind(&self.begun, END).map_or(0, |at| at + END.len());
        let requests = memmem::find_iter(&self.begun[..last], END).count();
        self.begun.drain(..last);
        if self.begun.len() > ROOM { Err(ErrorKind::InvalidData.into()) } else { Ok(requests) }
    }

    fn write(&mut self, bytes: Option<&[u8]>) -> io::Result<usize> {
        match self.socket.write(bytes.unwrap_or(&self.unsent)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }
}
