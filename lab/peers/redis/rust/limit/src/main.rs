//! The floor of everything concurrent: one thread, edge-triggered epoll, commands made beforehand, replies only
//! scanned.
//!
//! Each user has one command in flight (`w2`: a batch) and issues the next when it is answered. Commands gather in a
//! buffer for each connection while the replies of one turn are read; then each buffer is written at once.
mod connection;

use connection::Connection;
use harness::{
    BATCH, KEYS, Kind, Measurement, Options, Random, Step, Tally, Topology, published_key, push_get, push_set,
};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::mem;
use std::time::Instant;

const EVENTS: usize = 64;
/// How long to wait before a blocked write is tried again.
const RETRY_MS: u8 = 1;

fn main() {
    let options = Options::parse();
    let mut users = Users::new(&options);
    let now = Instant::now();
    for user in 0..options.workload.tasks {
        users.issue(user, now);
    }

    let warm = Instant::now() + options.warm_up;
    while users.turn() < warm {}
    users.tally = Tally { errors: users.tally.errors, ..Tally::default() };
    users.tally.times_ns.reserve(1 << 23);
    let measurement = Measurement::start();
    let end = Instant::now() + options.measured;
    while users.turn() < end {}
    measurement.stop().print(&options, &[users.tally]);
}

/// A command for every key, and where it goes. As small as can be: what misses the cache here is part of the floor.
struct Commands {
    gets: Vec<Vec<u8>>,
    sets: Vec<Vec<u8>>,
    nodes: Vec<u8>,
}

impl Commands {
    fn new(options: &Options) -> Self {
        let topology = Topology::of(&options.ports);
        let keys = options.workload.keys();
        let value = options.workload.value();
        let get = |key: &String| made(|output| push_get(output, key.as_bytes()));
        let set = |key: &String| made(|output| push_set(output, key.as_bytes(), &value));
        Self {
            gets: keys.iter().map(get).collect(),
            sets: keys.iter().map(set).collect(),
            nodes: keys.iter().map(|key| topology.node(key.as_bytes()) as u8).collect(),
        }
    }
}

fn made(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut output = Vec::new();
    write(&mut output);
    output.shrink_to_fit();
    output
}

/// A user's present command or batch.
#[derive(Clone)]
struct Pending {
    answers_missing: usize,
    begun: Instant,
}

struct Users {
    kind: Kind,
    value_bytes: usize,
    commands: Commands,
    random: Random,
    pending: Vec<Pending>,
    /// Commands of each user so far, where they follow each other.
    issued: Vec<usize>,
    connections: Vec<Connection>,
    /// `connections=N`: to each node; a user keeps to one of them.
    connections_per_node: usize,
    /// Indices of connections with something to write.
    unwritten: Vec<usize>,
    /// Users whose commands were answered in this turn, once for each command.
    answered: Vec<u32>,
    events: Vec<EpollEvent>,
    epoll: Epoll,
    tally: Tally,
}

impl Users {
    fn new(options: &Options) -> Self {
        let connections_per_node = options.tuned_number("connections").unwrap_or(1);
        let epoll = Epoll::new(EpollCreateFlags::empty()).expect("an event queue");
        let mut connections = Vec::new();
        for port in &options.ports {
            for _ in 0..connections_per_node {
                let interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
                let connection = Connection::open(*port);
                epoll
                    .add(&connection.socket, EpollEvent::new(interest, connections.len() as u64))
                    .expect("a socket can be polled");
                connections.push(connection);
            }
        }
        let nobody = Pending { answers_missing: 0, begun: Instant::now() };
        Self {
            kind: options.workload.kind,
            value_bytes: options.workload.value_bytes,
            commands: Commands::new(options),
            random: Random::seeded(7),
            pending: vec![nobody; options.workload.tasks],
            issued: vec![0; options.workload.tasks],
            connections,
            connections_per_node,
            unwritten: Vec::new(),
            answered: Vec::new(),
            events: vec![EpollEvent::empty(); EVENTS],
            epoll,
            tally: Tally::default(),
        }
    }

    /// Puts a user's next command or batch into the buffers.
    fn issue(&mut self, user: usize, now: Instant) {
        let count = if matches!(self.kind, Kind::Single { .. }) { 1 } else { BATCH };
        self.pending[user] = Pending { answers_missing: count, begun: now };
        for _ in 0..count {
            let (key, step) = self.next(user);
            let command = match step {
                Step::Get => &self.commands.gets[key],
                Step::Set => &self.commands.sets[key],
            };
            let index =
                usize::from(self.commands.nodes[key]) * self.connections_per_node + user % self.connections_per_node;
            if self.connections[index].push(command, user as u32) {
                self.unwritten.push(index);
            }
        }
    }

    /// A user's next command.
    fn next(&mut self, user: usize) -> (usize, Step) {
        let Kind::Published { .. } = self.kind else {
            return (self.random.below(KEYS), self.kind.step(&mut self.random));
        };
        let count = self.issued[user];
        self.issued[user] += 1;
        (published_key(user, count), self.kind.published_step(count))
    }

    /// Writes what has gathered, waits, reads what has come, and issues what follows. Returns when it began to read.
    fn turn(&mut self) -> Instant {
        let connections = &mut self.connections;
        self.unwritten.retain(|index| !connections[*index].flush());
        let timeout = if self.unwritten.is_empty() { EpollTimeout::NONE } else { EpollTimeout::from(RETRY_MS) };
        let count = self.epoll.wait(&mut self.events, timeout).expect("an event queue");
        let now = Instant::now();
        for event in &self.events[..count] {
            let connection = &mut self.connections[event.data() as usize];
            self.tally.errors += connection.read(self.kind, self.value_bytes, &mut self.answered);
        }
        self.tally.answers += self.answered.len() as u64;

        let mut answered = mem::take(&mut self.answered);
        for user in answered.drain(..) {
            let pending = &mut self.pending[user as usize];
            pending.answers_missing -= 1;
            if pending.answers_missing == 0 {
                self.tally.time(now - pending.begun);
                self.issue(user as usize, now);
            }
        }
        self.answered = answered;
        now
    }
}
