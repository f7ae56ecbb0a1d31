//! One exchange as its application sees it: its scope, `receive` and `send`.

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::answer;
use super::port::Port;
use super::ready::Ready;
use super::run::Run;
use crate::head::Block;

const NO_BODY: [u16; 2] = [204, 304];

/// A request that is done here while it is ordinary. To Python's `Link` it is an exchange that has ended its body and
/// has sent nothing.
#[pyclass(frozen)]
pub(super) struct Exchange {
    port: Py<Port>,
    number: u16,
    scope: Py<PyDict>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the application has not received.
    body: Option<Py<PyBytes>>,
    start: Option<Start>,
    is_done: bool,
    task: Option<Py<PyAny>>,
    /// Who goes on with it.
    python: Option<Py<PyAny>>,
}

/// `http.response.start`.
struct Start {
    status: u16,
    block: Block,
    length: Option<usize>,
    is_silent: bool,
}

impl Exchange {
    pub(super) fn new(port: Py<Port>, number: u16, scope: Py<PyDict>, body: Py<PyBytes>) -> Self {
        let state = State { body: Some(body), ..State::default() };
        Self { port, number, scope, state: Mutex::new(state) }
    }

    /// Makes the task, which `create` begins at once or in the next turn of the loop.
    pub(super) fn start(slf: &Bound<'_, Self>, create: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let own = slf.get();
        let task = create.call1((Run::new(slf.clone().unbind()),))?;
        let mut state = own.state.lock();
        let has_ended = state.is_done && state.python.is_none();
        let python = state.python.as_ref().map(|python| python.clone_ref(py));
        if !has_ended {
            state.task = Some(task.clone().unbind());
        }
        drop(state);
        if let Some(python) = python {
            python.setattr(py, intern!(py, "task"), &task)?;
        }
        if !has_ended && !task.call_method0(intern!(py, "done"))?.is_truthy()? {
            own.port.get().tasks.bind(py).add(task)?;
        }
        Ok(())
    }

    /// Calls the application.
    pub(super) fn call<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (receive, send) = (slf.getattr(intern!(py, "receive"))?, slf.getattr(intern!(py, "send"))?);
        slf.get().port.get().app.bind(py).call1((slf.get().scope.bind(py), receive, send))
    }

    /// The application has returned, or raised.
    pub(super) fn end(slf: &Bound<'_, Self>, error: Option<PyErr>) {
        if let Err(error) = Self::try_end(slf, error) {
            error.display(slf.py()); // a bug of ours: what applications raise does not come here
        }
    }

    fn try_end(slf: &Bound<'_, Self>, error: Option<PyErr>) -> PyResult<()> {
        let py = slf.py();
        let own = slf.get();
        let is_all = error.is_none() && {
            let state = own.state.lock();
            state.is_done && state.python.is_none()
        };
        if is_all {
            let task = own.state.lock().task.take();
            return own.port.get().has_ended(py, task);
        }
        let python = Self::hand_over(slf)?;
        python.call_method1(intern!(py, "end"), (error.map(|error| error.into_value(py)),))?;
        let mut state = own.state.lock();
        state.is_done = true;
        let held = (state.python.take(), state.task.take()); // they hold the task, which holds this
        drop(state);
        drop(held);
        Ok(())
    }

    /// The exchange in Python, which goes on with it.
    fn hand_over<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let own = slf.get();
        if let Some(python) = own.python(py) {
            return Ok(python);
        }
        let port = own.port.get();
        let python = port.server.bind(py).call_method1(intern!(py, "take_over"), (&port.link, slf))?;
        let mut state = own.state.lock();
        state.python = Some(python.clone().unbind());
        if !state.is_done {
            drop(state);
            port.open.bind(py).set_item(own.number, &python)?;
        }
        Ok(python)
    }

    fn python<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.state.lock().python.as_ref().map(|python| python.bind(py).clone())
    }

    /// The start of an answer; whether there was nothing unusual about it.
    fn take_start(&self, message: &Bound<'_, PyDict>) -> PyResult<bool> {
        let py = message.py();
        if message.contains(intern!(py, "trailers"))? {
            return Ok(false);
        }
        let Some(status) = message.get_item(intern!(py, "status"))? else { return Ok(false) };
        let status: u16 = match status.extract() {
            Ok(status) if (200..=999).contains(&status) => status,
            _ => return Ok(false),
        };
        let found = match message.get_item(intern!(py, "headers"))? {
            Some(headers) if headers.hasattr(intern!(py, "__len__"))? => answer::block(&headers)?,
            Some(_) => None, // an iterator can be read once only
            None => Some((Block::default(), None)),
        };
        let Some((block, length)) = found else { return Ok(false) };
        let method = self.scope.bind(py).get_item(intern!(py, "method"))?;
        let is_head = method.is_some_and(|method| method.eq(intern!(py, "HEAD")).unwrap_or(false));
        let is_silent = is_head || NO_BODY.contains(&status);
        let length = length.filter(|_| !is_silent);
        self.state.lock().start = Some(Start { status, block, length, is_silent });
        Ok(true)
    }

    /// The body of an answer; whether it was all, and fits.
    fn take_body(&self, message: &Bound<'_, PyDict>) -> PyResult<bool> {
        let py = message.py();
        if message.get_item(intern!(py, "more_body"))?.is_some_and(|more| more.is_truthy().unwrap_or(true)) {
            return Ok(false);
        }
        let body = message.get_item(intern!(py, "body"))?;
        let data: &[u8] = match &body {
            None => b"",
            Some(body) => match body.cast::<PyBytes>() {
                Ok(bytes) => bytes.as_bytes(),
                Err(_) => return Ok(false),
            },
        };
        let mut state = self.state.lock();
        let Some(start) = state.start.take() else { return Ok(false) };
        let pieces = [if start.is_silent { b"" } else { data }];
        if start.length.is_some_and(|length| length != data.len()) || !start.block.fits(&pieces) {
            state.start = Some(start);
            return Ok(false);
        }
        state.is_done = true;
        drop(state);
        let write = |out: &mut Vec<u8>| start.block.answer(out, self.number, start.status, &pieces);
        self.port.get().answer(&self.port, py, self.number, write)?;
        Ok(true)
    }
}

