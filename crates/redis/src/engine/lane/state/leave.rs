//! How a submission ends without its replies: its caller leaves, its deadline passes, the connection is lost.
//!
//! What is withdrawn from the queue stays in place until [`State::sweep`], which takes out many at once: leaving costs
//! the same however long the queue is.

use std::task::Waker;
use std::time::{Duration, Instant};

use super::{COMMAND_OVERHEAD_BYTES, Content, Entry, State, Ticket};
use crate::engine::submission::{Outcome, SubmissionError};
use crate::error::{ErrorKind, Ran, TimeoutReport, TimeoutStage};

/// Around a lane's queue when a deadline passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) is_connected: bool,
    pub(crate) unparsed_bytes: usize,
    pub(crate) lag: Duration,
}

impl State {
    /// The caller has gone. A command that is not with the driver yet is never sent. The waker is returned, to be
    /// dropped outside the lock.
    pub(crate) fn cancel(&mut self, ticket: &Ticket) -> Option<Waker> {
        let index = ticket.0;
        let cell = &mut self.cells[index as usize];
        let waker = cell.waker.take();
        if !cell.owed {
            self.release(index);
        } else if cell.number < self.first_queued {
            cell.content = Content::Abandoned;
        } else {
            // Of one whose deadline has passed, only the outcome is left behind.
            let is_withdrawn = matches!(cell.content, Content::Done(_));
            cell.content = Content::Withdrawn;
            if !is_withdrawn {
                self.withdraw(index);
                self.sweep_if_worthwhile();
            }
        }
        waker
    }

    fn withdraw(&mut self, index: u32) {
        let bytes = self.cells[index as usize].bytes;
        self.withdrawn += 1;
        self.withdrawn_bytes += bytes;
        self.budget_used -= bytes + COMMAND_OVERHEAD_BYTES;
    }

    fn sweep_if_worthwhile(&mut self) {
        if self.withdrawn * 2 >= self.queued.len() || self.withdrawn_bytes * 2 >= self.out.len() {
            self.sweep();
        }
    }

    /// Takes out of the queue what is withdrawn.
    #[inline]
    pub(super) fn sweep(&mut self) {
        if self.withdrawn > 0 {
            self.sweep_out();
        }
    }

    #[cold]
    fn sweep_out(&mut self) {
        let base = self.appended - self.out.len() as u64;
        let mut ranges = Vec::with_capacity(self.withdrawn);
        let mut removed = 0;
        let (cells, free) = (&mut self.cells, &mut self.free);
        self.queued.retain_mut(|entry| {
            let cell = &mut cells[entry.cell as usize];
            match cell.content {
                Content::Withdrawn => {
                    cell.content = Content::Free;
                    free.push(entry.cell);
                }
                Content::Done(_) => cell.owed = false,
                _ => {
                    entry.end -= removed;
                    return true;
                }
            }
            let end = (entry.end - base) as usize;
            ranges.push(end - cell.bytes..end);
            removed += cell.bytes as u64;
            false
        });
        self.out.cut(&ranges);
        if self.out.is_empty() {
            self.out.clear();
        }
        self.appended -= removed;
        self.withdrawn = 0;
        self.withdrawn_bytes = 0;
    }

    /// Those who wait longest to be written give way, until a sixteenth of the budget is free: with less, each new
    /// command would look for another one.
    pub(crate) fn shed(&mut self, max_bytes: usize, wake: &mut Vec<Waker>) {
        let goal = max_bytes - max_bytes / 16;
        let kind = ErrorKind::Overloaded { limit: "max_queued_bytes", in_flight_bytes: self.budget_used, max_bytes };
        for at in 0..self.queued.len() {
            if self.budget_used < goal {
                break;
            }
            let index = self.queued[at].cell;
            let cell = &mut self.cells[index as usize];
            if matches!(cell.content, Content::Waiting | Content::Gathering(_)) {
                wake.extend(cell.waker.take());
                self.fail_cell(index, &kind, Ran::NotSent, 0);
                self.withdraw(index);
                self.counters.shed += 1;
            }
        }
        self.sweep_if_worthwhile();
    }

