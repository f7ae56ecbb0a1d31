//! The floor of `w5`: one blocking socket, one command at a time, `write` then `read`.
//!
//! `wait=epoll` waits by epoll before it reads, as whoever has more than one socket must; `timer=MS` with a time-out,
//! as whoever has deadlines does.
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use harness::{KEYS, Measurement, Options, Random, Reply, Tally, Topology, push_get, scan};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

fn main() {
    let options = Options::parse();
    assert_eq!(options.workload.tasks, 1, "floor-blocking does one command at a time: w5 only");
    let keys = options.workload.keys();
    let node = Topology::of(&options.ports).node(keys[0].as_bytes());
    let socket = TcpStream::connect(("127.0.0.1", options.ports[node])).expect("the cluster runs");
    socket.set_nodelay(true).expect("a TCP socket");
    let commands = keys.iter().map(|key| {
        let mut command = Vec::new();
        push_get(&mut command, key.as_bytes());
        command
    });
    let wait = Wait::of(&options, &socket);
    let mut caller = Caller {
        wait,
        socket,
        commands: commands.collect(),
        input: vec![0; 4096],
        wanted: options.workload.value_bytes,
    };

    let mut random = Random::seeded(1);
    let mut tally = Tally::default();
    tally.times_ns.reserve(1 << 20);
    let warm = Instant::now() + options.warm_up;
    while Instant::now() < warm {
        tally.errors += u64::from(!caller.get(random.below(KEYS)));
    }
    let measurement = Measurement::start();
    let end = Instant::now() + options.measured;
    loop {
        let begun = Instant::now();
        if begun >= end {
            break;
        }
        let right = caller.get(random.below(KEYS));
        tally.time(begun.elapsed());
        tally.answers += 1;
        tally.errors += u64::from(!right);
    }
    measurement.stop().print(&options, &[tally]);
}

/// How the reply is waited for.
enum Wait {
    Read,
    Epoll(Epoll, EpollTimeout),
}

impl Wait {
    fn of(options: &Options, socket: &TcpStream) -> Self {
        match options.tuning("wait") {
            None => return Self::Read,
            Some("epoll") => {}
            Some(other) => panic!("wait={other}: only epoll is known"),
        }
        let milliseconds = options.tuned_number::<i32>("timer").unwrap_or(-1);
        let timeout = EpollTimeout::try_from(milliseconds).expect("a number of milliseconds");
        let epoll = Epoll::new(EpollCreateFlags::empty()).expect("an event queue");
        epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0)).expect("an event queue");
        Self::Epoll(epoll, timeout)
    }

    fn wait(&self) {
        if let Self::Epoll(epoll, timeout) = self {
            while epoll.wait(&mut [EpollEvent::empty()], *timeout).expect("an event queue") == 0 {}
        }
    }
}

struct Caller {
    wait: Wait,
    socket: TcpStream,
    commands: Vec<Vec<u8>>,
    input: Vec<u8>,
    wanted: usize,
}

impl Caller {
    /// Whether the value has the length that is wanted.
    fn get(&mut self, key: usize) -> bool {
        self.socket.write_all(&self.commands[key]).expect("the node reads");
        let mut filled = 0;
        loop {
            self.wait.wait();
            let count = self.socket.read(&mut self.input[filled..]).expect("the node answers");
            assert_ne!(count, 0, "the node closed the connection");
            filled += count;
            if let Some((reply, length)) = scan(&self.input[..filled]) {
                assert_eq!(length, filled, "more than one reply to one command");
                return matches!(reply, Reply::Bulk(value) if value.len() == self.wanted);
            }
        }
    }
}