#[pymethods]
impl Exchange {
    fn receive<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let mut state = slf.get().state.lock();
        if state.python.is_none() {
            let kind = if let Some(body) = state.body.take().filter(|_| !state.is_done) {
                drop(state);
                let message = PyDict::new(py);
                message.set_item(intern!(py, "type"), intern!(py, "http.request"))?;
                message.set_item(intern!(py, "body"), body)?;
                message.set_item(intern!(py, "more_body"), false)?;
                Some(message)
            } else if state.is_done {
                drop(state);
                let message = PyDict::new(py);
                message.set_item(intern!(py, "type"), intern!(py, "http.disconnect"))?;
                Some(message)
            } else {
                drop(state);
                None
            };
            if let Some(message) = kind {
                return Ok(Bound::new(py, Ready::new(Some(message.into_any().unbind())))?.into_any());
            }
        } else {
            drop(state);
        }
        Self::hand_over(slf)?.call_method0(intern!(py, "receive"))
    }

    fn send<'py>(slf: &Bound<'py, Self>, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let own = slf.get();
        let (is_ordinary, has_started) = {
            let state = own.state.lock();
            (state.python.is_none() && !state.is_done, state.start.is_some())
        };
        if is_ordinary && let Ok(message) = message.cast::<PyDict>() {
            let kind = message.get_item(intern!(py, "type"))?;
            let is_kind = |name: &Bound<'_, PyString>| kind.as_ref().is_some_and(|kind| kind.eq(name).unwrap_or(false));
            let is_taken = if has_started {
                is_kind(intern!(py, "http.response.body")) && own.take_body(message)?
            } else {
                is_kind(intern!(py, "http.response.start")) && own.take_start(message)?
            };
            if is_taken {
                return Ok(own.port.get().nothing.bind(py).clone().into_any());
            }
        }
        Self::hand_over(slf)?.call_method1(intern!(py, "send"), (message,))
    }

    /// The client has gone, or nothing is begun any more.
    fn cut(slf: &Bound<'_, Self>, code: u16) -> PyResult<()> {
        Self::hand_over(slf)?.call_method1(intern!(slf.py(), "cut"), (code,))?;
        Ok(())
    }

    #[getter]
    fn ended(&self) -> bool {
        true
    }

    #[setter]
    fn set_ended(&self, _ended: &Bound<'_, PyAny>) {}

    #[getter]
    fn begun(&self) -> bool {
        false
    }

    #[getter]
    fn offered(&self) -> bool {
        false
    }

    #[getter]
    fn done(&self) -> bool {
        self.state.lock().is_done
    }

    #[getter]
    fn number(&self) -> u16 {
        self.number
    }

    #[getter]
    fn scope(&self, py: Python<'_>) -> Py<PyDict> {
        self.scope.clone_ref(py)
    }

    /// What the application has not received; None if it has all.
    #[getter]
    fn body(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.state.lock().body.as_ref().map(|body| body.clone_ref(py))
    }

    #[getter]
    fn task(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.lock().task.as_ref().map(|task| task.clone_ref(py))
    }

    /// Status, encoded fields, and what content-length says, if the answer has been started.
    #[getter]
    fn head<'py>(&self, py: Python<'py>) -> Option<(u16, Bound<'py, PyBytes>, Option<usize>)> {
        let state = self.state.lock();
        state.start.as_ref().map(|start| (start.status, PyBytes::new(py, start.block.as_bytes()), start.length))
    }
}
