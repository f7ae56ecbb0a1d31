//! The floor of an answer from Redis: the requests of a turn of the loop are one batch of GETs, which is waited for.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context as _, ensure};
use rustix::event::epoll::EventFlags;

use super::answered;
use super::requests::Requests;
use super::turns::{self, Connection};
use crate::service::{REDIS_KEY, answer_body, say_address};

/// Answers every request with what Redis has at [`REDIS_KEY`], on a free port, for ever. The argument is Redis's
/// address.
///
/// # Errors
/// Redis cannot be reached or has something else there, a client does not read, or the system refuses a socket.
pub(in crate::service) fn serve(redis: Option<OsString>) -> anyhow::Result<()> {
    let address = redis.and_then(|redis| redis.into_string().ok()).context("no address of Redis given")?;
    let mut redis = Redis::connect(&address).with_context(|| format!("cannot reach Redis at {address}"))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say_address(listener.local_addr()?)?;
    let mut head = answered(&answer_body(), "content-type: application/json\r\n");
    head.truncate(head.len() - answer_body().len());
    let mut answers = Vec::new();
    let accepted = |_| Ok(Asking::default());
    turns::turn_for_ever(&[listener], accepted, |connections| {
        let count = connections.iter().flatten().map(|(_, client)| client.unanswered).sum();
        let mut bodies = redis.get(count)?;
        for (socket, client) in connections.iter_mut().flatten().filter(|(_, client)| client.unanswered > 0) {
            answers.clear();
            for body in bodies.by_ref().take(mem::take(&mut client.unanswered)) {
                answers.extend_from_slice(&head);
                answers.extend_from_slice(body);
            }
            // Who has gone is noticed in its next turn.
            let written = socket.write(&answers).unwrap_or(answers.len());
            ensure!(written == answers.len(), "a client does not read its answers");
        }
        Ok(())
    })
}

/// A connection whose requests are answered after the turn of the loop.
#[derive(Default)]
struct Asking {
    requests: Requests,
    unanswered: usize,
}

impl Connection for Asking {
    fn turn(&mut self, socket: &mut TcpStream, _: EventFlags, room: &mut [u8]) -> io::Result<()> {
        if let Some(read) = turns::read(socket, room)? {
            self.unanswered += self.requests.count(&room[..read])?;
        }
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        false
    }
}

/// A connection to Redis, one batch after the other.
struct Redis {
    socket: TcpStream,
    /// One GET, and the beginning and the length of its reply.
    command: Vec<u8>,
    begin: Vec<u8>,
    length: usize,
    replies: Vec<u8>,
}

impl Redis {
    fn connect(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let command = format!("*2\r\n$3\r\nGET\r\n${}\r\n{REDIS_KEY}\r\n", REDIS_KEY.len()).into_bytes();
        let body = answer_body().len();
        let begin = format!("${body}\r\n").into_bytes();
        let length = begin.len() + body + "\r\n".len();
        Ok(Self { socket, command, begin, length, replies: Vec::new() })
    }

    /// So many values.
    fn get(&mut self, count: usize) -> anyhow::Result<impl Iterator<Item = &[u8]>> {
        let Self { socket, command, begin, length, replies } = self;
        replies.resize(count * *length, 0);
        if count > 0 {
            socket.write_all(&command.repeat(count)).context("writing to Redis")?;
            socket.read_exact(replies).context("reading from Redis")?;
        }
        let replies = replies.chunks_exact(*length);
        ensure!(replies.clone().all(|reply| reply.starts_with(begin)), "Redis has something else at {REDIS_KEY}");
        Ok(replies.map(|reply| &reply[begin.len()..reply.len() - "\r\n".len()]))
    }
}
