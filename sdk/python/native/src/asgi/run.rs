//! The application of an exchange, as its task steps it.

use parking_lot::Mutex;
use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

use super::exchange::Exchange;

/// The coroutine of a task: calls the application, passes on what it waits for, and ends the exchange as it ends.
#[pyclass(frozen)]
pub(super) struct Run {
    exchange: Py<Exchange>,
    /// `None` before the first step and after the last.
    steps: Mutex<Option<Py<PyAny>>>,
}

impl Run {
    pub(super) fn new(exchange: Py<Exchange>) -> Self {
        Self { exchange, steps: Mutex::default() }
    }

    fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let known = self.steps.lock().as_ref().map(|steps| steps.clone_ref(py).into_bound(py));
        let steps = match known {
            Some(steps) => steps,
            None => {
                let steps = Exchange::call(self.exchange.bind(py))?.call_method0(intern!(py, "__await__"))?;
                *self.steps.lock() = Some(steps.clone().unbind());
                steps
            }
        };
        match steps.cast_into::<PyIterator>() {
            Ok(mut steps) => steps.next().transpose(),
            Err(error) => Err(error.into()),
        }
    }

    /// What the application waits for; `None` if it has ended.
    fn told<'py>(&self, py: Python<'py>, step: PyResult<Option<Bound<'py, PyAny>>>) -> Option<Bound<'py, PyAny>> {
        let error = match step {
            Ok(Some(waits_for)) => return Some(waits_for),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let steps = self.steps.lock().take();
        drop(steps); // what the application's frames hold may run code as it goes
        Exchange::end(self.exchange.bind(py), error);
        None
    }
}

#[pymethods]
impl Run {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.told(py, self.step(py))
    }

    fn send<'py>(&self, py: Python<'py>, _value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.told(py, self.step(py)).ok_or_else(|| PyStopIteration::new_err(()))
    }

    #[pyo3(signature = (*error))]
    fn throw<'py>(&self, py: Python<'py>, error: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let steps = self.steps.lock().as_ref().map(|steps| steps.clone_ref(py).into_bound(py));
        let throw = steps.and_then(|steps| steps.getattr(intern!(py, "throw")).ok());
        let step = match throw {
            Some(throw) => match throw.call1(error) {
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
                step => step.map(Some),
            },
            None => Err(PyErr::from_value(error.get_item(0)?)),
        };
        self.told(py, step).ok_or_else(|| PyStopIteration::new_err(()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let steps = self.steps.lock().take().map(|steps| steps.into_bound(py));
        if let Some(close) = steps.and_then(|steps| steps.getattr(intern!(py, "close")).ok()) {
            close.call0()?;
        }
        Ok(())
    }
}
