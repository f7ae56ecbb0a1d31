//! The threads of a service whose handlers block, and which of them reads.
//!
//! One thread reads from all shared connections, takes Python's lock once, and runs the handlers of what it has read, in
//! order. Their answers leave together before it reads again (P-18). A second thread costs two switches a batch, so none
//! is woken while handlers only compute. When they wait for something (less processor time than time has passed), or
//! one has run for a tick, an idle thread or a new one takes the rest of the queue, or reads.
//!
//! Invariants: at most one thread reads. No lock of this module is held while Python's is waited for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use parking_lot::{Condvar, Mutex, MutexGuard};
use pilotlight_pipe::frame::{FrameHeader, FrameType, HEADER_LEN, whole_frame};
use pilotlight_pipe::hello::MAX_HELLO;
use pyo3::exceptions::{PyConnectionError, PyOSError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::time::{ClockId, clock_gettime};

use crate::head::Head;
use crate::wire::{Socket, Wire};
use crate::wsgi::{Outcome, Wsgi};

const READ_BYTES: usize = 65_536;
/// How long a handler may keep others waiting before another thread takes over.
const TICK: Duration = Duration::from_millis(2);
/// Ticks without work after which nobody looks any more.
const QUIET_TICKS: u32 = 5;
/// How long threads have to leave at the end.
const LEAVE: Duration = Duration::from_secs(1);
/// Reads until handlers that have waited are tried in order again.
const REMEMBERED_READS: u32 = 100;
/// A batch that took less has not waited for anything worth a second thread.
const MEANINGFUL: Duration = Duration::from_micros(200);

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
        if let Some(link) = link {
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

/// What a thread does next.
enum Step {
    Run(Job),
    Read(Vec<Arc<Link>>),
    Wait,
    Leave,
}

impl Shared {
    fn run(self: &Arc<Self>, py: Python<'_>) {
        let mut buffer = vec![0; READ_BYTES];
        let mut batch = Batch::new();
        loop {
            let step = self.step();
            match step {
                Step::Run(job) => self.answer(py, &job),
                Step::Read(links) => {
                    self.note(batch.has_blocked());
                    let ready = py.detach(|| wait(&links, &mut buffer));
                    batch = Batch::new();
                    for (link, read) in ready {
                        match read {
                            Some(read) => self.take(py, &link, read.map(|size| &buffer[..size])),
                            None => self.read(py, &link, &mut buffer),
                        }
                    }
                    self.has_read();
                }
                Step::Wait => {
                    let links = self.state.lock().links.clone();
                    py.detach(|| self.wait(&links));
                    drop(links);
                    batch = Batch::new();
                }
                Step::Leave => break,
            }
        }
        let links = self.state.lock().links.clone();
        py.detach(|| flush(&links));
        let mut state = self.state.lock();
        state.threads -= 1;
        self.hand_over(&mut state);
        self.left.notify_all();
    }

    fn step(self: &Arc<Self>) -> Step {
        let mut state = self.state.lock();
        state.steps += 1;
        if state.is_stopped || state.threads > state.max_threads.max(1) {
            return Step::Leave;
        }
        if let Some(job) = state.queue.pop_front() {
            if state.are_blocking || self.is_parallel && !state.queue.is_empty() {
                self.hand_over(&mut state);
            } else if !state.is_watched {
                state.is_watched = true;
                self.watch.notify_one();
            }
            return Step::Run(job);
        }
        if state.is_reading || state.links.is_empty() {
            return Step::Wait;
        }
        state.is_reading = true;
        Step::Read(state.links.clone())
    }

    /// Lets another thread go on: one that waits, or a new one.
    fn hand_over(self: &Arc<Self>, state: &mut State) {
        if state.is_stopped || state.queue.is_empty() && (state.is_reading || state.links.is_empty()) {
            return;
        }
        if state.idle > 0 {
            self.work.notify_one();
        } else if state.threads < state.max_threads {
            state.threads += 1;
            let shared = self.clone();
            let started = std::thread::Builder::new().spawn(move || Python::attach(|py| shared.run(py)));
            if started.is_err() {
                state.threads -= 1; // the system's limit: the others will do
            }
        }
    }

    /// Idle, until there is something to do. What this thread has finished leaves first: nobody else may come to do it.
    fn wait(&self, links: &[Arc<Link>]) {
        flush(links);
        let mut state = self.state.lock();
        while !state.is_stopped && state.queue.is_empty() && (state.is_reading || state.links.is_empty()) {
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// Whether handlers wait for something, by what those of a batch did. It is forgotten after a while: threads that
    /// wait for each other look the same.
    fn note(&self, has_blocked: bool) {
        let mut state = self.state.lock();
        if has_blocked && !state.are_blocking {
            (state.are_blocking, state.blocking_reads) = (true, 0);
        }
        state.blocking_reads += 1;
        if state.blocking_reads > REMEMBERED_READS {
            state.are_blocking = false;
        }
    }

    fn has_read(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_reading = false;
        if state.queue.is_empty() && state.idle > 0 {
            self.work.notify_one(); // for the connections that may have come meanwhile
        }
    }

    fn read(&self, py: Python<'_>, link: &Arc<Link>, buffer: &mut [u8]) {
        match link.socket.read(buffer, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {}
            read => self.take(py, link, read.map(|size| &buffer[..size])),
        }
    }

    /// Handles the frames that are whole; closes at the end of the stream and at a violation.
    fn take(&self, py: Python<'_>, link: &Arc<Link>, read: Result<&[u8], Errno>) {
        let taken = match read {
            Ok(&[]) => Err(PyConnectionError::new_err("the gateway has closed the connection")),
            Ok(data) => self.frames(py, link, data),
            Err(error) => Err(PyOSError::new_err(std::io::Error::from(error))),
        };
        if let Err(error) = taken {
            let closed = link.python.bind(py).call_method1(intern!(py, "close"), (error.into_value(py),));
            if let Err(error) = closed {
                error.display(py);
            }
        }
    }

    fn frames(&self, py: Python<'_>, link: &Arc<Link>, data: &[u8]) -> PyResult<()> {
        let mut tail = std::mem::take(&mut *link.socket.tail.lock());
        let joined = !tail.is_empty();
        if joined {
            tail.extend_from_slice(data);
        }
        let whole: &[u8] = if joined { &tail } else { data };
        let is_draining = || self.service.bind(py).getattr(intern!(py, "draining"))?.is_truthy();
        let mut draining = is_draining()?;
        let (mut rest, mut jobs) = (whole, Vec::new());
        loop {
            let max_frame = link.socket.max_frame.load(std::sync::atomic::Ordering::Acquire);
            let limit = if max_frame == 0 { MAX_HELLO } else { max_frame };
            let Some((header, payload)) = whole_frame(rest, limit).map_err(|error| violation(py, &error))? else {
                break;
            };
            rest = &rest[HEADER_LEN + payload.len()..];
            let job = if max_frame > 0 && !draining { self.request(py, link, header, payload)? } else { None };
            match job {
                Some(job) => jobs.push(job),
                None => {
                    // In order: what Python adds to the queue comes behind what was before.
                    self.state.lock().queue.extend(jobs.drain(..));
                    let arguments = (header.kind, header.flags, header.exchange, PyBytes::new(py, payload));
                    link.python.bind(py).call_method1(intern!(py, "frame"), arguments)?;
                    draining = is_draining()?;
                }
            }
        }
        let rest = rest.to_vec();
        *link.socket.tail.lock() = rest;
        self.state.lock().queue.extend(jobs);
        Ok(())
    }

    /// The job that an ordinary request is; `None` for everything else, which is Python's to judge.
    fn request(&self, py: Python<'_>, link: &Arc<Link>, header: FrameHeader, payload: &[u8]) -> PyResult<Option<Job>> {
        let exchange = header.exchange;
        let open = link.open.bind(py);
        if header.kind != FrameType::REQUEST || !header.is_end() || exchange == 0 || open.len() >= link.exchanges {
            return Ok(None);
        }
        let Some(head) = Head::parse(payload) else { return Ok(None) };
        if open.contains(exchange)? {
            return Ok(None);
        }
        let payload = PyBytes::new(py, payload);
        let due = match head.deadline_ms {
            0 => 0.0,
            after => now_s() + f64::from(after) / 1000.0,
        };
        let request = self.request_type.bind(py).call0()?;
        request.setattr(intern!(py, "_link"), &link.python)?;
        request.setattr(intern!(py, "_source"), &link.python)?;
        request.setattr(intern!(py, "_exchange"), exchange)?;
        request.setattr(intern!(py, "_payload"), &payload)?;
        request.setattr(intern!(py, "_due"), due)?;
        open.set_item(exchange, &request)?;
        self.busy.bind(py).append(py.None())?;
        let payload = self.wsgi.as_ref().map(|_| payload.unbind());
        Ok(Some(Job { link: link.clone(), request: request.unbind(), exchange, payload }))
    }

    fn answer(&self, py: Python<'_>, job: &Job) {
        if let Err(error) = self.try_answer(py, job) {
            error.display(py); // a bug of ours: what handlers raise does not come here
        }
    }

    fn try_answer(&self, py: Python<'_>, job: &Job) -> PyResult<()> {
        let request = job.request.bind(py);
        let link = job.link.python.bind(py);
        if let (Some(wsgi), Some(payload)) = (&self.wsgi, &job.payload)
            && !request.getattr(intern!(py, "_reset"))?.is_truthy()?
        {
            let result = wsgi.get().answer(py, request, payload.as_bytes(py), job.exchange, &job.link.socket);
            if let Err(error) = &result {
                link.call_method1(intern!(py, "give_up"), (request, error.value(py)))?;
            }
            let busy = self.busy.bind(py);
            busy.del_item(busy.len().saturating_sub(1))?;
            if let Ok(Outcome::Answered) = result {
                return Ok(());
            }
        } else {
            link.call_method1(intern!(py, "answer"), (request,))?;
        }
        link.call_method1(intern!(py, "answered"), (request,))?;
        Ok(())
    }

    /// A thread without Python, which looks whether handlers are stuck while there are any.
    fn look_after(self: &Arc<Self>) {
        let (mut steps, mut quiet) = (0, 0);
        let mut state = self.state.lock();
        while !state.is_stopped {
            if state.is_reading && state.steps == steps {
                quiet += 1;
            } else {
                quiet = 0;
            }
            if quiet > QUIET_TICKS {
                state.is_watched = false;
                self.watch.wait(&mut state);
                quiet = 0;
            }
            let is_stuck = !state.is_reading && state.steps == steps;
            steps = state.steps;
            if is_stuck {
                self.hand_over(&mut state);
                let links = state.links.clone();
                MutexGuard::unlocked(&mut state, || flush(&links)); // there may be no thread left that would
            }
            self.watch.wait_for(&mut state, TICK);
        }
    }
}

/// Connections that have something, with what was read if there is only one.
type Ready = Vec<(Arc<Link>, Option<Result<usize, Errno>>)>;

/// Waits until one of the connections has something.
fn wait(links: &[Arc<Link>], buffer: &mut [u8]) -> Ready {
    flush(links);
    if let [link] = links {
        return vec![(link.clone(), Some(link.socket.read(buffer, RecvFlags::empty())))];
    }
    let mut asked: Vec<PollFd<'_>> = links.iter().map(|link| PollFd::new(&link.socket, PollFlags::IN)).collect();
    if poll(&mut asked, None).is_err() {
        return Vec::new(); // interrupted
    }
    let ready = links.iter().zip(&asked).filter(|(_, fd)| !fd.revents().is_empty());
    ready.map(|(link, _)| (link.clone(), None)).collect()
}

/// Sends what is finished; a connection that is broken is seen by who reads.
fn flush(links: &[Arc<Link>]) {
    for link in links {
        let _ = link.socket.flush();
    }
}

fn violation(py: Python<'_>, error: &dyn std::fmt::Display) -> PyErr {
    let made = py.import("pilotlight._wire").and_then(|wire| wire.getattr("Violation")?.call1((error.to_string(),)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// As `time.monotonic()`.
pub(crate) fn now_s() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// What the handlers of one read do. A thread that is only preempted does not switch by its own will.
struct Batch {
    begun: Instant,
    switches: i64,
}

impl Batch {
    fn new() -> Self {
        Self { begun: Instant::now(), switches: switches() }
    }

    fn has_blocked(&self) -> bool {
        self.begun.elapsed() > MEANINGFUL && switches() > self.switches
    }
}

fn switches() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches())
}
