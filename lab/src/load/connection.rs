//! One connection: requests out, answers in.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use super::answer::{Answer, Shape};
use super::target::Socket;

/// The longest answer that is understood.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// So much of a wrong answer is shown.
const SHOWN_BODY_BYTES: usize = 120;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    /// The beginning of an answer that is not whole yet.
    partial: Vec<u8>,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
    /// Since when requests are in flight, and how many since then; the oldest first.
    in_flight: VecDeque<(Instant, usize)>,
    /// How the last answer looked.
    shape: Option<Shape>,
    /// Whether the socket is watched for room.
    pub(super) watched: bool,
}

impl Connection {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket,
            partial: Vec::new(),
            unsent: Vec::new(),
            in_flight: VecDeque::with_capacity(1),
            shape: None,
            watched: false,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Since when the oldest request is in flight.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.in_flight.front().map(|(since, _)| *since)
    }

    pub(super) fn waits_to_write(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends `count` requests, which are timed from `since`.
    pub(super) fn send(&mut self, requests: &[u8], count: usize, since: Instant) -> anyhow::Result<()> {
        self.in_flight.push_back((since, count));
        if self.waits_to_write() {
            self.unsent.extend_from_slice(requests);
            return Ok(());
        }
        let written = write(&mut self.socket, requests)?;
        self.unsent.extend_from_slice(&requests[written..]);
        Ok(())
    }

    /// Sends what could not be sent before.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        let written = write(&mut self.socket, &self.unsent)?;
        self.unsent.drain(..written);
        Ok(())
    }

    /// Reads once; `answered` gets each status with the time since which its request is in flight. Returns how many
    /// there were, and when.
    pub(super) fn receive(
        &mut self,
        room: &mut [u8],
        body: Option<&[u8]>,
        mut answered: impl FnMut(u16, Instant, Instant),
    ) -> anyhow::Result<(usize, Instant)> {
        let read = match self.socket.read(room) {
            Ok(0) => {
                bail!("the server closed a connection with {} requests in flight", self.in_flight_count());
            }
            Ok(read) => read,
            Err(error) if is_temporary(&error) => return Ok((0, Instant::now())),
            Err(error) => return Err(error).context("an answer could not be read"),
        };
        let now = Instant::now();
        let mut partial = std::mem::take(&mut self.partial);
        let whole = if partial.is_empty() {
            &room[..read]
        } else {
            partial.extend_from_slice(&room[..read]);
            &partial
        };
        let (mut used, mut answers) = (0, 0);
        while used < whole.len() {
            let Some(answer) = self.answer(&whole[used..], body)? else { break };
            used += answer.length;
            answers += 1;
            answered(answer.status, self.landed()?, now);
        }
        let left = whole.len() - used;
        ensure!(left <= MAX_ANSWER_BYTES, "an answer has more than {MAX_ANSWER_BYTES} bytes");
        if partial.is_empty() {
            partial.extend_from_slice(&room[used..read]);
        } else {
            partial.drain(..used);
        }
        self.partial = partial;
        Ok((answers, now))
    }

    fn answer(&mut self, input: &[u8], body: Option<&[u8]>) -> anyhow::Result<Option<Answer>> {
        if let Some(shape) = &self.shape
            && let Some(answer) = shape.find(input)
        {
            return Ok(Some(answer));
        }
        let Some(answer) = Answer::parse(input)? else { return Ok(None) };
        let whole = &input[..answer.length];
        if let Some(wanted) = body {
            check(answer, whole, wanted)?;
        }
        self.shape = Shape::of(answer, whole);
        Ok(Some(answer))
    }

    /// The oldest request has its answer.
    fn landed(&mut self) -> anyhow::Result<Instant> {
        let Some((since, count)) = self.in_flight.front_mut() else { bail!("an answer without a request") };
        let since = *since;
        *count -= 1;
        if *count == 0 {
            self.in_flight.pop_front();
        }
        Ok(since)
    }

    fn in_flight_count(&self) -> usize {
        self.in_flight.iter().map(|(_, count)| count).sum()
    }
}

fn write(socket: &mut Socket, bytes: &[u8]) -> anyhow::Result<usize> {
    match socket.write(bytes) {
        Ok(written) => Ok(written),
        Err(error) if is_temporary(&error) => Ok(0),
        Err(error) => Err(error).context("a request could not be written"),
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn check(answer: Answer, whole: &[u8], wanted: &[u8]) -> anyhow::Result<()> {
    let found = answer.body(whole)?;
    if answer.status == 200 && *found == *wanted {
        return Ok(());
    }
    let shown = |bytes: &[u8]| bytes[..bytes.len().min(SHOWN_BODY_BYTES)].escape_ascii().to_string();
    bail!(
        "answered with status {} and {} bytes, not with 200 and the {} bytes that are due: \"{}\" where \"{}\" was expected",
        answer.status,
        found.len(),
        wanted.len(),
        shown(&found),
        shown(wanted)
    )
}
