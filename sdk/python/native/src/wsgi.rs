//! A call of a WSGI application whose answer fits one frame; longer and streamed ones are handed to Python.

use parking_lot::Mutex;
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::environ::Environs;
use crate::head::{Block, Head};
use crate::wire::Socket;

/// Header fields that belong to the connection, not to an application (PEP 3333).
const FORBIDDEN: [&str; 7] =
    ["connection", "keep-alive", "proxy-authenticate", "te", "trailers", "transfer-encoding", "upgrade"];

/// The application, and how it is called.
#[pyclass(frozen)]
pub(crate) struct Wsgi {
    app: Py<PyAny>,
    environs: Environs,
    /// `pilotlight.wsgi`, for what is not done here.
    module: Py<PyAny>,
    /// A lock to hold while the application runs, or None.
    gate: Option<Py<PyAny>>,
    small_bytes: usize,
}

#[pymethods]
impl Wsgi {
    #[new]
    fn new(
        app: Py<PyAny>,
        base: Bound<'_, PyDict>,
        mount: &str,
        module: Bound<'_, PyAny>,
        gate: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let small_bytes = module.getattr("SMALL_BYTES")?.extract()?;
        Ok(Self { app, environs: Environs::new(base, mount)?, module: module.unbind(), gate, small_bytes })
    }
}

/// What became of a request.
pub(crate) enum Outcome {
    /// Its answer is among the frames that leave next.
    Answered,
    /// Python has answered it, perhaps on another connection.
    Elsewhere,
}

impl Wsgi {
    /// Calls the application.
    pub(crate) fn answer(
        &self,
        py: Python<'_>,
        request: &Bound<'_, PyAny>,
        payload: &[u8],
        exchange: u16,
        socket: &Socket,
    ) -> PyResult<Outcome> {
        let head = Head::parse(payload).ok_or_else(|| PyValueError::new_err("P-8: a malformed head"))?;
        let Some(environ) = self.environs.make(&head, request)? else {
            self.module.bind(py).call_method1(intern!(py, "not_mounted"), (request,))?;
            return Ok(Outcome::Elsewhere);
        };
        let mut gate = match &self.gate {
            Some(gate) => Some(Gate::enter(gate.bind(py))?),
            None => None,
        };
        let call = Bound::new(py, Call::new(request, &self.module, py))?;
        let result = self.app.bind(py).call1((environ, &call))?;
        let body = Body { wsgi: self, request, call: call.get(), result: &result, is_head: head.method == b"HEAD" };
        match body.collect(&mut gate) {
            Ok(Some(pieces)) => {
                body.close();
                body.send(py, &pieces, exchange, socket)
            }
            Ok(None) => Ok(Outcome::Elsewhere),
            Err(error) => {
                body.close();
                Err(error)
            }
        }
    }
}

/// The lock of an application that takes one request at a time.
struct Gate<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Gate<'py> {
    fn enter(lock: &Bound<'py, PyAny>) -> PyResult<Self> {
        lock.call_method0(intern!(lock.py(), "acquire"))?;
        Ok(Self(Some(lock.clone())))
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if let Some(lock) = self.0.take()
            && let Err(error) = lock.call_method0(intern!(lock.py(), "release"))
        {
            error.display(lock.py());
        }
    }
}

/// What an application has returned.
struct Body<'a, 'py> {
    wsgi: &'a Wsgi,
    request: &'a Bound<'py, PyAny>,
    call: &'a Call,
    result: &'a Bound<'py, PyAny>,
    is_head: bool,
}

