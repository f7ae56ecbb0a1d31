//! What a lane's lock protects: the bytes to write, the order of replies, and the cells that callers wait in.
//!
//! ```text
//!  submit ──► out ═══ queued      take_wave ──► (driver's page) ═══ in_flight      complete ──► cell ──► wake
//!             bytes   who waits                  bytes               who waits
//! ```
//!
//! Invariant: `queued` describes exactly the commands whose bytes are in `out`, in their order, and `in_flight` those
//! that the driver took and whose replies have not all come. Bytes and waiters move in one critical section, so a reply
//! cannot reach another caller than its own.
//!
//! Invariant: a command's last reply is believed only after its last byte was handed to the kernel; and while nothing
//! is in flight, nothing is half written.
//!
//! Invariant: a cell is freed once: by its ticket (taken or cancelled) when no reply is owed to it any more, else by
//! the last reply owed.

mod latency;
pub(super) mod leave;
mod ping;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Waker;
use std::time::{Duration, Instant};

use pilotlight_resp::Value;

use crate::engine::submission::{Kind, Outcome, Submission};
use crate::error::Reason;
use crate::out::Out;
use crate::stats::Counters;
use ping::Ping;

/// Counted for each queued command beside its bytes, so that the byte budget bounds the memory of waiters too.
pub(crate) const COMMAND_OVERHEAD_BYTES: usize = 128;

/// How often deadlines are looked at while anything waits.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Timeouts below this are counted from the exact time; others from a clock that is up to a tick old.
const SHORT_TIMEOUT: Duration = Duration::from_millis(200);

/// A caller's claim to one cell of a lane. It is given back exactly once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

/// A reply came that cannot be one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Nothing was sent for it.
    Unasked,
    /// Its command was not sent to the end.
    Early,
}

#[derive(Debug)]
struct Cell {
    content: Content,
    waker: Option<Waker>,
    since: Instant,
    timeout: Option<Duration>,
    /// Of the command or commands.
    bytes: usize,
    /// In the order of acceptance.
    number: u64,
    /// A reply is still to come for it, or would be if it were sent.
    owed: bool,
}

/// The oldest command in flight, as far as a silent connection is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oldest {
    /// No caller's: only the lane's own, or such as their callers left and that had no deadline.
    Nobodys,
    /// Its deadline is to come, or it has none.
    Waits,
    /// Its deadline has passed.
    Overdue,
}

#[derive(Debug)]
enum Content {
    Free,
    Waiting,
    Gathering(Vec<Value>),
    Done(Outcome),
    /// Nobody waits any more; its replies are thrown away.
    Abandoned,
    /// Nobody waits any more, and it will not be sent.
    Withdrawn,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    cell: u32,
    replies: u32,
    skip: u32,
    /// Position in the stream after its last byte.
    end: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) out: Out,
    queued: VecDeque<Entry>,
    in_flight: VecDeque<Entry>,
    cells: Vec<Cell>,
    free: Vec<u32>,
    /// Number of the next submission.
    next_number: u64,
    /// The submissions from this number on are queued.
    first_queued: u64,
    /// Position in the stream after the last byte of `out`.
    appended: u64,
    /// Position in the stream after the last byte that the kernel took.
    written: u64,
    /// Bytes of all commands without their replies, and [`COMMAND_OVERHEAD_BYTES`] for each.
    budget_used: usize,
    /// Queued submissions that will not be sent, and their bytes; they are swept out later, many at once.
    withdrawn: usize,
    withdrawn_bytes: usize,
    /// No deadline is earlier.
    earliest: Option<Instant>,
    /// A coarse clock: set by the driver in each turn, and by whoever makes an idle lane busy.
    now: Instant,
    /// The submissions from this number on came after `now`, by an unknown time.
    undated: u64,
    /// Replies in the last batch read: a hint whether callers come alone or in crowds.
    pub(super) last_batch: usize,
    last_read: Option<Instant>,
    /// The last sign of life of the connection: a read, or a write that the oldest command was waiting for.
    last_progress: Instant,
    pub(super) counters: Counters,
    /// Why there is no connection.
    pub(super) problem: Option<Reason>,
    /// A `PING` of the lane's own whose reply is awaited.
    ping: Option<Ping>,
    /// When the last one was answered.
    pinged: Option<Instant>,
    /// See [`Lane::latency`](super::Lane::latency).
    pub(super) latency: Arc<AtomicU64>,
}

