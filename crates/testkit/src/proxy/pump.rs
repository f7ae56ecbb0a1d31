//! One direction of a connection.

use super::faults::{Direction, DirectionFaults, Ending};
use super::link::Link;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

/// What is kept of bytes that are delayed or paused; beyond, reading stops.
const MAX_QUEUED_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 16 << 10;
/// The shortest that tokio's timer knows.
const MIN_DRIP: Duration = Duration::from_millis(1);

/// Why both directions are over at once.
pub(super) enum Stop {
    Cut(Ending),
    /// A side reset its connection.
    Broken,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

pub(super) struct Flow<'l> {
    link: &'l Link,
    direction: Direction,
    /// What was read, and when it may leave.
    queue: VecDeque<(Instant, Bytes)>,
    queued_bytes: usize,
    is_at_end: bool,
}

enum Action {
    Read(Bytes),
    Write,
    Reconsider,
}

/// Passes bytes until the sender ends the stream and everything has passed.
pub(super) async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut flow: Flow<'_>) -> Result<(), Stop> {
    let mut control = flow.link.subscribe();
    let mut buffer = BytesMut::new();
    loop {
        let faults = control.borrow_and_update().faults.direction(flow.direction).clone();
        if let Some((0, ending)) = faults.cut_after {
            return Err(Stop::Cut(ending));
        }
        if flow.is_at_end && flow.queue.is_empty() {
            to.shutdown().await?;
            return Ok(());
        }
        let due = flow.due(&faults);
        buffer.reserve(READ_BYTES);
        let action = tokio::select! {
            // A fault that was set before a byte came meets that byte.
            biased;
            // The sender is the link's, so this cannot fail.
            _ = control.changed() => Action::Reconsider,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Action::Write,
            read = from.read_buf(&mut buffer), if flow.has_room() => { read?; Action::Read(buffer.split().freeze()) }
        };
        match action {
            Action::Read(bytes) => flow.take_in(bytes, &faults),
            Action::Write => {
                if let Some(bytes) = flow.take_out(&faults) {
                    to.write_all(&bytes).await?;
                    flow.link.pass(flow.direction, bytes.len() as u64);
                }
            }
            Action::Reconsider => {}
        }
    }
}

impl<'l> Flow<'l> {
    pub(super) fn new(link: &'l Link, direction: Direction) -> Self {
        Self { link, direction, queue: VecDeque::new(), queued_bytes: 0, is_at_end: false }
    }

    fn has_room(&self) -> bool {
        !self.is_at_end && self.queued_bytes < MAX_QUEUED_BYTES
    }

    fn due(&self, faults: &DirectionFaults) -> Option<Instant> {
        self.queue.front().filter(|_| !faults.is_paused).map(|(due, _)| *due)
    }

    fn take_in(&mut self, bytes: Bytes, faults: &DirectionFaults) {
        self.is_at_end = bytes.is_empty();
        if !self.is_at_end {
            self.queued_bytes += bytes.len();
            self.queue.push_back((Instant::now() + faults.delay, bytes));
        }
    }

    /// What may pass now; what stays of the chunk waits for the drip.
    fn take_out(&mut self, faults: &DirectionFaults) -> Option<Bytes> {
        let (due, mut chunk) = self.queue.pop_front()?;
        let dripping = if faults.drip.is_some() { 1 } else { usize::MAX };
        let until_cut = faults.cut_after.map_or(usize::MAX, |(left, _)| usize::try_from(left).unwrap_or(usize::MAX));
        let passing = chunk.split_to(chunk.len().min(dripping).min(until_cut));
        self.queued_bytes -= passing.len();
        let next_due = faults.drip.map_or(due, |pause| Instant::now() + pause.max(MIN_DRIP));
        if !chunk.is_empty() {
            self.queue.push_front((next_due, chunk));
        } else if let Some((due, _)) = self.queue.front_mut() {
            *due = next_due.max(*due);
        }
        Some(passing)
    }
}
