//! What a run says while it goes: one line that is drawn anew on a terminal, or a line for each round elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How often the line is drawn at most.
const REDRAW: Duration = Duration::from_millis(100);

/// Progress on the standard error.
#[derive(Debug)]
pub struct Progress {
    begin: Instant,
    done: Duration,
    total: Duration,
    terminal: bool,
    drawn: Option<Instant>,
}

impl Progress {
    /// So much is ahead, by what it usually takes.
    #[must_use]
    pub fn new(total: Duration) -> Self {
        let (begin, done) = (Instant::now(), Duration::ZERO);
        Self { begin, done, total, terminal: io::stderr().is_terminal(), drawn: None }
    }

    /// So much is done.
    #[must_use]
    pub fn done(&self) -> Duration {
        self.done
    }

    /// So much more is done.
    pub fn advance(&mut self, usual: Duration) {
        self.done += usual;
    }

    /// So much is done altogether.
    pub fn reach(&mut self, done: Duration) {
        self.done = done;
    }

    /// `what` comes now.
    pub fn show(&mut self, what: &str) {
        if self.terminal && self.drawn.is_none_or(|at| at.elapsed() >= REDRAW) {
            self.drawn = Some(Instant::now());
            let line = fitted(self.line(what, self.begin.elapsed()), terminal_width());
            // Nobody is left to be told if this fails.
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }

    /// Something worth a line where no line is drawn anew: a round, a phase.
    pub fn milestone(&mut self, what: &str) {
        if !self.terminal {
            let _ = writeln!(io::stderr(), "{}", self.line(what, self.begin.elapsed()));
        }
        self.show(what);
    }

    /// Something that the reader has to know.
    pub fn note(&mut self, what: &str) {
        self.clear();
        let _ = writeln!(io::stderr(), "{what}");
    }

    /// The line goes.
    pub fn clear(&mut self) {
        if self.terminal && self.drawn.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn line(&self, what: &str, elapsed: Duration) -> String {
        let share = if self.total.is_zero() { 1.0 } else { self.done.div_duration_f64(self.total) };
        let left = if self.done.is_zero() { self.total } else { elapsed.mul_f64((1.0 - share).max(0.0) / share) };
        let left = format!(", {} left", clock(left));
        format!("[{:3.0} %] {}{left}  {what}", share * 100.0, clock(elapsed))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// As much of a line as one row of the terminal has room for: a row that is full scrolls when it is drawn anew.
fn fitted(line: String, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() >= width => {
            line.chars().take(width.saturating_sub(2)).chain(['…']).collect()
        }
        _ => line,
    }
}

fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_into_a_row() {
        let line = |width| fitted("[ 25 %] größer".to_owned(), width);
        assert_eq!(line(None), "[ 25 %] größer");
        assert_eq!(line(Some(15)), "[ 25 %] größer");
        assert_eq!(line(Some(14)), "[ 25 %] größ…");
        assert_eq!(line(Some(1)), "…");
    }

    #[test]
    fn the_line_says_how_long_it_will_take() {
        let mut progress = Progress::new(Duration::from_secs(70));
        assert_eq!(progress.line("warm", Duration::from_secs(1)), "[  0 %] 0:01, 1:10 left  warm");
        progress.advance(Duration::from_millis(17_500));
        assert_eq!(progress.line("cold", Duration::from_secs(30)), "[ 25 %] 0:30, 1:30 left  cold");
    }
}