impl Cell {
    /// Whether its caller still waits.
    fn is_wanted(&self) -> bool {
        matches!(self.content, Content::Waiting | Content::Gathering(_))
    }
}

impl State {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            out: Out::default(),
            queued: VecDeque::new(),
            in_flight: VecDeque::new(),
            cells: Vec::new(),
            free: Vec::new(),
            next_number: 0,
            first_queued: 0,
            appended: 0,
            written: 0,
            budget_used: 0,
            withdrawn: 0,
            withdrawn_bytes: 0,
            earliest: None,
            now,
            undated: 0,
            last_batch: 0,
            last_read: None,
            last_progress: now,
            counters: Counters::default(),
            problem: None,
            ping: None,
            pinged: None,
            latency: Arc::default(),
        }
    }

    /// Whether nothing is queued or in flight.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.in_flight.is_empty()
    }

    #[inline]
    pub(super) fn budget_used(&self) -> usize {
        self.budget_used
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.len() - self.withdrawn
    }

    /// Cells that are not free: callers that wait or have not fetched their replies, and replies owed to callers that
    /// left.
    pub(super) fn cells_in_use(&self) -> usize {
        self.cells.len() - self.free.len()
    }

    /// Whether anything, a probe of ours too, waits for its reply.
    #[inline]
    pub(super) fn is_awaiting(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether any caller still waits for the reply to what is in flight.
    pub(super) fn is_awaited(&self) -> bool {
        self.in_flight.iter().any(|entry| self.cells[entry.cell as usize].is_wanted())
    }

    /// The oldest command in flight that a caller has sent, and that has a deadline or is still waited for.
    pub(super) fn oldest(&self, now: Instant) -> Oldest {
        let mut cells = self.in_flight.iter().map(|entry| &self.cells[entry.cell as usize]);
        match cells.find(|cell| cell.timeout.is_some() || cell.is_wanted()) {
            None => Oldest::Nobodys,
            Some(cell) => match cell.timeout.and_then(|timeout| cell.since.checked_add(timeout)) {
                Some(deadline) if deadline <= now => Oldest::Overdue,
                _ => Oldest::Waits,
            },
        }
    }

    /// Whether any caller still waits.
    pub(super) fn is_wanted(&self) -> bool {
        self.cells.iter().any(Cell::is_wanted)
    }

    /// A reply is due and there was no sign of life, both for `stall`.
    pub(super) fn is_stalled(&self, now: Instant, stall: Duration) -> bool {
        let Some(front) = self.in_flight.front() else { return false };
        let cell = &self.cells[front.cell as usize];
        let patience = stall + time_in_kernel(cell.bytes);
        let is_older = |since: Instant| now.saturating_duration_since(since) >= patience;
        is_older(cell.since) && is_older(self.last_progress)
    }

    /// Sets the clock. The driver does it in each turn.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        if self.undated < self.next_number {
            self.date(now);
        }
        self.now = self.now.max(now);
        self.undated = self.next_number;
    }

    /// If the driver was not run for long, those who came meanwhile are not to pay for it: they count from now.
    fn date(&mut self, now: Instant) {
        if now.saturating_duration_since(self.now) <= TICK * 2 {
            return;
        }
        for cell in &mut self.cells {
            if cell.number >= self.undated && matches!(cell.content, Content::Waiting | Content::Gathering(_)) {
                cell.since = now;
            }
        }
    }

    /// Sets the clock for a submission that is about to be submitted, if the coarse time does not do for it.
    #[inline]
    pub(super) fn advance_for(&mut self, timeout: Option<Duration>, was_idle: bool) {
        if was_idle || timeout.is_some_and(|timeout| timeout < SHORT_TIMEOUT) {
            self.advance(Instant::now());
            // Unlike those after it, this one is dated.
            self.undated = self.next_number + 1;
        }
    }

    /// Accepts what `encode` appends to the output.
    #[inline]
    pub(super) fn submit(
        &mut self,
        submission: Submission,
        waker: Option<Waker>,
        encode: impl FnOnce(&mut Out),
    ) -> Ticket {
        if let Some(deadline) = submission.timeout.and_then(|timeout| self.now.checked_add(timeout)) {
            self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        }
        let content = match submission.kind {
            Kind::One => Content::Waiting,
            Kind::Many => Content::Gathering(Vec::with_capacity((submission.replies - submission.skip) as usize)),
        };
        self.counters.commands += u64::from(submission.replies - submission.skip);
        Ticket(self.append(submission, content, waker, encode))
    }

    /// Accepts a command of the lane's own, whose reply nobody reads.
    pub(super) fn submit_for_nobody(&mut self, encode: impl FnOnce(&mut Out)) {
        let submission = Submission { replies: 1, skip: 1, kind: Kind::One, timeout: None };
        self.append(submission, Content::Abandoned, None, encode);
    }

    #[inline]
    fn append(
        &mut self,
        submission: Submission,
        content: Content,
        waker: Option<Waker>,
        encode: impl FnOnce(&mut Out),
    ) -> u32 {
        let before = self.out.len();
        encode(&mut self.out);
        let bytes = self.out.len() - before;
        self.appended += bytes as u64;
        self.budget_used += bytes + COMMAND_OVERHEAD_BYTES;
        let Submission { replies, skip, timeout, .. } = submission;
        let cell = Cell { content, waker, since: self.now, timeout, bytes, number: self.next_number, owed: true };
        self.next_number += 1;
        let index = if let Some(index) = self.free.pop() {
            self.cells[index as usize] = cell;
            index
        } else {
            self.cells.push(cell);
            (self.cells.len() - 1) as u32
        };
        self.queued.push_back(Entry { cell: index, replies, skip, end: self.appended });
        index
    }

    /// Moves everything queued to the driver, which writes it. `wave` is empty, and stays so if nothing is left to be
    /// sent.
    #[inline]
    pub(super) fn take_wave(&mut self, wave: &mut Out) {
        self.sweep();
        if self.out.is_empty() {
            return;
        }
        std::mem::swap(&mut self.out, wave);
        self.launch();
        self.counters.waves += 1;
    }

    #[inline]
    fn launch(&mut self) {
        self.in_flight.append(&mut self.queued);
        self.first_queued = self.next_number;
    }

    /// The only caller wrote the first `written` bytes of `out` itself.
    pub(super) fn wrote_inline(&mut self, written: usize) {
        self.launch();
        if written == self.out.len() {
            self.out.clear();
        } else {
            self.out.cut(std::slice::from_ref(&(0..written)));
        }
        self.counters.inline_writes += 1;
        self.note_written(written);
    }

    #[inline]
    pub(super) fn note_written(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        // A reply is not overdue before its command is on its way.
        if self.in_flight.front().is_some_and(|front| front.end > self.written) {
            self.last_progress = self.now;
        }
        self.written += bytes as u64;
        self.counters.bytes_written += bytes as u64;
    }

    pub(super) fn has_read_since(&self, begin: Instant) -> bool {
        self.last_read.is_some_and(|at| at >= begin)
    }

    #[inline]
    pub(super) fn note_read(&mut self, at: Instant, bytes: usize) {
        self.advance(at);
        self.last_read = Some(at);
        self.last_progress = at;
        self.counters.reads += 1;
        self.counters.bytes_read += bytes as u64;
    }

    /// There is a new connection.
    pub(super) fn note_connected(&mut self, at: Instant) {
        self.advance(at);
        self.last_progress = at;
    }

    /// Gives replies to those who wait for them, in order; their wakers are added to `wake`.
    ///
    /// # Errors
    /// The stream is not to be trusted any more. What came before the doubt is given all the same.
    #[inline]
    pub(super) fn complete(&mut self, replies: &mut Vec<Value>, wake: &mut Vec<Waker>) -> Result<(), Doubt> {
        for value in replies.drain(..) {
            let Some(entry) = self.in_flight.front_mut() else { return Err(Doubt::Unasked) };
            let is_last = entry.replies == 1;
            let is_early = is_last && entry.end > self.written;
            // Servers refuse a command that is too large before they have read it: that is an answer, and the last one.
            if is_early && !matches!(value, Value::Error(_)) {
                return Err(Doubt::Early);
            }
            entry.replies -= 1;
            if entry.skip > 0 {
                entry.skip -= 1;
            } else {
                match &mut self.cells[entry.cell as usize].content {
                    content @ Content::Waiting => *content = Content::Done(Outcome::One(value)),
                    Content::Gathering(values) => values.push(value),
                    Content::Abandoned | Content::Withdrawn => self.counters.abandoned += 1,
                    Content::Done(_) | Content::Free => {}
                }
            }
            if is_last {
                self.finish_front(wake);
            }
            if is_early {
                return Err(Doubt::Early);
            }
        }
        Ok(())
    }

    /// The entry in front has all its replies.
    #[inline]
    fn finish_front(&mut self, wake: &mut Vec<Waker>) {
        let Some(entry) = self.in_flight.pop_front() else { return };
        let cell = &mut self.cells[entry.cell as usize];
        self.budget_used -= cell.bytes + COMMAND_OVERHEAD_BYTES;
        cell.owed = false;
        if let Some(ping) = self.ping.take_if(|ping| ping.number == cell.number) {
            ping::note(&self.latency, self.now.saturating_duration_since(ping.at));
            self.pinged = Some(self.now);
        }
        if let Content::Gathering(values) = &mut cell.content {
            cell.content = Content::Done(Outcome::Many(std::mem::take(values)));
        }
        match cell.content {
            Content::Abandoned => self.release(entry.cell),
            _ => wake.extend(cell.waker.take()),
        }
    }

    fn release(&mut self, index: u32) {
        self.cells[index as usize].content = Content::Free;
        self.free.push(index);
    }

    /// The outcome, if there is one, and when it was submitted; else `waker` will be woken when there is. The waker
    /// that it replaces is returned, to be dropped outside the lock.
    #[inline]
    pub(super) fn poll(&mut self, ticket: &Ticket, waker: &Waker) -> Result<(Outcome, Instant), Option<Waker>> {
        let cell = &mut self.cells[ticket.0 as usize];
        if !matches!(cell.content, Content::Done(_)) {
            if cell.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                return Err(None);
            }
            return Err(cell.waker.replace(waker.clone()));
        }
        let Content::Done(outcome) = std::mem::replace(&mut cell.content, Content::Abandoned) else { return Err(None) };
        let since = cell.since;
        if !cell.owed {
            self.release(ticket.0);
        } else if cell.number >= self.first_queued {
            cell.content = Content::Withdrawn;
        }
        Ok((outcome, since))
    }

    /// Gives back memory that a burst has left behind.
    pub(super) fn shrink(&mut self) {
        const KEPT: usize = 1024;
        if !self.is_idle() || self.cells_in_use() > 0 || self.cells.len() <= KEPT {
            return;
        }
        self.cells = Vec::new();
        self.free = Vec::new();
        self.queued.shrink_to(KEPT);
        self.in_flight.shrink_to(KEPT);
    }
}

/// How long the last bytes of a command may rest in the kernel's buffer on a slow network: these are not lost, and not
/// overdue.
fn time_in_kernel(bytes: usize) -> Duration {
    const BUFFER_BYTES: usize = 4 << 20;
    const BYTES_PER_MILLISECOND: usize = 1 << 10;
    Duration::from_millis((bytes.min(BUFFER_BYTES) / BYTES_PER_MILLISECOND) as u64)
}
