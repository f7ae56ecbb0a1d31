//! One non-blocking socket with its buffers and the users that wait for its replies.
use harness::{Kind, scan};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

const INPUT_BYTES: usize = 256 * 1024;
const OUTPUT_BYTES: usize = 64 * 1024;
/// A read gets at least as much room.
const MIN_ROOM_BYTES: usize = 64 * 1024;

pub struct Connection {
    pub socket: TcpStream,
    output: Vec<u8>,
    sent: usize,
    /// What was read and not yet scanned is `input[begin..end]`.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    waiting: VecDeque<u32>,
}

impl Connection {
    pub fn open(port: u16) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("the cluster runs");
        socket.set_nodelay(true).expect("a TCP socket");
        socket.set_nonblocking(true).expect("a TCP socket");
        let output = Vec::with_capacity(OUTPUT_BYTES);
        Self { socket, output, sent: 0, input: vec![0; INPUT_BYTES], begin: 0, end: 0, waiting: VecDeque::new() }
    }

    /// Adds a command; returns whether it is the first to be written.
    #[inline]
    pub fn push(&mut self, command: &[u8], user: u32) -> bool {
        let first = self.output.is_empty();
        self.output.extend_from_slice(command);
        self.waiting.push_back(user);
        first
    }

    /// Returns whether everything has been written.
    pub fn flush(&mut self) -> bool {
        while self.sent < self.output.len() {
            match self.socket.write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => panic!("write: {error}"),
            }
        }
        self.output.clear();
        self.sent = 0;
        true
    }

    /// Reads until there is no more, appends who was answered, and returns how many answers were wrong.
    pub fn read(&mut self, kind: Kind, value_bytes: usize, answered: &mut Vec<u32>) -> u64 {
        let mut wrong = 0;
        loop {
            self.make_room();
            let room = self.input.len() - self.end;
            let count = match self.socket.read(&mut self.input[self.end..]) {
                Ok(0) => panic!("the node closed the connection"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return wrong,
                Err(error) => panic!("read: {error}"),
            };
            self.end += count;
            while let Some((reply, length)) = scan(&self.input[self.begin..self.end]) {
                wrong += u64::from(!reply.is_right(kind, value_bytes));
                self.begin += length;
                answered.push(self.waiting.pop_front().expect("a reply to a command"));
            }
            if self.begin == self.end {
                (self.begin, self.end) = (0, 0);
            }
            if count < room {
                return wrong; // a short read has emptied the socket: the next bytes make a new edge
            }
        }
    }

    fn make_room(&mut self) {
        if self.begin > 0 && self.input.len() - self.end < MIN_ROOM_BYTES {
            self.input.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
    }
}
