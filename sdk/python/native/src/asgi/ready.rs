//! What `receive` and `send` return where there is nothing to wait for.

use parking_lot::Mutex;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// An awaitable that is ready. It passes for a coroutine (`collections.abc.Coroutine`), so that it can be a task's.
#[pyclass(frozen)]
pub(super) struct Ready(Mutex<Option<Py<PyAny>>>);

impl Ready {
    /// Its result is `value`; without one None, as often as it is awaited.
    pub(super) fn new(value: Option<Py<PyAny>>) -> Self {
        Self(Mutex::new(value))
    }
}

#[pymethods]
impl Ready {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Option<Py<PyAny>>> {
        match self.0.lock().take() {
            Some(value) => Err(PyStopIteration::new_err((value,))),
            None => Ok(None),
        }
    }

    fn send(&self, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyStopIteration::new_err((self.0.lock().take(),)))
    }

    #[pyo3(signature = (*error))]
    fn throw(&self, error: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(PyErr::from_value(error.get_item(0)?))
    }

    fn close(&self) {}
}
