//! Load over HTTP/1.1: a closed loop of connections, each with a number of requests in flight, as the usual tools make it.
//!
//! It runs on the calling thread, counts every status, and takes a time for each answer, from the writing of its request. A
//! closed loop waits for answers: it shows what a server can do, and its percentiles are those of clients who wait, not of
//! clients who come whenever they like.

mod answer;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use crate::interrupt;
use crate::stats::Times;
use answer::Answer;

/// A server that answers nothing for so long after the end of the load has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Room for what is read at once.
const READ_ROOM: usize = 64 * 1024;
/// The longest answer that is understood.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Appends the next request; `false`: there are no more.
pub type Next = dyn FnMut(&mut Vec<u8>) -> bool;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Where the server listens.
    pub address: SocketAddr,
    /// How many connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
    /// For how long.
    pub duration: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Answers that came in time.
    pub answers: u64,
    /// From the first request to the last answer that counts.
    pub elapsed: Duration,
    /// Of the answers.
    pub times: Times,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
}

impl Outcome {
    /// Answers in a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Makes the load, with requests from `next`.
///
/// # Errors
/// A connection cannot be made or is lost, an answer is not understood or does not come, or the run was interrupted.
pub fn run(load: Load, next: Box<Next>) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begin = Instant::now();
    let shared = Rc::new(Shared {
        load,
        end: begin + load.duration,
        next: RefCell::new(next),
        counts: RefCell::new(Counts { times: Times::new(), statuses: BTreeMap::new(), last: begin }),
    });
    LocalSet::new().block_on(&runtime, async {
        let mut connections = JoinSet::new();
        for _ in 0..load.connections {
            connections.spawn_local(drive(Rc::clone(&shared)));
        }
        let all = async {
            while let Some(ended) = connections.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        };
        let limit = load.duration + PATIENCE;
        tokio::time::timeout(limit, all).await.with_context(|| format!("no end after {} s", limit.as_secs()))?
    })?;
    let counts = shared.counts.borrow();
    Ok(Outcome {
        answers: counts.times.count(),
        elapsed: counts.last - begin,
        times: counts.times.clone(),
        statuses: counts.statuses.clone(),
    })
}

/// What connections share.
struct Shared {
    load: Load,
    end: Instant,
    next: RefCell<Box<Next>>,
    counts: RefCell<Counts>,
}

struct Counts {
    times: Times,
    statuses: BTreeMap<u16, u64>,
    last: Instant,
}

impl Shared {
    fn next(&self, out: &mut Vec<u8>) -> bool {
        (self.next.borrow_mut())(out)
    }

    fn count(&self, answer: &Answer, since: Instant, now: Instant) {
        let mut counts = self.counts.borrow_mut();
        counts.times.record(now - since);
        counts.last = now;
        *counts.statuses.entry(answer.status).or_default() += 1;
    }
}

/// One connection, until the time is over or there are no more requests.
async fn drive(shared: Rc<Shared>) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(shared.load.address).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let (mut out, mut sent) = (Vec::new(), VecDeque::new());
    while sent.len() < shared.load.depth && shared.next(&mut out) {
        sent.push_back(Instant::now());
    }
    let (mut input, mut filled) = (vec![0; READ_ROOM], 0);
    while !sent.is_empty() {
        interrupt::check()?;
        stream.write_all(&out).await.context("a request could not be written")?;
        out.clear();
        if input.len() - filled < READ_ROOM / 2 {
            input.resize(input.len() * 2, 0);
        }
        let read = stream.read(&mut input[filled..]).await.context("an answer could not be read")?;
        if read == 0 {
            bail!("the server closed a connection with {} requests in flight", sent.len());
        }
        filled += read;
        let now = Instant::now();
        let mut used = 0;
        while let Some(answer) = Answer::parse(&input[used..filled])? {
            used += answer.length;
            let Some(since) = sent.pop_front() else { bail!("an answer without a request") };
            if now >= shared.end {
                return Ok(());
            }
            shared.count(&answer, since, now);
            if shared.next(&mut out) {
                sent.push_back(now);
            }
        }
        input.copy_within(used..filled, 0);
        filled -= used;
        if filled > MAX_ANSWER_BYTES {
            bail!("an answer has more than {MAX_ANSWER_BYTES} bytes");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn every_request_is_answered_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("the load");
            let (mut seen, mut buffer) = (0, [0; 256]);
            while seen < 7 {
                let read = socket.read(&mut buffer).expect("a request");
                for _ in 0..buffer[..read].iter().filter(|byte| **byte == b'\n').count() {
                    seen += 1;
                    let status = if seen % 2 == 0 { "404 Not Found" } else { "200 OK" };
                    // In two pieces, so that one is not whole.
                    write!(socket, "HTTP/1.1 {status}\r\nContent-Le").expect("written");
                    write!(socket, "ngth: 2\r\n\r\nok").expect("written");
                }
            }
        });
        let mut left = 7;
        let next = move |out: &mut Vec<u8>| {
            if left == 0 {
                return false;
            }
            left -= 1;
            out.extend_from_slice(b"request\n");
            true
        };
        let load = Load { address, connections: 1, depth: 3, duration: Duration::from_secs(20) };
        let outcome = run(load, Box::new(next)).expect("answers");
        server.join().expect("served");
        assert_eq!((outcome.answers, outcome.times.count()), (7, 7));
        assert_eq!(outcome.statuses, BTreeMap::from([(200, 4), (404, 3)]));
        assert!(outcome.per_second() > 0.0);
    }

    #[test]
    fn a_server_that_closes_is_a_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let load = Load {
            address: listener.local_addr().expect("its address"),
            connections: 1,
            depth: 1,
            duration: Duration::from_secs(20),
        };
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("the load");
            socket.read_exact(&mut [0]).expect("a request");
        });
        let next = |out: &mut Vec<u8>| {
            out.push(b'x');
            true
        };
        assert!(run(load, Box::new(next)).expect_err("no answer").to_string().contains("closed a connection"));
        server.join().expect("ended");
    }
}
