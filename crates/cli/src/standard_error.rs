//! The standard error of a running gateway: a thread of its own writes it, so a slow reader blocks no other thread.
//!
//! ```text
//!  workers, supervisor, signals ─ lines ─▶ at most MAX_UNWRITTEN bytes ─▶ thread `stderr` ─▶ descriptor 2
//! ```
//! What finds no room is dropped and counted, and a line says so where it would have stood. A standard error that is
//! closed stays so.

use std::io::{self, Write};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use pilotlight_logs::Outlet;
use rustix::event::{PollFd, PollFlags, poll};
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that wait to be written; what finds no room is dropped. As many again are being written.
const MAX_UNWRITTEN: usize = 256 * 1024;
/// Bytes of a buffer that is kept for later.
const MAX_KEPT: usize = 16 * 1024;
/// How long the end of the process waits for the last lines to be written.
const LAST_LINES_TIME: Duration = Duration::from_secs(1);

/// A handle; clones are handles to the same.
#[derive(Clone, Debug)]
pub(crate) struct StandardError(Arc<Relay>);

#[derive(Debug, Default)]
struct Relay {
    state: Mutex<State>,
    /// There is something to write.
    more: Condvar,
    /// Everything has been written.
    done: Condvar,
    dropped: Arc<AtomicU64>,
    others: OnceLock<Others>,
}

/// What the gateway and its services say elsewhere.
#[derive(Debug)]
pub(crate) struct Others {
    /// Where that is.
    pub(crate) outlets: Vec<Outlet>,
    /// What becomes of whole lines for the standard error.
    pub(crate) lines: Lines,
}

/// What becomes of whole lines for the standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// They are written to it.
    Written,
    /// They are events, which are a log's.
    Events,
}

#[derive(Debug, Default)]
struct State {
    text: Vec<u8>,
    /// Lines that were dropped and not spoken of yet.
    unspoken: u64,
    is_writing: bool,
    is_closed: bool,
}

impl StandardError {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread is refused.
    pub(crate) fn start() -> io::Result<Self> {
        let shared = Arc::new(Relay::default());
        let writer = Arc::clone(&shared);
        thread::Builder::new().name("stderr".into()).spawn(move || writer.write_all(&mut Descriptor))?;
        Ok(Self(shared))
    }

    /// Makes known what is said elsewhere, once.
    pub(crate) fn share(&self, others: Others) {
        let _ = self.0.others.set(others); // a process starts its logs once
    }

    /// Has whole lines written, without their last line end.
    pub(crate) fn say(&self, lines: &str) {
        if self.0.others.get().is_some_and(|others| others.lines == Lines::Events) {
            return tracing::info!("{}", lines.strip_prefix("pilotlight: ").unwrap_or(lines));
        }
        let mut text = String::with_capacity(lines.len() + 1);
        text.push_str(lines);
        text.push('\n');
        self.0.push(text.as_bytes());
    }

    /// Has text written as it is; each call is written whole or not at all.
    pub(crate) fn print(&self, text: &str) {
        self.0.push(text.as_bytes());
    }

    /// Lines that were not written, here and elsewhere.
    pub(crate) fn dropped(&self) -> Vec<Arc<AtomicU64>> {
        let outlets = self.outlets().iter().map(Outlet::dropped);
        outlets.chain([Arc::clone(&self.0.dropped)]).collect()
    }

    /// Opens files anew, after somebody has moved them.
    pub(crate) fn reopen(&self) {
        self.outlets().iter().for_each(Outlet::reopen);
    }

    fn outlets(&self) -> &[Outlet] {
        self.0.others.get().map_or(&[], |others| &others.outlets)
    }

    /// Waits until everything has been written, for a moment at most. To be called when nobody says anything any more.
    pub(crate) fn finish(&self) {
        self.outlets().iter().for_each(Outlet::finish);
        let is_busy = |state: &mut State| !state.is_closed && (state.is_writing || state.has_more());
        let (_state, _) = self
            .0
            .done
            .wait_timeout_while(self.0.locked(), LAST_LINES_TIME, is_busy)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

impl State {
    fn has_more(&self) -> bool {
        !self.text.is_empty() || self.unspoken > 0
    }
}

impl Relay {
    fn push(&self, text: &[u8]) {
        let mut state = self.locked();
        if state.is_closed || text.is_empty() {
            return;
        }
        if state.text.len() + text.len() > MAX_UNWRITTEN {
            let lines = lines_of(text);
            state.unspoken += lines;
            self.dropped.fetch_add(lines, Relaxed);
            return;
        }
        if state.unspoken > 0 {
            let notice = notice(mem::take(&mut state.unspoken));
            state.text.extend_from_slice(notice.as_bytes());
        }
        state.text.extend_from_slice(text);
        drop(state);
        self.more.notify_one();
    }

    /// The thread.
    fn write_all(&self, out: &mut impl Write) {
        let mut text = Vec::new();
        loop {
            let mut state = self.locked();
            while !state.has_more() {
                state.is_writing = false;
                self.done.notify_all();
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            mem::swap(&mut state.text, &mut text);
            if text.is_empty() {
                text.extend_from_slice(notice(mem::take(&mut state.unspoken)).as_bytes());
            }
            state.is_writing = true;
            drop(state);
            if out.write_all(&text).is_err() {
                let mut state = self.locked();
                *state = State { is_closed: true, ..State::default() };
                return self.done.notify_all();
            }
            text.clear();
            text.shrink_to(MAX_KEPT);
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lines_of(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count().max(1) as u64
}

fn notice(lines: u64) -> String {
    let plural = if lines == 1 { "" } else { "s" };
    format!("pilotlight: {lines} line{plural} dropped: the standard error was not read in time\n")
}

/// Descriptor 2, also if somebody who shares it has made it non-blocking.
struct Descriptor;

impl Write for Descriptor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match io::stderr().write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let stderr = rustix::stdio::stderr();
                    poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None)?;
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the subscriber of events writes to. It writes an event at once.
pub(crate) struct Events<'a>(&'a Relay);

impl Write for Events<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for StandardError {
    type Writer = Events<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Events(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Takes a write for each permit, and tells what it took.
    struct Slow(mpsc::Receiver<()>, mpsc::Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_has_no_room_is_counted_and_spoken_of_where_it_would_stand() {
        let error = StandardError(Arc::default());
        let shared = Arc::clone(&error.0);
        let (permit, permits) = mpsc::channel();
        let (took, taken) = mpsc::channel();
        let writer = thread::spawn(move || shared.write_all(&mut Slow(permits, took)));
        error.say("first");
        while !error.0.locked().is_writing {
            thread::yield_now();
        }
        let line = "x".repeat(1023);
        for _ in 0..MAX_UNWRITTEN / 1024 + 3 {
            error.say(&line);
        }
        assert_eq!(error.0.dropped.load(Relaxed), 3);
        permit.send(()).unwrap();
        assert_eq!(taken.recv().unwrap(), b"first\n");
        permit.send(()).unwrap();
        assert_eq!(taken.recv().unwrap().len(), MAX_UNWRITTEN);
        permit.send(()).unwrap();
        assert_eq!(taken.recv().unwrap(), notice(3).as_bytes());
        error.finish();
        assert_eq!(error.0.locked().text, b"");
        error.say("after");
        drop(permit); // closed
        writer.join().unwrap();
        error.say("nobody");
        error.finish();
        assert!(error.0.locked().text.is_empty());
        assert_eq!(error.0.dropped.load(Relaxed), 3);
    }
}
