//! The last lines that services printed, for those who ask later and those who follow.
//!
//! Followers hold no lines: each has a position. One that does not keep up is told how many it missed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use pilotlight_supervisor::{LogLine, Output};
use tokio::sync::watch;

/// Lines kept for each service.
pub const KEPT_LOG_LINES: usize = 500;
/// Bytes of lines kept for each service.
pub const KEPT_LOG_BYTES: usize = 64 * 1024;

/// A line with its time.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) at: SystemTime,
    pub(super) line: Arc<LogLine>,
}

/// What services printed. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct LogBook {
    services: Arc<Mutex<HashMap<Arc<str>, Lines>>>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<Kept>,
    bytes: usize,
    /// The number of the first line in `kept`, counted from 0.
    first: u64,
}

/// Lines from a position on.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) lines: Vec<Kept>,
    /// Lines that were gone already.
    pub(super) missed: u64,
    /// The position behind.
    pub(super) next: u64,
}

impl Default for LogBook {
    fn default() -> Self {
        Self { services: Arc::default(), changes: watch::Sender::new(()) }
    }
}

impl LogBook {
    /// Keeps a line, and wakes those who follow.
    pub fn push(&self, line: LogLine) {
        let mut services = self.locked();
        let lines = services.entry(Arc::clone(&line.service)).or_default();
        lines.bytes += line.text.len();
        lines.kept.push_back(Kept { at: SystemTime::now(), line: Arc::new(line) });
        while lines.kept.len() > KEPT_LOG_LINES || (lines.bytes > KEPT_LOG_BYTES && lines.kept.len() > 1) {
            if let Some(gone) = lines.kept.pop_front() {
                lines.bytes -= gone.line.text.len();
                lines.first += 1;
            }
        }
        drop(services);
        // Nobody follows as a rule, and a service may print millions of lines.
        if self.changes.receiver_count() > 0 {
            self.changes.send_replace(());
        }
    }

    /// The last lines of a service, at most so many.
    pub(super) fn last(&self, service: &str, count: usize) -> Page {
        let services = self.locked();
        let Some(lines) = services.get(service) else { return Page::default() };
        let skipped = lines.kept.len().saturating_sub(count);
        let next = lines.first + lines.kept.len() as u64;
        Page { lines: lines.kept.iter().skip(skipped).cloned().collect(), missed: 0, next }
    }

    /// The lines from a position on; waits until there are some.
    ///
    /// # Cancel safety
    /// Nothing is lost: the position is the caller's.
    pub(super) async fn after(&self, service: &str, position: u64) -> Page {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(page) = self.page(service, position) {
                return page;
            }
            // The sender is held by `self`, so this never fails.
            let _ = changes.changed().await;
        }
    }

    fn page(&self, service: &str, position: u64) -> Option<Page> {
        let services = self.locked();
        let lines = services.get(service)?;
        let next = lines.first + lines.kept.len() as u64;
        let skipped = usize::try_from(position.saturating_sub(lines.first)).unwrap_or(usize::MAX);
        let lines_left: Vec<Kept> = lines.kept.iter().skip(skipped).cloned().collect();
        let missed = lines.first.saturating_sub(position);
        (!lines_left.is_empty()).then_some(Page { lines: lines_left, missed, next })
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Arc<str>, Lines>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of an output.
pub(super) fn output_name(output: Output) -> &'static str {
    match output {
        Output::Stdout => "stdout",
        Output::Stderr => "stderr",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: String) -> LogLine {
        let (output, cut, dropped) = (Output::Stdout, false, 0);
        LogLine { service: "a".into(), instance: 1, output, text, cut, dropped }
    }

    fn texts(page: &Page) -> Vec<&str> {
        page.lines.iter().map(|kept| &*kept.line.text).collect()
    }

    #[test]
    fn the_last_lines_are_kept_within_bounds() {
        let book = LogBook::default();
        for number in 0..KEPT_LOG_LINES + 3 {
            book.push(line(number.to_string()));
        }
        assert_eq!(texts(&book.last("a", 2)), ["501", "502"]);
        assert_eq!(book.last("a", usize::MAX).lines.len(), KEPT_LOG_LINES);
        book.push(line("x".repeat(KEPT_LOG_BYTES + 1)));
        assert_eq!(book.last("a", 9).lines.len(), 1);
        assert!(book.last("b", 9).lines.is_empty());
    }

    #[tokio::test]
    async fn followers_get_each_line_once_and_are_told_what_they_missed() {
        let book = LogBook::default();
        let start = book.last("a", 10).next;
        let other = book.clone();
        let (page, ()) = tokio::join!(book.after("a", start), async {
            tokio::task::yield_now().await;
            other.push(line("one".into()));
        });
        assert_eq!((texts(&page), page.missed), (vec!["one"], 0));
        (0..KEPT_LOG_LINES + 5).for_each(|number| book.push(line(number.to_string())));
        let page = book.after("a", page.next).await;
        assert_eq!((page.missed, page.lines.len()), (5, KEPT_LOG_LINES));
    }
}
