//! Many connections, each with a fixed number of requests in flight: an answer that came is replaced by a request.
use crate::histogram::Histogram;
use crate::requests::Requests;
use crate::response::Responses;
use crate::target::Socket;
use crate::{Outcome, Plan};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The answers to one write of requests must fit.
const INPUT_LIMIT: usize = 64 * 1024;
const EVENTS: usize = 256;
const LOOK_AT_CLOCK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

struct Connection {
    socket: Socket,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    /// When requests were sent, oldest first, and how many of them are unanswered.
    sent: VecDeque<(Instant, usize)>,
    responses: Responses,
    /// Requests so far.
    asked: u64,
    waits_to_write: bool,
}

impl Connection {
    fn open(plan: &Plan) -> io::Result<Self> {
        let socket = plan.target.dial()?;
        socket.set_nonblocking()?;
        Ok(Self {
            socket,
            input: vec![0; INPUT_LIMIT],
            filled: 0,
            output: Vec::new(),
            sent: VecDeque::new(),
            responses: Responses::default(),
            asked: 0,
            waits_to_write: false,
        })
    }

    fn send(&mut self, requests: &mut Requests, count: usize, now: Instant) -> io::Result<()> {
        self.sent.push_back((now, count));
        for _ in 0..count {
            self.output.extend_from_slice(requests.next(self.asked));
            self.asked += 1;
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once and returns how many answers were complete.
    fn receive(&mut self, latency: &mut Histogram) -> io::Result<(usize, Instant)> {
        let count = match self.socket.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        self.filled += count;
        let (mut used, mut answers) = (0, 0);
        while let Some(length) = self.responses.next_length(&self.input[used..self.filled]) {
            used += length;
            answers += 1;
            let (sent, unanswered) = self.sent.front_mut().ok_or(ErrorKind::InvalidData)?;
            latency.add(now - *sent);
            *unanswered -= 1;
            if *unanswered == 0 {
                self.sent.pop_front();
            }
        }
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok((answers, now))
    }

    fn watch_writing(&mut self, epoll: &OwnedFd, index: usize) -> io::Result<()> {
        let waits = !self.output.is_empty();
        if waits == self.waits_to_write {
            return Ok(());
        }
        self.waits_to_write = waits;
        let interest = if waits { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(epoll, &self.socket, EventData::new_u64(index as u64), interest)?)
    }

    fn turn(&mut self, flags: EventFlags, requests: &mut Requests, latency: &mut Histogram) -> io::Result<()> {
        if flags.contains(EventFlags::OUT) {
            self.flush()?;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            let (answers, now) = self.receive(latency)?;
            if answers > 0 {
                self.send(requests, answers, now)?;
            }
        }
        Ok(())
    }
}

pub fn run(plan: &mut Plan) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::with_capacity(plan.connections);
    for index in 0..plan.connections {
        let connection = Connection::open(plan)?;
        epoll::add(&epoll, &connection.socket, EventData::new_u64(index as u64), EventFlags::IN)?;
        connections.push(Some(connection));
    }
    let start = Instant::now();
    for connection in connections.iter_mut().flatten() {
        connection.send(&mut plan.requests, plan.depth, Instant::now())?;
    }
    let mut events = Vec::with_capacity(EVENTS);
    let mut alive = plan.connections;
    while alive > 0 && start.elapsed() < plan.duration {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&LOOK_AT_CLOCK))?;
        for event in &events {
            let (index, flags) = (event.data.u64() as usize, event.flags);
            let Some(connection) = &mut connections[index] else {
                continue;
            };
            let turned = connection.turn(flags, &mut plan.requests, &mut outcome.latency);
            if turned.and_then(|()| connection.watch_writing(&epoll, index)).is_err() {
                outcome.bad_status += connection.responses.bad_status;
                outcome.broken += 1;
                connections[index] = None;
                alive -= 1;
            }
        }
    }
    outcome.bad_status += connections.iter().flatten().map(|connection| connection.responses.bad_status).sum::<u64>();
    Ok(outcome)
}