impl<'py> Body<'_, 'py> {
    /// The pieces of a body that is short and whose length is known; `None` if Python has sent it.
    fn collect(&self, gate: &mut Option<Gate<'py>>) -> PyResult<Option<Vec<Bound<'py, PyBytes>>>> {
        if self.result.is_instance_of::<PyList>() || self.result.is_instance_of::<PyTuple>() {
            let pieces = self.result.try_iter()?.map(|piece| bytes(piece?)).collect::<PyResult<_>>()?;
            self.call.check_started()?;
            return Ok(Some(pieces));
        }
        let mut pieces = self.result.try_iter()?;
        let mut first = None;
        for piece in pieces.by_ref() {
            let piece = bytes(piece?)?;
            if !piece.as_bytes().is_empty() {
                first = Some(piece); // PEP 3333: the head waits for the first piece
                break;
            }
        }
        let (status, length, has_written) = self.call.check_started()?;
        if self.is_head || matches!(status, 204 | 304) {
            return Ok(Some(Vec::new()));
        }
        match length {
            Some(length) if length <= self.wsgi.small_bytes && !has_written => {
                let rest = first.into_iter().map(Ok).chain(pieces.map(|piece| bytes(piece?)));
                whole(rest, length).map(Some)
            }
            _ => {
                let py = self.request.py();
                let headers = self.call.headers(py);
                let gate = gate.take().and_then(|mut gate| gate.0.take());
                let first = first.unwrap_or_else(|| PyBytes::new(py, b""));
                let arguments = (self.request, status, headers, first, pieces, length, self.result, gate);
                self.wsgi.module.bind(py).call_method1(intern!(py, "stream"), arguments)?;
                Ok(None)
            }
        }
    }

    /// Appends the answer's frame; what does not fit one is Python's.
    fn send(&self, py: Python<'_>, pieces: &[Bound<'_, PyBytes>], exchange: u16, socket: &Socket) -> PyResult<Outcome> {
        let slices: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        let (status, block) = self.call.take_block();
        if let Some(block) = block.filter(|block| block.fits(&slices)) {
            finish(self.request, exchange)?; // P-15: the gateway may use the id again as soon as it sees the frame
            socket.append(|out| block.answer(out, exchange, status, &slices));
            return Ok(Outcome::Answered);
        }
        let body = PyBytes::new(py, &slices.concat());
        self.request.call_method1(intern!(py, "_answer"), (status, self.call.headers(py), body))?;
        Ok(Outcome::Elsewhere)
    }

    /// Calls the iterable's close; an error there comes too late for the client, so it is only shown.
    fn close(&self) {
        let py = self.result.py();
        if let Ok(close) = self.result.getattr(intern!(py, "close"))
            && let Err(error) = close.call0()
        {
            error.display(py);
        }
    }
}

/// As `Request._finish`.
fn finish(request: &Bound<'_, PyAny>, exchange: u16) -> PyResult<()> {
    let py = request.py();
    request.setattr(intern!(py, "_done"), true)?;
    let open = request.getattr(intern!(py, "_source"))?.getattr(intern!(py, "open"))?;
    if open.contains(exchange)? {
        open.del_item(exchange)?;
    }
    Ok(())
}

fn bytes(piece: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyBytes>> {
    let py = piece.py();
    if let Ok(array) = piece.cast::<PyByteArray>() {
        return Ok(PyBytes::new(py, &array.to_vec()));
    }
    piece.cast_into::<PyBytes>().map_err(|_| PyTypeError::new_err("a piece of the body is no bytes"))
}

/// All pieces, if they are as long as content-length says.
fn whole<'py>(
    pieces: impl Iterator<Item = PyResult<Bound<'py, PyBytes>>>,
    length: usize,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let (mut found, mut total) = (Vec::new(), 0);
    for piece in pieces {
        let piece = piece?;
        total += piece.as_bytes().len();
        found.push(piece);
        if total > length {
            break;
        }
    }
    if total == length {
        return Ok(found);
    }
    Err(PyValueError::new_err(format!("the body has {total} bytes or more, its content-length says {length}")))
}

/// `start_response`, and what it was told.
#[pyclass(frozen)]
struct Call {
    request: Py<PyAny>,
    module: Py<PyAny>,
    state: Mutex<Started>,
}

#[derive(Default)]
struct Started {
    status: u16,
    headers: Option<Py<PyList>>,
    block: Option<Block>,
    length: Option<usize>,
    has_written: bool,
}