    /// Whether a deadline has passed, as far as the coarse clock knows.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.earliest.is_some_and(|earliest| self.now >= earliest)
    }

    /// The wakers of those whose commands are in flight; they go on waiting.
    pub(in crate::engine::lane) fn wakers_in_flight(&self, wake: &mut Vec<Waker>) {
        wake.extend(self.in_flight.iter().filter_map(|entry| self.cells[entry.cell as usize].waker.clone()));
    }

    /// When a command was submitted.
    pub(in crate::engine::lane) fn submitted_at(&self, ticket: &Ticket) -> Instant {
        self.cells[ticket.0 as usize].since
    }

    /// Ends the waiting of those whose deadline has passed.
    #[inline]
    pub(crate) fn expire(&mut self, circumstances: Circumstances, wake: &mut Vec<Waker>) {
        if self.is_due() {
            self.expire_due(circumstances, wake);
        }
    }

    #[cold]
    fn expire_due(&mut self, circumstances: Circumstances, wake: &mut Vec<Waker>) {
        self.earliest = None;
        for index in 0..self.cells.len() {
            let cell = &self.cells[index];
            if !matches!(cell.content, Content::Waiting | Content::Gathering(_)) {
                continue;
            }
            let Some(deadline) = cell.timeout.and_then(|timeout| cell.since.checked_add(timeout)) else { continue };
            if self.now < deadline {
                self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
                continue;
            }
            self.expire_one(index as u32, circumstances);
            wake.extend(self.cells[index].waker.take());
        }
        self.sweep_if_worthwhile();
    }

    fn expire_one(&mut self, index: u32, circumstances: Circumstances) {
        let Circumstances { is_connected, unparsed_bytes, lag } = circumstances;
        let cell = &self.cells[index as usize];
        let is_queued = cell.number >= self.first_queued;
        let report = TimeoutReport {
            timeout: cell.timeout.unwrap_or_default(),
            age: self.now.saturating_duration_since(cell.since),
            stage: match (is_connected, is_queued) {
                (_, false) => TimeoutStage::Sent,
                (false, true) => TimeoutStage::Connecting,
                (true, true) => TimeoutStage::Queued,
            },
            runtime_lag: lag,
            ..self.report(unparsed_bytes)
        };
        let kind = ErrorKind::Timeout(Box::new(report));
        let (ran, sent_bytes) = if is_queued { (Ran::NotSent, 0) } else { (Ran::MaybeExecuted, cell.bytes) };
        self.fail_cell(index, &kind, ran, sent_bytes);
        if is_queued {
            self.withdraw(index);
        }
        self.counters.timeouts += 1;
    }

    /// What can be said about the lane at this moment, for whoever gives up.
    pub(crate) fn report(&self, unparsed_bytes: usize) -> TimeoutReport {
        TimeoutReport {
            timeout: Duration::ZERO,
            age: Duration::ZERO,
            stage: TimeoutStage::Queued,
            problem: self.problem.clone(),
            queued: self.queued(),
            in_flight: self.in_flight(),
            in_flight_bytes: self.in_flight_bytes(),
            queued_bytes: self.out.len() - self.withdrawn_bytes,
            unparsed_bytes,
            last_read: self.last_read.map(|at| self.now.max(at).duration_since(at)),
            runtime_lag: Duration::ZERO,
        }
    }

    /// They lie in the stream one after the other.
    fn in_flight_bytes(&self) -> usize {
        let (Some(first), Some(last)) = (self.in_flight.front(), self.in_flight.back()) else { return 0 };
        (last.end - first.end) as usize + self.cells[first.cell as usize].bytes
    }

    /// The connection is lost: what is in flight fails, what is queued stays for the next connection.
    pub(crate) fn fail_in_flight(&mut self, kind: &ErrorKind, wake: &mut Vec<Waker>) {
        // What an inline write left over belongs to a command in flight: it must not begin the next connection.
        let base = self.appended - self.out.len() as u64;
        if let Some(last) = self.in_flight.back().filter(|last| last.end > base) {
            self.out.cut(std::slice::from_ref(&(0..(last.end - base) as usize)));
        }
        while let Some(entry) = self.in_flight.pop_front() {
            let cell = &self.cells[entry.cell as usize];
            self.budget_used -= cell.bytes + COMMAND_OVERHEAD_BYTES;
            let begin = entry.end - cell.bytes as u64;
            let sent_bytes = self.written.clamp(begin, entry.end) - begin;
            // One command was not run if its last byte was never handed to the kernel; of several, the first may have
            // been.
            let is_sent = match cell.content {
                Content::Gathering(_) => sent_bytes > 0,
                _ => entry.end <= self.written,
            };
            let ran = if is_sent { Ran::MaybeExecuted } else { Ran::NotSent };
            self.fail(entry, kind, ran, sent_bytes as usize, wake);
        }
        self.written = self.appended - self.out.len() as u64;
        self.last_batch = 0;
        self.forget_latency();
    }

    /// Nothing that waits to be written will be: it fails, certainly not run. Nothing is in flight.
    pub(crate) fn fail_queued(&mut self, kind: &ErrorKind, wake: &mut Vec<Waker>) {
        debug_assert!(self.in_flight.is_empty(), "its bytes may be in the output");
        self.sweep();
        while let Some(entry) = self.queued.pop_front() {
            self.budget_used -= self.cells[entry.cell as usize].bytes + COMMAND_OVERHEAD_BYTES;
            self.fail(entry, kind, Ran::NotSent, 0, wake);
        }
        self.out.clear();
        self.written = self.appended;
    }

    fn fail(&mut self, entry: Entry, kind: &ErrorKind, ran: Ran, sent_bytes: usize, wake: &mut Vec<Waker>) {
        let cell = &mut self.cells[entry.cell as usize];
        cell.owed = false;
        match cell.content {
            Content::Waiting | Content::Gathering(_) => {
                wake.extend(cell.waker.take());
                self.fail_cell(entry.cell, kind, ran, sent_bytes);
            }
            Content::Abandoned | Content::Withdrawn => self.release(entry.cell),
            Content::Done(_) | Content::Free => {}
        }
    }

    fn fail_cell(&mut self, index: u32, kind: &ErrorKind, ran: Ran, sent_bytes: usize) {
        let cell = &mut self.cells[index as usize];
        let replies = match &mut cell.content {
            Content::Gathering(values) => std::mem::take(values),
            _ => Vec::new(),
        };
        cell.content =
            Content::Done(Outcome::Failed(Box::new(SubmissionError { kind: kind.clone(), ran, replies, sent_bytes })));
    }
}
