//! Plays a case at an address, and writes down what came back.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::case::{Action, Case, Protocol};
use super::reply::{Blind, Reply, parse};

/// Longer than any reply takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a case is played.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) addr: SocketAddr,
    /// The tunnel's ports, and those that they stand for.
    pub(super) ports: &'p [(u16, u16)],
}

/// All servers behind it, with connections to each.
pub(super) struct Servers {
    admins: Vec<Peer>,
    /// Those of a cluster that hear of what its nodes tell each other.
    listeners: Vec<Peer>,
}

/// What came back, in the order of the steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Transcript(Vec<String>);

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("  "))
    }
}

struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Peer {
    fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, input: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8], piece: usize) {
        // The other side may have closed; its last words are read all the same.
        let _ = bytes.chunks(piece).try_for_each(|piece| self.stream.write_all(piece));
    }

    fn read(&mut self) -> Result<Reply, &'static str> {
        loop {
            if let Some((reply, length)) = parse(&self.input) {
                self.input.drain(..length);
                return Ok(reply);
            }
            let mut bytes = [0; 65536];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("CLOSED"),
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err("NOTHING");
                }
                Err(_) => return Err("CLOSED"),
            }
        }
    }

    fn ask(&mut self, words: &[&str]) -> Reply {
        self.write(&encoded(words), usize::MAX);
        self.read().unwrap()
    }
}

fn encoded(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

impl Servers {
    pub(super) fn connect(addrs: &[SocketAddr]) -> Self {
        let peers = || addrs.iter().copied().map(Peer::connect).collect();
        Self { admins: peers(), listeners: if addrs.len() > 1 { peers() } else { Vec::new() } }
    }

    /// As if nothing had been played yet.
    fn reset(&mut self) {
        const COMMANDS: [&[&str]; 5] = [
            &["FLUSHALL"],
            &["SCRIPT", "FLUSH"],
            &["FUNCTION", "FLUSH"],
            &["CONFIG", "SET", "maxmemory", "0", "notify-keyspace-events", "", "slowlog-log-slower-than", "60000000"],
            &["ACL", "LOG", "RESET"],
        ];
        for admin in &mut self.admins {
            admin.write(&COMMANDS.map(encoded).concat(), usize::MAX);
            COMMANDS.iter().for_each(|_| drop(admin.read().unwrap()));
        }
        assert!(self.until(|numbers| numbers == [0; 4]), "what was played before has not ended");
        self.hear_the_last_message();
    }

    /// A message that was published before may be on its way from node to node, and would come to the next subscriber.
    /// Nodes send in order: once each has heard a later message of every other one, there is none.
    fn hear_the_last_message(&mut self) {
        const CHANNEL: &str = "the last message";
        let nodes = self.listeners.len();
        for listener in &mut self.listeners {
            listener.ask(&["SUBSCRIBE", CHANNEL]);
        }
        for admin in &mut self.admins[..nodes] {
            admin.ask(&["PUBLISH", CHANNEL, ""]);
        }
        for listener in &mut self.listeners {
            (0..nodes).for_each(|_| drop(listener.read().unwrap()));
            listener.ask(&["UNSUBSCRIBE", CHANNEL]);
        }
    }

    /// Waits until so many clients wait at the servers. False: they do not.
    fn until_blocked(&mut self, wanted: usize) -> bool {
        self.until(|numbers| numbers[0] == wanted)
    }

    /// Waits until it is so of the clients that wait, and of the channels, patterns and channels of shards that anybody
    /// listens to, at all servers together.
    fn until(&mut self, is_so: impl Fn([usize; 4]) -> bool) -> bool {
        const NAMES: [&str; 4] = ["blocked_clients:", "pubsub_channels:", "pubsub_patterns:", "pubsubshard_channels:"];
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let mut sums = [0; 4];
            for admin in &mut self.admins {
                let info = admin.ask(&["INFO", "clients", "stats"]).text();
                for (sum, name) in sums.iter_mut().zip(NAMES) {
                    let value = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                    *sum += value.trim().parse::<usize>().unwrap();
                }
            }
            if is_so(sums) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

/// Plays it.
pub(super) fn play(case: &Case, protocol: Protocol, place: Place<'_>, servers: &mut Servers) -> Transcript {
    servers.reset();
    let blind = Blind {
        numbers: case.has("numbers"),
        counts: case.has("counts"),
        texts: case.has("texts"),
        sorted: case.has("sorted"),
    };
    let mut peers: BTreeMap<char, Peer> = BTreeMap::new();
    let mut ids: BTreeMap<char, String> = BTreeMap::new();
    let mut addrs: BTreeMap<char, String> = BTreeMap::new();
    let mut piece = usize::MAX;
    let mut out = Vec::new();
    for step in &case.steps {
        let wanted = if let Action::Id(other) = step.action { other } else { step.peer };
        let peer = peers.entry(wanted).or_insert_with(|| {
            let mut peer = Peer::connect(place.addr);
            if protocol == Protocol::Resp3 {
                peer.ask(&["HELLO", "3"]);
            }
            addrs.insert(wanted, peer.stream.local_addr().unwrap().to_string());
            peer
        });
        let replies = match &step.action {
            Action::Command(words, replies) => {
                let words: Vec<Vec<u8>> = words.iter().map(|word| filled(word, &ids, &addrs)).collect();
                peer.write(&encoded(&words), piece);
                *replies
            }
            Action::Raw(bytes, replies) => {
                peer.write(bytes, piece);
                *replies
            }
            Action::Read(replies) => *replies,
            Action::Closed => {
                out.push(match peer.read() {
                    Err(end) => format!("{} {end}", step.peer),
                    Ok(reply) => format!("{} OPEN {}", step.peer, reply.seen(blind, place.ports).shown()),
                });
                0
            }
            Action::Blocked(wanted) => {
                if !servers.until_blocked(*wanted) {
                    out.push(format!("NOT {wanted} BLOCKED"));
                }
                0
            }
            Action::Pieces(bytes) => {
                piece = *bytes;
                0
            }
            Action::Id(other) => {
                let id = peer.ask(&["CLIENT", "ID"]).shown();
                ids.insert(*other, id.trim_start_matches(':').to_owned());
                0
            }
        };
        for _ in 0..replies {
            match peer.read() {
                Ok(reply) => out.push(reply.seen(blind, place.ports).shown()),
                Err(end) => {
                    out.push(end.to_owned());
                    break;
                }
            }
        }
    }
    Transcript(out)
}

/// A word with what is known only now.
fn filled(word: &[u8], ids: &BTreeMap<char, String>, addrs: &BTreeMap<char, String>) -> Vec<u8> {
    let Some(inner) = word.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")) else { return word.to_vec() };
    let text = String::from_utf8_lossy(inner).into_owned();
    let letter = |text: &str| text.chars().next().unwrap();
    match text.split_once(':') {
        Some(("id", peer)) => ids[&letter(peer)].clone().into_bytes(),
        Some(("addr", peer)) => addrs[&letter(peer)].clone().into_bytes(),
        Some(("big", bytes)) => vec![b'x'; bytes.parse().unwrap()],
        _ => word.to_vec(),
    }
}
