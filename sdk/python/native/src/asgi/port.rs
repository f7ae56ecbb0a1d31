//! A shared connection of an ASGI application.

use parking_lot::Mutex;
use pilotlight_pipe::frame::{FrameHeader, FrameType, HEADER_LEN, whole_frame};
use pilotlight_pipe::hello::MAX_HELLO;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PySet, PyString};

use super::exchange::Exchange;
use super::ready::Ready;
use crate::head::{Head, unquoted};
use crate::wire::violation;

/// Takes ordinary requests from a connection, begins their exchanges, and sends the answers that end in one turn of the
/// loop in one write (P-18). Its `data_received` is that of asyncio's protocol; every other frame is the link's.
///
/// Invariant: no lock is held while Python runs.
#[pyclass(frozen)]
pub(crate) struct Port {
    pub(super) link: Py<PyAny>,
    /// Python's dict of open exchanges.
    pub(super) open: Py<PyDict>,
    pub(super) server: Py<PyAny>,
    pub(super) app: Py<PyAny>,
    pub(super) tasks: Py<PySet>,
    /// What `send` returns.
    pub(super) nothing: Py<Ready>,
    instance: Py<PyAny>,
    mount: String,
    root_path: Py<PyString>,
    lifespan_state: Py<PyDict>,
    asgi: Py<PyDict>,
    exchanges: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    way: Option<Way>,
    /// Bytes of a frame that is not whole.
    tail: Vec<u8>,
    out: Vec<u8>,
    /// The largest payload; 0 until WELCOME has come, and all frames are Python's.
    max_frame: usize,
    is_reading: bool,
    will_flush: bool,
}

/// The methods of the loop and its transport.
struct Way {
    write: Py<PyAny>,
    call_soon: Py<PyAny>,
    create_task: Py<PyAny>,
}

impl Way {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        let Self { write, call_soon, create_task } = self;
        Self { write: write.clone_ref(py), call_soon: call_soon.clone_ref(py), create_task: create_task.clone_ref(py) }
    }
}

#[pymethods]
impl Port {
    /// `asgi` is what every scope has under that name.
    #[new]
    fn new(link: &Bound<'_, PyAny>, server: &Bound<'_, PyAny>, asgi: Py<PyDict>) -> PyResult<Self> {
        let py = link.py();
        let instance = link.getattr("instance")?;
        let root_path = server.getattr("root_path")?.cast_into::<PyString>()?;
        Ok(Self {
            open: link.getattr("open")?.cast_into::<PyDict>()?.unbind(),
            link: link.clone().unbind(),
            server: server.clone().unbind(),
            app: server.getattr("app")?.unbind(),
            tasks: instance.getattr("tasks")?.cast_into::<PySet>()?.unbind(),
            nothing: Py::new(py, Ready::new(None))?,
            exchanges: instance.getattr("exchanges")?.extract()?,
            instance: instance.unbind(),
            mount: root_path.to_cow()?.into_owned(),
            root_path: root_path.unbind(),
            lifespan_state: server.getattr("state")?.cast_into::<PyDict>()?.unbind(),
            asgi,
            state: Mutex::default(),
        })
    }

    /// The connection is made.
    fn connected(&self, write: Py<PyAny>, call_soon: Py<PyAny>, create_task: Py<PyAny>) {
        self.state.lock().way = Some(Way { write, call_soon, create_task });
    }

    /// WELCOME has come.
    fn welcome(&self, max_frame: usize) {
        self.state.lock().max_frame = max_frame;
    }

    fn data_received(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let own = slf.get();
        own.state.lock().is_reading = true;
        let taken = own.take(slf, data);
        own.state.lock().is_reading = false;
        if let Err(error) = taken {
            own.link.bind(py).call_method1(intern!(py, "fail"), (error.into_value(py),))?;
        }
        own.flush(py)
    }

    /// Sends a final frame with those that others end with in this turn of the loop; the last one at once.
    fn finish(slf: &Bound<'_, Self>, frame: &[u8]) -> PyResult<()> {
        slf.get().append(&slf.clone().unbind(), slf.py(), |out| out.extend_from_slice(frame))
    }

    /// Sends what is finished.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state.lock();
        state.will_flush = false;
        if state.out.is_empty() {
            return Ok(());
        }
        let Some(way) = &state.way else { return Ok(()) };
        let write = way.write.clone_ref(py);
        let data = PyBytes::new(py, &state.out);
        state.out.clear();
        drop(state);
        write.call1(py, (data,))?;
        Ok(())
    }
}

