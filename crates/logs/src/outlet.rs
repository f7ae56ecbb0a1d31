//! A bounded queue of lines and the thread that writes them.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::out::{Lost, Out};
use crate::record::Severity;

/// Bytes of lines that wait; what finds no room is dropped and counted. As many again are being written.
const MAX_WAITING: usize = 1024 * 1024;
/// Bytes of a buffer that is kept for later.
const MAX_KEPT: usize = 64 * 1024;
/// How long the end of the process waits for the last lines.
const LAST_LINES_TIME: Duration = Duration::from_secs(1);
/// How often at most somebody is told of lines that were dropped.
const TELL_PAUSE: Duration = Duration::from_secs(10);

/// A handle; clones are handles to the same queue.
#[derive(Clone, Debug)]
pub struct Outlet(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// There is something to do.
    more: Condvar,
    /// Everything has been written.
    done: Condvar,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    lines: u64,
    /// Lines that found no room, and were not spoken of yet.
    unspoken: u64,
    is_writing: bool,
    reopens: bool,
}

impl Outlet {
    /// Starts the thread; `what` is the log in messages. `tell` is told what the operator has to know of it.
    ///
    /// # Errors
    /// The thread is refused.
    pub fn start(what: &'static str, out: Out, tell: impl Fn(Severity, &str) + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let writer = Writer { queue: Arc::clone(&queue), out, what, tell, failing: 0, told: None };
        thread::Builder::new().name("log".into()).spawn(move || writer.run())?;
        Ok(Self(queue))
    }

    /// Has one line written, which `encode` appends to what waits. Never waits for the destination.
    pub fn push(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.locked();
        let before = state.bytes.len();
        encode(&mut state.bytes);
        if state.bytes.len() > MAX_WAITING {
            state.bytes.truncate(before);
            state.unspoken += 1;
            self.0.dropped.fetch_add(1, Relaxed);
            return;
        }
        state.lines += 1;
        drop(state);
        self.0.more.notify_one();
    }

    /// Opens a file anew, after somebody has moved it.
    pub fn reopen(&self) {
        self.0.locked().reopens = true;
        self.0.more.notify_one();
    }

    /// Lines that were not written.
    #[must_use]
    pub fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.dropped)
    }

    /// Waits until everything has been written, for a moment at most.
    pub fn finish(&self) {
        let is_busy = |state: &mut State| state.is_writing || !state.bytes.is_empty();
        drop(self.0.done.wait_timeout_while(self.0.locked(), LAST_LINES_TIME, is_busy));
    }
}

impl Queue {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Writer<T> {
    queue: Arc<Queue>,
    out: Out,
    what: &'static str,
    tell: T,
    /// Lines that could not be written since the last that could.
    failing: u64,
    /// When it was told of lines without room.
    told: Option<Instant>,
}

impl<T: Fn(Severity, &str)> Writer<T> {
    fn run(mut self) {
        let mut bytes = Vec::new();
        let queue = Arc::clone(&self.queue);
        loop {
            let mut state = queue.locked();
            while state.bytes.is_empty() && !state.reopens {
                state.is_writing = false;
                queue.done.notify_all();
                state = queue.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            mem::swap(&mut state.bytes, &mut bytes);
            let lines = mem::take(&mut state.lines);
            let reopens = mem::take(&mut state.reopens);
            let unspoken = if self.may_tell() { mem::take(&mut state.unspoken) } else { 0 };
            state.is_writing = true;
            drop(state);
            if unspoken > 0 {
                self.told = Some(Instant::now());
                let text = format!("{unspoken} lines of {} were dropped: they came faster than written", self.what);
                (self.tell)(Severity::Warning, &text);
            }
            if !bytes.is_empty() {
                let written = self.out.write(&bytes, lines);
                self.judge(written);
            }
            if reopens {
                self.reopen();
            }
            bytes.clear();
            bytes.shrink_to(MAX_KEPT);
        }
    }

    fn may_tell(&self) -> bool {
        self.told.is_none_or(|told| told.elapsed() >= TELL_PAUSE)
    }

    fn judge(&mut self, written: Result<(), Lost>) {
        match written {
            Ok(()) if self.failing == 0 => {}
            Ok(()) => {
                let text = format!("{} is written again; {} lines were lost", self.what, mem::take(&mut self.failing));
                (self.tell)(Severity::Info, &text);
            }
            Err(Lost { lines, cause }) => {
                self.queue.dropped.fetch_add(lines, Relaxed);
                if self.failing == 0 {
                    let text = format!("{} cannot be written: {cause}; lines are dropped and counted", self.what);
                    (self.tell)(Severity::Error, &text);
                }
                self.failing += lines;
            }
        }
    }

    fn reopen(&mut self) {
        match self.out.reopen() {
            Ok(()) => (self.tell)(Severity::Info, &format!("{} was reopened", self.what)),
            Err(e) => {
                let text = format!("{} could not be reopened, the old file goes on: {e}", self.what);
                (self.tell)(Severity::Error, &text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::mpsc;

    use super::*;
    use crate::destination::{Destination, Facility, Peer};
    use crate::record::{Names, Record};
    use crate::shape::Shape;

    fn record(message: &[u8]) -> Record<'_> {
        Record {
            at_ms: 0,
            severity: Severity::Info,
            identifier: "x",
            process: 1,
            message,
            fields: &[],
            names: Names::Own,
        }
    }

    #[test]
    fn a_server_that_does_not_read_costs_lines_and_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        let destination = Destination::Syslog(Peer::Unix(path));
        let shape = Shape::of(&destination, Facility::User, None).unwrap();
        let (tell, told) = mpsc::channel();
        let tell = move |_, text: &str| tell.send(text.to_owned()).unwrap();
        let outlet = Outlet::start("a log", Out::open(&destination, None).unwrap(), tell).unwrap();
        let begun = Instant::now();
        let message = [b'x'; 1000];
        let pushed = 5 * MAX_WAITING / message.len();
        for _ in 0..pushed {
            outlet.push(|out| shape.encode(out, &record(&message)));
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        let dropped = outlet.dropped().load(Relaxed) as usize;
        assert!(dropped > pushed / 2, "{dropped}");
        // It is read again: nothing but what had no room is missing, and somebody is told.
        let mut buffer = [0; 2048];
        for _ in 0..pushed - dropped {
            assert_eq!(server.recv(&mut buffer).unwrap(), "<14>x[1]: ".len() + message.len());
        }
        assert!(told.recv().unwrap().ends_with("lines of a log were dropped: they came faster than written"));
        assert_eq!(outlet.dropped().load(Relaxed) as usize, dropped);
    }

    #[test]
    fn files_are_reopened_and_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (tell, told) = mpsc::channel();
        let out = Out::open(&Destination::File(path.clone()), None).unwrap();
        let outlet = Outlet::start("a log", out, move |_, text: &str| tell.send(text.to_owned()).unwrap()).unwrap();
        outlet.push(|out| out.extend_from_slice(b"1\n"));
        outlet.finish();
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        outlet.reopen();
        assert_eq!(told.recv().unwrap(), "a log was reopened");
        outlet.push(|out| out.extend_from_slice(b"2\n"));
        outlet.finish();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "2\n");
    }
}
