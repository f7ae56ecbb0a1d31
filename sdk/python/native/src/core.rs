//! The threads of a service whose handlers block, and which of them reads.
//!
//! One thread reads from all shared connections, takes Python's lock once, and runs the handlers of what it has read,
//! in order. Their answers leave together before it reads again (P-18). A second thread costs two switches a batch, so
//! none is woken while handlers only compute. When they wait for something (less processor time than time has passed),
//! or one has run for a tick, an idle thread or a new one takes the rest of the queue, or reads.
//!
//! Invariants: at most one thread reads. No lock of this module is held while Python's is waited for.

mod requests;
mod threads;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::time::{ClockId, clock_gettime};

use crate::wire::{Socket, Wire};
use crate::wsgi::Wsgi;

const READ_BYTES: usize = 65_536;
/// How long threads have to leave at the end.
const LEAVE: Duration = Duration::from_secs(1);

/// A request that waits for a thread.
struct Job {
    link: Arc<Link>,
    request: Py<PyAny>,
    exchange: u16,
    /// Of a request whose head is not taken apart yet; `None`: its answer is Python's business.
    payload: Option<Py<PyBytes>>,
}

struct Link {
    python: Py<PyAny>,
    /// Python's dict of open exchanges.
    open: Py<PyDict>,
    socket: Arc<Socket>,
    exchanges: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    links: Vec<Arc<Link>>,
    is_reading: bool,
    /// Threads that wait, all threads, and how many there may be.
    idle: usize,
    threads: usize,
    max_threads: usize,
    /// Counts what threads begin: one that does not move is busy with one thing.
    steps: u64,
    is_watched: bool,
    are_blocking: bool,
    blocking_reads: u32,
    is_stopped: bool,
}

struct Shared {
    state: Mutex<State>,
    /// There is something to do for an idle thread, or the end has come.
    work: Condvar,
    /// Somebody is to look whether handlers are stuck.
    watch: Condvar,
    left: Condvar,
    request_type: Py<PyAny>,
    service: Py<PyAny>,
    busy: Py<PyList>,
    wsgi: Option<Py<Wsgi>>,
    is_parallel: bool,
}

/// The core of one service.
#[pyclass(frozen)]
pub(crate) struct Core(Arc<Shared>);

#[pymethods]
impl Core {
    /// `request_type` makes requests that are taken apart late, `wsgi` calls the application; without it a request is
    /// answered by its link.
    #[new]
    fn new(service: Bound<'_, PyAny>, request_type: Py<PyAny>, wsgi: Option<Py<Wsgi>>) -> PyResult<Self> {
        let py = service.py();
        let busy = service.getattr("busy")?.cast_into::<PyList>()?.unbind();
        let gil = py.import("sys")?.getattr("_is_gil_enabled").ok().map(|ask| ask.call0()).transpose()?;
        let is_parallel = match gil {
            Some(is_enabled) => !is_enabled.is_truthy()?,
            None => false,
        };
        let service = service.unbind();
        let (state, work, watch, left) = (Mutex::default(), Condvar::new(), Condvar::new(), Condvar::new());
        Ok(Self(Arc::new(Shared { state, work, watch, left, request_type, service, busy, wsgi, is_parallel })))
    }

    /// A connection more, and as many threads as it may have.
    fn add(&self, python: Bound<'_, PyAny>, wire: &Wire, exchanges: usize, threads: usize) -> PyResult<()> {
        let open = python.getattr("open")?.cast_into::<PyDict>()?.unbind();
        let link = Link { python: python.unbind(), open, socket: wire.0.clone(), exchanges };
        let mut state = self.0.state.lock();
        state.links.push(Arc::new(link));
        state.max_threads += threads;
        self.0.work.notify_one();
        Ok(())
    }

    /// A connection less.
    fn remove(&self, wire: &Wire, threads: usize) {
        let mut state = self.0.state.lock();
        let gone = state.links.iter().position(|link| Arc::ptr_eq(&link.socket, &wire.0));
        let gone = gone.map(|place| state.links.remove(place));
        state.max_threads = state.max_threads.saturating_sub(threads);
        drop(state);
        drop(gone); // what it holds of Python's may run code as it goes
    }

    /// A thread of the service, until `stop`.
    fn run(&self, py: Python<'_>) {
        self.0.state.lock().threads += 1;
        let shared = self.0.clone();
        py.detach(|| {
            let watched = shared.clone();
            std::thread::spawn(move || watched.look_after());
        });
        shared.run(py);
    }

    /// A request that Python has taken, and that waits for a thread.
    fn push(&self, link: &Bound<'_, PyAny>, exchange: u16, request: Py<PyAny>) {
        let mut state = self.0.state.lock();
        let found = state.links.iter().find(|one| one.python.is(link)).cloned();
        if let Some(link) = found {
            state.queue.push_back(Job { link, request, exchange, payload: None });
        }
    }

    /// Reads what has come on a connection, if no thread does, without waiting.
    fn look(&self, py: Python<'_>, wire: &Wire) {
        let shared = &self.0;
        let link = {
            let mut state = shared.state.lock();
            if state.is_reading {
                return;
            }
            state.is_reading = true;
            state.links.iter().find(|one| Arc::ptr_eq(&one.socket, &wire.0)).cloned()
        };
        if let Some(link) = link.filter(|link| has_something(&link.socket)) {
            let mut buffer = vec![0; READ_BYTES];
            let read = link.socket.read(&mut buffer, RecvFlags::DONTWAIT);
            if read != Err(Errno::AGAIN) {
                shared.take(py, &link, read.map(|size| &buffer[..size]));
            }
        }
        let mut state = shared.state.lock();
        state.is_reading = false;
        shared.hand_over(&mut state);
    }

    /// The thread that calls this is going to stream, for as long as it likes: it counts no longer.
    fn lend(&self) {
        let mut state = self.0.state.lock();
        state.max_threads += 1;
        self.0.hand_over(&mut state);
    }

    /// It has ended its stream.
    fn give_back(&self) {
        let mut state = self.0.state.lock();
        state.max_threads = state.max_threads.saturating_sub(1);
    }

    /// Ends the threads, when their connections are closed; whether all have left in time.
    fn stop(&self, py: Python<'_>) -> bool {
        let shared = &self.0;
        py.detach(|| {
            let mut state = shared.state.lock();
            state.is_stopped = true;
            shared.work.notify_all();
            shared.watch.notify_all();
            let until = Instant::now() + LEAVE;
            while state.threads > 0 && !shared.left.wait_until(&mut state, until).timed_out() {}
            state.threads == 0
        })
    }
}

/// Whether a read would bring something.
fn has_something(socket: &Socket) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// As `time.monotonic()`.
pub(crate) fn now_s() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