impl Call {
    fn new(request: &Bound<'_, PyAny>, module: &Py<PyAny>, py: Python<'_>) -> Self {
        Self { request: request.clone().unbind(), module: module.clone_ref(py), state: Mutex::default() }
    }

    /// The status, the length that the application has named, and whether it has called `write`.
    fn check_started(&self) -> PyResult<(u16, Option<usize>, bool)> {
        let state = self.state.lock();
        if state.headers.is_none() {
            return Err(PyAssertionError::new_err(
                "the application sent a body, or none, before it called start_response",
            ));
        }
        Ok((state.status, state.length, state.has_written))
    }

    /// The status, and the encoded fields unless `write` has sent them.
    fn take_block(&self) -> (u16, Option<Block>) {
        let mut state = self.state.lock();
        let block = state.block.take();
        (state.status, if state.has_written { None } else { block })
    }

    fn headers(&self, py: Python<'_>) -> Option<Py<PyList>> {
        self.state.lock().headers.as_ref().map(|headers| headers.clone_ref(py))
    }
}

#[pymethods]
impl Call {
    #[pyo3(signature = (status, headers, exc_info = None))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let call = slf.get();
        if let Some(info) = exc_info.filter(|info| !info.is_none()) {
            if call.request.bind(py).getattr(intern!(py, "_begun"))?.is_truthy()? {
                return Err(PyErr::from_value(info.get_item(1)?));
            }
        } else if call.state.lock().headers.is_some() {
            return Err(PyAssertionError::new_err("start_response was called before; a second call needs exc_info"));
        }
        let number = status_number(status)?;
        let list = PyList::empty(py);
        let (mut block, mut length) = (Block::default(), None);
        for field in headers.try_iter()? {
            let field = field?;
            let (name, value) = field.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            let (Ok(name), Ok(value)) = (name.cast::<PyString>(), value.cast::<PyString>()) else {
                return Err(PyTypeError::new_err(format!("the header {name:?} and its value must be str")));
            };
            let (name, value) = (name.to_cow()?, value.to_cow()?);
            if FORBIDDEN.iter().any(|one| one.eq_ignore_ascii_case(&name)) {
                let text = format!("the header {name} belongs to the connection, not to an application (PEP 3333)");
                return Err(PyValueError::new_err(text));
            }
            if name.eq_ignore_ascii_case("content-length") && length.is_none() {
                let wrong = |_| PyValueError::new_err(format!("the content-length is {value:?}"));
                length = Some(value.trim().parse().map_err(wrong)?);
            }
            block.push_text(&name, &value)?;
            list.append(field)?;
        }
        let headers = Some(list.unbind());
        let mut state = call.state.lock();
        let has_written = state.has_written;
        *state = Started { status: number, headers, block: Some(block), length, has_written };
        drop(state);
        slf.getattr(intern!(py, "write"))
    }

    /// What `start_response` returns: sends at once.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        if data.is_truthy()? {
            let mut state = self.state.lock();
            state.has_written = true;
            let (status, headers) = (state.status, state.headers.as_ref().map(|headers| headers.clone_ref(py)));
            drop(state);
            self.module.bind(py).call_method1(intern!(py, "write"), (&self.request, status, headers, data))?;
        }
        Ok(())
    }
}

fn status_number(status: &Bound<'_, PyAny>) -> PyResult<u16> {
    let number = status.cast::<PyString>().ok().and_then(|text| {
        let text = text.to_cow().ok()?;
        let (digits, rest) = text.split_at_checked(3)?;
        let fit = digits.bytes().all(|byte| byte.is_ascii_digit()) && (rest.is_empty() || rest.starts_with(' '));
        digits.parse().ok().filter(|number: &u16| fit && *number >= 200)
    });
    number.ok_or_else(|| PyValueError::new_err(format!("the status is {status:?}, it must be like '200 OK'")))
}
