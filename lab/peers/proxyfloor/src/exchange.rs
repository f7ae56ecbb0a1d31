//! Connections and who is whose in an exchange; knows nothing of how bytes come and go.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::head;

const BUFFER_BYTES: usize = 16 * 1024;

/// The two sides of a proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Service,
}

/// A connection of either side.
pub struct Connection {
    socket: OwnedFd,
    side: Side,
    input: Box<[u8]>,
    filled: usize,
    /// What is to be sent, or being sent.
    pub output: Vec<u8>,
    /// Whether the kernel has the output.
    pub sending: bool,
    /// Whether the other side has ended it.
    pub ended: bool,
    /// The other side of the exchange that goes on.
    other: Option<usize>,
}

impl Connection {
    fn new(socket: OwnedFd, side: Side) -> Self {
        let (input, output) = (vec![0; BUFFER_BYTES].into_boxed_slice(), Vec::with_capacity(BUFFER_BYTES));
        Self { socket, side, input, filled: 0, output, sending: false, ended: false, other: None }
    }

    /// Its socket, and where the next bytes go.
    pub fn receiving(&mut self) -> (BorrowedFd<'_>, &mut [u8]) {
        (self.socket.as_fd(), &mut self.input[self.filled..])
    }

    fn take(&mut self, used: usize) {
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What new bytes have come to.
pub struct Passed {
    /// Whose output is to be sent.
    pub to: usize,
    /// Whether that is a connection that was made for it.
    pub fresh: bool,
}

/// All connections, and those to the service that are free.
pub struct Exchanges {
    connections: Vec<Option<Connection>>,
    /// Places of connections that ended.
    free: Vec<usize>,
    idle: Vec<usize>,
    service: PathBuf,
    blocking: Blocking,
}

/// Whether sockets block: those that io_uring waits for do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    Yes,
    No,
}

impl Exchanges {
    pub fn new(service: &Path, blocking: Blocking) -> Self {
        Self { connections: Vec::new(), free: Vec::new(), idle: Vec::new(), service: service.to_owned(), blocking }
    }

    pub fn accepted(&mut self, client: OwnedFd) -> usize {
        self.add(Connection::new(client, Side::Client))
    }

    pub fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get_mut(index)?.as_mut()
    }

    /// So many bytes have come on a connection: passes on what is whole.
    pub fn received(&mut self, index: usize, bytes: usize) -> io::Result<Option<Passed>> {
        let Some(mut connection) = self.connections[index].take() else { return Ok(None) };
        connection.filled += bytes;
        let passed = match connection.side {
            Side::Client => self.pass_request(index, &mut connection),
            Side::Service => self.pass_response(&mut connection, index),
        };
        self.connections[index] = Some(connection);
        passed
    }

    fn pass_request(&mut self, index: usize, client: &mut Connection) -> io::Result<Option<Passed>> {
        if client.other.is_some() {
            return Ok(None); // the next request, while the last one is being answered
        }
        let (to, fresh) = match self.idle.pop() {
            Some(kept) => (kept, false),
            None => (self.dial()?, true),
        };
        let Some(service) = self.connections[to].as_mut() else { return Ok(None) };
        let Some(used) = head::pass_request(&client.input[..client.filled], &mut service.output)? else {
            self.idle.push(to);
            return Ok(None);
        };
        client.take(used);
        (client.other, service.other) = (Some(to), Some(index));
        Ok(Some(Passed { to, fresh }))
    }

    fn pass_response(&mut self, service: &mut Connection, index: usize) -> io::Result<Option<Passed>> {
        let Some(to) = service.other else { return Ok(None) };
        let Some(client) = self.connections[to].as_mut() else { return Ok(None) };
        let Some(used) = head::pass_response(&service.input[..service.filled], &mut client.output)? else {
            return Ok(None);
        };
        service.take(used);
        (client.other, service.other) = (None, None);
        self.idle.push(index);
        Ok(Some(Passed { to, fresh: false }))
    }

    /// Forgets a connection; returns the other side of its exchange, which nothing can be made of any more.
    pub fn closed(&mut self, index: usize) -> Option<usize> {
        let ended = self.connections[index].take()?;
        self.free.push(index);
        self.idle.retain(|kept| *kept != index);
        let other = ended.other?;
        self.connections[other].as_mut()?.other = None;
        Some(other)
    }

    fn dial(&mut self) -> io::Result<usize> {
        let socket = UnixStream::connect(&self.service)?;
        socket.set_nonblocking(self.blocking == Blocking::No)?;
        Ok(self.add(Connection::new(socket.into(), Side::Service)))
    }

    fn add(&mut self, connection: Connection) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections[index] = Some(connection);
        index
    }
}
