//! Output of services: read without pause, kept in part, passed on if there is room.

use crate::limits::{MAX_LINE, PUMP_BUDGET, REPORT_LINES, TAIL_LINES};
use crate::policy::hints::Hints;
use crate::policy::lines::Lines;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{self, error::TrySendError};

/// One line of a service's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The service.
    pub service: Arc<str>,
    /// The instance's number; 0: the zygote that instances are forked from.
    pub instance: u64,
    /// Where it was written.
    pub output: Output,
    /// The line without its end, as it was written; bytes that are not UTF-8 are `\xHH`. The one
    /// who prints it makes it printable.
    pub text: String,
    /// It was longer than [`MAX_LINE`] bytes; the rest is thrown away.
    pub cut: bool,
    /// Lines of this output dropped just before this one, because the queue was full.
    pub dropped: u64,
}

/// Where a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The last lines of an instance's output.
#[derive(Debug, Default)]
pub(crate) struct Tail(Mutex<VecDeque<String>>);

impl Tail {
    pub(crate) fn report(&self) -> Arc<[String]> {
        let lines = self.lines();
        lines.iter().skip(lines.len().saturating_sub(REPORT_LINES)).cloned().collect()
    }

    pub(crate) fn push(&self, text: &str) {
        let mut lines = self.lines();
        let mut line = if lines.len() == TAIL_LINES { lines.pop_front().unwrap_or_default() } else { String::new() };
        line.clear();
        line.push_str(text);
        lines.push_back(line);
    }

    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads one output of one instance to its end.
#[derive(Debug)]
pub(crate) struct Pump {
    pub(crate) service: Arc<str>,
    /// Lines of the service that were dropped.
    pub(crate) dropped_lines: Arc<AtomicU64>,
    pub(crate) instance: u64,
    pub(crate) output: Output,
    pub(crate) tail: Arc<Tail>,
    pub(crate) sink: mpsc::Sender<LogLine>,
    /// What to add to complaints.
    pub(crate) hints: Option<Hints>,
}

impl Pump {
    pub(crate) async fn run(mut self, from: pipe::Receiver) -> io::Result<()> {
        let mut lines = Lines::new(MAX_LINE);
        let mut dropped = 0;
        let mut since_yield = 0;
        loop {
            from.readable().await?;
            match self.read_once(&from, &mut lines, &mut dropped) {
                Ok(0) => break,
                Ok(count) => since_yield += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if since_yield >= PUMP_BUDGET {
                since_yield = 0;
                tokio::task::yield_now().await;
            }
        }
        lines.finish(|line, cut| self.pass(line, cut, &mut dropped));
        Ok(())
    }

    /// Apart from `run` so that the buffer is not a part of its future: a thousand quiet services hold no buffer.
    fn read_once(&mut self, from: &pipe::Receiver, lines: &mut Lines, dropped: &mut u64) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let count = from.try_read(&mut buffer)?;
        lines.feed(&buffer[..count], |line, cut| self.pass(line, cut, dropped));
        Ok(count)
    }

    fn pass(&mut self, line: &[u8], cut: bool, dropped: &mut u64) {
        let text = pilotlight_printable::text(line).into_owned();
        self.keep(text, cut, dropped);
        if let Some(hint) = self.hints.as_mut().and_then(|hints| hints.explain(line)) {
            self.keep(format!("[pilotlight] {hint}"), false, dropped);
        }
    }

    fn keep(&self, text: String, cut: bool, dropped: &mut u64) {
        self.tail.push(&text);
        match self.sink.try_reserve() {
            Ok(room) => room.send(LogLine {
                service: Arc::clone(&self.service),
                instance: self.instance,
                output: self.output,
                text,
                cut,
                dropped: std::mem::take(dropped),
            }),
            Err(TrySendError::Full(())) => {
                *dropped += 1;
                self.dropped_lines.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Closed(())) => {} // nobody wants lines; the tail is still kept
        }
    }
}

/// What an instance writes to standard error within its protocol (`FCGI_STDERR`), as lines of its log.
#[derive(Debug)]
pub struct ErrorLog {
    lines: Lines,
    dropped: u64,
    pump: Pump,
}

impl ErrorLog {
    pub(crate) fn new(
        service: Arc<str>,
        instance: u64,
        dropped_lines: Arc<AtomicU64>,
        sink: mpsc::Sender<LogLine>,
    ) -> Self {
        let tail = Arc::new(Tail::default());
        let pump = Pump { service, dropped_lines, instance, output: Output::Stderr, tail, sink, hints: None };
        Self { lines: Lines::new(MAX_LINE), dropped: 0, pump }
    }

    /// Takes bytes as they come.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Self { lines, dropped, pump } = self;
        lines.feed(bytes, |line, cut| pump.pass(line, cut, dropped));
    }
}

impl Drop for ErrorLog {
    /// A last line without its end counts.
    fn drop(&mut self) {
        let Self { lines, dropped, pump } = self;
        lines.finish(|line, cut| pump.pass(line, cut, dropped));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_keeps_the_last_lines() {
        let tail = Tail::default();
        for number in 0..TAIL_LINES + 7 {
            tail.push(&number.to_string());
        }
        let report = tail.report();
        assert_eq!((report.len(), tail.lines().len()), (REPORT_LINES, TAIL_LINES));
        assert_eq!(report.last().map(String::as_str), Some("56"));
        assert_eq!(report[0], "37");
    }
}