impl Port {
    /// Handles the frames that are whole.
    fn take(&self, slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let mut tail = std::mem::take(&mut self.state.lock().tail);
        let joined = !tail.is_empty();
        if joined {
            tail.extend_from_slice(data);
        }
        let mut rest: &[u8] = if joined { &tail } else { data };
        loop {
            let max_frame = self.state.lock().max_frame;
            let limit = if max_frame == 0 { MAX_HELLO } else { max_frame };
            let Some((header, payload)) = whole_frame(rest, limit).map_err(|error| violation(py, &error))? else {
                break;
            };
            rest = &rest[HEADER_LEN + payload.len()..];
            if max_frame == 0 || self.is_draining(py)? || !self.begin(slf, header, payload)? {
                let arguments = (header.kind, header.flags, header.exchange, PyBytes::new(py, payload));
                self.link.bind(py).call_method1(intern!(py, "on_frame"), arguments)?;
            }
        }
        let rest = rest.to_vec();
        self.state.lock().tail = rest;
        Ok(())
    }

    fn is_draining(&self, py: Python<'_>) -> PyResult<bool> {
        self.instance.bind(py).getattr(intern!(py, "draining"))?.is_truthy()
    }

    /// Begins the exchange of an ordinary request; false for everything else, which is Python's to judge.
    fn begin(&self, slf: &Bound<'_, Self>, header: FrameHeader, payload: &[u8]) -> PyResult<bool> {
        let py = slf.py();
        let (number, open) = (header.exchange, self.open.bind(py));
        if header.kind != FrameType::REQUEST || !header.is_end() || number == 0 || open.len() >= self.exchanges {
            return Ok(false);
        }
        let Some(head) = Head::parse(payload) else { return Ok(false) };
        if !self.is_mounted(&head) || open.contains(number)? {
            return Ok(false);
        }
        let scope = crate::scope::of(
            py,
            &head,
            self.root_path.bind(py).clone(),
            self.lifespan_state.bind(py),
            self.asgi.bind(py),
        )?;
        let body = PyBytes::new(py, head.body).unbind();
        let exchange = Bound::new(py, Exchange::new(slf.clone().unbind(), number, scope.unbind(), body))?;
        open.set_item(number, &exchange)?;
        let create_task = self.way(py)?.create_task;
        Exchange::start(&exchange, create_task.bind(py))?;
        Ok(true)
    }

    fn way(&self, py: Python<'_>) -> PyResult<Way> {
        let way = self.state.lock().way.as_ref().map(|way| way.clone_ref(py));
        way.ok_or_else(|| PyRuntimeError::new_err("the connection is not made"))
    }

    /// As `Server.is_mounted`.
    fn is_mounted(&self, head: &Head<'_>) -> bool {
        if self.mount.is_empty() {
            return true;
        }
        let path = unquoted(head.path_and_query().0);
        let rest = path.strip_prefix(self.mount.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// The answer of an exchange that ends here.
    pub(super) fn answer(
        &self,
        slf: &Py<Self>,
        py: Python<'_>,
        number: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> PyResult<()> {
        self.open.bind(py).del_item(number)?; // P-15: the gateway may use the id again as soon as it sees the frame
        self.append(slf, py, write)
    }

    fn append(&self, slf: &Py<Self>, py: Python<'_>, write: impl FnOnce(&mut Vec<u8>)) -> PyResult<()> {
        let is_last = self.open.bind(py).is_empty();
        let mut state = self.state.lock();
        write(&mut state.out);
        if state.is_reading {
            return Ok(()); // it leaves when all that was read is begun
        }
        if is_last {
            drop(state);
            return self.flush(py);
        }
        if !state.will_flush {
            state.will_flush = true;
            drop(state);
            let flush = slf.bind(py).getattr(intern!(py, "flush"))?;
            self.way(py)?.call_soon.call1(py, (flush,))?;
        }
        Ok(())
    }

    /// An application has returned, after its answer.
    pub(super) fn has_ended(&self, py: Python<'_>, task: Option<Py<PyAny>>) -> PyResult<()> {
        if let Some(task) = task {
            self.tasks.bind(py).discard(task)?;
        }
        if self.is_draining(py)? {
            self.instance.bind(py).call_method0(intern!(py, "stir"))?;
        }
        Ok(())
    }
}
