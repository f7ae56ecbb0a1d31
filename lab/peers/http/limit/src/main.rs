//! The floor of a cached answer: one thread, level-triggered epoll, httparse, one hash lookup, one write per readable
//! event.
//!
//! `limit PORT` answers `GET /users/0 … /users/9999` with 200 bytes of JSON from memory, `/large` with 16 KiB,
//! keep-alive and pipelining.
use rustc_hash::FxHashMap;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

const INPUT_LIMIT: usize = 16 * 1024;
const EVENTS: usize = 256;
const MAX_HEADERS: usize = 32;
const LISTENER: u64 = u64::MAX;

/// A stored answer, cut where the date goes.
struct Stored {
    before_date: Vec<u8>,
    after_date: Vec<u8>,
}

/// The answers by path, and the date that they carry.
struct Answers {
    stored: FxHashMap<Vec<u8>, Stored>,
    date: String,
    second: u64,
}

impl Answers {
    fn new() -> Self {
        let start = r#"{"id":42,"name":"Mallory Rodriguez","email":"user42@example.com","createdAt":"2025-01-15T18:42:00","bio":""#;
        let entry = |bytes: usize| {
            let body = format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2));
            let head = format!(
                "HTTP/1.1 200 OK\r\nserver: limit\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\ndate: "
            );
            Stored { before_date: head.into(), after_date: format!("\r\n\r\n{body}").into() }
        };
        let small = (0..10_000).map(|id| (format!("/users/{id}").into_bytes(), entry(200)));
        let stored = small.chain([(b"/large".to_vec(), entry(16 * 1024))]).collect();
        Self { stored, date: String::new(), second: 0 }
    }

    fn tick(&mut self) {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second != self.second {
            self.second = second;
            self.date = httpdate::fmt_http_date(now);
        }
    }

    fn write(&self, path: &str, output: &mut Vec<u8>) {
        match self.stored.get(path.as_bytes()) {
            Some(stored) => {
                output.extend_from_slice(&stored.before_date);
                output.extend_from_slice(self.date.as_bytes());
                output.extend_from_slice(&stored.after_date);
            }
            None => output.extend_from_slice(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        }
    }
}

struct Connection {
    socket: TcpStream,
    input: Box<[u8; INPUT_LIMIT]>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
    waits_to_write: bool,
}

impl Connection {
    fn new(socket: TcpStream) -> Self {
        let input = Box::new([0; INPUT_LIMIT]);
        Self { socket, input, filled: 0, output: Vec::with_capacity(INPUT_LIMIT), written: 0, waits_to_write: false }
    }

    /// One read, every request in it, one write.
    fn turn(&mut self, readable: bool, answers: &Answers) -> io::Result<()> {
        if readable {
            match self.socket.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            self.answer(answers)?;
        }
        self.flush()
    }

    fn answer(&mut self, answers: &Answers) -> io::Result<()> {
        let mut used = 0;
        while used < self.filled {
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&self.input[used..self.filled]).map_err(|_| ErrorKind::InvalidData)? {
                httparse::Status::Complete(length) => {
                    answers.write(request.path.unwrap_or(""), &mut self.output);
                    used += length;
                }
                httparse::Status::Partial => break,
            }
        }
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        if self.filled == INPUT_LIMIT { Err(ErrorKind::InvalidData.into()) } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.written == self.output.len() {
            return Ok(());
        }
        match self.socket.write(&self.output[self.written..]) {
            Ok(count) => self.written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        Ok(())
    }

    /// The events to wait for from now on, if they are others than before.
    fn changed_interest(&mut self) -> Option<EventFlags> {
        let waits = !self.output.is_empty();
        let changed = waits != self.waits_to_write;
        self.waits_to_write = waits;
        changed.then_some(EventFlags::RDHUP | if waits { EventFlags::OUT } else { EventFlags::IN })
    }
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let Some(port) = port else {
        eprintln!("usage: limit PORT");
        std::process::exit(2);
    };
    serve(TcpListener::bind(("127.0.0.1", port))?)
}

fn serve(listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut answers = Answers::new();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::with_capacity(EVENTS);
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        answers.tick();
        for event in &events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == LISTENER {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true)?;
                    socket.set_nodelay(true)?;
                    let index = connections.iter().position(Option::is_none).unwrap_or(connections.len());
                    let data = EventData::new_u64(index as u64);
                    epoll::add(&epoll, &socket, data, EventFlags::IN | EventFlags::RDHUP)?;
                    connections.resize_with(connections.len().max(index + 1), || None);
                    connections[index] = Some(Connection::new(socket));
                }
                continue;
            }
            let slot = &mut connections[token as usize];
            let Some(connection) = slot else { continue };
            let turned = connection.turn(flags.contains(EventFlags::IN), &answers);
            if turned.is_err() || flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                *slot = None;
            } else if let Some(interest) = connection.changed_interest() {
                epoll::modify(&epoll, &connection.socket, EventData::new_u64(token), interest)?;
            }
        }
    }
}
